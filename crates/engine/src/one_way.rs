//! One-directional loops other than `loops/bulk.rs`. They send and receive numbered datagrams, or receive streams. The
//! stream loops count receive calls by size, discard the data in the kernel, or write it to a file.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use model::{DatagramFormat, Ended, Half, IoMethod, Operation, Workload};
use sys::buffer::BufferRing;
use sys::call::{self, Error};
use sys::message::Moved;

use crate::buffers::Buffers;
use crate::counters::Counters;
use crate::end::{Bounds, Ran};
use crate::hooks::Extras;
use crate::io::{self, Flow, Io, unsupported};
use crate::job::Loop;
use crate::loops::{bulk, numbered};
use crate::numbers::{Classifier, Numbering};
use crate::timer::timed;

/// Runs the loop of a body that needs one of these; returns `None` if it needs none. `length` is the duration after
/// which a sender ends by itself.
pub(crate) fn run(
    body: &mut Loop<'_>,
    flow: &Flow<'_>,
    bounds: Bounds<'_>,
    length: Option<Duration>,
    counters: &Counters,
) -> Option<Ran> {
    let half = body.half;
    if let Some(format) = body.datagrams {
        let datagrams = Datagrams {
            format,
            counters,
            length,
            body,
            bounds,
        };
        return Some(io::run_datagrams(flow, half, datagrams));
    }
    let Flow::Connected(socket) = *flow else {
        return None;
    };
    let is_receiver = *body.workload == Workload::receive();
    let Buffers { receive, save, .. } = &mut *body.buffers;
    let ring = receive.as_mut().filter(|_| is_receiver)?;
    if let Some(file) = save {
        return Some(stream(bounds, || bulk::receive_into(socket, ring, file)));
    }
    if half.count_receive_sizes {
        let (size, counts) = (ring.size() as usize, counters.receive_size_line());
        return Some(stream(bounds, || {
            let received = call::receive(socket, ring.advance())?;
            if let Some(filled) = received.checked_sub(1) {
                let count = &counts.0[filled * 8 / size];
                // This thread is the only writer.
                count.store(count.load(Relaxed) + 1, Relaxed);
            }
            Ok(Moved::one(received))
        }));
    }
    (half.io == IoMethod::Trunc).then(|| {
        stream(bounds, || {
            call::receive_truncated(socket, ring.advance()).map(Moved::one)
        })
    })
}

/// Receives a stream with this call.
fn stream(bounds: Bounds<'_>, mut call: impl FnMut() -> Result<Moved, Error>) -> Ran {
    bulk::receive(|(): &mut ()| call(), bounds, &mut (), &mut ()).ran(bounds.stop)
}

/// Numbered datagrams in one direction.
struct Datagrams<'a, 'b> {
    format: DatagramFormat,
    counters: &'a Counters,
    length: Option<Duration>,
    body: &'a mut Loop<'b>,
    bounds: Bounds<'a>,
}

impl io::Work for Datagrams<'_, '_> {
    fn run(self, io: &impl Io) -> Ran {
        let (format, bounds, body) = (self.format, self.bounds, self.body);
        let Buffers {
            used,
            send,
            receive,
            ..
        } = &mut *body.buffers;
        match (body.workload.body.as_slice(), send, receive) {
            ([Operation::Send], Some(ring), _) => {
                let extras = Extras::new(body.half, self.length, body.warm_up);
                let most = match body.half.io {
                    IoMethod::Mmsg => used.send_width.unwrap_or(1).into(),
                    _ => u64::MAX,
                };
                let mut numbering = Numbering::new(format, extras, most);
                let size = used.send_bytes.unwrap_or(0);
                let source = io.source(ring, bounds);
                let ran = timed!(body.timing.calls, send_times, bounds.stop, |timer| {
                    bulk::send(source, size, bounds, timer, &mut numbering)
                });
                let (paced, send_gaps) = numbering.extras.finish().unzip();
                Ran {
                    paced,
                    send_gaps,
                    ..ran
                }
            }
            ([Operation::Receive], _, Some(ring)) => {
                let size = ring.size() as usize;
                let counts = self.counters.datagram_writer();
                let mut classifier = Classifier::new(format, counts, body.timing.passes);
                for first in body.first {
                    bounds.counters.received(first.data.len(), 1);
                    if let Some(watch) = body.watch {
                        watch.see(&first.data, first.came_ns(format));
                    }
                    if classifier.classify_first(first) {
                        return Ran {
                            latency: classifier.delays,
                            ..Ended::PeerClosed.into()
                        };
                    }
                }
                let mut joined = joined(body.half, io);
                let (ring, size) = match &mut joined {
                    Some(joined) => (joined, size),
                    None => (ring, usize::MAX),
                };
                let end = match body.watch {
                    None => {
                        let none = |_: &[u8], _| {};
                        numbered::receive(io, ring, (size, format), &mut classifier, bounds, none)
                    }
                    Some(watch) => {
                        let see = |datagram: &[u8], now_ns| watch.see(datagram, now_ns);
                        numbered::receive(io, ring, (size, format), &mut classifier, bounds, see)
                    }
                };
                Ran {
                    latency: classifier.delays,
                    ..end.ran(bounds.stop)
                }
            }
            _ => unsupported(),
        }
    }
}

/// Allocates room for the most datagrams that the kernel joins (UDP_GRO), if UDP_GRO is requested.
fn joined(half: &Half, io: &impl Io) -> Option<BufferRing> {
    let wants = half.io == IoMethod::Gso;
    let joins = wants && sys::option::set_udp_receive_offload(io.socket(), true).is_ok();
    joins.then(|| BufferRing::new(1, 1 << 16, 8, 0)).flatten()
}
