//! Bit rates: those of linerate's own options, and with the suffixes of tc(8).

use crate::BitRate;

/// Parses a rate like tc(8): a number and a unit. Prefixes are powers of 1000, or of 1024 with an
/// `i`. A number without a unit is bits per second. Returns `None` for other text and for rates
/// that are not above 0.
pub fn parse_bit_rate(text: &str) -> Option<BitRate> {
    let number_end = text.find(|char: char| !char.is_ascii_digit() && char != '.');
    let (number, unit) = text.split_at(number_end.unwrap_or(text.len()));
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "bit" => 1e0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        "kibit" => 1024f64,
        "mibit" => 1024f64 * 1024.0,
        "gibit" => 1024f64 * 1024.0 * 1024.0,
        "bps" => 8e0,
        "kbps" => 8e3,
        "mbps" => 8e6,
        "gbps" => 8e9,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    (number > 0.0).then_some(BitRate(number * factor))
}

/// Parses a rate of linerate's own options: a number and a unit in bits, such as `100mbit` or
/// `2.5Gbit/s`. The unit is required, and tc's units in bytes are refused, because `10mbps` usually
/// means 10 Mbit/s and not tc's 80 Mbit/s. The minimum is 1 bit per second. The error is a phrase
/// that names the units.
pub fn parse_strict_bit_rate(text: &str) -> Result<BitRate, &'static str> {
    const EXPECTED: &str =
        "not a rate: use a number with bit, kbit, mbit, gbit or tbit, such as 100mbit";
    let lower = text.to_ascii_lowercase();
    let rate = lower.strip_suffix("/s").unwrap_or(&lower);
    let (in_gigabits, factor) = match rate.strip_suffix("tbit") {
        Some(number) => (Some(format!("{number}gbit")), 1e3),
        None => (None, 1.0),
    };
    let rate = in_gigabits.as_deref().unwrap_or(rate);
    let rate = rate
        .ends_with("bit")
        .then(|| parse_bit_rate(rate))
        .flatten();
    rate.map(|rate| BitRate(rate.0 * factor))
        .filter(|rate| rate.0 >= 1.0 && rate.0.is_finite())
        .ok_or(EXPECTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_own_options_need_a_unit_in_bits() {
        for (text, rate) in [
            ("100mbit", 1e8),
            ("2.5Gbit/s", 2.5e9),
            ("1tbit", 1e12),
            ("1bit", 1.0),
            ("1kibit", 1024.0),
        ] {
            assert_eq!(parse_strict_bit_rate(text), Ok(BitRate(rate)), "{text}");
        }
        for text in [
            "", "10", "10mbps", "10m", "10M", "0mbit", "0.5bit", "-5mbit", "mbit", "tbit",
            "1e3bit", "10mbit/", "10 mbit", "1ttbit",
        ] {
            assert!(parse_strict_bit_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_are_tcs() {
        for (text, rate) in [
            ("100mbit", Some(1e8)),
            ("1.5Gbit", Some(1.5e9)),
            ("1kibit", Some(1024.0)),
            ("10mbps", Some(8e7)),
            ("9600", Some(9600.0)),
            ("0mbit", None),
            ("mbit", None),
            ("1.2.3mbit", None),
            ("-5mbit", None),
            ("10m", None),
            ("", None),
        ] {
            assert_eq!(parse_bit_rate(text), rate.map(BitRate), "{text}");
        }
    }
}
