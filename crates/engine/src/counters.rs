use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use model::Counts;
use units::Bytes;

/// One flow's counters, on cache lines of their own: one thread writes, anybody reads at any time.
///
/// What every pass of a loop moves is written down once ([`Counters::expect`]), so that a pass that went
/// as expected is one addition; what did not is counted singly. Without pointers and of fixed
/// layout, so that it could lie in memory that processes share.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Counters {
    passes: AtomicU64,
    sent_a_pass: AtomicU64,
    received_a_pass: AtomicU64,
    /// 1 when a pass is a transaction.
    transactions_a_pass: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    send_calls: AtomicU64,
    receive_calls: AtomicU64,
    failed_sends: AtomicU64,
    received_late: AtomicU64,
    receive_calls_late: AtomicU64,
    send_batches: AtomicU64,
    receive_batches: AtomicU64,
}

impl Counters {
    /// What a pass will be: one send call and one receive call of so many bytes each, 0 for none.
    pub(crate) fn expect(&self, sent: u32, received: u32, is_transaction: bool) {
        self.sent_a_pass.store(sent.into(), Relaxed);
        self.received_a_pass.store(received.into(), Relaxed);
        self.transactions_a_pass
            .store(is_transaction.into(), Relaxed);
    }

    /// A pass went as expected; calls beyond one each way are counted beside it.
    #[inline]
    pub(crate) fn pass(&self) {
        self.passes(1);
    }

    /// So many passes went as expected.
    #[inline]
    pub(crate) fn passes(&self, count: usize) {
        add(&self.passes, count as u64);
    }

    /// A send call took this many bytes, in no pass.
    #[inline]
    pub(crate) fn sent(&self, bytes: usize) {
        add(&self.sent, bytes as u64);
        add(&self.send_calls, 1);
    }

    /// A receive call gave this many bytes, in no pass.
    #[inline]
    pub(crate) fn received(&self, bytes: usize) {
        add(&self.received, bytes as u64);
        add(&self.receive_calls, 1);
    }

    /// A pass took this many send calls more than one.
    pub(crate) fn more_send_calls(&self, calls: u64) {
        add(&self.send_calls, calls);
    }

    /// A pass took this many receive calls more than one.
    pub(crate) fn more_receive_calls(&self, calls: u64) {
        add(&self.receive_calls, calls);
    }

    /// This many bytes came in so many calls, in no pass.
    #[inline]
    pub fn count_received(&self, bytes: usize, calls: u64) {
        add(&self.received, bytes as u64);
        add(&self.receive_calls, calls);
    }

    /// The same, after the test's time.
    pub fn count_received_late(&self, bytes: usize, calls: u64) {
        add(&self.received_late, bytes as u64);
        add(&self.receive_calls_late, calls);
    }

    /// This many bytes left in so many calls, in no pass.
    #[inline]
    pub(crate) fn count_sent(&self, bytes: usize, calls: u64) {
        add(&self.sent, bytes as u64);
        add(&self.send_calls, calls);
    }

    /// A receive call gave this many bytes after the test's time.
    #[inline]
    pub(crate) fn received_late(&self, bytes: usize) {
        add(&self.received_late, bytes as u64);
        add(&self.receive_calls_late, 1);
    }

    /// One call sent several messages, which are counted one by one.
    #[inline]
    pub(crate) fn sent_batch(&self) {
        add(&self.send_batches, 1);
    }

    /// One call received several messages, which are counted one by one.
    #[inline]
    pub(crate) fn received_batch(&self) {
        add(&self.receive_batches, 1);
    }

    /// The kernel refused a send for want of buffers.
    pub(crate) fn send_failed(&self) {
        add(&self.failed_sends, 1);
    }

    /// Something that is another whenever anything has moved since.
    pub(crate) fn progress(&self) -> u64 {
        let moved = [
            &self.passes,
            &self.sent,
            &self.received,
            &self.send_calls,
            &self.receive_calls,
            &self.received_late,
            &self.receive_calls_late,
        ];
        moved
            .iter()
            .fold(0, |sum, counter| sum.wrapping_add(counter.load(Relaxed)))
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        let passes = self.passes.load(Relaxed);
        let a_pass = |amount: &AtomicU64| amount.load(Relaxed).saturating_mul(passes);
        let calls = |amount: &AtomicU64| if amount.load(Relaxed) > 0 { passes } else { 0 };
        Counts {
            sent: Bytes(self.sent.load(Relaxed) + a_pass(&self.sent_a_pass)),
            received: Bytes(self.received.load(Relaxed) + a_pass(&self.received_a_pass)),
            received_late: Bytes(self.received_late.load(Relaxed)),
            receive_calls_late: self.receive_calls_late.load(Relaxed),
            send_calls: self.send_calls.load(Relaxed) + calls(&self.sent_a_pass),
            receive_calls: self.receive_calls.load(Relaxed) + calls(&self.received_a_pass),
            failed_sends: self.failed_sends.load(Relaxed),
            send_batches: self.send_batches.load(Relaxed),
            receive_batches: self.receive_batches.load(Relaxed),
            transactions: a_pass(&self.transactions_a_pass),
            ..Counts::default()
        }
    }
}

/// One writer, so a load and a store are an addition; no locked instruction.
#[inline]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_and_single_calls_add_up() {
        let counters = Counters::default();
        counters.expect(10, 0, true);
        counters.pass();
        counters.pass();
        counters.more_send_calls(3);
        counters.sent(4);
        counters.received(7);
        let counts = counters.counts();
        assert_eq!((counts.sent.0, counts.send_calls), (24, 6));
        assert_eq!((counts.received.0, counts.receive_calls), (7, 1));
        assert_eq!(counts.transactions, 2);
    }
}
