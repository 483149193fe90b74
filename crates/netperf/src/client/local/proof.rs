//! Proves to a linerate server that this end's data is the client's: by the nonce of its response, outside of
//! all that is counted.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use engine::{Finish, Path, Ran, Reason, Role, Stop, connect, data_socket, keeper};
use model::{Plan, SocketOptions, Transport};
use rand::Rng;
use server::Nonce;
use sys::call::{self, Error};
use sys::{Address, Socket};

use super::super::ClientError;
use super::{LocalEnd, unreachable};
use crate::options::ConnectionPorts;

/// How long the server has to take a nonce that comes apart.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a test proves whose its data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Way {
    /// The data connection begins with the nonce.
    AtTheBeginning,
    /// A connection of its own brings it before the data.
    Apart,
}

impl Way {
    /// The way for a plan's test; `None` without a connection of which the server could take a nonce.
    ///
    /// At the beginning of the data it must not change what is measured: no request may wait for its
    /// acknowledgement, and with Fast Open a request is to leave with the first segment.
    pub(in super::super) fn of(plan: &Plan) -> Option<Self> {
        let socket = &plan.here.socket;
        match plan.transport {
            // A lost one would be waited for.
            Transport::Dccp | Transport::SctpMany => None,
            transport if !transport.has_connections() => None,
            Transport::Sctp | Transport::Mptcp => Some(Self::Apart),
            _ if plan.workload.connects() || socket.fast_open || socket.cork => Some(Self::Apart),
            _ => Some(Self::AtTheBeginning),
        }
    }
}

impl LocalEnd<'_> {
    /// Sends the nonce on the data connection; `Some` if the test's time was up before.
    pub(super) fn prove(&self, nonce: &Nonce, stop: &Stop) -> Result<Option<Ran>, Error> {
        // It leaves with the first data, which else would wait for its acknowledgement (RFC 896).
        let send = if self.sends_first() && self.plan.transport == Transport::Tcp {
            call::send_before_more
        } else {
            call::send
        };
        send_nonce(&self.data.socket, nonce, send, stop)
    }

    /// Brings the nonce on a connection of its own, and waits until the server has it.
    pub(super) fn prove_apart(
        &self,
        nonce: &Nonce,
        dest: &Address,
        ports: ConnectionPorts,
        cancel: &Stop,
    ) -> Result<(), ClientError> {
        let stop = cancel.follower();
        let _deadline = keeper().at(Instant::now() + PATIENCE, &stop);
        let socket = self.socket_of_proof(ports)?;
        if let Some(Ran {
            failure: Some((_, errno)),
            ..
        }) = connect(&socket, dest, &stop)
        {
            return Err(unreachable(dest, io::Error::from_raw_os_error(errno)));
        }
        let sent = send_nonce(&socket, nonce, call::send, &stop);
        sent.map_err(|error| unreachable(dest, error.into()))?;
        let taken = Finish::AwaitClose.say(&Path::Connected(socket.as_fd()), &stop);
        if !taken && stop.reason() == Some(Reason::Deadline) {
            return Err(unreachable(dest, Error::TIMEDOUT.into()));
        }
        // Nothing of it remains: the data may come from the same port.
        let _ = socket.set_linger(Some(Duration::ZERO));
        Ok(())
    }

    /// Bound to a port that the data may come from, as a firewall may let no other pass; to any other if that is
    /// taken.
    fn socket_of_proof(&self, ports: ConnectionPorts) -> Result<Socket, ClientError> {
        let plan = self.plan;
        let options = SocketOptions {
            dont_route: plan.here.socket.dont_route,
            ..SocketOptions::default()
        };
        let port = if plan.workload.connects() {
            let last = ports.max.saturating_sub(1).max(ports.min);
            rand::rng().random_range(ports.min..=last).into()
        } else {
            self.source.port()
        };
        let bind = self
            .source
            .with_port(port)
            .unwrap_or_else(|| self.source.clone());
        let open = |bind: &Address| data_socket(plan.transport, bind, &options, Role::Initiator);
        let anywhere = bind.with_any_port();
        let socket = open(&bind).or_else(|_| open(&anywhere));
        socket.map_err(|error| ClientError::DataSocket {
            address: anywhere,
            error,
        })
    }
}

/// It always has room in a new connection.
fn send_nonce(
    socket: &Socket,
    nonce: &Nonce,
    send: impl Fn(BorrowedFd<'_>, &[u8]) -> Result<usize, Error>,
    stop: &Stop,
) -> Result<Option<Ran>, Error> {
    let _attending = stop.attend();
    loop {
        match send(socket.as_fd(), nonce) {
            Ok(_) => return Ok(None),
            Err(Error::INTR) => {}
            Err(error) => return Err(error),
        }
        if let Some(reason) = stop.reason() {
            return Ok(Some(reason.into()));
        }
    }
}
