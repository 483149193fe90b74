//! Feeds hostile bytes to every decoder. No decoder may panic, and each decoded message must
//! survive a second round trip. Random workorders must also give a valid assignment or a refusal.
//!
//! See `testkit::fuzz` for the number of inputs and how to repeat a failure.

#[expect(dead_code, reason = "each test program uses only a part of it")]
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
    ($($test:ident: $kind:ident, $accepted_percent:expr, $decode:expr;)+) => {$(
        #[test]
        fn $test() {
            fuzz_decoder(Kind::$kind, $accepted_percent, $decode);
        }
    )+};
}

decoders! {
    headers: Header, 85..=93, |bytes, _| {
        let (header, order) = Header::decode(bytes.first_chunk()?).ok()?;
        let _ = (header.version(), header.check_protocols(|protocol| protocol == DataProtocol::Ssl));
        Some(format_and_return(&header, header.encode(order)))
    };
    phase_1_answers: Ack1, 100..=100, |bytes, _| {
        let answer = Phase1Answer::decode(bytes.first_chunk()?);
        Some(format_and_return(&answer, answer.encode()))
    };
    phase_2_answers: Ack2, 100..=100, |bytes, order| {
        let answer = Phase2Answer::decode(bytes.first_chunk()?, order);
        Some(format_and_return(&answer, answer.encode(order)))
    };
    groups: Group, 35..=45, |bytes, order| {
        let group = GroupRecord::decode(bytes.first_chunk()?, order).ok()?;
        Some(format_and_return(&group, group.encode(order)))
    };
    transactions: Transaction, 100..=100, |bytes, order| {
        let transaction = TransactionRecord::decode(bytes.first_chunk()?, order);
        Some(format_and_return(&transaction, transaction.encode(order)))
    };
    slave_infos: Ports, 100..=100, |bytes, order| {
        let info = SlaveInfo::decode(bytes.first_chunk()?, order);
        let _ = [DataProtocol::Tcp, DataProtocol::Unix].map(|protocol| info.port(protocol));
        Some(format_and_return(&info, info.encode(order)))
    };
    commands: Command, 61..=71, |bytes, order| {
        let command = MasterCommand::decode(bytes.first_chunk()?, order).ok()?;
        Some(format_and_return(&command, command.encode(order)))
    };
    goodbyes: Goodbye, 87..=95, |bytes, order| {
        let goodbye = Goodbye::decode(bytes.first_chunk()?, order).ok()?;
        Some(format_and_return(&goodbye, goodbye.encode(order)))
    };
}

/// Decodes each damaged record in every layout and byte order.
#[test]
fn flowops_round_trip_in_each_layout() {
    let recorded = recorded_messages(Kind::Flowop);
    run_inputs("FlowopRecord", 100..=100, |rng| {
        let mut bytes = choose(rng, &recorded).clone();
        bytes.resize(944, 0);
        damage(rng, &mut bytes);
        let mut decoded = false;
        for layout in FlowopLayout::ALL {
            for order in [Endian::Little, Endian::Big] {
                let Some(flowop) = FlowopRecord::decode(&bytes, layout, order) else {
                    continue;
                };
                let _ = flowop.missing_option(layout);
                let encoded = format_and_return(&flowop, flowop.encode(layout, order));
                let decoded_again = FlowopRecord::decode(&encoded, layout, order);
                assert_eq!(decoded_again, Some(flowop));
                decoded = true;
            }
        }
        decoded
    });
}

/// Reads damaged workorders. The reader takes no more bytes than the limits allow, and a received
/// workorder survives a round trip.
#[test]
fn received_workorders_round_trip() {
    let recordings = recordings();
    run_inputs("received workorders", 20..=30, |rng| {
        let (mut order, version) = (random_order(rng), random_version(rng));
        let mut bytes = match rng.random_range(0..3) {
            0 => random_work(rng).encode(random_layout(rng), order),
            _ => recorded_work(rng, &recordings),
        };
        if bytes.first() == Some(&0xDC) && rng.random_bool(0.9) {
            order = Endian::Little;
        }
        if rng.random_bool(0.9) {
            damage(rng, &mut bytes);
        }
        let limits = WorkLimits {
            strands: 100,
            transactions: 20,
            flowops: 200,
            memory: 1 << 24,
            ..WorkLimits::default()
        };
        let slave_infos = *choose(rng, &[0, 0, 0, 0, 1, 2, u32::MAX]);
        let max_bytes = 24 + 20 * 168 + 200 * 944 + 100 * 288;
        let header = (version, order, slave_infos);
        let (received, requested_bytes) = receive(&bytes, header, &limits);
        assert!(requested_bytes <= max_bytes);
        let Some(received) = received else {
            return false;
        };
        let layout = received.layout.unwrap_or(FlowopLayout::WithBatchSize);
        let encoded = received.work.encode(layout, order);
        // The receiver guesses the layout. Hostile texts may change the guess in the second round.
        if let (Some(received_again), requested_bytes) =
            receive(&encoded, (version, order, 0), &limits)
            && requested_bytes == encoded.len()
            && received_again.layout == received.layout
        {
            assert_eq!(received_again.work, received.work);
        }
        check_assignment(&received.work, &limits)
    });
}

/// A slave refuses random work, or builds a group from it that stays within its limits.
#[test]
fn assignments_stay_within_limits() {
    run_inputs("assignments", 36..=46, |rng| {
        let mut work = random_work(rng);
        for transaction in &mut work.transactions {
            for flowop in &mut transaction.flowops {
                if rng.random_bool(0.1) {
                    let layout = random_layout(rng);
                    let mut bytes = flowop.encode(layout, Endian::Little);
                    damage(rng, &mut bytes);
                    if let Some(damaged) = FlowopRecord::decode(&bytes, layout, Endian::Little) {
                        *flowop = damaged;
                    }
                }
            }
        }
        check_assignment(&work, &WorkLimits::default())
    });
}

/// Each slave decodes the work that a master sends it for a profile with several hosts.
#[test]
fn slaves_decode_work_for_each_host() {
    run_inputs("groups", 40..=50, |rng| {
        let group = random_group(rng);
        let partners = peer_workorder::partner_slaves(&group);
        assert_eq!(partners.len(), group.transactions.len());
        let hosts = peer_workorder::hosts(&group);
        for host in &hosts {
            let Ok(work) = peer_workorder::records_for_host(&group, host) else {
                return false;
            };
            let order = random_order(rng);
            let bytes = work.encode(FlowopLayout::WithBatchSize, order);
            let header = (DataVersion::V0_3_1, order, 0);
            let Some(received) = receive(&bytes, header, &WorkLimits::default()).0 else {
                return false;
            };
            assert_eq!(received.work, work);
            check_assignment(&work, &WorkLimits::default());
        }
        !hosts.is_empty()
    });
}

/// Reads a workorder from the start of `bytes`. Returns the workorder if a slave accepts it, and the
/// number of bytes that the reader requested.
fn receive(
    bytes: &[u8],
    (version, order, slave_infos): (DataVersion, Endian, u32),
    limits: &WorkLimits,
) -> (Option<ReceivedWork>, usize) {
    let (mut requested_bytes, mut remaining) = (0, bytes);
    let received = ReceivedWork::receive(version, order, slave_infos, limits, |buffer, _| {
        requested_bytes += buffer.len();
        fill(buffer, &mut remaining)
    });
    (received.ok(), requested_bytes)
}

/// Returns whether a slave accepts the work. Checks that an accepted group is within the limits.
fn check_assignment(work: &WorkRecords, limits: &WorkLimits) -> bool {
    let is_tcp_or_udp = |protocol| matches!(protocol, DataProtocol::Tcp | DataProtocol::Udp);
    let assigned = peer_workorder::group_from_work(work, "::ffff:127.0.0.1", limits, is_tcp_or_udp);
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
            let is_supported = flowop.endpoint.protocol.is_some_and(is_tcp_or_udp);
            assert!(!flowop.kind.opens() || is_supported);
        }
    }
    true
}

fn fuzz_decoder(
    kind: Kind,
    accepted_percent: RangeInclusive<u64>,
    decode: impl Fn(&[u8], Endian) -> Option<Vec<u8>>,
) {
    let recorded = recorded_messages(kind);
    run_inputs(&format!("{kind:?}"), accepted_percent, |rng| {
        let mut bytes = choose(rng, &recorded).clone();
        damage(rng, &mut bytes);
        let order = random_order(rng);
        check_round_trip(&bytes, |bytes| decode(bytes, order))
    });
}

/// Formats the message, which must not panic, and returns `bytes`.
fn format_and_return(message: &impl Debug, bytes: impl Into<Vec<u8>>) -> Vec<u8> {
    let _ = format!("{message:?}");
    bytes.into()
}

fn recorded_messages(kind: Kind) -> Vec<Vec<u8>> {
    let messages = recordings()
        .into_iter()
        .flat_map(|recording| recording.messages);
    let messages = messages.filter(|message| message.kind == kind);
    messages.map(|message| message.bytes).collect()
}

/// Returns a recorded group with its transactions, flowops and slave infos.
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

/// Overwrites some bytes. In 5 % of the calls, also replaces everything after a random position. More
/// often would leave too few inputs that decode.
fn damage(rng: &mut SmallRng, bytes: &mut Vec<u8>) {
    overwrite_randomly(rng, bytes);
    if rng.random_bool(0.05) {
        let len = bytes.len();
        bytes.truncate(rng.random_range(0..=len));
        bytes.resize(len, rng.random());
    }
}

fn random_order(rng: &mut SmallRng) -> Endian {
    if rng.random() {
        Endian::Little
    } else {
        Endian::Big
    }
}

fn random_version(rng: &mut SmallRng) -> DataVersion {
    if rng.random_bool(0.8) {
        DataVersion::V0_3_1
    } else {
        DataVersion::V0_3
    }
}

fn random_layout(rng: &mut SmallRng) -> FlowopLayout {
    *choose(rng, &FlowopLayout::ALL)
}

/// Returns a master's records for a random profile with usual and absurd values.
fn random_work(rng: &mut SmallRng) -> WorkRecords {
    let group = random_group(rng);
    peer_workorder::records_for_host(&group, "a").unwrap_or_else(|_| WorkRecords::minimal())
}

fn random_group(rng: &mut SmallRng) -> GroupSpec {
    let transactions = (0..rng.random_range(0..5)).map(|_| TransactionSpec {
        iterations: random_number(rng),
        duration: rng
            .random_bool(0.3)
            .then(|| std::time::Duration::from_nanos(random_number(rng))),
        rate: random_number(rng) as u32,
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
        Amount::Exactly(random_number(rng) as u32)
    } else {
        Amount::Between {
            min: random_number(rng) as u32,
            max: random_number(rng) as u32,
        }
    };
    if rng.random_bool(0.3) {
        flowop.slave_size = random_number(rng) as u32;
        flowop.count = random_number(rng);
        flowop.transfer.repeat = random_number(rng);
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
        endpoint.port = random_number(rng) as u32;
        endpoint.window = random_number(rng);
    }
    flowop
}

/// Returns a number, mostly a small one.
fn random_number(rng: &mut SmallRng) -> u64 {
    match rng.random_range(0..10) {
        0 => 0,
        1 => rng.random(),
        2 => u64::MAX,
        _ => rng.random_range(1..70_000),
    }
}
