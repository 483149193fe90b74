//! Parses the values of options like stock, but refuses text that stock would read as 0.

use std::ops::RangeInclusive;
use std::time::Duration;

use getopt::{EarlyExit, refuse};
use units::iperf::parse_scaled;

use super::parameter_error;

/// Parses a whole number; fails with `range_error` if it is out of range.
///
/// Stock reads text that is not a number as 0. So such text is a range error if the range excludes
/// 0; else it is refused.
pub(super) fn parse_integer(
    text: &str,
    range: RangeInclusive<u64>,
    range_error: &str,
) -> Result<u64, EarlyExit> {
    match text.parse::<i64>() {
        Ok(number) if u64::try_from(number).is_ok_and(|number| range.contains(&number)) => {
            Ok(number as u64)
        }
        Err(_) if range.contains(&0) => refuse(format!("'{text}' is not a number")),
        _ => Err(parameter_error(range_error)),
    }
}

/// Parses a number of bytes or blocks; K means 1024.
pub(super) fn parse_size(text: &str, max: u64, range_error: &str) -> Result<u64, EarlyExit> {
    parse_amount(text, 1024, max, range_error)
}

/// Parses bits per second; K means 1000.
pub(super) fn parse_rate(text: &str) -> Result<u64, EarlyExit> {
    parse_amount(text, 1000, 10_u64.pow(15), "rate out of range")
}

fn parse_amount(text: &str, base: u32, max: u64, range_error: &str) -> Result<u64, EarlyExit> {
    match parse_scaled(text, base) {
        Some(number) if number <= max as f64 => Ok(number as u64),
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
    match text.parse::<f64>() {
        Ok(seconds) if range.contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) => Err(parameter_error(range_error)),
        Err(_) => refuse(format!("'{text}' is not a number")),
    }
}

const BAD_TOS: &str = "bad TOS value (must be between 0 and 255 inclusive)";

/// Parses a type of service: decimal, octal with 0, hexadecimal with 0x.
pub(super) fn parse_type_of_service(text: &str) -> Result<u8, EarlyExit> {
    parse_octet(text).ok_or_else(|| parameter_error(BAD_TOS))
}

/// Parses a code point by number or name; returns it shifted to its place in the type of service.
pub(super) fn parse_code_point(text: &str) -> Result<u8, EarlyExit> {
    let by_number = || {
        parse_octet(text)
            .filter(|point| *point < 64)
            .map(|point| point << 2)
    };
    let by_name = match text.to_ascii_lowercase().as_str() {
        "va" => Some(44 << 2),
        name => units::parse_type_of_service(name),
    };
    let type_of_service = by_name.or_else(by_number);
    type_of_service.ok_or_else(|| parameter_error(BAD_TOS))
}

fn parse_octet(text: &str) -> Option<u8> {
    units::parse_c_number(text)?.try_into().ok()
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
            ("64", None),
            ("foo", None),
        ] {
            assert_eq!(parse_code_point(text).ok(), expected, "{text}");
        }
        assert_eq!(parse_type_of_service("0x20").ok(), Some(32));
        assert!(parse_type_of_service("256").is_err());
    }
}
