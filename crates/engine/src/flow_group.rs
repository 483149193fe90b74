//! What flows share that run together: their start and the host's CPU time.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{CpuUse, Half};

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

    /// The CPU time begins now, and not at the start.
    pub fn restart_cpu(&self) {
        *lock(&self.meter) = CpuMeter::start(&self.here);
    }

    /// A flow's clock has stopped. The CPU time ends if no clock runs any more; a clock that stops again extends it.
    pub(crate) fn stopped(&self, first: bool) {
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
        group.stopped(true);
        group.stopped(false);
        assert_eq!(group.cpu(), None);
        // The kernel counts in ticks: in less than one there is no CPU time.
        std::thread::sleep(std::time::Duration::from_millis(50));
        group.stopped(true);
        // Beside the looper of another test, a process that is nice has no figure.
        assert!(group.cpu().is_some() || sys::cpu::is_nice());
    }
}
