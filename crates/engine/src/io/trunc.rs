//! recv(2) with MSG_TRUNC: received data is counted and not copied.

use std::os::fd::BorrowedFd;

use sys::buffer::BufferRing;
use sys::call::{self, Error};
use sys::message::Moved;

use super::method::{Io, Sink};
use crate::end::Bounds;
use crate::hooks::Hooks;

/// A connected socket. A stream's data is not copied at all, and of a datagram as much as the buffer has room for.
pub(super) struct Truncated<'a>(pub(super) BorrowedFd<'a>);

impl Io for Truncated<'_> {
    #[inline]
    fn socket(&self) -> BorrowedFd<'_> {
        self.0
    }

    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        call::receive_truncated(self.0, buffer)
    }

    fn sink<'a>(&'a self, ring: &'a mut BufferRing, _: Bounds<'a>) -> impl Sink + 'a {
        Untouched { io: self, ring }
    }
}

/// Buffers that nobody writes to.
struct Untouched<'a> {
    io: &'a Truncated<'a>,
    ring: &'a mut BufferRing,
}

impl Sink for Untouched<'_> {
    #[inline]
    fn receive(&mut self, _: &mut impl Hooks) -> Result<Moved, Error> {
        self.io.receive(self.ring.advance()).map(Moved::one)
    }
}
