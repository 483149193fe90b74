//! recv(2) with MSG_TRUNC: received data is counted and not copied.

use std::os::fd::BorrowedFd;

use sys::call::{self, Error};

use super::method::Io;

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
}
