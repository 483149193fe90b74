//! Receives single datagrams with their arrival times, on a socket that also carries requests.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::{DatagramCounts, DatagramFormat};
use stats::Histogram;
use sys::call::Error;
use sys::clock::{monotonic_ns, wall_ahead_ns};
use sys::stamped::{self, StampedBatch, Stamps};

use crate::budget::Share;
use crate::counters::Counters;
use crate::memory::Memory;
use crate::numbers::{Classifier, Order};
use crate::packet_records::{PacketArrival, PacketRecords, PacketTimes, Recording};
use crate::stop::{Reason, Stop};

/// Settings of a [`PacketReceiver`].
#[derive(Clone, Copy, Debug)]
pub struct PacketReceiverSettings {
    /// The format of numbers and stamps.
    pub format: DatagramFormat,
    /// Bytes of the longest datagram; longer ones are truncated.
    pub longest: u32,
    /// Datagrams per call if the kernel stamps each; without its stamps, one datagram per call.
    pub width: u32,
    /// Enables the stamps of the kernel and of the NIC.
    pub stamps: bool,
    /// Which datagrams are recorded.
    pub recording: Recording,
    /// Time without a datagram after which the receiver reports silence.
    pub silence: Duration,
}

/// Separates the flow's datagrams from requests, and receives each of the flow's after it was counted.
pub trait PacketWatch {
    /// Returns whether the datagram belongs to the flow.
    fn is_of_flow(&self, datagram: &[u8]) -> bool;

    /// Receives a datagram of the flow.
    fn see(&mut self, arrival: &PacketArrival);
}

/// Reason for which a [`PacketReceiver`] returns.
#[derive(Debug)]
pub enum Arrived<'a> {
    /// A datagram that does not belong to the flow.
    Other {
        /// Its payload, possibly truncated.
        datagram: &'a mut [u8],
        /// Its arrival times.
        times: PacketTimes,
    },
    /// No datagram arrived for the configured time.
    Silence,
    /// The stop was set.
    Stopped(Reason),
}

/// Sources of `came_ns` of the flow's datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampCounts {
    /// Stamped by the kernel.
    pub kernel: u64,
    /// Timed by this process, because there was no stamp.
    pub user: u64,
    /// Also stamped by the NIC.
    pub nic: u64,
}

/// Receives a flow's datagrams; counts, times and records them. It can be called repeatedly.
#[derive(Debug)]
pub struct PacketReceiver<'a> {
    socket: BorrowedFd<'a>,
    counters: &'a Counters,
    format: DatagramFormat,
    classifier: Classifier<'a>,
    batch: StampedBatch,
    /// Index of the next datagram of the batch, and the number of datagrams in it.
    next: usize,
    filled: usize,
    user_ns: u64,
    clocks: Clocks,
    stamped: StampCounts,
    first_ns: Option<u64>,
    last: PacketArrival,
    gaps: Histogram,
    records: PacketRecords,
    drops_before: Option<u32>,
    _memory: Share,
}

impl<'a> PacketReceiver<'a> {
    /// Prepares the socket and allocates all memory. `counters` are those of one flow.
    pub fn new(
        socket: BorrowedFd<'a>,
        settings: &PacketReceiverSettings,
        counters: &'a Counters,
        memory: &Memory,
    ) -> io::Result<Self> {
        let is_stamped = settings.stamps && stamped::tell_arrivals(socket).is_ok();
        let width = if is_stamped { settings.width } else { 1 } as usize;
        let longest = settings.longest as usize;
        let bytes = StampedBatch::footprint(width, longest)
            .and_then(|bytes| bytes.checked_add(settings.recording.footprint()?))
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let memory = memory.take(bytes as u64).map_err(io::Error::other)?;
        let batch = StampedBatch::new(width, longest).ok_or(io::ErrorKind::OutOfMemory)?;
        sys::option::set_receive_timeout(socket, settings.silence)?;
        Ok(Self {
            socket,
            counters,
            format: settings.format,
            classifier: Classifier::new(settings.format, counters.datagram_writer(), false),
            batch,
            next: 0,
            filled: 0,
            user_ns: 0,
            clocks: Clocks::now(),
            stamped: StampCounts::default(),
            first_ns: None,
            last: PacketArrival::before(settings.format),
            gaps: Histogram::default(),
            records: PacketRecords::new(settings.recording).ok_or(io::ErrorKind::OutOfMemory)?,
            drops_before: sys::option::dropped(socket).ok(),
            _memory: memory,
        })
    }

    /// Receives until a datagram arrives that does not belong to the flow, no datagram arrives for the configured time,
    /// or the stop is set. It ignores errors that an earlier datagram of this end has caused (ICMP).
    pub fn receive(
        &mut self,
        stop: &Stop,
        watch: &mut impl PacketWatch,
    ) -> io::Result<Arrived<'_>> {
        let _attending = stop.attend();
        let (at, times) = loop {
            if let Some(other) = self.empty_batch(watch) {
                break other;
            }
            if stop.is_set() {
                let reason = stop.reason().unwrap_or(Reason::Deadline);
                return Ok(Arrived::Stopped(reason));
            }
            match self.batch.receive(self.socket) {
                Ok(count) => {
                    self.user_ns = monotonic_ns();
                    self.clocks.look(self.user_ns, Clocks::LOOK_NS);
                    (self.next, self.filled) = (0, count);
                }
                Err(Error::INTR | Error::CONNREFUSED) => {}
                Err(Error::AGAIN) => return Ok(Arrived::Silence),
                Err(error) => return Err(error.into()),
            }
        };
        let datagram = self.batch.datagram(at);
        Ok(Arrived::Other { datagram, times })
    }

    /// Handles the flow's datagrams of the batch. It returns the index of the first datagram that is not the flow's.
    #[inline]
    fn empty_batch(&mut self, watch: &mut impl PacketWatch) -> Option<(usize, PacketTimes)> {
        while self.next < self.filled {
            let at = self.next;
            self.next += 1;
            let stamps = self.batch.stamps(at);
            let times = PacketTimes {
                came_ns: match stamps.kernel_ns {
                    0 => self.user_ns,
                    kernel_ns => self.clocks.monotonic_ns(kernel_ns, self.user_ns),
                },
                user_ns: self.user_ns,
                stamps,
            };
            if !watch.is_of_flow(self.batch.datagram(at)) {
                return Some((at, times));
            }
            let arrival = self.arrival(at, times);
            watch.see(&arrival);
        }
        None
    }

    /// Counts and records a datagram.
    #[inline]
    fn arrival(&mut self, at: usize, times: PacketTimes) -> PacketArrival {
        let bytes = self.batch.length(at);
        let datagram = self.batch.datagram(at);
        let before_first = i64::from(self.format.first) - 1;
        let highest = self.classifier.highest + before_first;
        let number = self.format.number(datagram, highest);
        let sent_ns = self.format.sent_ns(datagram).map(|sent_ns| sent_ns as i64);
        let order = match number {
            Some(number) => self.classifier.count(number.wrapping_sub(before_first)),
            None => Order::Alien,
        };
        self.counters.writer().received(bytes, 1);
        let gap_ns = match self.first_ns {
            Some(_) => Some(times.came_ns.saturating_sub(self.last.times.came_ns)),
            None => None,
        };
        match gap_ns {
            Some(gap_ns) => self.gaps.record(gap_ns),
            None => self.first_ns = Some(times.came_ns),
        }
        self.stamped.count(times.stamps);
        let arrival = PacketArrival {
            number: number.unwrap_or(self.last.number),
            order,
            step: number.map_or(0, |number| number.wrapping_sub(highest)),
            sent_ns: sent_ns.unwrap_or(0),
            bytes: bytes as u32,
            times,
            gap_ns,
        };
        if order != Order::Alien {
            if let Some(sent_ns) = sent_ns {
                self.classifier
                    .time(times.came_ns.wrapping_sub(sent_ns as u64) as i64);
            }
            self.records.record(&arrival);
        }
        self.last = arrival;
        arrival
    }

    /// Returns the counts so far. Its `received` counts each number once; [`Counters::counts`] also counts repeats.
    pub fn counts(&self) -> DatagramCounts {
        self.counters.datagrams().unwrap_or_default()
    }

    /// Returns the arrival times of the first and of the last datagram, by the monotonic clock.
    pub fn first_and_last_ns(&self) -> Option<(u64, u64)> {
        Some((self.first_ns?, self.last.times.came_ns))
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
    pub fn stamped(&self) -> StampCounts {
        self.stamped
    }

    /// Returns the socket's datagrams that were dropped since the start because its buffer was full; `None` if
    /// unavailable.
    pub fn socket_drops(&self) -> Option<u64> {
        let now = sys::option::dropped(self.socket).ok()?;
        Some(now.wrapping_sub(self.drops_before?).into())
    }

    /// Returns the largest step of the wall clock in nanoseconds; 0 without a step. Arrival times within some
    /// milliseconds of the step may be wrong by this amount.
    pub fn clock_step_ns(&self) -> i64 {
        self.clocks.largest_step_ns
    }
}

impl StampCounts {
    #[inline]
    fn count(&mut self, stamps: Stamps) {
        let is_kernel = stamps.kernel_ns != 0;
        self.kernel += u64::from(is_kernel);
        self.user += u64::from(!is_kernel);
        self.nic += u64::from(stamps.nic_ns != 0);
    }
}

/// The difference of the wall clock and the monotonic clock, which changes only if the wall clock is set.
#[derive(Debug)]
struct Clocks {
    ahead: Ahead,
    looked_ns: u64,
    largest_step_ns: i64,
}

/// By how much the wall clock is ahead, in nanoseconds.
#[derive(Debug)]
struct Ahead {
    now: i64,
    /// The value before the last step; datagrams in the socket's queue may still have stamps from before it.
    before: i64,
}

impl Clocks {
    /// A stamp that is older than this, or newer than now, may be from before or after a clock step. In nanoseconds.
    const DOUBTFUL_NS: u64 = 10_000_000;

    /// Interval of the comparisons, and the shorter interval for doubtful stamps. In nanoseconds.
    const LOOK_NS: u64 = 10_000_000;
    const LOOK_AGAIN_NS: u64 = 1_000_000;

    /// Without a step, two comparisons differ by less than this. In nanoseconds.
    const NOISE_NS: u64 = 100_000;

    fn now() -> Self {
        let ahead_ns = wall_ahead_ns();
        Self {
            ahead: Ahead {
                now: ahead_ns,
                before: ahead_ns,
            },
            looked_ns: 0,
            largest_step_ns: 0,
        }
    }

    /// Converts a stamp to the monotonic clock; the stamp is older than `now_ns`.
    #[inline]
    fn monotonic_ns(&mut self, kernel_ns: u64, now_ns: u64) -> u64 {
        let came_ns = kernel_ns.wrapping_sub(self.ahead.now as u64);
        if now_ns.wrapping_sub(came_ns) <= Self::DOUBTFUL_NS {
            return came_ns;
        }
        self.look(now_ns, Self::LOOK_AGAIN_NS);
        self.likely_ns(kernel_ns, now_ns)
    }

    /// Compares the clocks, if the last comparison is older than `interval_ns`.
    #[inline]
    fn look(&mut self, now_ns: u64, interval_ns: u64) {
        if now_ns.saturating_sub(self.looked_ns) > interval_ns {
            self.looked_ns = now_ns;
            self.compare(wall_ahead_ns);
        }
    }

    /// Detects a step: two comparisons in a row must show the difference.
    #[cold]
    fn compare(&mut self, ahead_ns: impl Fn() -> i64) {
        let ahead = ahead_ns();
        let is_step = |from: i64| ahead.abs_diff(from) > Self::NOISE_NS;
        if is_step(self.ahead.now) && !is_step(ahead_ns()) {
            let step_ns = ahead - self.ahead.now;
            if step_ns.abs() > self.largest_step_ns.abs() {
                self.largest_step_ns = step_ns;
            }
            (self.ahead.before, self.ahead.now) = (self.ahead.now, ahead);
        }
    }

    /// Converts a stamp by the clock difference, before or after the step, that makes it more recent.
    fn likely_ns(&self, kernel_ns: u64, now_ns: u64) -> u64 {
        let by = |ahead_ns: i64| kernel_ns.wrapping_sub(ahead_ns as u64);
        let (after, before) = (by(self.ahead.now), by(self.ahead.before));
        // A time in the future wraps to a very long time ago.
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
        number_at: 1,
        high_word_at: Some(5),
        first: 0,
        stamp: Some(Stamp {
            at: 9,
            clock: StampClock::Monotonic,
            unit: StampUnit::TenthsOfMicros,
        }),
        ends_negative: false,
        order: ByteOrder::LittleEndian,
    };

    const SETTINGS: PacketReceiverSettings = PacketReceiverSettings {
        format: FORMAT,
        longest: 64,
        width: 4,
        stamps: true,
        recording: Recording::None,
        silence: Duration::from_millis(200),
    };

    /// Datagrams that begin with a 4 belong to the flow.
    #[derive(Default)]
    struct Seen(Vec<PacketArrival>);

    impl PacketWatch for Seen {
        fn is_of_flow(&self, datagram: &[u8]) -> bool {
            datagram.first() == Some(&4)
        }

        fn see(&mut self, arrival: &PacketArrival) {
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
    fn received<R>(
        settings: PacketReceiverSettings,
        numbers: &[i64],
        look: impl FnOnce(&PacketReceiver<'_>, &[PacketArrival]) -> R,
    ) -> R {
        let (near, far) = pair();
        let (counters, stop, mut seen) = (Counters::default(), Stop::new(), Seen::default());
        let memory = Memory::new(1 << 20, 1 << 20);
        let mut receiver = PacketReceiver::new(far.as_fd(), &settings, &counters, &memory).unwrap();
        send(&near, numbers);
        let arrived = receiver.receive(&stop, &mut seen).unwrap();
        assert!(matches!(arrived, Arrived::Silence), "{arrived:?}");
        assert_eq!(counters.counts().receive_calls, numbers.len() as u64);
        assert_eq!(receiver.socket_drops(), Some(0));
        assert_eq!(receiver.clock_step_ns(), 0);
        look(&receiver, &seen.0)
    }

    #[test]
    fn each_datagram_is_counted_timed_and_seen() {
        received(SETTINGS, &[0, 1, 4, 3, 3, 5], |receiver, seen| {
            let orders: Vec<_> = seen
                .iter()
                .map(|one| (one.number, one.step, one.order))
                .collect();
            assert_eq!(
                orders,
                [
                    (0, 1, Order::InTurn),
                    (1, 1, Order::InTurn),
                    (4, 3, Order::Ahead { passed_over: 2 }),
                    (3, -1, Order::Late),
                    (3, -1, Order::Repeated),
                    (5, 1, Order::InTurn),
                ]
            );
            let counts = receiver.counts();
            assert_eq!((counts.received, counts.lost), (5, 1));
            assert_eq!((counts.reordered, counts.duplicated), (1, 1));
            assert_eq!(seen[2].sent_ns, 4_000);
            assert_eq!((seen[0].gap_ns, seen[0].bytes), (None, 30));
            let (first_ns, last_ns) = receiver.first_and_last_ns().unwrap();
            let gaps: u64 = seen.iter().filter_map(|one| one.gap_ns).sum();
            assert_eq!(last_ns - first_ns, gaps);
            assert_eq!(receiver.gaps().len(), 5);
            for one in seen {
                assert!(one.times.came_ns <= one.times.user_ns, "{one:?}");
            }
            let StampCounts { kernel, user, nic } = receiver.stamped();
            assert_eq!((kernel + user, nic), (6, 0));
        });
    }

    #[test]
    fn without_stamps_times_are_those_of_the_calls() {
        let settings = PacketReceiverSettings {
            stamps: false,
            ..SETTINGS
        };
        received(settings, &[0, 1, 2], |receiver, seen| {
            let StampCounts { kernel, user, .. } = receiver.stamped();
            assert_eq!((kernel, user), (0, 3));
            let times: Vec<_> = seen.iter().map(|one| one.times.came_ns).collect();
            assert!(times.is_sorted() && times[0] < times[2], "{times:?}");
        });
    }

    #[test]
    fn requests_come_back_in_their_turn() {
        let (near, far) = pair();
        let (counters, stop, mut seen) = (Counters::default(), Stop::new(), Seen::default());
        let memory = Memory::new(1 << 20, 1 << 20);
        let mut receiver = PacketReceiver::new(far.as_fd(), &SETTINGS, &counters, &memory).unwrap();
        send(&near, &[0]);
        near.send(b"first").unwrap();
        send(&near, &[1, 2]);
        near.send(&[]).unwrap();
        for (request, before) in [(&b"first"[..], 1), (b"", 3)] {
            match receiver.receive(&stop, &mut seen).unwrap() {
                Arrived::Other { datagram, times } => {
                    assert_eq!(datagram, request);
                    assert!(times.came_ns > 0 && times.came_ns <= times.user_ns);
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(seen.0.len(), before);
        }
        stop.pull(Reason::Cancelled);
        let arrived = receiver.receive(&stop, &mut seen).unwrap();
        assert!(matches!(arrived, Arrived::Stopped(Reason::Cancelled)));
    }

    #[test]
    fn records_have_their_number_for_a_place() {
        let settings = PacketReceiverSettings {
            recording: Recording::All { skip: 1, limit: 5 },
            ..SETTINGS
        };
        received(settings, &[0, 1, 4, 2, 2, 6], |receiver, seen| {
            let records = receiver.records();
            let numbers = |records: &[ReceivedPacket]| -> Vec<_> {
                records.iter().map(|one| one.number as i64).collect()
            };
            assert_eq!(numbers(records.packets()), [1, 2, -1, 4]);
            assert!(records.packets()[2].is_missing());
            let first = records.packets()[0];
            assert_eq!(
                (first.times, first.sent_ns, first.bytes),
                (seen[1].times, 1_000, 30)
            );
        });
    }

    #[test]
    fn losses_are_recorded_as_far_as_there_is_room() {
        let settings = PacketReceiverSettings {
            recording: Recording::Lost { skip: 2, limit: 3 },
            ..SETTINGS
        };
        received(settings, &[0, 3, 1, 5, 9], |receiver, seen| {
            let records = receiver.records();
            let lost: Vec<_> = records
                .lost()
                .iter()
                .map(|one| (one.number, one.came_ns, one.sent_ns))
                .collect();
            let [first, second, fourth] = [0, 1, 3].map(|at| seen[at].times.came_ns);
            assert_eq!(
                lost,
                [(2, first, 0), (4, second, 3_000), (6, fourth, 5_000)]
            );
        });
    }

    #[test]
    fn memory_has_bounds() {
        let (_near, far) = pair();
        let counters = Counters::default();
        let memory = Memory::new(1 << 16, 1 << 16);
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
    fn a_wall_clock_that_is_set_moves_no_arrival() {
        let second_ns = 1_000_000_000;
        for step_ns in [-5 * second_ns, 5 * second_ns, -50_000_000, 50_000_000] {
            let now_ns = 100 * second_ns as u64;
            let mut clocks = Clocks {
                ahead: Ahead { now: 0, before: 0 },
                looked_ns: now_ns,
                largest_step_ns: 0,
            };
            let stamp = |came_ns: u64, ahead_ns: i64| came_ns.wrapping_add_signed(ahead_ns);
            assert_eq!(
                clocks.monotonic_ns(stamp(now_ns - 100, 0), now_ns),
                now_ns - 100
            );
            // A datagram that has waited long in the socket is not a step.
            let long_ago_ns = now_ns - 3 * second_ns as u64;
            assert_eq!(clocks.monotonic_ns(long_ago_ns, now_ns), long_ago_ns);
            // An interrupted clock read is not a step.
            let readings = std::cell::Cell::new(0);
            clocks.compare(|| readings.replace(-200_000));
            clocks.compare(|| readings.replace(0));
            assert_eq!((clocks.ahead.now, clocks.largest_step_ns), (0, 0));
            clocks.compare(|| step_ns);
            assert_eq!(clocks.largest_step_ns, step_ns);
            // Stamped after the step and before it.
            for ahead_ns in [step_ns, 0] {
                let came_ns = clocks.monotonic_ns(stamp(now_ns - 200, ahead_ns), now_ns);
                assert_eq!(came_ns, now_ns - 200, "{step_ns} {ahead_ns}");
            }
        }
    }
}
