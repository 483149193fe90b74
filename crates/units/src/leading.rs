//! Numbers at the start of a text, as C's functions read them.

use crate::split_uperf_number;

/// Splits a whole number from the text after it, like atoi(3). Returns `None` for text that does
/// not start with a number, and for a number that exceeds 64 bits.
pub fn split_integer(text: &str) -> Option<(i64, &str)> {
    let (is_negative, digits) = split_sign(text);
    integer(is_negative, digits, 10)
}

/// Splits a whole number from the text after it, like strtol(3) with base 0: decimal, octal with
/// `0`, hexadecimal with `0x`.
pub(crate) fn split_c_integer(text: &str) -> Option<(i64, &str)> {
    let (is_negative, digits) = split_sign(text);
    match hexadecimal_digits(digits) {
        Some(digits) => integer(is_negative, digits, 16),
        None if digits.starts_with('0') => integer(is_negative, digits, 8),
        None => integer(is_negative, digits, 10),
    }
}

/// Parses a whole number like strtol(3) with base 0. Returns `None` if text follows it.
pub fn parse_strict_c_integer(text: &str) -> Option<i64> {
    let (number, rest) = split_c_integer(text)?;
    rest.is_empty().then_some(number)
}

/// Splits a number from the text after it, like strtod(3): decimal with an optional fraction and
/// exponent, or hexadecimal with `0x`. Unlike strtod, it does not read `inf` and `nan`, nor a
/// fraction of a hexadecimal number.
pub fn split_real(text: &str) -> Option<(f64, &str)> {
    let (is_negative, text) = split_sign(text);
    let (number, rest) = match hexadecimal_digits(text) {
        Some(digits) => integer(false, digits, 16).map(|(number, rest)| (number as f64, rest))?,
        None => decimal(text)?,
    };
    Some((if is_negative { -number } else { number }, rest))
}

/// Skips white space and a sign; returns whether the sign is a minus.
fn split_sign(text: &str) -> (bool, &str) {
    let text = text.trim_start();
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn hexadecimal_digits(text: &str) -> Option<&str> {
    let digits = text.strip_prefix("0x").or(text.strip_prefix("0X"))?;
    let is_number = digits.starts_with(|c: char| c.is_ascii_hexdigit());
    is_number.then_some(digits)
}

fn integer(is_negative: bool, text: &str, radix: u32) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !c.is_digit(radix));
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    let number = i64::from_str_radix(digits, radix).ok()?;
    Some((if is_negative { -number } else { number }, rest))
}

fn decimal(text: &str) -> Option<(f64, &str)> {
    let (_, after_mantissa) = split_uperf_number(text)?;
    let after_exponent = || {
        let exponent = after_mantissa.strip_prefix(['e', 'E'])?;
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
        (rest.len() < digits.len()).then_some(rest)
    };
    let rest = after_exponent().unwrap_or(after_mantissa);
    let number = text[..text.len() - rest.len()].parse().ok()?;
    Some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_split_like_atoi() {
        for (text, expected) in [
            ("10", Some((10, ""))),
            (" +10s", Some((10, "s"))),
            ("-1", Some((-1, ""))),
            ("010", Some((10, ""))),
            ("0x10", Some((0, "x10"))),
            ("1.9", Some((1, ".9"))),
            ("1e3", Some((1, "e3"))),
            ("1µs", Some((1, "µs"))),
            ("", None),
            ("-", None),
            ("--1", None),
            ("+-1", None),
            ("x1", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(split_integer(text), expected, "{text}");
        }
    }

    #[test]
    fn whole_numbers_are_split_like_strtol() {
        for (text, expected) in [
            ("56", Some((56, ""))),
            ("056", Some((46, ""))),
            ("0x2e", Some((46, ""))),
            ("-0X2E", Some((-46, ""))),
            ("+0x20x", Some((32, "x"))),
            ("0", Some((0, ""))),
            ("08", Some((0, "8"))),
            ("0x", Some((0, "x"))),
            ("0x+1", Some((0, "x+1"))),
            ("abc", None),
            ("", None),
            ("0xffffffffffffffffff", None),
        ] {
            assert_eq!(split_c_integer(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_split_like_strtod() {
        for (text, expected) in [
            ("10", Some((10.0, ""))),
            (" +1.5Mbps", Some((1.5, "Mbps"))),
            ("-.5K", Some((-0.5, "K"))),
            ("5.", Some((5.0, ""))),
            ("1e3K", Some((1000.0, "K"))),
            ("1E-1", Some((0.1, ""))),
            ("1e", Some((1.0, "e"))),
            ("1e+", Some((1.0, "e+"))),
            ("0x10K", Some((16.0, "K"))),
            ("0x", Some((0.0, "x"))),
            ("010", Some((10.0, ""))),
            ("1.2.3", Some((1.2, ".3"))),
            (".", None),
            ("e5", None),
            ("inf", None),
            ("nan", None),
            ("", None),
        ] {
            assert_eq!(split_real(text), expected, "{text}");
        }
    }
}
