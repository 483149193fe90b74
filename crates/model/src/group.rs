//! What the groups of a plan did: workers, transactions and their steps.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use stats::Histogram;
use units::Bytes;

use crate::outcome::optional_nanos;
use crate::plan::nanos;
use crate::{Counts, Side};

/// What was moved and done, in which time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// What was moved.
    pub counts: Counts,
    /// In this time, by the monotonic clock.
    #[serde(rename = "elapsed_ns", with = "nanos")]
    pub elapsed: Duration,
}

/// The same with both directions together, as some peers report it and as people compare it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CombinedTotals {
    /// Payload of both directions.
    pub bytes: Bytes,
    /// Executions of steps.
    pub operations: u64,
    /// Those that failed.
    pub failed_operations: u64,
    /// In this time, by the monotonic clock.
    #[serde(rename = "elapsed_ns", with = "nanos")]
    pub elapsed: Duration,
}

/// What the workers of one group did together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GroupOutcome {
    /// As the plan has it.
    pub name: String,
    /// From its first worker's beginning to its last one's end.
    pub totals: Totals,
    /// The same over the time in which a transaction of its own ran, without what was spent between them.
    pub active: Totals,
    /// Each worker, in order.
    pub workers: Vec<Totals>,
    /// Each transaction, in order; empty of a group whose body is one loop.
    pub transactions: Vec<TransactionOutcome>,
}

/// One transaction of one group, all its workers together.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TransactionOutcome {
    /// `Txn0`, `Txn1`, …
    pub name: String,
    /// From the first worker's beginning to the last one's end.
    pub totals: Totals,
    /// When its first worker began, since the run did.
    #[serde(rename = "begun_ns", with = "nanos")]
    pub begun: Duration,
    /// How many workers began it.
    pub workers: u64,
    /// From the first worker's beginning to the last one's.
    #[serde(rename = "start_spread_ns", with = "nanos")]
    pub start_spread: Duration,
    /// Rounds from beginning to end.
    pub rounds: u64,
    /// A round opens a connection, or moves data in both directions.
    pub is_exchange: bool,
    /// It ends after a time, not after a number of rounds.
    pub is_timed: bool,
    /// It moves datagrams, some of which may be lost.
    pub has_datagrams: bool,
    /// Of a transaction of one direction, bytes that arrived at either end, if that is known.
    #[serde(rename = "arrived_bytes")]
    pub arrived: Option<Bytes>,
    /// Times of rounds, where they were kept.
    pub times: Option<Times>,
    /// The distribution of the rounds' times, where it was kept.
    #[serde(skip)]
    pub latency: Option<Histogram>,
    /// Each step, in order.
    pub steps: Vec<StepOutcome>,
}

/// One step of a transaction: uperf's flowop.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StepOutcome {
    /// As the plan has it.
    pub name: String,
    /// Times of its executions, where they were kept.
    pub times: Option<Times>,
    /// What was counted during its executions, by the counters' names; `None` of one that the machine
    /// does not have or allow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<(String, Option<u64>)>,
}

/// Times of executions. A pass is all executions that a step's count asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    /// How often.
    pub executions: u64,
    /// All of them together.
    #[serde(rename = "total_ns", with = "nanos")]
    pub total: Duration,
    /// The threads' CPU time of all of them together, where it was measured.
    #[serde(rename = "cpu_ns", with = "optional_nanos")]
    pub cpu: Option<Duration>,
    /// The longest pass.
    #[serde(rename = "longest_pass_ns", with = "nanos")]
    pub longest: Duration,
    /// The shortest pass.
    #[serde(rename = "shortest_pass_ns", with = "nanos")]
    pub shortest: Duration,
}

/// One of several peers, and what it reported of the group that it took part in.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PeerOutcome {
    /// As the user named it.
    pub host: String,
    /// The address of its control connection.
    pub address: Option<String>,
    /// It runs on this machine.
    pub is_local: bool,
    /// Which program it is, if it is known: `linerate`, `uperf`.
    pub program: Option<&'static str>,
    /// The form of its protocol's messages, where programs of one name have several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// The group's place in the plan, where it took part in one alone.
    pub group: Option<usize>,
    /// What it moved; `None` if it was lost, or not asked.
    pub totals: Option<CombinedTotals>,
    /// More of it, where its protocol carries more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
    /// Text that it sent beside its figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A message of a run, and how often there was reason for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Whether it is only a warning.
    pub is_warning: bool,
    /// What happened.
    pub text: String,
    /// The system's own words; empty where there are none.
    pub reason: String,
    /// How often.
    pub count: u64,
}

impl Totals {
    /// Both directions together.
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
    /// Bits a second; 0 where no time has passed.
    pub fn bits_per_second(&self) -> f64 {
        self.per_second(self.bytes.0 as f64 * 8.0)
    }

    /// Operations a second; 0 where no time has passed.
    pub fn operations_per_second(&self) -> f64 {
        self.per_second(self.operations as f64)
    }

    /// Failures in per cent of the operations. Where there were failures alone it is 100.
    pub fn failed_percent(&self) -> f64 {
        match (self.failed_operations, self.operations) {
            (0, _) => 0.0,
            (_, 0) => 100.0,
            (failed, operations) => 100.0 * failed as f64 / operations as f64,
        }
    }

    /// The sum of several, over the longest of their times.
    pub fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::default(), |sum, one| Self {
            bytes: Bytes(sum.bytes.0.saturating_add(one.bytes.0)),
            operations: sum.operations.saturating_add(one.operations),
            failed_operations: sum.failed_operations.saturating_add(one.failed_operations),
            elapsed: sum.elapsed.max(one.elapsed),
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
    fn rates_and_percentages_of_nothing_are_none() {
        let nothing = CombinedTotals::default();
        assert!(nothing.bits_per_second() == 0.0 && nothing.operations_per_second() == 0.0);
        for (failed_operations, operations, percent) in [(0, 0, 0.0), (1, 0, 100.0), (1, 4, 25.0)] {
            let totals = CombinedTotals {
                operations,
                failed_operations,
                ..nothing
            };
            let found = totals.failed_percent();
            assert!((found - percent).abs() < 1e-9, "{totals:?}");
        }
    }
}
