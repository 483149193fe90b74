//! What we send to a slave for the recorded profiles is what stock masters have sent, byte for byte.

#[expect(dead_code, reason = "the scripted peer needs all of it")]
mod data;

use data::{Kind, Recording, Sender, recording, recordings};
use uperf::profile::{ProfileContext, ProfileSource, parse};
use uperf::wire::WorkRecords;
use uperf::{FlowopFlags, GroupSpec, peer_workorder};

#[test]
fn workorders_are_those_of_stock() {
    let mut compared = 0;
    for recording in recordings() {
        // Stock's failed; ours does not, see below.
        let without_hosts = recording.name == "two-hosts-failing";
        let groups = groups(&recording);
        for (connection, host) in recording.hosts.iter().enumerate() {
            let stock = workorder_bytes(&recording, connection);
            let group = groups.get(connection).or(groups.first());
            let (Some(group), false, false) = (group, stock.is_empty(), without_hosts) else {
                continue;
            };
            let what = format!("{}, connection {connection}", recording.name);
            let work = peer_workorder::records_for_host(group, host).expect(&what);
            let ours = without_random_sizes(work).encode(recording.layout, recording.order);
            let other = ours
                .iter()
                .zip(&stock)
                .position(|(ours, stock)| ours != stock);
            assert_eq!(other, None, "{what}: first other byte");
            assert_eq!(ours.len(), stock.len(), "{what}");
            compared += 1;
        }
    }
    assert_eq!(compared, 20);
}

/// Stock sends every flowop without a host to both slaves, and fails. We send each to the slave that
/// has its connection, which is what stock is sent by the profile that says so.
#[test]
fn flowops_without_a_host_follow_their_connections() {
    let kinds = |name: &str, host: &str| -> Vec<u32> {
        let groups = groups(&recording(name));
        let work = peer_workorder::records_for_host(&groups[0], host).expect("sendable");
        let flowops = work.transactions.iter().flat_map(|work| &work.flowops);
        flowops.map(|flowop| flowop.kind).collect()
    };
    for host in ["127.0.0.1", "127.0.0.2"] {
        assert_eq!(
            kinds("two-hosts-failing", host),
            kinds("two-hosts", host),
            "{host}"
        );
    }
}

/// Stock says 0 for random sizes, and its slaves overrun their buffers then.
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

/// Those of the profile; none where it is refused, or there is none.
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

/// The records as they were sent.
fn workorder_bytes(recording: &Recording, connection: usize) -> Vec<u8> {
    let messages = recording.of_connection(connection).into_iter();
    let records = messages.filter(|message| {
        let kinds = [Kind::Group, Kind::Transaction, Kind::Flowop];
        message.sender == Sender::Master && kinds.contains(&message.kind)
    });
    records.flat_map(|message| message.bytes).collect()
}
