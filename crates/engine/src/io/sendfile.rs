//! sendfile(2): the kernel sends a file.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use sys::call::{self, Error};
use sys::message::Moved;

/// A file as a ring: piece `i` is what a send buffer would hold, sent by the kernel itself from no buffer of this
/// process.
#[derive(Debug)]
pub(crate) struct SendFile {
    file: File,
    size: u32,
    /// `None` sends it once, to its end.
    width: Option<u32>,
    offset: u64,
    next: u64,
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
            width: Some(width),
            offset: offset.into(),
            next: 0,
        })
    }

    /// Sends this file once.
    pub(crate) fn once(file: File, size: u32) -> Self {
        Self {
            file,
            size,
            width: None,
            offset: 0,
            next: 0,
        }
    }

    /// Sends the next piece.
    #[inline]
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>) -> Result<Moved, Error> {
        let (file, count) = (self.file.as_fd(), self.size as usize);
        let Some(width) = self.width else {
            // The call moves on what it has sent.
            return call::send_file(socket, file, &mut self.offset, count).map(Moved::one);
        };
        let mut at = self.offset + self.next * u64::from(self.size);
        self.next = if self.next + 1 == width.into() {
            0
        } else {
            self.next + 1
        };
        call::send_file(socket, file, &mut at, count).map(Moved::one)
    }
}

fn temporary(length: u64) -> io::Result<File> {
    let file = call::unnamed_file()?;
    let mut random = File::open("/dev/urandom")?.take(length);
    io::copy(&mut random, &mut &file)?;
    Ok(file)
}
