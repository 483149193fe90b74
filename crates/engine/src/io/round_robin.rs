//! Sends over several sockets in turn.

use std::cell::Cell;
use std::os::fd::BorrowedFd;

use sys::call::{Error, KernelAddress};

use super::addressed::Addressed;
use super::method::Io;
use super::polled::Polled;

/// Returns datagram sockets that are used in turn, each with a peer.
pub(super) fn addressed<'a>(
    sockets: &'a [(BorrowedFd<'a>, KernelAddress)],
) -> RoundRobin<Addressed<'a>> {
    let sockets = sockets.iter();
    RoundRobin::new(
        sockets
            .map(|(socket, to)| Addressed {
                socket: *socket,
                to,
            })
            .collect(),
    )
}

/// Returns [`addressed`] sockets with non-blocking calls.
pub(super) fn polled<'a>(
    sockets: &'a [(BorrowedFd<'a>, KernelAddress)],
) -> RoundRobin<Polled<Addressed<'a>>> {
    RoundRobin::new(
        addressed(sockets)
            .sockets
            .into_iter()
            .map(Polled::new)
            .collect(),
    )
}

/// Sockets that are used in turn; a response is received on the socket of the last request.
pub(super) struct RoundRobin<C> {
    sockets: Vec<C>,
    last: Cell<usize>,
}

impl<C> RoundRobin<C> {
    /// `sockets` must not be empty.
    fn new(sockets: Vec<C>) -> Self {
        Self {
            last: Cell::new(sockets.len().saturating_sub(1)),
            sockets,
        }
    }
}

impl<C: Io> Io for RoundRobin<C> {
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
