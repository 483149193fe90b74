//! Parses the values of options like stock, but refuses text that stock would read as 0, or as
//! another number than its reader would.

use std::ops::RangeInclusive;
use std::time::Duration;

use getopt::{EarlyExit, refuse};
use units::iperf::{parse_c_integer, parse_real, parse_scaled, split_scaled};
use units::{parse_strict_c_integer, split_integer};

use super::parameter_error;
use crate::Version;

/// Parses a whole number of this unit (`s`, `ms` or none); fails with `range_error` if it is out of
/// range.
///
/// Stock reads text that does not start with a number as 0. So such text is a range error if the
/// range excludes 0; else it is refused.
pub(super) fn parse_integer(
    text: &str,
    unit: &str,
    range: RangeInclusive<u64>,
    range_error: &str,
) -> Result<u64, EarlyExit> {
    match units::iperf::parse_integer(text, unit) {
        Some(number) if u64::try_from(number).is_ok_and(|number| range.contains(&number)) => {
            Ok(number as u64)
        }
        None if range.contains(&0) || split_integer(text).is_some() => {
            let unit = match unit {
                "s" => " of seconds",
                "ms" => " of milliseconds",
                _ => "",
            };
            refuse(format!("'{text}' is not a whole number{unit}"))
        }
        _ => Err(parameter_error(range_error)),
    }
}

/// Parses a number of bytes or blocks; K means 1024.
pub(super) fn parse_size(
    version: Version,
    text: &str,
    max: u64,
    range_error: &str,
) -> Result<u64, EarlyExit> {
    check_suffix(version, text)?;
    parse_amount(text, |_| 1024.0, "", max, range_error)
}

/// Parses bits per second; K means 1000.
pub(super) fn parse_rate(version: Version, text: &str) -> Result<u64, EarlyExit> {
    check_suffix(version, text)?;
    parse_amount(text, |_| 1000.0, "", 10_u64.pow(15), "rate out of range")
}

/// Parses the microseconds of `--pacing-timer`; K means 1024.
pub(super) fn parse_pacing_timer(version: Version, text: &str) -> Result<u32, EarlyExit> {
    const RANGE_ERROR: &str = "pacing timer is out of range";
    check_suffix(version, text)?;
    let micros = parse_amount(text, |_| 1024.0, "us", u32::MAX.into(), RANGE_ERROR)?;
    Ok(micros as u32)
}

/// Refuses text that is no number, or that has other text than a suffix after it, as later versions
/// do.
fn check_suffix(version: Version, text: &str) -> Result<(), EarlyExit> {
    let number = split_scaled(text, |_| 1.0);
    let is_valid = number.is_some_and(|number| number.suffix.is_some() || number.rest.is_empty());
    if is_valid || !version.layout().checks_suffixes {
        return Ok(());
    }
    Err(parameter_error(&format!(
        "invalid unit value or suffix: '{text}'"
    )))
}

fn parse_amount(
    text: &str,
    base: fn(char) -> f64,
    unit: &str,
    max: u64,
    range_error: &str,
) -> Result<u64, EarlyExit> {
    match parse_scaled(text, base, unit) {
        Some(number) if (0.0..=max as f64).contains(&number.value) => Ok(number.value as u64),
        Some(_) => Err(parameter_error(range_error)),
        None => refuse(format!(
            "'{text}' is not a number with a suffix K, M, G or T"
        )),
    }
}

/// Parses seconds, which may have a fraction.
pub(super) fn parse_seconds(
    text: &str,
    range: RangeInclusive<f64>,
    range_error: &str,
) -> Result<Duration, EarlyExit> {
    match parse_real(text, "s") {
        Some(seconds) if range.contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Some(_) => Err(parameter_error(range_error)),
        None => refuse(format!("'{text}' is not a number of seconds")),
    }
}

const BAD_DSCP: &str = "bad DSCP value (numeric: 0-63 inclusive, symbolic: one of [af11-13, af21-23, af31-33, af41-43, cs1-7, ef, va, lowdelay, throughput, reliability])";
const BAD_TOS: &str = "bad TOS value (must be between 0 and 255 inclusive)";

/// Parses a type of service: decimal, octal with 0, hexadecimal with 0x.
pub(super) fn parse_type_of_service(text: &str) -> Result<u8, EarlyExit> {
    let octet = parse_c_integer(text).and_then(|number| number.try_into().ok());
    octet.ok_or_else(|| parameter_error(BAD_TOS))
}

/// Parses a code point by number or name; returns it shifted to its place in the type of service.
pub(super) fn parse_code_point(text: &str) -> Result<u8, EarlyExit> {
    let by_number = || match parse_strict_c_integer(text) {
        Some(point @ 0..64) => Some((point as u8) << 2),
        _ => None,
    };
    let by_name = match text.to_ascii_lowercase().as_str() {
        "va" => Some(44 << 2),
        name => units::parse_type_of_service(name),
    };
    let type_of_service = by_name.or_else(by_number);
    type_of_service.ok_or_else(|| parameter_error(BAD_DSCP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_are_numbers_or_names() {
        for (text, expected) in [
            ("0", Some(0)),
            ("46", Some(0xb8)),
            ("0x2e", Some(0xb8)),
            ("056", Some(0xb8)),
            ("EF", Some(0xb8)),
            ("VA", Some(44 << 2)),
            ("+46", Some(0xb8)),
            ("46x", None),
            ("64", None),
            ("-1", None),
            ("foo", None),
        ] {
            assert_eq!(parse_code_point(text).ok(), expected, "{text}");
        }
        for (text, expected) in [
            ("0x20", Some(32)),
            ("040", Some(32)),
            ("32x", Some(32)),
            ("+32", Some(32)),
            ("08", None),
            ("256", None),
            ("-1", None),
            ("abc", None),
        ] {
            assert_eq!(parse_type_of_service(text).ok(), expected, "{text}");
        }
    }
}
