//! Recorded runs of stock UDPmon. Also joins the responder's objects (histograms, records, counters),
//! of which each reply carries one slice.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use testkit::Transcript;

use super::block::{self, command, offset, read_u32};

const TEXT: &str = include_str!("../../../udpmon/tests/data/transcripts.txt");

static TRANSCRIPTS: LazyLock<Vec<Transcript>> = LazyLock::new(|| Transcript::read(TEXT));

/// Returns all recorded runs.
pub(crate) fn transcripts() -> &'static [Transcript] {
    &TRANSCRIPTS
}

/// Returns the run with this name.
pub(crate) fn transcript(name: &str) -> &'static Transcript {
    let mut transcripts = TRANSCRIPTS.iter();
    let transcript = transcripts.find(|transcript| transcript.name == name);
    transcript.expect(name)
}

/// Objects by the command that requests them and the number of the histogram.
pub(crate) type Objects = BTreeMap<(u32, u32), Vec<u8>>;

/// Adds the slice of a reply to its object. The request contains its offset.
pub(crate) fn add_slice(objects: &mut Objects, request: &[u8], reply: &[u8]) {
    let (number, unit) = match command(request) {
        block::GETHIST0 => (read_u32(request, offset::HISTOGRAM_NUMBER), 1),
        block::GETINFO1 => (0, 8),
        block::GETNETSNMP | block::GETCPULOAD | block::GETNICSTATS => (0, 1),
        _ => return,
    };
    let object = objects.entry((command(request), number)).or_default();
    let start = read_u32(request, offset::INDEX) as usize * unit;
    object.resize(object.len().max(start + reply.len()), 0);
    object[start..start + reply.len()].copy_from_slice(reply);
}

/// Returns the requests of a run that have complete replies, with these replies.
pub(crate) fn exchanges(run: &Transcript) -> impl Iterator<Item = (&[u8], &[u8])> {
    let pairs = run.packets.iter().zip(run.packets.iter().skip(1));
    let answered = pairs.filter(|(request, reply)| request.is_request && !reply.is_request);
    let complete = answered.filter(|(_, reply)| reply.is_complete);
    complete.map(|(request, reply)| (&request.bytes[..], &reply.bytes[..]))
}

/// Returns all objects of a run.
pub(crate) fn objects(run: &Transcript) -> Objects {
    let mut objects = Objects::new();
    for (request, reply) in exchanges(run) {
        add_slice(&mut objects, request, reply);
    }
    objects
}

/// Returns the data packets of a run, in the order in which the responder received them.
pub(crate) fn data_packets(run: &Transcript) -> impl Iterator<Item = &testkit::RecordedPacket> {
    let packets = run.packets.iter();
    packets.filter(|packet| packet.is_request && command(&packet.bytes) == block::DATA)
}

/// Returns the reply to GETSTATS.
pub(crate) fn statistics(run: &Transcript) -> &[u8] {
    let mut replies = exchanges(run).filter(|(request, _)| command(request) == block::GETSTATS);
    replies.next().expect("a complete test").1
}
