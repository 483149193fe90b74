//! Times that a loop keeps.

use stats::Histogram;
use sys::clock::monotonic_ns;

/// Times that a loop keeps, or not: `()` is nothing, and costs nothing.
pub(crate) trait Timer {
    /// A time begins, before the first pass or after one that does not count.
    fn start(&mut self);
    /// It ends, and the next one begins: a loop's next pass starts where the last one ended, so that
    /// one clock read does for both.
    fn lap(&mut self);
}

impl Timer for () {
    #[inline]
    fn start(&mut self) {}
    #[inline]
    fn lap(&mut self) {}
}

/// Times that a script keeps, or not: `()` is nothing, and costs nothing.
pub trait Watch {
    /// A time begins, with the first step or after a pause that is no step's.
    fn start(&mut self);
    /// A step has been executed this often, and the next one begins.
    fn step(&mut self, step: usize, executions: u64);
    /// A round is done.
    fn round(&mut self);
}

impl Watch for () {
    #[inline]
    fn start(&mut self) {}
    #[inline]
    fn step(&mut self, _: usize, _: u64) {}
    #[inline]
    fn round(&mut self) {}
}

/// One clock read a time, into a histogram.
pub(crate) struct Clocked {
    pub(crate) times: Histogram,
    started_ns: u64,
}

impl Clocked {
    pub(crate) fn new() -> Self {
        Self {
            times: Histogram::default(),
            started_ns: 0,
        }
    }
}

impl Timer for Clocked {
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

/// Runs a loop, compiled with a timer whose times go to the field of [`Ran`], and without one.
macro_rules! timed {
    ($is_timed:expr, $times:ident, $stop:expr, |$timer:ident| $run:expr) => {
        if $is_timed {
            let mut clocked = $crate::timer::Clocked::new();
            let $timer = &mut clocked;
            let end: $crate::end::LoopEnd = $run;
            $crate::end::Ran {
                $times: Some(clocked.times),
                ..end.ran($stop)
            }
        } else {
            let $timer = &mut ();
            $run.ran($stop)
        }
    };
}

pub(crate) use timed;
