//! Outcomes → the text of `linerate run`, and the JSON document and the HTML page of every dialect. Pure functions:
//! nothing here is read from or written to anything.

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
use stats::confidence::{Goal, Level, Moments};
use units::BitRate;

pub use figures::{Datagrams, Demand, Figures, Spread, TransactionFigures};
pub use html::{html, plots_html};
pub use json::{SCHEMA, json};
pub use plot::plots_svg;
pub use text::text;

/// One run of one or several tests over one path: the plans, and their outcomes.
#[derive(Clone, Debug)]
pub struct Report {
    /// The version of the program that ran it.
    pub version: &'static str,
    /// What was typed: [`typed`].
    pub command_line: String,
    /// When it began, by the wall clock; for labels only.
    pub started: SystemTime,
    /// Whom it measured against.
    pub peer: Peer,
    /// The tests, in the order in which they were run.
    pub tests: Vec<Tested>,
    /// Tests that were asked for and not run: somebody ended the run, or they would have failed as one
    /// before them did.
    pub not_run: Vec<String>,
    /// Whether somebody ended the run before its time.
    pub interrupted: bool,
    /// Why the run could not go on at all, in one line.
    pub failure: Option<String>,
}

/// The peer of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name or address, as it was given.
    pub host: String,
    /// The port of its control connection; `None` without one.
    pub port: Option<u32>,
    /// Whether it was a server within this process.
    pub embedded: bool,
    /// The kind of program that serves there, by its own name (`netserver`, `uperf`); `linerate` if it is this program;
    /// `None` where no test was answered.
    pub kind: Option<&'static str>,
}

/// One test, and its runs.
#[derive(Clone, Debug)]
pub struct Tested {
    /// What was to be run.
    pub plan: Plan,
    /// When it was to be run often enough; `None` where only a number was asked for.
    pub goal: Option<Goal>,
    /// What one-way datagrams were paced to; `None` where they were not.
    pub pace: Option<Pace>,
    /// What was measured, each time that it was run, all its flows together.
    pub runs: Vec<Outcome>,
    /// Why there is not more of it, in one line.
    pub error: Option<String>,
    /// How long the run took that the peer ended before its time.
    pub ended_early: Option<Duration>,
}

impl Peer {
    /// A peer that serves at a control port of a host.
    pub fn of(host: impl Into<String>, port: u32) -> Self {
        Self {
            host: host.into(),
            port: Some(port),
            embedded: false,
            kind: None,
        }
    }
}

/// Returns a command line as a shell would take it again.
pub fn typed(words: impl IntoIterator<Item = OsString>) -> String {
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
    /// The report of this program without tests, and without a command line.
    pub fn of(peer: Peer, started: SystemTime) -> Self {
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

    /// Why the run failed, or else the first test that did.
    pub fn error(&self) -> Option<&str> {
        self.failure
            .as_deref()
            .or_else(|| self.tests.iter().find_map(|test| test.error.as_deref()))
    }

    /// Whether there is a doubt about any result.
    pub fn is_doubtful(&self) -> bool {
        self.tests.iter().any(|test| {
            !test.doubts().is_empty() || test.runs.iter().any(|run| !run.warnings.is_empty())
        })
    }

    /// The first thing that anybody told of this end, or of the other.
    pub fn first_of<'a, T>(
        &'a self,
        side: impl Fn(&'a Outcome) -> Option<&'a Side>,
        what: impl Fn(&'a Side) -> Option<T>,
    ) -> Option<T> {
        let outcomes = self.tests.iter().flat_map(|test| &test.runs);
        outcomes.filter_map(side).find_map(what)
    }
}

/// A limit to the payload of one-way datagrams, of all flows in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Pace {
    /// The most per second.
    pub rate: BitRate,
    /// The stream test whose rate it is; `None` where the user asked for it.
    pub of: Option<String>,
}

impl Tested {
    /// A test that has not been run.
    pub fn of(plan: Plan) -> Self {
        Self {
            plan,
            goal: None,
            pace: None,
            runs: Vec::new(),
            error: None,
            ended_early: None,
        }
    }

    /// A test of one run.
    pub fn of_run(run: Outcome) -> Self {
        let plan = run.plan.clone();
        Self {
            runs: vec![run],
            ..Self::of(plan)
        }
    }

    /// The place of the run with the median rate; of an even number the lower of the two in the
    /// middle. It is one run, so that its figures belong together.
    pub fn median(&self) -> Option<usize> {
        let rates: Vec<f64> = self.rates().collect();
        let mut order: Vec<usize> = (0..rates.len()).collect();
        order.sort_by(|&a, &b| rates[a].total_cmp(&rates[b]));
        order.get(order.len().saturating_sub(1) / 2).copied()
    }

    /// The lowest and the highest rate of several runs; `None` of fewer than two.
    pub fn spread(&self) -> Option<(f64, f64)> {
        let low = self.rates().reduce(f64::min)?;
        let high = self.rates().reduce(f64::max)?;
        (self.runs.len() > 1).then_some((low, high))
    }

    /// How well the mean of the runs' rates is known, and of the CPU times; `None` of fewer than two runs.
    /// Without a goal it is at the level that most people ask for.
    pub fn confidence(&self) -> Option<Confidence> {
        let level = self.goal.map_or(Level::P95, |goal| goal.level);
        let percent = |of: &Moments| of.relative_width(level).map(|width| 100.0 * width);
        let busy = |side: Option<&Side>| Some(side?.cpu.as_ref()?.busy_percent);
        let here: Moments = (self.runs.iter().filter_map(|run| busy(Some(&run.here)))).collect();
        let there: Moments =
            (self.runs.iter().filter_map(|run| busy(run.there.as_ref()))).collect();
        let rates: Moments = self.rates().collect();
        (rates.samples() > 1).then(|| Confidence {
            level,
            target_width_percent: self.goal.map(|goal| 100.0 * goal.width),
            iterations: rates.samples(),
            throughput_width_percent: percent(&rates),
            local_cpu_width_percent: percent(&here),
            remote_cpu_width_percent: percent(&there),
            reached: self.goal.is_none_or(|goal| goal.is_reached_by(&rates)),
        })
    }

    /// The mean of the runs' rates; `None` without a run.
    pub fn mean_rate(&self) -> Option<f64> {
        self.rates().collect::<Moments>().mean()
    }

    /// The two groups that the runs' rates fall into; `None` when one explains them as well.
    pub fn modes(&self) -> Option<Modes> {
        stats::modes(&self.rates().collect::<Vec<_>>())
    }

    /// Whether the goal, if there is one, asks for another run.
    pub fn wants_more(&self) -> bool {
        let reached = self.confidence().is_some_and(|found| found.reached);
        let runs = u32::try_from(self.runs.len()).unwrap_or(u32::MAX);
        self.goal.is_none_or(|goal| goal.wants_more(runs, reached))
    }

    /// What the runs together give to doubt.
    pub fn doubts(&self) -> Vec<Warning> {
        let rates: Vec<f64> = self.rates().collect();
        let of_runs = match self.goal {
            Some(goal) if !rates.is_empty() => {
                let reached = self.confidence().is_some_and(|found| found.reached);
                Warning::of_iterations(&rates, &goal, reached)
            }
            _ => Warning::bimodal(&rates).into_iter().collect(),
        };
        let cut = self.ended_early.map(|after| Warning::EndedEarly { after });
        cut.into_iter().chain(of_runs).collect()
    }

    /// Each run's [`Figures::rate`]; a run without one has moved nothing that anybody knows of.
    fn rates(&self) -> impl Iterator<Item = f64> {
        self.runs
            .iter()
            .map(|run| Figures::of(run).rate().unwrap_or(0.0))
    }
}
