//! From a workload, as data, to the loop that runs it.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::{Limit, Operation, Timing};
use stats::Histogram;
use sys::buffer::BufferRing;

use crate::buffers::Buffers;
use crate::connector::Connector;
use crate::counters::Counters;
use crate::end::{Bounds, LoopEnd, Ran};
use crate::hooks::{Extras, Hooks};
use crate::io::{self, Io, unsupported};
use crate::job::{Job, JobBody, Loop, Path, Steps};
use crate::loops::connection_test::{self, Accepting};
use crate::loops::exchange::Exchange;
use crate::loops::{bulk, pipelined, request_response};
use crate::one_way;
use crate::script::{ConnectionManager, Orders};
use crate::stop::Stop;
use crate::timer::timed;

/// Whether the loops of `one_way.rs` are here. A program of netperf alone never runs them.
const ONE_WAY: bool = cfg!(feature = "one-way");

/// Runs a job to its end, and attends its stop meanwhile.
pub fn run<'a>(job: &mut Job<'_>, path: impl Into<Path<'a>>) -> Ran {
    let _attending = job.stop.attend();
    let (limit, stop, counters) = (job.limit, job.stop, job.counters);
    match (&mut job.body, path.into()) {
        (JobBody::Steps(steps), Path::Manager(manager)) => {
            steps.run(manager, limit, stop, counters)
        }
        (JobBody::Steps(_), _) => unsupported(),
        (JobBody::Loop(body), path) => {
            let bounds = Bounds {
                budget: body.budget(limit),
                stop,
                counters: counters.writer(),
            };
            let length = body.length(limit);
            if ONE_WAY
                && let Path::Flow(flow) = &path
                && let Some(ran) = one_way::run(body, flow, bounds, length, counters)
            {
                return ran;
            }
            body.run(path, bounds, length)
        }
    }
}

impl Steps<'_> {
    fn run(
        &mut self,
        manager: &mut dyn ConnectionManager,
        limit: Limit,
        stop: &Stop,
        counters: &Counters,
    ) -> Ran {
        let orders = Orders {
            limit,
            pacing: self.pacing,
            stop,
            counters,
        };
        let (script, buffer) = (&mut *self.script, &mut *self.buffer);
        match &mut self.times {
            Some(times) => script.run(manager, &orders, buffer, *times),
            None => script.run(manager, &orders, buffer, &mut ()),
        }
    }
}

impl Loop<'_> {
    /// `length` is how long it goes on of its own accord, if that is known.
    fn run(&mut self, path: Path<'_>, bounds: Bounds<'_>, length: Option<Duration>) -> Ran {
        let _attending_drain = self.drain.map(Stop::attend);
        let Some(mut extras) = Extras::of(self.half, length, self.warm_up) else {
            return on_path(self, path, bounds, &mut ());
        };
        let ran = on_path(self, path, bounds, &mut extras);
        let retransmits = extras.retransmits();
        let (paced, send_gaps) = extras.finish().unzip();
        Ran {
            paced,
            send_gaps,
            retransmits,
            ..ran
        }
    }
}

fn on_path(body: &mut Loop<'_>, path: Path<'_>, bounds: Bounds<'_>, hooks: &mut impl Hooks) -> Ran {
    match path {
        Path::Flow(flow) => {
            let half = body.half;
            let work = OnFlow {
                body,
                bounds,
                hooks,
            };
            io::run(&flow, half, work)
        }
        Path::Connector(connector) => on_connector(body, connector, bounds, hooks),
        Path::Listener(accepting) => on_listener(body, accepting, bounds, hooks),
        Path::Manager(_) => unsupported(),
    }
}

/// A loop on open sockets.
struct OnFlow<'a, 'b, H> {
    body: &'a mut Loop<'b>,
    bounds: Bounds<'a>,
    hooks: &'a mut H,
}

impl<H: Hooks> io::Work for OnFlow<'_, '_, H> {
    fn run(self, io: &impl Io) -> Ran {
        use Operation::{Receive, ReceiveAll, Send};
        let (body, bounds, hooks) = (self.body, self.bounds, self.hooks);
        let timing = body.timing;
        let discard = body.half.discard_in_kernel && io.is_connected();
        let asks_again = body.half.socket.receive_timeout.is_some();
        let Buffers {
            send,
            send_file,
            receive,
            used,
            ..
        } = &mut *body.buffers;
        let size = used.send_bytes.unwrap_or(0);
        match (body.workload.body.as_slice(), send, receive) {
            ([Send], Some(ring), _) => {
                timed!(timing.calls, send_times, bounds.stop, |timer| {
                    bulk::send(io.source(ring, bounds), size, bounds, timer, hooks)
                })
            }
            ([Send], None, _) => {
                let Some(file) = send_file else {
                    return unsupported();
                };
                let call = |_: &mut H| file.send(io.socket());
                timed!(timing.calls, send_times, bounds.stop, |timer| {
                    bulk::send(call, size, bounds, timer, hooks)
                })
            }
            ([Receive], _, Some(ring)) if discard => {
                let call = match io::discard(io.socket(), ring.size()) {
                    Ok(call) => call,
                    Err(error) => return LoopEnd::from_io("pipe", &error).ran(bounds.stop),
                };
                timed!(timing.calls, receive_times, bounds.stop, |timer| {
                    bulk::receive(call, bounds, timer, hooks)
                })
            }
            ([Receive], _, Some(ring)) => {
                timed!(timing.calls, receive_times, bounds.stop, |timer| {
                    bulk::receive(io.sink(ring, bounds), bounds, timer, hooks)
                })
            }
            ([Send, ReceiveAll], Some(requests), Some(responses)) => {
                let mut exchange = Exchange {
                    requests,
                    responses,
                    asks_again,
                };
                ask(io, &mut exchange, body.burst, timing, bounds, hooks)
            }
            ([ReceiveAll, Send], Some(responses), Some(requests)) => {
                let mut exchange = Exchange {
                    requests,
                    responses,
                    asks_again,
                };
                request_response::answer(io, &mut exchange, bounds, hooks).ran(bounds.stop)
            }
            _ => unsupported(),
        }
    }
}

/// Receives the datagrams that come after the test's time, to the peer's end mark; they are counted
/// apart. The clock must have been stopped before: this can last.
pub fn receive_late(
    socket: BorrowedFd<'_>,
    buffers: &mut Buffers,
    stop: &Stop,
    counters: &Counters,
) {
    let _attending = stop.attend();
    if let Some(ring) = &mut buffers.receive {
        bulk::receive_late(socket, ring, stop, counters.writer());
    }
}

fn on_connector(
    body: &mut Loop<'_>,
    connector: &mut Connector,
    bounds: Bounds<'_>,
    hooks: &mut impl Hooks,
) -> Ran {
    let exchange = exchange(&mut body.buffers.send, &mut body.buffers.receive);
    let closes_first = body.workload.body.contains(&Operation::HalfClose);
    timed!(body.timing.passes, latency, bounds.stop, |timer| {
        connection_test::connect(connector, exchange, closes_first, bounds, timer, hooks)
    })
}

fn on_listener(
    body: &mut Loop<'_>,
    accepting: &mut Accepting,
    bounds: Bounds<'_>,
    hooks: &mut impl Hooks,
) -> Ran {
    let cut = body.drain.unwrap_or(bounds.stop);
    // Seen from here what is sent are the responses.
    let exchange = exchange(&mut body.buffers.receive, &mut body.buffers.send);
    let options = &body.half.socket;
    connection_test::accept(accepting, exchange, bounds, cut, options, hooks).ran(bounds.stop)
}

/// A workload without data has no buffers, and so no exchange.
fn exchange<'a>(
    requests: &'a mut Option<BufferRing>,
    responses: &'a mut Option<BufferRing>,
) -> Option<Exchange<'a>> {
    Some(Exchange {
        requests: requests.as_mut()?,
        responses: responses.as_mut()?,
        asks_again: false,
    })
}

fn ask(
    io: &impl Io,
    exchange: &mut Exchange<'_>,
    burst: u32,
    timing: Timing,
    bounds: Bounds<'_>,
    hooks: &mut impl Hooks,
) -> Ran {
    if burst == 0 {
        return timed!(timing.passes, latency, bounds.stop, |timer| {
            request_response::ask(io, exchange, bounds, timer, hooks)
        });
    }
    let mut times = timing.passes.then(Histogram::default);
    let window = burst as usize + 1;
    let end = pipelined::ask(io, exchange, window, bounds, times.as_mut(), hooks);
    Ran {
        latency: times,
        ..end.ran(bounds.stop)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use model::Transport::Tcp;
    use model::{BufferPlan, Ended, Half, SocketFacts, Touch, Workload};

    use super::*;
    use crate::{Flow, Memory};

    const SIZE: usize = 6;

    /// The data that each loop sends and receives is touched, as far as the plan says.
    #[test]
    fn every_loop_touches_its_data() {
        let half = Half {
            send: BufferPlan::message(SIZE as u32),
            receive: BufferPlan::message(SIZE as u32),
            touch: Touch {
                send_dirty_bytes: Some(2),
                receive_dirty_bytes: Some(3),
                receive_clean_bytes: Some(1),
            },
            ..Half::default()
        };
        for (workload, burst) in [
            (Workload::send(), 0),
            (Workload::receive(), 0),
            (Workload::ask(), 0),
            (Workload::ask(), 2),
            (Workload::answer(), 0),
            (Workload::connect_and_ask(), 0),
            (Workload::accept_and_answer(), 0),
        ] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let address = listener.local_addr().unwrap();
            let facts = SocketFacts::default();
            let memory = Memory::new(1 << 20, 1 << 20);
            let buffers = Buffers::new(&half, &workload, Tcp, &facts, None, b"a", &memory);
            let mut buffers = buffers.unwrap();
            let (stop, counters) = (Stop::new(), Counters::default());
            let limit = if workload.is_transactional() {
                Limit::Transactions(1)
            } else {
                Limit::Bytes(SIZE as u64)
            };
            let mut job = Job {
                body: JobBody::Loop(Loop {
                    workload: &workload,
                    burst,
                    timing: Timing::default(),
                    datagrams: None,
                    first: &[],
                    watch: None,
                    warm_up: Duration::ZERO,
                    half: &half,
                    buffers: &mut buffers,
                    drain: None,
                }),
                limit,
                stop: &stop,
                counters: &counters,
            };
            let connects = workload.connects();
            let opens = workload.body[0] == Operation::Connect;
            let (sends, receives) = (workload.sends(), workload.receives());
            let peer = move |mut peer: TcpStream| {
                let mut seen = [0; SIZE];
                if receives {
                    peer.write_all(b"xxxxxx").unwrap();
                }
                if sends {
                    peer.read_exact(&mut seen).unwrap();
                }
                seen
            };
            let (ran, seen) = std::thread::scope(|scope| {
                if opens {
                    let peer = scope.spawn(|| peer(listener.accept().unwrap().0));
                    let mut connector = Connector::new(
                        Tcp,
                        address.into(),
                        SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(),
                        crate::PortRange {
                            min: 20_000,
                            max: 60_000,
                        },
                        address.port(),
                        model::SocketOptions::default(),
                        true,
                    )
                    .unwrap();
                    let ran = run(&mut job, Path::Connector(&mut connector));
                    return (ran, peer.join().unwrap());
                }
                let peer = scope.spawn(move || peer(TcpStream::connect(address).unwrap()));
                let ran = if connects {
                    let listener = listener.try_clone().unwrap();
                    let mut accepting = Accepting::new(listener.into(), None, None, None);
                    run(&mut job, Path::Listener(&mut accepting))
                } else {
                    let (socket, _) = listener.accept().unwrap();
                    run(&mut job, Flow::Connected(socket.as_fd()))
                };
                (ran, peer.join().unwrap())
            });
            assert_eq!(ran.ended, Ended::Count, "{workload:?}");
            if sends {
                assert_eq!(seen, *b"bbaaaa", "{workload:?}");
            }
            if receives {
                let buffer = buffers.receive.as_mut().unwrap().advance();
                assert_eq!(buffer, b"yyyxxx", "{workload:?}");
            }
        }
    }
}
