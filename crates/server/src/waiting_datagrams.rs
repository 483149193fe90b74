//! Datagrams that have arrived at a server's socket and wait until a session accepts their flow.

use std::collections::VecDeque;
use std::time::Duration;

use engine::FirstDatagram;
use sys::Address;

/// The maximum numbers of datagrams, and of their bytes, that wait for a session. Further datagrams
/// are dropped.
pub(crate) const MAX_WAITING: usize = 1024;
const MAX_WAITING_BYTES: usize = 4 << 20;

/// Datagrams in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct DatagramQueue {
    datagrams: VecDeque<WaitingDatagram>,
    pub(crate) bytes: usize,
}

/// A datagram that waits for its session.
#[derive(Debug)]
pub(crate) struct WaitingDatagram {
    pub(crate) owner: Owner,
    pub(crate) from: Address,
    pub(crate) first: FirstDatagram,
}

/// The session that accepts a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) id: u64,
    /// The number of sessions that the flow could belong to.
    pub(crate) candidates: usize,
}

impl DatagramQueue {
    pub(crate) fn push(&mut self, datagram: WaitingDatagram) {
        self.bytes += datagram.first.data.len();
        self.datagrams.push_back(datagram);
    }

    pub(crate) fn pop_first(&mut self) {
        let first = self.datagrams.pop_front();
        self.bytes -= first.map_or(0, |waiting| waiting.first.data.len());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &WaitingDatagram> {
        self.datagrams.iter()
    }

    /// Returns the time since the arrival of the first datagram.
    pub(crate) fn first_age(&self) -> Option<Duration> {
        self.datagrams.front().map(|waiting| waiting.first.age())
    }

    pub(crate) fn contains(&self, source: &Address) -> bool {
        self.datagrams.iter().any(|waiting| waiting.from == *source)
    }

    pub(crate) fn lacks_room_for(&self, length: usize) -> bool {
        !self.datagrams.is_empty()
            && (self.datagrams.len() >= MAX_WAITING || self.bytes + length > MAX_WAITING_BYTES)
    }

    /// Removes and returns the datagrams of a source.
    pub(crate) fn remove(&mut self, source: &Address) -> Vec<WaitingDatagram> {
        let mut removed = Vec::new();
        if self.contains(source) {
            for waiting in std::mem::take(self).datagrams {
                if waiting.from == *source {
                    removed.push(waiting);
                } else {
                    self.push(waiting);
                }
            }
        }
        removed
    }

    pub(crate) fn retain(&mut self, is_kept: impl FnMut(&mut WaitingDatagram) -> bool) {
        self.datagrams.retain_mut(is_kept);
        let lengths = self
            .datagrams
            .iter()
            .map(|waiting| waiting.first.data.len());
        self.bytes = lengths.sum();
    }
}
