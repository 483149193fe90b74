//! The CPU time of this process, as iperf3 reports it: in percent of one CPU.

use std::time::{Duration, Instant};

/// A look at the process's CPU time.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    at: Instant,
    times: (Duration, Duration),
}

impl CpuMeter {
    pub(crate) fn start() -> Self {
        Self {
            at: Instant::now(),
            times: sys::cpu::process_times(),
        }
    }

    /// Total, user and system since the start.
    pub(crate) fn percent(&self) -> [f64; 3] {
        let elapsed = self.at.elapsed().as_secs_f64();
        let (user, system) = sys::cpu::process_times();
        let share = |now: Duration, then: Duration| {
            let spent = now.saturating_sub(then).as_secs_f64();
            if elapsed > 0.0 {
                100.0 * spent / elapsed
            } else {
                0.0
            }
        };
        let (user, system) = (share(user, self.times.0), share(system, self.times.1));
        [user + system, user, system]
    }
}
