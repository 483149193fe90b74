//! The flows of a test at either end: their measured phases, and the reports of their intervals.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::{
    Buffers, Counters, DataSocket, Flow, FlowGroup, Loop, MeasuredPhase, PhaseSettings, Ran,
    Reading, Stop,
};
use model::{DatagramCounts, Ended, FlowPlan, Limit, Side, SizeRule, Transport};
use sys::{Address, call};

use crate::bursts::Stream;
use crate::event::{Event, Figures, FlowId, Observer};
use crate::options::{Settings, Shape, length_of};
use crate::tally::{Kind, Tallies, Tally};
use crate::wire::{ServerReport, WallTime};

/// Flows that are reported together: a client's, or those of one client at a server.
pub(crate) struct Company {
    observer: Arc<dyn Observer>,
    /// `-i`.
    interval: Option<Duration>,
    state: Mutex<State>,
    /// The last flow has left.
    empty: Condvar,
}

#[derive(Default)]
struct State {
    running: Vec<Running>,
    /// Flows that have ended since none ran.
    ended: Vec<(u32, Figures)>,
    /// When the first of them began.
    begun: Option<Instant>,
    /// A thread reports the intervals.
    has_ticker: bool,
    /// What UDP servers told, which comes last.
    told: Vec<(FlowId, ServerReport)>,
}

/// The companies of a server: flows of one client are reported together, or flows to one address (`--sum-dstip`).
pub(crate) struct Companies {
    observer: Arc<dyn Observer>,
    interval: Option<Duration>,
    by_destination: bool,
    by_address: Mutex<HashMap<IpAddr, Arc<Company>>>,
}

impl Companies {
    pub(crate) fn new(observer: &Arc<dyn Observer>, settings: &Settings) -> Self {
        Self {
            observer: Arc::clone(observer),
            interval: settings.print.interval,
            by_destination: settings.print.sums_by_destination,
            by_address: Mutex::default(),
        }
    }

    /// That of a flow from this peer to this address.
    pub(crate) fn of(&self, peer: &Address, local: Option<&Address>) -> Arc<Company> {
        let new = || Company::new(Arc::clone(&self.observer), self.interval);
        let end = if self.by_destination {
            local
        } else {
            Some(peer)
        };
        let Some(ip) = end.and_then(Address::ip) else {
            return new();
        };
        let mut companies = self
            .by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        companies.retain(|other, company| *other == ip || !company.is_idle());
        Arc::clone(companies.entry(ip).or_insert_with(new))
    }
}

/// A flow that runs.
struct Running {
    leg: Leg,
    begun: Reading,
    last: Reading,
    retransmits: u64,
    datagrams: DatagramCounts,
    reads: [u64; 8],
    /// The end of the last interval that was reported, on the grid.
    reported: Duration,
}

/// One direction of a flow.
#[derive(Clone)]
pub(crate) struct Leg {
    pub(crate) id: FlowId,
    pub(crate) sends: bool,
    pub(crate) transport: Transport,
    pub(crate) counters: Arc<Counters>,
    /// The socket, to ask what the kernel knows of the connection.
    pub(crate) socket: Arc<OwnedFd>,
    pub(crate) ends: Option<(Address, Address)>,
    /// Times of bursts, frames or calls.
    pub(crate) tallies: Option<Arc<Tallies>>,
    /// Latencies by synchronised clocks.
    pub(crate) has_trip_times: bool,
}

/// Less of an interval than this part is not reported by itself at a flow's end.
const SHORTEST_REST: u32 = 10;

impl Company {
    pub(crate) fn new(observer: Arc<dyn Observer>, interval: Option<Duration>) -> Arc<Self> {
        Arc::new(Self {
            observer,
            interval,
            state: Mutex::default(),
            empty: Condvar::new(),
        })
    }

    /// A flow begins.
    pub(crate) fn enter(self: &Arc<Self>, leg: &Leg) {
        let begun = Reading::now(std::slice::from_ref(&leg.counters));
        let mut state = self.state();
        state.begun.get_or_insert(begun.at);
        state.running.push(Running {
            leg: leg.clone(),
            begun: Reading {
                counts: model::Counts::default(),
                ..begun
            },
            last: Reading {
                counts: model::Counts::default(),
                ..begun
            },
            retransmits: 0,
            datagrams: DatagramCounts::default(),
            reads: [0; 8],
            reported: Duration::ZERO,
        });
        if let Some(interval) = self.interval
            && !std::mem::replace(&mut state.has_ticker, true)
        {
            let company = Arc::clone(self);
            let ticks = move || company.tick(interval);
            let spawned = std::thread::Builder::new().spawn(ticks);
            state.has_ticker = spawned.is_ok();
        }
    }

    /// Tells of what failed.
    pub(crate) fn trouble(&self, line: String) {
        self.observer.see(&Event::Trouble(line));
    }

    /// Whether no flow has left or entered yet.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state();
        state.running.is_empty()
    }

    /// A flow has ended with this side.
    pub(crate) fn leave(&self, leg: &Leg, side: &Side) {
        let mut state = self.state();
        let is_it = |running: &Running| Arc::ptr_eq(&running.leg.counters, &leg.counters);
        let Some(at) = state.running.iter().position(is_it) else {
            return;
        };
        let mut running = state.running.remove(at);
        let now = Reading::now(std::slice::from_ref(&leg.counters));
        if let Some(interval) = self.interval.filter(|_| !leg.reports_bursts()) {
            let mut rest = running.figures(&now);
            rest.from = running.reported;
            let is_long = rest.to.saturating_sub(rest.from) * SHORTEST_REST >= interval;
            if is_long && rest.bytes > 0 && !running.reported.is_zero() {
                self.observer.see(&Event::Interval(&leg.id, &rest));
            }
        }
        let mut figures = Figures::of_side(side, leg.sends);
        running.complete(&mut figures);
        figures.tally = leg.tallies.as_ref().map(|all| (all.kind, all.whole()));
        if let Some((Kind::Bursts { .. } | Kind::TripTimes | Kind::Frames, tally)) = &figures.tally
            && !figures.sends
            && !figures.is_udp
        {
            figures.reads = Some(tally.reads);
        }
        self.observer.see(&Event::Final(&leg.id, &figures));
        if figures.is_udp && figures.sends {
            // With the one that marks the end.
            let sent = Event::Sent(&leg.id, figures.calls + 1);
            self.observer.see(&sent);
        }
        state.ended.push((leg.id.number, figures));
        if state.running.is_empty() {
            let ended = std::mem::take(&mut state.ended);
            state.begun = None;
            self.sum(&ended, true);
            self.empty.notify_all();
        }
    }

    /// Reports a burst that has come, and how long it took to come.
    pub(crate) fn burst(&self, leg: &Leg, tally: &Tally, size: u32, took: Duration) {
        let mut state = self.state();
        let is_it = |running: &&mut Running| Arc::ptr_eq(&running.leg.counters, &leg.counters);
        let (Some(running), Some(tallies)) = (state.running.iter_mut().find(is_it), &leg.tallies)
        else {
            return;
        };
        let to = running.begun.at.elapsed();
        let figures = Figures {
            from: to.saturating_sub(took),
            to,
            bytes: size.into(),
            reads: Some(tally.reads),
            tally: Some((tallies.kind, tally.clone())),
            has_trip_times: leg.has_trip_times,
            ends: leg.ends.clone(),
            ..Figures::default()
        };
        self.observer.see(&Event::Interval(&leg.id, &figures));
    }

    /// Keeps what a UDP server told of a flow.
    pub(crate) fn tell(&self, id: &FlowId, report: ServerReport) {
        self.state().told.push((id.clone(), report));
    }

    /// Reports what UDP servers told.
    pub(crate) fn tell_all(&self) {
        let told = std::mem::take(&mut self.state().told);
        for (id, report) in &told {
            self.observer.see(&Event::Report(id, report));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports intervals until no flow runs.
    fn tick(&self, interval: Duration) {
        let mut state = self.state();
        let mut passed = 0_u32;
        while let Some(begun) = state.begun {
            passed += 1;
            let due = begun + interval * passed;
            while state.begun == Some(begun) {
                let left = due.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                let waited = self.empty.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            if state.begun != Some(begun) {
                passed = 0;
                continue;
            }
            let mut sums = Vec::new();
            for running in &mut state.running {
                let now = Reading::now(std::slice::from_ref(&running.leg.counters));
                let mut figures = running.figures(&now);
                running.sampled(&now, &figures);
                running.reported = interval * passed;
                // Ends of intervals are named by the grid, as the flows' begins differ by less.
                (figures.from, figures.to) = (interval * (passed - 1), interval * passed);
                if running.leg.reports_bursts() {
                    continue;
                }
                self.observer
                    .see(&Event::Interval(&running.leg.id, &figures));
                sums.push((running.leg.id.number, figures));
            }
            self.sum(&sums, false);
        }
        state.has_ticker = false;
    }

    /// Reports the sum of several flows.
    fn sum(&self, flows: &[(u32, Figures)], is_final: bool) {
        let [(number, first), rest @ ..] = flows else {
            return;
        };
        if rest.is_empty() {
            return;
        }
        let both_ways = rest.iter().any(|(_, other)| other.sends != first.sends);
        let mut figures = Figures {
            calls: 0,
            ..first.clone()
        };
        for (_, other) in rest {
            figures.add(other);
        }
        // What was received counts by its numbers.
        let counts = |one: &&(u32, Figures)| one.1.sends || !one.1.is_udp || !both_ways;
        figures.calls = flows.iter().filter(counts).map(|(_, one)| one.calls).sum();
        figures.path = None;
        let is_one = rest.iter().all(|(other, _)| other == number);
        self.observer.see(&Event::Sum {
            flows: flows.len(),
            of_connection: is_one.then_some(*number),
            both_ways,
            is_final,
            figures: &figures,
        });
    }
}

impl Leg {
    /// Each burst is reported, in the place of intervals.
    fn reports_bursts(&self) -> bool {
        let kind = self.tallies.as_ref().map(|tallies| tallies.kind);
        !self.sends && matches!(kind, Some(Kind::Bursts { .. }))
    }
}

impl Running {
    /// What was counted since the last interval.
    fn figures(&mut self, now: &Reading) -> Figures {
        let mut figures = Figures::between(self.begun, &self.last, now, self.leg.sends);
        let before = self.retransmits;
        if let Some(counts) = self.leg.counters.datagrams() {
            figures.datagrams = Some(counts.since(&self.datagrams));
            let (highest, earlier) = (counts.by_order.highest, self.datagrams.by_order.highest);
            figures.due = highest.saturating_sub(earlier);
        }
        self.complete(&mut figures);
        if let Some(tallies) = &self.leg.tallies {
            let tally = tallies.take_interval();
            if !figures.sends && !figures.is_udp {
                figures.reads = Some(tally.reads);
            }
            figures.tally = Some((tallies.kind, tally));
            figures.retransmits = self.retransmits.saturating_sub(before);
            return figures;
        }
        for (count, earlier) in figures.reads.iter_mut().flatten().zip(self.reads) {
            *count -= earlier;
        }
        figures.retransmits = self.retransmits.saturating_sub(before);
        figures
    }

    /// Adds what is known of the connection.
    fn complete(&mut self, figures: &mut Figures) {
        figures.is_udp = self.leg.transport == Transport::Udp;
        figures.ends.clone_from(&self.leg.ends);
        figures.has_trip_times = self.leg.has_trip_times;
        figures.reads = self.leg.counters.receive_sizes();
        if !figures.is_udp {
            figures.path = engine::path_sample(self.leg.socket.as_fd());
            let sent_again = figures.path.and_then(|path| path.retransmits);
            self.retransmits = sent_again.unwrap_or(self.retransmits);
            figures.retransmits = self.retransmits;
        }
    }

    fn sampled(&mut self, now: &Reading, figures: &Figures) {
        self.last = *now;
        self.datagrams = self.leg.counters.datagrams().unwrap_or_default();
        for (total, count) in self.reads.iter_mut().zip(figures.reads.unwrap_or_default()) {
            *total += count;
        }
    }
}

/// How one direction of a TCP connection is run.
pub(crate) struct Orders<'a> {
    /// What it does.
    pub(crate) flow: &'a FlowPlan,
    /// Its socket.
    pub(crate) data: &'a DataSocket,
    /// What fills its buffers.
    pub(crate) pattern: &'a [u8],
    /// The flows that start with it.
    pub(crate) group: Option<&'a FlowGroup>,
    /// How long it may last beyond its time, and how long nothing may move.
    pub(crate) patience: Duration,
    /// The other direction of the connection runs as well.
    pub(crate) is_duplex: bool,
    /// Bytes of the connection that were moved before it begins.
    pub(crate) before: usize,
    /// Sizes of receive calls are counted.
    pub(crate) counts_reads: bool,
    /// How it sends, if that is not one buffer after the other.
    pub(crate) shape: &'a Shape,
    /// It receives bursts with records, with a header before them or not.
    pub(crate) receives_bursts: Option<bool>,
    /// When the test started, as records say.
    pub(crate) started: WallTime,
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

    /// Sends or receives what is not one buffer after the other.
    fn run_own(
        &self,
        flow: &FlowPlan,
        limit: Limit,
        leg: &Leg,
        company: &Company,
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
                company.burst(leg, tally, size, took);
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

/// How a flow went.
pub(crate) struct Went {
    pub(crate) side: Side,
    /// What the other end told.
    pub(crate) there: Option<Side>,
    pub(crate) ended: Ended,
}

/// Runs one direction of a TCP connection to its end, and reports it.
pub(crate) fn run(orders: &Orders<'_>, leg: &Leg, company: &Arc<Company>) -> Went {
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
            return Went {
                side: Side::default(),
                there: None,
                ended: Ended::Failed(error.to_string()),
            };
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
    company.enter(leg);
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
    let own = |stop: &Stop| orders.run_own(&flow, limit, leg, company, stop);
    let ran = if orders.is_own(leg.sends) {
        phase.run_own(leg.sends, own)
    } else {
        orders.run_loop(&mut phase, (&flow, limit), leg, &mut buffers)
    };
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
        // Whoever sends is done before the other end is.
        (Ended::PeerClosed, Some((_, errno))) if leg.sends => {
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
        company.trouble(why.clone());
    }
    company.leave(leg, &side);
    // The other end of a stream says nothing; but one that came to its end has moved the same bytes there.
    let there = end.is_ok() && !matches!(ended, Ended::Failed(_));
    let there = there.then(|| mirrored(&side));
    Went { side, there, ended }
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

/// The rate that a plan's schedule keeps.
pub(crate) fn bits_per_second(flow: &FlowPlan) -> Option<f64> {
    let pacing = flow.here.pacing?;
    let bits = 8.0 * f64::from(length_of(flow)) * pacing.burst as f64;
    Some(bits / pacing.interval.as_secs_f64())
}

fn receive_length(flow: &FlowPlan) -> usize {
    match flow.here.receive.size {
        SizeRule::Bytes(bytes) => bytes as usize,
        SizeRule::SocketBuffer => 128 << 10,
    }
}

/// Whether a receiver of so much has had what its peer was to send, in this time; if not, why.
fn whole(ended: &Ended, limit: Limit, received: u64, elapsed: Duration) -> Result<(), String> {
    /// A sender may begin so much earlier, and by its clock take a tenth of the time less.
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

/// Why a stream did not come to its end.
pub(crate) fn unfinished(error: &std::io::Error, patience: Duration) -> String {
    if error.kind() == std::io::ErrorKind::TimedOut {
        let seconds = patience.as_secs();
        return format!("write failed: the peer did not close the connection within {seconds} s");
    }
    format!("write failed: {}", sys::describe(error))
}

/// How long a flow may stand still.
const IDLE: Duration = Duration::from_secs(60);

/// Another descriptor of a socket.
pub(crate) fn duplicate(socket: &sys::Socket) -> std::io::Result<Arc<OwnedFd>> {
    socket.as_fd().try_clone_to_owned().map(Arc::new)
}
