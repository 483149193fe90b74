//! Proves to a linerate server that a data connection is this client's, with the nonce of the server's response.
//! The nonce is in no count and no time.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use engine::{ConnectError, Finish, Flow, Ran, Reason, Role, Stop, connect, data_socket};
use model::{FlowPlan, SocketOptions, Transport};
use server::Nonce;
use sys::call::{self, Error};
use sys::{Address, Socket};

use super::super::ClientError;
use super::super::interim::Progress;
use super::{LocalEnd, unreachable};
use crate::options::ConnectionPorts;

/// How long the server may take to accept a separate nonce.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a client proves its data connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Way {
    /// The data connection begins with the nonce.
    AtTheBeginning,
    /// A separate connection brings it before the data.
    Apart,
}

impl Way {
    /// Returns the way for a plan; `None` if its transport has no reliable connection per socket.
    ///
    /// At the beginning of the data the nonce must not change the measurement: no request may wait for its
    /// acknowledgement, and Fast Open must carry the first request.
    pub(in super::super) fn of(plan: &FlowPlan) -> Option<Self> {
        let socket = &plan.here.socket;
        match plan.transport {
            // A lost nonce would not be sent again.
            Transport::Dccp | Transport::SctpMany => None,
            transport if !transport.has_connections() => None,
            Transport::Sctp | Transport::Mptcp => Some(Self::Apart),
            _ if plan.workload.connects() || socket.fast_open || socket.cork => Some(Self::Apart),
            _ => Some(Self::AtTheBeginning),
        }
    }
}

impl LocalEnd<'_> {
    /// Sends the nonce on the data connection; `Some` if the test ended before.
    pub(super) fn prove(&self, nonce: &Nonce, stop: &Stop) -> Result<Option<Ran>, Error> {
        // With the first data in one segment, which Nagle's algorithm would hold back otherwise (RFC 896).
        let send = if self.sends_first() && self.plan.transport == Transport::Tcp {
            call::send_before_more
        } else {
            call::send
        };
        send_nonce(&self.data.socket, nonce, send, stop)
    }

    /// Sends the nonce on a separate connection and waits until the server has read it.
    pub(super) fn prove_apart(
        &self,
        nonce: &Nonce,
        dest: &Address,
        ports: ConnectionPorts,
        cancel: &Stop,
        progress: Progress<'_>,
    ) -> Result<(), ClientError> {
        let (stop, _deadline) = cancel.follower_until(Instant::now() + PATIENCE);
        let late = || match stop.reason() {
            Some(Reason::Deadline) => Err(unreachable(dest, Error::TIMEDOUT.into())),
            _ => Ok(()),
        };
        let Some(socket) = self.connection_of_proof(dest, ports, &stop)? else {
            return late();
        };
        progress.answer.came();
        let sent = send_nonce(&socket, nonce, call::send, &stop);
        sent.map_err(|error| unreachable(dest, error.into()))?;
        let taken = Finish::AwaitClose.say(&Flow::Connected(socket.as_fd()), &stop);
        if taken.is_err() {
            late()?;
        }
        // A reset leaves nothing behind, so that the data can use the same port.
        let _ = socket.set_linger(Some(Duration::ZERO));
        Ok(())
    }

    /// Opens a connection from a port that the data may use too, because a firewall may block others; from any port
    /// if that one is taken.
    fn connection_of_proof(
        &self,
        dest: &Address,
        ports: ConnectionPorts,
        stop: &Stop,
    ) -> Result<Option<Socket>, ClientError> {
        let plan = self.plan;
        let options = SocketOptions {
            dont_route: plan.here.socket.dont_route,
            ..SocketOptions::default()
        };
        if plan.workload.connects() {
            let mut connector = self.connector(dest, ports, options)?;
            return connector
                .connect(stop)
                .map_err(|error| unreachable(dest, error));
        }
        let open = |from: &Address| data_socket(plan.transport, from, &options, Role::Initiator);
        let anywhere = self.source.with_any_port();
        let socket = open(&self.source)
            .or_else(|_| open(&anywhere))
            .map_err(|error| ClientError::DataSocket {
                address: anywhere,
                error,
            })?;
        match connect(&socket, dest, stop) {
            Ok(()) => Ok(Some(socket)),
            Err(ConnectError::Failed(error)) => Err(unreachable(dest, error)),
            Err(ConnectError::Stopped(_)) => Ok(None),
        }
    }
}

/// Sends the nonce, which a new connection always has room for.
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
