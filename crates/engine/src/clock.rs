//! The clock of the measured phase.

use std::time::{Duration, Instant};

use model::{CpuUse, Half, Warning};
use sys::clock;

use crate::cpu::CpuMeter;

/// Largest difference of the wall clock from the monotonic clock that is not a step.
const STEP: Duration = Duration::from_millis(20);

/// The start of a measured phase, and the meters of what the host and this thread use from then on.
#[derive(Debug)]
pub(crate) struct Clock {
    /// When the phase started, by the monotonic clock.
    pub(crate) started: Instant,
    cpu: Option<CpuMeter>,
    thread_cpu_ns: u64,
    wall_ahead_ns: i64,
}

/// The length of a measured phase and the CPU time used in it.
#[derive(Clone, Debug, Default)]
pub struct Passed {
    /// Its length, by the monotonic clock.
    pub elapsed: Duration,
    /// CPU time of the host, if requested.
    pub cpu: Option<CpuUse>,
    /// CPU time of the thread that started and stopped the clock.
    pub thread_cpu: Duration,
    /// How far the wall clock was set in the phase, in nanoseconds.
    wall_step_ns: i64,
}

impl Clock {
    /// Starts on the thread that moves the data, and measures the CPU time that `half` requests.
    pub(crate) fn start(half: &Half) -> Self {
        let cpu = CpuMeter::start(half);
        Self {
            cpu,
            wall_ahead_ns: clock::wall_ahead_ns(),
            thread_cpu_ns: clock::thread_cpu_ns(),
            started: Instant::now(),
        }
    }

    /// Stops on the same thread.
    pub(crate) fn stop(&self) -> Passed {
        let elapsed = self.started.elapsed();
        let thread_cpu_ns = clock::thread_cpu_ns().saturating_sub(self.thread_cpu_ns);
        Passed {
            elapsed,
            cpu: self.cpu.as_ref().and_then(CpuMeter::finish),
            thread_cpu: Duration::from_nanos(thread_cpu_ns),
            wall_step_ns: clock::wall_ahead_ns() - self.wall_ahead_ns,
        }
    }
}

impl Passed {
    /// Returns a warning if the wall clock was set in the phase.
    pub fn clock_stepped(&self) -> Option<Warning> {
        (self.wall_step_ns.unsigned_abs() > STEP.as_nanos() as u64).then_some(
            Warning::ClockStepped {
                by_seconds: self.wall_step_ns as f64 / 1e9,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_was_set_shows() {
        let mut clock = Clock::start(&Half::default());
        assert_eq!(clock.stop().clock_stepped(), None);
        clock.wall_ahead_ns -= 5_000_000_000;
        let Some(Warning::ClockStepped { by_seconds }) = clock.stop().clock_stepped() else {
            panic!("a step of five seconds is none");
        };
        assert!((by_seconds - 5.0).abs() < 0.02, "{by_seconds}");
    }

    #[test]
    fn the_thread_cpu_is_of_this_thread() {
        let clock = Clock::start(&Half::default());
        std::thread::scope(|scope| {
            scope.spawn(|| while clock.started.elapsed() < Duration::from_millis(30) {});
        });
        assert!(clock.stop().thread_cpu < Duration::from_millis(20));
    }
}
