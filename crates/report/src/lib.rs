//! Reports about test outcomes: the text of `linerate run`, and the JSON document and HTML page of
//! all dialects. All functions are pure; they perform no I/O.

#![forbid(unsafe_code)]

mod figures;
mod html;
mod json;
mod number;
mod plot;
mod table;
mod text;
mod warnings;

use std::ffi::OsString;
use std::time::{Duration, SystemTime};

use model::{Confidence, Outcome, Plan, Side, Warning};
use stats::Modes;
use stats::confidence::{ConfidenceGoal, ConfidenceLevel, RunningMoments};
use units::BitRate;

pub use figures::{DatagramFigures, FlowSpread, ServiceDemand, TestFigures, TransactionFigures};
pub use html::{html, plots_html};
pub use json::{SCHEMA, json};
pub use plot::plots_svg;
pub use text::text;

/// One invocation of the program: the tests against one peer, their plans and their outcomes.
#[derive(Clone, Debug)]
pub struct Report {
    /// The version of linerate.
    pub version: &'static str,
    /// The command line, from [`quote_command_line`], without secrets.
    pub command_line: String,
    /// The start by the wall clock; for labels only.
    pub started: SystemTime,
    /// The peer.
    pub peer: PeerInfo,
    /// The tests, in the order in which they were run.
    pub tests: Vec<TestReport>,
    /// The names of requested tests that did not run: the run was interrupted, or an earlier test
    /// failed for a reason that affects them too.
    pub not_run: Vec<String>,
    /// Whether the user ended the run early.
    pub interrupted: bool,
    /// The reason why the run as a whole failed, in one line.
    pub failure: Option<String>,
}

/// The peer of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// The name or address, as given by the user.
    pub host: String,
    /// The port of the control connection; `None` without one.
    pub port: Option<u32>,
    /// Whether the peer is a server within this process.
    pub embedded: bool,
    /// The peer's program: `linerate`, or the name of a stock program such as `netserver` or
    /// `uperf`. `None` if the peer answered no test.
    pub kind: Option<&'static str>,
}

/// One test, and its runs.
#[derive(Clone, Debug)]
pub struct TestReport {
    /// The plan of the test.
    pub plan: Plan,
    /// The confidence goal that ends the repetition; `None` for a fixed number of runs.
    pub goal: Option<ConfidenceGoal>,
    /// The rate limit of one-way datagrams; `None` without pacing.
    pub pace_limit: Option<PaceLimit>,
    /// The outcome of each run, with all flows combined.
    pub runs: Vec<Outcome>,
    /// The reason why further runs are missing, in one line.
    pub error: Option<String>,
    /// The duration of the run that the peer ended early; `None` if the peer ended no run early.
    pub ended_early: Option<Duration>,
}

impl PeerInfo {
    /// Returns a peer with a control port on a host.
    pub fn new(host: impl Into<String>, port: u32) -> Self {
        Self {
            host: host.into(),
            port: Some(port),
            embedded: false,
            kind: None,
        }
    }
}

/// Quotes words as a command line for a shell.
pub fn quote_command_line(words: impl IntoIterator<Item = OsString>) -> String {
    let words = words.into_iter().map(|word| {
        let word = word.to_string_lossy();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@%+".contains(c);
        if !word.is_empty() && word.chars().all(is_plain) {
            return word.into_owned();
        }
        format!("'{}'", word.replace('\'', "'\\''"))
    });
    words.collect::<Vec<_>>().join(" ")
}

impl Report {
    /// Returns a report of this program without tests and without a command line.
    pub fn new(peer: PeerInfo, started: SystemTime) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            command_line: String::new(),
            started,
            peer,
            tests: Vec::new(),
            not_run: Vec::new(),
            interrupted: false,
            failure: None,
        }
    }

    /// Returns the error of the run, or else that of the first failed test.
    pub fn error(&self) -> Option<&str> {
        self.failure
            .as_deref()
            .or_else(|| self.tests.iter().find_map(|test| test.error.as_deref()))
    }

    /// Returns whether any result has a warning.
    pub fn has_warnings(&self) -> bool {
        self.tests.iter().any(|test| {
            !test.warnings_about_runs().is_empty()
                || test.runs.iter().any(|run| !run.warnings.is_empty())
        })
    }

    /// Returns the first value that any run has for one side. `side` selects the local or the
    /// remote side of an outcome.
    pub fn find_in_sides<'a, T>(
        &'a self,
        side: impl Fn(&'a Outcome) -> Option<&'a Side>,
        value_of: impl Fn(&'a Side) -> Option<T>,
    ) -> Option<T> {
        let outcomes = self.tests.iter().flat_map(|test| &test.runs);
        outcomes.filter_map(side).find_map(value_of)
    }
}

/// A rate limit of one-way datagrams, for all flows of one direction together.
#[derive(Clone, Debug, PartialEq)]
pub struct PaceLimit {
    /// The maximum payload rate.
    pub rate: BitRate,
    /// The name of the stream test whose rate is the limit; `None` if the user set the limit.
    pub reference_test: Option<String>,
}

impl TestReport {
    /// Returns a test without runs.
    pub fn new(plan: Plan) -> Self {
        Self {
            plan,
            goal: None,
            pace_limit: None,
            runs: Vec::new(),
            error: None,
            ended_early: None,
        }
    }

    /// Returns a test with one run.
    pub fn from_run(run: Outcome) -> Self {
        let plan = run.plan.clone();
        Self {
            runs: vec![run],
            ..Self::new(plan)
        }
    }

    /// Returns the index of the run with the median rate. For an even number of runs, it is the
    /// lower one of the middle two. All figures of a test come from this run, so they are
    /// consistent.
    pub fn median_run_index(&self) -> Option<usize> {
        let rates: Vec<f64> = self.rates().collect();
        let mut order: Vec<usize> = (0..rates.len()).collect();
        order.sort_by(|&a, &b| rates[a].total_cmp(&rates[b]));
        order.get(order.len().saturating_sub(1) / 2).copied()
    }

    /// Returns the lowest and the highest rate; `None` for fewer than two runs.
    pub fn rate_range(&self) -> Option<(f64, f64)> {
        let low = self.rates().reduce(f64::min)?;
        let high = self.rates().reduce(f64::max)?;
        (self.runs.len() > 1).then_some((low, high))
    }

    /// Returns the confidence intervals of the mean rate and of the mean CPU shares; `None` for
    /// fewer than two runs. Without a goal, the confidence level is 95 %.
    pub fn confidence(&self) -> Option<Confidence> {
        let level = self.goal.map_or(ConfidenceLevel::P95, |goal| goal.level);
        let width_percent =
            |values: &RunningMoments| values.relative_width(level).map(|width| 100.0 * width);
        let busy = |side: Option<&Side>| Some(side?.cpu.as_ref()?.busy_percent);
        let local: RunningMoments =
            (self.runs.iter().filter_map(|run| busy(Some(&run.local)))).collect();
        let remote: RunningMoments =
            (self.runs.iter().filter_map(|run| busy(run.remote.as_ref()))).collect();
        let rates: RunningMoments = self.rates().collect();
        (rates.samples() > 1).then(|| Confidence {
            level,
            target_width_percent: self.goal.map(|goal| 100.0 * goal.max_relative_width),
            iterations: rates.samples(),
            throughput_width_percent: width_percent(&rates),
            local_cpu_width_percent: width_percent(&local),
            remote_cpu_width_percent: width_percent(&remote),
            is_reached: self.goal.is_none_or(|goal| goal.is_reached_by(&rates)),
        })
    }

    /// Returns the mean rate of the runs; `None` without a run.
    pub fn mean_rate(&self) -> Option<f64> {
        self.rates().collect::<RunningMoments>().mean()
    }

    /// Returns the two clusters of a bimodal distribution of rates; `None` if one cluster fits as
    /// well.
    pub fn rate_modes(&self) -> Option<Modes> {
        stats::find_modes(&self.rates().collect::<Vec<_>>())
    }

    /// Returns whether the goal requires another run. Without a goal it is always true, and the
    /// caller counts the runs.
    pub fn needs_more_runs(&self) -> bool {
        let reached = self
            .confidence()
            .is_some_and(|confidence| confidence.is_reached);
        let runs = u32::try_from(self.runs.len()).unwrap_or(u32::MAX);
        self.goal.is_none_or(|goal| goal.needs_more(runs, reached))
    }

    /// Returns the warnings that follow from all runs together.
    pub fn warnings_about_runs(&self) -> Vec<Warning> {
        let rates: Vec<f64> = self.rates().collect();
        let warnings = match self.goal {
            Some(goal) if !rates.is_empty() => {
                let reached = self
                    .confidence()
                    .is_some_and(|confidence| confidence.is_reached);
                Warning::from_iterations(&rates, &goal, reached)
            }
            _ => Warning::bimodal(&rates).into_iter().collect(),
        };
        let ended_early = self.ended_early.map(|after| Warning::EndedEarly { after });
        ended_early.into_iter().chain(warnings).collect()
    }

    /// Returns [`TestFigures::rate`] of each run; 0 if a run has no rate.
    fn rates(&self) -> impl Iterator<Item = f64> {
        self.runs
            .iter()
            .map(|run| TestFigures::from_outcome(run).rate().unwrap_or(0.0))
    }
}
