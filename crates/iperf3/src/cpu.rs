//! The CPU time of this process in percent of one CPU, as iperf3 reports it.

use std::time::{Duration, Instant};

/// Measures the process's CPU time from its creation on.
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
        let share = |now: Duration, then: Duration| {
            let spent = now.saturating_sub(then).as_secs_f64();
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
