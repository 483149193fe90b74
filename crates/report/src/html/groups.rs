//! What a run of several groups has: their workers, transactions and steps, and the peers.

use std::time::Duration;

use model::{
    CombinedTotals, GroupOutcome, Outcome, PeerOutcome, StepOutcome, Times, TransactionOutcome,
};

use super::table::{Cell, table};
use super::test::{part_if, shown};
use super::text::{amount, duration, nanoseconds};

/// All of it.
pub(super) fn sections(run: &Outcome) -> String {
    [
        groups(run),
        transactions(run),
        steps(run),
        counters(run),
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
    part_if("Groups", &header, by_rate(rows.collect()))
}

fn workers(run: &Outcome) -> String {
    let of_group = |group: &GroupOutcome| {
        let workers = group.workers.iter().enumerate();
        let name = group.name.clone();
        let named =
            workers.map(move |(number, totals)| (format!("{name}, {number}"), totals.combined()));
        named.collect::<Vec<_>>()
    };
    let rows: Vec<_> = run.groups.iter().flat_map(of_group).collect();
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
        table(&header, by_rate(rows))
    )
}

fn by_rate(rows: Vec<(String, CombinedTotals)>) -> Vec<Vec<Cell>> {
    let rate = CombinedTotals::bits_per_second;
    let most = rows
        .iter()
        .map(|(_, totals)| rate(totals))
        .fold(0.0, f64::max);
    let row = |(name, totals): (String, CombinedTotals)| {
        vec![
            Cell::Text(name),
            Cell::Number(duration(totals.elapsed)),
            Cell::Number(amount(totals.bytes.0 as f64, "B")),
            Cell::Number(amount(totals.bits_per_second(), "bit/s")),
            Cell::bar(rate(&totals), most),
            Cell::Number(shown(totals.operations_per_second(), "op/s")),
            Cell::Number(totals.failed_operations.to_string()),
        ]
    };
    rows.into_iter().map(row).collect()
}

fn transactions(run: &Outcome) -> String {
    let row = |(group, transaction): (&GroupOutcome, &TransactionOutcome)| {
        let rates = crate::figures::TransactionFigures::of(transaction);
        let row = vec![
            Cell::Text(transaction.name.clone()),
            Cell::Text(group.name.clone()),
            Cell::Number(duration(transaction.totals.elapsed)),
            Cell::Number(duration(transaction.start_spread)),
            Cell::Number(transaction.rounds.to_string()),
            Cell::known(rates.transactions_per_s.map(|rate| shown(rate, "tran/s"))),
            Cell::known(rates.throughput_bps.map(|rate| amount(rate.0, "bit/s"))),
        ];
        row.into_iter()
            .chain(times(transaction.times.as_ref()))
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
    part_if(
        "Transactions",
        &header,
        each_transaction(run).map(row).collect(),
    )
}

fn each_transaction(run: &Outcome) -> impl Iterator<Item = (&GroupOutcome, &TransactionOutcome)> {
    run.groups.iter().flat_map(|group| {
        let transactions = group.transactions.iter();
        transactions.map(move |transaction| (group, transaction))
    })
}

fn each_step(run: &Outcome) -> impl Iterator<Item = (String, &StepOutcome)> {
    each_transaction(run).flat_map(|(group, transaction)| {
        let place = format!("{} of {}", transaction.name, group.name);
        transaction
            .steps
            .iter()
            .map(move |step| (place.clone(), step))
    })
}

fn steps(run: &Outcome) -> String {
    let row = |(place, step): (String, &StepOutcome)| {
        let executions = step.times.map(|times| times.executions.to_string());
        let row = vec![
            Cell::Text(step.name.clone()),
            Cell::Text(place),
            Cell::known(executions),
        ];
        row.into_iter().chain(times(step.times.as_ref())).collect()
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
    let timed = each_step(run).filter(|(_, step)| step.times.is_some());
    part_if("Steps", &header, timed.map(row).collect())
}

/// Means of single executions, and the extremes of passes.
fn times(times: Option<&Times>) -> [Cell; 4] {
    let mean = |time: Duration, count: u64| nanoseconds(time.as_nanos() as f64 / count as f64);
    let times = times.filter(|times| times.executions > 0);
    [
        Cell::known(times.map(|times| mean(times.total, times.executions))),
        Cell::known(times.and_then(|times| Some(mean(times.cpu?, times.executions)))),
        Cell::known(times.map(|times| duration(times.longest))),
        Cell::known(times.map(|times| duration(times.shortest))),
    ]
}

/// What was counted in each step.
fn counters(run: &Outcome) -> String {
    let of_step = |(place, step): (String, &StepOutcome)| {
        let executions = step.times.map_or(0, |times| times.executions);
        let row = |(counter, value): &(String, Option<u64>)| {
            let each = value.filter(|_| executions > 0);
            let each = each.map(|value| format!("{:.2}", value as f64 / executions as f64));
            vec![
                Cell::Text(step.name.clone()),
                Cell::Text(place.clone()),
                Cell::Text(counter.clone()),
                Cell::known(value.map(|value| value.to_string())),
                Cell::known(each),
            ]
        };
        step.counters.iter().map(row).collect::<Vec<_>>()
    };
    let header = ["step", "of", "counter", "in all", "per execution"];
    part_if(
        "Counters",
        &header,
        each_step(run).flat_map(of_step).collect(),
    )
}

fn peers(run: &Outcome) -> String {
    let row = |peer: &PeerOutcome| {
        let figure = |shown: &dyn Fn(&CombinedTotals) -> String| {
            Cell::known(peer.totals.as_ref().map(shown))
        };
        let group = peer.group.and_then(|group| run.groups.get(group));
        vec![
            Cell::Text(peer.host.clone()),
            Cell::Text(group.map_or_else(String::new, |group| group.name.clone())),
            figure(&|totals| duration(totals.elapsed)),
            figure(&|totals| amount(totals.bytes.0 as f64, "B")),
            figure(&|totals| amount(totals.bits_per_second(), "bit/s")),
            figure(&|totals| totals.operations.to_string()),
            figure(&|totals| totals.failed_operations.to_string()),
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
    part_if("Peers", &header, run.peers.iter().map(row).collect())
}
