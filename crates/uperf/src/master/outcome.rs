//! Combines the results of all strands into the outcome of a run, which all reports use.

use std::time::{Duration, Instant, SystemTime};

use engine::script::PassTimes;
use model::{
    CombinedTotals, Counts, EndCause, ExecutionTimes, GroupOutcome, HostFacts, Interfaces,
    LogEntry, Outcome, PeerOutcome, Plan, Series, Side, StepOutcome, Totals, Warning,
};
use stats::Histogram;

use super::LINERATE;
use crate::options::{CpuCounter, MasterSettings};
use crate::strand::{Log, StrandOutcome, StrandTransactionOutcome, has_datagrams};
use crate::{Flowop, FlowopKind, GroupSpec, TransactionSpec, Workorder, transaction_name};

/// The results of a finished run.
pub(super) struct FinishedRun<'a> {
    pub(super) master: &'a MasterSettings,
    pub(super) workorder: &'a Workorder,
    pub(super) plan: Plan,
    pub(super) strands: &'a [StrandOutcome],
    /// End of the handshake.
    pub(super) handshake_end: (Instant, SystemTime),
    pub(super) elapsed: Duration,
    pub(super) host: Option<HostFacts>,
    pub(super) interfaces: Option<Interfaces>,
    /// The requested counters that the system permits.
    pub(super) counters: &'a [CpuCounter],
    pub(super) peers: Vec<PeerOutcome>,
    pub(super) series: Vec<Series>,
    pub(super) log: &'a Log,
    pub(super) failures: u64,
    pub(super) is_interrupted: bool,
    pub(super) warnings: Vec<Warning>,
}

impl FinishedRun<'_> {
    pub(super) fn outcome(self) -> Outcome {
        let strands: Vec<&StrandOutcome> = self.strands.iter().collect();
        let transactions = strands.iter().flat_map(|strand| &strand.transactions);
        let local = Side {
            counts: sum_counts(transactions),
            elapsed: Some(self.elapsed),
            host: self.host.clone(),
            interfaces: self.interfaces.clone(),
            ..Side::default()
        };
        let groups = self.workorder.groups.iter().enumerate();
        let groups = groups.map(|(number, group)| self.group_outcome(number, group));
        let ended = self.end_cause();
        Outcome {
            groups: groups.collect(),
            active: Some(active_totals(&strands)),
            failures: self.failures,
            log: self.log.entries().to_vec(),
            peers: self.peers,
            series: self.series,
            warnings: self.warnings,
            ..Outcome::for_flow(self.plan, self.handshake_end.1, local, None, ended)
        }
    }

    fn end_cause(&self) -> EndCause {
        if self.is_interrupted {
            return EndCause::Cancelled;
        }
        if self.failures > 0 {
            let first_error = self.log.entries().iter().find(|entry| !entry.is_warning);
            return EndCause::Failed(match first_error {
                Some(LogEntry { text, reason, .. }) => {
                    let message = format!("first error: {} {reason}", text.trim_end());
                    message.trim_end().to_owned()
                }
                None => format!("{} strands or slaves failed", self.failures),
            });
        }
        let transactions = self
            .workorder
            .groups
            .iter()
            .flat_map(|group| &group.transactions);
        let is_timed = transactions.clone().any(|txn| txn.duration.is_some());
        if is_timed {
            EndCause::Deadline
        } else {
            EndCause::Count
        }
    }

    fn group_outcome(&self, number: usize, group: &GroupSpec) -> GroupOutcome {
        let strands = self.strands.iter().filter(|strand| strand.group == number);
        let strands: Vec<&StrandOutcome> = strands.collect();
        let transactions = group.transactions.iter().enumerate();
        let mut transactions: Vec<_> = transactions
            .map(|(index, transaction)| {
                let results = transaction_results(&strands, index);
                let outcome = self.transaction_outcome(index, transaction, &results);
                model::TransactionOutcome {
                    has_datagrams: has_datagrams(group),
                    ..outcome
                }
            })
            .collect();
        let reported = self.reported_totals(number);
        set_arrivals(group, &mut transactions, reported, self.last_end());
        GroupOutcome {
            name: group.name.clone(),
            totals: totals(strands.iter().flat_map(|strand| &strand.transactions)),
            active: active_totals(&strands),
            workers: (strands.iter())
                .map(|strand| totals(&strand.transactions))
                .collect(),
            transactions,
        }
    }

    /// Returns the time from the end of the handshake to the end of the last strand of all groups.
    fn last_end(&self) -> Duration {
        let results = self.strands.iter().flat_map(|strand| &strand.transactions);
        let ends = results.map(|result| result.began + result.elapsed);
        ends.max().map_or(Duration::ZERO, |end| {
            end.saturating_duration_since(self.handshake_end.0)
        })
    }

    fn transaction_outcome(
        &self,
        number: usize,
        transaction: &TransactionSpec,
        results: &[&StrandTransactionOutcome],
    ) -> model::TransactionOutcome {
        let ends = results.iter().map(|result| result.began + result.elapsed);
        let end = ends.max();
        let (first, last) = match (start_times(results).min(), start_times(results).max()) {
            (Some(first), Some(last)) => (first, last),
            _ => (self.handshake_end.0, self.handshake_end.0),
        };
        let mut times = PassTimes::default();
        let mut latency = Histogram::default();
        for result in results {
            times.merge(&result.times.rounds);
            if let Some(histogram) = &result.times.histogram {
                latency.merge(histogram);
            }
        }
        let steps = transaction.flowops.iter().enumerate();
        model::TransactionOutcome {
            name: transaction_name(number),
            totals: Totals {
                counts: sum_counts(results.iter().copied()),
                elapsed: end.map_or(Duration::ZERO, |end| end - first),
            },
            started_after: first.saturating_duration_since(self.handshake_end.0),
            workers: results.len() as u64,
            start_spread: last - first,
            rounds: results
                .iter()
                .map(|result| count_rounds(transaction, result))
                .sum(),
            is_exchange: transaction.has_flowop(FlowopKind::opens)
                || (transaction.has_flowop(FlowopKind::sends)
                    && transaction.has_flowop(FlowopKind::receives)),
            is_timed: transaction.duration.is_some(),
            has_datagrams: false,
            arrived: None,
            arrival_delay: Duration::ZERO,
            times: self.execution_times(&times),
            latency: (!latency.is_empty()).then_some(latency),
            steps: (steps.map(|(index, flowop)| self.step_outcome(index, flowop, results)))
                .collect(),
        }
    }

    fn step_outcome(
        &self,
        step: usize,
        flowop: &Flowop,
        results: &[&StrandTransactionOutcome],
    ) -> StepOutcome {
        let mut times = PassTimes::default();
        for result in results {
            if let Some(step_times) = result.times.steps.get(step) {
                times.merge(step_times);
            }
        }
        StepOutcome {
            name: flowop.kind.name().to_owned(),
            times: self.execution_times(&times),
            counters: self.counter_sums(step, results),
        }
    }

    /// Returns the execution times of a flowop or transaction; `None` if there were no executions.
    fn execution_times(&self, pass: &PassTimes) -> Option<ExecutionTimes> {
        let time = Duration::from_nanos;
        (pass.executions > 0).then(|| ExecutionTimes {
            executions: pass.executions,
            total: time(pass.total_ns),
            cpu: self.master.flowop_cpu.then(|| time(pass.cpu_ns)),
            longest: time(pass.longest_ns),
            shortest: time(pass.shortest_ns),
        })
    }

    /// Returns the event counters of the flowop with this index, summed over all strands.
    fn counter_sums(
        &self,
        step: usize,
        results: &[&StrandTransactionOutcome],
    ) -> Vec<(String, Option<u64>)> {
        let events = results
            .iter()
            .map(|result| result.times.events.as_ref()?.get(step));
        // The sum is unavailable if the counters of one strand are.
        let events: Option<Vec<_>> = events.collect();
        let sum = |counter: &CpuCounter| {
            let index = self
                .counters
                .iter()
                .position(|counted| counted == counter)?;
            Some(events.as_ref()?.iter().map(|events| events[index]).sum())
        };
        let requested = self.master.counters.iter();
        requested
            .map(|counter| (counter.name().to_owned(), sum(counter)))
            .collect()
    }

    /// Returns the sum of what the group's slaves reported. Unavailable unless all slaves are
    /// linerates and reported; only their counts are exact.
    fn reported_totals(&self, group: usize) -> Option<CombinedTotals> {
        let peers = self.peers.iter().filter(|peer| peer.group == Some(group));
        let reported = peers.map(|peer| peer.totals.filter(|_| peer.program == Some(LINERATE)));
        let reported: Option<Vec<_>> = reported.collect();
        reported.map(CombinedTotals::sum)
    }
}

/// Returns the sum over all transactions. The time of each is from the start of its first strand to
/// the end of its last one.
fn active_totals(strands: &[&StrandOutcome]) -> Totals {
    let stages = strands.iter().map(|strand| strand.transactions.len()).max();
    let mut sum = Totals::default();
    for number in 0..stages.unwrap_or(0) {
        let results = transaction_results(strands, number);
        let totals = sum_over_span(results, StrandTransactionOutcome::clipped_to_duration);
        sum.counts += totals.counts;
        sum.elapsed += totals.elapsed;
    }
    sum
}

/// Returns the sum of the results, including work after the time of their transactions, as in the
/// totals of the run.
fn totals<'p>(results: impl IntoIterator<Item = &'p StrandTransactionOutcome>) -> Totals {
    sum_over_span(results, |result| (result.elapsed, result.counts))
}

/// Returns the sum of the counts of each result. The elapsed time is from the first start to the
/// last end.
fn sum_over_span<'p>(
    results: impl IntoIterator<Item = &'p StrandTransactionOutcome>,
    elapsed_and_counts: impl Fn(&StrandTransactionOutcome) -> (Duration, Counts),
) -> Totals {
    let mut sum = Counts::default();
    let (mut first, mut last) = (None, None);
    for result in results {
        let (elapsed, counts) = elapsed_and_counts(result);
        sum += counts;
        first = Some(first.map_or(result.began, |first: Instant| first.min(result.began)));
        last = last.max(Some(result.began + elapsed));
    }
    let span = first.zip(last).map(|(first, last)| last - first);
    Totals {
        counts: sum,
        elapsed: span.unwrap_or_default(),
    }
}

/// Returns the results of all strands for the transaction of this number.
fn transaction_results<'s>(
    strands: &[&'s StrandOutcome],
    number: usize,
) -> Vec<&'s StrandTransactionOutcome> {
    let strands = strands.iter();
    strands
        .filter_map(|strand| strand.transactions.get(number))
        .collect()
}

fn start_times(results: &[&StrandTransactionOutcome]) -> impl Iterator<Item = Instant> {
    results.iter().map(|result| result.began)
}

fn sum_counts<'p>(results: impl IntoIterator<Item = &'p StrandTransactionOutcome>) -> Counts {
    let mut sum = Counts::default();
    for result in results {
        sum += result.counts;
    }
    sum
}

/// Returns the number of complete passes of a strand through the flowop list.
fn count_rounds(transaction: &TransactionSpec, result: &StrandTransactionOutcome) -> u64 {
    let operations = transaction.flowops.iter().map(|flowop| flowop.count).sum();
    result
        .counts
        .operations
        .checked_div(operations)
        .unwrap_or(0)
}

/// Sets the received bytes of one-way transactions. A slave reports one total for all transactions.
/// If it only receives, that is sufficient in two cases: only one transaction sends, or no data is
/// missing. A slave that ran longer than the master's strands, until `last_end`, delays the arrival.
/// This time includes the slave's own end, so it counts only for transactions with a duration.
fn set_arrivals(
    group: &GroupSpec,
    outcomes: &mut [model::TransactionOutcome],
    reported: Option<CombinedTotals>,
    last_end: Duration,
) {
    let transactions = || group.transactions.iter();
    let reported =
        reported.filter(|_| !transactions().any(|txn| txn.has_flowop(FlowopKind::receives)));
    let slave_end = reported.map_or(last_end, |slaves| slaves.elapsed);
    let delay = slave_end.saturating_sub(last_end);
    let reported = reported.map(|slaves| slaves.bytes);
    let is_only_sender = transactions()
        .filter(|txn| txn.has_flowop(FlowopKind::sends))
        .count()
        == 1;
    let sent_bytes = |outcome: &model::TransactionOutcome| outcome.totals.counts.sent.0;
    let sent: u64 = outcomes.iter().map(sent_bytes).sum();
    let last_sender = transactions().rposition(|txn| txn.has_flowop(FlowopKind::sends));
    for (index, (outcome, txn)) in outcomes.iter_mut().zip(transactions()).enumerate() {
        let counts = &outcome.totals.counts;
        let (sends, receives) = (
            txn.has_flowop(FlowopKind::sends),
            txn.has_flowop(FlowopKind::receives),
        );
        if Some(index) == last_sender && outcome.is_timed {
            outcome.arrival_delay = delay;
        }
        outcome.arrived = match (sends, receives) {
            (true, true) => None,
            (false, _) => Some(counts.received),
            (true, false) if is_only_sender => reported,
            (true, false) => reported
                .filter(|bytes| bytes.0 == sent)
                .map(|_| counts.sent),
        };
    }
}

#[cfg(test)]
mod tests {
    use units::Bytes;

    use super::*;

    fn transaction(kinds: &[FlowopKind]) -> TransactionSpec {
        TransactionSpec {
            flowops: kinds.iter().map(|kind| Flowop::new(*kind)).collect(),
            ..TransactionSpec::default()
        }
    }

    #[test]
    fn arrived_bytes_are_known_if_unambiguous() {
        let connect = || transaction(&[FlowopKind::Connect]);
        let stream = || transaction(&[FlowopKind::Write]);
        let receiving = || transaction(&[FlowopKind::Read]);
        let exchange = || transaction(&[FlowopKind::Write, FlowopKind::Read]);
        // Each sending transaction sends 4 bytes, and each receiving one receives 5.
        for (transactions, reported, expected) in [
            (vec![connect(), stream()], Some(3), [Some(0), Some(3)]),
            (vec![connect(), stream()], None, [Some(0), None]),
            (vec![stream(), stream()], Some(8), [Some(4), Some(4)]),
            (vec![stream(), stream()], Some(7), [None, None]),
            (vec![stream(), receiving()], Some(4), [None, Some(5)]),
            (vec![exchange(), stream()], Some(8), [None, None]),
        ] {
            let outcome = |txn: &TransactionSpec| {
                let counts = Counts {
                    sent: Bytes(if txn.has_flowop(FlowopKind::sends) {
                        4
                    } else {
                        0
                    }),
                    received: Bytes(if txn.has_flowop(FlowopKind::receives) {
                        5
                    } else {
                        0
                    }),
                    ..Counts::default()
                };
                model::TransactionOutcome {
                    totals: Totals {
                        counts,
                        elapsed: Duration::ZERO,
                    },
                    is_timed: true,
                    ..model::TransactionOutcome::default()
                }
            };
            let mut outcomes: Vec<_> = transactions.iter().map(outcome).collect();
            let group = GroupSpec {
                transactions,
                ..GroupSpec::default()
            };
            let reported = reported.map(|bytes| CombinedTotals {
                bytes: Bytes(bytes),
                elapsed: Duration::from_secs(5),
                ..CombinedTotals::default()
            });
            set_arrivals(&group, &mut outcomes, reported, Duration::from_secs(2));
            let found: Vec<_> = outcomes
                .iter()
                .map(|outcome| outcome.arrived.map(|bytes| bytes.0))
                .collect();
            assert_eq!(found, expected, "{reported:?}");
            // The slave ran for 5 s, and all groups of the master for 2 s.
            for outcome in outcomes
                .iter()
                .filter(|outcome| outcome.arrived == Some(Bytes(3)))
            {
                assert_eq!(outcome.arrival_delay, Duration::from_secs(3));
            }
        }
    }
}
