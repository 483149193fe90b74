//! Times of steps and rounds.

use std::fmt;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use stats::Histogram;
use sys::clock::{monotonic_ns, thread_cpu_ns};
use sys::counter::EventCounters;

use crate::timer::StepTimer;

use super::event_counters::{EventCounts, StepEventCounters};

/// Times of the executions of one step, or of the rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassTimes {
    /// Number of executions, or of rounds.
    pub executions: u64,
    /// Total time in nanoseconds of the monotonic clock.
    pub total_ns: u64,
    /// Total CPU time of the thread in nanoseconds; 0 if not requested.
    pub cpu_ns: u64,
    /// The longest execution, in nanoseconds.
    pub longest_ns: u64,
    /// The shortest execution, in nanoseconds; undefined without executions.
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

/// Times steps and rounds with one clock read per execution: each begins at the end of the previous
/// one. A pass is a step's executions in one round.
#[derive(Debug)]
pub struct StepTimes {
    report: StepReport,
    /// Receives the end and the duration of each pass of a step.
    observer: Option<Box<dyn PassObserver>>,
    event_counters: Option<Box<StepEventCounters>>,
    with_cpu: bool,
    with_steps: bool,
    round_start: ClockReadings,
    /// Start of the current pass, in nanoseconds of the monotonic clock.
    pass_start_ns: u64,
    execution_start: ClockReadings,
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
            pass_start_ns: 0,
            execution_start: ClockReadings::default(),
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
        self.execution_start = self.now();
        self.round_start = self.execution_start;
        self.pass_start_ns = self.execution_start.ns;
    }

    #[inline]
    fn execution(&mut self, step: usize) {
        if !self.with_steps {
            return;
        }
        let now = self.now();
        self.report.steps[step].add(&self.execution_start, &now);
        self.execution_start = now;
    }

    #[inline]
    fn step(&mut self, step: usize, executions: u64) {
        if !self.with_steps {
            return;
        }
        if let Some(observer) = self.observer.as_mut().filter(|_| executions > 0) {
            let end_ns = self.execution_start.ns;
            observer.observe_pass(end_ns, end_ns - self.pass_start_ns);
        }
        if let Some(counters) = &mut self.event_counters {
            counters.end_step(step);
            self.execution_start = self.now();
        }
        self.pass_start_ns = self.execution_start.ns;
    }

    #[inline]
    fn round(&mut self) {
        let now = if self.with_steps {
            self.execution_start
        } else {
            self.now()
        };
        self.report.rounds.add(&self.round_start, &now);
        if let Some(histogram) = &mut self.report.histogram {
            histogram.record(now.ns - self.round_start.ns);
        }
        self.round_start = now;
    }
}

impl PassTimes {
    /// Adds one execution.
    #[inline]
    fn add(&mut self, start: &ClockReadings, end: &ClockReadings) {
        let duration_ns = end.ns - start.ns;
        if self.executions == 0 {
            self.shortest_ns = duration_ns;
        }
        self.executions += 1;
        self.total_ns += duration_ns;
        self.cpu_ns += end.cpu_ns - start.cpu_ns;
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
