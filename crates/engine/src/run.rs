//! Selects and runs the loop of a workload.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::{Limit, Operation, Timing};
use stats::Histogram;
use sys::buffer::BufferRing;

use crate::buffers::Buffers;
use crate::connector::Connector;
use crate::counters::Counters;
use crate::end::{Bounds, LoopEnd, LoopResult};
use crate::hooks::{Hooks, OptionalHooks};
use crate::io::{self, Io, unsupported};
use crate::job::{FlowLoop, Job, JobBody, JobSockets, ScriptLoop};
use crate::loops::connections::{self, Acceptor};
use crate::loops::exchange::Exchange;
use crate::loops::{bulk, pipelined, request_response};
use crate::one_way;
use crate::script::{ConnectionManager, ScriptSettings};
use crate::stop::Stop;
use crate::timer::timed;

/// Whether the loops of `one_way.rs` are compiled in. A program that only speaks netperf does not
/// need them.
const HAS_ONE_WAY_LOOPS: bool = cfg!(feature = "one-way");

/// Runs a job to its end. The job's stop can wake the calling thread meanwhile.
pub fn run<'a>(job: &mut Job<'_>, sockets: impl Into<JobSockets<'a>>) -> LoopResult {
    let _registration = job.stop.register_thread();
    let (limit, stop, counters) = (job.limit, job.stop, job.counters);
    match (&mut job.body, sockets.into()) {
        (JobBody::Steps(steps), JobSockets::Manager(manager)) => {
            steps.run(manager, limit, stop, counters)
        }
        (JobBody::Steps(_), _) => unsupported(),
        (JobBody::Loop(body), sockets) => {
            let bounds = Bounds {
                work_left: body.budget(limit),
                stop,
                counters: counters.writer(),
            };
            let length = body.length(limit);
            if HAS_ONE_WAY_LOOPS
                && let JobSockets::Flow(flow) = &sockets
                && let Some(result) = one_way::run(body, flow, bounds, length, counters)
            {
                return result;
            }
            body.run(sockets, bounds, length)
        }
    }
}

impl ScriptLoop<'_> {
    fn run(
        &mut self,
        manager: &mut dyn ConnectionManager,
        limit: Limit,
        stop: &Stop,
        counters: &Counters,
    ) -> LoopResult {
        let settings = ScriptSettings {
            limit,
            pacing: self.pacing,
            stop,
            counters,
        };
        let (script, buffer) = (&mut *self.script, &mut *self.buffer);
        match &mut self.times {
            Some(times) => script.run(manager, &settings, buffer, *times),
            None => script.run(manager, &settings, buffer, &mut ()),
        }
    }
}

impl FlowLoop<'_> {
    /// Runs the loop. `length` is the time after which it ends by itself, if known.
    fn run(
        &mut self,
        sockets: JobSockets<'_>,
        bounds: Bounds<'_>,
        length: Option<Duration>,
    ) -> LoopResult {
        let _drain_registration = self.drain_stop.map(Stop::register_thread);
        let Some(mut hooks) = OptionalHooks::for_endpoint(self.endpoint, length, self.warm_up)
        else {
            return run_on_sockets(self, sockets, bounds, &mut ());
        };
        let result = run_on_sockets(self, sockets, bounds, &mut hooks);
        let retransmits = hooks.retransmits();
        let (paced, send_gaps) = hooks.finish().unzip();
        LoopResult {
            pacing_result: paced,
            send_gaps,
            retransmits,
            ..result
        }
    }
}

fn run_on_sockets(
    body: &mut FlowLoop<'_>,
    sockets: JobSockets<'_>,
    bounds: Bounds<'_>,
    hooks: &mut impl Hooks,
) -> LoopResult {
    match sockets {
        JobSockets::Flow(flow) => {
            let endpoint = body.endpoint;
            let task = FlowTask {
                body,
                bounds,
                hooks,
            };
            io::run(&flow, endpoint, task)
        }
        JobSockets::Connector(connector) => run_connector(body, connector, bounds, hooks),
        JobSockets::Listener(acceptor) => run_listener(body, acceptor, bounds, hooks),
        JobSockets::Manager(_) => unsupported(),
    }
}

/// A loop on open sockets.
struct FlowTask<'a, 'b, H> {
    body: &'a mut FlowLoop<'b>,
    bounds: Bounds<'a>,
    hooks: &'a mut H,
}

impl<H: Hooks> io::MethodTask for FlowTask<'_, '_, H> {
    fn run(self, io: &impl Io) -> LoopResult {
        use Operation::{Receive, ReceiveAll, Send};
        let (body, bounds, hooks) = (self.body, self.bounds, self.hooks);
        let (timing, shared_limit) = (body.timing, body.shared_limit);
        let discards = body.endpoint.discard_in_kernel && io.is_connected();
        let continues_after_timeout = body.endpoint.socket.receive_timeout.is_some();
        let Buffers {
            send,
            send_file,
            receive,
            sizes,
            ..
        } = &mut *body.buffers;
        let size = sizes.send_bytes.unwrap_or(0);
        match (body.workload.body.as_slice(), send, receive) {
            ([Send], Some(ring), _) => {
                timed!(timing.calls, send_times, bounds.stop, |timer| {
                    let call = io.send_call(ring, bounds.counters);
                    bulk::send(call, size, bounds, shared_limit, timer, hooks)
                })
            }
            ([Send], None, _) => {
                let Some(file) = send_file else {
                    return unsupported();
                };
                let call = |_: &mut H, _| file.send(io.socket());
                timed!(timing.calls, send_times, bounds.stop, |timer| {
                    bulk::send(call, size, bounds, shared_limit, timer, hooks)
                })
            }
            ([Receive], _, Some(ring)) if discards => {
                let call = match io::discard(io.socket(), ring.size()) {
                    Ok(call) => call,
                    Err(error) => return LoopEnd::from_io("pipe", &error).into_result(bounds.stop),
                };
                timed!(timing.calls, receive_times, bounds.stop, |timer| {
                    bulk::receive(call, bounds, timer, hooks)
                })
            }
            ([Receive], _, Some(ring)) => {
                timed!(timing.calls, receive_times, bounds.stop, |timer| {
                    let call = io.receive_call(ring, bounds.counters);
                    bulk::receive(call, bounds, timer, hooks)
                })
            }
            ([Send, ReceiveAll], Some(requests), Some(responses)) => {
                let mut exchange = Exchange {
                    requests,
                    responses,
                    can_retry: continues_after_timeout,
                };
                run_requester(io, &mut exchange, body.burst, timing, bounds, hooks)
            }
            ([ReceiveAll, Send], Some(responses), Some(requests)) => {
                let mut exchange = Exchange {
                    requests,
                    responses,
                    can_retry: continues_after_timeout,
                };
                request_response::run_responder(io, &mut exchange, bounds, hooks)
                    .into_result(bounds.stop)
            }
            _ => unsupported(),
        }
    }
}

/// Receives the datagrams that arrive after the test's time, up to the peer's end mark, and counts
/// them separately. Stop the clock first, because this can take long.
pub fn receive_late(
    socket: BorrowedFd<'_>,
    buffers: &mut Buffers,
    stop: &Stop,
    counters: &Counters,
) {
    let _registration = stop.register_thread();
    if let Some(ring) = &mut buffers.receive {
        bulk::receive_late(socket, ring, stop, counters.writer());
    }
}

fn run_connector(
    body: &mut FlowLoop<'_>,
    connector: &mut Connector,
    bounds: Bounds<'_>,
    hooks: &mut impl Hooks,
) -> LoopResult {
    let exchange = paired_buffers(&mut body.buffers.send, &mut body.buffers.receive);
    let closes_first = body.workload.body.contains(&Operation::HalfClose);
    timed!(body.timing.passes, latency, bounds.stop, |timer| {
        connections::connect(connector, exchange, closes_first, bounds, timer, hooks)
    })
}

fn run_listener(
    body: &mut FlowLoop<'_>,
    acceptor: &mut Acceptor,
    bounds: Bounds<'_>,
    hooks: &mut impl Hooks,
) -> LoopResult {
    let drain_stop = body.drain_stop.unwrap_or(bounds.stop);
    // This end sends the responses.
    let exchange = paired_buffers(&mut body.buffers.receive, &mut body.buffers.send);
    let options = &body.endpoint.socket;
    connections::accept(acceptor, exchange, bounds, drain_stop, options, hooks)
        .into_result(bounds.stop)
}

/// Pairs the buffers of an exchange. Returns `None` for a workload without data, which has no
/// buffers.
fn paired_buffers<'a>(
    requests: &'a mut Option<BufferRing>,
    responses: &'a mut Option<BufferRing>,
) -> Option<Exchange<'a>> {
    Some(Exchange {
        requests: requests.as_mut()?,
        responses: responses.as_mut()?,
        can_retry: false,
    })
}

fn run_requester(
    io: &impl Io,
    exchange: &mut Exchange<'_>,
    burst: u32,
    timing: Timing,
    bounds: Bounds<'_>,
    hooks: &mut impl Hooks,
) -> LoopResult {
    if burst == 0 {
        return timed!(timing.passes, latency, bounds.stop, |timer| {
            request_response::run_requester(io, exchange, bounds, timer, hooks)
        });
    }
    let mut times = timing.passes.then(Histogram::default);
    let window = burst as usize + 1;
    let end = pipelined::run_requester(io, exchange, window, bounds, times.as_mut(), hooks);
    LoopResult {
        latency: times,
        ..end.into_result(bounds.stop)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use model::Transport::Tcp;
    use model::{BufferPlan, EndCause, EndpointPlan, SocketFacts, Touch, Workload};

    use super::*;
    use crate::{BufferMemory, FlowSockets};

    const SIZE: usize = 6;

    /// Each loop touches the requested part of the data that it sends and receives.
    #[test]
    fn every_loop_touches_its_data() {
        let endpoint = EndpointPlan {
            send: BufferPlan::message(SIZE as u32),
            receive: BufferPlan::message(SIZE as u32),
            touch: Touch {
                send_dirty_bytes: Some(2),
                receive_dirty_bytes: Some(3),
                receive_clean_bytes: Some(1),
            },
            ..EndpointPlan::default()
        };
        for (workload, burst) in [
            (Workload::send(), 0),
            (Workload::receive(), 0),
            (Workload::request(), 0),
            (Workload::request(), 2),
            (Workload::respond(), 0),
            (Workload::connect_and_request(), 0),
            (Workload::accept_and_respond(), 0),
        ] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let address = listener.local_addr().unwrap();
            let (facts, memory) = (SocketFacts::default(), BufferMemory::new(1 << 20, 1 << 20));
            let buffers = Buffers::new(&endpoint, &workload, Tcp, &facts, None, b"a", &memory);
            let mut buffers = buffers.unwrap();
            let (stop, counters) = (Stop::new(), Counters::default());
            let limit = if workload.is_transactional() {
                Limit::Transactions(1)
            } else {
                Limit::Bytes(SIZE as u64)
            };
            let mut job = Job {
                body: JobBody::Loop(FlowLoop {
                    workload: &workload,
                    burst,
                    timing: Timing::default(),
                    datagrams: None,
                    first_datagrams: &[],
                    observer: None,
                    shared_limit: None,
                    warm_up: Duration::ZERO,
                    endpoint: &endpoint,
                    buffers: &mut buffers,
                    drain_stop: None,
                }),
                limit,
                stop: &stop,
                counters: &counters,
            };
            let has_connection_per_pass = workload.connects();
            let is_connector = workload.body[0] == Operation::Connect;
            let (sends, receives) = (workload.sends(), workload.receives());
            let run_peer = move |mut peer: TcpStream| {
                let mut data = [0; SIZE];
                if receives {
                    peer.write_all(b"xxxxxx").unwrap();
                }
                if sends {
                    peer.read_exact(&mut data).unwrap();
                }
                data
            };
            let (result, peer_received) = std::thread::scope(|scope| {
                if is_connector {
                    let peer = scope.spawn(|| run_peer(listener.accept().unwrap().0));
                    let mut connector = Connector::new(
                        Tcp,
                        address.into(),
                        SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(),
                        crate::PortRange {
                            first: 20_000,
                            end: 60_000,
                        },
                        address.port(),
                        model::SocketOptions::default(),
                        true,
                    )
                    .unwrap();
                    let result = run(&mut job, JobSockets::Connector(&mut connector));
                    return (result, peer.join().unwrap());
                }
                let peer = scope.spawn(move || run_peer(TcpStream::connect(address).unwrap()));
                let result = if has_connection_per_pass {
                    let listener = listener.try_clone().unwrap();
                    let mut acceptor = Acceptor::new(listener.into(), None, None, None);
                    run(&mut job, JobSockets::Listener(&mut acceptor))
                } else {
                    let (socket, _) = listener.accept().unwrap();
                    run(&mut job, FlowSockets::Connected(socket.as_fd()))
                };
                (result, peer.join().unwrap())
            });
            assert_eq!(result.ended, EndCause::Count, "{workload:?}");
            if sends {
                assert_eq!(peer_received, *b"bbaaaa", "{workload:?}");
            }
            if receives {
                let buffer = buffers.receive.as_mut().unwrap().advance();
                assert_eq!(buffer, b"yyyxxx", "{workload:?}");
            }
        }
    }
}
