//! Times and counts of bursts, frames, datagrams and send calls, per interval and per test.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::{BudgetExceeded, BudgetShare, BufferMemory};
use stats::Histogram;

/// The kind of events that a flow times. It decides the format of the report lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimingKind {
    /// Buffers of a stream, each with a timestamp: the time from sender to receiver.
    #[default]
    TripTimes,
    /// Periodic bursts of a stream. Each burst is reported.
    Bursts {
        /// The time from one burst to the next.
        period: Duration,
    },
    /// Isochronous frames.
    Frames,
    /// Send calls: the duration of each.
    Writes,
    /// Datagrams: the time from sender to receiver.
    Datagrams,
    /// Datagrams: how much that time differs from the datagram's before.
    Jitter,
}

/// The bins of `--histograms` or `--jitter-histograms`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HistogramBins {
    /// The width of each bin.
    pub width: Duration,
    /// The number of bins.
    pub count: u32,
    /// The two percentiles to report.
    pub percents: [f64; 2],
}

impl HistogramBins {
    /// The maximum number of bins. It limits the memory that a peer can fill.
    pub const MAX_COUNT: u32 = 1_000_000;

    /// Returns bins of 100 µs with the percentiles 5 and 95.
    pub fn with_count(count: u32) -> Self {
        Self {
            width: Duration::from_micros(100),
            count,
            percents: [5.0, 95.0],
        }
    }
}

/// Times and counts of an interval or a test.
#[derive(Clone, Debug, Default)]
pub struct TimingStats {
    /// The number of recorded times.
    pub count: u64,
    sum_ns: f64,
    sum_of_squares: f64,
    extremes_ns: Option<(i64, i64)>,
    /// When the longest recorded duration ended, in nanoseconds since 1970.
    pub longest_at_ns: u64,
    /// Payload bytes of the timed events.
    pub bytes: u64,
    /// Sent or received frames.
    pub frames: u64,
    /// Frames that were not sent in their period, or did not arrive.
    pub missed: u64,
    /// Frames after which the sender was late for the next one.
    pub slips: u64,
    /// The number of receive calls per fill level of the buffer, in eighths.
    pub read_sizes: [u64; 8],
    /// The number of times per histogram bin; bins count from 1.
    pub bins: BTreeMap<u32, u64>,
    /// The number of times above the last bin.
    pub above_bins: u64,
}

impl TimingStats {
    /// Records a duration that ended at `at_ns`, in nanoseconds since 1970.
    ///
    /// Also counts the duration in its bin of `bins`, if any.
    pub fn record(&mut self, time_ns: i64, at_ns: u64, bins: Option<HistogramBins>) {
        let (min, max) = self.extremes_ns.unwrap_or((time_ns, time_ns));
        if self.count == 0 || time_ns > max {
            self.longest_at_ns = at_ns;
        }
        self.extremes_ns = Some((min.min(time_ns), max.max(time_ns)));
        self.count += 1;
        self.sum_ns += time_ns as f64;
        self.sum_of_squares += (time_ns as f64).powi(2);
        if let Some(HistogramBins { width, count, .. }) = bins {
            let width_ns = (width.as_nanos() as u64).max(1);
            let bin = u64::try_from(time_ns).unwrap_or(0) / width_ns + 1;
            match u32::try_from(bin) {
                Ok(bin) if bin <= count => *self.bins.entry(bin).or_default() += 1,
                _ => self.above_bins += 1,
            }
        }
    }

    /// Adds the statistics of another flow.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.sum_of_squares += other.sum_of_squares;
        self.extremes_ns = match (self.extremes_ns, other.extremes_ns) {
            (Some((min, max)), Some((other_min, other_max))) => {
                Some((min.min(other_min), max.max(other_max)))
            }
            (own, other) => own.or(other),
        };
    }

    /// Counts a receive call that filled `filled` of `size` bytes.
    pub fn count_read(&mut self, filled: usize, size: usize) {
        if let Some(filled) = filled.checked_sub(1) {
            self.read_sizes[(filled * 8 / size.max(1)).min(7)] += 1;
        }
    }

    /// Counts a frame that was sent `late_ns` after its scheduled time.
    pub fn count_sent_frame(&mut self, late_ns: u64, missed: u64, slips: u64) {
        self.record(late_ns.cast_signed(), 0, None);
        self.frames += 1;
        self.missed += missed;
        self.slips += slips;
    }

    /// Returns mean, minimum, maximum and standard deviation in milliseconds; 0 without times.
    pub fn summary_ms(&self) -> [f64; 4] {
        let count = self.count.max(1) as f64;
        let mean = self.sum_ns / count;
        let (min, max) = self.extremes_ns.unwrap_or_default();
        let variance = (self.sum_of_squares / count - mean * mean).max(0.0);
        [mean, min as f64, max as f64, variance.sqrt()].map(|ns| ns / 1e6)
    }
}

/// The timings of a flow. Its loop records them, and reports read them.
#[derive(Debug)]
pub struct FlowTimings {
    /// The kind of timed events.
    pub kind: TimingKind,
    /// The bins of the histogram; `None` without one.
    pub bins: Option<HistogramBins>,
    recorded: Mutex<RecordedTimings>,
}

#[derive(Debug, Default)]
struct RecordedTimings {
    interval: TimingStats,
    total: TimingStats,
    /// The times that are not negative, for JSON and HTML documents.
    histogram: Histogram,
}

impl FlowTimings {
    /// Creates empty timings.
    pub fn new(kind: TimingKind, bins: Option<HistogramBins>) -> Self {
        Self {
            kind,
            bins,
            recorded: Mutex::default(),
        }
    }

    /// Reserves the memory of the histograms of the interval and of the test.
    pub(crate) fn reserve(&self, memory: &BufferMemory) -> Result<BudgetShare, BudgetExceeded> {
        /// A tree's bytes per bin.
        const BIN_BYTES: u64 = 24;
        let count = self.bins.map_or(0, |bins| bins.count);
        memory.reserve(2 * BIN_BYTES * u64::from(count))
    }

    /// Applies a change to the statistics of the interval and of the test.
    pub fn update(&self, change: impl Fn(&mut TimingStats)) {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut recorded.interval);
        change(&mut recorded.total);
    }

    /// Records a duration in the statistics of the interval and of the test.
    pub fn record(&self, time_ns: i64, at_ns: u64, bytes: u64) {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let RecordedTimings {
            interval,
            total,
            histogram,
        } = &mut *recorded;
        for stats in [interval, total] {
            stats.record(time_ns, at_ns, self.bins);
            stats.bytes += bytes;
        }
        if let Ok(time_ns) = u64::try_from(time_ns) {
            histogram.record(time_ns);
        }
    }

    /// Returns the statistics since the last call.
    pub fn take_interval(&self) -> TimingStats {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut recorded.interval)
    }

    /// Returns the statistics of the test.
    pub fn test_total(&self) -> TimingStats {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.total.clone()
    }

    /// Returns the distribution of all times that are not negative; `None` without such times.
    pub fn histogram(&self) -> Option<Histogram> {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        Some(recorded.histogram.clone()).filter(|times| !times.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_recorded_for_interval_and_test() {
        let bins = HistogramBins::with_count(10);
        let timings = FlowTimings::new(TimingKind::TripTimes, Some(bins));
        for (time_us, at) in [(150, 1), (50, 2), (950, 3)] {
            timings.record(time_us * 1000, at, 10);
        }
        let interval = timings.take_interval();
        assert_eq!(
            (interval.count, interval.bytes, interval.longest_at_ns),
            (3, 30, 3)
        );
        assert_eq!(
            interval.bins.into_iter().collect::<Vec<_>>(),
            [(1, 1), (2, 1), (10, 1)]
        );
        timings.record(-50_000, 4, 10);
        let [mean, min, max, deviation] = timings.test_total().summary_ms();
        assert_eq!((mean, min, max), (0.275, -0.05, 0.95));
        assert!((deviation - 0.396).abs() < 0.001, "{deviation}");
        assert_eq!(timings.take_interval().count, 1);
        assert_eq!(timings.histogram().unwrap().len(), 3);
    }

    #[test]
    fn reads_are_counted_per_eighth_of_the_buffer() {
        let mut stats = TimingStats::default();
        for filled in [0, 1, 125, 126, 1000] {
            stats.count_read(filled, 1000);
        }
        assert_eq!(stats.read_sizes, [2, 1, 0, 0, 0, 0, 0, 1]);
    }
}
