//! Formats an [`Outcome`] as the stock tool's text, with additional lines of linerate.
//!
//! The text matches stock to the character. If stock computes a figure incorrectly, the line has
//! stock's format and the correct figure.

mod latency;
mod line;
mod log;
mod number;
mod progress;
mod protocol_step;
mod response;
mod sections;
mod statistics;

pub use line::{SampleLine, Width};
pub use log::{goodbye_text, log_text};
pub(crate) use number::full_size;
pub use progress::{PROGRESS_END, progress, started, starting};
pub(crate) use response::response_line;
pub(crate) use statistics::lost_slave_line;

use std::iter;
use std::time::Duration;

use model::{CombinedTotals, Outcome, Totals};

use crate::options::MasterSettings;

/// Returns the report at the end of a run, after progress lines and a rule.
pub fn report(master: &MasterSettings, width: Width, outcome: &Outcome) -> String {
    let print = &master.print;
    let local_totals = Totals {
        counts: outcome.local.counts,
        elapsed: outcome.local.elapsed.unwrap_or_default(),
    }
    .combined();
    let groups = &outcome.groups;
    let sample = |name, totals: CombinedTotals| SampleLine {
        name,
        totals,
        ended: ended(outcome),
    };
    let transactions = || groups.iter().flat_map(|group| &group.transactions);
    let steps = || transactions().flat_map(|transaction| &transaction.steps);
    let mut text = String::new();
    if print.progress {
        text += &line::section_line(print.raw, &sample("Total", local_totals));
    }
    if print.groups {
        let samples = groups.iter();
        let samples = samples.map(|group| sample(&group.name, group.totals.combined()));
        text += &sections::samples("Group Details", print.raw, width, samples);
    }
    if print.strands {
        let max_workers = groups.iter().map(|group| group.workers.len()).max();
        let names: Vec<String> = (0..max_workers.unwrap_or(0))
            .map(|index| format!("Thr{index}"))
            .collect();
        let workers = groups
            .iter()
            .flat_map(|group| iter::zip(&names, &group.workers));
        let samples = workers.map(|(name, worker)| sample(name, worker.combined()));
        text += &sections::samples("Strand Details", print.raw, width, samples);
    }
    if print.transactions {
        let executed = transactions().map(|transaction| (&*transaction.name, transaction.times));
        text += &sections::executions("Txn", width, executed);
    }
    if print.flowops {
        let executed = steps().map(|step| (&*step.name, step.times));
        text += &sections::executions("Flowop", width, executed);
        text += &sections::counters(width, steps());
    }
    if print.interfaces {
        text += &sections::interfaces(width, outcome.local.interfaces.as_ref());
    }
    if print.statistics {
        text += &statistics::run_statistics(width, &outcome.peers, &local_totals);
        text += &statistics::active_time(width, &outcome.active.unwrap_or_default(), groups);
        text += &statistics::hosts(width, &outcome.peers);
        text += &statistics::start_spreads(width, groups);
    }
    if master.latencies {
        text += &latency::latencies(groups).unwrap_or_default();
    }
    text += &log_text(&outcome.log);
    if outcome.failures > 0 {
        let failures = outcome.failures.to_string();
        text += &["\nWARNING: ", &failures, " Errors detected during run\n"].concat();
    }
    text.push('\n');
    text
}

/// Returns the wall-clock time at which the run ended.
fn ended(outcome: &Outcome) -> std::time::SystemTime {
    let elapsed = outcome.local.elapsed.unwrap_or(Duration::ZERO);
    outcome
        .started
        .checked_add(elapsed)
        .unwrap_or(outcome.started)
}
