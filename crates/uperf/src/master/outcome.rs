//! What the strands did → the Outcome, which everything that is shown reads.

use std::time::{Duration, Instant, SystemTime};

use engine::script::Pass;
use model::{
    Counts, Ended, GroupOutcome, HostFacts, Interfaces, Outcome, PeerOutcome, Plan, Series, Side,
    StepOutcome, Times, Totals, Warning,
};
use stats::Histogram;
use units::Bytes;

use super::LINERATE;
use crate::options::{Counter, Master};
use crate::strand::{Log, StrandOutcome, TransactionOutcome, has_datagrams};
use crate::{Flowop, Group, Kind, Transaction, Workorder, transaction_name};

/// A run that is over.
pub(super) struct Run<'a> {
    pub(super) master: &'a Master,
    pub(super) workorder: &'a Workorder,
    pub(super) plan: Plan,
    pub(super) strands: &'a [StrandOutcome],
    /// The end of the handshake.
    pub(super) agreed: (Instant, SystemTime),
    pub(super) elapsed: Duration,
    pub(super) host: Option<HostFacts>,
    pub(super) interfaces: Interfaces,
    /// Those of the counters that were asked for that the system allows.
    pub(super) counted: &'a [Counter],
    pub(super) peers: Vec<PeerOutcome>,
    pub(super) series: Vec<Series>,
    pub(super) log: &'a Log,
    pub(super) failures: u64,
    pub(super) is_interrupted: bool,
    pub(super) warnings: Vec<Warning>,
}

impl Run<'_> {
    pub(super) fn outcome(self) -> Outcome {
        let everyone: Vec<&StrandOutcome> = self.strands.iter().collect();
        let everything = everyone.iter().flat_map(|strand| &strand.transactions);
        let here = Side {
            counts: sum(everything),
            elapsed: Some(self.elapsed),
            host: self.host.clone(),
            interfaces: Some(self.interfaces.clone()),
            ..Side::default()
        };
        let groups = self.workorder.groups.iter().enumerate();
        let groups = groups.map(|(number, group)| self.group(number, group));
        let ended = self.ended();
        Outcome {
            groups: groups.collect(),
            active: Some(active(&everyone)),
            failures: self.failures,
            log: self.log.entries().to_vec(),
            peers: self.peers,
            series: self.series,
            warnings: self.warnings,
            ..Outcome::of_flow(self.plan, self.agreed.1, here, None, ended)
        }
    }

    fn ended(&self) -> Ended {
        if self.is_interrupted {
            return Ended::Cancelled;
        }
        if self.failures > 0 {
            return Ended::Failed(format!("{} strands or slaves failed", self.failures));
        }
        let transactions = self
            .workorder
            .groups
            .iter()
            .flat_map(|group| &group.transactions);
        let is_timed = transactions.clone().any(|txn| txn.duration.is_some());
        if is_timed {
            Ended::Deadline
        } else {
            Ended::Count
        }
    }

    fn group(&self, number: usize, group: &Group) -> GroupOutcome {
        let strands = self.strands.iter().filter(|strand| strand.group == number);
        let strands: Vec<&StrandOutcome> = strands.collect();
        let transactions = group.transactions.iter().enumerate();
        let mut transactions: Vec<_> = transactions
            .map(|(at, transaction)| {
                let parts = parts(&strands, at);
                let outcome = self.transaction(at, transaction, &parts);
                model::TransactionOutcome {
                    has_datagrams: has_datagrams(group),
                    ..outcome
                }
            })
            .collect();
        arrived(group, &mut transactions, self.reported_bytes(number));
        GroupOutcome {
            name: group.name.clone(),
            totals: in_time(strands.iter().flat_map(|strand| &strand.transactions)),
            active: active(&strands),
            workers: (strands.iter())
                .map(|strand| in_time(&strand.transactions))
                .collect(),
            transactions,
        }
    }

    fn transaction(
        &self,
        number: usize,
        transaction: &Transaction,
        parts: &[&TransactionOutcome],
    ) -> model::TransactionOutcome {
        let ended = parts.iter().map(|part| part.began + part.elapsed).max();
        let (first, last) = match (began(parts).min(), began(parts).max()) {
            (Some(first), Some(last)) => (first, last),
            _ => (self.agreed.0, self.agreed.0),
        };
        let mut times = Pass::default();
        let mut latency = Histogram::default();
        for part in parts {
            times.merge(&part.times.rounds);
            if let Some(histogram) = &part.times.histogram {
                latency.merge(histogram);
            }
        }
        let steps = transaction.flowops.iter().enumerate();
        model::TransactionOutcome {
            name: transaction_name(number),
            totals: Totals {
                counts: sum(parts.iter().copied()),
                elapsed: ended.map_or(Duration::ZERO, |ended| ended - first),
            },
            begun: first.saturating_duration_since(self.agreed.0),
            workers: parts.len() as u64,
            start_spread: last - first,
            rounds: parts.iter().map(|part| rounds(transaction, part)).sum(),
            is_exchange: transaction.has(Kind::opens)
                || (transaction.has(Kind::sends) && transaction.has(Kind::receives)),
            is_timed: transaction.duration.is_some(),
            has_datagrams: false,
            arrived: None,
            times: self.times(&times),
            latency: (!latency.is_empty()).then_some(latency),
            steps: (steps.map(|(at, flowop)| self.step(at, flowop, parts))).collect(),
        }
    }

    fn step(&self, at: usize, flowop: &Flowop, parts: &[&TransactionOutcome]) -> StepOutcome {
        let mut times = Pass::default();
        for part in parts {
            if let Some(other) = part.times.steps.get(at) {
                times.merge(other);
            }
        }
        StepOutcome {
            name: flowop.kind.name().to_owned(),
            times: self.times(&times),
            counters: self.counters(at, parts),
        }
    }

    /// Without executions no times were kept.
    fn times(&self, pass: &Pass) -> Option<Times> {
        let time = Duration::from_nanos;
        (pass.executions > 0).then(|| Times {
            executions: pass.executions,
            total: time(pass.total_ns),
            cpu: self.master.flowop_cpu.then(|| time(pass.cpu_ns)),
            longest: time(pass.longest_ns),
            shortest: time(pass.shortest_ns),
        })
    }

    /// What was counted in the flowop at this place, by all strands together.
    fn counters(&self, at: usize, parts: &[&TransactionOutcome]) -> Vec<(String, Option<u64>)> {
        let events = parts.iter().map(|part| part.times.events.as_ref()?.get(at));
        // A sum without one of its parts is none.
        let events: Option<Vec<_>> = events.collect();
        let sum = |counter: &Counter| {
            let place = self.counted.iter().position(|counted| counted == counter)?;
            Some(events.as_ref()?.iter().map(|events| events[place]).sum())
        };
        let asked = self.master.counters.iter();
        asked
            .map(|counter| (counter.name().to_owned(), sum(counter)))
            .collect()
    }

    /// What the group's slaves moved, if all of them are linerates, whose counts are exact, and reported it.
    fn reported_bytes(&self, group: usize) -> Option<Bytes> {
        let peers = self.peers.iter().filter(|peer| peer.group == Some(group));
        let reported = peers.map(|peer| {
            let bytes = peer.totals?.bytes.0;
            (peer.program == Some(LINERATE)).then_some(bytes)
        });
        reported.sum::<Option<u64>>().map(Bytes)
    }
}

/// The time in which transactions ran: of each from its first strand's beginning to its last one's end.
fn active(strands: &[&StrandOutcome]) -> Totals {
    let stages = strands.iter().map(|strand| strand.transactions.len()).max();
    let mut all = Totals::default();
    for number in 0..stages.unwrap_or(0) {
        let one = in_time(parts(strands, number));
        all.counts += one.counts;
        all.elapsed += one.elapsed;
    }
    all
}

/// What parts came to within their transactions' time: the sum, and from the first beginning to the last end.
fn in_time<'p>(parts: impl IntoIterator<Item = &'p TransactionOutcome>) -> Totals {
    let mut counts = Counts::default();
    let (mut first, mut last) = (None, None);
    for part in parts {
        let (elapsed, in_time) = part.in_time();
        counts += in_time;
        first = Some(first.map_or(part.began, |first: Instant| first.min(part.began)));
        last = last.max(Some(part.began + elapsed));
    }
    let span = first.zip(last).map(|(first, last)| last - first);
    Totals {
        counts,
        elapsed: span.unwrap_or_default(),
    }
}

/// Every strand's part of the transaction of this number.
fn parts<'s>(strands: &[&'s StrandOutcome], number: usize) -> Vec<&'s TransactionOutcome> {
    let parts = strands.iter();
    parts
        .filter_map(|strand| strand.transactions.get(number))
        .collect()
}

fn began(parts: &[&TransactionOutcome]) -> impl Iterator<Item = Instant> {
    parts.iter().map(|part| part.began)
}

fn sum<'p>(parts: impl IntoIterator<Item = &'p TransactionOutcome>) -> Counts {
    let mut sum = Counts::default();
    for part in parts {
        sum += part.counts;
    }
    sum
}

/// How often a strand came to the end of the list: what is left over is the beginning of one more.
fn rounds(transaction: &Transaction, part: &TransactionOutcome) -> u64 {
    let operations = transaction.flowops.iter().map(|flowop| flowop.count).sum();
    part.counts.operations.checked_div(operations).unwrap_or(0)
}

/// Finds out what arrived in transactions of one direction. A slave tells of all of them together: where
/// it only receives, that is enough if one transaction alone moves something, or nothing is missing.
fn arrived(group: &Group, outcomes: &mut [model::TransactionOutcome], told: Option<Bytes>) {
    let transactions = || group.transactions.iter();
    let told = told.filter(|_| !transactions().any(|txn| txn.has(Kind::receives)));
    let is_alone = transactions().filter(|txn| txn.has(Kind::sends)).count() == 1;
    let sent: u64 = outcomes.iter().map(|one| one.totals.counts.sent.0).sum();
    for (outcome, txn) in outcomes.iter_mut().zip(transactions()) {
        let counts = &outcome.totals.counts;
        outcome.arrived = match (txn.has(Kind::sends), txn.has(Kind::receives)) {
            (true, true) => None,
            (false, _) => Some(counts.received),
            (true, false) if is_alone => told,
            (true, false) => told.filter(|told| told.0 == sent).map(|_| counts.sent),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let outcome = |txn: &Transaction| {
                let counts = Counts {
                    sent: Bytes(if txn.has(Kind::sends) { 4 } else { 0 }),
                    received: Bytes(if txn.has(Kind::receives) { 5 } else { 0 }),
                    ..Counts::default()
                };
                model::TransactionOutcome {
                    totals: Totals {
                        counts,
                        elapsed: Duration::ZERO,
                    },
                    ..model::TransactionOutcome::default()
                }
            };
            let mut outcomes: Vec<_> = transactions.iter().map(outcome).collect();
            let group = Group {
                transactions,
                ..Group::default()
            };
            arrived(&group, &mut outcomes, told.map(Bytes));
            let found: Vec<_> = outcomes
                .iter()
                .map(|outcome| outcome.arrived.map(|bytes| bytes.0))
                .collect();
            assert_eq!(found, expected, "{told:?}");
        }
    }
}
