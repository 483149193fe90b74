//! Sizes with the suffixes of netperf and uperf.

use crate::split_integer;

/// Parses a number like netperf: an integer, followed by text that may include suffixes.
///
/// `K`, `M`, `G` are 2¹⁰, 2²⁰, 2³⁰ and `k`, `m`, `g` are 10³, 10⁶, 10⁹. Several suffixes multiply.
/// Returns `None` for text without a number, with a second one (`1.5`, `0x10`), and for a value that
/// overflows, so that the caller can report it. The stock tool takes text without a number for 0,
/// ignores the second number, and silently wraps at 32 bits.
pub fn parse_netperf_size(text: &str) -> Option<i64> {
    let (mut value, suffixes) = split_integer(text)?;
    for suffix in suffixes.chars() {
        let factor = match suffix {
            'K' => 1 << 10,
            'M' => 1 << 20,
            'G' => 1 << 30,
            'k' => 1_000,
            'm' => 1_000_000,
            'g' => 1_000_000_000,
            c if c.is_ascii_digit() => return None,
            // Other characters are ignored, as in "10s", "64KB" or "95%".
            _ => 1,
        };
        value = value.checked_mul(factor)?;
    }
    Some(value)
}

/// Splits text like uperf into a number (digits with at most one point) and its suffix. Returns
/// `None` if the number has no digit.
pub fn split_uperf_number(text: &str) -> Option<(&str, &str)> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let integer = digits(text);
    let fraction = match text[integer..].strip_prefix('.') {
        Some(rest) => 1 + digits(rest),
        None => 0,
    };
    let (number, suffix) = text.split_at(integer + fraction);
    let is_number = number.contains(|c: char| c.is_ascii_digit());
    is_number.then_some((number, suffix))
}

/// Returns the number of bits by which a uperf suffix shifts a number. The first letter, in
/// upper or lower case, is one of `b k m g t p e z`, each 1024 times its predecessor. Further
/// letters are ignored.
pub fn uperf_suffix_shift(suffix: &str) -> Option<u32> {
    match suffix.chars().next() {
        Some(letter) => Some(10 * "bkmgtpez".find(letter.to_ascii_lowercase())? as u32),
        None => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_parsed_like_netperf() {
        for (text, value) in [
            ("10", Some(10)),
            ("32K", Some(32_768)),
            ("32k", Some(32_000)),
            ("1M", Some(1 << 20)),
            ("1m", Some(1_000_000)),
            ("2G", Some(2 << 30)),
            ("2g", Some(2_000_000_000)),
            ("1Kk", Some(1_024_000)),
            ("64KB", Some(65_536)),
            ("10s", Some(10)),
            ("95%", Some(95)),
            ("10 KiB", Some(10_240)),
            ("1e3", None),
            ("-5", Some(-5)),
            ("-1K", Some(-1024)),
            ("+7", Some(7)),
            ("", None),
            ("K", None),
            ("1.5", None),
            ("0x10", None),
            ("99999999999999999999", None),
            ("9999999999999G", None),
        ] {
            assert_eq!(parse_netperf_size(text), value, "{text}");
        }
    }
}
