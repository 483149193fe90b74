//! The workorders for the recorded profiles equal those of stock masters, byte for byte.

#[expect(dead_code, reason = "each test program uses only a part of it")]
mod data;

use data::{Kind, Recording, Sender, recording, recordings};
use uperf::profile::{ProfileContext, ProfileSource, parse};
use uperf::wire::WorkRecords;
use uperf::{FlowopFlags, GroupSpec, peer_workorder};

#[test]
fn workorders_equal_stock() {
    let mut compared = 0;
    for recording in recordings() {
        // Stock fails with this profile, linerate does not: see the next test.
        let is_stock_failure = recording.name == "two-hosts-failing";
        let groups = groups(&recording);
        for (connection, host) in recording.hosts.iter().enumerate() {
            let stock = workorder_bytes(&recording, connection);
            let group = groups.get(connection).or(groups.first());
            let (Some(group), false, false) = (group, stock.is_empty(), is_stock_failure) else {
                continue;
            };
            let name = format!("{}, connection {connection}", recording.name);
            let work = peer_workorder::records_for_host(group, host).expect(&name);
            let ours = without_random_sizes(work).encode(recording.layout, recording.order);
            let first_difference = ours
                .iter()
                .zip(&stock)
                .position(|(ours, stock)| ours != stock);
            assert_eq!(first_difference, None, "{name}: first different byte");
            assert_eq!(ours.len(), stock.len(), "{name}");
            compared += 1;
        }
    }
    assert_eq!(compared, 20);
}

/// Stock sends every flowop without a host to both slaves, and fails. We send each to the slave
/// with its connection. Stock does the same if the profile names the host.
#[test]
fn flowops_without_host_use_host_of_connection() {
    let flowop_kinds = |name: &str, host: &str| -> Vec<u32> {
        let groups = groups(&recording(name));
        let work =
            peer_workorder::records_for_host(&groups[0], host).expect("the group can be sent");
        let flowops = work.transactions.iter().flat_map(|work| &work.flowops);
        flowops.map(|flowop| flowop.kind).collect()
    };
    for host in ["127.0.0.1", "127.0.0.2"] {
        assert_eq!(
            flowop_kinds("two-hosts-failing", host),
            flowop_kinds("two-hosts", host),
            "{host}"
        );
    }
}

/// Sets random sizes to 0 like stock. Stock slaves then overrun their buffers.
fn without_random_sizes(mut work: WorkRecords) -> WorkRecords {
    for flowop in work
        .transactions
        .iter_mut()
        .flat_map(|work| &mut work.flowops)
    {
        if FlowopFlags(flowop.flags).has(FlowopFlags::RANDOM) {
            assert_eq!(flowop.size, flowop.random_max);
            flowop.size = 0;
        }
    }
    work
}

/// Returns the groups of the profile, or none if it is missing or refused.
fn groups(recording: &Recording) -> Vec<GroupSpec> {
    let source = ProfileSource {
        name: recording.name,
        bytes: recording.profile.as_bytes(),
    };
    let context = ProfileContext {
        environment: &|name| recording.environment(name),
        directory: &|_| Ok(()),
    };
    let parsed = parse(&source, &context);
    parsed
        .workorder
        .map_or_else(Vec::new, |workorder| workorder.groups)
}

/// Returns the bytes of the recorded records.
fn workorder_bytes(recording: &Recording, connection: usize) -> Vec<u8> {
    let messages = recording.of_connection(connection).into_iter();
    let records = messages.filter(|message| {
        let kinds = [Kind::Group, Kind::Transaction, Kind::Flowop];
        message.sender == Sender::Master && kinds.contains(&message.kind)
    });
    records.flat_map(|message| message.bytes).collect()
}
