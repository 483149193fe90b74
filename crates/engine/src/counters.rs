//! What a flow or worker has moved: one writer, any number of readers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use model::Counts;
use sys::shared::{CacheLine, SharedLines};
use units::Bytes;

/// The counters of a flow or of a script, on cache lines of their own: one thread writes, and any thread reads at
/// any time.
///
/// The lines are memory of this process, or memory that it shares with the processes that it forks.
#[derive(Debug)]
pub struct Counters(Place);

#[derive(Debug)]
enum Place {
    Own(Box<CacheLine>),
    Shared(Arc<SharedLines>, usize),
}

/// The place of a counter on the line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counter {
    Passes,
    SentPerPass,
    ReceivedPerPass,
    /// 1 if a pass is a transaction.
    TransactionsPerPass,
    Sent,
    Received,
    SendCalls,
    ReceiveCalls,
    FailedSends,
    ReceivedLate,
    ReceiveCallsLate,
    SendBatches,
    ReceiveBatches,
    Operations,
    FailedOperations,
}

use Counter::{
    FailedOperations, FailedSends, Operations, Passes, ReceiveBatches, ReceiveCalls,
    ReceiveCallsLate, Received, ReceivedLate, ReceivedPerPass, SendBatches, SendCalls, Sent,
    SentPerPass, TransactionsPerPass,
};

/// The counters as their writer uses them.
///
/// A loop states once what each pass moves ([`Self::expect`]). A pass that goes as expected is one addition; the
/// calls of any other pass are counted singly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterWriter<'a>(&'a CacheLine);

impl Default for Counters {
    fn default() -> Self {
        Self(Place::Own(Box::default()))
    }
}

impl Counters {
    /// Counters that a forked process writes and its parent reads, on this line.
    pub fn shared(lines: &Arc<SharedLines>, at: usize) -> Self {
        Self(Place::Shared(Arc::clone(lines), at))
    }

    /// Counts `bytes` received in `calls`, which belong to no pass.
    pub fn count_received(&self, bytes: usize, calls: u64) {
        self.writer().received(bytes, calls);
    }

    /// As [`Self::count_received`], after the test's time.
    pub fn count_received_late(&self, bytes: usize, calls: u64) {
        self.writer().received_late(bytes, calls);
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        let passes = self.get(Passes);
        let moved = |each| self.get(each).saturating_mul(passes);
        let calls = |each| if self.get(each) > 0 { passes } else { 0 };
        Counts {
            sent: Bytes(self.get(Sent) + moved(SentPerPass)),
            received: Bytes(self.get(Received) + moved(ReceivedPerPass)),
            received_late: Bytes(self.get(ReceivedLate)),
            receive_calls_late: self.get(ReceiveCallsLate),
            send_calls: self.get(SendCalls) + calls(SentPerPass),
            receive_calls: self.get(ReceiveCalls) + calls(ReceivedPerPass),
            failed_sends: self.get(FailedSends),
            send_batches: self.get(SendBatches),
            receive_batches: self.get(ReceiveBatches),
            transactions: moved(TransactionsPerPass),
            operations: self.get(Operations),
            failed_operations: self.get(FailedOperations),
        }
    }

    /// Returns a number that changes whenever anything moves.
    pub(crate) fn progress(&self) -> u64 {
        let moved = [
            Passes,
            Sent,
            Received,
            SendCalls,
            ReceiveCalls,
            ReceivedLate,
            ReceiveCallsLate,
            Operations,
        ];
        let moved = moved.into_iter().map(|counter| self.get(counter));
        moved.fold(0, u64::wrapping_add)
    }

    pub(crate) fn writer(&self) -> CounterWriter<'_> {
        CounterWriter(self.line())
    }

    fn get(&self, counter: Counter) -> u64 {
        self.line().0[counter as usize].load(Relaxed)
    }

    fn line(&self) -> &CacheLine {
        match &self.0 {
            Place::Own(line) => line,
            Place::Shared(lines, at) => &lines[*at],
        }
    }
}

impl CounterWriter<'_> {
    /// States what a pass is: one send call and one receive call of these sizes, 0 for none. Counters that have passes
    /// keep their sizes.
    pub(crate) fn expect(self, sent: u32, received: u32, is_transaction: bool) {
        for (counter, amount) in [
            (SentPerPass, sent),
            (ReceivedPerPass, received),
            (TransactionsPerPass, is_transaction.into()),
        ] {
            let line = &self.0.0;
            let (place, amount) = (&line[counter as usize], u64::from(amount));
            debug_assert!(
                line[Passes as usize].load(Relaxed) == 0 || place.load(Relaxed) == amount,
                "passes that are counted would change their size"
            );
            place.store(amount, Relaxed);
        }
    }

    /// Counts a pass that went as expected. Calls beyond one each way are counted apart.
    #[inline]
    pub(crate) fn pass(self) {
        self.add(Passes, 1);
    }

    /// Counts `bytes` sent in `calls`, which belong to no pass.
    #[inline]
    pub(crate) fn sent(self, bytes: usize, calls: u64) {
        self.add(Sent, bytes as u64);
        self.add(SendCalls, calls);
    }

    /// Counts `bytes` received in `calls`, which belong to no pass.
    #[inline]
    pub(crate) fn received(self, bytes: usize, calls: u64) {
        self.add(Received, bytes as u64);
        self.add(ReceiveCalls, calls);
    }

    /// As [`Self::received`], after the test's time.
    #[inline]
    pub(crate) fn received_late(self, bytes: usize, calls: u64) {
        self.add(ReceivedLate, bytes as u64);
        self.add(ReceiveCallsLate, calls);
    }

    /// Adds to one counter. With one writer a load and a store are an addition; no locked instruction is needed.
    #[inline]
    pub(crate) fn add(self, counter: Counter, amount: u64) {
        let counter = &self.0.0[counter as usize];
        counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_and_single_calls_add_up() {
        let lines = Arc::new(SharedLines::new(2).unwrap());
        for counters in [Counters::default(), Counters::shared(&lines, 1)] {
            let writer = counters.writer();
            writer.expect(10, 0, true);
            writer.pass();
            writer.pass();
            writer.add(SendCalls, 3);
            writer.sent(4, 1);
            writer.received(7, 1);
            writer.add(Operations, 5);
            let counts = counters.counts();
            assert_eq!((counts.sent.0, counts.send_calls), (24, 6));
            assert_eq!((counts.received.0, counts.receive_calls), (7, 1));
            assert_eq!((counts.transactions, counts.operations), (2, 5));
        }
    }
}
