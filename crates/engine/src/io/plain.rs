//! send(2) and recv(2) on a connected socket.

use std::os::fd::BorrowedFd;

use sys::call::{self, Error};

use super::method::Io;

/// A connected socket that uses send(2) and recv(2).
pub(crate) struct Plain<'a>(pub(crate) BorrowedFd<'a>);

impl Io for Plain<'_> {
    #[inline]
    fn socket(&self) -> BorrowedFd<'_> {
        self.0
    }

    #[inline]
    fn receive_wait_all(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        call::receive_all(self.0, buffer)
    }
}
