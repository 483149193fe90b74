//! What flows share that run together: their start and the host's CPU time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use model::{CpuUse, Half};

use crate::clock::{Clock, Passed};
use crate::cpu::CpuMeter;
use crate::start_barrier::{Participant, StartBarrier};

/// Flows that start together, and the host's CPU time until the last of them ends.
#[derive(Debug)]
pub struct FlowGroup {
    start: StartBarrier,
    /// Says whether to measure CPU time, and how.
    here: Half,
    /// Flows whose clock runs or has not started.
    running: AtomicUsize,
    meter: Mutex<Option<CpuMeter>>,
    cpu: Mutex<Option<CpuUse>>,
}

/// One flow of a [`FlowGroup`] before its start. Dropping it keeps the other flows from starting.
#[derive(Debug)]
pub struct GroupMember<'a> {
    group: &'a FlowGroup,
    participant: Participant<'a>,
}

impl FlowGroup {
    /// A group of N flows; `here` says whether to measure CPU time, and how.
    pub fn new(flows: usize, here: Half) -> Self {
        Self {
            start: StartBarrier::without_leader(flows),
            here,
            running: AtomicUsize::new(flows),
            meter: Mutex::default(),
            cpu: Mutex::default(),
        }
    }

    /// Returns the handle of one flow.
    pub fn member(&self) -> GroupMember<'_> {
        GroupMember {
            group: self,
            participant: self.start.participant(),
        }
    }

    /// The host's CPU time from the start until the last flow's clock stopped; `None` before that.
    pub fn cpu(&self) -> Option<CpuUse> {
        lock(&self.cpu).clone()
    }

    /// Ends the CPU time if no clock runs any more. A clock that stops again extends it.
    fn stopped(&self, first: bool) {
        if first {
            self.running.fetch_sub(1, SeqCst);
        }
        if self.running.load(SeqCst) == 0 {
            let meter = lock(&self.meter);
            *lock(&self.cpu) = meter.as_ref().and_then(CpuMeter::finish);
        }
    }
}

impl<'a> GroupMember<'a> {
    /// Waits until every flow is ready to move data. Returns `None` if one of them failed before.
    pub fn start(self) -> Option<&'a FlowGroup> {
        let group = self.group;
        let start_meter = || *lock(&group.meter) = CpuMeter::start(&group.here);
        self.participant.meet(start_meter).then_some(group)
    }
}

/// The clock of one flow, which its group may have to wait for.
#[derive(Debug)]
pub struct FlowClock<'a> {
    clock: Clock,
    group: Option<&'a FlowGroup>,
    runs: AtomicBool,
}

impl<'a> FlowClock<'a> {
    /// Starts, like [`Clock::start`].
    pub fn start(half: &Half, group: Option<&'a FlowGroup>) -> Self {
        Self {
            clock: Clock::start(half),
            group,
            runs: AtomicBool::new(true),
        }
    }

    /// Returns when it started.
    pub fn started(&self) -> Instant {
        self.clock.started
    }

    /// Stops. It may stop again later, if what follows turns out to belong to the measured time.
    pub fn stop(&self) -> Passed {
        let passed = self.clock.stop();
        if let Some(group) = self.group {
            group.stopped(self.runs.swap(false, SeqCst));
        }
        passed
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_ends_with_the_last_flow() {
        let here = Half {
            measure_cpu: true,
            ..Half::default()
        };
        let group = FlowGroup::new(2, here);
        let (one, two) = (group.member(), group.member());
        std::thread::scope(|scope| {
            scope.spawn(|| one.start());
            assert!(two.start().is_some());
        });
        let clocks = [(); 2].map(|()| FlowClock::start(&Half::default(), Some(&group)));
        clocks[0].stop();
        clocks[0].stop();
        assert_eq!(group.cpu(), None);
        // The kernel counts in ticks: in less than one there is no CPU time.
        std::thread::sleep(std::time::Duration::from_millis(50));
        clocks[1].stop();
        assert!(group.cpu().is_some());
    }
}
