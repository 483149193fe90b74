//! Bit rates with the suffixes of tc(8).

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

#[cfg(test)]
mod tests {
    use super::*;

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
