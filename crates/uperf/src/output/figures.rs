//! What is printed of a run: plain figures, which the master gathers.

use std::time::{Duration, SystemTime};

use model::LogEntry;

use crate::options::Counter;

/// What is printed when a run has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The whole run, this end's traffic, from the end of the handshake to the end of all strands.
    pub total: Sample,
    /// Each group, in the order of the profile, over its strands' time.
    pub groups: Vec<Sample>,
    /// Each strand, group by group, named by [`strand_name`].
    pub strands: Vec<Sample>,
    /// Each transaction of each group, named by [`super::transaction_name`].
    pub transactions: Vec<Executions>,
    /// Each flowop of each transaction of each group, named by its kind.
    pub flowops: Vec<Executions>,
    /// What the network interfaces carried.
    pub interfaces: Interfaces,
    /// The slaves, in the order in which their control connections were made: a host once a group.
    pub slaves: Vec<Slave>,
    /// This end.
    pub master: Totals,
    /// What the averages over all of the time hide.
    pub active: Active,
    /// How far apart the strands of each transaction began, where there are several.
    pub starts: Vec<Start>,
    /// `-H`: the times of transactions.
    pub latencies: Option<Latencies>,
    /// What went wrong, or may have.
    pub log: Vec<LogEntry>,
    /// How many strands and slaves failed.
    pub failures: u64,
}

/// What was moved and done, in which time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Payload of both directions.
    pub bytes: u64,
    /// Executions of flowops.
    pub operations: u64,
    /// Executions that failed.
    pub errors: u64,
    /// By the monotonic clock.
    pub elapsed: Duration,
}

/// What a line says of a transaction that runs, a group, a strand, or the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What it is of.
    pub name: String,
    /// So much.
    pub totals: Totals,
    /// When its time ended, by the wall clock.
    pub ended: SystemTime,
}

/// How often something was executed, and how long that took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executions {
    /// What it was.
    pub name: String,
    /// Whose it is: the number of the group …
    pub group: usize,
    /// … and of its transaction, from 0.
    pub transaction: usize,
    /// How often; of a flowop with `count=` each counts.
    pub count: u64,
    /// All of them together.
    pub time: Duration,
    /// CPU time of all of them together; `None` where it was not measured.
    pub cpu: Option<Duration>,
    /// The longest pass; of a flowop with `count=` a pass is so many executions.
    pub longest: Duration,
    /// The shortest pass.
    pub shortest: Duration,
    /// What was counted meanwhile; `None` where the machine did not allow it.
    pub counters: Vec<(Counter, Option<u64>)>,
}

/// What the network interfaces of this host carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interfaces {
    /// From the first look at their counters to the second.
    pub elapsed: Duration,
    /// Each of them, with or without traffic.
    pub each: Vec<Traffic>,
}

/// Of one interface, between two looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The interface's name.
    pub name: String,
    /// Packets out.
    pub packets_out: u64,
    /// Packets in.
    pub packets_in: u64,
    /// Bytes out, as the interface counts them.
    pub bytes_out: u64,
    /// Bytes in.
    pub bytes_in: u64,
    /// It was not there at the first look.
    pub came_online: bool,
}

/// What a slave told at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slave {
    /// As the profile names it.
    pub host: String,
    /// Whose strands it ran, by the group's number from 0.
    pub group: usize,
    /// What it said beside its figures, where that is to be printed (`-v`).
    pub said: Option<String>,
    /// `None` where it was lost.
    pub totals: Option<Totals>,
}

/// The rates of the time in which transactions ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Active {
    /// All groups; elapsed is the time in which any transaction ran, without what was spent between
    /// them.
    pub all: Totals,
    /// Each group by its name, over the time in which a transaction of its own ran.
    pub groups: Vec<(String, Totals)>,
}

/// How the strands of all groups began a transaction, which a barrier lets them do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The transaction's number, from 0.
    pub transaction: usize,
    /// How many strands began it.
    pub strands: usize,
    /// From the first one's beginning to the last one's.
    pub spread: Duration,
}

/// One transaction of one group, all its strands together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// The group's number, from 0.
    pub group: usize,
    /// The transaction's.
    pub transaction: usize,
    /// From the first strand's beginning to the last one's end.
    pub elapsed: Duration,
    /// From the first strand's beginning to the last one's.
    pub start_spread: Duration,
    /// Bytes that this end's calls took.
    pub sent: u64,
    /// Bytes that they gave.
    pub received: u64,
    /// Of a transaction of one direction, bytes that arrived at either end, if that is known.
    pub arrived: Option<u64>,
    /// How often it was executed from beginning to end.
    pub executions: u64,
    /// Executions of its flowops.
    pub operations: u64,
    /// Those that failed and were allowed to.
    pub failures: u64,
    /// An execution opens a connection, or moves data in both directions.
    pub is_exchange: bool,
    /// What an execution took, if that was kept.
    pub latency: Option<stats::Summary>,
}

/// Of the times that were kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// Their mean.
    pub mean: Duration,
    /// As many were shorter as were longer.
    pub median: Duration,
    /// One in a hundred was longer.
    pub p99: Duration,
}

impl Totals {
    /// Bits a second; 0 where no time has passed.
    pub fn bit_rate(&self) -> f64 {
        per_second(self.bytes as f64 * 8.0, self.elapsed)
    }

    /// Operations a second; 0 where no time has passed.
    pub fn operation_rate(&self) -> f64 {
        per_second(self.operations as f64, self.elapsed)
    }

    /// Errors in per cent of the operations. Where there were errors alone it is 100.
    pub fn error_percent(&self) -> f64 {
        match (self.errors, self.operations) {
            (0, _) => 0.0,
            (_, 0) => 100.0,
            (errors, operations) => 100.0 * errors as f64 / operations as f64,
        }
    }

    /// What a slave told. A stock slave takes away what it did not finish, and can come to less than no
    /// bytes: those are none.
    pub fn told(bytes: u64, operations: u64, errors: u64, elapsed: Duration) -> Self {
        Self {
            bytes: if bytes > i64::MAX as u64 { 0 } else { bytes },
            operations,
            errors,
            elapsed,
        }
    }

    /// The sum of several, over the longest of their times.
    pub fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::default(), |sum, one| Self {
            bytes: sum.bytes.saturating_add(one.bytes),
            operations: sum.operations.saturating_add(one.operations),
            errors: sum.errors.saturating_add(one.errors),
            elapsed: sum.elapsed.max(one.elapsed),
        })
    }
}

/// The strand of this number in its group, from 0.
pub fn strand_name(number: usize) -> String {
    format!("Thr{number}")
}

/// So many in a second; 0 where no time has passed.
pub(super) fn per_second(amount: f64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() {
        return 0.0;
    }
    amount / elapsed.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_no_bytes_are_none() {
        let told = |bytes| Totals::told(bytes, 1, 0, Duration::ZERO).bytes;
        assert_eq!([told(5), told((-16_i64) as u64), told(u64::MAX)], [5, 0, 0]);
    }

    #[test]
    fn rates_and_percentages_of_nothing_are_none() {
        let nothing = Totals::default();
        assert!(nothing.bit_rate() == 0.0 && nothing.operation_rate() == 0.0);
        for (errors, operations, percent) in [(0, 0, 0.0), (1, 0, 100.0), (1, 4, 25.0)] {
            let totals = Totals {
                operations,
                errors,
                ..nothing
            };
            assert!(
                (totals.error_percent() - percent).abs() < 1e-9,
                "{totals:?}"
            );
        }
    }
}
