//! Receives single datagrams with their arrival times, on a socket that also carries requests.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::{DatagramCounts, DatagramFormat};
use stats::Histogram;
use sys::call::Error;
use sys::clock::{monotonic_ns, wall_clock_offset_ns};
use sys::stamped::{self, ArrivalStamps, StampedBatch};

use crate::budget::BudgetShare;
use crate::counters::Counters;
use crate::memory::BufferMemory;
use crate::numbers::{ArrivalOrder, Classifier};
use crate::packet_records::{PacketArrival, PacketRecords, PacketTimes, Recording};
use crate::stop::{Stop, StopReason};

/// Settings of a [`PacketReceiver`].
#[derive(Clone, Copy, Debug)]
pub struct PacketReceiverSettings {
    /// The format of numbers and stamps.
    pub format: DatagramFormat,
    /// Bytes of the longest datagram; longer ones are truncated.
    pub max_bytes: u32,
    /// Datagrams per call if the kernel stamps each; without its stamps, one datagram per call.
    pub batch_size: u32,
    /// Enables the stamps of the kernel and of the NIC.
    pub enables_stamps: bool,
    /// Which datagrams are recorded.
    pub recording: Recording,
    /// Time without a datagram after which the receiver returns [`ReceiveEvent::Timeout`].
    pub timeout: Duration,
}

/// Separates the flow's datagrams from requests, and observes each datagram of the flow after the
/// datagram is counted.
pub trait PacketObserver {
    /// Returns whether the datagram belongs to the flow.
    fn is_of_flow(&self, datagram: &[u8]) -> bool;

    /// Observes a datagram of the flow.
    fn observe(&mut self, arrival: &PacketArrival);
}

/// Reason for which a [`PacketReceiver`] returns.
#[derive(Debug)]
pub enum ReceiveEvent<'a> {
    /// A datagram that does not belong to the flow.
    NotOfFlow {
        /// Its payload, possibly truncated.
        datagram: &'a mut [u8],
        /// Its arrival times.
        times: PacketTimes,
    },
    /// No datagram arrived within the configured time.
    Timeout,
    /// The stop was set.
    Stopped(StopReason),
}

/// Sources of [`PacketTimes::arrival_ns`] of the flow's datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampCounts {
    /// Stamped by the kernel.
    pub kernel: u64,
    /// Timed by this process, because there was no stamp.
    pub program: u64,
    /// Also stamped by the NIC.
    pub nic: u64,
}

/// Receives a flow's datagrams; counts, times and records them.
#[derive(Debug)]
pub struct PacketReceiver<'a> {
    socket: BorrowedFd<'a>,
    counters: &'a Counters,
    format: DatagramFormat,
    classifier: Classifier<'a>,
    batch: StampedBatch,
    /// Index of the batch's next datagram.
    next_index: usize,
    /// Number of datagrams in the batch.
    batch_length: usize,
    user_ns: u64,
    clock_offset: ClockOffset,
    stamp_counts: StampCounts,
    first_ns: Option<u64>,
    last: PacketArrival,
    gaps: Histogram,
    records: PacketRecords,
    drops_at_start: Option<u32>,
    _memory: BudgetShare,
}

impl<'a> PacketReceiver<'a> {
    /// Prepares the socket and allocates all memory. `counters` must belong to one flow.
    pub fn new(
        socket: BorrowedFd<'a>,
        settings: &PacketReceiverSettings,
        counters: &'a Counters,
        memory: &BufferMemory,
    ) -> io::Result<Self> {
        let is_stamped = settings.enables_stamps && stamped::enable_arrival_stamps(socket).is_ok();
        let batch_size = if is_stamped { settings.batch_size } else { 1 } as usize;
        let max_bytes = settings.max_bytes as usize;
        let bytes = StampedBatch::footprint(batch_size, max_bytes)
            .and_then(|bytes| bytes.checked_add(settings.recording.footprint()?))
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let memory = memory.reserve(bytes as u64).map_err(io::Error::other)?;
        let batch = StampedBatch::new(batch_size, max_bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        sys::option::set_receive_timeout(socket, settings.timeout)?;
        Ok(Self {
            socket,
            counters,
            format: settings.format,
            classifier: Classifier::new(settings.format, counters.datagram_writer(), false),
            batch,
            next_index: 0,
            batch_length: 0,
            user_ns: 0,
            clock_offset: ClockOffset::now(),
            stamp_counts: StampCounts::default(),
            first_ns: None,
            last: PacketArrival::initial(settings.format),
            gaps: Histogram::default(),
            records: PacketRecords::new(settings.recording).ok_or(io::ErrorKind::OutOfMemory)?,
            drops_at_start: sys::option::dropped_packets(socket).ok(),
            _memory: memory,
        })
    }

    /// Receives until a datagram arrives that is not of the flow, until no datagram arrives for the
    /// configured time, or until the stop is set. It can be called repeatedly.
    ///
    /// It ignores ICMP errors that a datagram from this host has caused.
    pub fn receive(
        &mut self,
        stop: &Stop,
        observer: &mut impl PacketObserver,
    ) -> io::Result<ReceiveEvent<'_>> {
        let _registration = stop.register_thread();
        let (index, times) = loop {
            if let Some(index_and_times) = self.process_batch(observer) {
                break index_and_times;
            }
            if stop.is_set() {
                let reason = stop.reason().unwrap_or(StopReason::Deadline);
                return Ok(ReceiveEvent::Stopped(reason));
            }
            match self.batch.receive(self.socket) {
                Ok(count) => {
                    self.user_ns = monotonic_ns();
                    self.clock_offset
                        .compare_if_due(self.user_ns, ClockOffset::COMPARE_INTERVAL_NS);
                    (self.next_index, self.batch_length) = (0, count);
                }
                Err(Error::INTR | Error::CONNREFUSED) => {}
                Err(Error::AGAIN) => return Ok(ReceiveEvent::Timeout),
                Err(error) => return Err(error.into()),
            }
        };
        let datagram = self.batch.datagram(index);
        Ok(ReceiveEvent::NotOfFlow { datagram, times })
    }

    /// Handles the batch up to a datagram that does not belong to the flow; returns its index and
    /// times.
    #[inline]
    fn process_batch(
        &mut self,
        observer: &mut impl PacketObserver,
    ) -> Option<(usize, PacketTimes)> {
        while self.next_index < self.batch_length {
            let index = self.next_index;
            self.next_index += 1;
            let stamps = self.batch.stamps(index);
            let times = PacketTimes {
                arrival_ns: match stamps.kernel_ns {
                    0 => self.user_ns,
                    kernel_ns => self.clock_offset.monotonic_ns(kernel_ns, self.user_ns),
                },
                user_ns: self.user_ns,
                stamps,
            };
            if !observer.is_of_flow(self.batch.datagram(index)) {
                return Some((index, times));
            }
            let arrival = self.record_arrival(index, times);
            observer.observe(&arrival);
        }
        None
    }

    /// Counts and records a datagram.
    #[inline]
    fn record_arrival(&mut self, index: usize, times: PacketTimes) -> PacketArrival {
        let bytes = self.batch.length(index);
        let datagram = self.batch.datagram(index);
        let before_first = i64::from(self.format.first_number) - 1;
        let highest = self.classifier.highest + before_first;
        let number = self.format.read_number(datagram, highest);
        let sent_ns = self
            .format
            .read_send_time_ns(datagram)
            .map(|sent_ns| sent_ns as i64);
        let order = match number {
            Some(number) => self.classifier.count(number.wrapping_sub(before_first)),
            None => ArrivalOrder::Invalid,
        };
        self.counters.writer().count_received(bytes, 1);
        let gap_ns = match self.first_ns {
            Some(_) => Some(times.arrival_ns.saturating_sub(self.last.times.arrival_ns)),
            None => None,
        };
        match gap_ns {
            Some(gap_ns) => self.gaps.record(gap_ns),
            None => self.first_ns = Some(times.arrival_ns),
        }
        self.stamp_counts.count(times.stamps);
        let arrival = PacketArrival {
            number: number.unwrap_or(self.last.number),
            order,
            step: number.map_or(0, |number| number.wrapping_sub(highest)),
            sent_ns: sent_ns.unwrap_or(0),
            bytes: bytes as u32,
            times,
            gap_ns,
        };
        if order != ArrivalOrder::Invalid {
            if let Some(sent_ns) = sent_ns {
                self.classifier
                    .record_delay(times.arrival_ns.wrapping_sub(sent_ns as u64) as i64);
            }
            self.records.record(&arrival);
        }
        self.last = arrival;
        arrival
    }

    /// Returns the counts so far. `received` counts each number once; [`Counters::counts`] also
    /// counts repeats.
    pub fn counts(&self) -> DatagramCounts {
        self.counters.datagrams().unwrap_or_default()
    }

    /// Returns the arrival times of the first and of the last datagram, by the monotonic clock.
    pub fn first_and_last_ns(&self) -> Option<(u64, u64)> {
        Some((self.first_ns?, self.last.times.arrival_ns))
    }

    /// Returns the times between successive arrivals.
    pub fn gaps(&self) -> &Histogram {
        &self.gaps
    }

    /// Returns the records.
    pub fn records(&self) -> &PacketRecords {
        &self.records
    }

    /// Returns the sources of the arrival times.
    pub fn stamp_counts(&self) -> StampCounts {
        self.stamp_counts
    }

    /// Returns the number of datagrams dropped since the start because the socket's buffer was
    /// full; `None` if unavailable.
    pub fn socket_drops(&self) -> Option<u64> {
        let now = sys::option::dropped_packets(self.socket).ok()?;
        Some(now.wrapping_sub(self.drops_at_start?).into())
    }

    /// Returns the largest step of the wall clock in nanoseconds; 0 without a step. Arrival times
    /// within some milliseconds of the step may be wrong by this amount.
    pub fn clock_step_ns(&self) -> i64 {
        self.clock_offset.largest_step_ns
    }
}

impl StampCounts {
    #[inline]
    fn count(&mut self, stamps: ArrivalStamps) {
        let is_kernel = stamps.kernel_ns != 0;
        self.kernel += u64::from(is_kernel);
        self.program += u64::from(!is_kernel);
        self.nic += u64::from(stamps.nic_ns != 0);
    }
}

/// The difference between the wall clock and the monotonic clock, which changes only if the wall
/// clock is set.
#[derive(Debug)]
struct ClockOffset {
    offsets: Offsets,
    last_comparison_ns: u64,
    largest_step_ns: i64,
}

/// The wall clock minus the monotonic clock, in nanoseconds.
#[derive(Debug)]
struct Offsets {
    current: i64,
    /// The value before the last step. Datagrams in the socket's queue may have earlier stamps.
    previous: i64,
}

impl ClockOffset {
    /// Maximum age of an unambiguous stamp, in nanoseconds. An older stamp, or one in the future,
    /// may be from before a clock step, or from after a step that is not yet detected.
    const MAX_UNAMBIGUOUS_AGE_NS: u64 = 10_000_000;

    /// Interval of the clock comparisons, in nanoseconds.
    const COMPARE_INTERVAL_NS: u64 = 10_000_000;
    /// Shorter interval of the comparisons for ambiguous stamps, in nanoseconds.
    const AMBIGUOUS_INTERVAL_NS: u64 = 1_000_000;

    /// Maximum difference of two comparisons without a step, in nanoseconds.
    const NOISE_NS: u64 = 100_000;

    fn now() -> Self {
        let offset_ns = wall_clock_offset_ns();
        Self {
            offsets: Offsets {
                current: offset_ns,
                previous: offset_ns,
            },
            last_comparison_ns: 0,
            largest_step_ns: 0,
        }
    }

    /// Converts a stamp to the monotonic clock; the stamp is older than `now_ns`.
    #[inline]
    fn monotonic_ns(&mut self, kernel_ns: u64, now_ns: u64) -> u64 {
        let arrival_ns = kernel_ns.wrapping_sub(self.offsets.current as u64);
        if now_ns.wrapping_sub(arrival_ns) <= Self::MAX_UNAMBIGUOUS_AGE_NS {
            return arrival_ns;
        }
        self.compare_if_due(now_ns, Self::AMBIGUOUS_INTERVAL_NS);
        self.likely_arrival_ns(kernel_ns, now_ns)
    }

    /// Compares the clocks, if the last comparison is older than `interval_ns`.
    #[inline]
    fn compare_if_due(&mut self, now_ns: u64, interval_ns: u64) {
        if now_ns.saturating_sub(self.last_comparison_ns) > interval_ns {
            self.last_comparison_ns = now_ns;
            self.compare(wall_clock_offset_ns);
        }
    }

    /// Detects a step: two comparisons in a row must show the difference.
    #[cold]
    fn compare(&mut self, read_offset_ns: impl Fn() -> i64) {
        let offset_ns = read_offset_ns();
        let is_step = |from: i64| offset_ns.abs_diff(from) > Self::NOISE_NS;
        if is_step(self.offsets.current) && !is_step(read_offset_ns()) {
            let step_ns = offset_ns - self.offsets.current;
            if step_ns.abs() > self.largest_step_ns.abs() {
                self.largest_step_ns = step_ns;
            }
            (self.offsets.previous, self.offsets.current) = (self.offsets.current, offset_ns);
        }
    }

    /// Converts a stamp with the offset before or after the last step, whichever makes it more
    /// recent.
    fn likely_arrival_ns(&self, kernel_ns: u64, now_ns: u64) -> u64 {
        let convert = |offset_ns: i64| kernel_ns.wrapping_sub(offset_ns as u64);
        let (after, before) = (
            convert(self.offsets.current),
            convert(self.offsets.previous),
        );
        // The age of a time in the future wraps to a very large one.
        if now_ns.wrapping_sub(before) < now_ns.wrapping_sub(after) {
            before
        } else {
            after
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use model::{ByteOrder, Stamp, StampClock, StampUnit};

    use super::*;
    use crate::packet_records::ReceivedPacket;

    const FORMAT: DatagramFormat = DatagramFormat {
        number_offset: 1,
        high_word_offset: Some(5),
        first_number: 0,
        stamp: Some(Stamp {
            offset: 9,
            clock: StampClock::Monotonic,
            unit: StampUnit::TenthsOfMicros,
        }),
        ends_negative: false,
        byte_order: ByteOrder::LittleEndian,
    };

    const SETTINGS: PacketReceiverSettings = PacketReceiverSettings {
        format: FORMAT,
        max_bytes: 64,
        batch_size: 4,
        enables_stamps: true,
        recording: Recording::None,
        timeout: Duration::from_millis(200),
    };

    /// Datagrams that begin with a 4 belong to the flow.
    #[derive(Default)]
    struct ArrivalLog(Vec<PacketArrival>);

    impl PacketObserver for ArrivalLog {
        fn is_of_flow(&self, datagram: &[u8]) -> bool {
            datagram.first() == Some(&4)
        }

        fn observe(&mut self, arrival: &PacketArrival) {
            self.0.push(*arrival);
        }
    }

    fn pair() -> (UdpSocket, UdpSocket) {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        (near, far)
    }

    fn send(near: &UdpSocket, numbers: &[i64]) {
        for number in numbers {
            let mut datagram = [4; 30];
            FORMAT.write_number(&mut datagram, *number);
            FORMAT.write_stamp(&mut datagram, *number as u64 * 1_000);
            near.send(&datagram).unwrap();
        }
    }

    /// Runs a receiver on datagrams with these numbers and returns its result.
    fn run_receiver<R>(
        settings: PacketReceiverSettings,
        numbers: &[i64],
        check: impl FnOnce(&PacketReceiver<'_>, &[PacketArrival]) -> R,
    ) -> R {
        let (near, far) = pair();
        let (counters, stop, mut log) = (Counters::default(), Stop::new(), ArrivalLog::default());
        let memory = BufferMemory::new(1 << 20, 1 << 20);
        let mut receiver = PacketReceiver::new(far.as_fd(), &settings, &counters, &memory).unwrap();
        send(&near, numbers);
        let event = receiver.receive(&stop, &mut log).unwrap();
        assert!(matches!(event, ReceiveEvent::Timeout), "{event:?}");
        assert_eq!(counters.counts().receive_calls, numbers.len() as u64);
        assert_eq!(receiver.socket_drops(), Some(0));
        assert_eq!(receiver.clock_step_ns(), 0);
        check(&receiver, &log.0)
    }

    #[test]
    fn each_datagram_is_counted_timed_and_observed() {
        run_receiver(SETTINGS, &[0, 1, 4, 3, 3, 5], |receiver, arrivals| {
            let orders: Vec<_> = arrivals
                .iter()
                .map(|arrival| (arrival.number, arrival.step, arrival.order))
                .collect();
            assert_eq!(
                orders,
                [
                    (0, 1, ArrivalOrder::InOrder),
                    (1, 1, ArrivalOrder::InOrder),
                    (4, 3, ArrivalOrder::Ahead { passed_over: 2 }),
                    (3, -1, ArrivalOrder::Late),
                    (3, -1, ArrivalOrder::Repeated),
                    (5, 1, ArrivalOrder::InOrder),
                ]
            );
            let counts = receiver.counts();
            assert_eq!((counts.received, counts.lost), (5, 1));
            assert_eq!((counts.reordered, counts.duplicated), (1, 1));
            assert_eq!(arrivals[2].sent_ns, 4_000);
            assert_eq!((arrivals[0].gap_ns, arrivals[0].bytes), (None, 30));
            let (first_ns, last_ns) = receiver.first_and_last_ns().unwrap();
            let gaps: u64 = arrivals.iter().filter_map(|arrival| arrival.gap_ns).sum();
            assert_eq!(last_ns - first_ns, gaps);
            assert_eq!(receiver.gaps().len(), 5);
            for arrival in arrivals {
                assert!(
                    arrival.times.arrival_ns <= arrival.times.user_ns,
                    "{arrival:?}"
                );
            }
            let StampCounts {
                kernel,
                program,
                nic,
            } = receiver.stamp_counts();
            assert_eq!((kernel + program, nic), (6, 0));
        });
    }

    #[test]
    fn without_stamps_arrival_times_are_those_of_the_calls() {
        let settings = PacketReceiverSettings {
            enables_stamps: false,
            ..SETTINGS
        };
        run_receiver(settings, &[0, 1, 2], |receiver, arrivals| {
            let stamp_counts = receiver.stamp_counts();
            assert_eq!((stamp_counts.kernel, stamp_counts.program), (0, 3));
            let times: Vec<_> = arrivals
                .iter()
                .map(|arrival| arrival.times.arrival_ns)
                .collect();
            assert!(times.is_sorted() && times[0] < times[2], "{times:?}");
        });
    }

    #[test]
    fn requests_are_returned_in_the_order_of_arrival() {
        let (near, far) = pair();
        let (counters, stop, mut log) = (Counters::default(), Stop::new(), ArrivalLog::default());
        let memory = BufferMemory::new(1 << 20, 1 << 20);
        let mut receiver = PacketReceiver::new(far.as_fd(), &SETTINGS, &counters, &memory).unwrap();
        send(&near, &[0]);
        near.send(b"first").unwrap();
        send(&near, &[1, 2]);
        near.send(&[]).unwrap();
        for (request, arrivals_before) in [(&b"first"[..], 1), (b"", 3)] {
            match receiver.receive(&stop, &mut log).unwrap() {
                ReceiveEvent::NotOfFlow { datagram, times } => {
                    assert_eq!(datagram, request);
                    assert!(times.arrival_ns > 0 && times.arrival_ns <= times.user_ns);
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(log.0.len(), arrivals_before);
        }
        stop.set(StopReason::Cancelled);
        let event = receiver.receive(&stop, &mut log).unwrap();
        assert!(matches!(
            event,
            ReceiveEvent::Stopped(StopReason::Cancelled)
        ));
    }

    #[test]
    fn records_are_indexed_by_number() {
        let settings = PacketReceiverSettings {
            recording: Recording::All { skip: 1, limit: 5 },
            ..SETTINGS
        };
        run_receiver(settings, &[0, 1, 4, 2, 2, 6], |receiver, arrivals| {
            let records = receiver.records();
            let numbers = |records: &[ReceivedPacket]| -> Vec<_> {
                records.iter().map(|record| record.number as i64).collect()
            };
            assert_eq!(numbers(records.packets()), [1, 2, -1, 4]);
            assert!(records.packets()[2].is_missing());
            let first = records.packets()[0];
            assert_eq!(
                (first.times, first.sent_ns, first.bytes),
                (arrivals[1].times, 1_000, 30)
            );
        });
    }

    #[test]
    fn losses_are_recorded_up_to_the_limit() {
        let settings = PacketReceiverSettings {
            recording: Recording::Lost { skip: 2, limit: 3 },
            ..SETTINGS
        };
        run_receiver(settings, &[0, 3, 1, 5, 9], |receiver, arrivals| {
            let records = receiver.records();
            let lost: Vec<_> = records
                .lost()
                .iter()
                .map(|lost| (lost.number, lost.previous_arrival_ns, lost.previous_sent_ns))
                .collect();
            let arrival_ns = |index: usize| arrivals[index].times.arrival_ns;
            let [first, second, fourth] = [0, 1, 3].map(arrival_ns);
            assert_eq!(
                lost,
                [(2, first, 0), (4, second, 3_000), (6, fourth, 5_000)]
            );
        });
    }

    #[test]
    fn records_that_exceed_the_memory_limit_are_refused() {
        let (_near, far) = pair();
        let counters = Counters::default();
        let memory = BufferMemory::new(1 << 16, 1 << 16);
        for (recording, is_granted) in [
            (
                Recording::All {
                    skip: 0,
                    limit: 500,
                },
                true,
            ),
            (
                Recording::All {
                    skip: 0,
                    limit: 5_000,
                },
                false,
            ),
            (
                Recording::All {
                    skip: 0,
                    limit: u64::MAX,
                },
                false,
            ),
            (
                Recording::Lost {
                    skip: 0,
                    limit: u64::MAX / 2,
                },
                false,
            ),
        ] {
            let settings = PacketReceiverSettings {
                recording,
                ..SETTINGS
            };
            let receiver = PacketReceiver::new(far.as_fd(), &settings, &counters, &memory);
            assert_eq!(receiver.is_ok(), is_granted, "{recording:?}");
        }
    }

    #[test]
    fn setting_the_wall_clock_changes_no_arrival_time() {
        let second_ns = 1_000_000_000;
        for step_ns in [-5 * second_ns, 5 * second_ns, -50_000_000, 50_000_000] {
            let now_ns = 100 * second_ns as u64;
            let mut clock_offset = ClockOffset {
                offsets: Offsets {
                    current: 0,
                    previous: 0,
                },
                last_comparison_ns: now_ns,
                largest_step_ns: 0,
            };
            let stamp = |arrival_ns: u64, offset_ns: i64| arrival_ns.wrapping_add_signed(offset_ns);
            assert_eq!(
                clock_offset.monotonic_ns(stamp(now_ns - 100, 0), now_ns),
                now_ns - 100
            );
            // A datagram that has waited long in the socket is not a step.
            let long_ago_ns = now_ns - 3 * second_ns as u64;
            assert_eq!(clock_offset.monotonic_ns(long_ago_ns, now_ns), long_ago_ns);
            // An interrupted clock read is not a step.
            let readings = std::cell::Cell::new(0);
            clock_offset.compare(|| readings.replace(-200_000));
            clock_offset.compare(|| readings.replace(0));
            assert_eq!(
                (clock_offset.offsets.current, clock_offset.largest_step_ns),
                (0, 0)
            );
            clock_offset.compare(|| step_ns);
            assert_eq!(clock_offset.largest_step_ns, step_ns);
            // A stamp after the step, and one before it.
            for offset_ns in [step_ns, 0] {
                let kernel_ns = stamp(now_ns - 200, offset_ns);
                let arrival_ns = clock_offset.monotonic_ns(kernel_ns, now_ns);
                assert_eq!(arrival_ns, now_ns - 200, "{step_ns} {offset_ns}");
            }
        }
    }
}
