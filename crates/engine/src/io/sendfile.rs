//! sendfile(2): the kernel sends a file.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};

use sys::call::{self, Error};
use sys::message::MessageTotals;

/// A file that is sent in pieces of one send buffer each, repeatedly. The kernel sends it without a
/// buffer of this process.
#[derive(Debug)]
pub(crate) struct SendFile {
    file: File,
    size: u32,
    /// Number of pieces; `None` sends the file once, to its end.
    width: Option<u32>,
    offset: u64,
    next_piece: u64,
}

impl SendFile {
    /// Prepares to send this file repeatedly; `None` stands for a temporary file of random bytes.
    ///
    /// Fails if the file is shorter than `size` * `width` + `offset` bytes.
    pub(crate) fn new(file: Option<File>, size: u32, width: u32, offset: u32) -> io::Result<Self> {
        let needed = u64::from(size) * u64::from(width) + u64::from(offset);
        let file = match file {
            Some(file) => file,
            None => temporary_file(needed)?,
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
            next_piece: 0,
        })
    }

    /// Prepares to send this file once.
    pub(crate) fn for_one_pass(file: File, size: u32) -> Self {
        Self {
            file,
            size,
            width: None,
            offset: 0,
            next_piece: 0,
        }
    }

    /// Sends the next piece.
    #[inline]
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>) -> Result<MessageTotals, Error> {
        let (file, count) = (self.file.as_fd(), self.size as usize);
        let Some(width) = self.width else {
            // The call advances the offset by the sent bytes.
            return call::send_file(socket, file, &mut self.offset, count)
                .map(MessageTotals::single);
        };
        let mut offset = self.offset + self.next_piece * u64::from(self.size);
        self.next_piece = if self.next_piece + 1 == u64::from(width) {
            0
        } else {
            self.next_piece + 1
        };
        call::send_file(socket, file, &mut offset, count).map(MessageTotals::single)
    }
}

fn temporary_file(length: u64) -> io::Result<File> {
    let file = call::unnamed_file()?;
    let mut random = File::open("/dev/urandom")?.take(length);
    io::copy(&mut random, &mut &file)?;
    Ok(file)
}
