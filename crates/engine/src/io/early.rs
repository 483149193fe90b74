//! Datagrams that came before their socket was connected.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use sys::call::Error;
use sys::message::{Messages, Moved};

use super::method::Io;
use crate::budget::Share;

/// Datagrams that wait to be received, in their order.
#[derive(Debug, Default)]
pub struct Early {
    datagrams: VecDeque<Box<[u8]>>,
    /// Their memory, if an account bears it.
    share: Option<Share>,
}

impl Early {
    /// Adds one.
    pub fn push(&mut self, datagram: &[u8]) {
        self.datagrams.push_back(datagram.into());
    }

    /// Keeps the share of their memory until all have been received.
    pub fn keep(&mut self, share: Option<Share>) {
        self.share = share;
    }

    /// Whether all have been received.
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Receives the first one, cut to the buffer's length.
    fn receive(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let datagram = self.datagrams.pop_front()?;
        if self.datagrams.is_empty() {
            self.share = None;
        }
        let length = datagram.len().min(buffer.len());
        buffer[..length].copy_from_slice(&datagram[..length]);
        Some(length)
    }
}

/// A connected datagram socket whose early datagrams have not all been received.
pub(super) struct EarlyFirst<'a> {
    pub(super) socket: BorrowedFd<'a>,
    pub(super) early: &'a RefCell<Early>,
}

impl Io for EarlyFirst<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket
    }

    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.try_receive(buffer)
    }

    fn try_receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        let received = self.early.borrow_mut().receive(buffer);
        received.ok_or(Error::AGAIN)
    }

    fn receive_messages(
        &self,
        _: &mut Messages,
        buffer: &mut [u8],
        _: u64,
        _: bool,
    ) -> Result<Moved, Error> {
        self.try_receive(buffer).map(Moved::one)
    }

    fn has_input(&self) -> Option<bool> {
        Some(true)
    }
}
