//! Values of options, as stock reads them; what stock takes for 0 is refused.

use std::ops::RangeInclusive;
use std::time::Duration;

use getopt::{Quit, refuse};
use units::iperf::scaled;

use super::parameter_error;

/// A whole number; one out of range is this parameter error, as is a word where stock, which takes it for 0, says so.
pub(super) fn whole(text: &str, range: RangeInclusive<u64>, wrong: &str) -> Result<u64, Quit> {
    match text.parse::<i64>() {
        Ok(number) if u64::try_from(number).is_ok_and(|number| range.contains(&number)) => {
            Ok(number as u64)
        }
        Err(_) if range.contains(&0) => refuse(format!("'{text}' is not a number")),
        _ => Err(parameter_error(wrong)),
    }
}

/// A number of bytes or blocks, of which K is 1024.
pub(super) fn size(text: &str, most: u64, wrong: &str) -> Result<u64, Quit> {
    amount(text, 1024, most, wrong)
}

/// Bits per second, of which K is 1000.
pub(super) fn rate(text: &str) -> Result<u64, Quit> {
    amount(text, 1000, 10_u64.pow(15), "rate out of range")
}

fn amount(text: &str, base: u32, most: u64, wrong: &str) -> Result<u64, Quit> {
    match scaled(text, base) {
        Some(number) if number <= most as f64 => Ok(number as u64),
        Some(_) => Err(parameter_error(wrong)),
        None => refuse(format!(
            "'{text}' is not a number with a suffix K, M, G or T"
        )),
    }
}

/// Seconds with a fraction.
pub(super) fn seconds(
    text: &str,
    range: RangeInclusive<f64>,
    wrong: &str,
) -> Result<Duration, Quit> {
    match text.parse::<f64>() {
        Ok(seconds) if range.contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) => Err(parameter_error(wrong)),
        Err(_) => refuse(format!("'{text}' is not a number")),
    }
}

const BAD_TOS: &str = "bad TOS value (must be between 0 and 255 inclusive)";

/// A type of service: decimal, octal with 0, hexadecimal with 0x.
pub(super) fn type_of_service(text: &str) -> Result<u8, Quit> {
    octet(text).ok_or_else(|| parameter_error(BAD_TOS))
}

/// A code point, as a number or by its name, in the place that it has in the type of service.
pub(super) fn code_point(text: &str) -> Result<u8, Quit> {
    let by_number = || {
        octet(text)
            .filter(|point| *point < 64)
            .map(|point| point << 2)
    };
    let by_name = match text.to_ascii_lowercase().as_str() {
        "va" => Some(44 << 2),
        name => units::type_of_service(name),
    };
    let found = by_name.or_else(by_number);
    found.ok_or_else(|| parameter_error(BAD_TOS))
}

fn octet(text: &str) -> Option<u8> {
    units::c_number(text)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_have_names() {
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
            assert_eq!(code_point(text).ok(), expected, "{text}");
        }
        assert_eq!(type_of_service("0x20").ok(), Some(32));
        assert!(type_of_service("256").is_err());
    }
}
