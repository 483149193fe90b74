//! Summary of a workorder for `--check`.

use std::collections::BTreeMap;

use crate::workorder::{Flowop, GroupSpec, StrandCount, TransactionSpec, Workorder};

use super::memory::{self, expected_memory};
use super::options;

/// Describes a workorder: number of threads and processes, hosts, memory, groups, transactions,
/// and flowops with their non-default options.
pub fn summary(workorder: &Workorder) -> String {
    let groups = &workorder.groups;
    let strands = |processes| {
        let matching = groups
            .iter()
            .filter(|group| group.strands.processes == processes);
        let counts = matching.map(|group| u64::from(group.strands.count));
        counts.sum::<u64>()
    };
    let name = match workorder.name.as_str() {
        "" => "profile without a name",
        name => name,
    };
    let connections: usize = groups
        .iter()
        .map(|group| hosts_with_protocols(group.opening_flowops()).len())
        .sum();
    let mut lines = vec![
        name.to_owned(),
        format!(
            "  {}; {} and {} here; {}",
            format_count(groups.len() as u64, "group"),
            format_count(strands(false), "thread"),
            format_count(strands(true), "process"),
            format_count(connections as u64, "control connection"),
        ),
    ];
    for (host, protocols) in
        hosts_with_protocols(groups.iter().flat_map(GroupSpec::opening_flowops))
    {
        lines.push(format!("  with {host} over {}", protocols.join(", ")));
    }
    let memory = expected_memory(workorder) as f64 / f64::from(1 << 20);
    lines.push(format!("  expected memory: {memory:.1} MiB"));
    for group in groups {
        push_group(&mut lines, group);
    }
    lines.join("\n") + "\n"
}

fn push_group(lines: &mut Vec<String>, group: &GroupSpec) {
    let StrandCount {
        count, processes, ..
    } = group.strands;
    let strands = format_count(count.into(), if processes { "process" } else { "thread" });
    let buffer = memory::buffer_bytes(group);
    let name = &group.name;
    lines.push(format!(
        "{name}: {strands}, a buffer of {buffer} bytes each"
    ));
    for (transaction, number) in group.transactions.iter().zip(1..) {
        lines.push(format!(
            "  transaction {number}: {}",
            describe_repetition(transaction)
        ));
        for flowop in &transaction.flowops {
            let line = format!("    {} {}", flowop.kind, options::format_options(flowop));
            lines.push(line.trim_end().to_owned());
        }
    }
}

fn describe_repetition(transaction: &TransactionSpec) -> String {
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
        rate => format!("{duration}, {rate} per second and strand"),
    }
}

/// Returns each host with the protocols of its connections, in the order of the profile.
fn hosts_with_protocols<'a>(
    opening_flowops: impl Iterator<Item = &'a Flowop>,
) -> Vec<(String, Vec<&'static str>)> {
    let mut hosts: Vec<(String, Vec<&'static str>)> = Vec::new();
    // The map keeps large profiles fast: they have many connects to few hosts.
    let mut indices = BTreeMap::new();
    for flowop in opening_flowops {
        let host = &flowop.endpoint.remote_host;
        let index = *indices.entry(host.to_ascii_lowercase()).or_insert_with(|| {
            hosts.push((host.clone(), Vec::new()));
            hosts.len() - 1
        });
        let protocols = &mut hosts[index].1;
        if let Some(protocol) = flowop.endpoint.protocol
            && !protocols.contains(&protocol.name())
        {
            protocols.push(protocol.name());
        }
    }
    hosts
}

fn format_count(count: u64, noun: &str) -> String {
    match (count, noun) {
        (1, _) => format!("1 {noun}"),
        (_, "process") => format!("{count} processes"),
        _ => format!("{count} {noun}s"),
    }
}
