//! The CPU time of this process in percent of one CPU, as iperf3 reports it.

use std::time::{Duration, Instant};

/// Measures the process's CPU time since the meter's start.
#[derive(Debug)]
pub(crate) struct ProcessCpuMeter {
    started: Instant,
    start_times: (Duration, Duration),
}

impl ProcessCpuMeter {
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
            start_times: sys::cpu::process_times(),
        }
    }

    /// Returns the percentages since the start: total, user, system.
    pub(crate) fn percent(&self) -> [f64; 3] {
        let elapsed = self.started.elapsed().as_secs_f64();
        let (user, system) = sys::cpu::process_times();
        let share = |at_end: Duration, at_start: Duration| {
            let spent = at_end.saturating_sub(at_start).as_secs_f64();
            if elapsed > 0.0 {
                100.0 * spent / elapsed
            } else {
                0.0
            }
        };
        let (user, system) = (
            share(user, self.start_times.0),
            share(system, self.start_times.1),
        );
        [user + system, user, system]
    }
}
