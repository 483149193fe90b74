//! A schedule of a workload's passes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::plan::nanos;

/// A schedule: `burst` passes of the workload at the beginning of each interval. The schedule is fixed from the first
/// pass on. Late intervals are made up for at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pacing {
    /// Passes (sends, receives, transactions) per interval, at least 1.
    pub burst: u64,
    /// Time from the beginning of one interval to the beginning of the next, not 0.
    #[serde(rename = "interval_ns", with = "nanos")]
    pub interval: Duration,
    /// Method of waiting for the next interval.
    pub wait: Wait,
}

impl Pacing {
    /// Returns the schedule for a rate in bits per second, in bursts of `burst` blocks. Returns `None` if the rate or
    /// the size is 0, or if the rate is more blocks than any machine can move.
    pub fn of_bits(bits_per_second: u64, block_bytes: u32, burst: u64) -> Option<Self> {
        Self::of_passes(u128::from(block_bytes) * 8, bits_per_second, burst)
    }

    /// Returns the schedule for a rate in packets per second.
    pub fn of_packets(per_second: u64, burst: u64) -> Option<Self> {
        Self::of_passes(1, per_second, burst)
    }

    /// Returns the schedule for `rate` units per second and `units` per pass. An interval is a whole number of
    /// nanoseconds. Several bursts share an interval if rounding would otherwise change the rate by more than 10 ppm.
    fn of_passes(units: u128, rate: u64, burst: u64) -> Option<Self> {
        /// Half a nanosecond is less than 10 ppm of a longer interval.
        const LONG_NS: u128 = 50_000;
        if units == 0 || rate == 0 {
            return None;
        }
        let burst = burst.max(1);
        let interval = |times: u64| {
            let scaled = units * u128::from(burst.saturating_mul(times)) * 1_000_000_000;
            let nanos = (scaled + u128::from(rate) / 2) / u128::from(rate);
            let off = scaled.abs_diff(nanos * u128::from(rate));
            let is_near = nanos >= LONG_NS || (nanos > 0 && off * 100_000 <= scaled);
            is_near.then_some((nanos, times))
        };
        let (nanos, times) = (1..=1 << 16).find_map(interval)?;
        Some(Self {
            burst: burst.saturating_mul(times),
            interval: Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
            wait: Wait::default(),
        })
    }

    /// Returns the passes per second of the schedule.
    pub fn rate(&self) -> f64 {
        self.burst as f64 / self.interval.as_secs_f64()
    }
}

/// Method of waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Sleep: the thread wakes some microseconds late and uses no CPU time.
    #[default]
    Sleep,
    /// Poll the clock: accurate to a fraction of a microsecond, but uses a full CPU.
    Spin,
    /// Sleep, then spin for at most half of an interval; for an end that another one controls.
    SpinHalf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_becomes_intervals_of_whole_nanoseconds() {
        for (bits, bytes, burst, expected) in [
            // 1470 bytes at 1 Mbit/s as in iperf.
            (1 << 20, 1470, 1, (1, 11_215_210)),
            (1_000_000_000, 1472, 1, (1, 11_776)),
            (5_000_000_000, 131_072, 1, (1, 209_715)),
            (5_000_000_000, 1470, 4, (4, 9_408)),
            // 116.66… ns.
            (12_000_000_000, 175, 1, (3, 350)),
        ] {
            let pacing = Pacing::of_bits(bits, bytes, burst).unwrap();
            let nanos = pacing.interval.as_nanos();
            assert_eq!((pacing.burst, nanos), expected, "{bits} {bytes}");
        }
        assert_eq!(Pacing::of_bits(0, 1, 1), None);
        assert_eq!(Pacing::of_packets(100, 1).unwrap().interval.as_millis(), 10);
        for step in 1..2000_u64 {
            // Up to 100 Gbit/s in uneven steps, for the smallest datagrams and for large blocks.
            let bits = step * 50_000_017;
            for bytes in [16, 1448, 65_507, 131_072] {
                let pacing = Pacing::of_bits(bits, bytes, 1).unwrap();
                let rate = pacing.rate() * f64::from(bytes) * 8.0;
                assert!((rate / bits as f64 - 1.0).abs() < 1.1e-5, "{bits} {bytes}");
            }
        }
        // No machine makes more than one pass per nanosecond.
        assert_eq!(Pacing::of_bits(u64::MAX, 1, 1), None);
    }
}
