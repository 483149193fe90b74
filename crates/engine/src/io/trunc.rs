//! recv(2) with MSG_TRUNC: received data is counted and not copied.

use std::os::fd::BorrowedFd;

use sys::buffer::BufferRing;
use sys::call::{self, Error};
use sys::message::Moved;

use super::method::Io;
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

    /// Nobody writes to the buffers, so there is nothing to touch.
    fn sink<'a, H: Hooks>(
        &'a self,
        ring: &'a mut BufferRing,
        _: Bounds<'a>,
    ) -> impl FnMut(&mut H) -> Result<Moved, Error> {
        |_: &mut H| self.receive(ring.advance()).map(Moved::one)
    }
}
