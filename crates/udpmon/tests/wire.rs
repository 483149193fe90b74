//! Decodes and encodes recorded datagrams of the stock programs, and decodes damaged ones.

use testkit::Transcript;
use testkit::fuzz;
use udpmon::wire::{
    ArrivalRecord, Command, CountersObject, CpuLoad, LinearHistogram, LinerateExtension,
    LostRecord, MessageBlock, NicCounters, PartHeader, ResponderDetails, align_records,
};

const RECORDED: &str = include_str!("data/transcripts.txt");

/// Returns the requests with this command in a run, each with its reply.
fn replies(run: &str, command: Command) -> Vec<(MessageBlock, Vec<u8>)> {
    let packets = Transcript::find(RECORDED, run).packets;
    let pairs = packets.windows(2).filter_map(|pair| {
        let request = MessageBlock::read(&pair[0].bytes)?;
        let is_pair = pair[0].is_request && !pair[1].is_request && pair[1].is_complete;
        (is_pair && request.command() == Some(command)).then(|| (request, pair[1].bytes.clone()))
    });
    pairs.collect()
}

/// Returns the first complete object that a run received in parts.
fn received_image(run: &str, command: Command) -> Vec<u8> {
    let mut image = Vec::new();
    for (request, reply) in replies(run, command) {
        let is_next =
            request.offset as usize == image.len() && request.length as usize == reply.len();
        assert!(is_next || request.offset == 0, "{run}");
        if !is_next {
            break;
        }
        image.extend(reply);
    }
    image
}

/// Returns the blocks of a run's data packets.
fn data_blocks(run: &str) -> Vec<MessageBlock> {
    let packets = Transcript::find(RECORDED, run).packets;
    let blocks = packets.iter().filter(|packet| packet.is_request);
    let blocks = blocks.filter_map(|packet| MessageBlock::read(&packet.bytes));
    blocks
        .filter(|block| block.command() == Some(Command::Data))
        .collect()
}

#[test]
fn blocks_round_trip() {
    let mut known_commands = 0;
    for run in Transcript::read(RECORDED) {
        for packet in run.packets.iter().filter(|packet| packet.is_complete) {
            let Some(block) = MessageBlock::read(&packet.bytes) else {
                continue;
            };
            let mut encoded = packet.bytes.clone();
            let field_bytes = encoded.len().min(84);
            encoded[..field_bytes].fill(0);
            block.write(&mut encoded);
            if packet.bytes.len() >= 88 {
                encoded[84..88].copy_from_slice(&packet.bytes[84..88]);
            }
            assert_eq!(encoded, packet.bytes, "{}: {block:?}", run.name);
            assert_eq!(LinerateExtension::find(&packet.bytes), None);
            known_commands += usize::from(block.command().is_some());
        }
    }
    assert!(known_commands > 300, "{known_commands}");
}

#[test]
fn statistics_are_decoded() {
    for (run, [received, lost, bad_order]) in [
        ("bw-basic", [10, 0, 0]),
        ("bw-x-cpuload", [20, 0, 0]),
        ("bw-G-loss-reorder-dup", [11, 3, 2]),
        ("edge-cases", [7, 3, 2]),
    ] {
        let replies = replies(run, Command::GetStats);
        let found = MessageBlock::read(&replies.last().unwrap().1).unwrap();
        assert_eq!(
            [found.received, found.lost, found.bad_order],
            [received, lost, bad_order],
            "{run}"
        );
    }
    let last = data_blocks("bw-basic")[9];
    assert_eq!((last.number, last.sent), (9, 16_048));
    let settings = replies("bw-G-hist", Command::ZeroStats)[0].0;
    assert_eq!(
        (settings.version, settings.length, settings.skip),
        (0, 320, 2)
    );
    let answer = MessageBlock::read(&replies("req", Command::Request)[0].1).unwrap();
    assert_eq!(
        (answer.command(), answer.responded),
        (Some(Command::Response), 750)
    );
}

#[test]
fn images_round_trip() {
    let bytes = received_image("bw-basic", Command::GetHistogram);
    let histogram = LinearHistogram::decode(&bytes).unwrap();
    assert_eq!(histogram.encode(), bytes);
    assert_eq!(
        (
            histogram.binned_count(),
            histogram.overflow(),
            histogram.sum
        ),
        (9, 1, 82)
    );
    assert!(histogram.title == *"Time between frames 0.1us");

    let counters =
        CountersObject::decode(&received_image("bw-basic", Command::GetCounters)).unwrap();
    let lo = &counters.interfaces[..];
    assert!(lo.len() == 1 && lo[0].name == *"lo", "{lo:?}");
    assert_eq!(lo[0].values, [12, 2752, 0, 0, 12, 2752, 0, 0]);
    assert_eq!(
        (
            counters.protocols.udp_in_datagrams,
            counters.protocols.ip_out_requests
        ),
        (12, 12)
    );
    assert_eq!(
        CountersObject::decode(&CountersObject::encode(&counters)),
        Some(counters)
    );

    let bytes = received_image("bw-x-cpuload", Command::GetCpuLoad);
    let loads = CpuLoad::decode_all(&bytes);
    assert_eq!(
        loads.iter().map(|load| load.idle).collect::<Vec<_>>(),
        [100; 3]
    );
    assert_eq!(CpuLoad::encode_all(&loads), bytes);

    let bytes = received_image("bw-basic", Command::GetNic);
    assert_eq!(NicCounters::decode(&bytes).unwrap().encode()[..], bytes);
}

#[test]
fn records_match_their_packets() {
    let records = ArrivalRecord::decode_all(&received_image("bw-N-tstamps", Command::GetRecords));
    assert_eq!((records.len(), records[0].sent), (10, 107_848));
    assert!(
        records
            .iter()
            .all(|record| record.kernel_ns > 0 && record.hardware_ns == 0)
    );

    let run = "bw-G-loss-reorder-dup";
    let stock_image = received_image(run, Command::GetRecords);
    // The run sent a packet every 200 µs. The recording lacks the packets that the relay dropped.
    let mut send_times = vec![0; 12];
    for block in data_blocks(run) {
        send_times[block.number as usize] = block.sent;
    }
    (send_times[3], send_times[4]) = (261_065, 263_065);
    let records = align_records(&stock_image, &send_times);
    for (number, record) in records.iter().enumerate() {
        // The last record was beyond the end of the responder's memory.
        let is_lost = [3, 4, 11].contains(&number);
        assert_eq!(
            record.sent,
            if is_lost { 0 } else { send_times[number] },
            "{number}"
        );
        assert_eq!(record.arrival == 0, is_lost);
    }
    assert!(records[6].arrival > records[7].arrival, "6 was late");

    let lost = LostRecord::decode_all(&received_image("bw-L-lost-log", Command::GetRecords));
    let numbers: Vec<_> = lost.iter().map(|record| record.number).collect();
    assert_eq!(numbers, [3, 4, 6, 10, 0, 0]);
    assert_eq!((lost[2].arrival, lost[2].sent), (318_439, 293_380));
}

#[test]
fn decoders_accept_any_datagram() {
    let runs = Transcript::read(RECORDED);
    let packets: Vec<_> = runs.iter().flat_map(|run| &run.packets).collect();
    let counters = received_image("bw-basic", Command::GetCounters);
    let records = received_image("bw-G-loss-reorder-dup", Command::GetRecords);
    fuzz::run_one_in("datagrams", 4, 1..=100, |rng| {
        let recorded = &fuzz::choose(rng, &packets).bytes;
        let datagram = fuzz::damage(rng, recorded);
        let block = MessageBlock::read(&datagram);
        if let Some(block) = block {
            assert_eq!(MessageBlock::read(&block.encode()), Some(block));
        }
        let _ = (
            LinerateExtension::find(&datagram),
            PartHeader::decode(&datagram),
            ResponderDetails::decode(&datagram),
        );
        if let Some(nic) = NicCounters::decode(&datagram) {
            assert!(nic.values().count() <= NicCounters::NAMES.len());
        }
        let _ = CpuLoad::decode_all(&datagram);
        if let Some(counters) = CountersObject::decode(&fuzz::damage(rng, &counters)) {
            assert!(CountersObject::decode(&CountersObject::encode(&counters)).is_some());
        }
        let mut image = vec![0; LinearHistogram::LEN];
        fuzz::overwrite_randomly(rng, &mut image);
        let mut histogram = LinearHistogram::decode(&image).unwrap();
        histogram.record(i64::MIN);
        let _ = (histogram.mean(), histogram.binned_count());
        let damaged = fuzz::damage(rng, &records);
        assert_eq!(
            align_records(&damaged, &[255_065, 257_065]).len(),
            damaged.len() / 16 / 2
        );
        block.is_some_and(|block| block.command().is_some())
    });
}
