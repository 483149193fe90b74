//! Numbers of iperf 2 and iperf3: in options and in tables.
//!
//! The stock tools ignore the text after a number. The parsers also ignore it, in `10s`, `8KB` or
//! `1Mbps`, but not if it would change the number for its reader: `1.5` of a whole number, `10m` of
//! seconds, `1K` of a number without suffixes.

use crate::leading::{split_c_integer, split_integer, split_real};

/// A number with a suffix, and the text after both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaledNumber<'a> {
    /// The number, multiplied by its suffix.
    pub value: f64,
    /// The suffix, in upper or lower case.
    pub suffix: Option<char>,
    /// The text after the suffix, or after the number if it has none.
    pub rest: &'a str,
}

/// Splits a number with an optional suffix K, M, G or T, or k, m, g or t: the first to the fourth
/// power of `base(suffix)`. Returns `None` for text that does not start with a number.
pub fn split_scaled(text: &str, base: fn(char) -> f64) -> Option<ScaledNumber<'_>> {
    let (number, rest) = split_real(text)?;
    let letter = rest.chars().next().unwrap_or_default();
    Some(match "kmgt".find(letter.to_ascii_lowercase()) {
        Some(index) => ScaledNumber {
            value: number * base(letter).powi(index as i32 + 1),
            suffix: Some(letter),
            rest: &rest[1..],
        },
        None => ScaledNumber {
            value: number,
            suffix: None,
            rest,
        },
    })
}

/// Parses a number with an optional suffix like [`split_scaled`]. `unit` is its unit, as in
/// [`parse_integer`].
pub fn parse_scaled<'a>(
    text: &'a str,
    base: fn(char) -> f64,
    unit: &str,
) -> Option<ScaledNumber<'a>> {
    split_scaled(text, base).filter(|number| is_ignored(number.rest, unit))
}

/// Parses a whole number like atoi(3). `unit` is its unit in lower case, such as `s` or `ms`, or
/// empty.
pub fn parse_integer(text: &str, unit: &str) -> Option<i64> {
    let (number, rest) = split_integer(text)?;
    is_ignored(rest, unit).then_some(number)
}

/// Parses a whole number without a unit like strtol(3) with base 0.
pub fn parse_c_integer(text: &str) -> Option<i64> {
    let (number, rest) = split_c_integer(text)?;
    is_ignored(rest, "").then_some(number)
}

/// Parses a number like strtod(3). `unit` is its unit, as in [`parse_integer`].
pub fn parse_real(text: &str, unit: &str) -> Option<f64> {
    let (number, rest) = split_real(text)?;
    is_ignored(rest, unit).then_some(number)
}

/// Whether text after a number of this unit leaves its meaning: it has no digit, and it is the unit
/// or does not start like another unit or prefix.
fn is_ignored(text: &str, unit: &str) -> bool {
    const OTHER_UNITS: &str = "dehkmgnpstuwyzµ";
    let text = text.trim_start().to_ascii_lowercase();
    let has_unit = !unit.is_empty() && text.starts_with(unit);
    let has_other_unit = !has_unit && text.starts_with(|first: char| OTHER_UNITS.contains(first));
    !has_other_unit && !text.contains(|c: char| c.is_ascii_digit())
}

/// The unit of a table's numbers, which have four characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Bytes, with this power of 1024. `None` chooses the power by the amount.
    Bytes(Option<u32>),
    /// Bits, with this power of 1000. `None` chooses the power by the amount.
    Bits(Option<u32>),
}

impl Scale {
    /// Returns the unit of a format letter: k, m, g and t are bits; K, M, G and T are bytes.
    pub fn from_letter(letter: char) -> Option<Self> {
        let power = "kmgt".find(letter.to_ascii_lowercase())? as u32 + 1;
        Some(if letter.is_ascii_uppercase() {
            Self::Bytes(Some(power))
        } else {
            Self::Bits(Some(power))
        })
    }

    /// Formats `bytes` in this unit, with its name: `1.92 MBytes`, ` 976 KBytes`, `8.06 Mbits`.
    pub fn format(self, bytes: f64) -> String {
        const BYTES: [&str; 5] = ["Bytes", "KBytes", "MBytes", "GBytes", "TBytes"];
        const BITS: [&str; 5] = ["bits", "Kbits", "Mbits", "Gbits", "Tbits"];
        let (mut number, base, names, fixed_power) = match self {
            Self::Bytes(power) => (bytes, 1024.0, BYTES, power),
            Self::Bits(power) => (bytes * 8.0, 1000.0, BITS, power),
        };
        let mut power = 0;
        while fixed_power.map_or(number >= base && power < 4, |fixed| power < fixed.min(4)) {
            number /= base;
            power += 1;
        }
        let decimals = match number {
            // A number that rounds up to one more digit has one decimal less.
            number if number < 9.995 => 2,
            number if number < 99.95 => 1,
            _ => 0,
        };
        format!("{number:4.decimals$} {}", names[power as usize])
    }
}

/// Formats a number like C's `%.{digits}g`.
pub fn format_general(number: f64, digits: usize) -> String {
    let digits = digits.max(1);
    if number == 0.0 || !number.is_finite() {
        return format!("{number}");
    }
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..digits as i32).contains(&exponent) {
        let decimals = (digits as i32 - 1 - exponent) as usize;
        return trim_trailing_zeros(&format!("{number:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!(
        "{}e{sign}{:02}",
        trim_trailing_zeros(mantissa),
        exponent.abs()
    )
}

fn trim_trailing_zeros(number: &str) -> &str {
    if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_after_a_number_is_ignored_unless_it_changes_the_number() {
        for (text, unit, is_ignored) in [
            ("", "", true),
            ("x", "", true),
            ("B", "", true),
            ("iB", "", true),
            (" ", "", true),
            ("bps", "", true),
            ("bit/s", "", true),
            ("%", "", true),
            ("K", "", false),
            (" K", "", false),
            ("P", "", false),
            ("pps", "", false),
            (".5", "", false),
            ("e3", "", false),
            ("x10", "", false),
            ("-5", "", false),
            ("s", "", false),
            ("s", "s", true),
            ("Sec", "s", true),
            ("x", "s", true),
            ("m", "s", false),
            ("ms", "s", false),
            ("m0s", "s", false),
            ("h", "s", false),
            ("µs", "s", false),
            ("ms", "ms", true),
            ("s", "ms", false),
            ("m", "ms", false),
            ("us", "us", true),
            ("Hz", "hz", true),
            ("s1", "s", false),
        ] {
            let whole = format!("2{text}");
            let expected = is_ignored.then_some(2);
            assert_eq!(parse_integer(&whole, unit), expected, "{whole}, {unit}");
            if text.starts_with(|first: char| first.is_alphabetic() && first != 'e') {
                let expected = is_ignored.then_some(2.5);
                let real = format!("2.5{text}");
                assert_eq!(parse_real(&real, unit), expected, "{real}, {unit}");
            }
        }
        assert_eq!(parse_c_integer("0x20x"), Some(32));
        assert_eq!(parse_c_integer("08"), None);
    }

    #[test]
    fn suffixes_are_parsed() {
        let (binary, decimal) = (
            (|_| 1024.0) as fn(char) -> f64,
            (|_| 1000.0) as fn(char) -> f64,
        );
        for (text, base, expected) in [
            ("10", binary, Some((10.0, None))),
            ("16K", binary, Some((16384.0, Some('K')))),
            ("8KB", binary, Some((8192.0, Some('K')))),
            ("8kiB", binary, Some((8192.0, Some('k')))),
            ("1.5m", decimal, Some((1.5e6, Some('m')))),
            ("2Gbit/s", decimal, Some((2e9, Some('G')))),
            ("1T", binary, Some((1_099_511_627_776.0, Some('T')))),
            ("1e9", decimal, Some((1e9, None))),
            ("0x10K", binary, Some((16384.0, Some('K')))),
            ("-1", binary, Some((-1.0, None))),
            ("64x", binary, Some((64.0, None))),
            ("1P", binary, None),
            ("1 K", decimal, None),
            ("100pps", decimal, None),
            ("1KK", decimal, None),
            ("1K5", decimal, None),
            ("1.2.3", decimal, None),
            ("", binary, None),
            ("K", binary, None),
            ("nan", decimal, None),
        ] {
            let parsed = parse_scaled(text, base, "");
            let parsed = parsed.map(|number| (number.value, number.suffix));
            assert_eq!(parsed, expected, "{text}");
        }
        let base = |suffix: char| if suffix == 'K' { 1024.0 } else { 1000.0 };
        let number = split_scaled("2kpps", base).unwrap();
        assert_eq!((number.value, number.suffix), (2000.0, Some('k')));
        assert_eq!(number.rest, "pps");
        let number = split_scaled("2K", base).unwrap();
        assert_eq!((number.value, number.suffix), (2048.0, Some('K')));
        // Milliseconds are no millions of microseconds.
        assert!(parse_scaled("1ms", binary, "us").is_none());
        assert!(parse_scaled("100us", binary, "us").is_some());
    }

    /// The expected texts are from iperf3 3.12.
    #[test]
    fn amounts_equal_iperf3s() {
        let (bytes, bits) = (Scale::Bytes(None), Scale::Bits(None));
        for (scale, amount, text) in [
            (bytes, 2_015_232.0, "1.92 MBytes"),
            (bits, 1_007_555.0, "8.06 Mbits"),
            (bytes, 999_424.0, " 976 KBytes"),
            (bytes, 0.0, "0.00 Bytes"),
            (bytes, 100_000.0, "97.7 KBytes"),
            (bytes, 1000.0, "1000 Bytes"),
            (bits, 124_985.0, "1000 Kbits"),
            (bits, 0.0, "0.00 bits"),
            (Scale::from_letter('m').unwrap(), 125_000.0, "1.00 Mbits"),
            (Scale::from_letter('K').unwrap(), 2048.0, "2.00 KBytes"),
        ] {
            assert_eq!(scale.format(amount), text);
        }
        assert_eq!(Scale::from_letter('x'), None);
    }

    #[test]
    fn format_general_equals_printf() {
        for (number, digits, text) in [
            (0.0, 2, "0"),
            (100.0, 2, "1e+02"),
            (12.34, 2, "12"),
            (0.052, 2, "0.052"),
            (4.956_985_201_012_3e-5, 15, "4.9569852010123e-05"),
            (1.000_105, 15, "1.000105"),
            (2_031_402.655_218_690_9, 17, "2031402.6552186909"),
            (99.9, 2, "1e+02"),
            (1e15, 15, "1e+15"),
        ] {
            assert_eq!(format_general(number, digits), text);
        }
    }
}
