//! Proves to a linerate server that a data connection is this client's, with the nonce in the
//! server's response. No count and no time includes the nonce.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use engine::{
    ConnectError, FinishMethod, FlowSockets, LoopResult, Role, Stop, StopReason, connect,
    open_data_socket,
};
use model::{FlowPlan, SocketOptions, Transport};
use server::Nonce;
use sys::call::{self, Error};
use sys::{Address, Socket};

use super::super::ClientError;
use super::super::interim::Progress;
use super::{LocalEnd, connect_error};
use crate::options::ConnectionPorts;

/// Time for the server to accept a separate nonce.
const PROOF_TIMEOUT: Duration = Duration::from_secs(20);

/// How a client proves its data connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum ProofMethod {
    /// The data connection begins with the nonce.
    InBand,
    /// A separate connection carries the nonce before the data.
    SeparateConnection,
}

impl ProofMethod {
    /// Returns the method for a plan; `None` if its transport has no reliable connection per
    /// socket.
    ///
    /// A nonce in the data connection must not change the measurement. No request may wait for
    /// the acknowledgement of the nonce, and Fast Open must carry the first request.
    pub(in super::super) fn for_plan(plan: &FlowPlan) -> Option<Self> {
        let socket = &plan.local.socket;
        match plan.transport {
            // A lost nonce would not be sent again.
            Transport::Dccp | Transport::SctpMany => None,
            transport if !transport.has_connections() => None,
            Transport::Sctp | Transport::Mptcp => Some(Self::SeparateConnection),
            _ if plan.workload.connects() || socket.fast_open || socket.cork => {
                Some(Self::SeparateConnection)
            }
            _ => Some(Self::InBand),
        }
    }
}

impl LocalEnd<'_> {
    /// Sends the nonce on the data connection. Returns `Some` if the test ended first.
    pub(super) fn send_proof(
        &self,
        nonce: &Nonce,
        stop: &Stop,
    ) -> Result<Option<LoopResult>, Error> {
        // Nonce and first data share a segment. Otherwise Nagle's algorithm would delay the data
        // (RFC 896).
        let send = if self.sends_first() && self.plan.transport == Transport::Tcp {
            call::send_before_more
        } else {
            call::send
        };
        send_nonce(&self.data.socket, nonce, send, stop)
    }

    /// Sends the nonce on a separate connection and waits until the server has read it.
    pub(super) fn send_separate_proof(
        &self,
        nonce: &Nonce,
        dest: &Address,
        ports: ConnectionPorts,
        cancel: &Stop,
        progress: Progress<'_>,
    ) -> Result<(), ClientError> {
        let (stop, _deadline) = cancel.child_until(Instant::now() + PROOF_TIMEOUT);
        let timeout_error = || match stop.reason() {
            Some(StopReason::Deadline) => Err(connect_error(dest, Error::TIMEDOUT.into())),
            _ => Ok(()),
        };
        let Some(socket) = self.open_proof_connection(dest, ports, &stop)? else {
            return timeout_error();
        };
        progress.answer.record_answer();
        let sent = send_nonce(&socket, nonce, call::send, &stop);
        sent.map_err(|error| connect_error(dest, error.into()))?;
        let closed = FinishMethod::AwaitClose.run(&FlowSockets::Connected(socket.as_fd()), &stop);
        if closed.is_err() {
            timeout_error()?;
        }
        // A reset leaves no connection in TIME_WAIT, so that the data can use the same port.
        let _ = socket.set_linger(Some(Duration::ZERO));
        Ok(())
    }

    /// Opens a connection for the nonce, from a port of the data because a firewall may block
    /// others. If that port is in use, from any port.
    fn open_proof_connection(
        &self,
        dest: &Address,
        ports: ConnectionPorts,
        stop: &Stop,
    ) -> Result<Option<Socket>, ClientError> {
        let plan = self.plan;
        let options = SocketOptions {
            dont_route: plan.local.socket.dont_route,
            ..SocketOptions::default()
        };
        if plan.workload.connects() {
            let mut connector = self.connector(dest, ports, options)?;
            return connector
                .connect(stop)
                .map_err(|error| connect_error(dest, error));
        }
        let open =
            |from: &Address| open_data_socket(plan.transport, from, &options, Role::Initiator);
        let any_port = self.source.with_any_port();
        let socket = open(&self.source)
            .or_else(|_| open(&any_port))
            .map_err(|error| ClientError::DataSocket {
                address: any_port,
                error,
            })?;
        match connect(&socket, dest, stop) {
            Ok(()) => Ok(Some(socket)),
            Err(ConnectError::Failed(error)) => Err(connect_error(dest, error)),
            Err(ConnectError::Stopped(_)) => Ok(None),
        }
    }
}

/// Sends the nonce. The buffer of a new connection always has space for it.
fn send_nonce(
    socket: &Socket,
    nonce: &Nonce,
    send: impl Fn(BorrowedFd<'_>, &[u8]) -> Result<usize, Error>,
    stop: &Stop,
) -> Result<Option<LoopResult>, Error> {
    let _registration = stop.register_thread();
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
