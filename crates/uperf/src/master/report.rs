//! What the strands did → what is printed of it.

use std::time::{Duration, Instant, SystemTime};

use engine::script::Pass;
use model::Counts;
use stats::Histogram;

use super::run::totals;
use crate::options::{Counter, Master};
use crate::output::html::Distribution;
use crate::output::{
    Active, Executions, Interfaces, Latencies, Report, Sample, Slave, Start, Totals, strand_name,
    transaction_name,
};
use crate::strand::{Log, StrandOutcome, TransactionOutcome};
use crate::{Group, Workorder};

/// What is told of times.
const PERCENTS: [f64; 7] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 100.0];

pub(super) struct Figures<'a> {
    pub(super) master: &'a Master,
    pub(super) workorder: &'a Workorder,
    pub(super) strands: &'a [StrandOutcome],
    pub(super) elapsed: Duration,
    pub(super) traffic: Interfaces,
    /// Those of the counters that were asked for that the system allows.
    pub(super) counted: &'a [Counter],
    pub(super) told: Vec<Slave>,
    pub(super) log: &'a Log,
    pub(super) failures: u64,
}

impl Figures<'_> {
    pub(super) fn report(self) -> Report {
        let now = SystemTime::now();
        let sample = |name: String, counts: &Counts, elapsed| Sample {
            name,
            totals: totals(counts, elapsed),
            ended: now,
        };
        let all = sum(self.strands.iter().flat_map(|strand| &strand.transactions));
        let total = sample("Total".to_owned(), &all, self.elapsed);
        let groups = self.groups().map(|(group, strands)| {
            let (counts, elapsed) = in_time(strands.iter().flat_map(|strand| &strand.transactions));
            sample(group.name.clone(), &counts, elapsed)
        });
        let strands = self.groups().flat_map(|(_, strands)| {
            let strands = strands.into_iter().enumerate();
            strands.map(|(number, strand)| {
                let (counts, elapsed) = in_time(&strand.transactions);
                sample(strand_name(number), &counts, elapsed)
            })
        });
        Report {
            groups: groups.collect(),
            strands: strands.collect(),
            transactions: self.transactions(),
            flowops: self.flowops(),
            active: self.active(),
            starts: self.starts(),
            latencies: self.latencies(),
            master: total.totals,
            total,
            interfaces: self.traffic,
            slaves: self.told,
            log: self.log.entries().to_vec(),
            failures: self.failures,
        }
    }

    /// Each group with its strands.
    fn groups(&self) -> impl Iterator<Item = (&Group, Vec<&StrandOutcome>)> {
        let groups = self.workorder.groups.iter().enumerate();
        groups.map(|(number, group)| {
            let strands = self.strands.iter().filter(|strand| strand.group == number);
            (group, strands.collect())
        })
    }

    fn transactions(&self) -> Vec<Executions> {
        let mut all = Vec::new();
        for (at, (group, strands)) in self.groups().enumerate() {
            for number in 0..group.transactions.len() {
                let mut pass = Pass::default();
                for part in parts(&strands, number) {
                    pass.merge(&part.times.rounds);
                }
                all.push(self.executions(transaction_name(number), (at, number), &pass));
            }
        }
        all
    }

    fn flowops(&self) -> Vec<Executions> {
        let mut all = Vec::new();
        for (of, (group, strands)) in self.groups().enumerate() {
            for (number, transaction) in group.transactions.iter().enumerate() {
                for (at, flowop) in transaction.flowops.iter().enumerate() {
                    let mut pass = Pass::default();
                    for part in parts(&strands, number) {
                        if let Some(other) = part.times.steps.get(at) {
                            pass.merge(other);
                        }
                    }
                    let mut executions =
                        self.executions(flowop.kind.name().to_owned(), (of, number), &pass);
                    executions.counters = self.counters(parts(&strands, number), at);
                    all.push(executions);
                }
            }
        }
        all
    }

    fn executions(&self, name: String, place: (usize, usize), pass: &Pass) -> Executions {
        let (group, transaction) = place;
        Executions {
            name,
            group,
            transaction,
            count: pass.executions,
            time: Duration::from_nanos(pass.total_ns),
            cpu: self
                .master
                .flowop_cpu
                .then(|| Duration::from_nanos(pass.cpu_ns)),
            longest: Duration::from_nanos(pass.longest_ns),
            shortest: Duration::from_nanos(pass.shortest_ns),
            counters: Vec::new(),
        }
    }

    /// What was counted in the flowop at this place, by all strands together.
    fn counters<'p>(
        &self,
        parts: impl Iterator<Item = &'p TransactionOutcome>,
        at: usize,
    ) -> Vec<(Counter, Option<u64>)> {
        let counts = parts.map(|part| part.times.events.as_ref()?.get(at));
        // A sum without one of its parts is none.
        let counts: Option<Vec<_>> = counts.collect();
        let sum = |counter: &Counter| {
            let place = self.counted.iter().position(|counted| counted == counter)?;
            Some(counts.as_ref()?.iter().map(|counts| counts[place]).sum())
        };
        let asked = self.master.counters.iter();
        asked.map(|counter| (*counter, sum(counter))).collect()
    }

    /// The time in which transactions ran: of each from its first strand's beginning to its last one's
    /// end.
    fn active(&self) -> Active {
        let stages = self.stages();
        let of = |strands: &[&StrandOutcome]| -> Totals {
            let mut all = (Counts::default(), Duration::ZERO);
            for number in 0..stages {
                let (counts, elapsed) = in_time(parts(strands, number));
                all.0 += counts;
                all.1 += elapsed;
            }
            totals(&all.0, all.1)
        };
        let everyone: Vec<&StrandOutcome> = self.strands.iter().collect();
        let groups = self.groups();
        let groups = groups.map(|(group, strands)| (group.name.clone(), of(&strands)));
        Active {
            all: of(&everyone),
            groups: groups.collect(),
        }
    }

    /// How many transactions the longest group has.
    fn stages(&self) -> usize {
        let groups = self.workorder.groups.iter();
        let lengths = groups.map(|group| group.transactions.len());
        lengths.max().unwrap_or(0)
    }

    /// How far apart the strands began what the barriers let them begin together.
    fn starts(&self) -> Vec<Start> {
        let strands: Vec<&StrandOutcome> = self.strands.iter().collect();
        let of_stage = |transaction| {
            let began: Vec<Instant> = parts(&strands, transaction)
                .map(|part| part.began)
                .collect();
            let (first, last) = (began.iter().min()?, began.iter().max()?);
            (began.len() > 1).then(|| Start {
                transaction,
                strands: began.len(),
                spread: *last - *first,
            })
        };
        (0..self.stages()).filter_map(of_stage).collect()
    }

    /// The times of each transaction that was executed again and again, if they were kept.
    pub(super) fn distributions(&self) -> Vec<Distribution> {
        let mut all = Vec::new();
        for (group, number, times) in self.times() {
            let mut name = transaction_name(number);
            if self.workorder.groups.len() > 1 {
                name = format!("{name} of {}", group.name);
            }
            let percentile = |percent| Some((percent, times.percentile(percent)?));
            all.push(Distribution {
                name,
                count: times.len(),
                percentiles: PERCENTS.into_iter().filter_map(percentile).collect(),
            });
        }
        all
    }

    /// Each group's transactions by number, with their times.
    fn times(&self) -> Vec<(&Group, usize, Histogram)> {
        let mut all = Vec::new();
        for (group, strands) in self.groups() {
            for number in 0..group.transactions.len() {
                let mut times = Histogram::default();
                let kept = parts(&strands, number);
                for histogram in kept.filter_map(|part| part.times.histogram.as_ref()) {
                    times.merge(histogram);
                }
                if !times.is_empty() {
                    all.push((group, number, times));
                }
            }
        }
        all
    }

    /// Of the transactions with a duration: those that prepare and clean up are no part of what is asked.
    fn latencies(&self) -> Option<Latencies> {
        if !self.master.latencies {
            return None;
        }
        let mut times = Histogram::default();
        for (group, number, histogram) in self.times() {
            if group.transactions[number].duration.is_some() {
                times.merge(&histogram);
            }
        }
        Some(Latencies {
            mean: Duration::from_nanos(times.mean_ns()? as u64),
            median: times.percentile(50.0)?,
            p99: times.percentile(99.0)?,
        })
    }
}

/// What parts came to within their transactions' time: the sum, and from the first beginning to the last end.
fn in_time<'p>(parts: impl IntoIterator<Item = &'p TransactionOutcome>) -> (Counts, Duration) {
    let mut sum = Counts::default();
    let (mut first, mut last) = (None, None);
    for part in parts {
        let (elapsed, counts) = part.in_time();
        sum += counts;
        first = Some(first.map_or(part.began, |first: Instant| first.min(part.began)));
        last = last.max(Some(part.began + elapsed));
    }
    let span = first.zip(last).map(|(first, last)| last - first);
    (sum, span.unwrap_or_default())
}

/// Every strand's part of the transaction of this number.
fn parts<'s>(
    strands: &[&'s StrandOutcome],
    number: usize,
) -> impl Iterator<Item = &'s TransactionOutcome> {
    let parts = strands
        .iter()
        .filter_map(move |strand| strand.transactions.get(number));
    parts.collect::<Vec<_>>().into_iter()
}

pub(super) fn sum<'p>(parts: impl Iterator<Item = &'p TransactionOutcome>) -> Counts {
    let mut sum = Counts::default();
    for part in parts {
        sum += part.counts;
    }
    sum
}

/// From the first beginning to the last end.
pub(super) fn span<'p>(parts: impl Iterator<Item = &'p TransactionOutcome>) -> Duration {
    let mut span: Option<(Instant, Instant)> = None;
    for part in parts {
        let (began, ended) = (part.began, part.began + part.elapsed);
        span = Some(match span {
            None => (began, ended),
            Some((first, last)) => (first.min(began), last.max(ended)),
        });
    }
    span.map_or(Duration::ZERO, |(first, last)| last - first)
}
