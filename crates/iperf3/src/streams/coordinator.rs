//! The coordinator of a transfer: samples the streams and watches the control connection.
//!
//! It runs on the calling thread and decides when the transfer ends.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use control::ControlConnection;
use engine::{BudgetShare, FlowGroup, acknowledged_bytes, path_sample};
use model::{Counts, Sample, Series};
use stats::Histogram;
use sys::option;

use super::{
    IntervalEnd, NextStep, SharedState, Stream, TransferEnd, TransferHandler, TransferSettings,
};

/// The longest wait, and the minimum time between two samples of round-trip times.
pub(crate) const MAX_TICK: Duration = Duration::from_millis(8);

/// The longest wait while received bytes can end the transfer.
const SHORT_TICK: Duration = Duration::from_millis(1);

/// The maximum wait for a control message that explains a stream's failure.
const EXPLANATION_TIMEOUT: Duration = Duration::from_millis(500);

/// The maximum number of samples of all streams; beyond it, every second sample is dropped.
const MAX_SAMPLES: usize = 500_000;

/// The unit in which a server charges the memory of samples, in bytes.
const SAMPLE_MEMORY_UNIT: u64 = 64 << 10;

/// The maximum wait for data in flight after its sender has ended.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Samples the streams and decides when the transfer ends.
pub(super) struct Coordinator<'a> {
    streams: &'a [Stream],
    shared: &'a SharedState<'a>,
    group: &'a FlowGroup,
    started: Instant,
    pub(super) data_end: Option<Duration>,
    pub(super) series: Vec<Series>,
    pub(super) round_trips: Vec<Histogram>,
    /// The counts of each stream in the omitted time.
    pub(super) omitted: Vec<Counts>,
    pub(super) omit_end_index: Option<usize>,
    /// The memory of a server's samples.
    sample_share: Option<BudgetShare>,
    /// The end of the last interval.
    last_interval_end: Duration,
    /// When round-trip times were last sampled.
    last_round_trip_sample: Duration,
}

impl<'a> Coordinator<'a> {
    pub(super) fn new(
        streams: &'a [Stream],
        shared: &'a SharedState<'a>,
        group: &'a FlowGroup,
    ) -> Self {
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
            data_end: None,
            series: series.collect(),
            round_trips: streams.iter().map(|_| Histogram::default()).collect(),
            omitted: streams.iter().map(|_| Counts::default()).collect(),
            omit_end_index: shared.transfer.omit.is_zero().then_some(0),
            sample_share: None,
            last_interval_end: Duration::ZERO,
            last_round_trip_sample: Duration::ZERO,
        }
    }

    pub(super) fn run_until_end(
        &mut self,
        control: &ControlConnection,
        handler: &mut dyn TransferHandler,
    ) -> TransferEnd {
        let TransferSettings {
            omit,
            time,
            bytes,
            interval,
            cancel,
            is_server,
            ..
        } = self.shared.transfer;
        let end = time.map(|time| omit + time);
        let has_receiver = self.streams.iter().any(|stream| !stream.sends);
        let polls_limit = bytes.is_some() && has_receiver && !is_server;
        let mut final_bytes = None;
        let (mut give_up_at, mut last_moved) = (None, (0, Duration::ZERO));
        let mut due = self.next_due(interval);
        loop {
            let now = self.started.elapsed();
            let moved_bytes = self.moved_bytes();
            if final_bytes.is_some() && moved_bytes > last_moved.0 {
                last_moved = (moved_bytes, now);
            }
            if self.has_received_limit()
                || final_bytes.is_some_and(|bytes| moved_bytes >= bytes)
                || end.is_some_and(|end| now >= end)
            {
                return TransferEnd::Regular;
            }
            if give_up_at.is_some_and(|when| now >= when) {
                // The wait for lost datagrams is not part of the test.
                self.data_end = Some(last_moved.1);
                return TransferEnd::Regular;
            }
            if due.is_some_and(|due| now >= due) {
                self.end_interval(now, handler);
                due = self.next_due(interval);
            }
            match handler.on_tick(now, moved_bytes) {
                NextStep::Continue => {}
                _ => return TransferEnd::Regular,
            }
            let tick = if final_bytes.is_some() || polls_limit {
                SHORT_TICK
            } else {
                MAX_TICK
            };
            let wake = [due, end]
                .into_iter()
                .flatten()
                .fold(now + tick, Duration::min);
            match self
                .shared
                .coordinator_wake
                .wait_readable(control.as_fd(), self.started + wake)
            {
                Ok(true) => {
                    let moved = (self.moved_bytes(), self.started.elapsed());
                    // The end of a test may be the end of the time over which a server averages.
                    if handler.on_tick(moved.1, moved.0) != NextStep::Continue {
                        return TransferEnd::Regular;
                    }
                    match handler.on_control() {
                        NextStep::Continue => {}
                        NextStep::End => return TransferEnd::Regular,
                        NextStep::EndAfter(bytes) => {
                            final_bytes = Some(bytes);
                            // The last interval ends with the data.
                            due = None;
                            last_moved = moved;
                            give_up_at = Some(self.started.elapsed() + ARRIVAL_TIMEOUT);
                        }
                    }
                }
                Ok(false) => self.sample_round_trips(now),
                Err(_) if cancel.is_set() => return TransferEnd::Cancelled,
                Err(_) => return self.resolve_stream_end(control, handler),
            }
        }
    }

    /// Returns whether a client has received the limit of bytes. Senders end at it by themselves.
    fn has_received_limit(&self) -> bool {
        let TransferSettings {
            bytes, is_server, ..
        } = self.shared.transfer;
        let begins = self.omit_end_index.is_some() && !is_server;
        let Some(limit) = bytes.filter(|_| begins) else {
            return false;
        };
        let measured = |(stream, omitted): (&Stream, &Counts)| {
            let received = stream.counters.counts().received.0;
            received.saturating_sub(omitted.received.0)
        };
        let received: u64 = self.streams.iter().zip(&self.omitted).map(measured).sum();
        received >= limit
    }

    /// Returns the end of a stream that ended by itself; a control message takes precedence.
    fn resolve_stream_end(
        &self,
        control: &ControlConnection,
        handler: &mut dyn TransferHandler,
    ) -> TransferEnd {
        let end = self
            .shared
            .first_end
            .get()
            .cloned()
            .unwrap_or(TransferEnd::Regular);
        let until = Instant::now() + EXPLANATION_TIMEOUT;
        if matches!(end, TransferEnd::Failed(..))
            && matches!(control.wait_readable(until), Ok(true))
            && handler.on_control() != NextStep::Continue
        {
            return TransferEnd::Regular;
        }
        end
    }

    /// Returns when the streams ended.
    ///
    /// The streams stop by their own clock at the end of the time, even if this thread is late.
    pub(super) fn data_end_time(&self) -> Duration {
        if let Some(data_end) = self.data_end {
            return data_end;
        }
        let now = self.started.elapsed();
        let TransferSettings { omit, time, .. } = self.shared.transfer;
        let sampled = self.series.first().and_then(|series| series.samples.last());
        let earliest = sampled.map_or(Duration::ZERO, |sample| sample.at);
        time.map_or(now, |time| now.min(omit + time)).max(earliest)
    }

    /// Returns when the next interval ends, since the start.
    fn next_due(&self, interval: Option<Duration>) -> Option<Duration> {
        let omit = self.shared.transfer.omit;
        let next = |begin: Duration, interval: Duration| {
            let passed = (self.last_interval_end.saturating_sub(begin)).as_nanos()
                / interval.as_nanos().max(1);
            let intervals = u32::try_from(passed + 1).unwrap_or(u32::MAX);
            let due = begin + interval.saturating_mul(intervals);
            // After a slightly early sample, `due` is the interval end that was just sampled.
            if due <= self.last_interval_end + interval / 10 {
                due + interval
            } else {
                due
            }
        };
        if self.omit_end_index.is_none() {
            let due = interval.map(|interval| next(Duration::ZERO, interval));
            return Some(due.map_or(omit, |due| due.min(omit)));
        }
        interval.map(|interval| next(omit, interval))
    }

    fn end_interval(&mut self, now: Duration, handler: &mut dyn TransferHandler) {
        let counted = self.record_samples(now);
        let ends_omitted_time = self.omit_end_index.is_none() && now >= self.shared.transfer.omit;
        if ends_omitted_time {
            self.omitted = counted;
            self.begin_limit();
        }
        self.last_interval_end = now;
        if self.shared.transfer.interval.is_some() {
            handler.on_interval(self.interval_end());
        }
        self.halve_samples();
        if ends_omitted_time {
            self.omit_end_index = Some(self.sample_count() - 1);
            // Intervals restart at the exact end of the omitted time.
            self.last_interval_end = self.shared.transfer.omit;
            self.group.restart_cpu();
            for round_trips in &mut self.round_trips {
                *round_trips = Histogram::default();
            }
        }
    }

    /// Begins the limit of the sent bytes at the end of the omitted time.
    fn begin_limit(&self) {
        let Some(limit) = &self.shared.limit else {
            return;
        };
        let mut sent: u64 = self.omitted.iter().map(|counts| counts.sent.0).sum();
        if self.shared.transfer.is_server {
            // The ends omit different data, and a client must receive the limit without its part.
            sent += self.omitted.iter().map(Counts::bytes).sum::<u64>();
        }
        limit.begin(sent);
    }

    fn interval_end(&self) -> IntervalEnd<'_> {
        IntervalEnd {
            streams: self.streams,
            series: &self.series,
            omit_end_index: self.omit_end_index,
        }
    }

    fn sample_count(&self) -> usize {
        self.series.first().map_or(0, |series| series.samples.len())
    }

    /// Ends the last interval: the whole test, if no interval was requested. Drops it if it is short
    /// and has no data.
    pub(super) fn end_last_interval(&mut self, handler: &mut dyn TransferHandler) {
        let Some(data_end) = self.data_end else {
            return;
        };
        let interval = self.shared.transfer.interval;
        self.record_samples(data_end);
        let has_moved = |series: &Series| {
            let [.., before, last] = &series.samples[..] else {
                return false;
            };
            last.bytes() > before.bytes()
        };
        let is_short = interval
            .is_none_or(|interval| data_end.saturating_sub(self.last_interval_end) < interval / 10);
        if is_short && !self.series.iter().any(has_moved) && self.sample_count() > 2 {
            for series in &mut self.series {
                // The test then ends with the previous interval.
                series.samples.pop();
            }
            return;
        }
        handler.on_interval(self.interval_end());
    }

    /// Drops every second sample if there are too many.
    ///
    /// Keeps the omitted time's samples and the last one.
    fn halve_samples(&mut self) {
        let max_samples = (MAX_SAMPLES / self.series.len().max(1)).max(1000);
        let are_too_many = self.sample_count() > max_samples || !self.charge_samples();
        let Some(omit_end) = self.omit_end_index.filter(|_| are_too_many) else {
            return;
        };
        for series in &mut self.series {
            let last = series.samples.len() - 1;
            let mut indexes = 0..=last;
            let is_kept = |index: usize| {
                index <= omit_end || index == last || (index - omit_end).is_multiple_of(2)
            };
            series
                .samples
                .retain(|_| indexes.next().is_some_and(is_kept));
        }
    }

    /// Charges the memory of a server's samples to the client. Returns whether there is enough.
    fn charge_samples(&mut self) -> bool {
        let transfer = &self.shared.transfer;
        // A list grows by doubling.
        let samples = 2 * self.series.len() * self.sample_count();
        let bytes = (samples * size_of::<Sample>()) as u64;
        let charged = self.sample_share.as_ref().map_or(0, BudgetShare::amount);
        if !transfer.is_server || bytes <= charged {
            return true;
        }
        let missing = (bytes - charged).next_multiple_of(SAMPLE_MEMORY_UNIT);
        if let Some(share) = &mut self.sample_share {
            return share.grow(missing).is_ok();
        }
        self.sample_share = transfer.memory.reserve(missing).ok();
        self.sample_share.is_some()
    }

    /// Samples each stream; returns the counts of these samples.
    fn record_samples(&mut self, at: Duration) -> Vec<Counts> {
        let streams = self.streams.iter().zip(&mut self.series);
        let counts = streams.map(|(stream, series)| {
            let counts = stream.counters.counts();
            series.samples.push(stream_sample(stream, &counts, at));
            counts
        });
        counts.collect()
    }

    /// Samples the round-trip times of the sending streams.
    fn sample_round_trips(&mut self, now: Duration) {
        if now < self.last_round_trip_sample + MAX_TICK {
            return;
        }
        self.last_round_trip_sample = now;
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

    fn moved_bytes(&self) -> u64 {
        self.streams
            .iter()
            .map(|stream| stream.counters.counts().bytes())
            .sum()
    }
}

fn stream_sample(stream: &Stream, counts: &Counts, at: Duration) -> Sample {
    let is_tcp_sender = stream.sends && stream.plan.transport.has_tcp_options();
    let acknowledged = acknowledged_bytes(stream.data.socket.as_fd()).filter(|_| is_tcp_sender);
    Sample {
        at,
        sent: counts.sent,
        received: counts.received,
        operations: counts.send_calls + counts.receive_calls,
        datagrams: stream.counters.datagrams().filter(|_| !stream.sends),
        acknowledged: acknowledged.map(|bytes| bytes.min(counts.sent)),
        path: is_tcp_sender
            .then(|| path_sample(stream.data.socket.as_fd()))
            .flatten(),
    }
}
