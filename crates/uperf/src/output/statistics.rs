//! Run Statistics: the figures of both ends and their differences, and linerate's additional lines.

use std::time::{Duration, UNIX_EPOCH};

use model::{CombinedTotals, GroupOutcome, PeerOutcome, Totals, TransactionOutcome};

use super::line::{SampleLine, Width, printable_line, summary};
use super::number::{bytes, rate, time};

/// Returns the lines of each slave, their sum if several, the master, and the differences.
pub(super) fn run_statistics(
    width: Width,
    slaves: &[PeerOutcome],
    master: &CombinedTotals,
) -> String {
    let rule = width.rule();
    let header = format!(
        "\nRun Statistics\n\
         {:<15} {:>8} {:>10} {:>12} {:>12} {:>11}\n{rule}",
        "Hostname", "Time", "Data", "Throughput", "Operations", "Errors"
    );
    let slave_lines: String = slaves.iter().map(format_slave).collect();
    let slave_totals = CombinedTotals::sum(slaves.iter().filter_map(|slave| slave.totals));
    let sum = if slaves.len() > 1 {
        format_host("Total", &slave_totals)
    } else {
        String::new()
    };
    let master_line = format_host("master", master);
    [
        header,
        slave_lines,
        sum,
        master_line,
        rule,
        differences(&slave_totals, master),
    ]
    .concat()
}

/// Returns rates over the time in which transactions ran, for all groups and each group.
///
/// Stock lacks these lines: it computes rates over the total time, and its group rates are wrong.
pub(super) fn active_time(width: Width, all: &Totals, groups: &[GroupOutcome]) -> String {
    let line = |name: &str, totals: &Totals| {
        let sample = SampleLine {
            name,
            totals: totals.combined(),
            ended: UNIX_EPOCH,
        };
        summary(&sample) + "\n"
    };
    let group_lines = groups.iter().map(|group| line(&group.name, &group.active));
    let group_lines: String = group_lines.collect();
    format!(
        "Over active time\n{}{}{group_lines}\n",
        width.rule(),
        line("All", all)
    )
}

/// Returns the totals of each host, if a host has several groups; stock prints one line per group.
pub(super) fn hosts(width: Width, slaves: &[PeerOutcome]) -> String {
    let mut hosts: Vec<(&str, Vec<CombinedTotals>)> = Vec::new();
    for slave in slaves {
        let totals = slave.totals.into_iter();
        match hosts.iter_mut().find(|(host, _)| *host == slave.host) {
            Some((_, host_totals)) => host_totals.extend(totals),
            None => hosts.push((&slave.host, totals.collect())),
        }
    }
    let has_one_group_per_host = hosts.len() == slaves.len();
    hosts.retain(|(_, totals)| !totals.is_empty());
    if has_one_group_per_host || hosts.is_empty() {
        return String::new();
    }
    let line = |(host, totals): (&str, Vec<_>)| {
        format_host(&printable_line(host), &CombinedTotals::sum(totals))
    };
    let lines: String = hosts.into_iter().map(line).collect();
    format!("Each host, all its groups\n{}{lines}\n", width.rule())
}

/// Returns the time between the first and last strand's start, per transaction.
///
/// A barrier releases the strands of all groups together. Transactions with one strand are omitted.
pub(super) fn start_spreads(width: Width, groups: &[GroupOutcome]) -> String {
    let line = |transaction: usize| {
        let outcomes = groups
            .iter()
            .filter_map(|group| group.transactions.get(transaction));
        let outcomes: Vec<&TransactionOutcome> =
            outcomes.filter(|outcome| outcome.workers > 0).collect();
        let strands: u64 = outcomes.iter().map(|outcome| outcome.workers).sum();
        let first = outcomes.iter().map(|outcome| outcome.started_after).min()?;
        let last_start = |outcome: &&TransactionOutcome| {
            outcome.started_after.saturating_add(outcome.start_spread)
        };
        let last = outcomes.iter().map(last_start).max()?;
        (strands > 1).then(|| {
            format!(
                "transaction {transaction:<4} {strands:8} strands within {}\n",
                time(last.saturating_sub(first), 10)
            )
        })
    };
    let max_transactions = groups.iter().map(|group| group.transactions.len()).max();
    let lines: String = (0..max_transactions.unwrap_or(0))
        .filter_map(line)
        .collect();
    if lines.is_empty() {
        return lines;
    }
    format!("Beginnings of strands\n{}{lines}\n", width.rule())
}

/// Returns the line for a slave that reported no totals at the end.
pub(crate) fn lost_slave_line(host: &str) -> String {
    format!("\nError saying goodbye with {host}\n")
}

/// Formats a slave's totals after its message, if any; a lost slave has only an error line.
fn format_slave(slave: &PeerOutcome) -> String {
    let host = printable_line(&slave.host);
    let Some(totals) = &slave.totals else {
        return lost_slave_line(&host);
    };
    let message = slave.message.as_deref().map(printable_line);
    let message = message.map(|text| format!("[{host}] {text}"));
    message.unwrap_or_default() + &format_host(&host, totals)
}

fn format_host(host: &str, totals: &CombinedTotals) -> String {
    format!(
        "{:<15.15} {}{}{}{:12} {:11.2}\n",
        host,
        time(totals.elapsed, 8),
        bytes(totals.bytes.0, 10),
        rate(totals.bits_per_second(), 12),
        totals.operations,
        totals.failed_percent(),
    )
}

/// Formats the differences, (master - slaves) / master, in per cent.
fn differences(slaves: &CombinedTotals, master: &CombinedTotals) -> String {
    let seconds = |time: Duration| time.as_secs_f64();
    let time = difference_percent(seconds(slaves.elapsed), seconds(master.elapsed));
    let bytes = difference_percent(slaves.bytes.0 as f64, master.bytes.0 as f64);
    let rate = difference_percent(slaves.bits_per_second(), master.bits_per_second());
    let operations = difference_percent(slaves.operations as f64, master.operations as f64);
    let errors = slaves.failed_percent().max(master.failed_percent());
    format!(
        "{:<15} {time:7.2}% {bytes:9.2}% {rate:11.2}% {operations:11.2}% {errors:10.2}%\n\n",
        "Difference(%)"
    )
}

/// Returns the difference in per cent.
///
/// As in stock, it is 0 if the slaves have 0, and `-inf` if only they have a value.
fn difference_percent(slaves: f64, master: f64) -> f64 {
    if slaves == 0.0 {
        return 0.0;
    }
    100.0 - 100.0 * slaves / master
}
