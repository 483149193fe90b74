//! Paces a loop: a burst of passes at the start of each interval.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::{Pacing, PacingResult, Wait};
use stats::Histogram;
use sys::call;
use sys::clock::{ExactSleep, monotonic_ns, sleep_until};

use crate::stop::Stop;

/// Longest spin, in nanoseconds. The loop sleeps for the rest of a longer interval, so that an idle
/// end uses no CPU. Wake-ups are less late than this, unless the machine has no free CPU.
const MAX_SPIN_NS: u64 = 2_000_000;

/// A running schedule.
pub(crate) struct Pace {
    schedule: IntervalSchedule,
    /// Length of the spin at the end of an interval, in nanoseconds.
    spin_ns: u64,
    _exact_sleep: ExactSleep,
}

impl Pace {
    /// Starts the schedule now. No interval starts at or after `length`, when the time is up.
    /// Otherwise chance would decide whether a pass that is due at that moment still counts.
    pub(crate) fn start(pacing: &Pacing, length: Option<Duration>) -> Self {
        let exact_sleep = ExactSleep::begin();
        let schedule = IntervalSchedule::new(pacing, length, monotonic_ns());
        Self {
            spin_ns: match pacing.wait {
                Wait::Sleep => 0,
                Wait::Spin => MAX_SPIN_NS,
                Wait::SpinHalf => MAX_SPIN_NS.min(schedule.interval_ns / 2),
            },
            schedule,
            _exact_sleep: exact_sleep,
        }
    }

    /// Excludes the first `warm_up` from the results. The schedule itself does not change.
    pub(crate) fn with_warm_up(mut self, warm_up: Duration) -> Self {
        self.schedule.exclude_warm_up(warm_up);
        self
    }

    #[inline]
    pub(crate) fn wait_if_early(&mut self, stop: &Stop) -> bool {
        self.schedule.passes_due == 0 && self.wait_for_interval(stop)
    }

    /// Starts the next interval, after a wait if needed. Returns whether it waited.
    fn wait_for_interval(&mut self, stop: &Stop) -> bool {
        let called_ns = monotonic_ns();
        if self.schedule.try_begin(called_ns) {
            return false;
        }
        let mut now_ns = called_ns;
        while !self.schedule.try_begin(now_ns) && !stop.is_set() {
            let until_ns = self.sleep_end_ns();
            if until_ns > now_ns {
                // An interrupted sleep needs no handling, because the clock is read next.
                let _ = sleep_until(until_ns);
            } else {
                std::hint::spin_loop();
            }
            now_ns = monotonic_ns();
        }
        self.schedule.waited_ns += now_ns - called_ns;
        true
    }

    #[inline]
    pub(crate) fn is_pass_due(&mut self) -> bool {
        self.schedule.passes_due > 0 || self.schedule.try_begin(monotonic_ns())
    }

    #[cold]
    pub(crate) fn wait_for_input_until_next_pass(&mut self, socket: BorrowedFd<'_>) -> bool {
        // In the spin part of an interval, this returns at once, and the caller repeats the call.
        let left_ns = self.sleep_end_ns().saturating_sub(monotonic_ns());
        call::wait_readable(socket, Duration::from_nanos(left_ns)).unwrap_or(false)
    }

    /// Returns the end of the slept part of the wait for the next interval, in nanoseconds.
    fn sleep_end_ns(&mut self) -> u64 {
        self.schedule.due_ns().saturating_sub(self.spin_ns)
    }

    #[inline]
    pub(crate) fn passes_due(&self) -> u64 {
        self.schedule.passes_due
    }

    #[inline]
    pub(crate) fn record_paced_passes(&mut self, count: u64) {
        self.schedule.passes_due = self.schedule.passes_due.saturating_sub(count);
    }

    pub(crate) fn finish(self) -> (PacingResult, Histogram) {
        self.schedule.finish(monotonic_ns())
    }
}

/// The start times of the intervals. They do not move: late intervals follow each other without a
/// pause. The mean rate is therefore the requested one, if the machine and the path can sustain
/// it. The lateness is recorded.
///
/// All times are nanoseconds of the monotonic clock.
struct IntervalSchedule {
    burst: u64,
    interval_ns: u64,
    started_ns: u64,
    /// Start of the next interval, if it is before `phase_end_ns`.
    next_ns: u64,
    /// End of the warm-up or of the schedule, whichever is next.
    phase_end_ns: u64,
    /// End of the schedule.
    end_ns: u64,
    /// Passes of this interval that are left.
    passes_due: u64,
    /// Actual start of this interval's passes.
    began_ns: u64,
    intervals: u64,
    late_intervals: u64,
    worst_lag_ns: u64,
    waited_ns: u64,
    gaps: Histogram,
}

impl IntervalSchedule {
    fn new(pacing: &Pacing, length: Option<Duration>, now_ns: u64) -> Self {
        let interval_ns = u64::try_from(pacing.interval.as_nanos())
            .unwrap_or(u64::MAX)
            .max(1);
        let end_ns = length.map_or(u64::MAX, |length| add_saturating(now_ns, length));
        Self {
            burst: pacing.burst.max(1),
            interval_ns,
            started_ns: now_ns,
            next_ns: now_ns.saturating_add(interval_ns),
            phase_end_ns: end_ns,
            end_ns,
            passes_due: pacing.burst.max(1),
            began_ns: now_ns,
            intervals: 1,
            late_intervals: 0,
            worst_lag_ns: 0,
            waited_ns: 0,
            gaps: Histogram::default(),
        }
    }

    fn exclude_warm_up(&mut self, warm_up: Duration) {
        if !warm_up.is_zero() {
            self.phase_end_ns = add_saturating(self.started_ns, warm_up).min(self.end_ns);
        }
    }

    /// Returns the start of the next interval; `u64::MAX` if there is none.
    #[inline]
    fn due_ns(&mut self) -> u64 {
        if self.next_ns < self.phase_end_ns {
            self.next_ns
        } else {
            self.due_after_phase_ns()
        }
    }

    /// Handles the end of the warm-up, which resets the results, or the end of the schedule.
    #[cold]
    fn due_after_phase_ns(&mut self) -> u64 {
        if self.phase_end_ns == self.end_ns {
            return u64::MAX;
        }
        self.started_ns = self.phase_end_ns;
        self.phase_end_ns = self.end_ns;
        (self.intervals, self.late_intervals) = (0, 0);
        (self.worst_lag_ns, self.waited_ns) = (0, 0);
        self.gaps = Histogram::default();
        self.due_ns()
    }

    /// Starts the next interval if it is due. Returns whether it was due.
    fn try_begin(&mut self, now_ns: u64) -> bool {
        let Some(lag_ns) = now_ns.checked_sub(self.due_ns()) else {
            return false;
        };
        self.gaps.record(now_ns - self.began_ns);
        self.began_ns = now_ns;
        self.next_ns = self.next_ns.saturating_add(self.interval_ns);
        self.passes_due = self.burst;
        self.intervals += 1;
        self.late_intervals += u64::from(lag_ns >= self.interval_ns);
        self.worst_lag_ns = self.worst_lag_ns.max(lag_ns);
        true
    }

    fn finish(self, now_ns: u64) -> (PacingResult, Histogram) {
        let started_passes = self.intervals.saturating_mul(self.burst);
        let result = PacingResult {
            passes: started_passes.saturating_sub(self.passes_due),
            elapsed: Duration::from_nanos(now_ns.saturating_sub(self.started_ns)),
            intervals: self.intervals,
            late_intervals: self.late_intervals,
            worst_lag: Duration::from_nanos(self.worst_lag_ns),
            waited: Duration::from_nanos(self.waited_ns),
        };
        (result, self.gaps)
    }
}

fn add_saturating(now_ns: u64, time: Duration) -> u64 {
    now_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::StopReason;

    fn pacing(burst: u64, interval_ns: u64, wait: Wait) -> Pacing {
        Pacing {
            burst,
            interval: Duration::from_nanos(interval_ns),
            wait,
        }
    }

    #[test]
    fn late_intervals_do_not_move_the_schedule() {
        let mut schedule = IntervalSchedule::new(&pacing(2, 100, Wait::Sleep), None, 1000);
        // Times, and whether an interval starts at each.
        for (now_ns, begins) in [
            (1000, false),
            (1099, false),
            (1100, true),
            (1100, false),
            // An interval that starts 30 ns late does not delay the next one.
            (1230, true),
            (1299, false),
            (1300, true),
            // The intervals that passed during a pause are caught up immediately.
            (1650, true),
            (1650, true),
            (1650, true),
            (1650, false),
        ] {
            assert_eq!(schedule.try_begin(now_ns), begins, "{now_ns}");
        }
        schedule.passes_due = 0;
        let (result, gaps) = schedule.finish(1700);
        assert_eq!((result.intervals, result.passes), (7, 14));
        // The intervals of 1400 and 1500 started after the next one was due; that of 1600 did not.
        assert_eq!(result.late_intervals, 2);
        assert_eq!(result.worst_lag, Duration::from_nanos(250));
        assert_eq!(result.elapsed, Duration::from_nanos(700));
        assert_eq!(gaps.len(), 6);
    }

    #[test]
    fn no_interval_starts_at_the_end() {
        let length = Some(Duration::from_nanos(300));
        let mut schedule = IntervalSchedule::new(&pacing(1, 100, Wait::Sleep), length, 1000);
        assert!(schedule.try_begin(1100));
        // Late, but due before the end.
        assert!(schedule.try_begin(1300));
        assert!(!schedule.try_begin(1300));
        assert!(!schedule.try_begin(u64::MAX - 1));
        assert_eq!(schedule.finish(1300).0.intervals, 3);
    }

    #[test]
    fn results_exclude_the_warm_up() {
        let length = Some(Duration::from_nanos(500));
        let mut schedule = IntervalSchedule::new(&pacing(2, 100, Wait::Sleep), length, 1000);
        schedule.exclude_warm_up(Duration::from_nanos(250));
        for now_ns in [1190, 1200, 1300, 1400] {
            assert!(schedule.try_begin(now_ns), "{now_ns}");
        }
        assert!(!schedule.try_begin(1500));
        schedule.passes_due = 0;
        let (result, gaps) = schedule.finish(1500);
        assert_eq!((result.intervals, result.passes, gaps.len()), (2, 4, 2));
        assert_eq!(result.elapsed, Duration::from_nanos(250));
        assert_eq!(result.worst_lag, Duration::ZERO);
    }

    #[test]
    fn each_wait_ends_when_the_next_pass_is_due() {
        for wait in [Wait::Sleep, Wait::Spin, Wait::SpinHalf] {
            let mut pace = Pace::start(&pacing(1, 2_000_000, wait), None);
            let stop = Stop::new();
            assert!(
                !pace.wait_if_early(&stop),
                "the first pass is due immediately"
            );
            pace.record_paced_passes(1);
            let due_ns = pace.schedule.next_ns;
            let was_early = monotonic_ns() < due_ns;
            assert_eq!(pace.wait_if_early(&stop), was_early);
            assert!(monotonic_ns() >= due_ns);
            assert_eq!(pace.schedule.passes_due, 1);
        }
    }

    #[test]
    fn a_spin_is_the_last_part_of_an_interval() {
        for (interval_ns, spin_sleep_ns, spin_half_sleep_ns) in [
            (1, 0, 1),
            (1_000, 0, 500),
            (2_000_000, 0, 1_000_000),
            (2_000_001, 1, 1_000_001),
            (4_000_001, 2_000_001, 2_000_001),
            (3_600_000_000_000, 3_599_998_000_000, 3_599_998_000_000),
        ] {
            for (wait, expected_ns) in [
                (Wait::Spin, spin_sleep_ns),
                (Wait::SpinHalf, spin_half_sleep_ns),
                (Wait::Sleep, interval_ns),
            ] {
                let mut pace = Pace::start(&pacing(1, interval_ns, wait), None);
                let began_ns = pace.schedule.began_ns;
                let sleep_ns = pace.sleep_end_ns().saturating_sub(began_ns);
                assert_eq!(sleep_ns, expected_ns, "{interval_ns} {wait:?}");
            }
        }
    }

    #[test]
    fn a_stop_ends_a_wait() {
        for wait in [Wait::Sleep, Wait::Spin, Wait::SpinHalf] {
            let stop = Stop::new();
            // No further pass is due, because it would be after the end.
            let mut pace = Pace::start(&pacing(1, 1, wait), Some(Duration::from_nanos(1)));
            pace.record_paced_passes(1);
            let thread_stop = stop.clone();
            let registration = stop.register_thread();
            let thread = std::thread::spawn(move || thread_stop.set(StopReason::Cancelled));
            assert!(pace.wait_if_early(&stop));
            drop(registration);
            thread.join().unwrap();
        }
    }
}
