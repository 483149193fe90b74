//! Tables about the groups of a run: workers, transactions, steps and peers.

use std::time::Duration;

use model::{
    CombinedTotals, ExecutionTimes, GroupOutcome, Outcome, PeerOutcome, StepOutcome,
    TransactionOutcome,
};

use super::table::{Cell, table};
use super::test::{format_rate, subsection};
use super::text::{format_amount, format_duration, format_nanoseconds};

/// Returns all tables about groups.
pub(super) fn sections(run: &Outcome) -> String {
    [
        groups(run),
        transactions(run),
        steps(run),
        event_counters(run),
        peers(run),
        workers(run),
    ]
    .concat()
}

fn groups(run: &Outcome) -> String {
    let header = [
        "group",
        "active",
        "data",
        "throughput",
        "",
        "steps",
        "failed",
    ];
    let rows = run
        .groups
        .iter()
        .map(|group| (group.name.clone(), group.active.combined()));
    subsection("Groups", &header, rate_rows(rows.collect()))
}

fn workers(run: &Outcome) -> String {
    let rows_of_group = |group: &GroupOutcome| {
        let workers = group.workers.iter().enumerate();
        let name = group.name.clone();
        let rows =
            workers.map(move |(index, totals)| (format!("{name}, {index}"), totals.combined()));
        rows.collect::<Vec<_>>()
    };
    let rows: Vec<_> = run.groups.iter().flat_map(rows_of_group).collect();
    if rows.is_empty() {
        return String::new();
    }
    let header = [
        "worker",
        "time",
        "data",
        "throughput",
        "",
        "steps",
        "failed",
    ];
    format!(
        "<details><summary>Workers: {}</summary>\n{}</details>\n",
        rows.len(),
        table(&header, rate_rows(rows))
    )
}

fn rate_rows(rows: Vec<(String, CombinedTotals)>) -> Vec<Vec<Cell>> {
    let rate = CombinedTotals::bits_per_second;
    let max_rate = rows
        .iter()
        .map(|(_, totals)| rate(totals))
        .fold(0.0, f64::max);
    let row = |(name, totals): (String, CombinedTotals)| {
        vec![
            Cell::Text(name),
            Cell::Number(format_duration(totals.elapsed)),
            Cell::Number(format_amount(totals.bytes.0 as f64, "B")),
            Cell::Number(format_amount(totals.bits_per_second(), "bit/s")),
            Cell::bar(rate(&totals), max_rate),
            Cell::Number(format_rate(totals.operations_per_second(), "op/s")),
            Cell::Number(totals.failed_operations.to_string()),
        ]
    };
    rows.into_iter().map(row).collect()
}

fn transactions(run: &Outcome) -> String {
    let row = |(group, transaction): (&GroupOutcome, &TransactionOutcome)| {
        let rates = crate::figures::TransactionFigures::from_outcome(transaction);
        let row = vec![
            Cell::Text(transaction.name.clone()),
            Cell::Text(group.name.clone()),
            Cell::Number(format_duration(transaction.totals.elapsed)),
            Cell::Number(format_duration(transaction.start_spread)),
            Cell::Number(transaction.rounds.to_string()),
            Cell::number_or_unknown(
                rates
                    .transactions_per_s
                    .map(|rate| format_rate(rate, "tran/s")),
            ),
            Cell::number_or_unknown(
                rates
                    .throughput_bps
                    .map(|rate| format_amount(rate.0, "bit/s")),
            ),
        ];
        row.into_iter()
            .chain(time_cells(transaction.times.as_ref()))
            .collect()
    };
    let header = [
        "transaction",
        "group",
        "time",
        "started within",
        "rounds",
        "rate",
        "arrived",
        "mean",
        "CPU",
        "longest",
        "shortest",
    ];
    subsection(
        "Transactions",
        &header,
        transactions_with_group(run).map(row).collect(),
    )
}

fn transactions_with_group(
    run: &Outcome,
) -> impl Iterator<Item = (&GroupOutcome, &TransactionOutcome)> {
    run.groups.iter().flat_map(|group| {
        let transactions = group.transactions.iter();
        transactions.map(move |transaction| (group, transaction))
    })
}

fn steps_with_location(run: &Outcome) -> impl Iterator<Item = (String, &StepOutcome)> {
    transactions_with_group(run).flat_map(|(group, transaction)| {
        let location = format!("{} of {}", transaction.name, group.name);
        transaction
            .steps
            .iter()
            .map(move |step| (location.clone(), step))
    })
}

fn steps(run: &Outcome) -> String {
    let row = |(location, step): (String, &StepOutcome)| {
        let executions = step.times.map(|times| times.executions.to_string());
        let row = vec![
            Cell::Text(step.name.clone()),
            Cell::Text(location),
            Cell::number_or_unknown(executions),
        ];
        row.into_iter()
            .chain(time_cells(step.times.as_ref()))
            .collect()
    };
    let header = [
        "step",
        "of",
        "executions",
        "mean",
        "CPU",
        "longest",
        "shortest",
    ];
    let timed = steps_with_location(run).filter(|(_, step)| step.times.is_some());
    subsection("Steps", &header, timed.map(row).collect())
}

/// Returns the cells of execution times.
fn time_cells(times: Option<&ExecutionTimes>) -> [Cell; 4] {
    let mean =
        |time: Duration, count: u64| format_nanoseconds(time.as_nanos() as f64 / count as f64);
    let times = times.filter(|times| times.executions > 0);
    [
        Cell::number_or_unknown(times.map(|times| mean(times.total, times.executions))),
        Cell::number_or_unknown(times.and_then(|times| Some(mean(times.cpu?, times.executions)))),
        Cell::number_or_unknown(times.map(|times| format_duration(times.longest))),
        Cell::number_or_unknown(times.map(|times| format_duration(times.shortest))),
    ]
}

/// Returns the table of CPU event counters (perf_event_open(2)) of each step.
fn event_counters(run: &Outcome) -> String {
    let rows_of_step = |(location, step): (String, &StepOutcome)| {
        let executions = step.times.map_or(0, |times| times.executions);
        let row = |(counter, value): &(String, Option<u64>)| {
            let per_execution = value.filter(|_| executions > 0);
            let per_execution =
                per_execution.map(|value| format!("{:.2}", value as f64 / executions as f64));
            vec![
                Cell::Text(step.name.clone()),
                Cell::Text(location.clone()),
                Cell::Text(counter.clone()),
                Cell::number_or_unknown(value.map(|value| value.to_string())),
                Cell::number_or_unknown(per_execution),
            ]
        };
        step.counters.iter().map(row).collect::<Vec<_>>()
    };
    let header = ["step", "of", "counter", "total", "per execution"];
    subsection(
        "Counters",
        &header,
        steps_with_location(run).flat_map(rows_of_step).collect(),
    )
}

fn peers(run: &Outcome) -> String {
    let row = |peer: &PeerOutcome| {
        let total_cell = |format_total: &dyn Fn(&CombinedTotals) -> String| {
            Cell::number_or_unknown(peer.totals.as_ref().map(format_total))
        };
        let group = peer.group.and_then(|group| run.groups.get(group));
        vec![
            Cell::Text(peer.host.clone()),
            Cell::Text(group.map_or_else(String::new, |group| group.name.clone())),
            total_cell(&|totals| format_duration(totals.elapsed)),
            total_cell(&|totals| format_amount(totals.bytes.0 as f64, "B")),
            total_cell(&|totals| format_amount(totals.bits_per_second(), "bit/s")),
            total_cell(&|totals| totals.operations.to_string()),
            total_cell(&|totals| totals.failed_operations.to_string()),
        ]
    };
    let header = [
        "peer",
        "group",
        "time",
        "data",
        "throughput",
        "steps",
        "failed",
    ];
    subsection("Peers", &header, run.peers.iter().map(row).collect())
}
