//! Receives numbered datagrams.

use model::DatagramFormat;
use sys::buffer::BufferRing;
use sys::call::Error;

use crate::counters::Counter;
use crate::end::{Bounds, LoopEnd};
use crate::io::Io;
use crate::numbers::{Classifier, now_ns};

/// Receives until an end mark, until the budget is spent, or until the stop is set.
///
/// The kernel may have joined datagrams of `size` bytes (UDP_GRO), unless `size` is `usize::MAX`.
/// `observe` receives each datagram with its arrival time. The clock is read once per call, if
/// datagrams carry stamps. An empty datagram counts as too short for a number, not as an end mark.
pub(crate) fn receive(
    io: &impl Io,
    ring: &mut BufferRing,
    (size, format): (usize, DatagramFormat),
    classifier: &mut Classifier<'_>,
    bounds: Bounds<'_>,
    mut observe: impl FnMut(&[u8], u64),
) -> LoopEnd {
    let Bounds {
        work_left: mut budget,
        stop,
        counters,
    } = bounds;
    while !stop.is_set() {
        let buffer = ring.advance();
        match io.receive(buffer) {
            Ok(bytes) => {
                let now_ns = now_ns(format);
                // For a truncated datagram, `bytes` is its full length.
                let data = &buffer[..bytes.min(buffer.len())];
                let mut has_ended = false;
                for datagram in data.chunks(size) {
                    has_ended |= classifier.classify(datagram, now_ns);
                    observe(datagram, now_ns);
                }
                if size < usize::MAX {
                    counters.add(Counter::ReceiveBatches, 1);
                }
                counters.count_received(bytes, bytes.div_ceil(size).max(1) as u64);
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
