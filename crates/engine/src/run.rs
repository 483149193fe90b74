//! From a workload, as data, to the loop that runs it.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use model::{CpuUse, Ended, Limit, Operation, Timing, Workload};
use stats::Histogram;
use sys::call::{self, Address, Drain, Error};

use crate::bulk;
use crate::cell::Cell;
use crate::channel::{
    Addressed, Channel, Clocked, Connected, FromFile, FromRing, IntoNothing, IntoRing, Sink,
    Source, Written,
};
use crate::connection::{self, Exchange};
use crate::connector::Connector;
use crate::cpu::CpuMeter;
use crate::ring::{Ring, SendFile};
use crate::stop::Stop;
use crate::transaction;

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
    /// What is sent; a one-way receiver has none.
    pub send: Option<Ring>,
    /// A file that is sent instead of `send`.
    pub send_file: Option<SendFile>,
    /// What is received into.
    pub receive: Option<Ring>,
    /// Throw away what is received inside the kernel.
    pub discard_in_kernel: bool,
    /// write(2) instead of send(2).
    pub write_instead_of_send: bool,
    /// What ends it.
    pub stop: &'a Stop,
    /// What ends the wait for what comes late: a datagram receiver goes on after `stop`, counting
    /// apart, until the peer's end mark or this.
    pub drain: Option<&'a Stop>,
    /// Where it counts.
    pub cell: &'a Cell,
}

/// How the data moves.
#[derive(Debug)]
pub enum Path<'a> {
    /// A connected socket, stream or datagram.
    Connected(BorrowedFd<'a>),
    /// A datagram socket and whom it sends to.
    Addressed(BorrowedFd<'a>, Address),
    /// A new connection a pass, opened.
    Connector(&'a mut Connector),
    /// A new connection a pass, accepted.
    Listener(BorrowedFd<'a>),
}

/// What a loop leaves besides its cell.
#[derive(Debug)]
pub struct Times {
    /// Times of whole passes.
    pub latency: Option<Histogram>,
    /// Times of send calls.
    pub send_times: Option<Histogram>,
    /// Times of receive calls.
    pub receive_times: Option<Histogram>,
    /// Why it ended.
    pub ended: Ended,
    /// The failed call and its error number, when it ended with [`Ended::Failed`] or because the
    /// peer reset.
    pub failure: Option<(&'static str, i32)>,
}

/// Runs a job to its end. The same job can be run again, with what is left of its rings in place.
pub fn run(job: &mut Job<'_>, path: Path<'_>) -> Times {
    let _attending = job.stop.attend();
    let _attending_drain = job.drain.map(Stop::attend);
    match path {
        Path::Connected(socket) if job.write_instead_of_send => on_channel(job, &Written(socket)),
        Path::Connected(socket) => on_channel(job, &Connected(socket)),
        Path::Addressed(socket, to) => on_channel(job, &Addressed { socket, to }),
        Path::Connector(connector) => on_connector(job, connector),
        Path::Listener(listener) => on_listener(job, listener),
    }
}

fn on_channel(job: &mut Job<'_>, channel: &impl Channel) -> Times {
    use Operation::{Receive, ReceiveAll, Send};
    let budget = Budget::of(job.limit);
    let (stop, cell) = (job.stop, job.cell);
    match (
        job.workload.body.as_slice(),
        &mut job.send,
        &mut job.receive,
    ) {
        ([Send], Some(ring), _) => {
            send_bulk(&mut FromRing(channel, ring), job.timing, budget, stop, cell)
        }
        ([Send], None, _) => match &mut job.send_file {
            Some(file) => send_bulk(
                &mut FromFile(channel.socket(), file),
                job.timing,
                budget,
                stop,
                cell,
            ),
            None => Times::unsupported(),
        },
        ([Receive], _, Some(ring)) if job.discard_in_kernel => match Drain::open() {
            Ok(drain) => {
                let mut sink = IntoNothing {
                    socket: channel.socket(),
                    drain,
                    size: ring.size() as usize,
                };
                receive_bulk(&mut sink, job.timing, budget, stop, job.drain, cell)
            }
            Err(error) => Times::of(End::from_io("pipe", &error), stop),
        },
        ([Receive], _, Some(ring)) => receive_bulk(
            &mut IntoRing(channel, ring),
            job.timing,
            budget,
            stop,
            job.drain,
            cell,
        ),
        ([Send, ReceiveAll], Some(requests), Some(responses)) if job.burst > 0 => {
            let mut times = job.timing.passes.then(Histogram::default);
            let window = job.burst as usize + 1;
            let end = transaction::ask_ahead(
                channel,
                requests,
                responses,
                window,
                budget,
                stop,
                cell,
                times.as_mut(),
            );
            Times {
                latency: times,
                ..Times::of(end, stop)
            }
        }
        ([Send, ReceiveAll], Some(requests), Some(responses)) if job.timing.passes => {
            let mut timer = Clocked::new();
            let end =
                transaction::ask(channel, requests, responses, budget, stop, cell, &mut timer);
            Times {
                latency: Some(timer.times),
                ..Times::of(end, stop)
            }
        }
        ([Send, ReceiveAll], Some(requests), Some(responses)) => Times::of(
            transaction::ask(channel, requests, responses, budget, stop, cell, &mut ()),
            stop,
        ),
        ([ReceiveAll, Send], Some(responses), Some(requests)) => Times::of(
            transaction::answer(channel, requests, responses, budget, stop, cell),
            stop,
        ),
        _ => Times::unsupported(),
    }
}

fn on_connector(job: &mut Job<'_>, connector: &mut Connector) -> Times {
    let budget = Budget::of(job.limit);
    let exchange = exchange(&mut job.send, &mut job.receive, job.workload.sends());
    if job.timing.passes {
        let mut timer = Clocked::new();
        let end = connection::connect(connector, exchange, budget, job.stop, job.cell, &mut timer);
        Times {
            latency: Some(timer.times),
            ..Times::of(end, job.stop)
        }
    } else {
        Times::of(
            connection::connect(connector, exchange, budget, job.stop, job.cell, &mut ()),
            job.stop,
        )
    }
}

fn on_listener(job: &mut Job<'_>, listener: BorrowedFd<'_>) -> Times {
    let budget = Budget::of(job.limit);
    // Seen from here what is sent are the responses.
    let exchange = exchange(&mut job.receive, &mut job.send, job.workload.sends());
    Times::of(
        connection::accept(listener, exchange, budget, job.stop, job.cell),
        job.stop,
    )
}

fn exchange<'a>(
    requests: &'a mut Option<Ring>,
    responses: &'a mut Option<Ring>,
    wanted: bool,
) -> Option<Exchange<'a>> {
    match (requests, responses) {
        (Some(requests), Some(responses)) if wanted => Some(Exchange {
            requests,
            responses,
        }),
        _ => None,
    }
}

fn send_bulk(
    source: &mut impl Source,
    timing: Timing,
    budget: Budget,
    stop: &Stop,
    cell: &Cell,
) -> Times {
    if timing.calls {
        let mut timer = Clocked::new();
        let end = bulk::send(source, budget, stop, cell, &mut timer);
        Times {
            send_times: Some(timer.times),
            ..Times::of(end, stop)
        }
    } else {
        Times::of(bulk::send(source, budget, stop, cell, &mut ()), stop)
    }
}

fn receive_bulk(
    sink: &mut impl Sink,
    timing: Timing,
    budget: Budget,
    stop: &Stop,
    drain: Option<&Stop>,
    cell: &Cell,
) -> Times {
    let mut times = if timing.calls {
        let mut timer = Clocked::new();
        let end = bulk::receive(sink, budget, stop, cell, &mut timer);
        Times {
            receive_times: Some(timer.times),
            ..Times::of(end, stop)
        }
    } else {
        Times::of(bulk::receive(sink, budget, stop, cell, &mut ()), stop)
    };
    if let (Ended::Deadline, Some(drain)) = (&times.ended, drain) {
        let end = bulk::receive_late(sink, drain, cell);
        if let End::Failed { .. } = end {
            times = Times {
                receive_times: times.receive_times,
                ..Times::of(end, stop)
            };
        }
    }
    times
}

impl Times {
    /// Of a test that moves nothing.
    pub fn nothing() -> Self {
        Self {
            latency: None,
            send_times: None,
            receive_times: None,
            ended: Ended::Count,
            failure: None,
        }
    }

    fn of(end: End, stop: &Stop) -> Self {
        let (ended, failure) = match end {
            End::Count => (Ended::Count, None),
            End::Stopped => (stop.reason().map_or(Ended::Deadline, Ended::from), None),
            End::TimedOut => {
                let failure = ("receive", Error::TIMEDOUT.raw_os_error());
                (
                    Ended::Failed("the peer's data stopped".to_owned()),
                    Some(failure),
                )
            }
            End::PeerClosed => (Ended::PeerClosed, None),
            End::Failed { call, errno } => {
                let text = io::Error::from_raw_os_error(errno);
                let gone = [Error::PIPE, Error::CONNRESET].map(Error::raw_os_error);
                let ended = if gone.contains(&errno) {
                    Ended::PeerClosed
                } else {
                    Ended::Failed(format!("{call} failed: {text}"))
                };
                (ended, Some((call, errno)))
            }
        };
        Self {
            latency: None,
            send_times: None,
            receive_times: None,
            ended,
            failure,
        }
    }

    fn unsupported() -> Self {
        Self {
            latency: None,
            send_times: None,
            receive_times: None,
            ended: Ended::Failed("no loop runs this list of operations on this path".to_owned()),
            failure: None,
        }
    }
}

/// How a loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The budget is spent.
    Count,
    /// The stop was pulled.
    Stopped,
    /// The peer ended the stream.
    PeerClosed,
    /// The socket's own timeout passed (SO_RCVTIMEO, SO_SNDTIMEO).
    TimedOut,
    /// A call failed.
    Failed { call: &'static str, errno: i32 },
}

impl End {
    pub(crate) fn from_call(call: &'static str, error: Error) -> Self {
        if error == Error::AGAIN {
            return Self::TimedOut;
        }
        Self::Failed {
            call,
            errno: error.raw_os_error(),
        }
    }

    pub(crate) fn from_io(call: &'static str, error: &io::Error) -> Self {
        Self::Failed {
            call,
            errno: error.raw_os_error().unwrap_or(0),
        }
    }
}

/// What is left of a count limit. A time limit has no budget to spend: it counts down from more
/// than can be moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget(u64);

impl Budget {
    fn of(limit: Limit) -> Self {
        match limit {
            Limit::Bytes(count) | Limit::Transactions(count) => Self(count),
            Limit::Time(_) | Limit::Unlimited => Self(u64::MAX),
        }
    }

    /// Spends some; whether nothing is left.
    #[inline]
    pub(crate) fn spend(&mut self, amount: u64) -> bool {
        self.0 = self.0.saturating_sub(amount);
        self.0 == 0
    }
}

/// Opens a flow's connection within its time; `Some` says how that ended instead.
pub fn connect(socket: &sys::Socket, to: std::net::SocketAddr, stop: &Stop) -> Option<Times> {
    let _attending = stop.attend();
    crate::connector::connect(socket, to, stop)
        .err()
        .map(|end| Times::of(end, stop))
}

/// A measured phase: its beginning, and the host's CPU time since.
#[derive(Debug)]
pub struct Clock {
    /// When it began, by the monotonic clock.
    pub started: Instant,
    cpu: Option<CpuMeter>,
}

impl Clock {
    /// Begins.
    pub fn start(measure_cpu: bool) -> Self {
        let cpu = measure_cpu.then(CpuMeter::start).flatten();
        Self {
            started: Instant::now(),
            cpu,
        }
    }

    /// Ends: how long it was, and what the CPUs did.
    pub fn stop(&self) -> (Duration, Option<CpuUse>) {
        let elapsed = self.started.elapsed();
        (elapsed, self.cpu.as_ref().and_then(CpuMeter::finish))
    }
}

/// How a flow says that it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// End this end's stream and wait for the peer's end of stream: the peer has then read all.
    HalfClose,
    /// Wait for the peer's end of stream and throw away what comes before it.
    AwaitClose,
    /// Send this many empty datagrams; one would do, were none lost.
    EmptyDatagrams(u32),
}

impl Finish {
    /// Says so, and waits at most `patience` for the peer; whether the peer's end was seen.
    pub fn say(self, path: &Path<'_>, patience: Duration) -> bool {
        match (self, path) {
            (Self::HalfClose, Path::Connected(socket)) => {
                call::shutdown_write(*socket).is_ok() && await_end(*socket, patience)
            }
            (Self::AwaitClose, Path::Connected(socket)) => await_end(*socket, patience),
            (Self::EmptyDatagrams(count), Path::Connected(socket)) => {
                (0..count).all(|_| call::send(*socket, &[]).is_ok())
            }
            (Self::EmptyDatagrams(count), Path::Addressed(socket, to)) => {
                (0..count).all(|_| call::send_to(*socket, &[], to).is_ok())
            }
            _ => true,
        }
    }
}

fn await_end(socket: BorrowedFd<'_>, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    let mut scrap = [0; 16 * 1024];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        match call::wait_readable(socket, left) {
            Ok(true) => match call::receive(socket, &mut scrap) {
                Ok(0) | Err(Error::CONNRESET) => return true,
                Ok(_) | Err(Error::INTR) => {}
                Err(_) => return false,
            },
            Ok(false) => return false,
            Err(_) => {}
        }
    }
}
