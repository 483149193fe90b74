//! The data of a test: a thread per stream, and the calling thread, which samples, listens to the control connection
//! and decides when the test ends.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::Builder;
use std::time::{Duration, Instant};

use control::ControlConnection;
use engine::{
    Buffers, Counters, DataSocket, Flow, FlowGroup, GroupMember, Loop, MeasuredPhase, Memory,
    PhaseSettings, Ran, Reason, Stop, path_sample, receive_late,
};
use model::{Counts, Ended, FlowPlan, Limit, Sample, Series, Side, SizeRule};
use stats::Histogram;
use sys::call::{self, Error};
use sys::{Address, option};

use crate::options::Common;
use crate::talk::Events;
use crate::wire::Parameters;
use crate::wire::error::{self, Fault};

/// How often round-trip times are looked at, at least.
const TICK: Duration = Duration::from_millis(8);

/// How often sums are looked at that end a test.
const SHORT_TICK: Duration = Duration::from_millis(1);

/// How much memory a stream's buffers may take.
pub(crate) const STREAM_MEMORY: u64 = 4 << 20;

/// A stream's stack. Its buffers are on the heap.
const STACK: usize = 256 * 1024;

/// How long the control connection may take to explain a stream's failure.
const EXPLANATION: Duration = Duration::from_millis(500);

/// More than any test takes.
const LONG: Duration = Duration::from_secs(1 << 20);

/// Samples of all streams of a test; of a longer one each second one is dropped.
const MOST_SAMPLES: usize = 500_000;

/// How long the rest of a block may take.
const REST: Duration = Duration::from_secs(5);

/// How long data that was sent may take to arrive after its sender's end.
const ARRIVAL: Duration = Duration::from_secs(1);

/// An open stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// The number by which both ends know it.
    pub(crate) number: u32,
    /// What stands before its lines.
    pub(crate) label: i32,
    /// Whether this end sends.
    pub(crate) sends: bool,
    /// This end's address.
    pub(crate) local: Address,
    /// The other end's.
    pub(crate) peer: Address,
    /// The connected socket.
    pub(crate) data: DataSocket,
    /// What this end does on it.
    pub(crate) plan: FlowPlan,
    /// What it sends, or writes.
    pub(crate) file: Option<File>,
    /// Where it counts.
    pub(crate) counters: Arc<Counters>,
}

/// Binds this thread, and those of the streams to come, to a CPU.
pub(crate) fn bind(cpu: Option<u32>) -> Result<(), Fault> {
    // It serves other tests as well.
    engine::deadline_thread();
    let bound = cpu.map_or(Ok(()), sys::cpu::bind_thread);
    bound.map_err(|error| Fault::io(error::AFFINITY, &error))
}

/// Opens the file of `-F` for this end's part of a stream.
pub(crate) fn open_file(plan: &FlowPlan, path: Option<&Path>) -> Result<Option<File>, Fault> {
    let Some(path) = path else { return Ok(None) };
    let opened = if plan.workload.sends() {
        File::open(path)
    } else {
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(path)
    };
    let file = opened.map_err(|error| Fault::io(error::FILE, &error))?;
    let is_empty = || file.metadata().map(|metadata| metadata.len() == 0);
    if plan.workload.sends() && is_empty().unwrap_or(true) {
        return Err(Fault::because(error::FILE, "it is empty"));
    }
    Ok(Some(file))
}

/// Reports what the sockets were given.
pub(crate) fn describe(streams: &[Stream], events: &mut dyn Events) {
    for stream in streams {
        let facts = &stream.data.facts;
        let asked = stream.plan.here.socket.send_buffer_bytes.unwrap_or(0);
        let sizes = [facts.send_buffer_bytes, facts.receive_buffer_bytes];
        for (name, bytes) in ["SNDBUF", "RCVBUF"].into_iter().zip(sizes) {
            let line = format!("{name} is {}, expecting {asked}", bytes.unwrap_or(0));
            events.debug(&line, None);
        }
        let end = stream.data.facts_at_end(&stream.data.socket);
        if let Some(name) = end.congestion_control {
            events.debug(&format!("Congestion algorithm is {name}"), None);
        }
    }
}

/// What ends a test's data, and when it is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course<'a> {
    /// The omitted time.
    pub(crate) omit: Duration,
    /// The length of the test after that; `None` if something else ends it.
    pub(crate) time: Option<Duration>,
    /// Bytes of all streams together, after which it ends.
    pub(crate) bytes: Option<u64>,
    /// From one interval's end to the next.
    pub(crate) interval: Option<Duration>,
    /// How long a stream may move nothing.
    pub(crate) idle: Duration,
    /// Ends the test early.
    pub(crate) cancel: &'a Stop,
    /// Whether a sender ends its stream: a stock client reads on after the test's end, and for ever without that.
    pub(crate) hangs_up: bool,
    /// What the blocks hold, over and over.
    pub(crate) payload: &'a [u8],
    /// What buffers are taken from.
    pub(crate) memory: &'a Memory,
}

impl<'a> Course<'a> {
    /// A test that goes on until the peer or `cancel` ends it.
    pub(crate) fn of(
        common: &Common,
        parameters: &Parameters,
        cancel: &'a Stop,
        payload: &'a [u8],
        memory: &'a Memory,
    ) -> Self {
        Self {
            omit: Duration::from_secs(parameters.omit.into()),
            time: None,
            bytes: None,
            interval: common.interval,
            idle: common.receive_timeout,
            cancel,
            hangs_up: false,
            payload,
            memory,
        }
    }
}

/// All streams at the end of an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntervalEnd<'a> {
    /// The streams.
    pub(crate) streams: &'a [Stream],
    /// Their samples, of which the last two are the interval's.
    pub(crate) series: &'a [Series],
    /// The place of the sample at the end of the omitted time; `None` during it.
    pub(crate) begin: Option<usize>,
}

/// What becomes of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes on.
    GoOn,
    /// It ends now.
    End,
    /// It ends as soon as these bytes have been received.
    EndAfter(u64),
}

/// What leads a test beside the clock.
pub(crate) trait Lead {
    /// The control connection can be read.
    fn on_control(&mut self) -> Verdict;

    /// An interval has ended.
    fn on_interval(&mut self, interval: IntervalEnd<'_>);

    /// So many bytes of all streams have been moved, at this time of the test.
    fn on_tick(&mut self, _at: Duration, _bytes: u64) -> Verdict {
        Verdict::GoOn
    }

    /// The data has ended here. Receivers read on, uncounted, until this returns.
    fn on_end(&mut self, _end: &End) {}
}

/// Why the data ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// By the clock, by a sum, or by the peer's message.
    Regular,
    /// By a signal.
    Cancelled,
    /// Nothing was received.
    Idle,
    /// By a failed call.
    Failed(&'static str, i32),
}

impl End {
    /// The error of it, which is `cancelled` of a signal.
    pub(crate) fn fault(&self, cancelled: i32) -> Option<Fault> {
        let (code, errno) = match self {
            Self::Regular => return None,
            Self::Cancelled => (cancelled, 0),
            Self::Idle => (error::RECEIVE_TIMEOUT, 0),
            Self::Failed("receive", errno) => (error::STREAM_READ, *errno),
            Self::Failed("write", errno) => (error::FILE, *errno),
            Self::Failed("begin", errno) => (error::STREAM_CREATE, *errno),
            Self::Failed(_, errno) => (error::STREAM_WRITE, *errno),
        };
        Some(Fault {
            errno,
            ..Fault::of(code)
        })
    }
}

/// What a stream's thread leaves.
#[derive(Debug)]
pub(crate) struct Moved {
    /// The figures, the omitted time included.
    pub(crate) side: Side,
    /// Samples at the ends of intervals.
    pub(crate) series: Series,
}

/// What a test's data came to.
#[derive(Debug)]
pub(crate) struct Data {
    /// Per stream.
    pub(crate) moved: Vec<Moved>,
    /// The place of the sample at the end of the omitted time, in each series.
    pub(crate) begin: usize,
    /// Why it ended.
    pub(crate) end: End,
}

/// Runs the streams to the test's end.
pub(crate) fn run(
    streams: &[Stream],
    course: Course<'_>,
    control: &ControlConnection,
    lead: &mut dyn Lead,
) -> Data {
    let half = streams.first().map(|stream| stream.plan.here.clone());
    let group = FlowGroup::new(streams.len(), half.unwrap_or_default());
    let shared = Shared {
        course,
        over: course.cancel.follower(),
        drained: Stop::new(),
        notice: course.cancel.follower(),
        first: OnceLock::new(),
        sum_ends: streams.len() > 1 || !streams.iter().all(|stream| stream.sends),
    };
    std::thread::scope(|scope| {
        let start = |stream| {
            let (member, shared) = (group.member(), &shared);
            let thread = Builder::new().name("stream".to_owned()).stack_size(STACK);
            let started = thread.spawn_scoped(scope, move || run_stream(stream, member, shared));
            // The others do not start without it.
            started.inspect_err(|error| shared.fail("begin", error.raw_os_error().unwrap_or(0)))
        };
        let threads: Vec<_> = streams.iter().map(start).collect();
        let mut leader = Leader::new(streams, &shared, &group);
        let end = leader.until_end(control, lead);
        shared.over.pull(Reason::Deadline);
        leader.stopped = Some(leader.end_of_data());
        lead.on_end(&end);
        shared.drained.pull(Reason::Deadline);
        let ran = threads
            .into_iter()
            .map(|thread| thread.ok()?.join().ok().flatten());
        let sides: Vec<_> = ran.map(Option::unwrap_or_default).collect();
        leader.sample_last(lead);
        let begin = leader.begin.unwrap_or(
            leader
                .series
                .first()
                .map_or(0, |series| series.samples.len() - 1),
        );
        let cpu = group.cpu();
        let moved = sides.into_iter().zip(leader.series);
        let moved = moved.zip(leader.round_trips.into_iter().zip(leader.omitted));
        let moved = moved.map(|((side, series), (round_trips, omitted))| Moved {
            side: Side {
                counts: side.counts.since(&omitted),
                // It is not known of a part.
                thread_cpu: side.thread_cpu.filter(|_| course.omit.is_zero()),
                cpu: cpu.clone(),
                smoothed_rtt: Some(round_trips).filter(|times| !times.is_empty()),
                datagrams: series.samples.last().and_then(|last| last.datagrams),
                ..side
            },
            series,
        });
        Data {
            moved: moved.collect(),
            begin,
            end,
        }
    })
}

/// What the threads of a test share.
struct Shared<'a> {
    course: Course<'a>,
    /// Ends the loops.
    over: Stop,
    /// Ends what receivers read after that.
    drained: Stop,
    /// Wakes the leader: a stream has ended by itself.
    notice: Stop,
    /// How the first one did.
    first: OnceLock<End>,
    /// A test with a number of bytes ends by the sum of several counters, not by its one sender.
    sum_ends: bool,
}

impl Shared<'_> {
    /// A stream has ended by itself; the first one counts.
    fn end(&self, end: End) {
        let _ = self.first.set(end);
        self.notice.pull(Reason::Cancelled);
    }

    fn fail(&self, what: &'static str, errno: i32) {
        self.end(End::Failed(what, errno));
    }
}

fn run_stream(stream: &Stream, member: GroupMember<'_>, shared: &Shared<'_>) -> Option<Side> {
    let (plan, course) = (&stream.plan, &shared.course);
    let file = stream.file.as_ref().and_then(|file| file.try_clone().ok());
    let length = file.as_ref().and_then(|file| file.metadata().ok());
    let fills_once = stream.sends && length.is_some();
    let (sent, save) = if stream.sends {
        (file, None)
    } else {
        (None, file)
    };
    let facts = &stream.data.facts;
    let (half, workload) = (&plan.here, &plan.workload);
    let buffers = Buffers::new(
        half,
        workload,
        plan.transport,
        facts,
        sent,
        course.payload,
        course.memory,
    );
    let Ok(mut buffers) = buffers else {
        shared.fail("begin", Error::NOMEM.raw_os_error());
        return None;
    };
    buffers.save = save;
    let settings = PhaseSettings {
        counters: &stream.counters,
        cancel: &shared.over,
        control: None,
        time: course.time.map(|time| course.omit + time),
        idle: Some(buffers.patience(course.idle, half)),
        group: Some(member.start()?),
    };
    let limit = match plan.limit {
        Limit::Bytes(bytes) if course.bytes.is_some() && !shared.sum_ends => {
            Limit::Bytes(length.map_or(bytes, |file| file.len().min(bytes)))
        }
        _ if fills_once => length.map_or(Limit::Unlimited, |file| Limit::Bytes(file.len())),
        _ => course.time.map_or(Limit::Unlimited, Limit::Time),
    };
    let mut phase = MeasuredPhase::start(half, settings);
    let socket = &stream.data.socket;
    let path = Flow::Connected(socket.as_fd());
    let body = Loop {
        warm_up: course.omit,
        ..Loop::of(plan, &mut buffers)
    };
    let ran = phase.run(limit, body, path);
    note(&ran, shared, stream.sends);
    if stream.sends {
        if stream.file.is_none() {
            complete_block(stream, course.payload);
        }
        if course.hangs_up && plan.transport.has_connections() {
            // The client decides when the test ends, also after the end of a file.
            let _ = shared
                .over
                .wait_readable(socket.as_fd(), Instant::now() + LONG);
            let _ = call::shutdown_write(socket.as_fd());
        }
    } else {
        receive_late(
            socket.as_fd(),
            &mut buffers,
            &shared.drained,
            &stream.counters,
        );
    }
    let facts = stream.data.facts_at_end(socket);
    Some(phase.side(ran, &stream.data, &buffers, facts))
}

/// Sends what is missing of a block that the end has cut: a stock receiver waits for all of it, and for nothing else
/// meanwhile. The test's time is over, so it is not counted.
fn complete_block(stream: &Stream, payload: &[u8]) {
    let SizeRule::Bytes(block) = stream.plan.here.send.size else {
        return;
    };
    let sent = stream.counters.counts().sent.0 % u64::from(block);
    if !stream.plan.transport.has_bytes() || sent == 0 {
        return;
    }
    let mut rest = u64::from(block) - sent;
    let socket = stream.data.socket.as_fd();
    let until = Instant::now() + REST;
    while rest > 0 && Instant::now() < until {
        let piece = &payload[..payload.len().min(rest as usize)];
        match call::send_without_waiting(socket, piece) {
            Ok(count) => rest -= count as u64,
            Err(Error::AGAIN) => {
                let _ =
                    call::wait_writable(socket, until.saturating_duration_since(Instant::now()));
            }
            Err(Error::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Tells the leader of a stream that has ended by itself.
fn note(ran: &Ran, shared: &Shared<'_>, sends: bool) {
    let end = match (&ran.ended, ran.failure) {
        // The client ends the test, also after the server's file.
        (Ended::Count, _) if shared.course.hangs_up => return,
        (Ended::Count, _) => End::Regular,
        // A sender's time has come, or the peer's message says why.
        (Ended::Deadline | Ended::Cancelled, _) => return,
        (Ended::PeerClosed, _) if !sends => return,
        (_, Some((_, errno))) if errno == Error::TIMEDOUT.raw_os_error() => End::Idle,
        (_, Some((_, errno))) if is_of_disk(errno) => End::Failed("write", errno),
        (_, Some((what, errno))) => End::Failed(what, errno),
        _ => End::Failed(if sends { "send" } else { "receive" }, 0),
    };
    shared.end(end);
}

/// Whether an error is one of a file, and none of a socket.
fn is_of_disk(errno: i32) -> bool {
    [
        Error::NOSPC,
        Error::DQUOT,
        Error::FBIG,
        Error::IO,
        Error::ROFS,
    ]
    .map(Error::raw_os_error)
    .contains(&errno)
}

/// The calling thread's part.
struct Leader<'a> {
    streams: &'a [Stream],
    shared: &'a Shared<'a>,
    group: &'a FlowGroup,
    started: Instant,
    stopped: Option<Duration>,
    series: Vec<Series>,
    round_trips: Vec<Histogram>,
    /// What was counted in the omitted time.
    omitted: Vec<Counts>,
    begin: Option<usize>,
    /// The end of the last interval.
    last: Duration,
    /// When round-trip times were looked at.
    looked: Duration,
}

impl<'a> Leader<'a> {
    fn new(streams: &'a [Stream], shared: &'a Shared<'a>, group: &'a FlowGroup) -> Self {
        let name = |stream: &Stream| stream.number.to_string();
        let series = streams.iter().map(|stream| Series {
            name: name(stream),
            samples: vec![Sample::default()],
            ..Series::default()
        });
        Self {
            streams,
            shared,
            group,
            started: Instant::now(),
            stopped: None,
            series: series.collect(),
            round_trips: streams.iter().map(|_| Histogram::default()).collect(),
            omitted: streams.iter().map(|_| Counts::default()).collect(),
            begin: shared.course.omit.is_zero().then_some(0),
            last: Duration::ZERO,
            looked: Duration::ZERO,
        }
    }

    fn until_end(&mut self, control: &ControlConnection, lead: &mut dyn Lead) -> End {
        let Course {
            omit,
            time,
            bytes,
            interval,
            cancel,
            ..
        } = self.shared.course;
        let end = time.map(|time| omit + time);
        let mut target = bytes.filter(|_| self.shared.sum_ends);
        let mut given_up = None;
        let mut due = self.next_due(interval);
        loop {
            let now = self.started.elapsed();
            let moved = self.moved();
            if target.is_some_and(|target| moved >= target)
                || end.is_some_and(|end| now >= end)
                || given_up.is_some_and(|when| now >= when)
            {
                return End::Regular;
            }
            if due.is_some_and(|due| now >= due) {
                self.end_interval(now, lead);
                due = self.next_due(interval);
            }
            match lead.on_tick(now, moved) {
                Verdict::GoOn => {}
                _ => return End::Regular,
            }
            let tick = if target.is_some() { SHORT_TICK } else { TICK };
            let wake = [due, end]
                .into_iter()
                .flatten()
                .fold(now + tick, Duration::min);
            match self
                .shared
                .notice
                .wait_readable(control.as_fd(), self.started + wake)
            {
                Ok(true) => match lead.on_control() {
                    Verdict::GoOn => {}
                    Verdict::End => return End::Regular,
                    Verdict::EndAfter(bytes) => {
                        target = Some(bytes);
                        given_up = Some(self.started.elapsed() + ARRIVAL);
                    }
                },
                Ok(false) => self.look(now),
                Err(_) if cancel.is_set() => return End::Cancelled,
                Err(_) => return self.explained(control, lead),
            }
        }
    }

    /// A stream has ended by itself. The control connection may say why.
    fn explained(&self, control: &ControlConnection, lead: &mut dyn Lead) -> End {
        let end = self.shared.first.get().cloned().unwrap_or(End::Regular);
        let until = Instant::now() + EXPLANATION;
        if matches!(end, End::Failed(..))
            && matches!(control.is_readable(until), Ok(true))
            && lead.on_control() != Verdict::GoOn
        {
            return End::Regular;
        }
        end
    }

    /// When the streams ended: they keep the test's time by themselves, however late this thread is.
    fn end_of_data(&self) -> Duration {
        let now = self.started.elapsed();
        let Course { omit, time, .. } = self.shared.course;
        let sampled = self.series.first().and_then(|series| series.samples.last());
        let least = sampled.map_or(Duration::ZERO, |sample| sample.at);
        time.map_or(now, |time| now.min(omit + time)).max(least)
    }

    /// The end of the next interval, since the start.
    fn next_due(&self, interval: Option<Duration>) -> Option<Duration> {
        let omit = self.shared.course.omit;
        let next = |begin: Duration, interval: Duration| {
            let passed = (self.last.saturating_sub(begin)).as_nanos() / interval.as_nanos().max(1);
            let whole = u32::try_from(passed + 1).unwrap_or(u32::MAX);
            let due = begin + interval.saturating_mul(whole);
            // A sample that came a little early would have the same end once more.
            if due <= self.last + interval / 10 {
                due + interval
            } else {
                due
            }
        };
        if self.begin.is_none() {
            let due = interval.map(|interval| next(Duration::ZERO, interval));
            return Some(due.map_or(omit, |due| due.min(omit)));
        }
        interval.map(|interval| next(omit, interval))
    }

    fn end_interval(&mut self, now: Duration, lead: &mut dyn Lead) {
        self.sample(now);
        self.last = now;
        if self.shared.course.interval.is_some() {
            lead.on_interval(self.interval());
        }
        self.thin();
        if self.begin.is_none() && now >= self.shared.course.omit {
            self.begin = Some(self.samples() - 1);
            // The grid begins anew, at the time when it should.
            self.last = self.shared.course.omit;
            self.group.restart_cpu();
            let counted = self.streams.iter().map(|stream| stream.counters.counts());
            self.omitted = counted.collect();
            for round_trips in &mut self.round_trips {
                *round_trips = Histogram::default();
            }
        }
    }

    fn interval(&self) -> IntervalEnd<'_> {
        IntervalEnd {
            streams: self.streams,
            series: &self.series,
            begin: self.begin,
        }
    }

    fn samples(&self) -> usize {
        self.series.first().map_or(0, |series| series.samples.len())
    }

    /// What came after the last interval; one of no length and without data is none.
    fn sample_last(&mut self, lead: &mut dyn Lead) {
        let Some(stopped) = self.stopped else { return };
        let interval = self.shared.course.interval;
        self.sample(stopped);
        let moved = |series: &Series| {
            let [.., before, last] = &series.samples[..] else {
                return false;
            };
            last.bytes() > before.bytes()
        };
        let is_short =
            interval.is_none_or(|interval| stopped.saturating_sub(self.last) < interval / 10);
        if is_short && !self.series.iter().any(moved) && self.samples() > 2 {
            for series in &mut self.series {
                // Its end is the end of the last interval.
                series.samples.pop();
            }
            return;
        }
        if interval.is_some() {
            lead.on_interval(self.interval());
        }
    }

    /// Drops every second sample after the begin, but for the last, of a test that has too many.
    fn thin(&mut self) {
        let most = (MOST_SAMPLES / self.series.len().max(1)).max(1000);
        let Some(begin) = self.begin.filter(|_| self.samples() > most) else {
            return;
        };
        for series in &mut self.series {
            let last = series.samples.len() - 1;
            let mut at = 0..=last;
            let is_kept = |at: usize| at <= begin || at == last || (at - begin).is_multiple_of(2);
            series.samples.retain(|_| at.next().is_some_and(is_kept));
        }
    }

    fn sample(&mut self, at: Duration) {
        for (stream, series) in self.streams.iter().zip(&mut self.series) {
            series.samples.push(sample(stream, at));
        }
    }

    /// Looks at the round-trip times of what is sent.
    fn look(&mut self, now: Duration) {
        if now < self.looked + TICK {
            return;
        }
        self.looked = now;
        for (stream, times) in self.streams.iter().zip(&mut self.round_trips) {
            if stream.sends
                && stream.plan.transport.has_tcp_options()
                && let Ok(info) = option::tcp_info(stream.data.socket.as_fd())
                && info.rtt_us > 0
            {
                times.record(u64::from(info.rtt_us) * 1000);
            }
        }
    }

    fn moved(&self) -> u64 {
        self.streams
            .iter()
            .map(|stream| stream.counters.counts().bytes())
            .sum()
    }
}

fn sample(stream: &Stream, at: Duration) -> Sample {
    let counts = stream.counters.counts();
    Sample {
        at,
        sent: counts.sent,
        received: counts.received,
        operations: counts.send_calls + counts.receive_calls,
        datagrams: stream.counters.datagrams().filter(|_| !stream.sends),
        path: (stream.sends && stream.plan.transport.has_tcp_options())
            .then(|| path_sample(stream.data.socket.as_fd()))
            .flatten(),
    }
}
