//! A schedule of passes: so many at the beginning of each interval.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::{Paced, Pacing, Wait};
use stats::Histogram;
use sys::call;
use sys::clock::{ExactSleep, monotonic_ns, sleep_until};

use crate::stop::Stop;

/// The longest spin. Most of a longer interval is slept, so that an end that moves no data takes no CPU. A late
/// wake-up takes less than this, unless the machine has no free CPU anyway.
const LONGEST_SPIN_NS: u64 = 2_000_000;

/// A schedule that is being kept.
pub(crate) struct Pace {
    schedule: Schedule,
    /// The spun part of an interval, its last.
    spin_ns: u64,
    _exact_sleep: ExactSleep,
}

impl Pace {
    /// It counts from now. Nothing begins `length` after that, when the loop's time is up: else it
    /// would be chance whether what is due at that very moment is one more.
    pub(crate) fn start(pacing: &Pacing, length: Option<Duration>) -> Self {
        let exact_sleep = ExactSleep::begin();
        let schedule = Schedule::new(pacing, length, monotonic_ns());
        Self {
            spin_ns: match pacing.wait {
                Wait::Sleep => 0,
                Wait::Spin => LONGEST_SPIN_NS,
                Wait::SpinHalf => LONGEST_SPIN_NS.min(schedule.interval_ns / 2),
            },
            schedule,
            _exact_sleep: exact_sleep,
        }
    }

    /// What is kept of the schedule begins after that time. The schedule does not.
    pub(crate) fn warming_up(mut self, warm_up: Duration) -> Self {
        self.schedule.warm_up(warm_up);
        self
    }

    #[inline]
    pub(crate) fn waited(&mut self, stop: &Stop) -> bool {
        self.schedule.left == 0 && self.waited_for_interval(stop)
    }

    /// Begins the next interval, if need be after a wait.
    fn waited_for_interval(&mut self, stop: &Stop) -> bool {
        let asked_ns = monotonic_ns();
        if self.schedule.begin(asked_ns) {
            return false;
        }
        let mut now_ns = asked_ns;
        while !self.schedule.begin(now_ns) && !stop.is_set() {
            let until_ns = self.slept_until_ns();
            if until_ns > now_ns {
                // Interrupted or not, the clock says whether it was long enough.
                let _ = sleep_until(until_ns);
            } else {
                std::hint::spin_loop();
            }
            now_ns = monotonic_ns();
        }
        self.schedule.waited_ns += now_ns - asked_ns;
        true
    }

    #[inline]
    pub(crate) fn is_my_turn(&mut self) -> bool {
        self.schedule.left > 0 || self.schedule.begin(monotonic_ns())
    }

    #[cold]
    pub(crate) fn has_input_before_turn(&mut self, socket: BorrowedFd<'_>) -> bool {
        // During the spin it does not wait: the caller asks again.
        let left_ns = self.slept_until_ns().saturating_sub(monotonic_ns());
        call::wait_readable(socket, Duration::from_nanos(left_ns)).unwrap_or(false)
    }

    /// The end of the slept part of the wait for the next interval.
    fn slept_until_ns(&mut self) -> u64 {
        self.schedule.due_ns().saturating_sub(self.spin_ns)
    }

    #[inline]
    pub(crate) fn turns_left(&self) -> u64 {
        self.schedule.left
    }

    #[inline]
    pub(crate) fn took_turns(&mut self, count: u64) {
        self.schedule.left = self.schedule.left.saturating_sub(count);
    }

    pub(crate) fn finish(self) -> (Paced, Histogram) {
        self.schedule.finish(monotonic_ns())
    }
}

/// When which interval begins. It does not move: what begins late, for whatever reason, is caught up
/// with as fast as it goes, so that the mean rate is the one that was asked for as long as the machine
/// and the path can do it. How late that was is kept.
///
/// All times are nanoseconds of the monotonic clock.
struct Schedule {
    burst: u64,
    interval_ns: u64,
    started_ns: u64,
    /// When the next interval is to begin …
    next_ns: u64,
    /// … if that is before this, where the schedule ends or the warm-up does.
    end_ns: u64,
    /// Where the schedule ends.
    last_ns: u64,
    /// Passes of this interval that are still to come.
    left: u64,
    /// When this interval's passes really began.
    began_ns: u64,
    intervals: u64,
    late_intervals: u64,
    worst_lag_ns: u64,
    waited_ns: u64,
    gaps: Histogram,
}

impl Schedule {
    fn new(pacing: &Pacing, length: Option<Duration>, now_ns: u64) -> Self {
        let interval_ns = u64::try_from(pacing.interval.as_nanos())
            .unwrap_or(u64::MAX)
            .max(1);
        let last_ns = length.map_or(u64::MAX, |length| after(now_ns, length));
        Self {
            burst: pacing.burst.max(1),
            interval_ns,
            started_ns: now_ns,
            next_ns: now_ns.saturating_add(interval_ns),
            end_ns: last_ns,
            last_ns,
            left: pacing.burst.max(1),
            began_ns: now_ns,
            intervals: 1,
            late_intervals: 0,
            worst_lag_ns: 0,
            waited_ns: 0,
            gaps: Histogram::default(),
        }
    }

    fn warm_up(&mut self, warm_up: Duration) {
        if !warm_up.is_zero() {
            self.end_ns = after(self.started_ns, warm_up).min(self.last_ns);
        }
    }

    /// When something begins next; never is far away.
    #[inline]
    fn due_ns(&mut self) -> u64 {
        if self.next_ns < self.end_ns {
            self.next_ns
        } else {
            self.due_after_end_ns()
        }
    }

    /// The end of the warm-up is none: what is kept begins anew.
    #[cold]
    fn due_after_end_ns(&mut self) -> u64 {
        if self.end_ns == self.last_ns {
            return u64::MAX;
        }
        self.started_ns = self.end_ns;
        self.end_ns = self.last_ns;
        (self.intervals, self.late_intervals) = (0, 0);
        (self.worst_lag_ns, self.waited_ns) = (0, 0);
        self.gaps = Histogram::default();
        self.due_ns()
    }

    /// Begins the next interval if its time has come; whether it has.
    fn begin(&mut self, now_ns: u64) -> bool {
        let Some(lag_ns) = now_ns.checked_sub(self.due_ns()) else {
            return false;
        };
        self.gaps.record(now_ns - self.began_ns);
        self.began_ns = now_ns;
        self.next_ns = self.next_ns.saturating_add(self.interval_ns);
        self.left = self.burst;
        self.intervals += 1;
        self.late_intervals += u64::from(lag_ns >= self.interval_ns);
        self.worst_lag_ns = self.worst_lag_ns.max(lag_ns);
        true
    }

    fn finish(self, now_ns: u64) -> (Paced, Histogram) {
        let of_all_intervals = self.intervals.saturating_mul(self.burst);
        let paced = Paced {
            passes: of_all_intervals.saturating_sub(self.left),
            elapsed: Duration::from_nanos(now_ns.saturating_sub(self.started_ns)),
            intervals: self.intervals,
            late_intervals: self.late_intervals,
            worst_lag: Duration::from_nanos(self.worst_lag_ns),
            waited: Duration::from_nanos(self.waited_ns),
        };
        (paced, self.gaps)
    }
}

fn after(now_ns: u64, time: Duration) -> u64 {
    now_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stop::Reason;

    fn pacing(burst: u64, interval_ns: u64, wait: Wait) -> Pacing {
        Pacing {
            burst,
            interval: Duration::from_nanos(interval_ns),
            wait,
        }
    }

    #[test]
    fn the_schedule_does_not_move() {
        let mut schedule = Schedule::new(&pacing(2, 100, Wait::Sleep), None, 1000);
        // At each of these times: whether an interval begins.
        for (now_ns, begins) in [
            (1000, false),
            (1099, false),
            (1100, true),
            (1100, false),
            // One that is 30 late does not make the next one late.
            (1230, true),
            (1299, false),
            (1300, true),
            // A pause of three intervals and a half is caught up with at once.
            (1650, true),
            (1650, true),
            (1650, true),
            (1650, false),
        ] {
            assert_eq!(schedule.begin(now_ns), begins, "{now_ns}");
        }
        schedule.left = 0;
        let (paced, gaps) = schedule.finish(1700);
        assert_eq!((paced.intervals, paced.passes), (7, 14));
        // 1400 and 1500 began when the next one was due, 1600 did not.
        assert_eq!(paced.late_intervals, 2);
        assert_eq!(paced.worst_lag, Duration::from_nanos(250));
        assert_eq!(paced.elapsed, Duration::from_nanos(700));
        assert_eq!(gaps.len(), 6);
    }

    #[test]
    fn nothing_begins_at_the_end() {
        let length = Some(Duration::from_nanos(300));
        let mut schedule = Schedule::new(&pacing(1, 100, Wait::Sleep), length, 1000);
        assert!(schedule.begin(1100));
        // Late, but it was due before the end.
        assert!(schedule.begin(1300));
        assert!(!schedule.begin(1300));
        assert!(!schedule.begin(u64::MAX - 1));
        assert_eq!(schedule.finish(1300).0.intervals, 3);
    }

    #[test]
    fn what_became_of_a_schedule_leaves_the_warm_up_out() {
        let length = Some(Duration::from_nanos(500));
        let mut schedule = Schedule::new(&pacing(2, 100, Wait::Sleep), length, 1000);
        schedule.warm_up(Duration::from_nanos(250));
        for now_ns in [1190, 1200, 1300, 1400] {
            assert!(schedule.begin(now_ns), "{now_ns}");
        }
        assert!(!schedule.begin(1500));
        schedule.left = 0;
        let (paced, gaps) = schedule.finish(1500);
        assert_eq!((paced.intervals, paced.passes, gaps.len()), (2, 4, 2));
        assert_eq!(paced.elapsed, Duration::from_nanos(250));
        assert_eq!(paced.worst_lag, Duration::ZERO);
    }

    #[test]
    fn both_waits_end_at_their_time() {
        for wait in [Wait::Sleep, Wait::Spin, Wait::SpinHalf] {
            let mut pace = Pace::start(&pacing(1, 2_000_000, wait), None);
            let stop = Stop::new();
            assert!(!pace.waited(&stop), "the first turn is at once");
            pace.took_turns(1);
            let due_ns = pace.schedule.next_ns;
            let was_early = monotonic_ns() < due_ns;
            assert_eq!(pace.waited(&stop), was_early);
            assert!(monotonic_ns() >= due_ns);
            assert_eq!(pace.schedule.left, 1);
        }
    }

    #[test]
    fn a_spin_is_the_last_part_of_an_interval() {
        for (interval_ns, slept_ns, at_least_half_ns) in [
            (1, 0, 1),
            (1_000, 0, 500),
            (2_000_000, 0, 1_000_000),
            (2_000_001, 1, 1_000_001),
            (4_000_001, 2_000_001, 2_000_001),
            (3_600_000_000_000, 3_599_998_000_000, 3_599_998_000_000),
        ] {
            for (wait, expected_ns) in [
                (Wait::Spin, slept_ns),
                (Wait::SpinHalf, at_least_half_ns),
                (Wait::Sleep, interval_ns),
            ] {
                let mut pace = Pace::start(&pacing(1, interval_ns, wait), None);
                let begun_ns = pace.schedule.began_ns;
                let slept = pace.slept_until_ns().saturating_sub(begun_ns);
                assert_eq!(slept, expected_ns, "{interval_ns} {wait:?}");
            }
        }
    }

    #[test]
    fn a_stop_ends_a_wait() {
        for wait in [Wait::Sleep, Wait::Spin, Wait::SpinHalf] {
            let stop = Stop::new();
            // The next turn would be after the end, so that there is none.
            let mut pace = Pace::start(&pacing(1, 1, wait), Some(Duration::from_nanos(1)));
            pace.took_turns(1);
            let puller = stop.clone();
            let attending = stop.attend();
            let thread = std::thread::spawn(move || puller.pull(Reason::Cancelled));
            assert!(pace.waited(&stop));
            drop(attending);
            thread.join().unwrap();
        }
    }
}
