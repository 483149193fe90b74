//! The Outcome → what the page has, in its order.

use std::time::{Duration, SystemTime};

use model::{CombinedTotals, Ended, HostFacts, LogEntry, Outcome, PeerOutcome, Times, Warning};

use super::{Distribution, Host, Measured};
use crate::transaction_name;

/// What is printed when a run has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The whole run, this end's traffic, from the end of the handshake to the end of all strands.
    pub total: Sample,
    /// Each group, in the order of the profile, over its strands' time.
    pub groups: Vec<Sample>,
    /// Each strand, group by group, named `Thr0` and so on.
    pub strands: Vec<Sample>,
    /// Each transaction of each group, named by [`transaction_name`].
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
    pub counters: Vec<(String, Option<u64>)>,
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

impl Totals {
    /// Bits a second; 0 where no time has passed.
    pub fn bit_rate(&self) -> f64 {
        per_second(self.bytes as f64 * 8.0, self.elapsed)
    }

    /// Operations a second; 0 where no time has passed.
    pub fn operation_rate(&self) -> f64 {
        per_second(self.operations as f64, self.elapsed)
    }
}

/// So many in a second; 0 where no time has passed.
pub(super) fn per_second(amount: f64, elapsed: Duration) -> f64 {
    if elapsed.is_zero() {
        return 0.0;
    }
    amount / elapsed.as_secs_f64()
}

/// What is told of times.
const PERCENTS: [f64; 7] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 100.0];

impl From<CombinedTotals> for Totals {
    fn from(totals: CombinedTotals) -> Self {
        Self {
            bytes: totals.bytes.0,
            operations: totals.operations,
            errors: totals.failed_operations,
            elapsed: totals.elapsed,
        }
    }
}

impl Measured {
    /// That of a run.
    pub fn of(outcome: &Outcome) -> Self {
        let here = outcome.here.host.clone().unwrap_or_default();
        Self {
            begun: outcome.started,
            report: report(outcome),
            series: outcome.series.clone(),
            distributions: distributions(outcome),
            hosts: hosts(&here, &outcome.peers),
            doubts: outcome.warnings.iter().map(Warning::to_string).collect(),
            parts: parts(outcome),
            here,
            peer: outcome.peers.first().and_then(|peer| peer.program),
            shares_host: outcome.warnings.contains(&Warning::SameHost),
            is_interrupted: outcome.ended == Ended::Cancelled,
        }
    }
}

fn report(outcome: &Outcome) -> Report {
    let here = model::Totals {
        counts: outcome.here.counts,
        elapsed: outcome.here.elapsed.unwrap_or_default(),
    };
    let sample = |name: String, totals: &model::Totals| Sample {
        name,
        totals: totals.combined().into(),
        ended: outcome.started,
    };
    let groups = &outcome.groups;
    let strands = groups
        .iter()
        .flat_map(|group| group.workers.iter().enumerate());
    let (mut transactions, mut flowops) = (Vec::new(), Vec::new());
    for (group, of_group) in groups.iter().enumerate() {
        for (number, transaction) in of_group.transactions.iter().enumerate() {
            let executions = |name: &str, times: Option<Times>, counters: &[_]| {
                let times = times.unwrap_or_default();
                Executions {
                    name: name.to_owned(),
                    group,
                    transaction: number,
                    count: times.executions,
                    time: times.total,
                    cpu: times.cpu,
                    longest: times.longest,
                    shortest: times.shortest,
                    counters: counters.to_vec(),
                }
            };
            transactions.push(executions(&transaction.name, transaction.times, &[]));
            let steps = transaction.steps.iter();
            flowops.extend(steps.map(|step| executions(&step.name, step.times, &step.counters)));
        }
    }
    let active = outcome.active.unwrap_or_default().combined().into();
    let peer = |peer: &PeerOutcome| Slave {
        host: peer.host.clone(),
        group: peer.group.unwrap_or(0),
        said: None,
        totals: peer.totals.map(Totals::from),
    };
    Report {
        total: sample("Total".to_owned(), &here),
        groups: (groups.iter())
            .map(|group| sample(group.name.clone(), &group.totals))
            .collect(),
        strands: strands
            .map(|(number, totals)| sample(format!("Thr{number}"), totals))
            .collect(),
        transactions,
        flowops,
        interfaces: interfaces(outcome),
        slaves: outcome.peers.iter().map(peer).collect(),
        master: here.combined().into(),
        active: Active {
            all: active,
            groups: (groups.iter())
                .map(|group| (group.name.clone(), group.active.combined().into()))
                .collect(),
        },
        starts: starts(outcome),
        log: outcome.log.clone(),
        failures: outcome.failures,
    }
}

fn interfaces(outcome: &Outcome) -> Interfaces {
    let interfaces = outcome.here.interfaces.clone().unwrap_or_default();
    let traffic = |interface: model::InterfaceTraffic| Traffic {
        name: interface.name,
        packets_out: interface.traffic.sent_packets,
        packets_in: interface.traffic.received_packets,
        bytes_out: interface.traffic.sent_bytes,
        bytes_in: interface.traffic.received_bytes,
        came_online: interface.came_online,
    };
    Interfaces {
        elapsed: interfaces.elapsed,
        each: interfaces.each.into_iter().map(traffic).collect(),
    }
}

fn starts(outcome: &Outcome) -> Vec<Start> {
    let most = outcome.groups.iter().map(|group| group.transactions.len());
    let start = |transaction: usize| {
        let groups = outcome.groups.iter();
        let parts = groups.filter_map(|group| group.transactions.get(transaction));
        let parts: Vec<_> = parts.filter(|part| part.workers > 0).collect();
        let strands = parts.iter().map(|part| part.workers as usize).sum();
        let first = parts.iter().map(|part| part.begun).min()?;
        let last = parts
            .iter()
            .map(|part| part.begun.saturating_add(part.start_spread))
            .max()?;
        (strands > 1).then(|| Start {
            transaction,
            strands,
            spread: last.saturating_sub(first),
        })
    };
    (0..most.max().unwrap_or(0)).filter_map(start).collect()
}

fn parts(outcome: &Outcome) -> Vec<Part> {
    let mut all = Vec::new();
    for (group, of_group) in outcome.groups.iter().enumerate() {
        let transactions = of_group.transactions.iter().enumerate();
        all.extend(transactions.map(|(number, transaction)| {
            Part {
                group,
                transaction: number,
                elapsed: transaction.totals.elapsed,
                start_spread: transaction.start_spread,
                sent: transaction.totals.counts.sent.0,
                received: transaction.totals.counts.received.0,
                arrived: transaction.arrived.map(|bytes| bytes.0),
                executions: transaction.rounds,
                operations: transaction.totals.counts.operations,
                failures: transaction.totals.counts.failed_operations,
                is_exchange: transaction.is_exchange,
                latency: transaction
                    .latency
                    .as_ref()
                    .and_then(stats::Histogram::summary),
            }
        }));
    }
    all
}

fn distributions(outcome: &Outcome) -> Vec<Distribution> {
    let mut all = Vec::new();
    for group in &outcome.groups {
        for (number, transaction) in group.transactions.iter().enumerate() {
            let Some(times) = &transaction.latency else {
                continue;
            };
            let mut name = transaction_name(number);
            if outcome.groups.len() > 1 {
                name = format!("{name} of {}", group.name);
            }
            let percentile = |percent| Some((percent, times.percentile(percent)?));
            all.push(Distribution {
                name,
                count: times.len(),
                percentiles: PERCENTS.into_iter().filter_map(percentile).collect(),
            });
        }
    }
    all
}

/// This host first, then each slave's once.
fn hosts(here: &HostFacts, peers: &[PeerOutcome]) -> Vec<Host> {
    let mut hosts = vec![Host {
        name: "master".to_owned(),
        facts: facts(here),
    }];
    for peer in peers {
        if hosts.iter().all(|host| host.name != peer.host) {
            hosts.push(Host {
                name: peer.host.clone(),
                facts: told(peer),
            });
        }
    }
    hosts
}

fn facts(host: &HostFacts) -> Vec<(String, String)> {
    let cpus = host.cpus.map(|cpus| match &host.cpu_model {
        Some(model) => format!("{cpus} × {model}"),
        None => cpus.to_string(),
    });
    let guest = |is_guest: bool| if is_guest { "virtual" } else { "not virtual" };
    let all = [
        ("kernel", host.kernel.clone()),
        ("its build", host.kernel_version.clone()),
        ("machine", host.machine.clone()),
        ("model", host.system_model.clone()),
        ("CPUs", cpus),
        ("CPU's clock", host.cpu_mhz.map(|mhz| format!("{mhz} MHz"))),
        (
            "machine is",
            host.virtual_guest.map(|is| guest(is).to_owned()),
        ),
        (
            "MTU to the first slave",
            host.mtu_bytes.map(|bytes| format!("{bytes} bytes")),
        ),
        ("congestion control", host.congestion_control.clone()),
    ];
    let known = all
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    known.collect()
}

/// uperf's protocol has no words for more.
fn told(peer: &PeerOutcome) -> Vec<(String, String)> {
    let program = match &peer.form {
        Some(form) => format!("a stock uperf, {form}"),
        None => peer.program.unwrap_or_default().to_owned(),
    };
    let others = if peer.is_local {
        "this host is the master's, too"
    } else {
        "not told: uperf's protocol has no words for them"
    };
    [
        ("address", peer.address.clone().unwrap_or_default()),
        ("program", program),
        ("kernel, CPUs and interfaces", others.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_has_no_line() {
        let host = HostFacts {
            cpus: Some(2),
            cpu_model: Some("a make".to_owned()),
            virtual_guest: Some(true),
            ..HostFacts::default()
        };
        let facts = facts(&host);
        let lines: Vec<_> = facts
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(lines, [("CPUs", "2 × a make"), ("machine is", "virtual")]);
    }
}
