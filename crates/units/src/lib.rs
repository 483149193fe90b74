//! Sizes, rates, durations and types of service, in the notation of each tool.

#![forbid(unsafe_code)]

mod duration;
pub mod iperf;
mod leading;
mod rate;
mod service;
mod size;

pub use duration::{parse_duration, parse_go_duration};
pub use leading::{parse_strict_c_integer, split_integer, split_real};
pub use rate::{parse_bit_rate, parse_strict_bit_rate};
pub use service::parse_type_of_service;
pub use size::{parse_netperf_size, split_uperf_number, uperf_suffix_shift};

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Payload bytes above TCP or UDP, without the headers of any layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Returns the mean rate over `elapsed`, or `None` if `elapsed` is zero.
    pub fn rate_over(self, elapsed: Duration) -> Option<BitRate> {
        (!elapsed.is_zero()).then(|| BitRate(self.0 as f64 * 8.0 / elapsed.as_secs_f64()))
    }
}

impl std::ops::Add for Bytes {
    type Output = Self;

    /// Saturates: a peer may report counts whose sum overflows.
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self(0), |sum, item| sum + item)
    }
}

/// Payload bits per second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct BitRate(pub f64);

impl std::fmt::Display for BitRate {
    /// Formats with decimal prefixes (1 Mbit/s is 1,000,000 bits per second) and four significant
    /// digits.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (scaled, unit) = match self.0 {
            r if r >= 1e12 => (r / 1e12, "Tbit/s"),
            r if r >= 1e9 => (r / 1e9, "Gbit/s"),
            r if r >= 1e6 => (r / 1e6, "Mbit/s"),
            r if r >= 1e3 => (r / 1e3, "kbit/s"),
            r => (r, "bit/s"),
        };
        let decimals = if scaled >= 1000.0 {
            0
        } else if scaled >= 100.0 {
            1
        } else if scaled >= 10.0 {
            2
        } else {
            3
        };
        write!(f, "{scaled:.decimals$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_bytes_over_time() {
        assert_eq!(
            Bytes(1_000).rate_over(Duration::from_millis(1)),
            Some(BitRate(8e6))
        );
        assert_eq!(Bytes(1).rate_over(Duration::ZERO), None);
        assert_eq!(Bytes(1) + Bytes(u64::MAX), Bytes(u64::MAX));
    }

    #[test]
    fn rates_read_with_decimal_prefixes() {
        for (rate, text) in [
            (0.0, "0.000 bit/s"),
            (999.0, "999.0 bit/s"),
            (1_000.0, "1.000 kbit/s"),
            (94_123_456.0, "94.12 Mbit/s"),
            (1e9, "1.000 Gbit/s"),
            (2.5e12, "2.500 Tbit/s"),
        ] {
            assert_eq!(BitRate(rate).to_string(), text);
        }
    }
}
