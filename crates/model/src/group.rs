//! Results of the groups of a plan: workers, transactions and their steps.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use stats::Histogram;
use units::Bytes;

use crate::nanos::{Nanos, OptionalNanos};
use crate::{Counts, Side};

/// Counts and the time in which they accrued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// The counts.
    pub counts: Counts,
    /// Duration by the monotonic clock.
    #[serde(rename = "elapsed_ns", with = "Nanos")]
    pub elapsed: Duration,
}

/// Totals with the sum of both directions. Some peers report only this sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CombinedTotals {
    /// Payload of both directions.
    pub bytes: Bytes,
    /// Executed steps.
    pub operations: u64,
    /// Executed steps that failed.
    pub failed_operations: u64,
    /// Duration by the monotonic clock.
    #[serde(rename = "elapsed_ns", with = "Nanos")]
    pub elapsed: Duration,
}

/// Results of the workers of one group.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GroupOutcome {
    /// The group's name in the plan.
    pub name: String,
    /// Totals from the start of the first worker to the end of the last one.
    pub totals: Totals,
    /// Totals over the time in which the group's transactions ran, without the pauses between them.
    pub active: Totals,
    /// Totals of each worker, in order.
    pub workers: Vec<Totals>,
    /// Results of each transaction, in order; empty if the group's body is a loop.
    pub transactions: Vec<TransactionOutcome>,
}

/// Results of one transaction of one group, summed over its workers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TransactionOutcome {
    /// `Txn0`, `Txn1`, …
    pub name: String,
    /// Totals from the start of the first worker to the end of the last one.
    pub totals: Totals,
    /// Start of the first worker, relative to the start of the run.
    #[serde(rename = "started_after_ns", with = "Nanos")]
    pub started_after: Duration,
    /// Number of workers that started the transaction.
    pub workers: u64,
    /// Time from the start of the first worker to the start of the last one.
    #[serde(rename = "start_spread_ns", with = "Nanos")]
    pub start_spread: Duration,
    /// Completed rounds. A round executes the list of steps once.
    pub rounds: u64,
    /// Whether a round opens a connection, or moves data in both directions.
    pub is_exchange: bool,
    /// Whether the transaction ends after a time; otherwise it ends after a number of rounds.
    pub is_timed: bool,
    /// Whether the transaction moves datagrams, which may be lost.
    pub has_datagrams: bool,
    /// For a transaction of one direction, the bytes that the receiving end received, if known.
    #[serde(rename = "arrived_bytes")]
    pub arrived: Option<Bytes>,
    /// Time from the end of the sending end to that of the receiving one, in which data of this
    /// transaction may have arrived. Only the last sending transaction of a group, with a duration,
    /// has one; others have 0.
    #[serde(rename = "arrival_delay_ns", with = "Nanos")]
    pub arrival_delay: Duration,
    /// Times of rounds, if recorded.
    pub times: Option<ExecutionTimes>,
    /// Distribution of the rounds' times, if recorded.
    #[serde(skip)]
    pub latency: Option<Histogram>,
    /// Results of each step, in order.
    pub steps: Vec<StepOutcome>,
}

/// Results of one step of a transaction: uperf's flowop.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StepOutcome {
    /// The step's name in the plan.
    pub name: String,
    /// Times of its executions, if recorded.
    pub times: Option<ExecutionTimes>,
    /// Names and values of the counters during its executions; `None` for a counter that the
    /// machine lacks or forbids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<(String, Option<u64>)>,
}

/// Times of executions of a step or a transaction.
///
/// An execution of a transaction is one round. A step with `count=` N has N executions per round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExecutionTimes {
    /// Number of executions.
    pub executions: u64,
    /// Total time of all executions.
    #[serde(rename = "total_ns", with = "Nanos")]
    pub total: Duration,
    /// Total CPU time of the threads, if measured.
    #[serde(rename = "cpu_ns", with = "OptionalNanos")]
    pub cpu: Option<Duration>,
    /// Time of the longest execution.
    #[serde(rename = "longest_ns", with = "Nanos")]
    pub longest: Duration,
    /// Time of the shortest execution.
    #[serde(rename = "shortest_ns", with = "Nanos")]
    pub shortest: Duration,
}

/// One of several peers, and its report about its group.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PeerOutcome {
    /// The peer's name, as given by the user.
    pub host: String,
    /// The address of its control connection.
    pub address: Option<String>,
    /// Whether the peer runs on this machine.
    pub is_local: bool,
    /// The peer's program, if known: `linerate`, `uperf`.
    pub program: Option<&'static str>,
    /// The peer's version of the wire format; `None` if all versions of its program use the same one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// The group's index in the plan, if the peer belongs to only one group.
    pub group: Option<usize>,
    /// Totals of the peer; `None` if the peer was lost or received no request for them.
    pub totals: Option<CombinedTotals>,
    /// Further results, if the protocol supports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
    /// Text that the peer sent with its results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A message of a run, and the number of its occurrences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogEntry {
    /// Whether it is a warning; otherwise it is an error.
    pub is_warning: bool,
    /// The message.
    pub text: String,
    /// The error text of the system; empty if there is none.
    pub reason: String,
    /// Number of occurrences.
    pub count: u64,
}

impl Totals {
    /// Returns the sum of both directions.
    pub fn combined(&self) -> CombinedTotals {
        CombinedTotals {
            bytes: Bytes(self.counts.sent.0.saturating_add(self.counts.received.0)),
            operations: self.counts.operations,
            failed_operations: self.counts.failed_operations,
            elapsed: self.elapsed,
        }
    }
}

impl CombinedTotals {
    /// Returns the bits per second; 0 if no time has passed.
    pub fn bits_per_second(&self) -> f64 {
        self.per_second(self.bytes.0 as f64 * 8.0)
    }

    /// Returns the operations per second; 0 if no time has passed.
    pub fn operations_per_second(&self) -> f64 {
        self.per_second(self.operations as f64)
    }

    /// Returns the failures in percent of the operations; 100 if there are failures but no
    /// operations.
    pub fn failed_percent(&self) -> f64 {
        match (self.failed_operations, self.operations) {
            (0, _) => 0.0,
            (_, 0) => 100.0,
            (failed, operations) => 100.0 * failed as f64 / operations as f64,
        }
    }

    /// Returns the sum of several totals, over the longest of their times.
    pub fn sum(totals: impl IntoIterator<Item = Self>) -> Self {
        totals.into_iter().fold(Self::default(), |sum, item| Self {
            bytes: Bytes(sum.bytes.0.saturating_add(item.bytes.0)),
            operations: sum.operations.saturating_add(item.operations),
            failed_operations: sum.failed_operations.saturating_add(item.failed_operations),
            elapsed: sum.elapsed.max(item.elapsed),
        })
    }

    fn per_second(&self, amount: f64) -> f64 {
        if self.elapsed.is_zero() {
            return 0.0;
        }
        amount / self.elapsed.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_without_time_are_0_and_failures_without_operations_are_100_percent() {
        let nothing = CombinedTotals::default();
        assert!(nothing.bits_per_second() == 0.0 && nothing.operations_per_second() == 0.0);
        for (failed_operations, operations, percent) in [(0, 0, 0.0), (1, 0, 100.0), (1, 4, 25.0)] {
            let totals = CombinedTotals {
                operations,
                failed_operations,
                ..nothing
            };
            let failed_percent = totals.failed_percent();
            assert!((failed_percent - percent).abs() < 1e-9, "{totals:?}");
        }
    }
}
