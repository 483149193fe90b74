//! Run Statistics: what each end says of the same run, and how they differ; and, below them, our own
//! lines over active time.

use std::time::{Duration, UNIX_EPOCH};

use model::{CombinedTotals, GroupOutcome, PeerOutcome, Totals, TransactionOutcome};

use super::line::{Sample, Width, printable, summary};
use super::number::{bytes, rate, time};

/// The slaves that told their figures, the sum of several, this end, and the differences.
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
    let each: String = slaves.iter().map(slave_line).collect();
    let theirs = CombinedTotals::sum(slaves.iter().filter_map(|slave| slave.totals));
    let sum = if slaves.len() > 1 {
        host_line("Total", &theirs)
    } else {
        String::new()
    };
    let ours = host_line("master", master);
    [header, each, sum, ours, rule, differences(&theirs, master)].concat()
}

/// The same figures over the time in which transactions ran. Stock has no such lines: its rates are
/// over all of the time, and those of its groups are not what happened.
pub(super) fn active(width: Width, all: &Totals, groups: &[GroupOutcome]) -> String {
    let line = |name: &str, totals: &Totals| {
        let sample = Sample {
            name,
            totals: totals.combined(),
            ended: UNIX_EPOCH,
        };
        summary(&sample) + "\n"
    };
    let groups = groups.iter();
    let groups: String = groups.map(|one| line(&one.name, &one.active)).collect();
    format!(
        "Over active time\n{}{}{groups}\n",
        width.rule(),
        line("All", all)
    )
}

/// Each host with the figures of all its groups, where one has several: stock has a line a group alone.
pub(super) fn hosts(width: Width, slaves: &[PeerOutcome]) -> String {
    let mut hosts: Vec<(&str, Vec<CombinedTotals>)> = Vec::new();
    for slave in slaves {
        let totals = slave.totals.into_iter();
        match hosts.iter_mut().find(|(host, _)| *host == slave.host) {
            Some((_, all)) => all.extend(totals),
            None => hosts.push((&slave.host, totals.collect())),
        }
    }
    let are_few = hosts.len() == slaves.len();
    hosts.retain(|(_, all)| !all.is_empty());
    if are_few || hosts.is_empty() {
        return String::new();
    }
    let line = |(host, all): (&str, Vec<_>)| host_line(&printable(host), &CombinedTotals::sum(all));
    let lines: String = hosts.into_iter().map(line).collect();
    format!("Each host, all its groups\n{}{lines}\n", width.rule())
}

/// How far apart the strands of all groups began a transaction, which a barrier lets them begin together: nothing
/// where strands are alone.
pub(super) fn starts(width: Width, groups: &[GroupOutcome]) -> String {
    let line = |transaction: usize| {
        let parts = groups
            .iter()
            .filter_map(|group| group.transactions.get(transaction));
        let parts: Vec<&TransactionOutcome> = parts.filter(|part| part.workers > 0).collect();
        let strands: u64 = parts.iter().map(|part| part.workers).sum();
        let first = parts.iter().map(|part| part.begun).min()?;
        let begun = |part: &&TransactionOutcome| part.begun.saturating_add(part.start_spread);
        let last = parts.iter().map(begun).max()?;
        (strands > 1).then(|| {
            format!(
                "transaction {transaction:<4} {strands:8} strands within {}\n",
                time(last.saturating_sub(first), 10)
            )
        })
    };
    let most = groups.iter().map(|group| group.transactions.len()).max();
    let lines: String = (0..most.unwrap_or(0)).filter_map(line).collect();
    if lines.is_empty() {
        return lines;
    }
    format!("Beginnings of strands\n{}{lines}\n", width.rule())
}

/// The line about a slave that reported no totals at the end.
pub(crate) fn lost(host: &str) -> String {
    format!("\nError saying goodbye with {host}\n")
}

/// What else it said stands in the same line, in front. A slave that was lost has a message in its place.
fn slave_line(slave: &PeerOutcome) -> String {
    let host = printable(&slave.host);
    let Some(totals) = &slave.totals else {
        return lost(&host);
    };
    let said = slave.message.as_deref().map(printable);
    let said = said.map(|said| format!("[{host}] {said}"));
    said.unwrap_or_default() + &host_line(&host, totals)
}

fn host_line(host: &str, totals: &CombinedTotals) -> String {
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

/// Of what this end counted, how much the slaves did not: in per cent.
fn differences(theirs: &CombinedTotals, ours: &CombinedTotals) -> String {
    let seconds = |time: Duration| time.as_secs_f64();
    let time = difference(seconds(theirs.elapsed), seconds(ours.elapsed));
    let bytes = difference(theirs.bytes.0 as f64, ours.bytes.0 as f64);
    let rate = difference(theirs.bits_per_second(), ours.bits_per_second());
    let operations = difference(theirs.operations as f64, ours.operations as f64);
    let errors = theirs.failed_percent().max(ours.failed_percent());
    format!(
        "{:<15} {time:7.2}% {bytes:9.2}% {rate:11.2}% {operations:11.2}% {errors:10.2}%\n\n",
        "Difference(%)"
    )
}

/// 0 where the slaves have nothing, as in stock. Where only the slaves have something it is `-inf`.
fn difference(theirs: f64, ours: f64) -> f64 {
    if theirs == 0.0 {
        return 0.0;
    }
    100.0 - 100.0 * theirs / ours
}
