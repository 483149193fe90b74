//! Tallies of bursts, frames and calls beside the counters, per interval and per test.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stats::Histogram;

/// What the figures of a flow are about, which decides what its lines look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Each buffer of a stream has a stamp: how long it took.
    #[default]
    TripTimes,
    /// Bursts of a stream at a period, each of which is reported.
    Bursts {
        /// From one to the next.
        period: Duration,
    },
    /// Frames at a rate.
    Frames,
    /// How long send calls take.
    Writes,
    /// How long datagrams take.
    Datagrams,
}

/// `--histograms`: equal bins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bins {
    /// Of each.
    pub width: Duration,
    /// How many.
    pub count: u32,
    /// The percentages that are reported.
    pub percents: [f64; 2],
}

/// Times and counts of an interval or of a whole test.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Times.
    pub count: u64,
    sum_ns: f64,
    squares: f64,
    extremes_ns: Option<(i64, i64)>,
    /// When the longest was over, in nanoseconds since 1970.
    pub longest_at_ns: u64,
    /// Timed payload.
    pub bytes: u64,
    /// Frames that were sent or that came.
    pub frames: u64,
    /// Frames that were not sent in their time, or did not come.
    pub missed: u64,
    /// Times that a sender was a frame late.
    pub slips: u64,
    /// Receive calls by eighths of the buffer.
    pub reads: [u64; 8],
    /// Times by their bin, from 1.
    pub bins: BTreeMap<u32, u64>,
}

impl Tally {
    /// Counts a time that was over at a moment since 1970.
    pub fn time(&mut self, time_ns: i64, at_ns: u64, width: Option<Duration>) {
        let (least, most) = self.extremes_ns.unwrap_or((time_ns, time_ns));
        if self.count == 0 || time_ns > most {
            self.longest_at_ns = at_ns;
        }
        self.extremes_ns = Some((least.min(time_ns), most.max(time_ns)));
        self.count += 1;
        self.sum_ns += time_ns as f64;
        self.squares += (time_ns as f64).powi(2);
        if let Some(width) = width {
            let width_ns = (width.as_nanos() as u64).max(1);
            let bin = u64::try_from(time_ns).unwrap_or(0) / width_ns + 1;
            let bin = u32::try_from(bin).unwrap_or(u32::MAX);
            *self.bins.entry(bin).or_default() += 1;
        }
    }

    /// Counts a receive call, by how much of its buffer it filled.
    pub fn read(&mut self, filled: usize, size: usize) {
        if let Some(filled) = filled.checked_sub(1) {
            self.reads[(filled * 8 / size.max(1)).min(7)] += 1;
        }
    }

    /// Counts a frame that was sent.
    pub fn note_frame(&mut self, missed: u64, slips: u64) {
        self.frames += 1;
        self.missed += missed;
        self.slips += slips;
    }

    /// Mean, least, most and standard deviation, in milliseconds; 0 without a time.
    pub fn milliseconds(&self) -> [f64; 4] {
        let count = self.count.max(1) as f64;
        let mean = self.sum_ns / count;
        let (least, most) = self.extremes_ns.unwrap_or_default();
        let variance = (self.squares / count - mean * mean).max(0.0);
        [mean, least as f64, most as f64, variance.sqrt()].map(|ns| ns / 1e6)
    }
}

/// The tallies of a flow: its loop writes them, and reports read them.
#[derive(Debug)]
pub struct Tallies {
    /// What they are about.
    pub kind: Kind,
    /// The width of bins, if they are kept.
    pub width: Option<Duration>,
    both: Mutex<Both>,
}

#[derive(Debug, Default)]
struct Both {
    interval: Tally,
    whole: Tally,
    /// Times that are not negative, for documents.
    times: Histogram,
}

impl Tallies {
    /// Empty ones.
    pub fn new(kind: Kind, width: Option<Duration>) -> Self {
        Self {
            kind,
            width,
            both: Mutex::default(),
        }
    }

    /// Changes both.
    pub fn note(&self, change: impl Fn(&mut Tally)) {
        let mut both = self.both.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut both.interval);
        change(&mut both.whole);
    }

    /// Counts a time in both.
    pub fn time(&self, time_ns: i64, at_ns: u64, bytes: u64) {
        let mut both = self.both.lock().unwrap_or_else(PoisonError::into_inner);
        let Both {
            interval,
            whole,
            times,
        } = &mut *both;
        for tally in [interval, whole] {
            tally.time(time_ns, at_ns, self.width);
            tally.bytes += bytes;
        }
        if let Ok(time_ns) = u64::try_from(time_ns) {
            times.record(time_ns);
        }
    }

    /// Returns the tally since the last call.
    pub fn take_interval(&self) -> Tally {
        let mut both = self.both.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut both.interval)
    }

    /// Returns the tally of the whole test.
    pub fn whole(&self) -> Tally {
        let both = self.both.lock().unwrap_or_else(PoisonError::into_inner);
        both.whole.clone()
    }

    /// All times; `None` if there is none.
    pub fn times(&self) -> Option<Histogram> {
        let both = self.both.lock().unwrap_or_else(PoisonError::into_inner);
        Some(both.times.clone()).filter(|times| !times.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_kept_of_the_interval_and_of_all() {
        let width = Duration::from_micros(100);
        let tallies = Tallies::new(Kind::TripTimes, Some(width));
        for (time_us, at) in [(150, 1), (50, 2), (950, 3)] {
            tallies.time(time_us * 1000, at, 10);
        }
        let interval = tallies.take_interval();
        assert_eq!(
            (interval.count, interval.bytes, interval.longest_at_ns),
            (3, 30, 3)
        );
        assert_eq!(
            interval.bins.into_iter().collect::<Vec<_>>(),
            [(1, 1), (2, 1), (10, 1)]
        );
        tallies.time(-50_000, 4, 10);
        let [mean, least, most, deviation] = tallies.whole().milliseconds();
        assert_eq!((mean, least, most), (0.275, -0.05, 0.95));
        assert!((deviation - 0.396).abs() < 0.001, "{deviation}");
        assert_eq!(tallies.take_interval().count, 1);
        assert_eq!(tallies.times().unwrap().len(), 3);
    }

    #[test]
    fn reads_fall_into_eighths() {
        let mut tally = Tally::default();
        for filled in [0, 1, 125, 126, 1000] {
            tally.read(filled, 1000);
        }
        assert_eq!(tally.reads, [2, 1, 0, 0, 0, 0, 0, 1]);
    }
}
