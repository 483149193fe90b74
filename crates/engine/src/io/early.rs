//! Datagrams that come to another socket than that of their connection.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use sys::call::{self, Error};
use sys::message::{Messages, Moved};

use super::method::{Io, until_then};
use crate::budget::Share;

/// The first datagrams of a connected socket, which come to another one: those that the peer sends before the socket
/// is connected, and one that is on its way meanwhile.
#[derive(Debug, Default)]
pub struct Early {
    /// Datagrams that wait to be received, in their order.
    datagrams: VecDeque<Box<[u8]>>,
    /// Their memory, if an account bears it.
    shares: Vec<Share>,
    /// Where more may come; `None` as soon as all come to the connected socket.
    elsewhere: Option<Box<dyn Elsewhere>>,
}

/// The other socket.
pub trait Elsewhere: fmt::Debug + Send {
    /// The socket, to wait for.
    fn socket(&self) -> BorrowedFd<'_>;
    /// Moves the connection's datagrams that have come there.
    fn collect(&self, early: &mut Early);
}

impl Early {
    /// Datagrams of which more may come elsewhere.
    pub fn with_more(elsewhere: Box<dyn Elsewhere>) -> Self {
        let mut early = Self::default();
        elsewhere.collect(&mut early);
        early.elsewhere = Some(elsewhere);
        early
    }

    /// Adds one.
    pub fn push(&mut self, datagram: &[u8]) {
        self.datagrams.push_back(datagram.into());
    }

    /// Moves all of `other` behind these.
    pub fn append(&mut self, other: &mut Self) {
        self.datagrams.append(&mut other.datagrams);
        self.shares.append(&mut other.shares);
    }

    /// Keeps a share of their memory until all have been received.
    pub fn keep(&mut self, share: Option<Share>) {
        self.shares.extend(share);
    }

    /// Whether no datagram waits.
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Whether all further ones come to the connected socket.
    pub(super) fn is_over(&self) -> bool {
        self.is_empty() && self.elsewhere.is_none()
    }

    /// Receives the next one, cut to the buffer's length; EAGAIN if there is none.
    fn receive(&mut self, socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Error> {
        if let Some(length) = self.first(buffer) {
            return Ok(length);
        }
        let received = call::receive_without_waiting(socket, buffer);
        self.collect();
        let Ok(length) = received else {
            return self.first(buffer).map_or(received, Ok);
        };
        // The kernel delivers a peer's datagrams one after the other, so all that were sent before this one have come.
        self.elsewhere = None;
        if self.is_empty() {
            return Ok(length);
        }
        self.push(&buffer[..length]);
        self.first(buffer).ok_or(Error::AGAIN)
    }

    /// Moves here what has come elsewhere.
    pub fn collect(&mut self) {
        if let Some(elsewhere) = self.elsewhere.take() {
            elsewhere.collect(self);
            self.elsewhere = Some(elsewhere);
        }
    }

    fn first(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let datagram = self.datagrams.pop_front()?;
        if self.datagrams.is_empty() {
            self.shares.clear();
        }
        let length = datagram.len().min(buffer.len());
        buffer[..length].copy_from_slice(&datagram[..length]);
        Some(length)
    }
}

/// A connected datagram socket whose datagrams do not all come to it yet.
pub(super) struct EarlyFirst<'a> {
    pub(super) socket: BorrowedFd<'a>,
    pub(super) early: &'a RefCell<Early>,
}

impl Io for EarlyFirst<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket
    }

    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        if self.early.borrow().is_over() {
            return call::receive(self.socket, buffer);
        }
        let mut was_ready = false;
        loop {
            match self.try_receive(buffer) {
                // An error that nobody fetches makes it ready for ever.
                Err(Error::AGAIN) if was_ready => return call::receive(self.socket, buffer),
                Err(Error::AGAIN) => was_ready = self.wait_readable(Duration::MAX)?,
                other => return other,
            }
        }
    }

    fn try_receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.early.borrow_mut().receive(self.socket, buffer)
    }

    fn receive_messages(
        &self,
        _: &mut Messages,
        buffer: &mut [u8],
        _: u64,
        waits: bool,
    ) -> Result<Moved, Error> {
        let received = if waits {
            self.receive(buffer)
        } else {
            self.try_receive(buffer)
        };
        received.map(Moved::one)
    }

    fn wait_readable(&self, patience: Duration) -> Result<bool, Error> {
        let until = Instant::now().checked_add(patience);
        let mut early = self.early.borrow_mut();
        loop {
            early.collect();
            if !early.is_empty() {
                return Ok(true);
            }
            let elsewhere = early.elsewhere.as_ref();
            let sockets = [Some(self.socket), elsewhere.map(|other| other.socket())];
            let sockets: Vec<_> = sockets.into_iter().flatten().collect();
            match call::wait_any_readable(&sockets, until_then(until))? {
                // It may be of another connection.
                Some(1) => {}
                ready => return Ok(ready.is_some()),
            }
        }
    }
}
