//! I/O methods: the system calls that move a flow's data, one file per method.
//!
//! Each loop is compiled for each method, so a loop calls its method without dynamic dispatch.

mod addressed;
mod early;
mod flow;
mod gso;
mod layered;
mod method;
mod mmsg;
mod one_to_many;
mod plain;
mod polled;
mod round_robin;
mod sendfile;
mod splice;
mod trunc;
mod write;

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use model::{EndCause, EndpointPlan, IoMethod};
use sys::call::KernelAddress;

pub use early::{EarlyDatagrams, EarlySocket};
pub use flow::FlowSockets;
pub use layered::Layer;
pub(crate) use method::{Io, time_until};
pub use one_to_many::Associations;
pub(crate) use plain::Plain;
pub(crate) use sendfile::SendFile;
pub(crate) use splice::discard;

use crate::end::LoopResult;

/// A connection of a script. It is closed when no step uses it any more.
#[derive(Debug)]
pub enum Connection {
    /// A connected socket, stream or datagram.
    Socket(OwnedFd),
    /// An unconnected datagram socket and its peer; it receives datagrams from any source.
    Addressed(OwnedFd, KernelAddress),
    /// A connected datagram socket, and its first datagrams, which arrive at another socket.
    ///
    /// After these it behaves like [`Self::Socket`].
    Early(OwnedFd, RefCell<EarlyDatagrams>),
    /// A layer and its socket. The layer has a reference to the socket, too, because it sends a
    /// last record when it closes.
    Layered(RefCell<Box<dyn Layer>>, Rc<OwnedFd>),
}

/// A task that is compiled for each I/O method.
pub(crate) trait MethodTask {
    fn run(self, io: &impl Io) -> LoopResult;
}

/// Runs `task` with the I/O method for the flow and the plan.
///
/// [`run_datagrams`] does the same for numbered datagrams. [`SendFile::send`] and [`discard`],
/// which use no buffers, can replace the stream call of any method.
pub(crate) fn run(
    flow: &FlowSockets<'_>,
    endpoint: &EndpointPlan,
    task: impl MethodTask,
) -> LoopResult {
    let is_non_blocking = endpoint.socket.non_blocking;
    if let (IoMethod::Mmsg, Some(mmsg)) = (endpoint.io, mmsg::Mmsg::for_flow(flow)) {
        return task.run(&mmsg);
    }
    match flow {
        FlowSockets::Connected(socket) if endpoint.write_instead_of_send => {
            task.run(&write::Written(*socket))
        }
        FlowSockets::Connected(socket) if is_non_blocking => {
            task.run(&polled::Polled::new(Plain(*socket)))
        }
        FlowSockets::Connected(socket) => task.run(&Plain(*socket)),
        FlowSockets::Addressed(socket, to) => task.run(&addressed::Addressed {
            socket: *socket,
            to,
        }),
        FlowSockets::AddressedFrom(socket, to, from) => {
            task.run(&addressed::AddressedFrom::new(*socket, to, *from))
        }
        FlowSockets::RoundRobin(sockets) if is_non_blocking => {
            task.run(&round_robin::polled(sockets))
        }
        FlowSockets::RoundRobin(sockets) => task.run(&round_robin::addressed(sockets)),
        FlowSockets::OneToMany(associations) if is_non_blocking => {
            task.run(&polled::Polled::new(*associations))
        }
        FlowSockets::OneToMany(associations) => task.run(associations),
    }
}

/// Runs `task` for numbered datagrams over a connected socket.
pub(crate) fn run_datagrams(
    flow: &FlowSockets<'_>,
    endpoint: &EndpointPlan,
    task: impl MethodTask,
) -> LoopResult {
    let FlowSockets::Connected(socket) = *flow else {
        return unsupported();
    };
    match endpoint.io {
        IoMethod::Mmsg => {
            mmsg::Mmsg::for_flow(flow).map_or_else(unsupported, |mmsg| task.run(&mmsg))
        }
        IoMethod::Gso => task.run(&gso::Gso(socket)),
        IoMethod::Trunc => task.run(&trunc::Truncated(socket)),
        IoMethod::OnePerCall => task.run(&Plain(socket)),
    }
}

/// Returns the error for operations that no loop or I/O method supports.
pub(crate) fn unsupported() -> LoopResult {
    EndCause::Failed("these operations are not supported on this kind of socket".to_owned()).into()
}

impl Connection {
    /// Returns the connection's socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Self::Socket(socket) | Self::Addressed(socket, _) | Self::Early(socket, _) => {
                socket.as_fd()
            }
            Self::Layered(_, socket) => socket.as_fd(),
        }
    }

    /// Returns the send(2) and recv(2) method if the connection is only a connected socket.
    #[inline]
    pub(crate) fn as_plain(&self) -> Option<Plain<'_>> {
        match self {
            Self::Socket(socket) => Some(Plain(socket.as_fd())),
            Self::Early(socket, early) if early.borrow().is_finished() => {
                Some(Plain(socket.as_fd()))
            }
            _ => None,
        }
    }

    /// Returns the send(2) method if sending needs only a connected socket.
    #[inline]
    pub(crate) fn as_plain_sender(&self) -> Option<Plain<'_>> {
        match self {
            Self::Socket(socket) | Self::Early(socket, _) => Some(Plain(socket.as_fd())),
            _ => None,
        }
    }

    /// Returns whether the connection had early datagrams and is now only a connected socket.
    pub(crate) fn has_used_up_early_datagrams(&self) -> bool {
        matches!(self, Self::Early(..)) && self.as_plain().is_some()
    }

    /// Calls `f` with the connection's I/O method.
    pub(crate) fn with_io<R>(&self, f: impl FnOnce(&dyn Io) -> R) -> R {
        let socket = self.socket();
        match self {
            Self::Socket(_) => f(&Plain(socket)),
            Self::Addressed(_, to) => f(&addressed::Addressed { socket, to }),
            Self::Early(_, early) if early.borrow().is_finished() => f(&Plain(socket)),
            Self::Early(_, early) => f(&early::EarlyFirst { socket, early }),
            Self::Layered(layer, _) => f(&layered::Layered { socket, layer }),
        }
    }
}
