//! write(2) instead of send(2).

use std::os::fd::BorrowedFd;

use sys::call::{self, Error};

use super::method::Io;

/// A connected socket that sends with write(2).
pub(super) struct Written<'a>(pub(super) BorrowedFd<'a>);

impl Io for Written<'_> {
    #[inline]
    fn socket(&self) -> BorrowedFd<'_> {
        self.0
    }

    #[inline]
    fn send(&self, data: &[u8]) -> Result<usize, Error> {
        call::write(self.0, data)
    }
}
