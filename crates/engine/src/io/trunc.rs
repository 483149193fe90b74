//! recv(2) with MSG_TRUNC: received data is counted and not copied.

use std::os::fd::BorrowedFd;

use sys::call::{self, Error};

use super::method::Io;

/// A connected socket that receives with MSG_TRUNC. Stream data is not copied. A datagram is copied
/// up to the buffer's length.
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
