//! Times of steps and rounds.

use std::fmt;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use stats::Histogram;
use sys::clock::{monotonic_ns, thread_cpu_ns};
use sys::counter::EventCounters;

use crate::timer::StepTimer;

use super::event_counters::{EventCounts, StepEventCounters};

/// Times of one step, or of the rounds. A pass is a step's executions in one round, or one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassTimes {
    /// Number of executions, or of rounds.
    pub executions: u64,
    /// Total time in nanoseconds of the monotonic clock.
    pub total_ns: u64,
    /// Total CPU time of the thread in nanoseconds; 0 if not requested.
    pub cpu_ns: u64,
    /// The longest pass, in nanoseconds.
    pub longest_ns: u64,
    /// The shortest pass, in nanoseconds; undefined without executions.
    pub shortest_ns: u64,
}

/// The times of a script's steps and rounds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StepReport {
    /// The rounds.
    pub rounds: PassTimes,
    /// The steps; without executions if only rounds were timed.
    pub steps: Vec<PassTimes>,
    /// The time of each round, if requested.
    pub histogram: Option<Histogram>,
    /// The event counts of each step; `None` if events were not counted, or a read missed some.
    pub events: Option<Vec<EventCounts>>,
}

/// Times steps and rounds with one clock read per step: a step begins at the end of the previous
/// one.
#[derive(Debug)]
pub struct StepTimes {
    report: StepReport,
    /// Receives the end and the duration of each pass of a step.
    observer: Option<Box<dyn PassObserver>>,
    event_counters: Option<Box<StepEventCounters>>,
    with_cpu: bool,
    with_steps: bool,
    round_start: ClockReadings,
    step_start: ClockReadings,
}

/// Receives the time of each pass of a step.
pub trait PassObserver: fmt::Debug {
    /// Receives the end and the duration, in nanoseconds of the monotonic clock.
    fn observe_pass(&mut self, end_ns: u64, duration_ns: u64);
}

#[derive(Clone, Copy, Debug, Default)]
struct ClockReadings {
    ns: u64,
    cpu_ns: u64,
}

impl StepTimes {
    /// Returns a timer for a script of `steps` steps. Without `with_steps` it times only rounds.
    pub fn new(steps: usize, with_steps: bool, with_cpu: bool) -> Self {
        Self {
            report: StepReport {
                steps: vec![PassTimes::default(); steps],
                ..StepReport::default()
            },
            observer: None,
            event_counters: None,
            with_cpu,
            with_steps,
            round_start: ClockReadings::default(),
            step_start: ClockReadings::default(),
        }
    }

    /// Also records each round's time in a histogram.
    #[must_use]
    pub fn with_histogram(mut self) -> Self {
        self.report.histogram = Some(Histogram::default());
        self
    }

    /// Reports each pass of a step to `observer`.
    #[must_use]
    pub fn with_observer(mut self, observer: Box<dyn PassObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Also reads these counters of the thread after each step. The time of a read counts for no
    /// step.
    #[must_use]
    pub fn with_counters(mut self, counters: Rc<EventCounters>) -> Self {
        self.event_counters = Some(Box::new(StepEventCounters::new(
            counters,
            self.report.steps.len(),
        )));
        self
    }

    /// Returns the times.
    pub fn finish(self) -> StepReport {
        let events = self.event_counters.and_then(|counters| counters.finish());
        StepReport {
            events,
            ..self.report
        }
    }

    fn now(&self) -> ClockReadings {
        ClockReadings {
            ns: monotonic_ns(),
            cpu_ns: if self.with_cpu { thread_cpu_ns() } else { 0 },
        }
    }
}

impl StepTimer for StepTimes {
    fn start(&mut self) {
        if let Some(counters) = &mut self.event_counters {
            counters.start();
        }
        self.round_start = self.now();
        self.step_start = self.round_start;
    }

    #[inline]
    fn step(&mut self, step: usize, executions: u64) {
        if !self.with_steps {
            return;
        }
        let now = self.now();
        let duration_ns = now.ns - self.step_start.ns;
        if executions > 0 {
            self.report.steps[step].add(
                executions,
                duration_ns,
                now.cpu_ns - self.step_start.cpu_ns,
            );
            if let Some(observer) = &mut self.observer {
                observer.observe_pass(now.ns, duration_ns);
            }
        }
        self.step_start = now;
        if let Some(counters) = &mut self.event_counters {
            counters.end_step(step);
            self.step_start = self.now();
        }
    }

    #[inline]
    fn round(&mut self) {
        let now = if self.with_steps {
            self.step_start
        } else {
            self.now()
        };
        let duration_ns = now.ns - self.round_start.ns;
        let rounds = &mut self.report.rounds;
        rounds.add(1, duration_ns, now.cpu_ns - self.round_start.cpu_ns);
        if let Some(histogram) = &mut self.report.histogram {
            histogram.record(duration_ns);
        }
        self.round_start = now;
    }
}

impl PassTimes {
    #[inline]
    fn add(&mut self, executions: u64, duration_ns: u64, cpu_ns: u64) {
        if self.executions == 0 {
            self.shortest_ns = duration_ns;
        }
        self.executions += executions;
        self.total_ns += duration_ns;
        self.cpu_ns += cpu_ns;
        self.longest_ns = self.longest_ns.max(duration_ns);
        self.shortest_ns = self.shortest_ns.min(duration_ns);
    }

    /// Merges the times of another thread.
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
