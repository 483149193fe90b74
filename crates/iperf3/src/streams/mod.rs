//! The data of a test: a thread per stream, and the calling thread, which samples, listens to the control connection
//! and decides when the test ends.

mod leader;
mod open;
mod worker;

use std::sync::OnceLock;
use std::thread::Builder;
use std::time::Duration;

use control::ControlConnection;
use engine::{FlowGroup, Memory, Reason, Stop};
use model::{Series, Side};

use crate::options::Common;
use crate::wire::Parameters;
use crate::wire::error::{self, Fault};
use leader::Leader;
pub(crate) use open::{Stream, bind, describe, open_file};
use worker::run_stream;

/// How much memory a stream's buffers may take.
pub(crate) const STREAM_MEMORY: u64 = 4 << 20;

/// A stream's stack. Its buffers are on the heap.
const STACK: usize = 256 * 1024;

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
