//! Numbers of iperf 2 and iperf3: sizes and rates in options and in tables.

/// Parses a decimal number with an optional suffix K, M, G or T, or k, m, g or t: the first to the
/// fourth power of `base`. Returns `None` for any other text and for a negative number.
pub fn parse_scaled(text: &str, base: u32) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match &text[digits.len()..] {
        "" => 0,
        "k" | "K" => 1,
        "m" | "M" => 2,
        "g" | "G" => 3,
        "t" | "T" => 4,
        _ => return None,
    };
    let is_plain = |c: char| c.is_ascii_digit() || c == '.';
    if !digits.chars().all(is_plain) {
        return None;
    }
    let number: f64 = digits.parse().ok()?;
    Some(number * f64::from(base).powi(power))
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
    fn suffixes_are_parsed() {
        for (text, base, expected) in [
            ("10", 1024, Some(10.0)),
            ("16K", 1024, Some(16384.0)),
            ("1.5m", 1000, Some(1.5e6)),
            ("2G", 1000, Some(2e9)),
            ("1T", 1024, Some(1_099_511_627_776.0)),
            ("", 1024, None),
            ("K", 1024, None),
            ("-1", 1024, None),
            ("1Q", 1024, None),
            ("1e9", 1000, None),
            ("nan", 1000, None),
            ("1 K", 1000, None),
        ] {
            assert_eq!(parse_scaled(text, base), expected, "{text}");
        }
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
