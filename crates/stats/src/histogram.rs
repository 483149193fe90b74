//! Latency histogram for hot loops.
//!
//! The usual library, `hdrhistogram`, is slower and larger. For each value it makes an allocation
//! check, a range check, and a 64-bit count. At three digits it takes 230 KB. This histogram takes
//! 16 KB and about 15 instructions per value, so each of 1000 flows can have one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hdr::ExactFigures;

/// Log2 of the number of equal buckets per power of two; the relative error is below 1/128.
const BUCKETS_PER_OCTAVE_LOG2: u32 = 7;
const BUCKETS_PER_OCTAVE: usize = 1 << BUCKETS_PER_OCTAVE_LOG2;

/// Values up to 2³⁸ − 1 ns (275 s) have buckets of their own; longer values share the last bucket.
pub(crate) const MAX_BITS: u32 = 38;
pub(crate) const BUCKETS: usize =
    (MAX_BITS - BUCKETS_PER_OCTAVE_LOG2 + 1) as usize * BUCKETS_PER_OCTAVE;

/// Counts of times in nanoseconds: exact below 256 ns, within 0.8 % above.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u32; BUCKETS]>,
    /// Sum of the times; 584 years fit.
    sum_ns: u64,
    /// Sum of squares for the standard deviation. It is a float, because 64-bit integers would
    /// overflow.
    squares_ns2: f64,
    /// Shortest time; `u64::MAX` while nothing is recorded.
    min_ns: u64,
    /// Longest time minus the shortest.
    span_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS]
                .try_into()
                .expect("the vector has as many elements as the array"),
            sum_ns: 0,
            squares_ns2: 0.0,
            min_ns: u64::MAX,
            span_ns: 0,
        }
    }
}

impl Histogram {
    /// Records one time. Does not allocate or fail; takes about 15 instructions.
    #[inline]
    pub fn record(&mut self, time_ns: u64) {
        let bucket = bucket_index(time_ns);
        let count = match self.counts.get_mut(bucket) {
            Some(count) => count,
            None => &mut self.counts[BUCKETS - 1],
        };
        *count = count.saturating_add(1);
        self.sum_ns = self.sum_ns.wrapping_add(time_ns);
        // The conversion from a signed integer is one instruction; 292 years fit.
        let time = time_ns as i64 as f64;
        self.squares_ns2 += time * time;
        // One comparison covers both extremes, which rarely change.
        if time_ns.wrapping_sub(self.min_ns) > self.span_ns {
            self.extend_range(time_ns);
        }
    }

    #[cold]
    fn extend_range(&mut self, time_ns: u64) {
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

    /// Records `count` times that lie between two values, each as the middle value.
    pub(crate) fn record_bucket(&mut self, low_ns: u64, high_ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        let middle = low_ns + (high_ns - low_ns) / 2;
        let bucket = bucket_index(middle).min(BUCKETS - 1);
        let added = u32::try_from(count).unwrap_or(u32::MAX);
        self.counts[bucket] = self.counts[bucket].saturating_add(added);
        self.sum_ns = self.sum_ns.saturating_add(middle.saturating_mul(count));
        self.squares_ns2 += middle as f64 * middle as f64 * count as f64;
        self.extend_range(low_ns);
        self.extend_range(high_ns);
    }

    /// Returns the exact figures that an encoding of the counts loses; `None` when nothing was
    /// recorded.
    pub(crate) fn exact_figures(&self) -> Option<ExactFigures> {
        (!self.is_empty()).then(|| ExactFigures {
            min_ns: self.min_ns,
            max_ns: self.max_ns(),
            sum_ns: self.sum_ns,
            squares_ns2: self.squares_ns2,
        })
    }

    /// Restores the exact figures of a decoded histogram, unless they contradict the counts.
    pub(crate) fn restore_exact(&mut self, exact: ExactFigures) {
        let (Some(first), Some(last)) = (self.buckets().next(), self.buckets().last()) else {
            return;
        };
        let (mut smallest_sum, mut largest_sum) = (0_u128, 0_u128);
        for (low, high, count) in self.buckets() {
            smallest_sum += u128::from(low) * u128::from(count);
            largest_sum += u128::from(high) * u128::from(count);
        }
        // The last bucket has no upper bound, and a saturated count has lost some values.
        let is_unbounded =
            |(low, _, count): (u64, u64, u32)| low >= bucket_min(BUCKETS - 1) || count == u32::MAX;
        let has_unbounded = self.buckets().any(is_unbounded);
        let sum = u128::from(exact.sum_ns);
        let are_squares_valid = exact.squares_ns2.is_finite() && exact.squares_ns2 >= 0.0;
        let fits_counts = (first.0..=first.1).contains(&exact.min_ns)
            && exact.min_ns <= exact.max_ns
            && last.0 <= exact.max_ns
            && (has_unbounded
                || (exact.max_ns <= last.1 && (smallest_sum..=largest_sum).contains(&sum)));
        if fits_counts && are_squares_valid {
            self.min_ns = exact.min_ns;
            self.span_ns = exact.max_ns - exact.min_ns;
            self.sum_ns = exact.sum_ns;
            self.squares_ns2 = exact.squares_ns2;
        }
    }

    /// Adds the times of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (count, other_count) in self.counts.iter_mut().zip(other.counts.iter()) {
            *count = count.saturating_add(*other_count);
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.squares_ns2 += other.squares_ns2;
        if !other.is_empty() {
            self.extend_range(other.min_ns);
            self.extend_range(other.max_ns());
        }
    }

    /// Returns the number of recorded times.
    pub fn len(&self) -> u64 {
        // The total is not stored, because that would cost one more addition per recorded time.
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.min_ns == u64::MAX
    }

    /// Returns the exact shortest and longest time; `None` when nothing was recorded.
    pub fn extremes(&self) -> Option<(Duration, Duration)> {
        (!self.is_empty()).then(|| {
            (
                Duration::from_nanos(self.min_ns),
                Duration::from_nanos(self.max_ns()),
            )
        })
    }

    /// Returns the sum of all recorded times.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// Returns the exact arithmetic mean in nanoseconds; `None` when nothing was recorded.
    pub fn mean_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum_ns as f64 / self.len() as f64)
    }

    /// Returns the population standard deviation in nanoseconds; `None` when nothing was recorded.
    pub fn deviation_ns(&self) -> Option<f64> {
        let mean = self.mean_ns()?;
        let variance = self.squares_ns2 / self.len() as f64 - mean * mean;
        Some(variance.max(0.0).sqrt())
    }

    /// Returns a percentile by nearest rank: the middle of its bucket, or the exact value for the
    /// extremes. `None` when nothing was recorded.
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

    /// Returns the non-empty buckets: lowest and highest value in nanoseconds, and the count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u32)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(bucket, &count)| {
                let low = bucket_min(bucket);
                (low, bucket_min(bucket + 1) - 1, count)
            })
    }

    /// Returns the printed figures; `None` when nothing was recorded.
    pub fn summary(&self) -> Option<HistogramSummary> {
        let (min, max) = self.extremes()?;
        Some(HistogramSummary {
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

/// Printed figures of a histogram, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HistogramSummary {
    /// Number of recorded times.
    pub count: u64,
    /// Shortest time, exact.
    pub min_ns: u64,
    /// Arithmetic mean, exact.
    pub mean_ns: f64,
    /// Population standard deviation, from the times, not from the buckets.
    pub deviation_ns: f64,
    /// Median, within 0.8 %.
    pub p50_ns: u64,
    /// 90th percentile, within 0.8 %.
    pub p90_ns: u64,
    /// 99th percentile, within 0.8 %.
    pub p99_ns: u64,
    /// Longest time, exact.
    pub max_ns: u64,
}

/// Returns the index of a value's bucket; `BUCKETS` or more for a value beyond the range.
#[inline]
fn bucket_index(value: u64) -> usize {
    // Each value of the first two octaves has its own bucket. Above, the octave and the value's
    // first eight significant bits select the bucket.
    let shift = (value | (2 * BUCKETS_PER_OCTAVE as u64 - 1)).ilog2() - BUCKETS_PER_OCTAVE_LOG2;
    (shift as usize) * BUCKETS_PER_OCTAVE + (value >> shift) as usize
}

/// Returns the lowest value of a bucket.
fn bucket_min(bucket: usize) -> u64 {
    if bucket < 2 * BUCKETS_PER_OCTAVE {
        return bucket as u64;
    }
    let shift = bucket / BUCKETS_PER_OCTAVE - 1;
    ((bucket - shift * BUCKETS_PER_OCTAVE) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_and_buckets_are_narrow() {
        let mut value = 0_u64;
        while value < 1 << MAX_BITS {
            let bucket = bucket_index(value);
            let (low, next) = (bucket_min(bucket), bucket_min(bucket + 1));
            assert!(low <= value && value < next, "{value} not in {low}..{next}");
            assert!(
                (next - low) as f64 <= (low as f64 / 127.0).max(1.0),
                "{low}..{next} too wide"
            );
            value += 1 + value / 97;
        }
        assert!(bucket_index(u64::MAX) >= BUCKETS);
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
        // The population standard deviation of 1..=n is sqrt((n² − 1)/12).
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
            HistogramSummary {
                deviation_ns: 0.0,
                ..left
            },
            HistogramSummary {
                deviation_ns: 0.0,
                ..both
            }
        );
    }

    #[test]
    fn an_empty_histogram_has_no_summary() {
        assert_eq!(Histogram::default().summary(), None);
    }
}
