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
    let name = text.to_ascii_lowercase();
    let digits = |rest: &str| -> Option<Vec<u8>> {
        rest.bytes().map(|byte| byte.checked_sub(b'0')).collect()
    };
    let point = match (name.split_at_checked(2), name.as_str()) {
        (_, "ef") => Some(46),
        (_, "va") => Some(44),
        (_, "lowdelay") => return Ok(0x10),
        (_, "throughput") => return Ok(0x08),
        (_, "reliability") => return Ok(0x04),
        (Some(("cs", rest)), _) => match digits(rest).as_deref() {
            Some([class @ 0..=7]) => Some(class * 8),
            _ => None,
        },
        (Some(("af", rest)), _) => match digits(rest).as_deref() {
            Some([class @ 1..=4, drop @ 1..=3]) => Some(class * 8 + drop * 2),
            _ => None,
        },
        _ => octet(&name),
    };
    match point {
        Some(point) if point < 64 => Ok(point << 2),
        _ => Err(parameter_error(BAD_TOS)),
    }
}

/// A number in C's forms.
pub(super) fn c_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}

fn octet(text: &str) -> Option<u8> {
    c_number(text)?.try_into().ok()
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
            ("af11", Some(10 << 2)),
            ("af43", Some(38 << 2)),
            ("cs7", Some(56 << 2)),
            ("lowdelay", Some(0x10)),
            ("64", None),
            ("af14", None),
            ("cs8", None),
            ("foo", None),
            ("", None),
        ] {
            assert_eq!(code_point(text).ok(), expected, "{text}");
        }
        assert_eq!(type_of_service("0x20").ok(), Some(32));
        assert!(type_of_service("256").is_err());
    }
}
