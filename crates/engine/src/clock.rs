use std::time::{Duration, Instant};

use model::CpuUse;

use crate::cpu::CpuMeter;

/// A measured phase: its beginning, and the host's CPU time since.
#[derive(Debug)]
pub struct Clock {
    /// When it began, by the monotonic clock.
    pub started: Instant,
    cpu: Option<CpuMeter>,
}

impl Clock {
    /// Begins.
    pub fn start(measure_cpu: bool) -> Self {
        let cpu = measure_cpu.then(CpuMeter::start).flatten();
        Self {
            started: Instant::now(),
            cpu,
        }
    }

    /// Ends: how long it was, and what the CPUs did.
    pub fn stop(&self) -> (Duration, Option<CpuUse>) {
        let elapsed = self.started.elapsed();
        (elapsed, self.cpu.as_ref().and_then(CpuMeter::finish))
    }
}
