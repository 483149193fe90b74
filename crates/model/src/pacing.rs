//! A schedule of a workload's passes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::nanos::Nanos;

/// A schedule: `burst` passes of the workload at the start of each interval. The first pass fixes
/// the start times. Late intervals run without pauses until the schedule is met again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pacing {
    /// Passes (sends, receives, transactions) per interval, at least 1.
    pub burst: u64,
    /// Time from the start of one interval to the start of the next, not 0.
    #[serde(rename = "interval_ns", with = "Nanos")]
    pub interval: Duration,
    /// Method of waiting for the next interval.
    pub wait: Wait,
}

impl Pacing {
    /// Returns the schedule for a rate in bits per second, in bursts of `burst` blocks. Returns
    /// `None` if the rate or the size is 0, or if 65,536 bursts would take less than 1 ns.
    pub fn from_bit_rate(bits_per_second: u64, block_bytes: u32, burst: u64) -> Option<Self> {
        Self::from_unit_rate(u128::from(block_bytes) * 8, bits_per_second, burst)
    }

    /// Returns the schedule for a rate in packets per second.
    pub fn from_packet_rate(per_second: u64, burst: u64) -> Option<Self> {
        Self::from_unit_rate(1, per_second, burst)
    }

    /// Returns the schedule for `rate` units per second and `units_per_pass`. An interval is a
    /// whole number of nanoseconds. If rounding would change the rate by more than 10 ppm, an
    /// interval contains several bursts.
    fn from_unit_rate(units_per_pass: u128, rate: u64, burst: u64) -> Option<Self> {
        /// A rounding error of 0.5 ns is at most 10 ppm of an interval of this length.
        const ACCURATE_NS: u128 = 50_000;
        if units_per_pass == 0 || rate == 0 {
            return None;
        }
        let burst = burst.max(1);
        let interval = |bursts: u64| {
            let passes = u128::from(burst.saturating_mul(bursts));
            let scaled = units_per_pass * passes * 1_000_000_000;
            let nanos = (scaled + u128::from(rate) / 2) / u128::from(rate);
            let error = scaled.abs_diff(nanos * u128::from(rate));
            let is_accurate = nanos >= ACCURATE_NS || (nanos > 0 && error * 100_000 <= scaled);
            is_accurate.then_some((nanos, bursts))
        };
        let (nanos, bursts) = (1..=1 << 16).find_map(interval)?;
        Some(Self {
            burst: burst.saturating_mul(bursts),
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Sleep: the thread wakes some microseconds late and uses no CPU time.
    #[default]
    Sleep,
    /// Poll the clock: accurate to a fraction of a microsecond, but uses a full CPU.
    Spin,
    /// Sleep, then spin for at most half of an interval. A server uses it if a client requests
    /// spinning.
    SpinHalf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_becomes_intervals_of_whole_nanoseconds() {
        for (bits, bytes, burst, expected) in [
            // iperf's default: datagrams of 1470 bytes at 1 Mbit/s.
            (1 << 20, 1470, 1, (1, 11_215_210)),
            (1_000_000_000, 1472, 1, (1, 11_776)),
            (5_000_000_000, 131_072, 1, (1, 209_715)),
            (5_000_000_000, 1470, 4, (4, 9_408)),
            // 116.66… ns.
            (12_000_000_000, 175, 1, (3, 350)),
        ] {
            let pacing = Pacing::from_bit_rate(bits, bytes, burst).unwrap();
            let nanos = pacing.interval.as_nanos();
            assert_eq!((pacing.burst, nanos), expected, "{bits} {bytes}");
        }
        assert_eq!(Pacing::from_bit_rate(0, 1, 1), None);
        assert_eq!(
            Pacing::from_packet_rate(100, 1)
                .unwrap()
                .interval
                .as_millis(),
            10
        );
        for step in 1..2000_u64 {
            // Up to 100 Gbit/s in uneven steps, for the smallest datagrams and for large blocks.
            let bits = step * 50_000_017;
            for bytes in [16, 1448, 65_507, 131_072] {
                let pacing = Pacing::from_bit_rate(bits, bytes, 1).unwrap();
                let rate = pacing.rate() * f64::from(bytes) * 8.0;
                assert!((rate / bits as f64 - 1.0).abs() < 1.1e-5, "{bits} {bytes}");
            }
        }
        // A rate whose 65,536 passes take less than 1 ns is rejected.
        assert_eq!(Pacing::from_bit_rate(u64::MAX, 1, 1), None);
    }
}
