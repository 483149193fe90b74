//! Recorded datagrams of the stock programs, decoded and encoded again, and the same with some bytes changed.

use testkit::Transcript;
use testkit::fuzz;
use udpmon::wire::{
    Block, Capability, Command, CounterImage, CpuLoad, Details, Histogram, LostRecord, NicCounters,
    PacketRecord, Part, aligned,
};

const RECORDED: &str = include_str!("data/transcripts.txt");

/// The requests of a kind in a run, each with its reply.
fn replies(run: &str, command: Command) -> Vec<(Block, Vec<u8>)> {
    let packets = Transcript::named(RECORDED, run).packets;
    let pairs = packets.windows(2).filter_map(|pair| {
        let request = Block::read(&pair[0].bytes)?;
        let is_pair = pair[0].is_request && !pair[1].is_request && pair[1].is_complete;
        (is_pair && request.command() == Some(command)).then(|| (request, pair[1].bytes.clone()))
    });
    pairs.collect()
}

/// An image whose parts a run asked for one after the other, up to the first that is complete.
fn image(run: &str, command: Command) -> Vec<u8> {
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

fn data(run: &str) -> Vec<Block> {
    let packets = Transcript::named(RECORDED, run).packets;
    let blocks = packets.iter().filter(|packet| packet.is_request);
    let blocks = blocks.filter_map(|packet| Block::read(&packet.bytes));
    blocks
        .filter(|block| block.command() == Some(Command::Data))
        .collect()
}

#[test]
fn blocks_come_back() {
    let mut known = 0;
    for run in Transcript::read(RECORDED) {
        for packet in run.packets.iter().filter(|packet| packet.is_complete) {
            let Some(block) = Block::read(&packet.bytes) else {
                continue;
            };
            let mut again = packet.bytes.clone();
            let fields = again.len().min(84);
            again[..fields].fill(0);
            block.write(&mut again);
            if packet.bytes.len() >= 88 {
                again[84..88].copy_from_slice(&packet.bytes[84..88]);
            }
            assert_eq!(again, packet.bytes, "{}: {block:?}", run.name);
            assert_eq!(Capability::find(&packet.bytes), None);
            known += usize::from(block.command().is_some());
        }
    }
    assert!(known > 300, "{known}");
}

#[test]
fn statistics_are_where_they_are_looked_for() {
    for (run, [received, lost, bad_order]) in [
        ("bw-basic", [10, 0, 0]),
        ("bw-x-cpuload", [20, 0, 0]),
        ("bw-G-loss-reorder-dup", [11, 3, 2]),
        ("edge-cases", [7, 3, 2]),
    ] {
        let replies = replies(run, Command::GetStats);
        let found = Block::read(&replies.last().unwrap().1).unwrap();
        assert_eq!(
            [found.received, found.lost, found.bad_order],
            [received, lost, bad_order],
            "{run}"
        );
    }
    let last = data("bw-basic")[9];
    assert_eq!((last.number, last.sent), (9, 16_048));
    let settings = replies("bw-G-hist", Command::ZeroStats)[0].0;
    assert_eq!(
        (settings.version, settings.length, settings.skip),
        (0, 320, 2)
    );
    let answer = Block::read(&replies("req", Command::Request)[0].1).unwrap();
    assert_eq!(
        (answer.command(), answer.responded),
        (Some(Command::Response), 750)
    );
}

#[test]
fn images_come_back() {
    let bytes = image("bw-basic", Command::GetHistogram);
    let histogram = Histogram::decode(&bytes).unwrap();
    assert_eq!(histogram.encode(), bytes);
    assert_eq!(
        (histogram.in_range(), histogram.overflow(), histogram.sum),
        (9, 1, 82)
    );
    assert!(histogram.title == *"Time between frames 0.1us");

    let counters = CounterImage::decode(&image("bw-basic", Command::GetCounters)).unwrap();
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
        CounterImage::decode(&CounterImage::encode(&counters)),
        Some(counters)
    );

    let bytes = image("bw-x-cpuload", Command::GetCpuLoad);
    let loads = CpuLoad::decode_all(&bytes);
    assert_eq!(
        loads.iter().map(|load| load.idle).collect::<Vec<_>>(),
        [100; 3]
    );
    assert_eq!(CpuLoad::encode_all(&loads), bytes);

    let bytes = image("bw-basic", Command::GetNic);
    assert_eq!(NicCounters::decode(&bytes).unwrap().encode()[..], bytes);
}

#[test]
fn records_lie_where_their_packets_belong() {
    let records = PacketRecord::decode_all(&image("bw-N-tstamps", Command::GetRecords));
    assert_eq!((records.len(), records[0].sent), (10, 107_848));
    assert!(
        records
            .iter()
            .all(|record| record.kernel_ns > 0 && record.hardware_ns == 0)
    );

    let run = "bw-G-loss-reorder-dup";
    let image_of_stock = image(run, Command::GetRecords);
    // One packet every 200 µs; those that the relay dropped are not among the recorded ones.
    let mut sent = vec![0; 12];
    for block in data(run) {
        sent[block.number as usize] = block.sent;
    }
    (sent[3], sent[4]) = (261_065, 263_065);
    let records = aligned(&image_of_stock, &sent);
    for (number, record) in records.iter().enumerate() {
        // The last record lay behind the end of the memory.
        let is_lost = [3, 4, 11].contains(&number);
        assert_eq!(
            record.sent,
            if is_lost { 0 } else { sent[number] },
            "{number}"
        );
        assert_eq!(record.came == 0, is_lost);
    }
    assert!(records[6].came > records[7].came, "6 was late");

    let lost = LostRecord::decode_all(&image("bw-L-lost-log", Command::GetRecords));
    let numbers: Vec<_> = lost.iter().map(|record| record.number).collect();
    assert_eq!(numbers, [3, 4, 6, 10, 0, 0]);
    assert_eq!((lost[2].came, lost[2].sent), (318_439, 293_380));
}

#[test]
fn nothing_that_comes_breaks_a_decoder() {
    let runs = Transcript::read(RECORDED);
    let packets: Vec<_> = runs.iter().flat_map(|run| &run.packets).collect();
    let counters = image("bw-basic", Command::GetCounters);
    let records = image("bw-G-loss-reorder-dup", Command::GetRecords);
    fuzz::fewer("datagrams", 4, 1..=100, |rng| {
        let recorded = &fuzz::one_of(rng, &packets).bytes;
        let datagram = fuzz::damaged(rng, recorded);
        let block = Block::read(&datagram);
        if let Some(block) = block {
            assert_eq!(Block::read(&block.encode()), Some(block));
        }
        let _ = (
            Capability::find(&datagram),
            Part::decode(&datagram),
            Details::decode(&datagram),
        );
        if let Some(nic) = NicCounters::decode(&datagram) {
            assert!(nic.values().count() <= NicCounters::NAMES.len());
        }
        let _ = CpuLoad::decode_all(&datagram);
        if let Some(counters) = CounterImage::decode(&fuzz::damaged(rng, &counters)) {
            assert!(CounterImage::decode(&CounterImage::encode(&counters)).is_some());
        }
        let mut image = vec![0; Histogram::LEN];
        fuzz::overwrite(rng, &mut image);
        let mut histogram = Histogram::decode(&image).unwrap();
        histogram.record(i64::MIN);
        let _ = (histogram.mean(), histogram.in_range());
        let damaged = fuzz::damaged(rng, &records);
        assert_eq!(
            aligned(&damaged, &[255_065, 257_065]).len(),
            damaged.len() / 16 / 2
        );
        block.is_some_and(|block| block.command().is_some())
    });
}
