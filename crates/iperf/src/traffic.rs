//! One direction of a TCP connection: its measured phase, and how it ends.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{
    Buffers, Counters, DataSocket, Flow, FlowGroup, Loop, MeasuredPhase, PhaseSettings, Ran, Stop,
    deadline_thread,
};
use model::{Ended, FlowPlan, Limit, Side, Warning};
use sys::{Address, call};

use crate::bursts::Stream;
use crate::flow::{bits_per_second, length_of, receive_length};
use crate::options::Shape;
use crate::report_group::{Leg, ReportGroup};
use crate::tally::Tally;
use crate::wire::WallTime;

/// The settings of one direction of a TCP connection.
pub(crate) struct Orders<'a> {
    /// What it does.
    pub(crate) flow: &'a FlowPlan,
    /// Its socket.
    pub(crate) data: &'a DataSocket,
    /// What fills its buffers.
    pub(crate) pattern: &'a [u8],
    /// The flows that start with it.
    pub(crate) group: Option<&'a FlowGroup>,
    /// The longest time beyond the flow's own, and the longest without progress.
    pub(crate) patience: Duration,
    /// The other direction of the connection runs as well.
    pub(crate) is_duplex: bool,
    /// Bytes of the connection that were moved before it begins.
    pub(crate) before: usize,
    /// Whether the sizes of receive calls are counted.
    pub(crate) counts_reads: bool,
    /// The way of sending.
    pub(crate) shape: &'a Shape,
    /// It receives bursts with records, with a header before them or not.
    pub(crate) receives_bursts: Option<bool>,
    /// The start of the test, for records.
    pub(crate) started: WallTime,
    /// A sender ends when its connection is reset, however long it would wait before its next send call.
    pub(crate) ends_with_peer: bool,
    /// Ends it.
    pub(crate) stop: &'a Stop,
}

impl Orders<'_> {
    /// Whether the engine has no loop for it.
    fn is_own(&self, sends: bool) -> bool {
        if sends {
            !self.shape.is_plain()
        } else {
            self.receives_bursts.is_some()
        }
    }

    /// Runs a direction that the engine has no loop for.
    fn run_own(
        &self,
        flow: &FlowPlan,
        limit: Limit,
        leg: &Leg,
        reports: &ReportGroup,
        stop: &Stop,
    ) -> Ran {
        let stream = Stream {
            socket: self.data.socket.as_fd(),
            counters: &leg.counters,
            tallies: leg.tallies.as_deref(),
            stop,
        };
        let Some(has_header) = self.receives_bursts.filter(|_| !leg.sends) else {
            let rate = bits_per_second(flow);
            return stream.send(self.shape, (self.pattern, rate), limit, self.started);
        };
        let each = |tally: &Tally, size, took| {
            if leg.reports_bursts() {
                reports.report_burst(leg, tally, size, took);
            }
        };
        stream.receive(receive_length(flow), leg.has_trip_times, has_header, &each)
    }
}

impl Orders<'_> {
    /// Runs the engine's loop. A sender's count ends with less than a buffer.
    fn run_loop(
        &self,
        phase: &mut MeasuredPhase<'_>,
        (flow, limit): (&FlowPlan, Limit),
        leg: &Leg,
        buffers: &mut Buffers,
    ) -> Ran {
        let (whole, rest) = in_buffers(limit, leg.sends, length_of(flow));
        let path = Flow::Connected(self.data.socket.as_fd());
        let mut ran = match whole {
            Limit::Bytes(0) => Ended::Count.into(),
            whole => phase.run_part(whole, Loop::of(flow, buffers), path),
        };
        if rest > 0 && ran.ended == Ended::Count {
            let bytes = &self.pattern[..rest];
            let last = |stop: &Stop| send_rest(self.data, bytes, &leg.counters, stop).into();
            ran.ended = phase.run_own(true, last).ended;
        }
        phase.stop_clock();
        ran
    }
}

/// The result of a flow.
pub(crate) struct Went {
    pub(crate) side: Side,
    /// The other end's figures.
    pub(crate) there: Option<Side>,
    pub(crate) ended: Ended,
    pub(crate) doubt: Option<Warning>,
}

impl Went {
    pub(crate) fn new(side: Side, there: Option<Side>, ended: Ended) -> Self {
        Self {
            side,
            there,
            ended,
            doubt: None,
        }
    }
}

/// Runs one direction of a TCP connection to its end, and reports it.
pub(crate) fn run(orders: &Orders<'_>, leg: &Leg, reports: &Arc<ReportGroup>) -> Went {
    let Orders { flow, data, .. } = orders;
    let mut flow = FlowPlan::clone(flow);
    flow.here.count_receive_sizes = orders.counts_reads && !leg.sends && flow.here.pacing.is_none();
    let period = orders
        .shape
        .frames
        .map_or(Duration::ZERO, |frames| frames.period);
    let memory = engine::Memory::new(64 << 20, 64 << 20);
    let made = Buffers::new(
        &flow.here,
        &flow.workload,
        flow.transport,
        &data.facts,
        None,
        orders.pattern,
        &memory,
    );
    let mut buffers = match made {
        Ok(buffers) => buffers,
        Err(error) => {
            return Went::new(Side::default(), None, Ended::Failed(error.to_string()));
        }
    };
    let time = match flow.limit {
        Limit::Time(time) if leg.sends => Some(time),
        Limit::Time(time) => Some(time + orders.patience),
        _ => None,
    };
    let settings = PhaseSettings {
        counters: &leg.counters,
        cancel: orders.stop,
        control: None,
        time,
        idle: Some(buffers.patience(orders.patience.max(IDLE), &flow.here) + 2 * period),
        group: orders.group,
    };
    let mut phase = MeasuredPhase::start(&flow.here, settings);
    let stop = phase.stop.clone();
    let watched = orders.ends_with_peer && leg.sends;
    let watch = watched.then(|| deadline_thread().on_reset(data.socket.as_fd(), &stop));
    reports.begin(leg);
    if leg.sends {
        leg.counters.count_sent(orders.before, 1);
    } else {
        leg.counters.count_received(orders.before, 0);
    }
    let limit = match flow.limit {
        Limit::Bytes(bytes) if leg.sends => {
            Limit::Bytes(bytes.saturating_sub(orders.before as u64))
        }
        Limit::Bytes(_) => Limit::Unlimited,
        other => other,
    };
    let own = |stop: &Stop| orders.run_own(&flow, limit, leg, reports, stop);
    let ran = if orders.is_own(leg.sends) {
        phase.run_own(leg.sends, own)
    } else {
        orders.run_loop(&mut phase, (&flow, limit), leg, &mut buffers)
    };
    drop(watch);
    let received = leg.counters.counts().received.0;
    let mut end = whole(&ran.ended, flow.limit, received, phase.passed.elapsed);
    if leg.sends {
        let finished = if orders.is_duplex {
            acknowledged(data, orders.patience, orders.stop)
        } else {
            phase.drain(&data.socket, orders.patience)
        };
        end = finished.map_err(|error| unfinished(&error, orders.patience));
    }
    let facts = data.facts_at_end(&data.socket);
    let ended = match (&ran.ended, ran.failure) {
        // A sender ends before the other end does.
        (Ended::PeerClosed, failure) if leg.sends => {
            let errno = failure.map_or(call::Error::CONNRESET.raw_os_error(), |(_, errno)| errno);
            let why = sys::describe(&std::io::Error::from_raw_os_error(errno));
            Ended::Failed(format!("write failed: {why}"))
        }
        (Ended::Failed(_) | Ended::Cancelled, _) => ran.ended.clone(),
        (ended, _) => end
            .as_ref()
            .err()
            .cloned()
            .map_or(ended.clone(), Ended::Failed),
    };
    let mut side = phase.side(ran, data, &buffers, facts);
    let times = leg.tallies.as_ref().and_then(|tallies| tallies.times());
    side.latency = side.latency.or(times);
    if let Ended::Failed(why) = &ended {
        reports.fail(why.clone());
    }
    reports.end(leg, &side);
    // The other end of a stream reports nothing. If the stream has ended well, the same bytes were moved there.
    let there = end.is_ok() && !matches!(ended, Ended::Failed(_));
    let there = there.then(|| mirrored(&side));
    Went::new(side, there, ended)
}

/// A sender's count of bytes: what fits in whole buffers of `length` bytes, and the rest.
fn in_buffers(limit: Limit, sends: bool, length: u32) -> (Limit, usize) {
    match limit {
        Limit::Bytes(bytes) if sends && length > 0 => {
            let rest = bytes % u64::from(length);
            (Limit::Bytes(bytes - rest), rest as usize)
        }
        _ => (limit, 0),
    }
}

/// Sends the rest of a count, which is less than a buffer.
fn send_rest(data: &DataSocket, mut bytes: &[u8], counters: &Counters, stop: &Stop) -> Ended {
    while !bytes.is_empty() {
        match call::send(data.socket.as_fd(), bytes) {
            Ok(sent) => {
                counters.count_sent(sent, 1);
                bytes = &bytes[sent..];
            }
            Err(call::Error::INTR) if stop.is_set() => return Ended::Cancelled,
            Err(call::Error::INTR) => {}
            Err(error) => {
                let why = sys::describe(&std::io::Error::from(error));
                return Ended::Failed(format!("write failed: {why}"));
            }
        }
    }
    Ended::Count
}

fn mirrored(side: &Side) -> Side {
    let counts = model::Counts {
        sent: side.counts.received,
        received: side.counts.sent,
        ..model::Counts::default()
    };
    Side {
        counts,
        ..Side::default()
    }
}

/// Checks that a receiver has got all that its peer had to send; the error says why not.
fn whole(ended: &Ended, limit: Limit, received: u64, elapsed: Duration) -> Result<(), String> {
    /// A sender may begin earlier by this, and by its clock take a tenth of the time less.
    const MARGIN: Duration = Duration::from_secs(1);
    let seconds = |time: Duration| time.as_secs_f64();
    match (ended, limit) {
        (Ended::Deadline, _) => Err("read failed: the peer did not end its stream".to_owned()),
        (Ended::PeerClosed, Limit::Time(time)) if elapsed + time / 10 + MARGIN < time => {
            Err(format!(
                "read failed: the peer ended its stream after {:.1} of {:.1} s",
                seconds(elapsed),
                seconds(time)
            ))
        }
        (Ended::PeerClosed, Limit::Bytes(bytes)) if received < bytes.min(i32::MAX as u64) => Err(
            format!("read failed: the peer ended its stream after {received} of {bytes} bytes"),
        ),
        _ => Ok(()),
    }
}

/// Ends this direction of a connection, of which another thread reads, and waits until the peer has acknowledged it.
fn acknowledged(data: &DataSocket, patience: Duration, stop: &Stop) -> std::io::Result<()> {
    let socket = data.socket.as_fd();
    sys::call::shutdown_write(socket)?;
    let until = Instant::now() + patience;
    while sys::option::unacknowledged(socket)? > 0 && !stop.is_set() {
        // A connection that was reset has no peer any more.
        Address::of_peer(&data.socket)?;
        if Instant::now() >= until {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns the error of a stream without an end.
pub(crate) fn unfinished(error: &std::io::Error, patience: Duration) -> String {
    if error.kind() == std::io::ErrorKind::TimedOut {
        let seconds = patience.as_secs();
        return format!("write failed: the peer did not close the connection within {seconds} s");
    }
    format!("write failed: {}", sys::describe(error))
}

/// The longest time in which a flow may not move.
const IDLE: Duration = Duration::from_secs(60);

/// Another descriptor of a socket.
pub(crate) fn duplicate(socket: &sys::Socket) -> std::io::Result<Arc<OwnedFd>> {
    socket.as_fd().try_clone_to_owned().map(Arc::new)
}
