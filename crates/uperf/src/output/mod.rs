//! The Outcome → the stock tool's text, to the character, and our own lines beside it.
//!
//! Where a stock figure is wrong by the way in which it is computed, the line is stock's and the figure
//! is what happened.

mod latency;
mod line;
mod log;
mod number;
mod progress;
mod response;
mod sections;
mod statistics;
mod step;

pub use line::{Sample, Width};
pub use log::{goodbye, log};
pub(crate) use number::size;
pub use progress::{PROGRESS_END, progress, started, starting};
pub(crate) use response::response;
pub(crate) use statistics::lost;

use std::iter;
use std::time::Duration;

use model::{CombinedTotals, Outcome, Totals};

use crate::options::Master;

/// What is printed when a run has ended, after its progress and a rule.
pub fn report(master: &Master, width: Width, outcome: &Outcome) -> String {
    let print = &master.print;
    let here = Totals {
        counts: outcome.here.counts,
        elapsed: outcome.here.elapsed.unwrap_or_default(),
    }
    .combined();
    let groups = &outcome.groups;
    let sample = |name, totals: CombinedTotals| Sample {
        name,
        totals,
        ended: ended(outcome),
    };
    let transactions = || groups.iter().flat_map(|group| &group.transactions);
    let steps = || transactions().flat_map(|transaction| &transaction.steps);
    let mut text = String::new();
    if print.progress {
        text += &line::section_line(print.raw, &sample("Total", here));
    }
    if print.groups {
        let samples = groups.iter();
        let samples = samples.map(|group| sample(&group.name, group.totals.combined()));
        text += &sections::samples("Group Details", print.raw, width, samples);
    }
    if print.strands {
        let most = groups.iter().map(|group| group.workers.len()).max();
        let names: Vec<String> = (0..most.unwrap_or(0))
            .map(|it| format!("Thr{it}"))
            .collect();
        let workers = groups
            .iter()
            .flat_map(|group| iter::zip(&names, &group.workers));
        let samples = workers.map(|(name, worker)| sample(name, worker.combined()));
        text += &sections::samples("Strand Details", print.raw, width, samples);
    }
    if print.transactions {
        let executed = transactions().map(|one| (&*one.name, one.times));
        text += &sections::executions("Txn", width, executed);
    }
    if print.flowops {
        let executed = steps().map(|step| (&*step.name, step.times));
        text += &sections::executions("Flowop", width, executed);
        text += &sections::counters(width, steps());
    }
    if print.interfaces
        && let Some(interfaces) = &outcome.here.interfaces
    {
        text += &sections::interfaces(width, interfaces);
    }
    if print.statistics {
        text += &statistics::run_statistics(width, &outcome.peers, &here);
        text += &statistics::active(width, &outcome.active.unwrap_or_default(), groups);
        text += &statistics::hosts(width, &outcome.peers);
        text += &statistics::starts(width, groups);
    }
    if master.latencies {
        text += &latency::latencies(groups).unwrap_or_default();
    }
    text += &log(&outcome.log);
    if outcome.failures > 0 {
        let failures = outcome.failures.to_string();
        text += &["\nWARNING: ", &failures, " Errors detected during run\n"].concat();
    }
    text.push('\n');
    text
}

/// When the run was over, by the wall clock.
fn ended(outcome: &Outcome) -> std::time::SystemTime {
    let elapsed = outcome.here.elapsed.unwrap_or(Duration::ZERO);
    outcome
        .started
        .checked_add(elapsed)
        .unwrap_or(outcome.started)
}
