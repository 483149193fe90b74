//! Parsers for the values of options.

use std::ops::RangeInclusive;
use std::time::Duration;

use getopt::{EarlyExit, check_range};

/// Parses an integer by uperf's rule; returns `None` if it is invalid.
///
/// The number has digits, perhaps a decimal point, and an optional suffix. The suffix is one letter
/// of `b k m g t p e z`, each 1024 times the one before; further letters are ignored.
pub(super) fn integer(text: &str) -> Option<u64> {
    let (number, suffix) = units::split_uperf_number(text)?;
    let shift = units::uperf_suffix_shift(suffix)?;
    if number.contains('.') {
        let scaled = number.parse::<f64>().ok()? * 2_f64.powi(shift as i32);
        return (scaled < 2_f64.powi(63)).then_some(scaled as u64);
    }
    let unit = 1_u64.checked_shl(shift)?;
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// Parses a time by uperf's rule.
///
/// Only the first letter of the unit counts: `s` (the default), `m` for milliseconds, `u` or `n`.
/// Returns `None` if the text is invalid or the time exceeds a year.
pub(super) fn time(text: &str) -> Option<Duration> {
    const YEAR: f64 = 365.0 * 86_400.0;
    let (number, suffix) = units::split_uperf_number(text)?;
    let unit = match suffix.chars().next() {
        None | Some('s') => 1.0,
        Some('m') => 1e-3,
        Some('u') => 1e-6,
        Some('n') => 1e-9,
        Some(_) => return None,
    };
    let seconds = number.parse::<f64>().ok()? * unit;
    (seconds <= YEAR).then(|| Duration::from_secs_f64(seconds))
}

/// Parses an integer within `range`.
pub(super) fn number<T: TryFrom<i64>>(
    text: &str,
    range: RangeInclusive<i64>,
) -> Result<T, EarlyExit> {
    let number = integer(text).and_then(|number| i64::try_from(number).ok());
    check_range(text, number, range)
}

/// Parses an integer number of seconds, at least 1.
pub(super) fn seconds(text: &str) -> Result<Duration, EarlyExit> {
    number(text, 1..=u32::MAX.into()).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_letter_of_a_suffix_counts() {
        for (text, expected) in [
            ("0", Some(0)),
            ("20000", Some(20_000)),
            ("20k", Some(20_480)),
            ("20K", Some(20_480)),
            ("8kb", Some(8192)),
            ("5b", Some(5)),
            ("1.5k", Some(1536)),
            (".5k", Some(512)),
            ("1.", Some(1)),
            ("1g", Some(1 << 30)),
            ("16e", None),
            ("1z", None),
            ("99999999999999999999", None),
            ("1.5z", None),
            ("1.2.3", None),
            ("", None),
            (".", None),
            ("k", None),
            ("-1", None),
            ("+1", None),
            ("0x10", None),
            ("1 k", None),
        ] {
            assert_eq!(integer(text), expected, "{text}");
        }
    }

    #[test]
    fn times_are_seconds_unless_a_letter_says_otherwise() {
        for (text, nanoseconds) in [
            ("1", Some(1_000_000_000)),
            ("1s", Some(1_000_000_000)),
            ("1.5s", Some(1_500_000_000)),
            ("1sec", Some(1_000_000_000)),
            ("200ms", Some(200_000_000)),
            ("2min", Some(2_000_000)),
            ("100us", Some(100_000)),
            ("7n", Some(7)),
            (".5", Some(500_000_000)),
            ("0", Some(0)),
            ("1h", None),
            ("1S", None),
            ("x", None),
            ("", None),
            ("-1", None),
            ("1e9", None),
            ("99999999999", None),
        ] {
            let expected = nanoseconds.map(Duration::from_nanos);
            assert_eq!(time(text), expected, "{text}");
        }
    }
}
