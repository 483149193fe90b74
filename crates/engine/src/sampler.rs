//! Samples of counters on a time grid.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use model::{Counts, PathSample, Sample};
use sys::option;

use crate::counters::Counters;

/// Most samples that are kept: more than a plot can show.
const MOST: usize = 2000;

/// Samples of counters on a time grid.
///
/// A sampler has no thread and reads nothing by itself: its owner reads the counters when a sample is due, and adds
/// the reading. The threads that count do not notice.
#[derive(Debug)]
pub struct Sampler {
    started: Instant,
    before: Counts,
    last: Reading,
    grid: Grid,
    samples: Vec<Sample>,
}

/// The sum of counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The moment.
    pub at: Instant,
    /// The sum.
    pub counts: Counts,
}

/// What was counted between two readings.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    /// The time between them.
    pub elapsed: Duration,
    /// The difference of their counts.
    pub counts: Counts,
}

impl Reading {
    /// Reads counters now. Reads again if the thread was off its CPU between the clock and the last counter.
    pub fn now(counters: &[Arc<Counters>]) -> Self {
        const AT_ONCE: Duration = Duration::from_micros(20);
        const TRIES: u32 = 5;
        let read = || {
            let (at, mut counts) = (Instant::now(), Counts::default());
            for counters in counters {
                counts += counters.counts();
            }
            (Self { at, counts }, at.elapsed())
        };
        let mut last = read();
        for _ in 1..TRIES {
            if last.1 < AT_ONCE {
                break;
            }
            last = read();
        }
        last.0
    }

    /// Returns what was counted after an earlier reading.
    pub fn since(&self, earlier: &Self) -> Interval {
        Interval {
            elapsed: self.at.saturating_duration_since(earlier.at),
            counts: self.counts.since(&earlier.counts),
        }
    }
}

impl Sampler {
    /// Starts a series at `begun`, whose counts are not part of it. A sample is due each `interval` from then on.
    pub fn new(begun: Reading, interval: Duration) -> Self {
        Self {
            started: begun.at,
            before: begun.counts,
            last: begun,
            grid: Grid::new(interval),
            samples: vec![Sample::default()],
        }
    }

    /// Leaves out the sample that would come just before the end, if the series is expected to end after `length`.
    #[must_use]
    pub fn ending_after(mut self, length: Option<Duration>) -> Self {
        self.grid.expect_end(length);
        self
    }

    /// When the series started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// When the next sample is due.
    pub fn due(&self) -> Instant {
        self.started + self.grid.due
    }

    /// Adds a reading.
    pub fn add(&mut self, reading: Reading) {
        self.last = reading;
        let Interval { elapsed, counts } = self.total();
        self.grid.pass(elapsed);
        if self.samples.len() == MOST {
            thin(&mut self.samples);
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
        self.grid.pass(now.saturating_duration_since(self.started));
    }

    /// The last reading.
    pub fn last(&self) -> &Reading {
        &self.last
    }

    /// What was counted from the start of the series to the last reading.
    pub fn total(&self) -> Interval {
        self.last.since(&Reading {
            at: self.started,
            counts: self.before,
        })
    }

    /// Returns the samples, cumulative since the start. The first one is the start itself.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }
}

/// Samples counters until `ended` hangs up: from the last reading before they move to `length` later. `seen` gets
/// each reading, and the sample that was made of it.
pub fn sample_until(
    ended: &Receiver<()>,
    counters: &[Arc<Counters>],
    interval: Duration,
    length: Option<Duration>,
    mut seen: impl FnMut(&Reading, Option<&mut Sample>),
) -> Vec<Sample> {
    let mut sampler = Sampler::new(Reading::now(counters), interval);
    let mut has_moved = false;
    while ended.recv_timeout(sampler.due().saturating_duration_since(Instant::now()))
        == Err(RecvTimeoutError::Timeout)
    {
        let reading = Reading::now(counters);
        let Counts { transactions, .. } = reading.counts;
        has_moved |= transactions > 0 || reading.counts.bytes() > 0;
        let is_within = length.is_none_or(|length| reading.at <= sampler.started() + length);
        match (has_moved, is_within) {
            (false, _) => sampler = Sampler::new(reading, interval),
            (true, true) => sampler.add(reading),
            (true, false) => sampler.skip(reading.at),
        }
        let last = sampler.samples.last_mut();
        seen(&reading, last.filter(|_| has_moved && is_within));
    }
    if has_moved {
        sampler.samples
    } else {
        Vec::new()
    }
}

/// Returns what TCP_INFO says of a connection now; `None` of what is no TCP.
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
    })
}

/// Drops every second sample. The rest is as accurate, because samples are cumulative.
fn thin(samples: &mut Vec<Sample>) {
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
    /// When the series will end: the sample that is due about then is not taken on the grid.
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
        self.pass(Duration::ZERO);
    }

    /// Moves on to the first time on the grid after `now`: lateness does not add up.
    fn pass(&mut self, now: Duration) {
        let intervals = now.as_nanos() / self.interval.as_nanos().max(1) + 1;
        let intervals = u32::try_from(intervals).unwrap_or(u32::MAX);
        self.due = self.interval.saturating_mul(intervals);
        let is_the_end = |end: Duration| self.due + self.interval / 10 >= end;
        if self.end.is_some_and(is_the_end) {
            self.due += self.interval;
            self.end = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_has_its_start_and_its_end() {
        let before = Counts {
            operations: 7,
            ..Counts::default()
        };
        let begun = Reading {
            at: Instant::now(),
            counts: before,
        };
        let mut sampler = Sampler::new(begun, Duration::from_secs(1));
        for second in 0..3 * MOST as u64 {
            let counts = Counts {
                operations: 7 + second,
                ..Counts::default()
            };
            let at = begun.at + Duration::from_secs(second);
            sampler.add(Reading { at, counts });
            assert_eq!(sampler.due(), at + Duration::from_secs(1));
        }
        let end = 3 * MOST as u64 - 1;
        assert_eq!(sampler.total().counts.operations, end);
        let kept = sampler.samples();
        assert!((MOST / 2..=MOST).contains(&kept.len()));
        assert_eq!(kept[0], Sample::default());
        let last = kept[kept.len() - 1];
        assert_eq!((last.at.as_secs(), last.operations), (end, end));
        assert!(kept.is_sorted_by_key(|sample| sample.at));
    }

    #[rustfmt::skip]
    #[test]
    fn the_grid_skips_what_is_past_and_what_the_end_will_have() {
        let ms = Duration::from_millis;
        // Interval, end, times at which samples were taken → times that were due.
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
            let mut seen = vec![grid.due];
            for at in taken {
                grid.pass(ms(*at));
                seen.push(grid.due);
            }
            let due: Vec<_> = due.iter().map(|at| ms(*at)).collect();
            assert_eq!(seen, due, "{interval} {end:?}");
        }
    }
}
