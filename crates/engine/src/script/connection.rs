use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use sys::call::{self, Error, Peer};
use sys::message::{ControlMessage, Messages, Moved};

use crate::budget::Share;

/// A connection as a script uses it; closed when nobody has it any more.
#[derive(Debug)]
pub enum Connection {
    /// A connected socket, stream or datagram.
    Socket(OwnedFd),
    /// A datagram socket without a peer of its own, and whom it sends to; it takes what anybody sends.
    Addressed(OwnedFd, Peer),
    /// A connected datagram socket, and what came from its peer before it was connected; from then on as
    /// [`Self::Socket`].
    Early(OwnedFd, RefCell<Early>),
    /// Something over a socket, which has it as well: its last word may be for the other end.
    Layered(RefCell<Box<dyn Layer>>, Rc<OwnedFd>),
}

/// Datagrams that wait to be received, in their order.
#[derive(Debug, Default)]
pub struct Early {
    datagrams: VecDeque<Box<[u8]>>,
    /// Their memory, if it is on somebody's account.
    share: Option<Share>,
}

impl Early {
    /// Adds one.
    pub fn push(&mut self, datagram: &[u8]) {
        self.datagrams.push_back(datagram.into());
    }

    /// Keeps the share of their memory until all have been received.
    pub fn keep(&mut self, share: Option<Share>) {
        self.share = share;
    }

    /// Whether all have been received.
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Receives the first one, cut to the buffer's length.
    fn receive(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let datagram = self.datagrams.pop_front()?;
        if self.datagrams.is_empty() {
            self.share = None;
        }
        let length = datagram.len().min(buffer.len());
        buffer[..length].copy_from_slice(&datagram[..length]);
        Some(length)
    }
}

/// What lies between a script and a socket: encryption.
pub trait Layer: fmt::Debug {
    /// Sends some or all of `data`.
    fn send(&mut self, data: &[u8]) -> Result<usize, Error>;
    /// Receives some; 0 is the end of the stream.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Error>;
    /// Whether there is something to receive without waiting; not all that a socket has is for the script.
    fn has_input(&mut self) -> bool;
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

    /// The socket of a connection that is nothing but one.
    #[inline]
    pub(super) fn plain_socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Socket(socket) => Some(socket.as_fd()),
            Self::Early(socket, early) if early.borrow().is_empty() => Some(socket.as_fd()),
            _ => None,
        }
    }

    /// Whether the connection has become nothing but a socket, after it was more.
    pub(super) fn has_become_plain(&self) -> bool {
        matches!(self, Self::Early(..)) && self.plain_socket().is_some()
    }

    /// Without `waits` EAGAIN where it would have to; a layer waits in any case.
    pub(super) fn send(&self, data: &[u8], waits: bool) -> Result<usize, Error> {
        match self {
            Self::Socket(socket) | Self::Early(socket, _) if waits => {
                call::send(socket.as_fd(), data)
            }
            Self::Socket(socket) | Self::Early(socket, _) => {
                call::send_without_waiting(socket.as_fd(), data)
            }
            Self::Addressed(socket, to) if waits => call::send_to(socket.as_fd(), data, to),
            Self::Addressed(socket, to) => call::send_to_without_waiting(socket.as_fd(), data, to),
            Self::Layered(layer, _) => layer.borrow_mut().send(data),
        }
    }

    /// As [`Self::send`].
    pub(super) fn receive(&self, buffer: &mut [u8], waits: bool) -> Result<usize, Error> {
        match self {
            Self::Early(_, early) if !early.borrow().is_empty() => {
                early.borrow_mut().receive(buffer).ok_or(Error::AGAIN)
            }
            Self::Layered(layer, _) => layer.borrow_mut().receive(buffer),
            _ if waits => call::receive(self.socket(), buffer),
            _ => call::receive_without_waiting(self.socket(), buffer),
        }
    }

    /// As [`Self::send`], so often; what lies over a socket has no messages.
    pub(super) fn send_messages(
        &self,
        messages: &mut Messages,
        control: Option<&ControlMessage>,
        data: &[u8],
        times: u64,
        waits: bool,
    ) -> Result<Moved, Error> {
        let to = match self {
            Self::Addressed(_, to) => Some(to),
            Self::Socket(_) | Self::Early(..) => None,
            Self::Layered(..) => return Err(Error::OPNOTSUPP),
        };
        messages.send(self.socket(), data, to, control, times, waits)
    }

    /// As [`Self::send_messages`].
    pub(super) fn receive_messages(
        &self,
        messages: &mut Messages,
        buffer: &mut [u8],
        times: u64,
        waits: bool,
    ) -> Result<Moved, Error> {
        match self {
            Self::Layered(..) => Err(Error::OPNOTSUPP),
            Self::Early(_, early) if !early.borrow().is_empty() => Ok(Moved {
                messages: 1,
                bytes: self.receive(buffer, waits)?,
            }),
            _ => messages.receive(self.socket(), buffer, times, waits),
        }
    }

    /// Whether there is something to receive, whatever the socket says; `None` where the socket says it.
    pub(super) fn has_input(&self) -> Option<bool> {
        match self {
            Self::Early(_, early) if !early.borrow().is_empty() => Some(true),
            Self::Socket(_) | Self::Addressed(..) | Self::Early(..) => None,
            Self::Layered(layer, _) => Some(layer.borrow_mut().has_input()),
        }
    }
}
