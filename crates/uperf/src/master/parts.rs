//! What each transaction of each group came to, for whoever wants more than the text has.

use std::time::Instant;

use super::report::{Figures, span, sum};
use crate::output::Part;
use crate::strand::TransactionOutcome;
use crate::{Flowop, Group, Transaction};

impl Figures<'_> {
    /// Each transaction of each group. `is_ours` says of a group whether all of its slaves are linerates,
    /// whose counts are exact.
    pub(super) fn parts(&self, is_ours: impl Fn(usize) -> bool) -> Vec<Part> {
        let mut all = Vec::new();
        for (number, group) in self.workorder.groups.iter().enumerate() {
            let told = is_ours(number).then(|| self.told_bytes(number)).flatten();
            let first = all.len();
            for (at, transaction) in group.transactions.iter().enumerate() {
                let strands = self.strands.iter().filter(|strand| strand.group == number);
                let parts: Vec<&TransactionOutcome> = strands
                    .filter_map(|strand| strand.transactions.get(at))
                    .collect();
                let mut part = part(transaction, &parts);
                (part.group, part.transaction) = (number, at);
                all.push(part);
            }
            arrived(group, &mut all[first..], told);
        }
        all
    }

    /// What the group's slaves moved, if all of them told.
    fn told_bytes(&self, group: usize) -> Option<u64> {
        let slaves = self.told.iter().filter(|slave| slave.group == group);
        slaves.map(|slave| Some(slave.totals?.bytes)).sum()
    }
}

fn part(transaction: &Transaction, parts: &[&TransactionOutcome]) -> Part {
    let counts = sum(parts.iter().copied());
    let began = || parts.iter().map(|part| part.began);
    let spread = |(first, last): (Instant, Instant)| last - first;
    let mut times = stats::Histogram::default();
    for histogram in parts
        .iter()
        .filter_map(|part| part.times.histogram.as_ref())
    {
        times.merge(histogram);
    }
    Part {
        group: 0,
        transaction: 0,
        elapsed: span(parts.iter().copied()),
        start_spread: began()
            .min()
            .zip(began().max())
            .map(spread)
            .unwrap_or_default(),
        sent: counts.sent.0,
        received: counts.received.0,
        arrived: None,
        executions: parts.iter().map(|part| rounds(transaction, part)).sum(),
        operations: counts.operations,
        failures: counts.failed_operations,
        is_exchange: opens(transaction) || (sends(transaction) && receives(transaction)),
        latency: times.summary(),
    }
}

/// How often a strand came to the end of the list: what is left over is the beginning of one more.
fn rounds(transaction: &Transaction, part: &TransactionOutcome) -> u64 {
    let operations = transaction.flowops.iter().map(|flowop| flowop.count).sum();
    part.counts.operations.checked_div(operations).unwrap_or(0)
}

/// Finds out what arrived in transactions of one direction. A slave tells of all of them together: where
/// it only receives, that is enough if one transaction alone moves something, or nothing is missing.
fn arrived(group: &Group, parts: &mut [Part], told: Option<u64>) {
    let transactions = || group.transactions.iter();
    let told = told.filter(|_| !transactions().any(receives));
    let is_alone = transactions().filter(|txn| sends(txn)).count() == 1;
    let sent: u64 = parts.iter().map(|part| part.sent).sum();
    for (part, transaction) in parts.iter_mut().zip(transactions()) {
        part.arrived = match (sends(transaction), receives(transaction)) {
            (true, true) => None,
            (false, _) => Some(part.received),
            (true, false) if is_alone => told,
            (true, false) => told.filter(|told| *told == sent).map(|_| part.sent),
        };
    }
}

fn opens(transaction: &Transaction) -> bool {
    any(transaction, |flowop| flowop.kind.opens())
}

fn sends(transaction: &Transaction) -> bool {
    any(transaction, |flowop| flowop.kind.sends())
}

fn receives(transaction: &Transaction) -> bool {
    any(transaction, |flowop| flowop.kind.receives())
}

fn any(transaction: &Transaction, is: impl Fn(&Flowop) -> bool) -> bool {
    transaction.flowops.iter().any(is)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn transaction(kinds: &[Kind]) -> Transaction {
        Transaction {
            flowops: kinds.iter().map(|kind| Flowop::new(*kind)).collect(),
            ..Transaction::default()
        }
    }

    #[test]
    fn what_arrived_is_known_where_nothing_else_moves_or_nothing_is_missing() {
        let connect = || transaction(&[Kind::Connect]);
        let stream = || transaction(&[Kind::Write]);
        let reading = || transaction(&[Kind::Read]);
        let exchange = || transaction(&[Kind::Write, Kind::Read]);
        // Each transaction that sends has sent 4, and each that receives has received 5.
        for (transactions, told, expected) in [
            (vec![connect(), stream()], Some(3), [Some(0), Some(3)]),
            (vec![connect(), stream()], None, [Some(0), None]),
            (vec![stream(), stream()], Some(8), [Some(4), Some(4)]),
            (vec![stream(), stream()], Some(7), [None, None]),
            (vec![stream(), reading()], Some(4), [None, Some(5)]),
            (vec![exchange(), stream()], Some(8), [None, None]),
        ] {
            let part = |transaction: &Transaction| Part {
                sent: if sends(transaction) { 4 } else { 0 },
                received: if receives(transaction) { 5 } else { 0 },
                ..part(transaction, &[])
            };
            let mut parts: Vec<Part> = transactions.iter().map(part).collect();
            let group = Group {
                transactions,
                ..Group::default()
            };
            arrived(&group, &mut parts, told);
            let found: Vec<_> = parts.iter().map(|part| part.arrived).collect();
            assert_eq!(found, expected, "{told:?}");
        }
    }
}
