//! From a workload, as data, to the loop that runs it.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::{Ended, Half, Limit, Operation, Timing, Workload};
use stats::Histogram;
use sys::call::Drain;
use sys::{Address, Socket};

use crate::buffers::Buffers;
use crate::connector::{self, Connector};
use crate::counters::Counters;
use crate::end::{Bounds, Budget, LoopEnd, Ran};
use crate::hooks::{Extras, Hooks};
use crate::io::{self, Flow, FromFile, IntoNothing, Io, Sink, Source};
use crate::loops::connection_test::{self, Accepting};
use crate::loops::exchange::Exchange;
use crate::loops::{bulk, pipelined, request_response};
use crate::ring::Ring;
use crate::stop::Stop;
use crate::timer::Clocked;

/// One flow's part of a plan, everything settled.
#[derive(Debug)]
pub struct Job<'a> {
    /// What is repeated.
    pub workload: &'a Workload,
    /// Bytes or transactions after which it ends; time is the [`Stop`]'s business.
    pub limit: Limit,
    /// Requests in flight beyond one.
    pub burst: u32,
    /// Which times are kept.
    pub timing: Timing,
    /// How this end moves its data.
    pub half: &'a Half,
    /// What it sends from and receives into.
    pub buffers: &'a mut Buffers,
    /// What ends it.
    pub stop: &'a Stop,
    /// A connection that is open at the stop is served to its end, or until this.
    pub drain: Option<&'a Stop>,
    /// Where it counts.
    pub counters: &'a Counters,
}

/// Where the data moves.
#[derive(Debug)]
pub enum Path<'a> {
    /// Open sockets.
    Flow(Flow<'a>),
    /// A new connection a pass, opened.
    Connector(&'a mut Connector),
    /// A new connection a pass, accepted.
    Listener(&'a mut Accepting),
}

impl<'a> From<Flow<'a>> for Path<'a> {
    fn from(flow: Flow<'a>) -> Self {
        Self::Flow(flow)
    }
}

/// Runs a job to its end. The same job can be run again.
pub fn run<'a>(job: &mut Job<'_>, path: impl Into<Path<'a>>) -> Ran {
    let path = path.into();
    let _attending = job.stop.attend();
    let _attending_drain = job.drain.map(Stop::attend);
    let Some(mut extras) = Extras::of(job.half, job.length()) else {
        return on_path(job, path, &mut ());
    };
    let ran = on_path(job, path, &mut extras);
    let retransmits = extras.retransmits();
    let (paced, send_gaps) = extras.finish().unzip();
    Ran {
        paced,
        send_gaps,
        retransmits,
        ..ran
    }
}

fn on_path(job: &mut Job<'_>, path: Path<'_>, hooks: &mut impl Hooks) -> Ran {
    match path {
        Path::Flow(flow) => {
            let half = job.half;
            io::run(&flow, half, OnFlow { job, hooks })
        }
        Path::Connector(connector) => on_connector(job, connector, hooks),
        Path::Listener(accepting) => on_listener(job, accepting, hooks),
    }
}

/// A job on open sockets.
struct OnFlow<'a, 'b, H> {
    job: &'a mut Job<'b>,
    hooks: &'a mut H,
}

impl<H: Hooks> io::Work for OnFlow<'_, '_, H> {
    fn run(self, io: &impl Io) -> Ran {
        on_flow(self.job, io, self.hooks)
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

/// Opens a flow's connection within its time; `Some` says how that ended instead.
pub fn connect(socket: &Socket, to: &Address, stop: &Stop) -> Option<Ran> {
    let _attending = stop.attend();
    opened(connector::connect(socket, to, false, stop), stop)
}

/// As [`connect`], for an end whose socket has fast open on and nothing to send with it.
pub fn connect_without_data(socket: &Socket, to: &Address, stop: &Stop) -> Option<Ran> {
    let _attending = stop.attend();
    opened(connector::connect(socket, to, true, stop), stop)
}

fn opened(result: Result<(), LoopEnd>, stop: &Stop) -> Option<Ran> {
    result.err().map(|end| end.ran(stop))
}

fn on_flow(job: &mut Job<'_>, io: &impl Io, hooks: &mut impl Hooks) -> Ran {
    use Operation::{Receive, ReceiveAll, Send};
    let bounds = job.bounds();
    let timing = job.timing;
    let discard = job.half.discard_in_kernel && io.is_connected();
    let asks_again = job.half.socket.receive_timeout.is_some();
    let Buffers {
        send,
        send_file,
        receive,
    } = &mut *job.buffers;
    match (job.workload.body.as_slice(), send, receive) {
        ([Send], Some(ring), _) => send_bulk(&mut io.source(ring, bounds), timing, bounds, hooks),
        ([Send], None, _) => match send_file {
            Some(file) => {
                let socket = io.socket();
                send_bulk(&mut FromFile { socket, file }, timing, bounds, hooks)
            }
            None => unsupported(),
        },
        ([Receive], _, Some(ring)) if discard => {
            let (socket, size) = (io.socket(), ring.size() as usize);
            match Drain::open() {
                Ok(pipe) => receive_bulk(
                    &mut IntoNothing { socket, pipe, size },
                    timing,
                    bounds,
                    hooks,
                ),
                Err(error) => LoopEnd::from_io("pipe", &error).ran(bounds.stop),
            }
        }
        ([Receive], _, Some(ring)) => {
            receive_bulk(&mut io.sink(ring, bounds), timing, bounds, hooks)
        }
        ([Send, ReceiveAll], Some(requests), Some(responses)) => ask(
            io,
            &mut Exchange {
                requests,
                responses,
                asks_again,
            },
            job.burst,
            timing,
            bounds,
            hooks,
        ),
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

fn on_connector(job: &mut Job<'_>, connector: &mut Connector, hooks: &mut impl Hooks) -> Ran {
    let bounds = job.bounds();
    let exchange = exchange(&mut job.buffers.send, &mut job.buffers.receive);
    let closes_first = job.workload.body.contains(&Operation::HalfClose);
    if job.timing.passes {
        let mut timer = Clocked::new();
        let end =
            connection_test::connect(connector, exchange, closes_first, bounds, &mut timer, hooks);
        Ran {
            latency: Some(timer.times),
            ..end.ran(bounds.stop)
        }
    } else {
        connection_test::connect(connector, exchange, closes_first, bounds, &mut (), hooks)
            .ran(bounds.stop)
    }
}

fn on_listener(job: &mut Job<'_>, accepting: &mut Accepting, hooks: &mut impl Hooks) -> Ran {
    let (bounds, cut) = (job.bounds(), job.drain.unwrap_or(job.stop));
    // Seen from here what is sent are the responses.
    let exchange = exchange(&mut job.buffers.receive, &mut job.buffers.send);
    let options = &job.half.socket;
    connection_test::accept(accepting, exchange, bounds, cut, options, hooks).ran(bounds.stop)
}

/// A workload without data has no buffers, and so no exchange.
fn exchange<'a>(
    requests: &'a mut Option<Ring>,
    responses: &'a mut Option<Ring>,
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
    if burst > 0 {
        let mut times = timing.passes.then(Histogram::default);
        let window = burst as usize + 1;
        let end = pipelined::ask(io, exchange, window, bounds, times.as_mut(), hooks);
        Ran {
            latency: times,
            ..end.ran(bounds.stop)
        }
    } else if timing.passes {
        let mut timer = Clocked::new();
        let end = request_response::ask(io, exchange, bounds, &mut timer, hooks);
        Ran {
            latency: Some(timer.times),
            ..end.ran(bounds.stop)
        }
    } else {
        request_response::ask(io, exchange, bounds, &mut (), hooks).ran(bounds.stop)
    }
}

fn send_bulk(
    source: &mut impl Source,
    timing: Timing,
    bounds: Bounds<'_>,
    hooks: &mut impl Hooks,
) -> Ran {
    if timing.calls {
        let mut timer = Clocked::new();
        let end = bulk::send(source, bounds, &mut timer, hooks);
        Ran {
            send_times: Some(timer.times),
            ..end.ran(bounds.stop)
        }
    } else {
        bulk::send(source, bounds, &mut (), hooks).ran(bounds.stop)
    }
}

fn receive_bulk(
    sink: &mut impl Sink,
    timing: Timing,
    bounds: Bounds<'_>,
    hooks: &mut impl Hooks,
) -> Ran {
    if timing.calls {
        let mut timer = Clocked::new();
        let end = bulk::receive(sink, bounds, &mut timer, hooks);
        Ran {
            receive_times: Some(timer.times),
            ..end.ran(bounds.stop)
        }
    } else {
        bulk::receive(sink, bounds, &mut (), hooks).ran(bounds.stop)
    }
}

fn unsupported() -> Ran {
    Ended::Failed("no loop runs this list of operations on this path".to_owned()).into()
}

impl<'a> Job<'a> {
    /// How long this end goes on of its own accord; who receives goes on to the end of the data.
    fn length(&self) -> Option<Duration> {
        let begins = matches!(
            self.workload.body.first(),
            Some(Operation::Send | Operation::Connect)
        );
        match self.limit {
            Limit::Time(length) if begins => Some(length),
            _ => None,
        }
    }

    fn bounds(&self) -> Bounds<'a> {
        Bounds {
            budget: Budget::of(self.limit, self.buffers.used().send_bytes.unwrap_or(0)),
            stop: self.stop,
            counters: self.counters.writer(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use model::{BufferPlan, SizeRule, Touch, WidthRule};

    use super::*;
    use crate::Memory;
    use crate::ring::Contents;

    const SIZE: usize = 6;

    fn ring(contents: Contents<'_>) -> Ring {
        let plan = BufferPlan {
            size: SizeRule::Bytes(SIZE as u32),
            width: WidthRule::Buffers(1),
            ..BufferPlan::default()
        };
        let memory = Memory::new(1 << 16, 1 << 16);
        Ring::new(&plan, None, None, contents, &memory).unwrap()
    }

    /// The data that each loop sends and receives is touched, as far as the plan says.
    #[test]
    fn every_loop_touches_its_data() {
        let half = Half {
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
            let mut buffers = Buffers {
                send: Some(ring(Contents::Pattern(b"a"))),
                send_file: None,
                receive: Some(ring(Contents::Nothing)),
            };
            let (stop, counters) = (Stop::new(), Counters::default());
            let limit = if workload.is_transactional() {
                Limit::Transactions(1)
            } else {
                Limit::Bytes(SIZE as u64)
            };
            let mut job = Job {
                workload: &workload,
                limit,
                burst,
                timing: Timing::default(),
                half: &half,
                buffers: &mut buffers,
                stop: &stop,
                drain: None,
                counters: &counters,
            };
            let connects = workload.connects();
            let opens = workload.body[0] == Operation::Connect;
            let sends = workload.sends();
            let receives = workload.receives();
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
                        model::Transport::Tcp,
                        address.into(),
                        SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into(),
                        connector::PortRange {
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
                    let mut accepting = Accepting::new(listener.into(), None, None);
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
