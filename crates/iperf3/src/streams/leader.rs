//! The thread that runs a test: samples the streams, listens to the control connection, decides when the data ends.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use control::ControlConnection;
use engine::{FlowGroup, path_sample};
use model::{Counts, Sample, Series};
use stats::Histogram;
use sys::option;

use super::{Course, End, IntervalEnd, Lead, Shared, Stream, Verdict};

/// How often round-trip times are looked at, at least.
const TICK: Duration = Duration::from_millis(8);

/// How often sums are looked at that end a test.
const SHORT_TICK: Duration = Duration::from_millis(1);

/// How long the control connection may take to explain a stream's failure.
const EXPLANATION: Duration = Duration::from_millis(500);

/// Samples of all streams of a test; of a longer one each second one is dropped.
const MOST_SAMPLES: usize = 500_000;

/// How long data that was sent may take to arrive after its sender's end.
const ARRIVAL: Duration = Duration::from_secs(1);

/// The calling thread's part.
pub(super) struct Leader<'a> {
    streams: &'a [Stream],
    shared: &'a Shared<'a>,
    group: &'a FlowGroup,
    started: Instant,
    pub(super) stopped: Option<Duration>,
    pub(super) series: Vec<Series>,
    pub(super) round_trips: Vec<Histogram>,
    /// What was counted in the omitted time.
    pub(super) omitted: Vec<Counts>,
    pub(super) begin: Option<usize>,
    /// The end of the last interval.
    last: Duration,
    /// When round-trip times were looked at.
    looked: Duration,
}

impl<'a> Leader<'a> {
    pub(super) fn new(streams: &'a [Stream], shared: &'a Shared<'a>, group: &'a FlowGroup) -> Self {
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

    pub(super) fn until_end(&mut self, control: &ControlConnection, lead: &mut dyn Lead) -> End {
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
    pub(super) fn end_of_data(&self) -> Duration {
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
    pub(super) fn sample_last(&mut self, lead: &mut dyn Lead) {
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
