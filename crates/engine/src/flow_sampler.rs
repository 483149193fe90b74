//! Samples of several flows on one time grid: what each has moved, its datagrams, and its connection.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Counts, DatagramCounts, PathSample, Sample};
use stats::Histogram;
use sys::option::{self, TcpInfo};

use crate::counters::Counters;
use crate::sampler::{Grid, MOST, thin};

/// How often smoothed round-trip times are looked at: at least 100 times per second, also if a look comes late.
const RTT_TICK: Duration = Duration::from_millis(5);

/// How often flows are looked at that end together.
const COUNT_TICK: Duration = Duration::from_millis(1);

/// When flows that run together are looked at, and what ends all of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupTimes {
    /// The first part of each flow, which belongs to no figure.
    pub warm_up: Duration,
    /// The deadline of each flow whose plan has none, from the end of the warm-up; the test is expected to end then.
    pub time: Option<Duration>,
    /// Ends them as soon as all of them have moved so many bytes after the warm-up, or some milliseconds later.
    pub together: Option<u64>,
    /// The time between samples; `None` for those of the start and the end alone.
    pub interval: Option<Duration>,
    /// Whether smoothed round-trip times are looked at, at least 100 times per second.
    pub looks_at_rtt: bool,
}

/// The samples of a group's flows.
pub(crate) struct FlowSampler<'a> {
    pub(crate) flows: Vec<SampledFlow<'a>>,
    times: GroupTimes,
    begun: Instant,
    grid: Option<Grid>,
    /// Where the grid begins: at the start, or at the end of the warm-up.
    origin: Duration,
    is_warm: bool,
}

/// The samples of one flow.
pub(crate) struct SampledFlow<'a> {
    counters: Arc<Counters>,
    socket: BorrowedFd<'a>,
    /// The one at the last interval's end.
    pub(crate) last: Sample,
    pub(crate) samples: Vec<Sample>,
    /// At the end of the warm-up, or at the start if there is none.
    pub(crate) base: Base,
    pub(crate) rtt: Histogram,
    delay_extremes_ns: Option<(i64, i64)>,
}

/// What belongs to no figure, because it was before.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) at: Instant,
    pub(crate) sample: Sample,
    pub(crate) counts: Counts,
    pub(crate) dropped: u64,
}

/// The end of an interval.
#[derive(Clone, Copy, Debug)]
pub struct IntervalEnd<'a> {
    /// Each flow's samples at its beginning and at its end, in the order of the flows. Times count from the start.
    pub flows: &'a [(Sample, Sample)],
    /// It lies in the warm-up.
    pub is_warm_up: bool,
    /// No other comes: the flows have ended.
    pub is_last: bool,
}

/// What a flow has moved and what its connection is like, now. Delays of datagrams are those since the last sample of
/// these counters.
pub fn sample_flow(counters: &Counters, socket: BorrowedFd<'_>, begun: Instant) -> Sample {
    let at = begun.elapsed();
    sample(&counters.counts(), counters, socket, at)
}

pub(crate) fn sample(
    counts: &Counts,
    counters: &Counters,
    socket: BorrowedFd<'_>,
    at: Duration,
) -> Sample {
    let mut datagrams = counters.datagrams();
    if let Some(datagrams) = &mut datagrams {
        datagrams.delays.extremes_ns = counters.take_delay_extremes();
    }
    Sample {
        at,
        sent: counts.sent,
        received: counts.received,
        operations: counts.transactions + counts.operations,
        datagrams,
        path: option::tcp_info(socket).ok().map(|info| path(&info)),
    }
}

fn path(info: &TcpInfo) -> PathSample {
    let micros = |micros: u32| Some(Duration::from_micros(micros.into()));
    let segment_bytes = u64::from(info.segment_bytes);
    PathSample {
        smoothed_rtt: micros(info.rtt_us),
        rtt_deviation: micros(info.rtt_variation_us),
        congestion_window_bytes: Some(u64::from(info.congestion_window) * segment_bytes),
        retransmits: Some(info.total_retransmits.into()),
        path_mtu_bytes: Some(info.path_mtu_bytes),
        send_window_bytes: info.send_window_bytes,
        reordering: Some(info.reordering),
    }
}

impl<'a> SampledFlow<'a> {
    pub(crate) fn of(counters: Arc<Counters>, socket: BorrowedFd<'a>) -> Self {
        let mut sampled = Self {
            counters,
            socket,
            last: Sample::default(),
            samples: vec![Sample::default()],
            base: Base {
                at: Instant::now(),
                sample: Sample::default(),
                counts: Counts::default(),
                dropped: 0,
            },
            rtt: Histogram::default(),
            delay_extremes_ns: None,
        };
        sampled.base.sample.path = option::tcp_info(sampled.socket)
            .ok()
            .map(|info| path(&info));
        sampled
    }

    /// What was counted of datagrams after the warm-up.
    pub(crate) fn datagrams(&self) -> Option<DatagramCounts> {
        let before = self.base.sample.datagrams.unwrap_or_default();
        let mut counts = self.counters.datagrams()?.since(&before);
        counts.delays.extremes_ns = wider(self.delay_extremes_ns, counts.delays.extremes_ns);
        Some(counts)
    }

    fn begin_anew(&mut self, sample: Sample, counts: Counts) {
        self.base = Base {
            at: Instant::now(),
            sample,
            counts,
            dropped: option::dropped(self.socket).unwrap_or(0).into(),
        };
        self.rtt = Histogram::default();
        self.delay_extremes_ns = None;
    }

    fn bytes(&self) -> u64 {
        self.counters.counts().since(&self.base.counts).bytes()
    }
}

fn wider(one: Option<(i64, i64)>, other: Option<(i64, i64)>) -> Option<(i64, i64)> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}

impl<'a> FlowSampler<'a> {
    pub(crate) fn new(flows: Vec<SampledFlow<'a>>, times: GroupTimes, begun: Instant) -> Self {
        let is_warm = times.warm_up.is_zero();
        let length = if is_warm {
            times.time
        } else {
            Some(times.warm_up)
        };
        Self {
            flows,
            times,
            begun,
            grid: times.interval.map(|interval| Grid::of(interval, length)),
            origin: Duration::ZERO,
            is_warm,
        }
    }

    /// When something is to be looked at next; `None` if only the flows' end is awaited.
    pub(crate) fn due(&self) -> Option<Instant> {
        let now = Instant::now();
        let on_grid = self
            .grid
            .as_ref()
            .map(|grid| self.begun + self.origin + grid.due());
        let warm = (!self.is_warm).then(|| self.begun + self.times.warm_up);
        let rtt = self.times.looks_at_rtt.then(|| now + RTT_TICK);
        let count = self.times.together.map(|_| now + COUNT_TICK);
        [on_grid, warm, rtt, count].into_iter().flatten().min()
    }

    /// Looks at what is due. `seen` gets an interval that has ended.
    pub(crate) fn look(&mut self, seen: impl FnOnce(&IntervalEnd<'_>)) {
        if self.times.looks_at_rtt {
            for flow in &mut self.flows {
                let rtt_us = option::tcp_info(flow.socket).map_or(0, |info| info.rtt_us);
                if rtt_us > 0 {
                    flow.rtt.record(u64::from(rtt_us) * 1000);
                }
            }
        }
        let now = self.begun.elapsed();
        let warms = !self.is_warm && now >= self.times.warm_up;
        let is_due = |grid: &Grid| now >= self.origin + grid.due();
        if !warms && !self.grid.as_ref().is_some_and(is_due) {
            return;
        }
        let (origin, begun) = (self.origin, self.begun);
        if let Some(grid) = &mut self.grid {
            grid.pass(now.saturating_sub(origin));
        }
        let samples = |flow: &SampledFlow<'_>| sample_flow(&flow.counters, flow.socket, begun);
        let samples: Vec<Sample> = self.flows.iter().map(samples).collect();
        self.add(&samples, false, seen);
        if warms {
            self.is_warm = true;
            self.origin = self.times.warm_up;
            let again = |interval| Grid::of(interval, self.times.time);
            self.grid = self.times.interval.map(again);
            for (flow, sample) in self.flows.iter_mut().zip(samples) {
                let counts = flow.counters.counts();
                flow.begin_anew(sample, counts);
            }
        }
    }

    /// Adds the flows' last samples.
    pub(crate) fn end(
        &mut self,
        counts: &[(Counts, Instant)],
        seen: impl FnOnce(&IntervalEnd<'_>),
    ) {
        let ends = self.flows.iter().zip(counts);
        let last = |(flow, (counts, at)): (&SampledFlow<'_>, &(Counts, Instant))| {
            let at = at.saturating_duration_since(self.begun).max(flow.last.at);
            sample(counts, &flow.counters, flow.socket, at)
        };
        let samples: Vec<Sample> = ends.map(last).collect();
        self.add(&samples, true, seen);
        if !self.is_warm {
            for ((flow, sample), (counts, _)) in self.flows.iter_mut().zip(samples).zip(counts) {
                flow.begin_anew(sample, *counts);
            }
        }
    }

    /// Whether the warm-up is over.
    pub(crate) fn is_warm(&self) -> bool {
        self.is_warm
    }

    /// Whether the flows have moved as much as they should together.
    pub(crate) fn is_enough(&self) -> bool {
        let moved = || self.flows.iter().map(SampledFlow::bytes).sum::<u64>();
        let together = self.times.together;
        self.is_warm && together.is_some_and(|together| moved() >= together)
    }

    fn add(&mut self, samples: &[Sample], is_last: bool, seen: impl FnOnce(&IntervalEnd<'_>)) {
        let mut pairs = Vec::with_capacity(samples.len());
        for (flow, sample) in self.flows.iter_mut().zip(samples) {
            pairs.push((flow.last, *sample));
            let extremes_ns = sample
                .datagrams
                .and_then(|counts| counts.delays.extremes_ns);
            flow.delay_extremes_ns = wider(flow.delay_extremes_ns, extremes_ns);
            flow.last = *sample;
            if flow.samples.len() == MOST {
                thin(&mut flow.samples);
            }
            flow.samples.pop_if(|last| last.at == sample.at);
            flow.samples.push(*sample);
        }
        seen(&IntervalEnd {
            flows: &pairs,
            is_warm_up: !self.is_warm,
            is_last,
        });
    }
}
