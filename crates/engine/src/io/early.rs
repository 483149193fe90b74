//! Datagrams that arrive at a socket other than that of their connection.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use sys::call::{self, Error};
use sys::message::{MessageHeaders, MessageTotals};

use super::method::{Io, time_until};
use crate::budget::BudgetShare;

/// The first datagrams of a connection, which arrive at another socket, such as the listener.
///
/// The peer sends them before the connection's socket is connected, or while it connects.
#[derive(Debug, Default)]
pub struct EarlyDatagrams {
    /// Received datagrams that the connection has not read yet, in order.
    datagrams: VecDeque<Box<[u8]>>,
    /// Shares of a memory budget that the datagrams use, if there is a budget.
    shares: Vec<BudgetShare>,
    /// The socket at which more may arrive; `None` as soon as all arrive at the connected socket.
    other_socket: Option<Box<dyn EarlySocket>>,
}

/// Another socket that receives datagrams of a connection.
pub trait EarlySocket: fmt::Debug + Send {
    /// Returns the socket, for poll(2).
    fn socket(&self) -> BorrowedFd<'_>;
    /// Moves the connection's datagrams from this socket to `early`.
    fn collect(&self, early: &mut EarlyDatagrams);
}

impl EarlyDatagrams {
    /// Collects the datagrams of this other socket, where more may arrive.
    pub fn with_socket(other_socket: Box<dyn EarlySocket>) -> Self {
        let mut early = Self::default();
        other_socket.collect(&mut early);
        early.other_socket = Some(other_socket);
        early
    }

    /// Adds a datagram.
    pub fn push(&mut self, datagram: &[u8]) {
        self.datagrams.push_back(datagram.into());
    }

    /// Appends all of `other`, which becomes empty.
    pub fn append(&mut self, other: &mut Self) {
        self.datagrams.append(&mut other.datagrams);
        self.shares.append(&mut other.shares);
    }

    /// Holds a share of a memory budget until all datagrams have been received.
    pub fn keep_share(&mut self, share: Option<BudgetShare>) {
        self.shares.extend(share);
    }

    /// Returns whether no datagram is stored.
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Returns whether all further datagrams arrive at the connected socket.
    pub(super) fn is_finished(&self) -> bool {
        self.is_empty() && self.other_socket.is_none()
    }

    /// Receives the next datagram, truncated to the buffer's length; EAGAIN if there is none.
    fn receive_next(&mut self, socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Error> {
        if let Some(length) = self.pop_first(buffer) {
            return Ok(length);
        }
        let received = call::receive_without_waiting(socket, buffer);
        self.collect();
        let Ok(length) = received else {
            return self.pop_first(buffer).map_or(received, Ok);
        };
        // The kernel delivers a peer's datagrams in order: all that were sent before this one have
        // arrived.
        self.other_socket = None;
        if self.is_empty() {
            return Ok(length);
        }
        self.push(&buffer[..length]);
        self.pop_first(buffer).ok_or(Error::AGAIN)
    }

    /// Collects the datagrams that have arrived at the other socket.
    pub fn collect(&mut self) {
        if let Some(other_socket) = self.other_socket.take() {
            other_socket.collect(self);
            self.other_socket = Some(other_socket);
        }
    }

    fn pop_first(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let datagram = self.datagrams.pop_front()?;
        if self.datagrams.is_empty() {
            self.shares.clear();
        }
        let length = datagram.len().min(buffer.len());
        buffer[..length].copy_from_slice(&datagram[..length]);
        Some(length)
    }
}

/// A connected datagram socket, some of whose first datagrams arrive at another socket.
pub(super) struct EarlyFirst<'a> {
    pub(super) socket: BorrowedFd<'a>,
    pub(super) early: &'a RefCell<EarlyDatagrams>,
}

impl Io for EarlyFirst<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket
    }

    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        if self.early.borrow().is_finished() {
            return call::receive(self.socket, buffer);
        }
        let mut was_ready = false;
        loop {
            match self.try_receive(buffer) {
                // An unread error keeps poll(2) ready, so wait in a blocking receive instead.
                Err(Error::AGAIN) if was_ready => return call::receive(self.socket, buffer),
                Err(Error::AGAIN) => was_ready = self.wait_readable(Duration::MAX)?,
                other => return other,
            }
        }
    }

    fn try_receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.early.borrow_mut().receive_next(self.socket, buffer)
    }

    fn receive_messages(
        &self,
        _: &mut MessageHeaders,
        buffer: &mut [u8],
        _: u64,
        is_blocking: bool,
    ) -> Result<MessageTotals, Error> {
        let received = if is_blocking {
            self.receive(buffer)
        } else {
            self.try_receive(buffer)
        };
        received.map(MessageTotals::single)
    }

    fn wait_readable(&self, timeout: Duration) -> Result<bool, Error> {
        let deadline = Instant::now().checked_add(timeout);
        let mut early = self.early.borrow_mut();
        loop {
            early.collect();
            if !early.is_empty() {
                return Ok(true);
            }
            let other_socket = early.other_socket.as_deref().map(EarlySocket::socket);
            let sockets = [Some(self.socket), other_socket];
            let sockets: Vec<_> = sockets.into_iter().flatten().collect();
            match call::wait_any_readable(&sockets, time_until(deadline))? {
                // The datagram may belong to another connection.
                Some(1) => {}
                ready => return Ok(ready.is_some()),
            }
        }
    }
}
