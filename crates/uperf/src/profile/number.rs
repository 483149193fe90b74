//! Numbers of a profile, parsed by uperf's rules.
//!
//! Where uperf's value differs from what the text suggests, the parser returns a warning.

use std::time::Duration;

/// A value as uperf reads it, with a warning if the text suggests another value.
pub(super) type WithWarning<T> = (T, Option<ProfileWarning>);

/// Problem of a text, and its assumed meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProfileWarning {
    pub(super) text: String,
    pub(super) assumed: String,
}

impl ProfileWarning {
    pub(super) fn new(text: impl Into<String>, assumed: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            assumed: assumed.into(),
        }
    }
}

/// Parses an integer with an optional suffix; returns `None` if it is invalid or too large.
///
/// The number may have a decimal point. The suffix is one of the letters b, k, m, g, t, p, e, z,
/// for a shift by 0, 10, 20 … bits; further letters are ignored. The result has 31 bits. A number
/// without a point is cut to 32 bits before the shift, as in uperf.
pub(super) fn integer(text: &str) -> Option<WithWarning<u32>> {
    let (number, rest) = units::split_uperf_number(text)?;
    let shift = units::uperf_suffix_shift(rest)?;
    let (value, warning) = if number.contains('.') {
        let value = number.parse::<f64>().ok()? * 2_f64.powi(shift as i32);
        if value > f64::from(i32::MAX) {
            return None;
        }
        let is_whole = value.fract() == 0.0;
        (value as u32, (!is_whole).then_some("is not a whole number"))
    } else {
        let written: i64 = number.parse().ok()?;
        let kept = u32::try_from(written as i32).ok()?;
        let value = i32::try_from(u128::from(kept) << shift).ok()? as u32;
        let fits = i64::from(kept) == written;
        (value, (!fits).then_some("has more than 32 bits"))
    };
    let warning = warning.map(|problem| format!("{text} {problem}"));
    let warning = warning.or_else(|| unit_warning(text, rest));
    Some((
        value,
        warning.map(|text| ProfileWarning::new(text, value.to_string())),
    ))
}

/// Warns of suffixes other than a letter, a letter with `b` or `iB`, and the words `byte` and
/// `bytes`: uperf reads only the first letter.
fn unit_warning(text: &str, unit: &str) -> Option<String> {
    let (letter, rest) = unit.split_at_checked(1)?;
    let is_common = matches!(
        rest.to_ascii_lowercase().as_str(),
        "" | "b" | "ib" | "yte" | "ytes"
    );
    (!is_common).then(|| format!("{text}: only {letter} of the suffix counts"))
}

/// Parses an integer as C's `atoi` does: sign and digits, no suffix, 0 without digits.
///
/// Only the lower 32 bits count. Returns `None` if they are a negative number.
pub(super) fn count(text: &str) -> Option<WithWarning<u32>> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = digits.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = digits.split_at(end);
    let magnitude: i64 = match digits {
        "" => 0,
        _ => digits.parse().ok()?,
    };
    let written = if text.starts_with('-') {
        -magnitude
    } else {
        magnitude
    };
    let value = u32::try_from(written as i32).ok()?;
    let warning = if digits.is_empty() {
        Some(format!("'{text}' is not a number"))
    } else if !rest.is_empty() {
        Some(format!("{text} has a suffix, which is ignored"))
    } else if i64::from(value) != written {
        Some(format!("{text} has more than 32 bits"))
    } else {
        None
    };
    Some((
        value,
        warning.map(|text| ProfileWarning::new(text, value.to_string())),
    ))
}

/// Reason why a text is not a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TimeError {
    /// Not a number, less than 1 ns, or more than 2^63 ns.
    InvalidNumber,
    /// Unknown unit, with which uperf would wait forever.
    UnknownUnit(String),
}

/// Parses a time: a number, perhaps with a decimal point, and a unit.
///
/// Only the first letter of the unit counts: s for seconds (the default), m for milliseconds, u for
/// microseconds, n for nanoseconds. The arithmetic has single precision, as in uperf, because both
/// ends of a test must compute the same time.
pub(super) fn time(text: &str) -> Result<WithWarning<Duration>, TimeError> {
    let (number, unit) = units::split_uperf_number(text).ok_or(TimeError::InvalidNumber)?;
    let scale = match unit.chars().next().map(|c| c.to_ascii_lowercase()) {
        None | Some('s') => 1e9_f32,
        Some('m') => 1e6,
        Some('u') => 1e3,
        Some('n') => 1.0,
        Some(_) => return Err(TimeError::UnknownUnit(unit.to_owned())),
    };
    let parsed: f32 = number.parse().map_err(|_| TimeError::InvalidNumber)?;
    let nanoseconds = parsed * scale;
    if !(1.0..2_f32.powi(63)).contains(&nanoseconds) {
        return Err(TimeError::InvalidNumber);
    }
    let value = Duration::from_nanos(nanoseconds as u64);
    let warning = match unit.to_ascii_lowercase().as_str() {
        "" => Some((format!("{text} has no unit"), format!("{number} s"))),
        "s" | "sec" | "secs" | "second" | "seconds" | "ms" | "msec" | "msecs" | "u" | "us"
        | "usec" | "usecs" | "n" | "ns" | "nsec" | "nsecs" => None,
        other if other.starts_with('m') => Some((
            format!("{text}: m means milliseconds"),
            format!("{number} ms"),
        )),
        _ => Some((
            format!("{text}: only the first letter of the unit counts"),
            format!("{number} {}", &unit[..1]),
        )),
    };
    let exact = number.parse::<f64>().unwrap_or_default() * f64::from(scale);
    let warning = warning.or_else(|| {
        // A smaller deviation is not visible in any result.
        let is_off = (exact - f64::from(nanoseconds)).abs() >= 1e6;
        is_off.then(|| {
            let text = format!("{text} exceeds single precision");
            (text, format!("{} s", value.as_secs_f64()))
        })
    });
    Ok((
        value,
        warning.map(|(text, assumed)| ProfileWarning { text, assumed }),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_shifted_by_their_letter() {
        for (text, value) in [
            ("0", Some(0)),
            ("007", Some(7)),
            ("8k", Some(8192)),
            ("8K", Some(8192)),
            ("8kb", Some(8192)),
            ("8b", Some(8)),
            ("1m", Some(1 << 20)),
            ("1g", Some(1 << 30)),
            ("0z", Some(0)),
            ("1.5k", Some(1536)),
            (".5k", Some(512)),
            ("1.k", Some(1024)),
            ("0.5", Some(0)),
            ("1.5g", Some(1_610_612_736)),
            ("2147483647", Some(2_147_483_647)),
            // These wrap.
            ("4294967296", Some(0)),
            ("4294967297", Some(1)),
            ("4294967297k", Some(1024)),
            // These do not fit.
            ("2g", None),
            ("4g", None),
            ("2.0g", None),
            ("1t", None),
            ("1e3", None),
            ("1z", None),
            ("2147483648", None),
            ("3000000000", None),
            ("18446744073709551617", None),
            // These are invalid.
            ("", None),
            (".", None),
            ("-1", None),
            ("+1", None),
            ("k", None),
            ("1>", None),
            ("8x", None),
            ("0x10", None),
            ("ä", None),
            ("1ä", None),
            ("$n", None),
        ] {
            assert_eq!(integer(text).map(|(value, _)| value), value, "{text}");
        }
    }

    #[test]
    fn surprising_integers_cause_a_warning() {
        for (text, assumed) in [
            ("8k", None),
            ("8kb", None),
            ("8KiB", None),
            ("8bytes", None),
            ("1.5k", None),
            ("0.5", Some("0")),
            ("4294967297", Some("1")),
            ("8kbit", Some("8192")),
            ("1.5kä", Some("1536")),
            ("4k>", Some("4096")),
        ] {
            let warning = integer(text).and_then(|(_, warning)| warning);
            let found = warning.map(|warning| warning.assumed);
            assert_eq!(found.as_deref(), assumed, "{text}");
        }
    }

    #[test]
    fn counts_are_read_as_c_reads_them() {
        for (text, value, is_surprising) in [
            ("10", Some(10), false),
            ("+5", Some(5), false),
            ("0", Some(0), false),
            ("-0", Some(0), false),
            ("2k", Some(2), true),
            ("1.9", Some(1), true),
            ("abc", Some(0), true),
            ("", Some(0), true),
            ("-", Some(0), true),
            ("4294967297", Some(1), true),
            ("-1", None, false),
            ("3000000000", None, false),
            ("99999999999999999999", None, false),
        ] {
            let number = count(text);
            let found = number.as_ref().map(|(value, _)| *value);
            assert_eq!(found, value, "{text}");
            let warning = number.and_then(|(_, warning)| warning);
            assert_eq!(warning.is_some(), is_surprising, "{text}");
        }
    }

    #[test]
    fn times_have_single_precision() {
        for (text, nanoseconds) in [
            ("2s", 2_000_000_000),
            ("2", 2_000_000_000),
            ("1.5s", 1_500_000_000),
            ("100ms", 100_000_000),
            ("1500us", 1_500_000),
            ("250ms", 250_000_000),
            ("0.001", 1_000_000),
            ("5n", 5),
            ("2m", 2_000_000),
            ("2min", 2_000_000),
            ("30s", 30_000_001_024),
            ("3600", 3_599_999_959_040),
        ] {
            let value = time(text).map(|(value, _)| value);
            assert_eq!(value, Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn invalid_times_have_a_reason() {
        for text in [
            "", "0", "0s", "0.5n", "s", "-1s", "x", "inf", "nan", "$d", ".",
        ] {
            assert_eq!(time(text), Err(TimeError::InvalidNumber), "{text}");
        }
        let forever = "9".repeat(30);
        assert_eq!(time(&forever), Err(TimeError::InvalidNumber));
        for (text, unit) in [("1h", "h"), ("30x", "x"), ("1>", ">"), ("1e3", "e3")] {
            assert_eq!(
                time(text),
                Err(TimeError::UnknownUnit(unit.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn surprising_times_cause_a_warning() {
        for (text, assumed) in [
            ("30s", None),
            ("100ms", None),
            ("5sec", None),
            ("30", Some("30 s")),
            ("2m", Some("2 ms")),
            ("2min", Some("2 ms")),
            ("2months", Some("2 ms")),
            ("2usual", Some("2 u")),
            ("400000s", Some("400000.001507328 s")),
        ] {
            let warning = time(text).expect("a time").1;
            let found = warning.map(|warning| warning.assumed);
            assert_eq!(found.as_deref(), assumed, "{text}");
        }
    }
}
