//! Counters of a flow or worker, with one writer and any number of readers.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::{Counts, DatagramCounts, DelaySums, HighestNumberCounts};
use sys::shared_memory::{CounterBlock, SharedLines};
use sys::{ObservedSocket, option};
use units::Bytes;

/// The counters of a flow or of a script, on separate cache lines. One thread writes them, and any
/// thread may read them at any time.
///
/// The lines are memory of this process, or memory that it shares with the processes that it forks.
#[derive(Debug)]
pub struct Counters {
    storage: Storage,
    /// Counts of numbered datagrams, once a receiver uses them.
    datagrams: OnceLock<Box<CounterBlock>>,
    /// Receive calls by size, once a receiver counts them.
    receive_sizes: OnceLock<Box<CounterBlock>>,
    /// Bytes that the peer has acknowledged, once a loop sends over a TCP connection.
    acknowledged: OnceLock<Box<Acknowledged>>,
}

/// The acknowledged bytes of the TCP connections over which a flow has sent.
#[derive(Debug, Default)]
struct Acknowledged {
    socket: ObservedSocket,
    /// The part of the connection's count that does not belong to this flow. It wraps if the flow
    /// has used other connections before.
    offset: AtomicU64,
    /// The last known value.
    last: AtomicU64,
}

#[derive(Debug)]
enum Storage {
    Private(Box<CounterBlock>),
    Shared(Arc<SharedLines>, usize),
}

/// Index of a counter on its cache line.
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

/// Index of a count of numbered datagrams on its cache line.
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
    FirstDelay,
    /// Sum of the differences from the first delay in nanoseconds, signed.
    DelaySum,
    /// Sum of their squares in square microseconds, as the bits of an f64.
    DelaySquares,
    /// In nanoseconds, signed.
    MinDelay,
    MaxDelay,
}

use Counter::{
    FailedOperations, FailedSends, Operations, Passes, ReceiveBatches, ReceiveCalls,
    ReceiveCallsLate, Received, ReceivedLate, ReceivedPerPass, SendBatches, SendCalls, Sent,
    SentPerPass, TransactionsPerPass,
};

/// Writer of [`Counters`].
///
/// A loop declares once the data that each pass moves ([`Self::set_pass_sizes`]). A pass of these
/// sizes is one addition. The calls of any other pass are counted one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CounterWriter<'a>(&'a CounterBlock);

/// Writer of the counts of numbered datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatagramWriter<'a>(&'a CounterBlock);

impl From<Storage> for Counters {
    fn from(storage: Storage) -> Self {
        Self {
            storage,
            datagrams: OnceLock::new(),
            receive_sizes: OnceLock::new(),
            acknowledged: OnceLock::new(),
        }
    }
}

impl Default for Counters {
    fn default() -> Self {
        Storage::Private(Box::default()).into()
    }
}

impl Counters {
    /// Returns counters on this shared line. A forked process writes them and its parent reads
    /// them.
    pub fn on_shared_line(lines: &Arc<SharedLines>, index: usize) -> Self {
        Storage::Shared(Arc::clone(lines), index).into()
    }

    /// Runs a loop that sends over this socket. Meanwhile, [`Self::acknowledged`] reads the
    /// acknowledged bytes of a TCP connection.
    pub(crate) fn observe_while<T>(&self, socket: BorrowedFd<'_>, run: impl FnOnce() -> T) -> T {
        let Some(at_start) = acknowledged_bytes(socket) else {
            return run();
        };
        let state = self.acknowledged.get_or_init(Box::default);
        let offset = at_start.0.wrapping_sub(state.last.load(Relaxed));
        state.offset.store(offset, Relaxed);
        state.socket.expose_while(socket, || {
            let result = run();
            state.update(socket);
            result
        })
    }

    /// Returns the bytes that the peer has acknowledged, until the end of the loop; `None` if the
    /// flow does not only send over TCP.
    pub fn acknowledged(&self) -> Option<Bytes> {
        let state = self.acknowledged.get()?;
        state.socket.read(|socket| state.update(socket));
        Some(Bytes(state.last.load(Relaxed)).min(self.counts().sent))
    }

    /// Counts `bytes` received in `calls`, which belong to no pass.
    pub fn count_received(&self, bytes: usize, calls: u64) {
        self.writer().count_received(bytes, calls);
    }

    /// Counts `bytes` sent in `calls`, which belong to no pass.
    pub fn count_sent(&self, bytes: usize, calls: u64) {
        self.writer().count_sent(bytes, calls);
    }

    /// Counts `bytes` received in `calls` after the test's time.
    pub fn count_received_late(&self, bytes: usize, calls: u64) {
        self.writer().count_received_late(bytes, calls);
    }

    /// Returns the current counts.
    pub fn counts(&self) -> Counts {
        let passes = self.get(Passes);
        let moved = |per_pass| self.get(per_pass).saturating_mul(passes);
        let calls = |per_pass| if self.get(per_pass) > 0 { passes } else { 0 };
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

    /// Returns the current counts of a receiver of numbered datagrams; `None` if the datagrams have
    /// no numbers.
    pub fn datagrams(&self) -> Option<DatagramCounts> {
        let line = self.datagrams.get()?;
        let get = |counter: DatagramCounter| line.0[counter as usize].load(Relaxed);
        let delays = DelaySums {
            count: get(DatagramCounter::Delays),
            first_ns: get(DatagramCounter::FirstDelay) as i64,
            sum_ns: get(DatagramCounter::DelaySum) as i64,
            squares_us2: f64::from_bits(get(DatagramCounter::DelaySquares)),
            extremes_ns: extremes(
                get(DatagramCounter::MinDelay),
                get(DatagramCounter::MaxDelay),
            ),
        };
        Some(DatagramCounts {
            received: get(DatagramCounter::Received),
            lost: get(DatagramCounter::Lost),
            reordered: get(DatagramCounter::Reordered),
            duplicated: get(DatagramCounter::Duplicated),
            jitter: (delays.count > 0).then(|| Duration::from_nanos(get(DatagramCounter::Jitter))),
            highest_number_counts: HighestNumberCounts {
                highest: get(DatagramCounter::Highest),
                skipped: get(DatagramCounter::PassedOver),
                out_of_order: get(DatagramCounter::OutOfOrder),
                missing: get(DatagramCounter::Missing),
            },
            delays,
        })
    }

    /// Returns the number of receive calls that filled up to one eighth of their buffer, up to two
    /// eighths, …, up to all of it. Returns `None` if they are not counted.
    pub fn receive_sizes(&self) -> Option<[u64; 8]> {
        let line = self.receive_sizes.get()?;
        Some(std::array::from_fn(|eighth| line.0[eighth].load(Relaxed)))
    }

    /// Returns the cache line of the receive calls by size. The first call creates it.
    pub(crate) fn receive_size_counts(&self) -> &CounterBlock {
        self.receive_sizes.get_or_init(Box::default)
    }

    /// Returns the writer of the counts of numbered datagrams. The first call creates the counts.
    pub(crate) fn datagram_writer(&self) -> DatagramWriter<'_> {
        let new = || {
            let line = Box::<CounterBlock>::default();
            line.0[DatagramCounter::MinDelay as usize].store(i64::MAX as u64, Relaxed);
            line.0[DatagramCounter::MaxDelay as usize].store(i64::MIN as u64, Relaxed);
            line
        };
        DatagramWriter(self.datagrams.get_or_init(new))
    }

    /// Returns a number that changes whenever data moves or an operation ends.
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

    fn line(&self) -> &CounterBlock {
        match &self.storage {
            Storage::Private(line) => line,
            Storage::Shared(lines, index) => &lines[*index],
        }
    }
}

/// Whether a pass counts as a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassKind {
    OneWay,
    Transaction,
}

impl CounterWriter<'_> {
    /// Declares that a pass has one send call and one receive call of these sizes, 0 for none. The
    /// sizes of counted passes must not change.
    pub(crate) fn set_pass_sizes(self, sent: u32, received: u32, kind: PassKind) {
        for (counter, amount) in [
            (SentPerPass, sent),
            (ReceivedPerPass, received),
            (
                TransactionsPerPass,
                u32::from(kind == PassKind::Transaction),
            ),
        ] {
            let line = &self.0.0;
            let (size, amount) = (&line[counter as usize], u64::from(amount));
            debug_assert!(
                line[Passes as usize].load(Relaxed) == 0 || size.load(Relaxed) == amount,
                "the sizes of counted passes must not change"
            );
            size.store(amount, Relaxed);
        }
    }

    /// Counts a pass of the declared sizes. Calls beyond one per direction are counted separately.
    #[inline]
    pub(crate) fn count_pass(self) {
        self.add(Passes, 1);
    }

    /// Counts `bytes` sent in `calls`, which belong to no pass.
    #[inline]
    pub(crate) fn count_sent(self, bytes: usize, calls: u64) {
        self.add(Sent, bytes as u64);
        self.add(SendCalls, calls);
    }

    /// Counts `bytes` received in `calls`, which belong to no pass.
    #[inline]
    pub(crate) fn count_received(self, bytes: usize, calls: u64) {
        self.add(Received, bytes as u64);
        self.add(ReceiveCalls, calls);
    }

    /// Counts `bytes` received in `calls` after the test's time.
    #[inline]
    pub(crate) fn count_received_late(self, bytes: usize, calls: u64) {
        self.add(ReceivedLate, bytes as u64);
        self.add(ReceiveCallsLate, calls);
    }

    /// Adds to one counter. With a single writer, a load and a store are enough; no locked
    /// instruction is needed.
    #[inline]
    pub(crate) fn add(self, counter: Counter, amount: u64) {
        let counter = &self.0.0[counter as usize];
        counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
    }
}

impl DatagramWriter<'_> {
    #[inline]
    pub(crate) fn add(self, counter: DatagramCounter, amount: u64) {
        let counter = self.counter(counter);
        counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    #[inline]
    pub(crate) fn set(self, counter: DatagramCounter, value: u64) {
        self.counter(counter).store(value, Relaxed);
    }

    /// Subtracts one, but not below 0.
    pub(crate) fn subtract_one(self, counter: DatagramCounter) {
        let counter = self.counter(counter);
        counter.store(counter.load(Relaxed).saturating_sub(1), Relaxed);
    }

    /// Adds a delay.
    #[inline]
    pub(crate) fn add_delay(self, delay_ns: i64) {
        if self.counter(DatagramCounter::Delays).load(Relaxed) == 0 {
            self.set(DatagramCounter::FirstDelay, delay_ns as u64);
        }
        let first_ns = self.counter(DatagramCounter::FirstDelay).load(Relaxed) as i64;
        let difference_ns = delay_ns.wrapping_sub(first_ns);
        let micros = difference_ns as f64 / 1e3;
        let squares = f64::from_bits(self.counter(DatagramCounter::DelaySquares).load(Relaxed));
        let squares = squares + micros * micros;
        self.set(DatagramCounter::DelaySquares, squares.to_bits());
        self.add(DatagramCounter::DelaySum, difference_ns as u64);
        self.add(DatagramCounter::Delays, 1);
        let (min, max) = (
            self.counter(DatagramCounter::MinDelay),
            self.counter(DatagramCounter::MaxDelay),
        );
        if delay_ns < min.load(Relaxed) as i64 {
            min.store(delay_ns as u64, Relaxed);
        }
        if delay_ns > max.load(Relaxed) as i64 {
            max.store(delay_ns as u64, Relaxed);
        }
    }

    fn counter(&self, counter: DatagramCounter) -> &AtomicU64 {
        &self.0.0[counter as usize]
    }
}

impl Acknowledged {
    fn update(&self, socket: BorrowedFd<'_>) {
        if let Some(Bytes(count)) = acknowledged_bytes(socket) {
            let of_flow = count.wrapping_sub(self.offset.load(Relaxed));
            self.last.fetch_max(of_flow, Relaxed);
        }
    }
}

/// Returns the bytes that the peer of a TCP connection has acknowledged since the connection was
/// opened; `None` for other sockets, and for Multipath TCP, which counts per path.
pub fn acknowledged_bytes(socket: BorrowedFd<'_>) -> Option<Bytes> {
    let info = option::tcp_info(socket).ok()?;
    let is_multipath = option::is_multipath(socket).unwrap_or(false);
    info.acknowledged_bytes.filter(|_| !is_multipath).map(Bytes)
}

/// Returns the smallest and the largest delay; `None` if there is no delay.
fn extremes(min_ns: u64, max_ns: u64) -> Option<(i64, i64)> {
    let (min_ns, max_ns) = (min_ns as i64, max_ns as i64);
    (min_ns <= max_ns).then_some((min_ns, max_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_acknowledged_bytes_have_arrived() {
        use std::io::{Read, Write};
        use std::os::fd::AsFd;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (counters, data) = (Counters::default(), vec![0; 100_000]);
        assert_eq!(counters.acknowledged(), None);
        for connection in 1..=2_u64 {
            let mut sender = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            sender.set_nonblocking(true).unwrap();
            let (mut receiver, _) = listener.accept().unwrap();
            let socket = sender.try_clone().unwrap();
            let mut sent = 0;
            counters.observe_while(socket.as_fd(), || {
                // The receiver reads nothing, so the last bytes stay in the sender's buffer.
                while let Ok(bytes) = sender.write(&data) {
                    counters.count_sent(bytes, 1);
                    sent += bytes;
                }
                let all = counters.counts().sent;
                assert!(counters.acknowledged().unwrap() < all, "{connection}");
                receiver.read_exact(&mut vec![0; sent]).unwrap();
                while counters.acknowledged().unwrap() < all {
                    std::thread::yield_now();
                }
            });
            assert_eq!(counters.acknowledged(), Some(counters.counts().sent));
        }
    }

    #[test]
    fn passes_and_single_calls_add_up() {
        let lines = Arc::new(SharedLines::new(2).unwrap());
        for counters in [Counters::default(), Counters::on_shared_line(&lines, 1)] {
            let writer = counters.writer();
            writer.set_pass_sizes(10, 0, PassKind::Transaction);
            writer.count_pass();
            writer.count_pass();
            writer.add(SendCalls, 3);
            writer.count_sent(4, 1);
            writer.count_received(7, 1);
            writer.add(Operations, 5);
            let counts = counters.counts();
            assert_eq!((counts.sent.0, counts.send_calls), (24, 6));
            assert_eq!((counts.received.0, counts.receive_calls), (7, 1));
            assert_eq!((counts.transactions, counts.operations), (2, 5));
        }
    }
}
