//! Times of steps and rounds.

use std::fmt;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use stats::Histogram;
use sys::clock::{monotonic_ns, thread_cpu_ns};
use sys::counter::EventCounters;

use crate::timer::Watch;

use super::counting::{Counting, EventCounts};

/// What a [`StepTimes`] has of a step, or of whole rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// Executions; of rounds, rounds.
    pub executions: u64,
    /// Time of all passes, nanoseconds of the monotonic clock.
    pub total_ns: u64,
    /// The thread's CPU time of all passes, nanoseconds; 0 if it was not asked for.
    pub cpu_ns: u64,
    /// The longest pass, nanoseconds.
    pub longest_ns: u64,
    /// The shortest pass, nanoseconds; of no meaning without executions.
    pub shortest_ns: u64,
}

/// The times of a script's steps and rounds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StepReport {
    /// The rounds.
    pub rounds: Pass,
    /// Each step; without executions if only rounds were timed.
    pub steps: Vec<Pass>,
    /// The time of each round, if requested.
    pub histogram: Option<Histogram>,
    /// The events of each step; `None` if none were counted, or a reading missed some.
    pub events: Option<Vec<EventCounts>>,
}

/// Times passes: one clock read per step, as a step begins where the one before it ended.
#[derive(Debug)]
pub struct StepTimes {
    report: StepReport,
    /// Each step's end and length.
    journal: Option<Box<dyn Journal>>,
    counting: Option<Box<Counting>>,
    with_cpu: bool,
    with_steps: bool,
    round_begun: Moment,
    step_begun: Moment,
}

/// Where each pass is written down.
pub trait Journal: fmt::Debug {
    /// Its end and its length, nanoseconds of the monotonic clock.
    fn pass(&mut self, ended_ns: u64, taken_ns: u64);
}

#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    ns: u64,
    cpu_ns: u64,
}

impl StepTimes {
    /// For so many steps. `with_steps` keeps times of each step and not of rounds alone.
    pub fn new(steps: usize, with_steps: bool, with_cpu: bool) -> Self {
        Self {
            report: StepReport {
                steps: vec![Pass::default(); steps],
                ..StepReport::default()
            },
            journal: None,
            counting: None,
            with_cpu,
            with_steps,
            round_begun: Moment::default(),
            step_begun: Moment::default(),
        }
    }

    /// Keeps each round's time as well.
    #[must_use]
    pub fn with_histogram(mut self) -> Self {
        self.report.histogram = Some(Histogram::default());
        self
    }

    /// Tells each pass.
    #[must_use]
    pub fn with_journal(mut self, journal: Box<dyn Journal>) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Reads these counters, which are the thread's own, after each step as well. What a reading costs is
    /// no step's time.
    #[must_use]
    pub fn with_counters(mut self, counters: Rc<EventCounters>) -> Self {
        self.counting = Some(Box::new(Counting::new(counters, self.report.steps.len())));
        self
    }

    /// Returns the times.
    pub fn finish(self) -> StepReport {
        let events = self.counting.and_then(|counting| counting.finish());
        StepReport {
            events,
            ..self.report
        }
    }

    fn now(&self) -> Moment {
        Moment {
            ns: monotonic_ns(),
            cpu_ns: if self.with_cpu { thread_cpu_ns() } else { 0 },
        }
    }
}

impl Watch for StepTimes {
    fn start(&mut self) {
        if let Some(counting) = &mut self.counting {
            counting.start();
        }
        self.round_begun = self.now();
        self.step_begun = self.round_begun;
    }

    #[inline]
    fn step(&mut self, step: usize, executions: u64) {
        if !self.with_steps {
            return;
        }
        let now = self.now();
        let taken_ns = now.ns - self.step_begun.ns;
        if executions > 0 {
            self.report.steps[step].add(executions, taken_ns, now.cpu_ns - self.step_begun.cpu_ns);
            if let Some(journal) = &mut self.journal {
                journal.pass(now.ns, taken_ns);
            }
        }
        self.step_begun = now;
        if let Some(counting) = &mut self.counting {
            counting.step(step);
            self.step_begun = self.now();
        }
    }

    #[inline]
    fn round(&mut self) {
        let now = if self.with_steps {
            self.step_begun
        } else {
            self.now()
        };
        let taken_ns = now.ns - self.round_begun.ns;
        let rounds = &mut self.report.rounds;
        rounds.add(1, taken_ns, now.cpu_ns - self.round_begun.cpu_ns);
        if let Some(histogram) = &mut self.report.histogram {
            histogram.record(taken_ns);
        }
        self.round_begun = now;
    }
}

impl Pass {
    #[inline]
    fn add(&mut self, executions: u64, taken_ns: u64, cpu_ns: u64) {
        if self.executions == 0 {
            self.shortest_ns = taken_ns;
        }
        self.executions += executions;
        self.total_ns += taken_ns;
        self.cpu_ns += cpu_ns;
        self.longest_ns = self.longest_ns.max(taken_ns);
        self.shortest_ns = self.shortest_ns.min(taken_ns);
    }

    /// With another thread's.
    pub fn merge(&mut self, other: &Self) {
        if other.executions == 0 {
            return;
        }
        if self.executions == 0 {
            *self = *other;
            return;
        }
        self.executions += other.executions;
        self.total_ns += other.total_ns;
        self.cpu_ns += other.cpu_ns;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.shortest_ns = self.shortest_ns.min(other.shortest_ns);
    }
}
