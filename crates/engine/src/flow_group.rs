//! Groups of flows that start together and share one measurement of CPU time.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::{CpuUse, EndpointPlan};

use crate::cpu::CpuMeter;
use crate::start_barrier::{Participant, StartBarrier};

/// Flows that start together, and the host's CPU time until the last of them ends.
#[derive(Debug)]
pub struct FlowGroup {
    start: StartBarrier,
    /// Settings of the CPU measurement.
    endpoint: EndpointPlan,
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
    /// Creates a group of `flows` flows. `endpoint` contains the settings of the CPU measurement.
    pub fn new(flows: usize, endpoint: EndpointPlan) -> Self {
        Self {
            start: StartBarrier::without_leader(flows),
            endpoint,
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

    /// Returns the host's CPU time from the start until the last flow's clock stopped; `None`
    /// before that.
    pub fn cpu(&self) -> Option<CpuUse> {
        lock(&self.cpu).clone()
    }

    /// Restarts the CPU measurement now.
    pub fn restart_cpu(&self) {
        *lock(&self.meter) = CpuMeter::start(&self.endpoint);
    }

    /// Records that a flow's clock has stopped. The CPU measurement ends when no clock runs. If a
    /// flow records another stop later, the measurement is extended.
    pub(crate) fn record_stop(&self, is_first_stop_of_flow: bool) {
        if is_first_stop_of_flow {
            self.running.fetch_sub(1, SeqCst);
        }
        if self.running.load(SeqCst) == 0 {
            let meter = lock(&self.meter);
            *lock(&self.cpu) = meter.as_ref().and_then(CpuMeter::finish);
        }
    }
}

impl<'a> GroupMember<'a> {
    /// Waits until every flow is ready to move data. Returns `None` if a flow failed first.
    pub fn start(self) -> Option<&'a FlowGroup> {
        let group = self.group;
        let start_meter = || *lock(&group.meter) = CpuMeter::start(&group.endpoint);
        self.participant
            .wait_for_others(start_meter)
            .then_some(group)
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
        let endpoint = EndpointPlan {
            measure_cpu: true,
            ..EndpointPlan::default()
        };
        let group = FlowGroup::new(2, endpoint);
        let (first, second) = (group.member(), group.member());
        std::thread::scope(|scope| {
            scope.spawn(|| first.start());
            assert!(second.start().is_some());
        });
        group.record_stop(true);
        group.record_stop(false);
        assert_eq!(group.cpu(), None);
        // The kernel counts CPU time in ticks. An interval shorter than a tick has no CPU time.
        std::thread::sleep(std::time::Duration::from_millis(50));
        group.record_stop(true);
        // The CPU time is unavailable if this process is nice while another test runs a looper.
        assert!(group.cpu().is_some() || sys::cpu::is_nice());
    }
}
