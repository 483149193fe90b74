//! Decodes and encodes every message of the recorded control connections. The result must equal the
//! bytes of the stock program.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "these are lists of ranges, some with one element"
)]

#[expect(dead_code, reason = "each test program uses only a part of it")]
mod data;

use std::collections::BTreeMap;
use std::ops::Range;

use data::{Kind, Message, Recording, Sender, recording, recordings};
use uperf::wire::{
    DataVersion, Endian, FlowopLayout, FlowopRecord, Goodbye, GroupRecord, Header, MasterCommand,
    Phase1Answer, Phase2Answer, SlaveInfo, TransactionRecord, WorkRefusal,
};
use uperf::{
    Amount, DataProtocol, Flowop, FlowopKind as Op, GroupSpec, StrandCount, TransactionSpec,
    WorkLimits, peer_workorder,
};

/// Byte ranges that the stock sender does not set.
type UnsetRanges = &'static [Range<usize>];

const ALL_SET: UnsetRanges = &[];
/// The message of an accepting answer.
const ACK2_ACCEPTED_UNSET: UnsetRanges = &[64..192];
/// The status and the count of a refusal.
const ACK2_REFUSED_UNSET: UnsetRanges = &[0..64, 192..196];

#[test]
fn every_message_round_trips() {
    let mut counts = BTreeMap::<Kind, usize>::new();
    for recording in recordings() {
        for (number, message) in recording.messages.iter().enumerate() {
            let name = format!("{}, message {number}, {:?}", recording.name, message.kind);
            let (ours, unset) = encode_again(&recording, message, &name);
            assert_eq!(ours.len(), message.bytes.len(), "{name}");
            for (offset, (ours, stock)) in ours.iter().zip(&message.bytes).enumerate() {
                if !unset.iter().any(|range| range.contains(&offset)) {
                    assert_eq!(ours, stock, "{name}: byte {offset}");
                }
            }
            *counts.entry(message.kind).or_default() += 1;
        }
    }
    // Check that the file is complete.
    assert_eq!(recordings().len(), 22);
    let counts: Vec<_> = counts.into_iter().collect();
    let expected = [
        (Kind::Header, 48),
        (Kind::Ack1, 25),
        (Kind::Group, 23),
        (Kind::Transaction, 63),
        (Kind::Flowop, 99),
        (Kind::Ports, 27),
        (Kind::Ack2, 23),
        (Kind::End, 44),
        (Kind::Command, 80),
        (Kind::Goodbye, 22),
        (Kind::Fin, 46),
    ];
    assert_eq!(counts, expected);
}

/// Decodes and encodes the message. Also returns the ranges that stock leaves unset.
fn encode_again(recording: &Recording, message: &Message, name: &str) -> (Vec<u8>, UnsetRanges) {
    let (bytes, order) = (&message.bytes, recording.order);
    let ours = match message.kind {
        Kind::Header => {
            let start = bytes.first_chunk().expect(name);
            let (header, found) = Header::decode(start).expect(name);
            assert_eq!(found, order, "{name}");
            assert_eq!(header.version(), Ok(recording.layout.version()), "{name}");
            header.encode(order)
        }
        Kind::Ack1 => Phase1Answer::decode(array(bytes)).encode().to_vec(),
        Kind::Ack2 => {
            let ack = Phase2Answer::decode(array(bytes), order);
            let unset = match ack {
                Phase2Answer::Ok { .. } => ACK2_ACCEPTED_UNSET,
                Phase2Answer::Refused(_) => ACK2_REFUSED_UNSET,
            };
            return (ack.encode(order).to_vec(), unset);
        }
        Kind::Group => {
            let group = GroupRecord::decode(array(bytes), order).expect(name);
            group.encode(order).to_vec()
        }
        Kind::Transaction => {
            let transaction = TransactionRecord::decode(array(bytes), order);
            transaction.encode(order).to_vec()
        }
        Kind::Flowop => {
            let layout = recording.layout;
            let flowop = FlowopRecord::decode(bytes, layout, order).expect(name);
            flowop.encode(layout, order)
        }
        Kind::Ports => SlaveInfo::decode(array(bytes), order)
            .encode(order)
            .to_vec(),
        Kind::End => uperf::wire::HANDSHAKE_END.to_vec(),
        Kind::Command => {
            let command = MasterCommand::decode(array(bytes), order).expect(name);
            command.encode(order).to_vec()
        }
        Kind::Goodbye => {
            let goodbye = Goodbye::decode(array(bytes), order).expect(name);
            goodbye.encode(order).to_vec()
        }
        Kind::Fin => Vec::new(),
    };
    (ours, ALL_SET)
}

fn array<const N: usize>(bytes: &[u8]) -> &[u8; N] {
    bytes.try_into().expect("the length matches the kind")
}

/// The receiver detects the layout. Encoding the received workorder gives the recorded bytes.
#[test]
fn receives_recorded_workorders() {
    let mut layouts = BTreeMap::<FlowopLayout, usize>::new();
    for recording in recordings() {
        for connection in 0..recording.hosts.len() {
            let Some(received) = recording.workorder(connection) else {
                continue;
            };
            assert_eq!(
                received.layout,
                Some(recording.layout),
                "{}",
                recording.name
            );
            let mut encoded = received.work.encode(recording.layout, recording.order);
            for info in &received.slave_infos {
                encoded.extend(info.encode(recording.order));
            }
            let bytes = workorder_bytes(&recording, connection);
            assert_eq!(encoded, bytes, "{}", recording.name);

            let host = recording.hosts[connection];
            let assigned = peer_workorder::group_from_work(
                &received.work,
                host,
                &WorkLimits::default(),
                |_| true,
            );
            assert!(assigned.is_ok(), "{}: {assigned:?}", recording.name);
            *layouts.entry(recording.layout).or_default() += 1;
        }
    }
    let expected = [(FlowopLayout::V1_0_8, 1), (FlowopLayout::WithBatchSize, 22)];
    assert_eq!(layouts.into_iter().collect::<Vec<_>>(), expected);
}

/// Returns the recorded bytes of the workorder.
fn workorder_bytes(recording: &Recording, connection: usize) -> Vec<u8> {
    let messages = recording.of_connection(connection).into_iter();
    let records = messages.filter(|message| {
        let kinds = [Kind::Group, Kind::Transaction, Kind::Flowop, Kind::Ports];
        message.sender == Sender::Master && kinds.contains(&message.kind)
    });
    records.flat_map(|message| message.bytes).collect()
}

#[test]
fn refusals_equal_stock() {
    let answer = |name: &str, kind| {
        let messages = recording(name).messages.into_iter();
        let mut answers = messages.filter(|message| message.kind == kind);
        answers.next().expect("the recording has an answer").bytes
    };
    for (name, refusal) in [
        (
            "refused-version",
            WorkRefusal::Version(uperf::wire::Text::truncated("0.3")),
        ),
        ("refused-protocol", WorkRefusal::Protocol(5)),
    ] {
        let ours = Phase1Answer::Refused(refusal.reason());
        assert_eq!(ours.encode()[..], answer(name, Kind::Ack1), "{name}");
    }
    let ours =
        Phase2Answer::Refused(WorkRefusal::Ports("Address already in use".to_owned()).reason());
    let stock = answer("refused-port", Kind::Ack2);
    assert_eq!(Phase2Answer::decode(array(&stock), Endian::Little), ours);
}

#[test]
fn headers_equal_stock() {
    let cases: [(&str, &[DataProtocol], u32); 3] = [
        ("two-hosts", &[DataProtocol::Udp, DataProtocol::Tcp], 0),
        ("ssl", &[DataProtocol::Ssl], 0),
        ("rr-tcp-accept-2threads", &[DataProtocol::Tcp], 2),
    ];
    for (name, protocols, slave_infos) in cases {
        let messages = recording(name).of_connection(0).into_iter();
        let headers = messages.filter(|message| message.kind == Kind::Header);
        let headers: Vec<_> = headers.map(|header| header.bytes).collect();
        let version = DataVersion::V0_3_1;
        let ours = [
            Header::for_phase_1(version, protocols.iter().copied()),
            Header::for_phase_2(version, slave_infos),
        ];
        assert_eq!(
            ours.map(|header| header.encode(Endian::Little))[..],
            headers,
            "{name}"
        );
    }
    let old_header = Header::for_phase_1(DataVersion::V0_3, [DataProtocol::Tcp]);
    let recorded = &recording("refused-version").messages[0].bytes;
    assert_eq!(old_header.encode(Endian::Little), *recorded);
}

#[test]
fn decodes_recorded_goodbyes() {
    let goodbye = |name: &str, connection| {
        let recording = recording(name);
        let messages = recording.of_connection(connection).into_iter();
        let mut goodbyes = messages.filter(|message| message.kind == Kind::Goodbye);
        let bytes = goodbyes.next().expect("the recording has a goodbye").bytes;
        Goodbye::decode(array(&bytes), recording.order).expect("the goodbye is valid")
    };
    let simple = goodbye("rr-tcp-connect", 0);
    assert_eq!((simple.kind, simple.operations), (Goodbye::INFO, 57_201));
    assert_eq!(
        (simple.bytes, simple.elapsed_ns),
        (3_660_672, 4_305_343_074)
    );
    assert!(simple.message == *"Success");

    let big_endian = goodbye("big-endian-master", 0);
    assert_eq!(
        (big_endian.kind, big_endian.operations, big_endian.bytes),
        (Goodbye::INFO, 4, 10)
    );

    let failed = goodbye("two-hosts-failing", 1);
    assert_eq!(failed.kind, Goodbye::ERROR);
    assert!(failed.message == *" No such connection 7  \n");
}

/// The assignment of a slave with a big-endian master.
#[test]
fn decodes_work_of_big_endian_master() {
    let recording = recording("big-endian-master");
    let received = recording
        .workorder(0)
        .expect("the recording has a workorder");
    let is_tcp = |protocol| protocol == DataProtocol::Tcp;
    let assigned =
        peer_workorder::group_from_work(&received.work, "::1", &WorkLimits::default(), is_tcp);
    let group = assigned.expect("the slave accepts the work");

    let operation = |kind, size| {
        let mut flowop = Flowop::new(kind);
        flowop.connection = 7;
        flowop.transfer.amount = Amount::Exactly(size);
        flowop.endpoint.protocol = Some(DataProtocol::Tcp);
        "::1".clone_into(&mut flowop.endpoint.remote_host);
        flowop
    };
    let once = |flowops| TransactionSpec {
        iterations: 1,
        flowops,
        ..TransactionSpec::default()
    };
    let expected = GroupSpec {
        name: "Group0".to_owned(),
        strands: StrandCount {
            count: 1,
            threads: true,
            processes: false,
        },
        transactions: vec![
            once(vec![operation(Op::Accept, 0), operation(Op::Read, 10)]),
            once(vec![operation(Op::Disconnect, 0)]),
        ],
    };
    assert_eq!(group, expected);
}
