//! A layer over a socket, such as encryption.

use std::cell::RefCell;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use sys::call::{self, Error};
use sys::message::{ControlMessage, MessageHeaders, MessageTotals};

use super::method::{Io, time_until};

/// A layer between a script and a socket. Its calls always block.
pub trait Layer: fmt::Debug {
    /// Sends some or all of `data`; returns the number of bytes.
    fn send(&mut self, data: &[u8]) -> Result<usize, Error>;
    /// Receives data; returns the number of bytes, 0 at the end of the stream.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<usize, Error>;
    /// Returns whether a receive would not block. A readable socket is not enough: its data may be
    /// for the layer itself, such as a TLS handshake message.
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

    /// Fails: a layer is a stream and has no messages.
    fn send_messages(
        &self,
        _: &mut MessageHeaders,
        _: Option<&ControlMessage>,
        _: &[u8],
        _: u64,
        _: bool,
    ) -> Result<MessageTotals, Error> {
        Err(Error::OPNOTSUPP)
    }

    fn receive_messages(
        &self,
        _: &mut MessageHeaders,
        _: &mut [u8],
        _: u64,
        _: bool,
    ) -> Result<MessageTotals, Error> {
        Err(Error::OPNOTSUPP)
    }

    fn wait_readable(&self, timeout: Duration) -> Result<bool, Error> {
        let deadline = Instant::now().checked_add(timeout);
        while !self.layer.borrow_mut().has_input() {
            if !call::wait_readable(self.socket, time_until(deadline))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn splits_sends_into_records(&self) -> bool {
        true
    }
}
