//! The peer of a test's data, which must be the client: the data connection, or the source and destination of
//! datagrams.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use engine::Flow;
use server::{Accepted, DataPeer, Nonce, PREFERENCE, Policy};
use sys::call::{self, Error, Peer};
use sys::datagram::{self, Next, Sender};
use sys::{Address, Socket};

use super::assignment::Refusal;
use super::log::warn;
use super::test::{Prepared, RunContext, duplicate};
use super::wait;

/// A nonce that only the client knows, and where it arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proof {
    pub(super) nonce: Nonce,
    /// It arrives on a separate connection before the data, which then must come from the same host; otherwise at
    /// the beginning of the data connection.
    pub(super) is_apart: bool,
}

/// A socket for datagrams, and how it sends them.
#[derive(Debug)]
pub(super) struct Datagrams {
    pub(super) socket: Socket,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// By a connected socket, or not at all.
    Plain,
    /// To this address.
    To(Peer),
    /// To this address, from that address of this host.
    ToFrom(Peer, IpAddr),
}

impl Datagrams {
    /// Returns the path for the engine.
    pub(super) fn path(&self) -> Flow<'_> {
        let socket = self.socket.as_fd();
        match &self.way {
            Way::Plain => Flow::Connected(socket),
            Way::To(to) => Flow::Addressed(socket, to.clone()),
            Way::ToFrom(to, from) => Flow::AddressedFrom(socket, to.clone(), *from),
        }
    }
}

/// Sets whether a socket reports with its datagrams what answers depend on: the destination, if the socket is not
/// bound to an address; in the Unix domain, the sender.
pub(super) fn describe_datagrams(socket: &Socket, on: bool) -> io::Result<()> {
    match Address::of(socket)? {
        Address::Unix(_) => datagram::tell_senders(socket.as_fd(), on),
        bound @ Address::Inet(_) if bound.is_wildcard() => {
            datagram::tell_destinations(socket.as_fd(), bound.is_ipv6(), on)
        }
        _ => Ok(()),
    }
}

impl Prepared {
    /// Accepts the data connection, or the first one of a connection test.
    pub(super) fn connection(&self, context: &RunContext<'_>) -> Result<Accepted, Refusal> {
        let RunContext {
            peer, stop, limits, ..
        } = *context;
        let accept = |peer: &DataPeer<'_>, nonce: Option<&Nonce>| {
            let until = Instant::now() + limits.data_wait;
            let refused = |from: &Address| {
                warn(format_args!(
                    "{}: refused a data connection from {from}",
                    peer.control
                ));
            };
            server::accept_data(&self.data.socket, peer, nonce, until, stop, &refused)
        };
        match &self.proof {
            Some(proof) if proof.is_apart => {
                let proved = accept(peer, Some(&proof.nonce))?.from;
                let its_host = DataPeer {
                    control: &proved,
                    named: None,
                    policy: Policy {
                        strict: true,
                        ..peer.policy
                    },
                };
                Ok(accept(&its_host, None)?)
            }
            Some(proof) => Ok(accept(peer, Some(&proof.nonce))?),
            None => {
                let accepted = accept(peer, None)?;
                if accepted.is_stranger {
                    warn(format_args!(
                        "{}: the data connection comes from another address, {}; the test has spent {} s \
                         of its time waiting for one from the client's",
                        peer.control,
                        accepted.from,
                        PREFERENCE.as_secs()
                    ));
                }
                Ok(accepted)
            }
        }
    }

    /// Finds the client's end of a datagram test.
    pub(super) fn datagrams_of(&self, context: &RunContext<'_>) -> Result<Datagrams, Refusal> {
        let peer = context.peer;
        let assignment = &self.assignment;
        if assignment.transport.has_connections() {
            let socket = self.connection(context)?.socket;
            let way = Way::Plain;
            return Ok(Datagrams { socket, way });
        }
        let socket = duplicate(&self.data.socket)?;
        let way = if !assignment.workload.receives() {
            let client = assignment.client.as_ref().ok_or(Error::DESTADDRREQ)?;
            if !peer.may_send_to(client) {
                return Err(Error::ACCESS.into());
            }
            Peer::try_from(client).map(Way::To)
        } else if assignment.workload.sends() {
            let first = first_datagram(&socket, context, |next| {
                next.from
                    .as_ref()
                    .is_some_and(|from| peer.may_send_to(from))
            })?;
            answers_to(&socket, &first)
        } else {
            let first = first_datagram(&socket, context, |next| {
                let expected = next.from.as_ref().is_none_or(|from| peer.expects(from));
                // An empty one would end the test.
                expected || !(peer.policy.strict || next.is_empty)
            })?;
            self.filter(&socket, &first, peer).map(|()| Way::Plain)
        };
        let way = way.map_err(|error| Refusal::from_io(&error))?;
        Ok(Datagrams { socket, way })
    }

    /// Connects a socket that only receives to its client, so that the kernel drops other datagrams.
    fn filter(&self, socket: &Socket, first: &Next, peer: &DataPeer<'_>) -> io::Result<()> {
        let Some(from @ Address::Inet(_)) = &first.from else {
            return Ok(());
        };
        if !peer.expects(from) {
            warn(format_args!(
                "{}: the datagrams come from another address, {from}; datagrams from any address count",
                peer.control
            ));
            return Ok(());
        }
        let is_asked = self.assignment.half.socket.connect_datagrams;
        // Connecting an unbound socket changes its address, and could lose datagrams.
        if Address::of(socket)?.is_wildcard() && !(is_asked && is_usual(from, first.to)) {
            return Ok(());
        }
        socket.connect(&from.to_kernel()?)
    }
}

/// Waits for the first datagram of the client and leaves it in the queue. Drops others before it, and logs them.
fn first_datagram(
    socket: &Socket,
    context: &RunContext<'_>,
    is_clients: impl Fn(&Next) -> bool,
) -> Result<Next, Refusal> {
    let until = Instant::now() + context.limits.data_wait;
    let mut others = 0_u64;
    let mut source = None;
    let first: Result<_, Refusal> = loop {
        if let Err(why) = wait::readable(socket.as_fd(), context.stop, until) {
            break Err(why);
        }
        match datagram::next(socket.as_fd()) {
            Ok(next) if is_clients(&next) => break Ok(next),
            Ok(next) => {
                others += 1;
                source = source.or(next.from);
                let _ = call::receive_without_waiting(socket.as_fd(), &mut [0; 1]);
            }
            Err(Error::INTR | Error::AGAIN) => {}
            Err(error) => break Err(error.into()),
        }
    };
    if let Some(source) = source {
        warn(format_args!(
            "{}: dropped {others} datagrams from other addresses, the first from {source}",
            context.peer.control
        ));
    }
    // With the reason that the client can act on.
    let first = first.map_err(|why| match why {
        Refusal(errno) if others > 0 && errno == Error::TIMEDOUT.raw_os_error() => {
            Error::ACCESS.into()
        }
        other => other,
    })?;
    let _ = describe_datagrams(socket, false);
    Ok(first)
}

/// Returns how to answer this datagram: from the address that it was sent to.
fn answers_to(socket: &Socket, first: &Next) -> io::Result<Way> {
    match &first.from {
        None => Err(Error::DESTADDRREQ.into()),
        Some(Address::Unix(path)) => {
            connect_to_sender(socket, path, first.sender).map(|()| Way::Plain)
        }
        Some(from @ Address::Llc(_)) => Peer::try_from(from).map(Way::To),
        Some(from) => match first.to {
            Some(to) if Address::of(socket)?.is_wildcard() && !is_usual(from, first.to) => {
                Ok(Way::ToFrom(Peer::try_from(from)?, to))
            }
            // The kernel looks up the route once instead of with each answer.
            _ => socket.connect(&from.to_kernel()?).map(|()| Way::Plain),
        },
    }
}

/// Whether the kernel prefers `here` as the source address for datagrams to `from`.
fn is_usual(from: &Address, here: Option<IpAddr>) -> bool {
    let usual = datagram::source_towards(from).ok();
    here.is_some() && usual.and_then(|usual| usual.ip()) == here
}

/// Connects to the Unix domain socket that a datagram came from, by its path. This process may have more rights than
/// the sender, who could have put something else there. So the path must resolve alike for both, without a link, to
/// a socket that the sender's user owns.
fn connect_to_sender(socket: &Socket, path: &Path, sender: Option<Sender>) -> io::Result<()> {
    let refused = || io::Error::from(Error::ACCESS);
    let sender = sender.ok_or_else(refused)?;
    if !sys::process::shares_paths_with(sender.process) {
        return Err(refused());
    }
    // A later change of the path does not affect this descriptor.
    let there = call::at_path(path)?;
    let through = PathBuf::from(format!("/proc/thread-self/fd/{}", there.as_raw_fd()));
    let facts = there.metadata()?;
    let is_senders = facts.file_type().is_socket() && facts.uid() == sender.user;
    if !is_senders || std::fs::read_link(&through)? != path {
        return Err(refused());
    }
    socket.connect(&Address::Unix(through).to_kernel()?)
}
