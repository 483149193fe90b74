//! Parsers of option values, in the syntax of iperf 2.
//!
//! The parsers refuse a malformed value where stock silently uses 0 or its default.

use std::time::Duration;

use getopt::{EarlyExit, refuse};

use crate::timing::HistogramBins;

/// Parses a number of bytes with an optional fraction and suffix: k m g t of 1000, K M G T of 1024.
pub(super) fn bytes(text: &str) -> Result<u64, EarlyExit> {
    let number = scaled_number(text)?;
    if number < 0.0 || number > u64::MAX as f64 / 2.0 {
        return refuse("out of range");
    }
    Ok(number as u64)
}

/// Parses a number of bytes from 1 to `u32::MAX`, in the syntax of [`bytes`].
pub(super) fn size(text: &str) -> Result<u32, EarlyExit> {
    match u32::try_from(bytes(text)?) {
        Ok(size @ 1..) => Ok(size),
        _ => refuse("out of range"),
    }
}

/// The value of `-b`: bits per second, or datagrams per second (`100pps`, `10kpps`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RateSetting {
    /// Bits of payload per second.
    Bits(f64),
    /// Datagrams per second.
    Datagrams(f64),
    /// Bits of payload per second. The sender draws a new rate each second.
    Varying {
        /// The mean rate.
        mean: f64,
        /// The standard deviation of the rates.
        deviation: f64,
    },
}

pub(super) fn rate(text: &str) -> Result<RateSetting, EarlyExit> {
    if let Some((mean, deviation)) = text.split_once(',') {
        return match (scaled_number(mean)?, scaled_number(deviation)?) {
            (mean, deviation) if mean > 0.0 && deviation >= 0.0 => {
                Ok(RateSetting::Varying { mean, deviation })
            }
            _ => refuse("a varying rate needs a mean above 0 and a deviation of 0 or more"),
        };
    }
    match text.strip_suffix("pps") {
        Some(count) => scaled_number(count).map(RateSetting::Datagrams),
        None => scaled_number(text).map(RateSetting::Bits),
    }
}

/// Parses a rate and returns bytes per second.
///
/// The number is in bytes with an upper-case suffix, otherwise in bits.
pub(super) fn bytes_per_second(text: &str) -> Result<u64, EarlyExit> {
    let number = scaled_number(text)?;
    let is_bytes = text.ends_with(|last: char| last.is_ascii_uppercase());
    Ok(if is_bytes { number } else { number / 8.0 } as u64)
}

fn scaled_number(text: &str) -> Result<f64, EarlyExit> {
    let digits = text.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        "K" => 1024.0,
        "M" => 1024f64.powi(2),
        "G" => 1024f64.powi(3),
        "T" => 1024f64.powi(4),
        _ => return refuse("unknown suffix: use k, m, g, t, K, M, G or T"),
    };
    match digits.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number * factor),
        _ => refuse("not a number"),
    }
}

/// Parses the value of `--isochronous`: frames per second, load, and the standard deviation of the
/// load in bits per second.
pub(super) fn frames(text: &str) -> Result<(f64, FrameLoad, f64), EarlyExit> {
    let (rate, load) = text.split_once(':').unwrap_or((text, "20m"));
    let rate = if rate.is_empty() { "60" } else { rate };
    let Some(rate) = rate.parse().ok().filter(|rate| *rate > 0.0 && *rate <= 1e6) else {
        let line = "Invalid value for frames per second in the isochronous settings";
        return Err(stock_error(line));
    };
    let (mean, deviation) = load.split_once(',').unwrap_or((load, "0"));
    let bits = |text: &str| {
        let is_bytes = text.ends_with(|last: char| last.is_ascii_uppercase());
        scaled_number(text).map(|number| if is_bytes { number * 8.0 } else { number })
    };
    let (load, amount) = match mean.strip_suffix('p') {
        Some(count) => scaled_number(count).map(|count| (FrameLoad::Datagrams(count), count))?,
        None => bits(mean).map(|bits| (FrameLoad::Bits(bits), bits))?,
    };
    if amount <= 0.0 {
        return Err(stock_error(
            "ERROR: Invalid --isochronous mean value, must be greater than zero",
        ));
    }
    Ok((rate, load, bits(deviation)?.max(0.0)))
}

/// The load that the frames of `--isochronous` carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FrameLoad {
    /// Bits per second.
    Bits(f64),
    /// Datagrams per frame; buffers per frame for TCP.
    Datagrams(f64),
}

/// Parses the value of `--histograms`: width and number of bins, lower and upper percentage.
pub(super) fn bins(text: &str) -> Result<HistogramBins, EarlyExit> {
    let mut bins = HistogramBins {
        width: Duration::from_micros(100),
        count: 10_000,
        percents: [5.0, 95.0],
    };
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 4 {
        return refuse("more values than WIDTH,COUNT,LOW,HIGH");
    }
    if let Some(width) = parts.first().filter(|width| !width.is_empty()) {
        let number = width.trim_end_matches(['u', 'm', 's']);
        let unit = match &width[number.len()..] {
            "u" => 1e-6,
            "m" => 1e-3,
            "" | "s" => 1.0,
            _ => return refuse("unknown unit of the width: use u or m"),
        };
        let seconds = number.parse().map_or(0.0, |number: f64| number * unit);
        match Duration::try_from_secs_f64(seconds) {
            Ok(width) if width >= Duration::from_micros(1) => bins.width = width,
            _ => return refuse("the width is not a number of at least 1u"),
        }
    }
    if let Some(number) = parts.get(1) {
        bins.count = count(number)?.max(1);
    }
    for (percent, text) in bins.percents.iter_mut().zip(parts.iter().skip(2)) {
        match text.parse() {
            Ok(number) if (0.0..=100.0).contains(&number) => *percent = number,
            _ => return refuse("a percentage is not a number from 0 to 100"),
        }
    }
    Ok(bins)
}

/// Returns an exit that prints one of stock's error lines.
fn stock_error(line: &str) -> EarlyExit {
    EarlyExit::Exit(getopt::Exit::stderr(format!("{line}\n"), 1))
}

/// Parses a whole number from 0 to `u32::MAX`.
pub(super) fn count(text: &str) -> Result<u32, EarlyExit> {
    text.parse().or_else(|_| refuse("not a whole number"))
}

/// Parses seconds with a fraction. A negative number yields 0.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(seconds.max(0.0)).ok()
}

/// Parses seconds like [`seconds`], but refuses text that is not a number.
pub(super) fn time(text: &str) -> Result<Duration, EarlyExit> {
    seconds(text).map_or_else(|| refuse("not a number of seconds"), Ok)
}

/// Parses the value of `--ipg`: milliseconds with a fraction.
pub(super) fn gap(text: &str) -> Result<Duration, EarlyExit> {
    let gap = seconds(text).map(|seconds| seconds / 1000);
    gap.ok_or_else(|| stock_error(&format!("ERRPORE: Invalid value of '{text}' for --ipg")))
}

/// Parses a port or a range FIRST-LAST. Returns the first and the last port.
pub(super) fn ports(text: &str) -> Result<(u16, u16), EarlyExit> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => refuse("not a port or a range of ports"),
    }
}

/// Parses a type of service: a name, or a decimal, octal or hexadecimal number up to 255.
pub(super) fn type_of_service(text: &str) -> Option<u8> {
    let lower = text.to_ascii_lowercase();
    let named = match lower.as_str() {
        "nqb" => 0xb4,
        "nqb2" => 0xa8,
        "ac_be" => 0x00,
        "ac_bk" => 0x20,
        "ac_vi" => 0xa0,
        "ac_vo" => 0xc0,
        "le" => 0x04,
        _ => return units::parse_type_of_service(&lower).or_else(|| byte_value(&lower)),
    };
    Some(named)
}

fn byte_value(text: &str) -> Option<u8> {
    units::parse_c_number(text)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_multiply_by_powers_of_1000_or_1024() {
        for (text, expected) in [
            ("10", Some(10)),
            ("10k", Some(10_000)),
            ("10K", Some(10_240)),
            ("1.5M", Some(1_572_864)),
            ("2g", Some(2_000_000_000)),
            ("10X", None),
            ("abc", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(bytes(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn rates_are_bits_or_datagrams() {
        for (text, expected) in [
            ("8m", Some(RateSetting::Bits(8e6))),
            ("1M", Some(RateSetting::Bits(1_048_576.0))),
            ("100pps", Some(RateSetting::Datagrams(100.0))),
            ("10kpps", Some(RateSetting::Datagrams(10_000.0))),
            ("-1m,2m", None),
            (
                "1m,100k",
                Some(RateSetting::Varying {
                    mean: 1e6,
                    deviation: 1e5,
                }),
            ),
        ] {
            assert_eq!(rate(text).ok(), expected, "{text}");
        }
        assert_eq!(bytes_per_second("8m").ok(), Some(1_000_000));
        assert_eq!(bytes_per_second("1M").ok(), Some(1 << 20));
    }

    #[test]
    fn types_of_service_have_names() {
        for (text, expected) in [
            ("AF43", Some(0x98)),
            ("NQB", Some(0xb4)),
            ("0x10", Some(16)),
            ("020", Some(16)),
            ("255", Some(255)),
            ("256", None),
            ("xyz", None),
        ] {
            assert_eq!(type_of_service(text), expected, "{text}");
        }
    }
}
