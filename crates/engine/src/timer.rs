//! Timers of a loop's passes and of a script's steps.

use stats::Histogram;
use sys::clock::monotonic_ns;

/// Timer of a loop; `()` records nothing and costs nothing.
pub(crate) trait Timer {
    /// Starts a measurement, before the first pass or after a pass that does not count.
    fn start(&mut self);
    /// Ends a measurement and starts the next one. Both share one clock read.
    fn lap(&mut self);
}

impl Timer for () {
    #[inline]
    fn start(&mut self) {}
    #[inline]
    fn lap(&mut self) {}
}

/// Timer of a script; `()` records nothing and costs nothing.
pub trait StepTimer {
    /// Starts a measurement, before the first step or after a pause that belongs to no step.
    fn start(&mut self);
    /// Ends one execution of a step, and starts the next one.
    fn execution(&mut self, step: usize);
    /// Ends a pass of `executions` executions of a step, and starts the next step.
    fn step(&mut self, step: usize, executions: u64);
    /// Ends a round.
    fn round(&mut self);
}

impl StepTimer for () {
    #[inline]
    fn start(&mut self) {}
    #[inline]
    fn execution(&mut self, _: usize) {}
    #[inline]
    fn step(&mut self, _: usize, _: u64) {}
    #[inline]
    fn round(&mut self) {}
}

/// Timer that records into a histogram, with one clock read per measurement.
pub(crate) struct HistogramTimer {
    pub(crate) times: Histogram,
    started_ns: u64,
}

impl HistogramTimer {
    pub(crate) fn new() -> Self {
        Self {
            times: Histogram::default(),
            started_ns: 0,
        }
    }
}

impl Timer for HistogramTimer {
    #[inline]
    fn start(&mut self) {
        self.started_ns = monotonic_ns();
    }

    #[inline]
    fn lap(&mut self) {
        let now_ns = monotonic_ns();
        self.times.record(now_ns - self.started_ns);
        self.started_ns = now_ns;
    }
}

/// Compiles a loop twice, with and without a timer, and runs one of them. The times go to the given
/// field of [`LoopResult`](crate::end::LoopResult).
macro_rules! timed {
    ($is_timed:expr, $times:ident, $stop:expr, |$timer:ident| $run:expr) => {
        if $is_timed {
            let mut histogram_timer = $crate::timer::HistogramTimer::new();
            let $timer = &mut histogram_timer;
            let end: $crate::end::LoopEnd = $run;
            $crate::end::LoopResult {
                $times: Some(histogram_timer.times),
                ..end.into_result($stop)
            }
        } else {
            let $timer = &mut ();
            $run.into_result($stop)
        }
    };
}

pub(crate) use timed;
