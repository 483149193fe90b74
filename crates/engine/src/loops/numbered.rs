//! One direction of numbered datagrams.

use model::DatagramFormat;
use sys::buffer::BufferRing;
use sys::call::Error;

use crate::counters::Counter;
use crate::end::{Bounds, LoopEnd};
use crate::io::Io;
use crate::numbers::{Classifier, now_ns};

/// Receives until a datagram marks the end, the budget is spent or somebody stops it. The kernel may have joined
/// datagrams of `size` bytes, if that is not the most.
///
/// `see` is shown each datagram with the time of its arrival. An empty datagram is one of too few bytes, and no end. A clock is read for each call if datagrams have stamps.
pub(crate) fn receive(
    io: &impl Io,
    ring: &mut BufferRing,
    (size, format): (usize, DatagramFormat),
    classifier: &mut Classifier<'_>,
    bounds: Bounds<'_>,
    mut see: impl FnMut(&[u8], u64),
) -> LoopEnd {
    let Bounds {
        mut budget,
        stop,
        counters,
    } = bounds;
    while !stop.is_set() {
        let buffer = ring.advance();
        match io.receive(buffer) {
            Ok(bytes) => {
                let now_ns = now_ns(format);
                // Of a datagram that is cut off, the length is that of the whole.
                let data = &buffer[..bytes.min(buffer.len())];
                let mut has_ended = false;
                for datagram in data.chunks(size) {
                    has_ended |= classifier.classify(datagram, now_ns);
                    see(datagram, now_ns);
                }
                if size < usize::MAX {
                    counters.add(Counter::ReceiveBatches, 1);
                }
                counters.received(bytes, bytes.div_ceil(size).max(1) as u64);
                if has_ended {
                    return LoopEnd::PeerClosed;
                }
                if budget.spend(bytes as u64) {
                    return LoopEnd::Count;
                }
            }
            Err(Error::INTR) => {}
            Err(error) => return LoopEnd::from_call("receive", error),
        }
    }
    LoopEnd::Stopped
}
