//! CPU event counts per step.

use std::rc::Rc;

use sys::counter::{EventCounters, MAX_COUNTERS};

/// Event counts, in the order of the counters.
pub type EventCounts = [u64; MAX_COUNTERS];

/// Event counters of a thread, read after each step.
#[derive(Debug)]
pub(super) struct StepEventCounters {
    counters: Rc<EventCounters>,
    steps: Vec<EventCounts>,
    before: EventCounts,
    /// Whether all reads of the counters succeeded and counted all events.
    is_complete: bool,
}

impl StepEventCounters {
    pub(super) fn new(counters: Rc<EventCounters>, steps: usize) -> Self {
        Self {
            counters,
            steps: vec![EventCounts::default(); steps],
            before: EventCounts::default(),
            is_complete: true,
        }
    }

    /// Begins to count; earlier events belong to no step.
    pub(super) fn start(&mut self) {
        self.before = self.read();
    }

    /// Adds the events since the last read to this step.
    pub(super) fn end_step(&mut self, step: usize) {
        let now = self.read();
        let counts = self.steps[step].iter_mut().zip(&self.before).zip(now);
        for ((count, before), now) in counts {
            *count += now.saturating_sub(*before);
        }
        self.before = now;
    }

    /// Returns the counts of each step; `None` if events were missed.
    pub(super) fn finish(self) -> Option<Vec<EventCounts>> {
        self.is_complete.then_some(self.steps)
    }

    fn read(&mut self) -> EventCounts {
        let mut counts = self.before;
        self.is_complete &= self.counters.read(&mut counts).unwrap_or(false);
        counts
    }
}
