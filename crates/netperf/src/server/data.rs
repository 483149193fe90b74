//! Verifies that a test's data comes from its client: by the data connection, or by the source of
//! datagrams.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine::FlowSockets;
use model::Limit;
use server::{AcceptedConnection, DataPeer, Nonce, PeerPolicy};
use sys::call::{self, Error, KernelAddress};
use sys::datagram::{self, NextDatagram, SenderCredentials};
use sys::{Address, Socket};

use super::assignment::TestError;
use super::log::warn;
use super::test::{PreparedTest, RunContext, check_wait, duplicate};
use super::wait;

/// The time for which a test waits for its client's datagrams after the first one from another
/// address.
pub(super) const REFUSED_DATAGRAM_WAIT: Duration = Duration::from_secs(2);

/// A nonce that only the client has, and where it arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionProof {
    pub(super) nonce: Nonce,
    /// Whether the nonce arrives on a separate connection before the data connection, which must
    /// come from the same host. Otherwise the data connection begins with the nonce.
    pub(super) is_separate: bool,
}

/// A datagram socket, and how it sends.
#[derive(Debug)]
pub(super) struct DatagramFlow {
    pub(super) socket: Socket,
    method: ReplyMethod,
}

#[derive(Debug)]
enum ReplyMethod {
    /// Through a connected socket. Also for tests that only receive.
    Connected,
    /// To this address.
    To(KernelAddress),
    /// To this address, from this local address.
    ToFrom(KernelAddress, IpAddr),
}

impl DatagramFlow {
    /// Returns the sockets for the engine.
    pub(super) fn sockets(&self) -> FlowSockets<'_> {
        let socket = self.socket.as_fd();
        match &self.method {
            ReplyMethod::Connected => FlowSockets::Connected(socket),
            ReplyMethod::To(to) => FlowSockets::Addressed(socket, to.clone()),
            ReplyMethod::ToFrom(to, from) => FlowSockets::AddressedFrom(socket, to.clone(), *from),
        }
    }
}

/// Sets whether a socket reports the addresses that responses need. These are the destination of a
/// datagram if the socket is bound to the wildcard, and the sender in the Unix domain.
pub(super) fn report_datagram_addresses(socket: &Socket, enable: bool) -> io::Result<()> {
    match Address::local(socket)? {
        Address::Unix(_) => datagram::report_senders(socket.as_fd(), enable),
        bound @ Address::Inet(_) if bound.is_wildcard() => {
            datagram::report_destinations(socket.as_fd(), bound.is_ipv6(), enable)
        }
        _ => Ok(()),
    }
}

impl PreparedTest {
    /// Accepts the data connection, or the first one of a connection test.
    pub(super) fn accept_connection(
        &self,
        context: &RunContext<'_>,
    ) -> Result<AcceptedConnection, TestError> {
        let RunContext {
            peer, stop, limits, ..
        } = *context;
        let accept = |peer: &DataPeer<'_>, nonce: Option<&Nonce>| {
            let deadline = Instant::now() + limits.data_wait;
            let log_refused = |from: &Address| {
                warn(format_args!(
                    "{}: refused a data connection from {from}",
                    peer.control
                ));
            };
            server::accept_data(&self.data.socket, peer, nonce, deadline, stop, &log_refused)
        };
        match &self.proof {
            Some(proof) if proof.is_separate => {
                let source = accept(peer, Some(&proof.nonce))?.from;
                let same_host = DataPeer {
                    control: &source,
                    requested: None,
                    is_on_other_network: false,
                    policy: PeerPolicy {
                        is_strict: true,
                        ..peer.policy.clone()
                    },
                };
                Ok(accept(&same_host, None)?)
            }
            Some(proof) => Ok(accept(peer, Some(&proof.nonce))?),
            None => {
                let accepted = accept(peer, None)?;
                if let Limit::Time(length) = self.assignment.limit {
                    check_wait(accepted.waited, length, context)?;
                }
                if accepted.is_unexpected {
                    warn(format_args!(
                        "{}: the data connection comes from another address, {}; the test is {} ms \
                         shorter, because the server waited for the client's address",
                        peer.control,
                        accepted.from,
                        accepted.waited.as_millis()
                    ));
                }
                Ok(accepted)
            }
        }
    }

    /// Finds the client's end of a datagram test, and returns the time for which its connection
    /// waited, if it has one.
    pub(super) fn datagram_flow(
        &self,
        context: &RunContext<'_>,
    ) -> Result<(DatagramFlow, Duration), TestError> {
        let peer = context.peer;
        let assignment = &self.assignment;
        if assignment.transport.has_connections() {
            let accepted = self.accept_connection(context)?;
            let (socket, method) = (accepted.socket, ReplyMethod::Connected);
            return Ok((DatagramFlow { socket, method }, accepted.waited));
        }
        let socket = duplicate(&self.data.socket)?;
        let method = if !assignment.workload.receives() {
            let client = assignment.client_data.as_ref().ok_or(Error::DESTADDRREQ)?;
            if !peer.may_send_to(client) {
                return Err(Error::ACCESS.into());
            }
            KernelAddress::try_from(client).map(ReplyMethod::To)
        } else if assignment.workload.sends() {
            let first = await_client_datagram(&socket, context, |next| {
                next.from
                    .as_ref()
                    .is_some_and(|from| peer.may_send_to(from))
            })?;
            reply_method(&socket, &first)
        } else {
            let first = await_client_datagram(&socket, context, |next| {
                let is_expected = next.from.as_ref().is_none_or(|from| peer.expects(from));
                // An empty datagram would end the test.
                is_expected || !(peer.policy.is_strict || next.is_empty)
            })?;
            self.connect_to_client(&socket, &first, peer)
                .map(|()| ReplyMethod::Connected)
        };
        let method = method.map_err(|error| TestError::from_io(&error))?;
        Ok((DatagramFlow { socket, method }, Duration::ZERO))
    }

    /// Connects a socket that only receives to its client, so that the kernel drops other
    /// datagrams.
    fn connect_to_client(
        &self,
        socket: &Socket,
        first: &NextDatagram,
        peer: &DataPeer<'_>,
    ) -> io::Result<()> {
        let Some(from @ Address::Inet(_)) = &first.from else {
            return Ok(());
        };
        if !peer.expects(from) {
            warn(format_args!(
                "{}: the datagrams come from another address, {from}; \
                 the server counts datagrams from all addresses",
                peer.control
            ));
            return Ok(());
        }
        let is_requested = self.assignment.endpoint.socket.connect_datagrams;
        // Connecting an unbound socket changes its address, and could lose datagrams.
        if Address::local(socket)?.is_wildcard()
            && !(is_requested && is_preferred_source(from, first.to))
        {
            return Ok(());
        }
        socket.connect(&from.to_kernel()?)
    }
}

/// Waits for the client's first datagram and leaves it in the queue. Drops and logs other datagrams
/// before it. After the first of these, it waits only [`REFUSED_DATAGRAM_WAIT`].
fn await_client_datagram(
    socket: &Socket,
    context: &RunContext<'_>,
    is_from_client: impl Fn(&NextDatagram) -> bool,
) -> Result<NextDatagram, TestError> {
    let mut deadline = Instant::now() + context.limits.data_wait;
    let mut dropped = 0_u64;
    let mut source = None;
    let first: Result<_, TestError> = loop {
        if let Err(error) = wait::await_readable(socket.as_fd(), context.stop, deadline) {
            break Err(error);
        }
        match datagram::peek_next(socket.as_fd()) {
            Ok(next) if is_from_client(&next) => break Ok(next),
            Ok(next) => {
                if dropped == 0 {
                    deadline = deadline.min(Instant::now() + REFUSED_DATAGRAM_WAIT);
                }
                dropped += 1;
                source = source.or(next.from);
                let _ = call::receive_without_waiting(socket.as_fd(), &mut [0; 1]);
            }
            Err(Error::INTR | Error::AGAIN) => {}
            Err(error) => break Err(error.into()),
        }
    };
    if let Some(source) = source {
        warn(format_args!(
            "{}: dropped {dropped} datagrams from other addresses, the first from {source}",
            context.peer.control
        ));
    }
    // Datagrams arrived, but only from refused addresses: report EACCES, not a timeout.
    let first = first.map_err(|error| match error {
        TestError(errno) if dropped > 0 && errno == Error::TIMEDOUT.raw_os_error() => {
            Error::ACCESS.into()
        }
        other => other,
    })?;
    let _ = report_datagram_addresses(socket, false);
    Ok(first)
}

/// Returns how to respond to this datagram: from the address that it was sent to.
fn reply_method(socket: &Socket, first: &NextDatagram) -> io::Result<ReplyMethod> {
    match &first.from {
        None => Err(Error::DESTADDRREQ.into()),
        Some(Address::Unix(path)) => {
            connect_to_sender(socket, path, first.sender).map(|()| ReplyMethod::Connected)
        }
        Some(from @ Address::Llc(_)) => KernelAddress::try_from(from).map(ReplyMethod::To),
        Some(from) => match first.to {
            Some(to)
                if Address::local(socket)?.is_wildcard()
                    && !is_preferred_source(from, first.to) =>
            {
                Ok(ReplyMethod::ToFrom(KernelAddress::try_from(from)?, to))
            }
            // With a connected socket, the kernel looks up the route once instead of once per
            // response.
            _ => socket
                .connect(&from.to_kernel()?)
                .map(|()| ReplyMethod::Connected),
        },
    }
}

/// Whether the kernel prefers `local` as the source address for datagrams to `from`.
fn is_preferred_source(from: &Address, local: Option<IpAddr>) -> bool {
    let preferred = datagram::preferred_source(from).ok();
    local.is_some() && preferred.and_then(|address| address.ip()) == local
}

/// Connects to the Unix domain socket that a datagram came from, by its path. This process may have
/// more rights than the sender, which could have replaced the path. So the path must resolve to the
/// same file for both, without a link, and to a socket of the sender's user.
fn connect_to_sender(
    socket: &Socket,
    path: &Path,
    sender: Option<SenderCredentials>,
) -> io::Result<()> {
    let refused = || io::Error::from(Error::ACCESS);
    let sender = sender.ok_or_else(refused)?;
    if !sys::process::shares_paths_with(sender.process) {
        return Err(refused());
    }
    // A later change of the path does not affect this descriptor.
    let descriptor = call::open_path(path)?;
    let descriptor_path = PathBuf::from(format!("/proc/thread-self/fd/{}", descriptor.as_raw_fd()));
    let metadata = descriptor.metadata()?;
    let is_socket_of_sender = metadata.file_type().is_socket() && metadata.uid() == sender.user;
    if !is_socket_of_sender || std::fs::read_link(&descriptor_path)? != path {
        return Err(refused());
    }
    socket.connect(&Address::Unix(descriptor_path).to_kernel()?)
}
