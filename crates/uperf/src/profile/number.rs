//! The numbers of a profile. What they mean is uperf's own, and not always what they look like: then
//! there is a doubt.

use std::time::Duration;

/// A number as uperf takes it; with a doubt where it is not what it seems.
pub(super) type Number<T> = (T, Option<Doubt>);

/// What is odd about a text, and what it is taken for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    pub(super) text: String,
    pub(super) assumed: String,
}

impl Doubt {
    pub(super) fn new(text: impl Into<String>, assumed: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            assumed: assumed.into(),
        }
    }
}

/// Digits, perhaps with a point, and one of the letters b, k, m, g, t, p, e, z for a shift by 0, 10, 20
/// … bits; what follows that letter does not count. There are 32 bits, one of them for the sign;
/// without a point a number of more bits loses them before it is shifted.
pub(super) fn integer(text: &str) -> Option<Number<u32>> {
    let (number, rest) = units::uperf_number(text)?;
    let shift = units::uperf_shift(rest)?;
    let (value, odd) = if number.contains('.') {
        let value = number.parse::<f64>().ok()? * 2_f64.powi(shift as i32);
        if value > f64::from(i32::MAX) {
            return None;
        }
        let is_whole = value.fract() == 0.0;
        (value as u32, (!is_whole).then_some("is no whole number"))
    } else {
        let written: i64 = number.parse().ok()?;
        let kept = u32::try_from(written as i32).ok()?;
        let value = i32::try_from(u128::from(kept) << shift).ok()? as u32;
        let is_kept = i64::from(kept) == written;
        (value, (!is_kept).then_some("has more than 32 bits"))
    };
    let odd = odd.map(|odd| format!("{text} {odd}"));
    let odd = odd.or_else(|| odd_unit(text, rest));
    Some((value, odd.map(|odd| Doubt::new(odd, value.to_string()))))
}

/// `kb` and `KiB` are what one thinks they are; other words behind the letter may not be.
fn odd_unit(text: &str, unit: &str) -> Option<String> {
    let (letter, after) = unit.split_at_checked(1)?;
    let is_plain = matches!(
        after.to_ascii_lowercase().as_str(),
        "" | "b" | "ib" | "yte" | "ytes"
    );
    (!is_plain).then(|| format!("{text}: of what follows the digits only {letter} counts"))
}

/// As C's `atoi` reads it: digits after a sign, no suffix, and 0 where there are none. Of more than 32
/// bits the lower ones count; what is negative then is refused.
pub(super) fn count(text: &str) -> Option<Number<u32>> {
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
    let odd = if digits.is_empty() {
        Some(format!("'{text}' is not a number"))
    } else if !rest.is_empty() {
        Some(format!("{text} has a suffix, where none counts"))
    } else if i64::from(value) != written {
        Some(format!("{text} has more than 32 bits"))
    } else {
        None
    };
    Some((value, odd.map(|odd| Doubt::new(odd, value.to_string()))))
}

/// Why a text is no time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoTime {
    /// It is no number, or nothing, or for ever.
    NoNumber,
    /// This is none of the units. uperf would wait for ever.
    Unit(String),
}

/// Digits, perhaps with a point, and a unit of which the first letter counts: s or none for seconds, m
/// for milliseconds, u for microseconds, n for nanoseconds. The arithmetic is of single precision, as
/// both ends of a test must come to the same.
pub(super) fn time(text: &str) -> Result<Number<Duration>, NoTime> {
    let (number, unit) = units::uperf_number(text).ok_or(NoTime::NoNumber)?;
    let scale = match unit.chars().next().map(|c| c.to_ascii_lowercase()) {
        None | Some('s') => 1e9_f32,
        Some('m') => 1e6,
        Some('u') => 1e3,
        Some('n') => 1.0,
        Some(_) => return Err(NoTime::Unit(unit.to_owned())),
    };
    let single: f32 = number.parse().map_err(|_| NoTime::NoNumber)?;
    let nanoseconds = single * scale;
    if !(1.0..2_f32.powi(63)).contains(&nanoseconds) {
        return Err(NoTime::NoNumber);
    }
    let value = Duration::from_nanos(nanoseconds as u64);
    let odd = match unit.to_ascii_lowercase().as_str() {
        "" => Some((format!("{text} has no unit"), format!("{number} s"))),
        "s" | "sec" | "secs" | "second" | "seconds" | "ms" | "msec" | "msecs" | "u" | "us"
        | "usec" | "usecs" | "n" | "ns" | "nsec" | "nsecs" => None,
        other if other.starts_with('m') => Some((
            format!("{text}: m is for milliseconds"),
            format!("{number} ms"),
        )),
        _ => Some((
            format!("{text}: of the unit only the first letter counts"),
            format!("{number} {}", &unit[..1]),
        )),
    };
    let exact = number.parse::<f64>().unwrap_or_default() * f64::from(scale);
    let odd = odd.or_else(|| {
        // What is off by less shows in no result.
        let off = (exact - f64::from(nanoseconds)).abs() >= 1e6;
        off.then(|| {
            let text = format!("{text} is more than single precision holds");
            (text, format!("{} s", value.as_secs_f64()))
        })
    });
    Ok((value, odd.map(|(text, assumed)| Doubt { text, assumed })))
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
            // These are none.
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
    fn integers_that_are_not_what_they_seem_say_so() {
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
            let doubt = integer(text).and_then(|(_, doubt)| doubt);
            let found = doubt.map(|doubt| doubt.assumed);
            assert_eq!(found.as_deref(), assumed, "{text}");
        }
    }

    #[test]
    fn counts_are_read_as_c_reads_them() {
        for (text, value, doubtful) in [
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
            let doubt = number.and_then(|(_, doubt)| doubt);
            assert_eq!(doubt.is_some(), doubtful, "{text}");
        }
    }

    #[test]
    fn times_are_of_single_precision() {
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
    fn times_that_are_none_say_why() {
        for text in [
            "", "0", "0s", "0.5n", "s", "-1s", "x", "inf", "nan", "$d", ".",
        ] {
            assert_eq!(time(text), Err(NoTime::NoNumber), "{text}");
        }
        let forever = "9".repeat(30);
        assert_eq!(time(&forever), Err(NoTime::NoNumber));
        for (text, unit) in [("1h", "h"), ("30x", "x"), ("1>", ">"), ("1e3", "e3")] {
            assert_eq!(time(text), Err(NoTime::Unit(unit.to_owned())), "{text}");
        }
    }

    #[test]
    fn times_that_are_not_what_they_seem_say_so() {
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
            let doubt = time(text).expect("a time").1;
            let found = doubt.map(|doubt| doubt.assumed);
            assert_eq!(found.as_deref(), assumed, "{text}");
        }
    }
}
