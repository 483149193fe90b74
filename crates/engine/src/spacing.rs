//! The schedule of single datagrams and its results.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::{Bursts, DatagramFormat, Lateness, Spacing, SpacingResult};
use sys::call::Error;

use crate::counters::{Counter, CounterWriter};
use crate::end::LoopEnd;

/// A datagram that is sent repeatedly.
pub(crate) struct OutgoingDatagram<'a> {
    pub(crate) socket: BorrowedFd<'a>,
    pub(crate) datagram: &'a mut [u8],
    pub(crate) format: DatagramFormat,
    pub(crate) zero_ns: u64,
    pub(crate) counters: CounterWriter<'a>,
    pub(crate) departures_ns: Option<&'a mut Vec<i64>>,
    pub(crate) next_number: i64,
}

impl OutgoingDatagram<'_> {
    /// Writes the next number and the time `at_ns` into the datagram.
    #[inline]
    pub(crate) fn prepare(&mut self, at_ns: u64) {
        self.format.write_number(self.datagram, self.next_number);
        let since_zero_ns = at_ns.wrapping_sub(self.zero_ns);
        self.format.write_stamp(self.datagram, since_zero_ns);
    }

    /// Counts a datagram that the kernel accepted. `at_ns` is its departure time.
    #[inline]
    pub(crate) fn count_sent(&mut self, bytes: usize, at_ns: u64) {
        self.counters.count_sent(bytes, 1);
        self.next_number += 1;
        if let Some(log) = &mut self.departures_ns
            && log.len() < log.capacity()
        {
            log.push(at_ns.wrapping_sub(self.zero_ns) as i64);
        }
    }

    /// Handles a failed call. The next datagram gets the same number. The loop continues if the
    /// call was interrupted, if the queue was full, or if the error belongs to an earlier datagram
    /// (ICMP). Other errors end the loop.
    #[cold]
    pub(crate) fn handle_error(
        &self,
        error: Error,
        schedule: &mut SendSchedule,
        spacing_result: &mut SpacingResult,
    ) -> Result<(), LoopEnd> {
        match error {
            Error::INTR => return Ok(()),
            Error::CONNREFUSED => {}
            Error::NOBUFS | Error::AGAIN => {
                spacing_result.refused += 1;
                schedule.skip_time();
            }
            error => return Err(LoopEnd::from_call("send", error)),
        }
        self.counters.add(Counter::FailedSends, 1);
        Ok(())
    }
}

/// Statistics of sent datagrams, by their departure times.
#[derive(Debug, Default)]
pub(crate) struct DepartureStatistics {
    pub(crate) spacing_result: SpacingResult,
    /// Departure times of the first and of the last datagram.
    pub(crate) first_and_last_ns: Option<(u64, u64)>,
}

impl DepartureStatistics {
    /// Records a datagram that left at `at_ns`. It was due at `due_ns`; `None` means immediately.
    #[inline]
    pub(crate) fn record_departure(&mut self, at_ns: u64, due_ns: Option<u64>, begins_burst: bool) {
        match &mut self.first_and_last_ns {
            None => self.first_and_last_ns = Some((at_ns, at_ns)),
            Some((_, last_ns)) => {
                if !begins_burst {
                    self.spacing_result
                        .gaps
                        .record(at_ns.saturating_sub(*last_ns));
                }
                *last_ns = at_ns;
            }
        }
        if let Some(due_ns) = due_ns {
            self.spacing_result
                .lateness
                .record(at_ns.saturating_sub(due_ns));
        }
    }
}

/// The time of the next datagram. All times are nanoseconds of the monotonic clock.
#[derive(Debug)]
pub(crate) struct SendSchedule {
    pub(crate) gap_ns: u64,
    pause_ns: u64,
    lateness: Lateness,
    pub(crate) due_ns: u64,
    /// One gap after the last sent datagram.
    pub(crate) after_last_gap_ns: u64,
    /// Datagrams per burst, and the remaining ones of this burst.
    burst: u64,
    left_in_burst: u64,
    /// Remaining bursts, including this one.
    bursts_left: u64,
}

impl SendSchedule {
    pub(crate) fn new(spacing: &Spacing, count: Option<u64>, now_ns: u64) -> Self {
        let count = count.unwrap_or(u64::MAX);
        let single_burst = Bursts {
            datagrams: count,
            count: 1,
            pause: Duration::ZERO,
        };
        let Bursts {
            datagrams,
            count,
            pause,
        } = spacing.bursts.unwrap_or(single_burst);
        Self {
            gap_ns: nanos(spacing.gap),
            pause_ns: nanos(pause),
            lateness: spacing.lateness,
            due_ns: now_ns,
            after_last_gap_ns: now_ns,
            burst: datagrams,
            left_in_burst: datagrams,
            bursts_left: if count == 0 { u64::MAX } else { count },
        }
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.left_in_burst == 0
    }

    #[inline]
    pub(crate) fn begins_burst(&self) -> bool {
        self.left_in_burst == self.burst
    }

    /// Returns the time at which the next datagram is due; `None` means immediately.
    #[inline]
    pub(crate) fn due(&self) -> Option<u64> {
        (self.gap_ns > 0).then_some(self.due_ns)
    }

    /// Advances the schedule after the due datagram was sent at `now_ns`.
    #[inline]
    pub(crate) fn advance(&mut self, now_ns: u64, skipped: &mut u64) {
        let next_ns = self.due_ns.saturating_add(self.gap_ns);
        self.due_ns = match self.lateness {
            Lateness::CatchUp if self.gap_ns > 0 => next_ns,
            Lateness::Skip if next_ns > now_ns => next_ns,
            Lateness::Skip if self.gap_ns > 0 => {
                let missed = (now_ns - next_ns) / self.gap_ns + 1;
                *skipped += missed;
                next_ns + missed * self.gap_ns
            }
            _ => now_ns.saturating_add(self.gap_ns),
        };
        self.after_last_gap_ns = self.due_ns;
        self.left_in_burst -= 1;
        if self.left_in_burst == 0 {
            self.end_burst();
        }
    }

    #[cold]
    fn end_burst(&mut self) {
        self.bursts_left -= 1;
        if self.bursts_left > 0 {
            self.left_in_burst = self.burst;
            self.due_ns = self.due_ns.saturating_add(self.pause_ns);
        }
    }

    /// Skips a time: the due datagram gets the next one's time.
    #[cold]
    pub(crate) fn skip_time(&mut self) {
        self.due_ns = self.due_ns.saturating_add(self.gap_ns);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use model::SpacingMethod;

    use super::*;

    fn spacing(gap_ns: u64, lateness: Lateness) -> Spacing {
        Spacing {
            gap: Duration::from_nanos(gap_ns),
            bursts: None,
            lateness,
            method: SpacingMethod::Spin,
        }
    }

    #[test]
    fn each_lateness_mode_handles_missed_times() {
        // Lateness mode; pairs of send time and next due time, relative to the start of the
        // schedule; skipped times.
        for (lateness, sent_and_due_ns, skipped) in [
            (
                Lateness::CatchUp,
                &[(0, 100), (130, 200), (450, 300), (460, 400), (470, 500)][..],
                0,
            ),
            (
                Lateness::Skip,
                &[(0, 100), (130, 200), (450, 500), (500, 600), (700, 800)],
                3,
            ),
            (
                Lateness::Stretch,
                &[(0, 100), (130, 230), (450, 550), (550, 650)],
                0,
            ),
        ] {
            let mut schedule = SendSchedule::new(&spacing(100, lateness), None, 1_000);
            let mut skipped_times = 0;
            for (sent_ns, due_ns) in sent_and_due_ns {
                schedule.advance(1_000 + sent_ns, &mut skipped_times);
                assert_eq!(schedule.due_ns, 1_000 + due_ns, "{lateness:?} {sent_ns}");
            }
            assert_eq!(skipped_times, skipped, "{lateness:?}");
        }
    }

    #[test]
    fn bursts_have_pauses_between_them() {
        let mut bursts = spacing(10, Lateness::CatchUp);
        bursts.bursts = Some(Bursts {
            datagrams: 2,
            count: 3,
            pause: Duration::from_nanos(100),
        });
        let mut schedule = SendSchedule::new(&bursts, None, 0);
        let mut due = Vec::new();
        while !schedule.is_over() {
            due.push((schedule.due_ns, schedule.begins_burst()));
            schedule.advance(schedule.due_ns + 3, &mut 0);
        }
        let expected = [
            (0, true),
            (10, false),
            (120, true),
            (130, false),
            (240, true),
            (250, false),
        ];
        assert_eq!(due, expected);
        assert_eq!(schedule.after_last_gap_ns, 260);
        // Without a gap, the pause starts at the last datagram.
        bursts.gap = Duration::ZERO;
        let mut schedule = SendSchedule::new(&bursts, None, 0);
        schedule.advance(5, &mut 0);
        assert_eq!(schedule.due_ns, 5);
        schedule.advance(7, &mut 0);
        assert_eq!(schedule.due_ns, 107);
    }
}
