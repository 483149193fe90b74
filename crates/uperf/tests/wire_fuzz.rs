//! Hostile bytes for every decoder: none panics, and what was decoded survives another round; and
//! workorders of all kinds, from bytes to what a slave would do.
//!
//! See `testkit::fuzz` for how many inputs each test gets, and how a failure is repeated.

#[expect(dead_code, reason = "only the test of the transcripts needs all of it")]
mod data;

use std::fmt::Debug;
use std::ops::RangeInclusive;

use data::{Kind, Recording, fill, recordings};
use rand::Rng;
use rand::rngs::SmallRng;
use testkit::fuzz::{check_round_trip, choose, overwrite_randomly, run_inputs};
use uperf::wire::{
    DataVersion, Endian, FlowopLayout, FlowopRecord, Goodbye, GroupRecord, Header, MasterCommand,
    Phase1Answer, Phase2Answer, ReceivedWork, SlaveInfo, TransactionRecord, WorkRecords,
};
use uperf::{
    Amount, DataProtocol, Flowop, FlowopFlags, GroupSpec, StrandCount, TransactionSpec, WorkLimits,
    peer_workorder,
};

macro_rules! decoders {
    ($($test:ident: $kind:ident, $taken:expr, $decode:expr;)+) => {$(
        #[test]
        fn $test() {
            decoder(Kind::$kind, $taken, $decode);
        }
    )+};
}

decoders! {
    headers: Header, 85..=93, |bytes, _| {
        let (header, order) = Header::decode(bytes.first_chunk()?).ok()?;
        let _ = (header.version(), header.check_protocols(|protocol| protocol == DataProtocol::Ssl));
        Some(shown(&header, header.encode(order)))
    };
    first_answers: Ack1, 100..=100, |bytes, _| {
        let ack = Phase1Answer::decode(bytes.first_chunk()?);
        Some(shown(&ack, ack.encode()))
    };
    second_answers: Ack2, 100..=100, |bytes, order| {
        let ack = Phase2Answer::decode(bytes.first_chunk()?, order);
        Some(shown(&ack, ack.encode(order)))
    };
    groups: Group, 35..=45, |bytes, order| {
        let group = GroupRecord::decode(bytes.first_chunk()?, order).ok()?;
        Some(shown(&group, group.encode(order)))
    };
    transactions: Transaction, 100..=100, |bytes, order| {
        let transaction = TransactionRecord::decode(bytes.first_chunk()?, order);
        Some(shown(&transaction, transaction.encode(order)))
    };
    ports: Ports, 100..=100, |bytes, order| {
        let info = SlaveInfo::decode(bytes.first_chunk()?, order);
        let _ = [DataProtocol::Tcp, DataProtocol::Unix].map(|protocol| info.port(protocol));
        Some(shown(&info, info.encode(order)))
    };
    commands: Command, 61..=71, |bytes, order| {
        let command = MasterCommand::decode(bytes.first_chunk()?, order).ok()?;
        Some(shown(&command, command.encode(order)))
    };
    goodbyes: Goodbye, 87..=95, |bytes, order| {
        let goodbye = Goodbye::decode(bytes.first_chunk()?, order).ok()?;
        Some(shown(&goodbye, goodbye.encode(order)))
    };
}

/// Each recorded or random record in every layout.
#[test]
fn flowops() {
    let recorded = recorded(Kind::Flowop);
    run_inputs("FlowopRecord", 100..=100, |rng| {
        let mut bytes = choose(rng, &recorded).clone();
        bytes.resize(944, 0);
        disturb(rng, &mut bytes);
        let mut decoded = false;
        for layout in FlowopLayout::ALL {
            for order in [Endian::Little, Endian::Big] {
                let Some(flowop) = FlowopRecord::decode(&bytes, layout, order) else {
                    continue;
                };
                let _ = flowop.missing_option(layout);
                let once = shown(&flowop, flowop.encode(layout, order));
                let again = FlowopRecord::decode(&once, layout, order);
                assert_eq!(again, Some(flowop));
                decoded = true;
            }
        }
        decoded
    });
}

/// Streams that may begin as a workorder does: no more is read than the limits allow, and what
/// comes out goes in again.
#[test]
fn workorders() {
    let recordings = recordings();
    run_inputs("Received", 20..=30, |rng| {
        let (mut order, version) = (order(rng), version(rng));
        let mut bytes = match rng.random_range(0..3) {
            0 => random_work(rng).encode(layout(rng), order),
            _ => recorded_work(rng, &recordings),
        };
        if bytes.first() == Some(&0xDC) && rng.random_bool(0.9) {
            order = Endian::Little;
        }
        if rng.random_bool(0.9) {
            disturb(rng, &mut bytes);
        }
        let limits = WorkLimits {
            strands: 100,
            transactions: 20,
            flowops: 200,
            memory: 1 << 24,
            ..WorkLimits::default()
        };
        let slave_infos = *choose(rng, &[0, 0, 0, 0, 1, 2, u32::MAX]);
        let most = 24 + 20 * 168 + 200 * 944 + 100 * 288;
        let hello = (version, order, slave_infos);
        let (received, asked) = taken(&bytes, hello, &limits);
        assert!(asked <= most);
        let Some(received) = received else {
            return false;
        };
        let layout = received.layout.unwrap_or(FlowopLayout::WithBatchSize);
        let again = received.work.encode(layout, order);
        // Where texts are hostile the layout is a guess, and another one without their leftovers.
        if let (Some(other), asked) = taken(&again, (version, order, 0), &limits)
            && asked == again.len()
            && other.layout == received.layout
        {
            assert_eq!(other.work, received.work);
        }
        assign(&received.work, &limits)
    });
}

/// Records of every value: a slave runs what makes sense, within its limits.
#[test]
fn assignments() {
    run_inputs("assignment", 36..=46, |rng| {
        let mut work = random_work(rng);
        for transaction in &mut work.transactions {
            for flowop in &mut transaction.flowops {
                if rng.random_bool(0.1) {
                    let layout = layout(rng);
                    let mut bytes = flowop.encode(layout, Endian::Little);
                    disturb(rng, &mut bytes);
                    if let Some(other) = FlowopRecord::decode(&bytes, layout, Endian::Little) {
                        *flowop = other;
                    }
                }
            }
        }
        assign(&work, &WorkLimits::default())
    });
}

/// Profiles with several hosts and names: what one master sends, each slave understands.
#[test]
fn groups_are_mirrored() {
    run_inputs("mirror", 40..=50, |rng| {
        let group = random_group(rng);
        let parts = peer_workorder::partner_slaves(&group);
        assert_eq!(parts.len(), group.transactions.len());
        let hosts = peer_workorder::hosts(&group);
        for host in &hosts {
            let Ok(work) = peer_workorder::records_for_host(&group, host) else {
                return false;
            };
            let order = order(rng);
            let bytes = work.encode(FlowopLayout::WithBatchSize, order);
            let hello = (DataVersion::V0_3_1, order, 0);
            let Some(received) = taken(&bytes, hello, &WorkLimits::default()).0 else {
                return false;
            };
            assert_eq!(received.work, work);
            assign(&work, &WorkLimits::default());
        }
        !hosts.is_empty()
    });
}

/// The workorder at the front of `bytes`, if a slave takes it, and how many of them it asks for.
fn taken(
    bytes: &[u8],
    (version, order, slave_infos): (DataVersion, Endian, u32),
    limits: &WorkLimits,
) -> (Option<ReceivedWork>, usize) {
    let (mut taken, mut rest) = (0, bytes);
    let received = ReceivedWork::receive(version, order, slave_infos, limits, |buffer, _| {
        taken += buffer.len();
        fill(buffer, &mut rest)
    });
    (received.ok(), taken)
}

/// Whether a slave would run it; what it then runs is within the limits.
fn assign(work: &WorkRecords, limits: &WorkLimits) -> bool {
    let tcp_and_udp = |protocol| matches!(protocol, DataProtocol::Tcp | DataProtocol::Udp);
    let assigned = peer_workorder::group_from_work(work, "::ffff:127.0.0.1", limits, tcp_and_udp);
    let group = match assigned {
        Ok(group) => group,
        Err(refusal) => {
            assert!(!refusal.reason().is_empty());
            return false;
        }
    };
    assert!((1..=limits.strands).contains(&group.strands.count));
    for transaction in &group.transactions {
        assert!(transaction.duration.unwrap_or_default() <= limits.duration);
        for flowop in &transaction.flowops {
            let size = u64::from(flowop.transfer.amount.max_bytes());
            let memory = size * u64::from(group.strands.count);
            assert!(!flowop.kind.transfers() || memory <= limits.memory);
            let known = flowop.endpoint.protocol.is_some_and(tcp_and_udp);
            assert!(!flowop.kind.opens() || known);
        }
    }
    true
}

fn decoder(
    kind: Kind,
    taken: RangeInclusive<u64>,
    decode: impl Fn(&[u8], Endian) -> Option<Vec<u8>>,
) {
    let recorded = recorded(kind);
    run_inputs(&format!("{kind:?}"), taken, |rng| {
        let mut bytes = choose(rng, &recorded).clone();
        disturb(rng, &mut bytes);
        let order = order(rng);
        check_round_trip(&bytes, |bytes| decode(bytes, order))
    });
}

/// The bytes, once the message can be shown.
fn shown(message: &impl Debug, bytes: impl Into<Vec<u8>>) -> Vec<u8> {
    let _ = format!("{message:?}");
    bytes.into()
}

fn recorded(kind: Kind) -> Vec<Vec<u8>> {
    let messages = recordings()
        .into_iter()
        .flat_map(|recording| recording.messages);
    let messages = messages.filter(|message| message.kind == kind);
    messages.map(|message| message.bytes).collect()
}

/// A group and all that its master sent behind it.
fn recorded_work(rng: &mut SmallRng, recordings: &[Recording]) -> Vec<u8> {
    let recording = choose(rng, recordings);
    let messages = recording.of_connection(0).into_iter();
    let work = messages.filter(|message| {
        matches!(
            message.kind,
            Kind::Group | Kind::Transaction | Kind::Flowop | Kind::Ports
        )
    });
    work.flat_map(|message| message.bytes).collect()
}

/// Some bytes overwritten, and rarely, since it spoils all that comes behind, an end that is other.
fn disturb(rng: &mut SmallRng, bytes: &mut Vec<u8>) {
    overwrite_randomly(rng, bytes);
    if rng.random_bool(0.05) {
        let len = bytes.len();
        bytes.truncate(rng.random_range(0..=len));
        bytes.resize(len, rng.random());
    }
}

fn order(rng: &mut SmallRng) -> Endian {
    if rng.random() {
        Endian::Little
    } else {
        Endian::Big
    }
}

fn version(rng: &mut SmallRng) -> DataVersion {
    if rng.random_bool(0.8) {
        DataVersion::V0_3_1
    } else {
        DataVersion::V0_3
    }
}

fn layout(rng: &mut SmallRng) -> FlowopLayout {
    *choose(rng, &FlowopLayout::ALL)
}

/// What a master sends for some profile, with the usual values and with absurd ones.
fn random_work(rng: &mut SmallRng) -> WorkRecords {
    let group = random_group(rng);
    peer_workorder::records_for_host(&group, "a").unwrap_or_else(|_| WorkRecords::minimal())
}

fn random_group(rng: &mut SmallRng) -> GroupSpec {
    let transactions = (0..rng.random_range(0..5)).map(|_| TransactionSpec {
        iterations: number(rng),
        duration: rng
            .random_bool(0.3)
            .then(|| std::time::Duration::from_nanos(number(rng))),
        rate: number(rng) as u32,
        rate_text: "1".repeat(rng.random_range(0..140)),
        flowops: (0..rng.random_range(0..8))
            .map(|_| random_flowop(rng))
            .collect(),
    });
    let transactions = transactions.collect();
    GroupSpec {
        name: String::new(),
        strands: StrandCount {
            count: rng.random_range(0..101),
            threads: rng.random_bool(0.9),
            processes: rng.random(),
        },
        transactions,
    }
}

fn random_flowop(rng: &mut SmallRng) -> Flowop {
    let kind = *choose(rng, &uperf::FlowopKind::ALL);
    let mut flowop = Flowop::new(kind);
    flowop.connection = rng.random_range(0..3);
    flowop.transfer.amount = if rng.random_bool(0.8) {
        Amount::Exactly(number(rng) as u32)
    } else {
        Amount::Between {
            min: number(rng) as u32,
            max: number(rng) as u32,
        }
    };
    if rng.random_bool(0.3) {
        flowop.slave_size = number(rng) as u32;
        flowop.count = number(rng);
        flowop.transfer.repeat = number(rng);
    }
    if rng.random_bool(0.2) {
        flowop.flags = FlowopFlags(rng.random_range(0..512));
    }
    let endpoint = &mut flowop.endpoint;
    if kind.opens() || rng.random_bool(0.2) {
        let hosts = ["a", "b", "A", "::1", "", "\u{e9}"];
        (*choose(rng, &hosts)).clone_into(&mut endpoint.remote_host);
        let protocols = [
            DataProtocol::Tcp,
            DataProtocol::Tcp,
            DataProtocol::Udp,
            DataProtocol::Rds,
        ];
        endpoint.protocol = Some(*choose(rng, &protocols));
    }
    if rng.random_bool(0.1) {
        endpoint.local_host = "l".repeat(rng.random_range(0..260));
        endpoint.port = number(rng) as u32;
        endpoint.window = number(rng);
    }
    flowop
}

/// Mostly small.
fn number(rng: &mut SmallRng) -> u64 {
    match rng.random_range(0..10) {
        0 => 0,
        1 => rng.random(),
        2 => u64::MAX,
        _ => rng.random_range(1..70_000),
    }
}
