//! What a flow or worker has moved: one writer, any number of readers.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::{Counts, DatagramCounts, DelaySums, OrderCounts};
use sys::shared::{CacheLine, SharedLines};
use units::Bytes;

/// The counters of a flow or of a script, on cache lines of their own: one thread writes, and any thread reads at
/// any time.
///
/// The lines are memory of this process, or memory that it shares with the processes that it forks.
#[derive(Debug)]
pub struct Counters {
    place: Place,
    /// Of numbered datagrams, as soon as somebody receives such.
    datagrams: OnceLock<Box<CacheLine>>,
    /// Of receive calls by their sizes, likewise.
    receive_sizes: OnceLock<Box<CacheLine>>,
}

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

/// The place of a count of numbered datagrams on their line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DatagramCounter {
    Received,
    Lost,
    Reordered,
    Duplicated,
    Highest,
    PassedOver,
    OutOfOrder,
    Missing,
    /// In nanoseconds.
    Jitter,
    Delays,
    /// In nanoseconds, signed.
    DelaySum,
    /// In square microseconds, the bits of an f64.
    DelaySquares,
    /// In nanoseconds, signed; of the delays since somebody took it.
    LeastDelay,
    MostDelay,
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

/// The counts of numbered datagrams as their writer uses them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatagramWriter<'a>(&'a CacheLine);

impl From<Place> for Counters {
    fn from(place: Place) -> Self {
        Self {
            place,
            datagrams: OnceLock::new(),
            receive_sizes: OnceLock::new(),
        }
    }
}

impl Default for Counters {
    fn default() -> Self {
        Place::Own(Box::default()).into()
    }
}

impl Counters {
    /// Counters that a forked process writes and its parent reads, on this line.
    pub fn shared(lines: &Arc<SharedLines>, at: usize) -> Self {
        Place::Shared(Arc::clone(lines), at).into()
    }

    /// Counts `bytes` received in `calls`, which belong to no pass.
    pub fn count_received(&self, bytes: usize, calls: u64) {
        self.writer().received(bytes, calls);
    }

    /// Counts `bytes` sent in `calls`, which belong to no pass.
    pub fn count_sent(&self, bytes: usize, calls: u64) {
        self.writer().sent(bytes, calls);
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

    /// Returns what the receiver of numbered datagrams has counted so far; `None` if they have no numbers.
    pub fn datagrams(&self) -> Option<DatagramCounts> {
        let line = self.datagrams.get()?;
        let get = |counter: DatagramCounter| line.0[counter as usize].load(Relaxed);
        let delays = DelaySums {
            count: get(DatagramCounter::Delays),
            sum_ns: get(DatagramCounter::DelaySum) as i64,
            squares_us2: f64::from_bits(get(DatagramCounter::DelaySquares)),
            extremes_ns: extremes(
                get(DatagramCounter::LeastDelay),
                get(DatagramCounter::MostDelay),
            ),
        };
        Some(DatagramCounts {
            received: get(DatagramCounter::Received),
            lost: get(DatagramCounter::Lost),
            reordered: get(DatagramCounter::Reordered),
            duplicated: get(DatagramCounter::Duplicated),
            jitter: (delays.count > 0).then(|| Duration::from_nanos(get(DatagramCounter::Jitter))),
            by_order: OrderCounts {
                highest: get(DatagramCounter::Highest),
                passed_over: get(DatagramCounter::PassedOver),
                out_of_order: get(DatagramCounter::OutOfOrder),
                missing: get(DatagramCounter::Missing),
            },
            delays,
        })
    }

    /// Returns the receive calls that filled up to one eighth of their buffer, two, … and all of it; `None` if nobody
    /// counts them.
    pub fn receive_sizes(&self) -> Option<[u64; 8]> {
        let line = self.receive_sizes.get()?;
        Some(std::array::from_fn(|eighth| line.0[eighth].load(Relaxed)))
    }

    /// The place of these counts, which exist from now on.
    pub(crate) fn receive_size_line(&self) -> &CacheLine {
        self.receive_sizes.get_or_init(Box::default)
    }

    /// The writer of the counts of numbered datagrams, which exist from now on.
    pub(crate) fn datagram_writer(&self) -> DatagramWriter<'_> {
        let new = || {
            let line = Box::<CacheLine>::default();
            line.0[DatagramCounter::LeastDelay as usize].store(i64::MAX as u64, Relaxed);
            line.0[DatagramCounter::MostDelay as usize].store(i64::MIN as u64, Relaxed);
            line
        };
        DatagramWriter(self.datagrams.get_or_init(new))
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
        match &self.place {
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

impl DatagramWriter<'_> {
    #[inline]
    pub(crate) fn add(self, counter: DatagramCounter, amount: u64) {
        let counter = self.at(counter);
        counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    #[inline]
    pub(crate) fn set(self, counter: DatagramCounter, value: u64) {
        self.at(counter).store(value, Relaxed);
    }

    /// Takes one away, if there is one.
    pub(crate) fn take_one(self, counter: DatagramCounter) {
        let counter = self.at(counter);
        counter.store(counter.load(Relaxed).saturating_sub(1), Relaxed);
    }

    /// Adds a delay.
    #[inline]
    pub(crate) fn delay(self, delay_ns: i64) {
        let micros = delay_ns as f64 / 1e3;
        let squares = f64::from_bits(self.at(DatagramCounter::DelaySquares).load(Relaxed));
        let squares = squares + micros * micros;
        self.set(DatagramCounter::DelaySquares, squares.to_bits());
        self.add(DatagramCounter::DelaySum, delay_ns as u64);
        self.add(DatagramCounter::Delays, 1);
        let (least, most) = (
            self.at(DatagramCounter::LeastDelay),
            self.at(DatagramCounter::MostDelay),
        );
        if delay_ns < least.load(Relaxed) as i64 {
            least.store(delay_ns as u64, Relaxed);
        }
        if delay_ns > most.load(Relaxed) as i64 {
            most.store(delay_ns as u64, Relaxed);
        }
    }

    fn at(&self, counter: DatagramCounter) -> &AtomicU64 {
        &self.0.0[counter as usize]
    }
}

/// None are the least of none and the most of none.
fn extremes(least_ns: u64, most_ns: u64) -> Option<(i64, i64)> {
    let (least_ns, most_ns) = (least_ns as i64, most_ns as i64);
    (least_ns <= most_ns).then_some((least_ns, most_ns))
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
