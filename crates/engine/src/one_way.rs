//! One-directional loops other than `loops/bulk.rs`. They send and receive numbered datagrams, or
//! receive streams. The stream loops count receive calls by size, discard the data in the kernel,
//! or write it to a file.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use model::{DatagramFormat, EndCause, EndpointPlan, IoMethod, Operation, Workload};
use sys::buffer::BufferRing;
use sys::call::{self, Error};
use sys::message::MessageTotals;

use crate::buffers::Buffers;
use crate::counters::Counters;
use crate::end::{Bounds, LoopResult};
use crate::hooks::OptionalHooks;
use crate::io::{self, FlowSockets, Io, unsupported};
use crate::job::FlowLoop;
use crate::loops::{bulk, numbered};
use crate::numbers::{Classifier, Numbering};
use crate::timer::timed;

/// Runs the flow loop if it needs one of this module's loops; otherwise returns `None`. `length` is
/// the time after which a sender ends by itself.
pub(crate) fn run(
    flow_loop: &mut FlowLoop<'_>,
    flow: &FlowSockets<'_>,
    bounds: Bounds<'_>,
    length: Option<Duration>,
    counters: &Counters,
) -> Option<LoopResult> {
    let endpoint = flow_loop.endpoint;
    if let Some(format) = flow_loop.datagrams {
        let datagrams = Datagrams {
            format,
            counters,
            length,
            flow_loop,
            bounds,
        };
        return Some(io::run_datagrams(flow, endpoint, datagrams));
    }
    let FlowSockets::Connected(socket) = *flow else {
        return None;
    };
    let is_receiver = *flow_loop.workload == Workload::receive();
    let Buffers {
        receive,
        save_file: save,
        ..
    } = &mut *flow_loop.buffers;
    let ring = receive.as_mut().filter(|_| is_receiver)?;
    if let Some(file) = save {
        return Some(receive_stream(bounds, || {
            bulk::receive_to_file(socket, ring, file)
        }));
    }
    if endpoint.count_receive_sizes {
        let (size, counts) = (ring.size() as usize, counters.receive_size_counts());
        return Some(receive_stream(bounds, || {
            let received = call::receive(socket, ring.advance())?;
            if let Some(last_index) = received.checked_sub(1) {
                let count = &counts.0[last_index * 8 / size];
                // This thread is the only writer.
                count.store(count.load(Relaxed) + 1, Relaxed);
            }
            Ok(MessageTotals::single(received))
        }));
    }
    (endpoint.io == IoMethod::Trunc).then(|| {
        receive_stream(bounds, || {
            call::receive_truncated(socket, ring.advance()).map(MessageTotals::single)
        })
    })
}

/// Receives a stream with `call`.
fn receive_stream(
    bounds: Bounds<'_>,
    mut call: impl FnMut() -> Result<MessageTotals, Error>,
) -> LoopResult {
    bulk::receive(|(): &mut (), _| call(), bounds, &mut (), &mut ()).into_result(bounds.stop)
}

/// Numbered datagrams in one direction.
struct Datagrams<'a, 'b> {
    format: DatagramFormat,
    counters: &'a Counters,
    length: Option<Duration>,
    flow_loop: &'a mut FlowLoop<'b>,
    bounds: Bounds<'a>,
}

impl io::MethodTask for Datagrams<'_, '_> {
    fn run(self, io: &impl Io) -> LoopResult {
        let (format, bounds, flow_loop) = (self.format, self.bounds, self.flow_loop);
        let Buffers {
            sizes,
            send,
            receive,
            ..
        } = &mut *flow_loop.buffers;
        match (flow_loop.workload.body.as_slice(), send, receive) {
            ([Operation::Send], Some(ring), _) => {
                let hooks = OptionalHooks::new(flow_loop.endpoint, self.length, flow_loop.warm_up);
                let max_per_call = match flow_loop.endpoint.io {
                    IoMethod::Mmsg => sizes.send_width.unwrap_or(1).into(),
                    _ => u64::MAX,
                };
                let mut numbering = Numbering::new(format, hooks, max_per_call);
                let size = sizes.send_bytes.unwrap_or(0);
                let call = io.send_call(ring, bounds.counters);
                let shared_limit = flow_loop.shared_limit;
                let result = timed!(flow_loop.timing.calls, send_times, bounds.stop, |timer| {
                    bulk::send(call, size, bounds, shared_limit, timer, &mut numbering)
                });
                let (paced, send_gaps) = numbering.hooks.finish().unzip();
                LoopResult {
                    pacing_result: paced,
                    send_gaps,
                    ..result
                }
            }
            ([Operation::Receive], _, Some(ring)) => {
                let size = ring.size() as usize;
                let counts = self.counters.datagram_writer();
                let mut classifier = Classifier::new(format, counts, flow_loop.timing.passes);
                for first in flow_loop.first_datagrams {
                    bounds.counters.count_received(first.data.len(), 1);
                    if let Some(observer) = flow_loop.observer {
                        observer.observe(&first.data, first.arrival_ns(format));
                    }
                    if classifier.classify_first(first) {
                        return LoopResult {
                            latency: classifier.delays,
                            ..EndCause::PeerClosed.into()
                        };
                    }
                }
                let mut gro_ring = new_gro_ring(flow_loop.endpoint, io);
                let (ring, size) = match &mut gro_ring {
                    Some(gro_ring) => (gro_ring, size),
                    None => (ring, usize::MAX),
                };
                let end = match flow_loop.observer {
                    None => {
                        let ignore = |_: &[u8], _| {};
                        numbered::receive(io, ring, (size, format), &mut classifier, bounds, ignore)
                    }
                    Some(observer) => {
                        let observe = |datagram: &[u8], now_ns| observer.observe(datagram, now_ns);
                        numbered::receive(
                            io,
                            ring,
                            (size, format),
                            &mut classifier,
                            bounds,
                            observe,
                        )
                    }
                };
                LoopResult {
                    latency: classifier.delays,
                    ..end.into_result(bounds.stop)
                }
            }
            _ => unsupported(),
        }
    }
}

/// Enables UDP_GRO if it is requested. Returns a buffer for the largest joined datagram of the
/// kernel; `None` if UDP_GRO is not requested or unavailable.
fn new_gro_ring(endpoint: &EndpointPlan, io: &impl Io) -> Option<BufferRing> {
    let is_requested = endpoint.io == IoMethod::Gso;
    let is_enabled =
        is_requested && sys::option::set_udp_receive_offload(io.socket(), true).is_ok();
    is_enabled
        .then(|| BufferRing::new(1, 1 << 16, 8, 0))
        .flatten()
}
