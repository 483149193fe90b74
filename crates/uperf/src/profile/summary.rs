//! What a workorder would run, in words: of `--check`.

use std::collections::BTreeMap;

use crate::workorder::{Flowop, Group, Strands, Transaction, Workorder};

use super::memory::{self, expected_memory};
use super::options;

/// Groups, strands, transactions and flowops with the options that are not uperf's defaults; the hosts
/// that take part; threads, processes and memory.
pub fn summary(workorder: &Workorder) -> String {
    let groups = &workorder.groups;
    let strands = |processes| {
        let those = groups
            .iter()
            .filter(|group| group.strands.processes == processes);
        let counts = those.map(|group| u64::from(group.strands.count));
        counts.sum::<u64>()
    };
    let name = match workorder.name.as_str() {
        "" => "profile without a name",
        name => name,
    };
    let connections: usize = groups
        .iter()
        .map(|group| hosts(group.openings()).len())
        .sum();
    let mut lines = vec![
        name.to_owned(),
        format!(
            "  {}; {} and {} here; {}",
            counted(groups.len() as u64, "group"),
            counted(strands(false), "thread"),
            counted(strands(true), "process"),
            counted(connections as u64, "control connection"),
        ),
    ];
    for (host, protocols) in hosts(groups.iter().flat_map(Group::openings)) {
        lines.push(format!("  with {host} over {}", protocols.join(", ")));
    }
    let memory = expected_memory(workorder) as f64 / f64::from(1 << 20);
    lines.push(format!("  expected memory: {memory:.1} MiB"));
    for group in groups {
        describe(&mut lines, group);
    }
    lines.join("\n") + "\n"
}

fn describe(lines: &mut Vec<String>, group: &Group) {
    let Strands {
        count, processes, ..
    } = group.strands;
    let strands = counted(count.into(), if processes { "process" } else { "thread" });
    let buffer = memory::buffer_bytes(group);
    let name = &group.name;
    lines.push(format!(
        "{name}: {strands}, a buffer of {buffer} bytes each"
    ));
    for (transaction, number) in group.transactions.iter().zip(1..) {
        lines.push(format!(
            "  transaction {number}: {}",
            repetition(transaction)
        ));
        for flowop in &transaction.flowops {
            let line = format!("    {} {}", flowop.kind, options::shown(flowop));
            lines.push(line.trim_end().to_owned());
        }
    }
}

fn repetition(transaction: &Transaction) -> String {
    let Some(duration) = transaction.duration else {
        return match transaction.iterations {
            0 => "not at all".to_owned(),
            1 => "once".to_owned(),
            many => format!("{many} times"),
        };
    };
    let duration = format!("for {} s", duration.as_secs_f64());
    match transaction.rate {
        0 => duration,
        rate => format!("{duration}, {rate} a second and strand"),
    }
}

/// Each host with the protocols of its connections, in the order of the profile.
fn hosts<'a>(openings: impl Iterator<Item = &'a Flowop>) -> Vec<(String, Vec<&'static str>)> {
    let mut hosts: Vec<(String, Vec<&'static str>)> = Vec::new();
    // A large profile has many connects to few hosts.
    let mut known = BTreeMap::new();
    for flowop in openings {
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

fn counted(count: u64, what: &str) -> String {
    match (count, what) {
        (1, _) => format!("1 {what}"),
        (_, "process") => format!("{count} processes"),
        _ => format!("{count} {what}s"),
    }
}
