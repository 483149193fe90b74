//! Several sockets in turn.

use std::cell::Cell;
use std::os::fd::BorrowedFd;

use sys::call::{Error, Peer};

use super::addressed::Addressed;
use super::method::Io;
use super::polled::Polled;

/// Datagram sockets, each with its own peer.
pub(super) fn addressed<'a>(sockets: &'a [(BorrowedFd<'a>, Peer)]) -> InTurn<Addressed<'a>> {
    let sockets = sockets.iter();
    InTurn::new(
        sockets
            .map(|(socket, to)| Addressed {
                socket: *socket,
                to,
            })
            .collect(),
    )
}

/// The same with non-blocking calls.
pub(super) fn polled<'a>(sockets: &'a [(BorrowedFd<'a>, Peer)]) -> InTurn<Polled<Addressed<'a>>> {
    InTurn::new(
        addressed(sockets)
            .sockets
            .into_iter()
            .map(Polled::new)
            .collect(),
    )
}

/// Connections that are used in turn; an answer is awaited where the last request went.
pub(super) struct InTurn<C> {
    sockets: Vec<C>,
    last: Cell<usize>,
}

impl<C> InTurn<C> {
    /// Of at least one.
    fn new(sockets: Vec<C>) -> Self {
        Self {
            last: Cell::new(sockets.len().saturating_sub(1)),
            sockets,
        }
    }
}

impl<C: Io> Io for InTurn<C> {
    #[inline]
    fn socket(&self) -> BorrowedFd<'_> {
        self.sockets[self.last.get()].socket()
    }

    #[inline]
    fn send(&self, data: &[u8]) -> Result<usize, Error> {
        let next = self.last.get() + 1;
        let next = if next == self.sockets.len() { 0 } else { next };
        self.last.set(next);
        self.sockets[next].send(data)
    }

    #[inline]
    fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
        self.sockets[self.last.get()].try_send(data)
    }

    fn is_connected(&self) -> bool {
        false
    }

    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.sockets[self.last.get()].receive(buffer)
    }
}
