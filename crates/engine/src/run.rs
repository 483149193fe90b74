//! From a workload, as data, to the loop that runs it.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use model::{DatagramFormat, Ended, FlowPlan, Half, IoMethod, Limit, Operation, Pacing};
use model::{Timing, Workload};
use stats::Histogram;
use sys::buffer::BufferRing;

use crate::buffers::Buffers;
use crate::connector::Connector;
use crate::counters::Counters;
use crate::end::{Bounds, Budget, LoopEnd, Ran};
use crate::hooks::{Extras, Hooks, ReceiveSizes};
use crate::io::{self, Flow, Io, unsupported};
use crate::loops::connection_test::{self, Accepting};
use crate::loops::exchange::Exchange;
use crate::loops::{bulk, numbered, pipelined, request_response};
use crate::numbers::{Classifier, DatagramWatch, FirstDatagram, Numbering};
use crate::script::{ConnectionManager, Orders, Script, StepTimes};
use crate::stop::Stop;
use crate::timer::Clocked;

/// Runs a loop, compiled with a timer whose times go to the field of [`Ran`], and without one.
macro_rules! timed {
    ($is_timed:expr, $times:ident, $stop:expr, |$timer:ident| $run:expr) => {
        if $is_timed {
            let mut clocked = Clocked::new();
            let $timer = &mut clocked;
            let end: LoopEnd = $run;
            Ran {
                $times: Some(clocked.times),
                ..end.ran($stop)
            }
        } else {
            let $timer = &mut ();
            $run.ran($stop)
        }
    };
}

/// One worker's part of a plan, everything settled. It can be run again; a job of other sizes needs counters of its
/// own, which have one size per pass.
#[derive(Debug)]
pub struct Job<'a> {
    /// What is repeated.
    pub body: JobBody<'a>,
    /// Bytes, transactions or rounds after which it ends; time is the [`Stop`]'s business.
    pub limit: Limit,
    /// What ends it.
    pub stop: &'a Stop,
    /// Where it counts.
    pub counters: &'a Counters,
}

/// What a job repeats.
#[derive(Debug)]
pub enum JobBody<'a> {
    /// The operations of one flow, by a loop of their own.
    Loop(Loop<'a>),
    /// A list of steps over several connections.
    Steps(Steps<'a>),
}

/// The operations of one flow.
#[derive(Debug)]
pub struct Loop<'a> {
    /// What is repeated.
    pub workload: &'a Workload,
    /// Requests in flight beyond one.
    pub burst: u32,
    /// Which times are kept.
    pub timing: Timing,
    /// How one-way datagrams are numbered and stamped; `None` if they are not.
    pub datagrams: Option<DatagramFormat>,
    /// Those that came before, which the loop counts first.
    pub first: &'a [FirstDatagram],
    /// Sees each numbered datagram that is received.
    pub watch: Option<&'a dyn DatagramWatch>,
    /// Figures of the schedule begin after this time.
    pub warm_up: Duration,
    /// How this end moves its data.
    pub half: &'a Half,
    /// What it sends from and receives into.
    pub buffers: &'a mut Buffers,
    /// A connection that is open at the stop is served to its end, or until this.
    pub drain: Option<&'a Stop>,
}

/// A list of steps.
#[derive(Debug)]
pub struct Steps<'a> {
    /// The list, with the connections of its steps.
    pub script: &'a mut Script,
    /// When each round begins; `None` is as fast as it goes.
    pub pacing: Option<Pacing>,
    /// What it sends from and receives into.
    pub buffer: &'a mut [u8],
    /// The times that are kept.
    pub times: Option<&'a mut StepTimes>,
}

/// Where the data moves.
pub enum Path<'a> {
    /// Open sockets.
    Flow(Flow<'a>),
    /// A new connection a pass, opened.
    Connector(&'a mut Connector),
    /// A new connection a pass, accepted.
    Listener(&'a mut Accepting),
    /// The connections that the steps of a list ask for.
    Manager(&'a mut dyn ConnectionManager),
}

impl<'a> From<Flow<'a>> for Path<'a> {
    fn from(flow: Flow<'a>) -> Self {
        Self::Flow(flow)
    }
}

/// Whether there are loops for numbered datagrams and for the methods of [`io::run_one_way`], which netperf alone would
/// carry in vain.
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
            match (body.datagrams, path) {
                (Some(format), Path::Flow(flow)) if ONE_WAY => {
                    let datagrams = Datagrams {
                        format,
                        counters,
                        length,
                        body,
                        bounds,
                    };
                    datagrams.run_on(&flow)
                }
                (None, Path::Flow(flow))
                    if ONE_WAY
                        && body.half.count_receive_sizes
                        && *body.workload == Workload::receive() =>
                {
                    body.receive_with_sizes(&flow, bounds, counters)
                }
                (None, Path::Flow(Flow::Connected(socket)))
                    if ONE_WAY && body.buffers.save.is_some() =>
                {
                    body.buffers.receive_to_file(socket, bounds)
                }
                (_, path) => body.run(path, bounds, length),
            }
        }
    }
}

impl Buffers {
    /// Receives a stream, and writes it to the file.
    fn receive_to_file(&mut self, socket: BorrowedFd<'_>, bounds: Bounds<'_>) -> Ran {
        let (Some(ring), Some(file)) = (&mut self.receive, &mut self.save) else {
            return unsupported();
        };
        let call = |(): &mut ()| bulk::receive_into(socket, ring, file);
        bulk::receive(call, bounds, &mut (), &mut ()).ran(bounds.stop)
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

impl<'a> Loop<'a> {
    /// Returns the loop of this end of a flow.
    pub fn of(flow: &'a FlowPlan, buffers: &'a mut Buffers) -> Self {
        Self {
            workload: &flow.workload,
            burst: flow.burst,
            timing: flow.timing,
            datagrams: flow.datagrams,
            first: &[],
            watch: None,
            warm_up: Duration::ZERO,
            half: &flow.here,
            buffers,
            drain: None,
        }
    }

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

    /// Receive calls are counted by their sizes.
    fn receive_with_sizes(
        &mut self,
        flow: &Flow<'_>,
        bounds: Bounds<'_>,
        counters: &Counters,
    ) -> Ran {
        let half = self.half;
        let mut hooks = ReceiveSizes {
            extras: Extras::new(half, None, self.warm_up),
            size: self
                .buffers
                .receive
                .as_ref()
                .map_or(0, |ring| ring.size() as usize),
            counts: counters.receive_size_line(),
        };
        let work = Receiving {
            body: self,
            bounds,
            hooks: &mut hooks,
        };
        let ran = io::run_one_way(flow, half, work);
        let (paced, send_gaps) = hooks.extras.finish().unzip();
        Ran {
            paced,
            send_gaps,
            ..ran
        }
    }

    /// What may be moved: without end, unless the limit is a count.
    fn budget(&self, limit: Limit) -> Budget {
        Budget(match limit {
            Limit::Bytes(count) | Limit::Transactions(count) => count,
            Limit::Messages(count) => {
                let size = self.buffers.used.send_bytes.unwrap_or(1);
                count.saturating_mul(size.into())
            }
            Limit::Time(_) | Limit::Unlimited => u64::MAX,
        })
    }

    /// How long this end goes on of its own accord; a receiver goes on to the end of the data.
    fn length(&self, limit: Limit) -> Option<Duration> {
        let begins = matches!(
            self.workload.body.first(),
            Some(Operation::Send | Operation::Connect)
        );
        match limit {
            Limit::Time(length) if begins => Some(self.warm_up + length),
            _ => None,
        }
    }
}

fn on_path(body: &mut Loop<'_>, path: Path<'_>, bounds: Bounds<'_>, hooks: &mut impl Hooks) -> Ran {
    match path {
        Path::Flow(flow) if ONE_WAY && body.half.io == IoMethod::Trunc => {
            let half = body.half;
            let work = Receiving {
                body,
                bounds,
                hooks,
            };
            io::run_one_way(&flow, half, work)
        }
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

/// Numbered datagrams in one direction.
struct Datagrams<'a, 'b> {
    format: DatagramFormat,
    counters: &'a Counters,
    length: Option<Duration>,
    body: &'a mut Loop<'b>,
    bounds: Bounds<'a>,
}

impl Datagrams<'_, '_> {
    fn run_on(self, flow: &Flow<'_>) -> Ran {
        let half = self.body.half;
        io::run_one_way(flow, half, self)
    }
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
                    if classifier.classify_first(first) {
                        return Ended::PeerClosed.into();
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
                        for first in body.first {
                            watch.see(&first.data, first.came_ns(format));
                        }
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

/// A stream that is received.
struct Receiving<'a, 'b, H> {
    body: &'a mut Loop<'b>,
    bounds: Bounds<'a>,
    hooks: &'a mut H,
}

impl<H: Hooks> io::Work for Receiving<'_, '_, H> {
    fn run(self, io: &impl Io) -> Ran {
        let (timing, bounds) = (self.body.timing, self.bounds);
        let Some(ring) = &mut self.body.buffers.receive else {
            return unsupported();
        };
        timed!(timing.calls, receive_times, bounds.stop, |timer| {
            bulk::receive(io.sink(ring, bounds), bounds, timer, self.hooks)
        })
    }
}

/// Room for as many datagrams as the kernel joins (UDP_GRO), if it is to do so.
fn joined(half: &Half, io: &impl Io) -> Option<BufferRing> {
    let wants = half.io == IoMethod::Gso;
    let joins = wants && sys::option::set_udp_receive_offload(io.socket(), true).is_ok();
    joins.then(|| BufferRing::new(1, 1 << 16, 8, 0)).flatten()
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
    use model::{BufferPlan, SocketFacts, Touch};

    use super::*;
    use crate::Memory;

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
