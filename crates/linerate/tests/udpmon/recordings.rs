//! The recorded runs of stock UDPmon, and the objects that their replies carry in slices.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use testkit::Transcript;

use super::block::{self, at, command, word};

const TEXT: &str = include_str!("../../../udpmon/tests/data/transcripts.txt");

static ALL: LazyLock<Vec<Transcript>> = LazyLock::new(|| Transcript::read(TEXT));

/// Each recorded run.
pub(crate) fn all() -> &'static [Transcript] {
    &ALL
}

/// The run of this name.
pub(crate) fn named(name: &str) -> &'static Transcript {
    let mut found = ALL.iter().filter(|transcript| transcript.name == name);
    found.next().expect(name)
}

/// An object by the command that asks for it, and a histogram's number.
pub(crate) type Objects = BTreeMap<(u32, u32), Vec<u8>>;

/// Adds a slice, whose place the request names, to its object.
pub(crate) fn join(objects: &mut Objects, request: &[u8], reply: &[u8]) {
    let (number, unit) = match command(request) {
        block::GETHIST0 => (word(request, at::LOW), 1),
        block::GETINFO1 => (0, 8),
        block::GETNETSNMP | block::GETCPULOAD | block::GETNICSTATS => (0, 1),
        _ => return,
    };
    let object = objects.entry((command(request), number)).or_default();
    let start = word(request, at::INDEX) as usize * unit;
    object.resize(object.len().max(start + reply.len()), 0);
    object[start..start + reply.len()].copy_from_slice(reply);
}

/// Each request of a run that has a reply, with it.
pub(crate) fn exchanges(run: &Transcript) -> impl Iterator<Item = (&[u8], &[u8])> {
    let pairs = run.packets.iter().zip(run.packets.iter().skip(1));
    let answered = pairs.filter(|(request, reply)| request.is_request && !reply.is_request);
    let whole = answered.filter(|(_, reply)| reply.is_complete);
    whole.map(|(request, reply)| (&request.bytes[..], &reply.bytes[..]))
}

/// All objects of a run.
pub(crate) fn objects(run: &Transcript) -> Objects {
    let mut objects = Objects::new();
    for (request, reply) in exchanges(run) {
        join(&mut objects, request, reply);
    }
    objects
}

/// The packets of data of a run, in the order in which they came to the responder.
pub(crate) fn data(run: &Transcript) -> impl Iterator<Item = &testkit::RecordedPacket> {
    let packets = run.packets.iter();
    packets.filter(|packet| packet.is_request && command(&packet.bytes) == block::DATA)
}

/// The reply to GETSTATS.
pub(crate) fn statistics(run: &Transcript) -> &[u8] {
    let mut replies = exchanges(run).filter(|(request, _)| command(request) == block::GETSTATS);
    replies.next().expect("a whole test").1
}
