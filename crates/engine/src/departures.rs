//! Sends datagrams one by one on a schedule.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::{DatagramFormat, EndCause, Spacing, SpacingMethod, SpacingResult};
use sys::call;
use sys::clock::{ExactSleep, monotonic_ns, sleep_until};

use crate::counters::Counters;
use crate::end::{LoopEnd, LoopResult};
use crate::kernel_pacer::KernelPacer;
use crate::spacing::{DepartureStatistics, OutgoingDatagram, SendSchedule};
use crate::stop::Stop;

/// Longest spin before a datagram's time, in nanoseconds. The sender sleeps for the rest of a
/// longer gap. Wake-ups are less late than this, unless the machine has no free CPU.
const MAX_SPIN_NS: u64 = 2_000_000;

/// Sends one datagram repeatedly to a socket's peer, each time with a new number and time.
#[derive(Debug)]
pub struct PacketSender<'a> {
    /// A connected socket.
    pub socket: BorrowedFd<'a>,
    /// The datagram; each send overwrites its number and stamp.
    pub datagram: &'a mut [u8],
    /// The format of number and stamp.
    pub format: DatagramFormat,
    /// Zero point of the stamps, in nanoseconds of the monotonic clock.
    pub zero_ns: u64,
    /// The schedule.
    pub spacing: &'a Spacing,
    /// Number of datagrams, if the spacing has no bursts; `None` sends until the stop.
    pub count: Option<u64>,
    /// The sender's counters.
    pub counters: &'a Counters,
    /// Receives the stamp of each datagram in nanoseconds, up to the vector's capacity.
    pub log: Option<&'a mut Vec<i64>>,
}

/// Result of a [`PacketSender`].
#[derive(Debug)]
pub struct PacketSendResult {
    /// Result of the schedule.
    pub spacing_result: SpacingResult,
    /// Departure times of the first and of the last datagram, by the monotonic clock; `None` if
    /// none was sent.
    pub first_and_last_ns: Option<(u64, u64)>,
    /// Result of the loop.
    pub loop_result: LoopResult,
}

impl PacketSender<'_> {
    /// Sends until all datagrams are sent or `stop` is set. Fails if the kernel cannot pace the
    /// datagrams as the spacing requires.
    pub fn run(self, stop: &Stop) -> PacketSendResult {
        let _registration = stop.register_thread();
        let _exact_sleep = ExactSleep::begin();
        let method = match self.spacing.method {
            _ if self.spacing.gap.is_zero() => SpacingMethod::Spin,
            method => method,
        };
        let pacer =
            match KernelPacer::prepare(method, self.socket, self.spacing, self.datagram.len()) {
                Ok(pacer) => pacer,
                Err(reason) => {
                    return PacketSendResult::new(
                        EndCause::Failed(reason).into(),
                        DepartureStatistics::default(),
                        0,
                    );
                }
            };
        let schedule = SendSchedule::new(self.spacing, self.count, monotonic_ns());
        let mut statistics = DepartureStatistics::default();
        let outgoing = OutgoingDatagram {
            socket: self.socket,
            datagram: self.datagram,
            format: self.format,
            zero_ns: self.zero_ns,
            counters: self.counters.writer(),
            departures_ns: self.log,
            next_number: self.format.first_number.into(),
        };
        let (end, ended_ns) = match pacer {
            None => spin(outgoing, schedule, &mut statistics, stop),
            Some(mut pacer) => pacer.send(outgoing, schedule, &mut statistics, stop),
        };
        PacketSendResult::new(end.into_result(stop), statistics, ended_ns)
    }
}

/// Sends from this thread. The clock read that finds a datagram due also gives its stamp, its gap
/// and its lateness.
fn spin(
    mut outgoing: OutgoingDatagram<'_>,
    mut schedule: SendSchedule,
    statistics: &mut DepartureStatistics,
    stop: &Stop,
) -> (LoopEnd, u64) {
    let mut now_ns = schedule.due_ns;
    while !schedule.is_over() {
        while now_ns < schedule.due_ns && !stop.is_set() {
            now_ns = wait_towards(schedule.due_ns, now_ns);
        }
        if stop.is_set() {
            return (LoopEnd::Stopped, now_ns);
        }
        outgoing.prepare(now_ns);
        match call::send(outgoing.socket, outgoing.datagram) {
            Ok(bytes) => {
                outgoing.count_sent(bytes, now_ns);
                statistics.spacing_result.sent += 1;
                statistics.record_departure(now_ns, schedule.due(), schedule.begins_burst());
                schedule.advance(now_ns, &mut statistics.spacing_result.skipped);
            }
            Err(error) => {
                let spacing_result = &mut statistics.spacing_result;
                if let Err(end) = outgoing.handle_error(error, &mut schedule, spacing_result) {
                    return (end, now_ns);
                }
            }
        }
        now_ns = monotonic_ns();
    }
    (LoopEnd::Count, now_ns.max(schedule.after_last_gap_ns))
}

/// Waits at most until a future time, usually for less, and returns the current time.
#[inline]
fn wait_towards(due_ns: u64, now_ns: u64) -> u64 {
    if due_ns - now_ns > MAX_SPIN_NS {
        // An interrupted sleep needs no handling, because the clock is read next.
        let _ = sleep_until(due_ns - MAX_SPIN_NS);
    } else {
        std::hint::spin_loop();
    }
    monotonic_ns()
}

impl PacketSendResult {
    fn new(loop_result: LoopResult, statistics: DepartureStatistics, ended_ns: u64) -> Self {
        let (first_ns, last_ns) = statistics.first_and_last_ns.unwrap_or((ended_ns, ended_ns));
        Self {
            spacing_result: SpacingResult {
                first_to_last: Duration::from_nanos(last_ns - first_ns),
                elapsed: Duration::from_nanos(ended_ns.saturating_sub(first_ns)),
                ..statistics.spacing_result
            },
            first_and_last_ns: statistics.first_and_last_ns,
            loop_result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use model::{Bursts, ByteOrder, Lateness, Stamp, StampClock, StampUnit};

    use super::*;
    use crate::stop::StopReason;

    const FORMAT: DatagramFormat = DatagramFormat {
        number_offset: 0,
        high_word_offset: Some(4),
        first_number: 0,
        stamp: Some(Stamp {
            offset: 8,
            clock: StampClock::Monotonic,
            unit: StampUnit::TenthsOfMicros,
        }),
        ends_negative: false,
        byte_order: ByteOrder::LittleEndian,
    };

    fn spacing(gap_ns: u64, lateness: Lateness) -> Spacing {
        Spacing {
            gap: Duration::from_nanos(gap_ns),
            bursts: None,
            lateness,
            method: SpacingMethod::Spin,
        }
    }

    /// Runs a sender and returns its result and the received datagrams.
    fn run_sender(
        spacing: &Spacing,
        count: Option<u64>,
        stop: &Stop,
    ) -> (PacketSendResult, Vec<Vec<u8>>) {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        let counters = Counters::default();
        let zero_ns = monotonic_ns();
        let sender = PacketSender {
            socket: near.as_fd(),
            datagram: &mut [7; 20],
            format: FORMAT,
            zero_ns,
            spacing,
            count,
            counters: &counters,
            log: None,
        };
        let sent = sender.run(stop);
        assert_eq!(counters.counts().send_calls, sent.spacing_result.sent);
        far.set_nonblocking(true).unwrap();
        let mut buffer = [0; 32];
        let datagrams = std::iter::from_fn(|| {
            let length = far.recv(&mut buffer).ok()?;
            Some(buffer[..length].to_vec())
        });
        let datagrams: Vec<_> = datagrams.collect();
        for (index, datagram) in datagrams.iter().enumerate() {
            assert_eq!(FORMAT.read_number(datagram, 0), Some(index as i64));
            assert_eq!((datagram.len(), &datagram[16..]), (20, &[7; 4][..]));
        }
        if let Some((first_ns, last_ns)) = sent.first_and_last_ns {
            let stamp = |index: usize| FORMAT.read_send_time_ns(&datagrams[index]).unwrap();
            assert_eq!(stamp(0), (first_ns - zero_ns) / 100 * 100);
            assert_eq!(stamp(datagrams.len() - 1), (last_ns - zero_ns) / 100 * 100);
        }
        (sent, datagrams)
    }

    #[test]
    fn datagrams_are_numbered_stamped_and_spaced() {
        let stop = Stop::new();
        for lateness in [Lateness::CatchUp, Lateness::Skip, Lateness::Stretch] {
            let (sent, datagrams) = run_sender(&spacing(20_000, lateness), Some(50), &stop);
            assert_eq!(
                (sent.loop_result.ended, datagrams.len()),
                (EndCause::Count, 50)
            );
            let result = &sent.spacing_result;
            assert_eq!((result.sent, result.refused), (50, 0));
            assert_eq!((result.gaps.len(), result.lateness.len()), (49, 50));
            assert_eq!(result.gaps.total(), result.first_to_last);
            // The last datagram is not early, and its gap counts.
            assert!(result.first_to_last >= Duration::from_micros(49 * 20));
            assert!(result.elapsed >= Duration::from_millis(1));
        }
    }

    #[test]
    fn pauses_between_bursts_are_not_gaps() {
        let mut spacing = spacing(0, Lateness::CatchUp);
        spacing.bursts = Some(Bursts {
            datagrams: 3,
            count: 4,
            pause: Duration::from_millis(3),
        });
        let (sent, datagrams) = run_sender(&spacing, None, &Stop::new());
        assert_eq!(datagrams.len(), 12);
        let result = &sent.spacing_result;
        assert_eq!((result.gaps.len(), result.lateness.len()), (8, 0));
        let pauses = result.first_to_last.saturating_sub(result.gaps.total());
        assert!(pauses >= Duration::from_millis(9));
    }

    #[test]
    fn a_stop_ends_a_gap() {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        let (counters, stop) = (Counters::default(), Stop::new());
        let thread_stop = stop.clone();
        let receiver = std::thread::spawn(move || {
            far.recv(&mut [0; 20]).unwrap();
            thread_stop.set(StopReason::Cancelled);
        });
        let sender = PacketSender {
            socket: near.as_fd(),
            datagram: &mut [7; 20],
            format: FORMAT,
            zero_ns: 0,
            spacing: &spacing(u64::MAX / 4, Lateness::CatchUp),
            count: None,
            counters: &counters,
            log: None,
        };
        let sent = sender.run(&stop);
        receiver.join().unwrap();
        assert_eq!(
            (sent.loop_result.ended, sent.spacing_result.sent),
            (EndCause::Cancelled, 1)
        );
    }

    #[test]
    fn datagrams_that_the_peer_refuses_do_not_count_as_sent() {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.connect(far.local_addr().unwrap()).unwrap();
        drop(far);
        let counters = Counters::default();
        let sender = PacketSender {
            socket: near.as_fd(),
            datagram: &mut [7; 20],
            format: FORMAT,
            zero_ns: 0,
            spacing: &spacing(1_000, Lateness::CatchUp),
            count: Some(10),
            counters: &counters,
            log: None,
        };
        let sent = sender.run(&Stop::new());
        assert_eq!(
            (sent.loop_result.ended, sent.spacing_result.sent),
            (EndCause::Count, 10)
        );
        let counts = counters.counts();
        assert_eq!((counts.send_calls, counts.sent.0), (10, 200));
        assert!(counts.failed_sends > 0);
    }
}
