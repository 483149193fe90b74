//! Formats amounts, rates and percentages as iperf 2 does.

use crate::options::Format;

/// Formats a number with four characters.
pub(super) fn format_four_characters(number: f64) -> String {
    let decimals = match number {
        number if number < 0.9995 => 3,
        number if number < 9.995 => 2,
        number if number < 99.95 => 1,
        _ => 0,
    };
    format!("{number:4.decimals$}")
}

const PREFIXES: [&str; 5] = ["", "K", "M", "G", "T"];

/// Divides a number by `base` and returns the quotient with its prefix.
///
/// Divides `exponent` times; if that is `None`, until the quotient is smaller than `base`.
fn scale(number: f64, base: f64, exponent: Option<u32>) -> (f64, &'static str) {
    let mut steps = 0;
    let mut number = number;
    while exponent.map_or(number >= base && steps < 4, |exponent| steps < exponent) {
        number /= base;
        steps += 1;
    }
    (number, PREFIXES[steps.min(4) as usize])
}

impl Format {
    /// Formats an amount of bytes: `9.63 MBytes`.
    pub(super) fn amount(self, bytes: f64) -> String {
        let (number, prefix) = scale(bytes, 1024.0, self.exponent());
        format!("{} {prefix}Bytes", self.number(number))
    }

    /// Formats a rate, given in bits per second: `80.7 Mbits/sec`.
    pub(super) fn rate(self, bits: f64) -> String {
        let (is_bytes, exponent) = (self.is_bytes(), self.exponent());
        let (number, prefix) = if is_bytes {
            scale(bits / 8.0, 1024.0, exponent)
        } else {
            scale(bits, 1000.0, exponent)
        };
        let unit = if is_bytes { "Bytes" } else { "bits" };
        format!("{} {prefix}{unit}/sec", self.number(number))
    }

    /// Formats a size for a settings block: `16.0 KByte`.
    pub(super) fn size(self, bytes: f64) -> String {
        let exponent = self.exponent().filter(|exponent| *exponent == 0);
        let (number, prefix) = scale(bytes, 1024.0, exponent);
        format!("{} {prefix}Byte", self.number(number))
    }

    fn number(self, number: f64) -> String {
        match self {
            Self::Fixed { power: 0, .. } => format!("{number:.0}"),
            _ => format_four_characters(number),
        }
    }

    fn exponent(self) -> Option<u32> {
        match self {
            Self::Adaptive { .. } => None,
            Self::Fixed { power, .. } => Some(power),
        }
    }

    fn is_bytes(self) -> bool {
        match self {
            Self::Adaptive { bytes } | Self::Fixed { bytes, .. } => bytes,
        }
    }
}

/// Formats the rate of the kernel's pacing: `80.0 Mbit/s`.
pub(super) fn format_pacing_rate(bytes_per_second: u64) -> String {
    let rate = Format::Adaptive { bytes: false }.rate(bytes_per_second as f64 * 8.0);
    rate.replace("bits/sec", "bit/s").trim().to_owned()
}

/// Formats the network power: the rate in bytes per second, divided by the delay, in millions.
pub(super) fn format_net_power(bytes_per_second: f64, delay_seconds: f64) -> String {
    let power = bytes_per_second / delay_seconds / 1e6;
    match power {
        _ if delay_seconds <= 0.0 || !power.is_finite() => "NAN".to_owned(),
        power if power >= 100.0 => format!("{power:.0}"),
        power if power >= 0.005 => format!("{power:.2}"),
        power => format!("{power:.6}"),
    }
}

/// Formats `part` as a percentage of `total`, with two significant digits.
pub(super) fn format_percent(part: u64, total: u64) -> String {
    if total == 0 {
        return "-nan".to_owned();
    }
    let percent = 100.0 * part as f64 / total as f64;
    if percent == 0.0 {
        return "0".to_owned();
    }
    let digits = 1 - percent.log10().floor() as i32;
    if percent >= 99.5 {
        return if percent >= 100.0 { "1e+02" } else { "99" }.to_owned();
    }
    let text = format!("{percent:.*}", digits.max(0) as usize);
    match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected texts come from recorded stock output.
    #[test]
    fn amounts_and_rates_match_stock() {
        let bytes = 3_000_000.0;
        let bits = bytes * 8.0 / 0.585;
        for (letter, amount, rate) in [
            ('a', "2.86 MBytes", "41.0 Mbits/sec"),
            ('b', "3000000 Bytes", "41025641 bits/sec"),
            ('k', "2930 KBytes", "41026 Kbits/sec"),
            ('g', "0.003 GBytes", "0.041 Gbits/sec"),
            ('A', "2.86 MBytes", "4.89 MBytes/sec"),
            ('K', "2930 KBytes", "5008 KBytes/sec"),
            ('T', "0.000 TBytes", "0.000 TBytes/sec"),
        ] {
            let format = Format::from_letter(letter).unwrap();
            assert_eq!(
                (&*format.amount(bytes), &*format.rate(bits)),
                (amount, rate),
                "{letter}"
            );
        }
        let adaptive = Format::Adaptive { bytes: false };
        for (bytes, text) in [
            (0.0, "0.000 Bytes"),
            (999.0, " 999 Bytes"),
            (1023.0, "1023 Bytes"),
            (1024.0, "1.00 KBytes"),
            (1_048_575.0, "1024 KBytes"),
            (102_400.0, " 100 KBytes"),
        ] {
            assert_eq!(adaptive.amount(bytes), text);
        }
        assert_eq!(adaptive.size(16384.0), "16.0 KByte");
        assert_eq!(
            Format::from_letter('b').unwrap().size(16384.0),
            "16384 Byte"
        );
        assert_eq!(
            Format::from_letter('k').unwrap().size(16384.0),
            "16.0 KByte"
        );
    }

    #[test]
    fn percentages_and_net_power_match_stock() {
        for (part, total, text) in [
            (0, 38, "0"),
            (1, 38, "2.6"),
            (1, 20, "5"),
            (1, 11, "9.1"),
            (1, 3, "33"),
            (1, 1000, "0.1"),
            (38, 38, "1e+02"),
            (0, 0, "-nan"),
        ] {
            assert_eq!(format_percent(part, total), text, "{part}/{total}");
        }
        for (rate, delay, text) in [
            (1e6, 83e-6, "12048"),
            (1e6, 0.5, "2.00"),
            (1e3, 1.0, "0.001000"),
            (1e6, 0.0, "NAN"),
        ] {
            assert_eq!(format_net_power(rate, delay), text);
        }
    }
}
