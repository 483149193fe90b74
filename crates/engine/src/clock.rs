//! The clock of the measured phase.

use std::time::{Duration, Instant};

use model::{CpuUse, EndpointPlan, Warning};
use sys::clock;

use crate::cpu::CpuMeter;

/// A change of the wall clock relative to the monotonic clock that is larger than this is a step.
const STEP_THRESHOLD: Duration = Duration::from_millis(20);

/// The start of a measured phase, with meters for the CPU time of the host and of this thread.
#[derive(Debug)]
pub(crate) struct PhaseClock {
    /// When the phase started, by the monotonic clock.
    pub(crate) started: Instant,
    cpu: Option<CpuMeter>,
    thread_cpu_ns: u64,
    wall_offset_ns: i64,
}

/// The length of a measured phase and the CPU time used in it.
#[derive(Clone, Debug, Default)]
pub struct PhaseTimes {
    /// Length of the phase, by the monotonic clock.
    pub elapsed: Duration,
    /// CPU time of the host, if requested.
    pub cpu: Option<CpuUse>,
    /// CPU time of the thread that started and stopped the clock.
    pub thread_cpu: Duration,
    /// Step of the wall clock during the phase, in nanoseconds.
    wall_step_ns: i64,
}

impl PhaseClock {
    /// Starts the clock and the CPU measurement that `endpoint` requests. The calling thread must
    /// be the one that moves the data.
    pub(crate) fn start(endpoint: &EndpointPlan) -> Self {
        let cpu = CpuMeter::start(endpoint);
        Self {
            cpu,
            wall_offset_ns: clock::wall_clock_offset_ns(),
            thread_cpu_ns: clock::thread_cpu_ns(),
            started: Instant::now(),
        }
    }

    /// Returns the times since the start. Only the thread that started the clock may call it.
    pub(crate) fn stop(&self) -> PhaseTimes {
        let elapsed = self.started.elapsed();
        let thread_cpu_ns = clock::thread_cpu_ns().saturating_sub(self.thread_cpu_ns);
        PhaseTimes {
            elapsed,
            cpu: self.cpu.as_ref().and_then(CpuMeter::finish),
            thread_cpu: Duration::from_nanos(thread_cpu_ns),
            wall_step_ns: clock::wall_clock_offset_ns() - self.wall_offset_ns,
        }
    }
}

impl PhaseTimes {
    /// Returns a warning if the wall clock was set during the phase.
    pub fn clock_step_warning(&self) -> Option<Warning> {
        (self.wall_step_ns.unsigned_abs() > STEP_THRESHOLD.as_nanos() as u64).then_some(
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
    fn a_wall_clock_step_is_reported() {
        let mut clock = PhaseClock::start(&EndpointPlan::default());
        assert_eq!(clock.stop().clock_step_warning(), None);
        clock.wall_offset_ns -= 5_000_000_000;
        let Some(Warning::ClockStepped { by_seconds }) = clock.stop().clock_step_warning() else {
            panic!("a step of five seconds was not reported");
        };
        assert!((by_seconds - 5.0).abs() < 0.02, "{by_seconds}");
    }

    #[test]
    fn the_thread_cpu_time_excludes_other_threads() {
        let clock = PhaseClock::start(&EndpointPlan::default());
        std::thread::scope(|scope| {
            scope.spawn(|| while clock.started.elapsed() < Duration::from_millis(30) {});
        });
        assert!(clock.stop().thread_cpu < Duration::from_millis(20));
    }
}
