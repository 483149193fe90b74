//! What the CPU counts in each step.

use std::rc::Rc;

use sys::counter::{EventCounters, MOST};

/// What each counter counted, in their order.
pub type EventCounts = [u64; MOST];

/// A thread's counters, read from step to step.
#[derive(Debug)]
pub(super) struct Counting {
    counters: Rc<EventCounters>,
    steps: Vec<EventCounts>,
    before: EventCounts,
    /// No reading has missed anything.
    is_whole: bool,
}

impl Counting {
    pub(super) fn new(counters: Rc<EventCounters>, steps: usize) -> Self {
        Self {
            counters,
            steps: vec![EventCounts::default(); steps],
            before: EventCounts::default(),
            is_whole: true,
        }
    }

    /// What was counted up to now is no step's.
    pub(super) fn start(&mut self) {
        self.before = self.read();
    }

    /// What was counted since is this step's.
    pub(super) fn step(&mut self, step: usize) {
        let now = self.read();
        let counts = self.steps[step].iter_mut().zip(&self.before).zip(now);
        for ((count, before), now) in counts {
            *count += now.saturating_sub(*before);
        }
        self.before = now;
    }

    pub(super) fn finish(self) -> Option<Vec<EventCounts>> {
        self.is_whole.then_some(self.steps)
    }

    fn read(&mut self) -> EventCounts {
        let mut counts = self.before;
        self.is_whole &= self.counters.read(&mut counts).unwrap_or(false);
        counts
    }
}
