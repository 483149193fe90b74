use std::cell::RefCell;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use sys::call::{self, Error, Peer};

/// A connection as a script uses it; closed when nobody has it any more.
#[derive(Debug)]
pub enum Line {
    /// A connected socket, stream or datagram.
    Socket(OwnedFd),
    /// A datagram socket without a peer of its own, and whom it sends to; it takes what anybody sends.
    Addressed(OwnedFd, Peer),
    /// Something over a socket, which has it as well: its last word may be for the other end.
    Layered(RefCell<Box<dyn Layer>>, Rc<OwnedFd>),
}

/// What lies between a script and a socket: encryption.
pub trait Layer: fmt::Debug {
    /// Sends some or all of `data`.
    fn send(&mut self, data: &[u8]) -> Result<usize, Error>;
    /// Receives some; 0 is the end of the stream.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Error>;
    /// Whether there is something to receive without the socket's help.
    fn has_input(&self) -> bool;
}

impl Line {
    /// The socket that it goes over.
    pub fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Self::Socket(socket) | Self::Addressed(socket, _) => socket.as_fd(),
            Self::Layered(_, socket) => socket.as_fd(),
        }
    }

    /// The socket of a line that is nothing but one.
    #[inline]
    pub(super) fn plain_socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Socket(socket) => Some(socket.as_fd()),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn send(&self, data: &[u8]) -> Result<usize, Error> {
        match self {
            Self::Socket(socket) => call::send(socket.as_fd(), data),
            Self::Addressed(socket, to) => call::send_to(socket.as_fd(), data, to),
            Self::Layered(layer, _) => layer.borrow_mut().send(data),
        }
    }

    #[inline]
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        match self {
            Self::Socket(socket) | Self::Addressed(socket, _) => {
                call::receive(socket.as_fd(), buffer)
            }
            Self::Layered(layer, _) => layer.borrow_mut().receive(buffer),
        }
    }

    pub(super) fn has_input(&self) -> bool {
        match self {
            Self::Socket(_) | Self::Addressed(..) => false,
            Self::Layered(layer, _) => layer.borrow().has_input(),
        }
    }
}
