//! The latency histogram that a hot loop can afford.
//!
//! `hdrhistogram` is the field's library; but it spends an allocation check, a range check and 64-bit
//! counts on each value, and 230 KB at three digits. One of these is 16 KB, records in some fifteen
//! instructions, and a thousand flows can each have one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hdr::Exact;

/// Values of one power of two are kept in this many equal buckets: a relative error below 1/128.
const BUCKETS_AN_OCTAVE_LOG2: u32 = 7;
const BUCKETS_AN_OCTAVE: usize = 1 << BUCKETS_AN_OCTAVE_LOG2;

/// Values up to 2³⁸ − 1 ns (275 s) have a bucket of their own; longer ones share the last.
pub(crate) const MAX_BITS: u32 = 38;
pub(crate) const BUCKETS: usize =
    (MAX_BITS - BUCKETS_AN_OCTAVE_LOG2 + 1) as usize * BUCKETS_AN_OCTAVE;

/// Counts of times in nanoseconds, exact below 256 ns and to within 0.8 % above.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u32; BUCKETS]>,
    /// 584 years of them fit.
    sum_ns: u64,
    /// Sum of squares in ns², for the standard deviation: floating, because 64 bits overflow.
    squares: f64,
    /// The largest number while nothing is recorded.
    min_ns: u64,
    /// The largest time less the smallest.
    span_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS]
                .try_into()
                .expect("the vector has as many elements as the array"),
            sum_ns: 0,
            squares: 0.0,
            min_ns: u64::MAX,
            span_ns: 0,
        }
    }
}

impl Histogram {
    /// Counts one time. No allocation, no failure; about fifteen instructions.
    #[inline]
    pub fn record(&mut self, time_ns: u64) {
        let bucket = bucket_of(time_ns);
        let count = match self.counts.get_mut(bucket) {
            Some(count) => count,
            None => &mut self.counts[BUCKETS - 1],
        };
        *count = count.saturating_add(1);
        self.sum_ns = self.sum_ns.wrapping_add(time_ns);
        // Through a signed number, whose conversion is one instruction; 292 years fit.
        let time = time_ns as i64 as f64;
        self.squares += time * time;
        // One comparison for both extremes, which seldom move.
        if time_ns.wrapping_sub(self.min_ns) > self.span_ns {
            self.widen(time_ns);
        }
    }

    #[cold]
    fn widen(&mut self, time_ns: u64) {
        let max = if self.is_empty() {
            time_ns
        } else {
            self.max_ns().max(time_ns)
        };
        self.min_ns = self.min_ns.min(time_ns);
        self.span_ns = max - self.min_ns;
    }

    fn max_ns(&self) -> u64 {
        self.min_ns.wrapping_add(self.span_ns)
    }

    pub(crate) fn counts(&self) -> &[u32] {
        &self.counts[..]
    }

    /// Counts so many times that lie somewhere between two values, as if they lay in the middle.
    pub(crate) fn record_bucket(&mut self, low_ns: u64, high_ns: u64, times: u64) {
        if times == 0 {
            return;
        }
        let middle = low_ns + (high_ns - low_ns) / 2;
        let bucket = bucket_of(middle).min(BUCKETS - 1);
        let more = u32::try_from(times).unwrap_or(u32::MAX);
        self.counts[bucket] = self.counts[bucket].saturating_add(more);
        self.sum_ns = self.sum_ns.saturating_add(middle.saturating_mul(times));
        self.squares += middle as f64 * middle as f64 * times as f64;
        self.widen(low_ns);
        self.widen(high_ns);
    }

    /// What an encoding of the counts does not keep; `None` when nothing was recorded.
    pub(crate) fn exact(&self) -> Option<Exact> {
        (!self.is_empty()).then(|| Exact {
            min_ns: self.min_ns,
            max_ns: self.max_ns(),
            sum_ns: self.sum_ns,
            squares_ns2: self.squares,
        })
    }

    /// Takes over what was kept beside the counts, if the counts allow it.
    pub(crate) fn believe(&mut self, exact: Exact) {
        let (Some(first), Some(last)) = (self.buckets().next(), self.buckets().last()) else {
            return;
        };
        let (mut smallest_sum, mut largest_sum) = (0_u128, 0_u128);
        for (low, high, count) in self.buckets() {
            smallest_sum += u128::from(low) * u128::from(count);
            largest_sum += u128::from(high) * u128::from(count);
        }
        // The last bucket has no end, and a count that is full has lost some.
        let is_open =
            |(low, _, count): (u64, u64, u32)| low >= lowest_of(BUCKETS - 1) || count == u32::MAX;
        let open = self.buckets().any(is_open);
        let sum = u128::from(exact.sum_ns);
        let squares = exact.squares_ns2.is_finite() && exact.squares_ns2 >= 0.0;
        let fits = (first.0..=first.1).contains(&exact.min_ns)
            && exact.min_ns <= exact.max_ns
            && last.0 <= exact.max_ns
            && (open || (exact.max_ns <= last.1 && (smallest_sum..=largest_sum).contains(&sum)));
        if fits && squares {
            self.min_ns = exact.min_ns;
            self.span_ns = exact.max_ns - exact.min_ns;
            self.sum_ns = exact.sum_ns;
            self.squares = exact.squares_ns2;
        }
    }

    /// Adds another flow's times to these.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine = mine.saturating_add(*theirs);
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.squares += other.squares;
        if !other.is_empty() {
            self.widen(other.min_ns);
            self.widen(other.max_ns());
        }
    }

    /// How many times were recorded.
    pub fn len(&self) -> u64 {
        // Not kept beside the counts, because that would be one more addition a time.
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.min_ns == u64::MAX
    }

    /// The smallest and the largest time, exactly; `None` when nothing was recorded.
    pub fn extremes(&self) -> Option<(Duration, Duration)> {
        (!self.is_empty()).then(|| {
            (
                Duration::from_nanos(self.min_ns),
                Duration::from_nanos(self.max_ns()),
            )
        })
    }

    /// All recorded times together.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// The arithmetic mean in nanoseconds, exact; `None` when nothing was recorded.
    pub fn mean_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum_ns as f64 / self.len() as f64)
    }

    /// The population standard deviation in nanoseconds; `None` when nothing was recorded.
    pub fn deviation_ns(&self) -> Option<f64> {
        let mean = self.mean_ns()?;
        let variance = self.squares / self.len() as f64 - mean * mean;
        Some(variance.max(0.0).sqrt())
    }

    /// The time that `percent` of the recorded times do not exceed (nearest rank), as the middle of
    /// its bucket, but for the extremes, which are exact; `None` when nothing was recorded.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        let (min, max) = self.extremes()?;
        let total = self.len();
        let rank = ((percent / 100.0 * total as f64).ceil() as u64).clamp(1, total);
        if rank == total {
            return Some(max);
        }
        if rank == 1 {
            return Some(min);
        }
        let mut seen = 0;
        for (low, high, count) in self.buckets() {
            seen += u64::from(count);
            if seen >= rank {
                return Some(Duration::from_nanos(low + (high - low) / 2).clamp(min, max));
            }
        }
        Some(max)
    }

    /// The buckets that hold anything: lowest and highest value in nanoseconds, and the count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u32)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(bucket, &count)| {
                let low = lowest_of(bucket);
                (low, lowest_of(bucket + 1) - 1, count)
            })
    }

    /// The figures that are printed; `None` when nothing was recorded.
    pub fn summary(&self) -> Option<Summary> {
        let (min, max) = self.extremes()?;
        Some(Summary {
            count: self.len(),
            min_ns: min.as_nanos() as u64,
            mean_ns: self.mean_ns()?,
            deviation_ns: self.deviation_ns()?,
            p50_ns: self.percentile(50.0)?.as_nanos() as u64,
            p90_ns: self.percentile(90.0)?.as_nanos() as u64,
            p99_ns: self.percentile(99.0)?.as_nanos() as u64,
            max_ns: max.as_nanos() as u64,
        })
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Histogram").field(&self.summary()).finish()
    }
}

/// What is printed of a histogram, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many times were recorded.
    pub count: u64,
    /// The shortest, exactly.
    pub min_ns: u64,
    /// The arithmetic mean, of the times themselves and not of their buckets.
    pub mean_ns: f64,
    /// The population standard deviation, of the times themselves.
    pub deviation_ns: f64,
    /// The median, to within 0.8 %.
    pub p50_ns: u64,
    /// The 90th percentile, to within 0.8 %.
    pub p90_ns: u64,
    /// The 99th percentile, to within 0.8 %.
    pub p99_ns: u64,
    /// The longest, exactly.
    pub max_ns: u64,
}

/// A value's bucket; beyond the last when it is too long to have one of its own.
#[inline]
fn bucket_of(value: u64) -> usize {
    // Values of the first two octaves are their own bucket; above, the bucket is the octave and the
    // value's first eight significant bits.
    let shift = (value | (2 * BUCKETS_AN_OCTAVE as u64 - 1)).ilog2() - BUCKETS_AN_OCTAVE_LOG2;
    (shift as usize) * BUCKETS_AN_OCTAVE + (value >> shift) as usize
}

fn lowest_of(bucket: usize) -> u64 {
    if bucket < 2 * BUCKETS_AN_OCTAVE {
        return bucket as u64;
    }
    let shift = bucket / BUCKETS_AN_OCTAVE - 1;
    ((bucket - shift * BUCKETS_AN_OCTAVE) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_and_buckets_are_narrow() {
        let mut value = 0_u64;
        while value < 1 << MAX_BITS {
            let bucket = bucket_of(value);
            let (low, next) = (lowest_of(bucket), lowest_of(bucket + 1));
            assert!(low <= value && value < next, "{value} not in {low}..{next}");
            assert!(
                (next - low) as f64 <= (low as f64 / 127.0).max(1.0),
                "{low}..{next} too wide"
            );
            value += 1 + value / 97;
        }
        assert!(bucket_of(u64::MAX) >= BUCKETS);
    }

    #[test]
    fn known_percentiles_of_one_to_a_thousand_microseconds() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|micros| histogram.record(micros * 1000));
        let summary = histogram.summary().unwrap();
        assert_eq!(
            (summary.count, summary.min_ns, summary.max_ns),
            (1000, 1000, 1_000_000)
        );
        assert!((summary.mean_ns - 500_500.0).abs() < 1e-6);
        // Population deviation of 1..n is sqrt((n² − 1)/12).
        assert!((summary.deviation_ns - 288_674.99).abs() < 0.01);
        for (got, expected) in [
            (summary.p50_ns, 500_000.0),
            (summary.p90_ns, 900_000.0),
            (summary.p99_ns, 990_000.0),
        ] {
            assert!(
                (got as f64 / expected - 1.0).abs() < 0.008,
                "{got} {expected}"
            );
        }
        assert_eq!(histogram.percentile(100.0), Some(Duration::from_millis(1)));
        assert_eq!(histogram.percentile(0.0), Some(Duration::from_micros(1)));
    }

    #[test]
    fn merging_is_recording_into_one() {
        let (mut left, mut right, mut both) = (
            Histogram::default(),
            Histogram::default(),
            Histogram::default(),
        );
        for value in 0..5000_u64 {
            if value % 3 == 0 {
                &mut left
            } else {
                &mut right
            }
            .record(value * value);
            both.record(value * value);
        }
        left.merge(&right);
        let (left, both) = (left.summary().unwrap(), both.summary().unwrap());
        assert!((left.deviation_ns / both.deviation_ns - 1.0).abs() < 1e-12);
        assert_eq!(
            Summary {
                deviation_ns: 0.0,
                ..left
            },
            Summary {
                deviation_ns: 0.0,
                ..both
            }
        );
    }

    #[test]
    fn nothing_recorded_has_no_figures() {
        assert_eq!(Histogram::default().summary(), None);
    }
}
