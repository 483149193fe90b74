//! What a workorder would run, in words: of `--check`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::workorder::{Group, Strands, Transaction, Workorder};

use super::memory::{self, expected_memory};
use super::options;

/// Groups, strands, transactions and flowops with the options that are not uperf's defaults; the hosts
/// that take part; threads, processes and memory.
pub fn summary(workorder: &Workorder) -> String {
    let mut text = String::new();
    let name = match workorder.name.as_str() {
        "" => "profile without a name",
        name => name,
    };
    let groups = &workorder.groups;
    let strands = |processes| {
        let those = groups
            .iter()
            .filter(|group| group.strands.processes == processes);
        let counts = those.map(|group| u64::from(group.strands.count));
        counts.sum::<u64>()
    };
    line(&mut text, format_args!("{name}"));
    let (threads, processes) = (strands(false), strands(true));
    let hosts = hosts(groups);
    let connections: usize = groups.iter().map(|group| hosts_of(group).len()).sum();
    line(
        &mut text,
        format_args!(
            "  {}; {} and {} here; {}",
            counted(groups.len() as u64, "group"),
            counted(threads, "thread"),
            counted(processes, "process"),
            counted(connections as u64, "control connection"),
        ),
    );
    for (host, protocols) in &hosts {
        line(
            &mut text,
            format_args!("  with {host} over {}", protocols.join(", ")),
        );
    }
    line(
        &mut text,
        format_args!(
            "  expected memory: {}",
            mebibytes(expected_memory(workorder))
        ),
    );
    for group in groups {
        describe(&mut text, group);
    }
    text
}

fn describe(text: &mut String, group: &Group) {
    line(
        text,
        format_args!(
            "{}: {}, a buffer of {} bytes each",
            group.name,
            strands(group.strands),
            memory::largest(group).max(memory::LEAST_BUFFER),
        ),
    );
    for (k, transaction) in group.transactions.iter().enumerate() {
        line(
            text,
            format_args!("  transaction {}: {}", k + 1, repetition(transaction)),
        );
        for flowop in &transaction.flowops {
            let options = options::shown(flowop);
            let words = format!("    {} {options}", flowop.kind);
            line(text, format_args!("{}", words.trim_end()));
        }
    }
}

fn strands(strands: Strands) -> String {
    let what = if strands.processes {
        "process"
    } else {
        "thread"
    };
    counted(strands.count.into(), what)
}

fn repetition(transaction: &Transaction) -> String {
    let Some(duration) = transaction.duration else {
        return match transaction.iterations {
            0 => "not at all".to_owned(),
            1 => "once".to_owned(),
            many => format!("{many} times"),
        };
    };
    let duration = format!("for {}", seconds(duration));
    match transaction.rate {
        0 => duration,
        rate => format!("{duration}, {rate} a second and strand"),
    }
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

/// Each host with the protocols of its connections, in the order of the profile.
fn hosts(groups: &[Group]) -> Vec<(String, Vec<&'static str>)> {
    let mut hosts: Vec<(String, Vec<&'static str>)> = Vec::new();
    // A large profile has many connects to few hosts.
    let mut known = BTreeMap::new();
    for flowop in groups.iter().flat_map(Group::openings) {
        let host = &flowop.endpoint.remote_host;
        let place = *known.entry(host.to_ascii_lowercase()).or_insert_with(|| {
            hosts.push((host.clone(), Vec::new()));
            hosts.len() - 1
        });
        let protocols = &mut hosts[place].1;
        if let Some(protocol) = flowop.endpoint.protocol
            && !protocols.contains(&protocol.name())
        {
            protocols.push(protocol.name());
        }
    }
    hosts
}

/// The hosts of a group: it has a control connection with each.
fn hosts_of(group: &Group) -> Vec<String> {
    let mut hosts: Vec<String> = group
        .openings()
        .map(|flowop| flowop.endpoint.remote_host.to_ascii_lowercase())
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

fn counted(count: u64, what: &str) -> String {
    match (count, what) {
        (1, _) => format!("1 {what}"),
        (_, "process") => format!("{count} processes"),
        _ => format!("{count} {what}s"),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn line(text: &mut String, line: std::fmt::Arguments) {
    // Writing to a String does not fail.
    let _ = writeln!(text, "{line}");
}
