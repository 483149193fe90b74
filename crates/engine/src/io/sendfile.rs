//! sendfile(2): the kernel sends a file.

use std::os::fd::BorrowedFd;

use sys::call::{self, Error};
use sys::message::Moved;

use super::method::Source;
use crate::hooks::Hooks;
use crate::ring::SendFile;

/// A file, sent by the kernel: its data is in no buffer of this process.
pub(crate) struct FromFile<'a> {
    pub(crate) socket: BorrowedFd<'a>,
    pub(crate) file: &'a mut SendFile,
}

impl Source for FromFile<'_> {
    fn size(&self) -> u32 {
        self.file.size()
    }

    #[inline]
    fn send(&mut self, _: &mut impl Hooks) -> Result<Moved, Error> {
        let (file, mut offset, count) = self.file.advance();
        call::send_file(self.socket, file, &mut offset, count).map(Moved::one)
    }
}
