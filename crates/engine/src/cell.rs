use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use model::Counts;
use units::Bytes;

/// One flow's counters, on cache lines of their own: one thread writes, anybody reads at any time.
///
/// Without pointers and of fixed layout, so that it could lie in memory that processes share.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Cell {
    sent: AtomicU64,
    received: AtomicU64,
    send_calls: AtomicU64,
    receive_calls: AtomicU64,
    transactions: AtomicU64,
    failed_sends: AtomicU64,
    received_late: AtomicU64,
    receive_calls_late: AtomicU64,
}

impl Cell {
    /// A send call took this many bytes.
    #[inline]
    pub(crate) fn sent(&self, bytes: usize) {
        add(&self.sent, bytes as u64);
        add(&self.send_calls, 1);
    }

    /// A receive call gave this many bytes.
    #[inline]
    pub(crate) fn received(&self, bytes: usize) {
        add(&self.received, bytes as u64);
        add(&self.receive_calls, 1);
    }

    /// A dialect's own loop received this many bytes, which are this many calls.
    pub fn count_received(&self, bytes: usize, calls: u64) {
        add(&self.received, bytes as u64);
        add(&self.receive_calls, calls);
    }

    /// A receive call gave this many bytes after the test's time.
    #[inline]
    pub(crate) fn received_late(&self, bytes: usize) {
        add(&self.received_late, bytes as u64);
        add(&self.receive_calls_late, 1);
    }

    /// A pass of a transactional workload was completed.
    #[inline]
    pub(crate) fn transaction(&self) {
        add(&self.transactions, 1);
    }

    /// The kernel refused a send for want of buffers.
    pub(crate) fn send_failed(&self) {
        add(&self.failed_sends, 1);
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        Counts {
            sent: Bytes(self.sent.load(Relaxed)),
            received: Bytes(self.received.load(Relaxed)),
            received_late: Bytes(self.received_late.load(Relaxed)),
            receive_calls_late: self.receive_calls_late.load(Relaxed),
            send_calls: self.send_calls.load(Relaxed),
            receive_calls: self.receive_calls.load(Relaxed),
            failed_sends: self.failed_sends.load(Relaxed),
            transactions: self.transactions.load(Relaxed),
        }
    }
}

/// One writer, so a load and a store are an addition; no locked instruction.
#[inline]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
}
