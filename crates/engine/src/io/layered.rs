//! A layer over a socket: encryption.

use std::cell::RefCell;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use sys::call::{self, Error};
use sys::message::{ControlMessage, Messages, Moved};

use super::method::{Io, until_then};

/// A layer between a script and a socket. Its calls wait in any case.
pub trait Layer: fmt::Debug {
    /// Sends some or all of `data`.
    fn send(&mut self, data: &[u8]) -> Result<usize, Error>;
    /// Receives some; 0 is the end of the stream.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Error>;
    /// Whether there is something to receive without waiting; not all that a socket has is for the script.
    fn has_input(&mut self) -> bool;
}

/// A layer and its socket.
pub(super) struct Layered<'a> {
    pub(super) socket: BorrowedFd<'a>,
    pub(super) layer: &'a RefCell<Box<dyn Layer>>,
}

impl Io for Layered<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket
    }

    fn send(&self, data: &[u8]) -> Result<usize, Error> {
        self.layer.borrow_mut().send(data)
    }

    fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
        self.send(data)
    }

    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.layer.borrow_mut().receive(buffer)
    }

    fn try_receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.receive(buffer)
    }

    /// A layer has no messages.
    fn send_messages(
        &self,
        _: &mut Messages,
        _: Option<&ControlMessage>,
        _: &[u8],
        _: u64,
        _: bool,
    ) -> Result<Moved, Error> {
        Err(Error::OPNOTSUPP)
    }

    fn receive_messages(
        &self,
        _: &mut Messages,
        _: &mut [u8],
        _: u64,
        _: bool,
    ) -> Result<Moved, Error> {
        Err(Error::OPNOTSUPP)
    }

    fn wait_readable(&self, patience: Duration) -> Result<bool, Error> {
        let until = Instant::now().checked_add(patience);
        while !self.layer.borrow_mut().has_input() {
            if !call::wait_readable(self.socket, until_then(until))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn takes_records(&self) -> bool {
        true
    }
}
