//! How the data of a flow reaches the wire: one file per I/O method, and here their list.
//!
//! Each loop is compiled for each method, so a loop calls its method directly.

mod addressed;
mod early;
mod flow;
mod gso;
mod in_turn;
mod layered;
mod method;
mod mmsg;
mod one_to_many;
mod plain;
mod polled;
mod sendfile;
mod splice;
mod trunc;
mod write;

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use model::{Ended, Half, IoMethod};
use sys::call::Peer;

pub use early::{Early, Elsewhere};
pub use flow::Flow;
pub use layered::Layer;
pub(crate) use method::{Io, until_then};
pub use one_to_many::Associations;
pub(crate) use plain::Plain;
pub(crate) use sendfile::SendFile;
pub(crate) use splice::discard;

use crate::end::Ran;

/// A connection of a script, which closes it when no step uses it any more.
#[derive(Debug)]
pub enum Connection {
    /// A connected socket, stream or datagram.
    Socket(OwnedFd),
    /// An unconnected datagram socket, and its peer; it receives datagrams from any source.
    Addressed(OwnedFd, Peer),
    /// A connected datagram socket, and the datagrams of its peer that come elsewhere at first; from then on as
    /// [`Self::Socket`].
    Early(OwnedFd, RefCell<Early>),
    /// A layer over a socket, which shares it: the layer's last record may be for the other end.
    Layered(RefCell<Box<dyn Layer>>, Rc<OwnedFd>),
}

/// Work that runs over any I/O method.
pub(crate) trait Work {
    fn run(self, io: &impl Io) -> Ran;
}

/// Runs `work` over the method that fits the flow and the plan. This is the list of the methods, but for those of
/// [`run_datagrams`]; [`SendFile::send`] and [`discard`], which have no buffers, replace the stream's call of any.
pub(crate) fn run(flow: &Flow<'_>, half: &Half, work: impl Work) -> Ran {
    let polls = half.socket.non_blocking;
    if let (IoMethod::Mmsg, Some(mmsg)) = (half.io, mmsg::Mmsg::of(flow)) {
        return work.run(&mmsg);
    }
    match flow {
        Flow::Connected(socket) if half.write_instead_of_send => work.run(&write::Written(*socket)),
        Flow::Connected(socket) if polls => work.run(&polled::Polled::new(Plain(*socket))),
        Flow::Connected(socket) => work.run(&Plain(*socket)),
        Flow::Addressed(socket, to) => work.run(&addressed::Addressed {
            socket: *socket,
            to,
        }),
        Flow::AddressedFrom(socket, to, from) => {
            work.run(&addressed::AddressedFrom::new(*socket, to, *from))
        }
        Flow::InTurn(sockets) if polls => work.run(&in_turn::polled(sockets)),
        Flow::InTurn(sockets) => work.run(&in_turn::addressed(sockets)),
        Flow::OneToMany(associations) if polls => work.run(&polled::Polled::new(*associations)),
        Flow::OneToMany(associations) => work.run(associations),
    }
}

/// The same for numbered datagrams over a connected socket.
pub(crate) fn run_datagrams(flow: &Flow<'_>, half: &Half, work: impl Work) -> Ran {
    let Flow::Connected(socket) = *flow else {
        return unsupported();
    };
    match half.io {
        IoMethod::Mmsg => mmsg::Mmsg::of(flow).map_or_else(unsupported, |mmsg| work.run(&mmsg)),
        IoMethod::Gso => work.run(&gso::Gso(socket)),
        IoMethod::Trunc => work.run(&trunc::Truncated(socket)),
        IoMethod::Plain => work.run(&Plain(socket)),
    }
}

/// The end of what no loop, or no method, is for.
pub(crate) fn unsupported() -> Ran {
    Ended::Failed("no loop runs this list of operations on this path".to_owned()).into()
}

impl Connection {
    /// The socket that it goes over.
    pub fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Self::Socket(socket) | Self::Addressed(socket, _) | Self::Early(socket, _) => {
                socket.as_fd()
            }
            Self::Layered(_, socket) => socket.as_fd(),
        }
    }

    /// The method of a connection that is a connected socket and nothing else.
    #[inline]
    pub(crate) fn plain(&self) -> Option<Plain<'_>> {
        match self {
            Self::Socket(socket) => Some(Plain(socket.as_fd())),
            Self::Early(socket, early) if early.borrow().is_over() => Some(Plain(socket.as_fd())),
            _ => None,
        }
    }

    /// The same for what is sent.
    #[inline]
    pub(crate) fn plain_to_send(&self) -> Option<Plain<'_>> {
        match self {
            Self::Socket(socket) | Self::Early(socket, _) => Some(Plain(socket.as_fd())),
            _ => None,
        }
    }

    /// Whether the connection has become a socket and nothing else.
    pub(crate) fn has_become_plain(&self) -> bool {
        matches!(self, Self::Early(..)) && self.plain().is_some()
    }

    /// Calls `f` with the connection's method. This is the list of the methods of a script's connections.
    pub(crate) fn with_io<R>(&self, f: impl FnOnce(&dyn Io) -> R) -> R {
        let socket = self.socket();
        match self {
            Self::Socket(_) => f(&Plain(socket)),
            Self::Addressed(_, to) => f(&addressed::Addressed { socket, to }),
            Self::Early(_, early) if early.borrow().is_over() => f(&Plain(socket)),
            Self::Early(_, early) => f(&early::EarlyFirst { socket, early }),
            Self::Layered(layer, _) => f(&layered::Layered { socket, layer }),
        }
    }
}
