//! Samples of counters on a time grid.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use model::{Counts, PathSample, Sample};
use sys::option;
use units::Bytes;

use crate::counters::Counters;

/// Maximum number of samples, which is more than a plot can show.
const MAX_SAMPLES: usize = 2000;

/// Samples of counters on a time grid.
///
/// A sampler has no thread and reads nothing by itself: its owner reads the counters when a sample
/// is due, and adds the reading. Sampling does not slow down the threads that count.
#[derive(Debug)]
pub struct Sampler {
    started: Instant,
    initial: Counts,
    last: CounterReading,
    grid: Grid,
    samples: Vec<Sample>,
}

/// The sum of counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct CounterReading {
    /// The moment.
    pub at: Instant,
    /// The sum.
    pub counts: Counts,
}

/// Difference between two readings.
#[derive(Clone, Copy, Debug)]
pub struct CounterDelta {
    /// The time between them.
    pub elapsed: Duration,
    /// The difference of their counts.
    pub counts: Counts,
}

impl CounterReading {
    /// Reads the counters now. Reads again if the thread lost its CPU between the clock and the
    /// last counter.
    pub fn now(counters: &[Arc<Counters>]) -> Self {
        const MAX_READ_TIME: Duration = Duration::from_micros(20);
        const MAX_READS: u32 = 5;
        let read = || {
            let (at, mut counts) = (Instant::now(), Counts::default());
            for counters in counters {
                counts += counters.counts();
            }
            (Self { at, counts }, at.elapsed())
        };
        let mut reading = read();
        for _ in 1..MAX_READS {
            if reading.1 < MAX_READ_TIME {
                break;
            }
            reading = read();
        }
        reading.0
    }

    /// Returns the difference to an earlier reading.
    pub fn since(&self, earlier: &Self) -> CounterDelta {
        CounterDelta {
            elapsed: self.at.saturating_duration_since(earlier.at),
            counts: self.counts.since(&earlier.counts),
        }
    }
}

impl Sampler {
    /// Starts a series at the reading `start`. The samples do not include its counts. A sample is
    /// due every `interval` from then on.
    pub fn new(start: CounterReading, interval: Duration) -> Self {
        Self {
            started: start.at,
            initial: start.counts,
            last: start,
            grid: Grid::new(interval),
            samples: vec![Sample::default()],
        }
    }

    /// Skips the sample that is due just before the end, if the series is expected to end after
    /// `length`.
    #[must_use]
    pub fn with_end_after(mut self, length: Option<Duration>) -> Self {
        self.grid.expect_end(length);
        self
    }

    /// Returns the start of the series.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Returns the time at which the next sample is due.
    pub fn next_due(&self) -> Instant {
        self.started + self.grid.due
    }

    /// Adds a reading.
    pub fn add(&mut self, reading: CounterReading) {
        self.last = reading;
        let CounterDelta { elapsed, counts } = self.total_delta();
        self.grid.advance_past(elapsed);
        if self.samples.len() == MAX_SAMPLES {
            drop_every_second(&mut self.samples);
        }
        // Two readings at one time are one sample.
        self.samples.pop_if(|last| last.at == elapsed);
        self.samples.push(Sample {
            at: elapsed,
            sent: counts.sent,
            received: counts.received,
            operations: counts.transactions + counts.operations,
            ..Sample::default()
        });
    }

    /// Skips the samples that are due until `now`.
    pub fn skip(&mut self, now: Instant) {
        self.grid
            .advance_past(now.saturating_duration_since(self.started));
    }

    /// Returns the last reading.
    pub fn last_reading(&self) -> &CounterReading {
        &self.last
    }

    /// Returns the difference between the start of the series and the last reading.
    pub fn total_delta(&self) -> CounterDelta {
        self.last.since(&CounterReading {
            at: self.started,
            counts: self.initial,
        })
    }

    /// Returns the samples, cumulative since the start. The first one is the start itself.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }
}

/// Samples counters until the sender of `end_signal` is dropped. The series starts with the last
/// reading before the counters change, and ends `length` later. `on_reading` receives each reading,
/// and its sample if it has one.
pub fn sample_until(
    end_signal: &Receiver<()>,
    counters: &[Arc<Counters>],
    interval: Duration,
    length: Option<Duration>,
    mut on_reading: impl FnMut(&CounterReading, Option<&mut Sample>),
) -> Vec<Sample> {
    let mut sampler = Sampler::new(CounterReading::now(counters), interval);
    let mut has_moved = false;
    while end_signal.recv_timeout(sampler.next_due().saturating_duration_since(Instant::now()))
        == Err(RecvTimeoutError::Timeout)
    {
        let reading = CounterReading::now(counters);
        let Counts { transactions, .. } = reading.counts;
        has_moved |= transactions > 0 || reading.counts.bytes() > 0;
        let is_in_series = length.is_none_or(|length| reading.at <= sampler.started() + length);
        match (has_moved, is_in_series) {
            (false, _) => sampler = Sampler::new(reading, interval),
            (true, true) => {
                sampler.add(reading);
                if let Some(sample) = sampler.samples.last_mut() {
                    // They are read later than the sent bytes.
                    let arrived = arrived_bytes(counters);
                    sample.acknowledged = arrived.map(|bytes| bytes.min(sample.sent));
                }
            }
            (true, false) => sampler.skip(reading.at),
        }
        let last = sampler.samples.last_mut();
        on_reading(&reading, last.filter(|_| has_moved && is_in_series));
    }
    if has_moved {
        sampler.samples
    } else {
        Vec::new()
    }
}

/// Returns the bytes that have arrived at the peer, as far as it has acknowledged them; `None` if no
/// flow only sends over TCP. Other flows count what they have sent.
pub fn arrived_bytes(counters: &[Arc<Counters>]) -> Option<Bytes> {
    let acknowledged = counters.iter().map(|counters| counters.acknowledged());
    let acknowledged: Vec<Option<Bytes>> = acknowledged.collect();
    acknowledged.iter().any(Option::is_some).then(|| {
        let flows = counters.iter().zip(acknowledged);
        let arrived = flows.map(|(counters, bytes)| bytes.unwrap_or(counters.counts().sent).0);
        Bytes(arrived.sum())
    })
}

/// Returns the current TCP_INFO of a connection; `None` if the socket is not TCP.
pub fn path_sample(socket: BorrowedFd<'_>) -> Option<PathSample> {
    let info = option::tcp_info(socket).ok()?;
    let micros = |micros: u32| Some(Duration::from_micros(micros.into()));
    let segment_bytes = u64::from(info.segment_bytes);
    Some(PathSample {
        smoothed_rtt: micros(info.rtt_us),
        rtt_deviation: micros(info.rtt_variation_us),
        congestion_window_bytes: Some(u64::from(info.congestion_window) * segment_bytes),
        retransmits: Some(info.total_retransmits.into()),
        path_mtu_bytes: Some(info.path_mtu_bytes),
        send_window_bytes: info.send_window_bytes,
        reordering: Some(info.reordering),
        reorder_events: info.reorder_events,
    })
}

/// Drops every second sample. The remaining ones are as accurate, because samples are cumulative.
fn drop_every_second(samples: &mut Vec<Sample>) {
    let mut is_kept = false;
    samples.retain(|_| {
        is_kept = !is_kept;
        is_kept
    });
}

/// The times at which samples are due, since the start of a series.
#[derive(Debug)]
struct Grid {
    interval: Duration,
    due: Duration,
    /// Expected end of the series. The sample that is due about that time is skipped.
    end: Option<Duration>,
}

impl Grid {
    fn new(interval: Duration) -> Self {
        Self {
            interval,
            due: interval,
            end: None,
        }
    }

    fn expect_end(&mut self, end: Option<Duration>) {
        self.end = end;
        self.advance_past(Duration::ZERO);
    }

    /// Advances to the first time on the grid after `now`. Lateness does not accumulate.
    fn advance_past(&mut self, now: Duration) {
        let intervals = now.as_nanos() / self.interval.as_nanos().max(1) + 1;
        let intervals = u32::try_from(intervals).unwrap_or(u32::MAX);
        self.due = self.interval.saturating_mul(intervals);
        let is_close_to_end = |end: Duration| self.due + self.interval / 10 >= end;
        if self.end.is_some_and(is_close_to_end) {
            self.due += self.interval;
            self.end = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_keeps_its_start_and_its_end() {
        let initial = Counts {
            operations: 7,
            ..Counts::default()
        };
        let start = CounterReading {
            at: Instant::now(),
            counts: initial,
        };
        let mut sampler = Sampler::new(start, Duration::from_secs(1));
        for second in 0..3 * MAX_SAMPLES as u64 {
            let counts = Counts {
                operations: 7 + second,
                ..Counts::default()
            };
            let at = start.at + Duration::from_secs(second);
            sampler.add(CounterReading { at, counts });
            assert_eq!(sampler.next_due(), at + Duration::from_secs(1));
        }
        let end = 3 * MAX_SAMPLES as u64 - 1;
        assert_eq!(sampler.total_delta().counts.operations, end);
        let kept = sampler.samples();
        assert!((MAX_SAMPLES / 2..=MAX_SAMPLES).contains(&kept.len()));
        assert_eq!(kept[0], Sample::default());
        let last = kept[kept.len() - 1];
        assert_eq!((last.at.as_secs(), last.operations), (end, end));
        assert!(kept.is_sorted_by_key(|sample| sample.at));
    }

    #[rustfmt::skip]
    #[test]
    fn the_grid_skips_missed_times_and_the_time_near_the_end() {
        let ms = Duration::from_millis;
        // Interval, end, times at which samples were taken → times at which samples were due.
        for (interval, end, taken, due) in [
            (300, None, &[300, 600, 950, 1201][..], &[300, 600, 900, 1200, 1500][..]),
            (300, None, &[1_000], &[300, 1_200]),
            (200, Some(1_000), &[200, 400, 600, 801], &[200, 400, 600, 800, 1_200]),
            (300, Some(1_000), &[300, 600, 900], &[300, 600, 900, 1_500]),
            (1_000, Some(1_000), &[], &[2_000]),
            (5_000, Some(1_000), &[], &[10_000]),
        ] {
            let mut grid = Grid::new(ms(interval));
            grid.expect_end(end.map(ms));
            let mut actual = vec![grid.due];
            for at in taken {
                grid.advance_past(ms(*at));
                actual.push(grid.due);
            }
            let due: Vec<_> = due.iter().map(|at| ms(*at)).collect();
            assert_eq!(actual, due, "{interval} {end:?}");
        }
    }
}
