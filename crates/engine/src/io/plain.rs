//! send(2) and recv(2) on a connected socket.

use std::os::fd::BorrowedFd;

use sys::call::{self, Error};

use super::method::Io;

/// A connected socket, by send(2).
pub(crate) struct Plain<'a>(pub(crate) BorrowedFd<'a>);

impl Io for Plain<'_> {
    #[inline]
    fn socket(&self) -> BorrowedFd<'_> {
        self.0
    }

    #[inline]
    fn receive_whole(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        call::receive_all(self.0, buffer)
    }
}
