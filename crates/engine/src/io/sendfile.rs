//! sendfile(2): the kernel sends a file.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use sys::call::{self, Error};
use sys::message::Moved;

use super::method::Source;
use crate::hooks::Hooks;

/// A file as a ring: piece `i` is what a send buffer would hold, sent by the kernel itself.
#[derive(Debug)]
pub(crate) struct SendFile {
    file: File,
    size: u32,
    width: u32,
    offset: u64,
    next: u32,
}

impl SendFile {
    /// Uses this file, or a temporary one of random bytes that has no name.
    pub(crate) fn new(file: Option<File>, size: u32, width: u32, offset: u32) -> io::Result<Self> {
        let needed = u64::from(size) * u64::from(width) + u64::from(offset);
        let file = match file {
            Some(file) => file,
            None => temporary(needed)?,
        };
        if file.metadata()?.len() < needed {
            return Err(io::Error::other(
                "specified file too small: it must be larger than send_width * send_size",
            ));
        }
        Ok(Self {
            file,
            size,
            width,
            offset: offset.into(),
            next: 0,
        })
    }

    /// Bytes per call.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Number of pieces.
    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    #[inline]
    fn advance(&mut self) -> (BorrowedFd<'_>, u64, usize) {
        let at = self.offset + u64::from(self.next) * u64::from(self.size);
        self.next = if self.next + 1 == self.width {
            0
        } else {
            self.next + 1
        };
        (self.file.as_fd(), at, self.size as usize)
    }
}

fn temporary(length: u64) -> io::Result<File> {
    let file = call::unnamed_file()?;
    let mut random = File::open("/dev/urandom")?.take(length);
    io::copy(&mut random, &mut &file)?;
    Ok(file)
}

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
