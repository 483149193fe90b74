//! Parsers of option values, in the syntax of iperf 2.
//!
//! The parsers refuse a malformed value where stock silently uses 0, its default, or another number
//! than its reader would.

use std::time::Duration;

use getopt::{EarlyExit, refuse};
use units::iperf::{ScaledNumber, parse_integer, parse_real, parse_scaled, split_scaled};
use units::split_real;

use crate::timing::HistogramBins;

/// Parses a number of bytes with an optional fraction and suffix: k m g t of 1000, K M G T of 1024.
pub(super) fn bytes(text: &str) -> Result<u64, EarlyExit> {
    match scaled(text, base_by_case)?.value {
        number if (0.0..=u64::MAX as f64 / 2.0).contains(&number) => Ok(number as u64),
        _ => refuse("out of range"),
    }
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
    let number = |text| scaled(text, base_by_case).map(|number| number.value);
    if let Some((mean, deviation)) = text.split_once(',') {
        return match (number(mean)?, number(deviation)?) {
            (mean, deviation) if mean > 0.0 && deviation >= 0.0 => {
                Ok(RateSetting::Varying { mean, deviation })
            }
            _ => refuse("a varying rate needs a mean above 0 and a deviation of 0 or more"),
        };
    }
    // Stock reads a `p` anywhere in the unit as datagrams per second, also that of `mbps`.
    match split_scaled(text, base_by_case) {
        Some(ScaledNumber { value, rest, .. }) if starts_with_p(rest) => {
            Ok(RateSetting::Datagrams(value))
        }
        Some(number) if number.rest.contains(['p', 'P']) => refuse(
            "stock reads the p as datagrams per second: use 1m for bits, 1mpps for datagrams per second",
        ),
        _ => number(text).map(RateSetting::Bits),
    }
}

/// Parses a rate and returns bytes per second.
pub(super) fn bytes_per_second(text: &str) -> Result<u64, EarlyExit> {
    bits_per_second(text).map(|bits| (bits / 8.0) as u64)
}

/// Parses a rate and returns bits per second.
///
/// The number is in bytes with an upper-case suffix, otherwise in bits. All suffixes are powers of
/// 1000.
fn bits_per_second(text: &str) -> Result<f64, EarlyExit> {
    let number = scaled(text, |_| 1000.0)?;
    let is_bytes = number
        .suffix
        .is_some_and(|suffix| suffix.is_ascii_uppercase());
    Ok(if is_bytes {
        number.value * 8.0
    } else {
        number.value
    })
}

/// Returns 1000 for a lower-case suffix, and 1024 for an upper-case one.
fn base_by_case(suffix: char) -> f64 {
    if suffix.is_ascii_uppercase() {
        1024.0
    } else {
        1000.0
    }
}

fn scaled(text: &str, base: fn(char) -> f64) -> Result<ScaledNumber<'_>, EarlyExit> {
    let number = parse_scaled(text, base, "").filter(|number| number.value.is_finite());
    number.map_or_else(
        || refuse("not a number with a suffix k, m, g, t, K, M, G or T"),
        Ok,
    )
}

fn starts_with_p(unit: &str) -> bool {
    unit.trim_start().starts_with(['p', 'P'])
}

/// Parses the value of `--isochronous`: frames per second, load, and the standard deviation of the
/// load in bits per second.
pub(super) fn frames(text: &str) -> Result<(f64, FrameLoad, f64), EarlyExit> {
    let (rate, load) = text.split_once(':').unwrap_or((text, "20m"));
    let rate = if rate.is_empty() { "60" } else { rate };
    let Some(rate) = parse_real(rate, "hz").filter(|rate| *rate > 0.0 && *rate <= 1e6) else {
        let line = "Invalid value for frames per second in the isochronous settings";
        return Err(stock_error(line));
    };
    let (mean, deviation) = load.split_once(',').unwrap_or((load, "0"));
    let (load, amount) = match split_real(mean) {
        Some((count, unit)) if starts_with_p(unit) => (FrameLoad::Datagrams(count), count),
        _ => bits_per_second(mean).map(|bits| (FrameLoad::Bits(bits), bits))?,
    };
    if amount <= 0.0 {
        return Err(stock_error(
            "ERROR: Invalid --isochronous mean value, must be greater than zero",
        ));
    }
    Ok((rate, load, bits_per_second(deviation)?.max(0.0)))
}

/// The load that the frames of `--isochronous` carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FrameLoad {
    /// Bits per second.
    Bits(f64),
    /// Datagrams per frame; buffers per frame for TCP.
    Datagrams(f64),
}

/// Parses the value of `--jitter-histograms`: the width of the bins.
pub(super) fn jitter_bins(text: &str) -> Result<HistogramBins, EarlyExit> {
    /// linerate's own: stock has ten times as many.
    const COUNT: u32 = 100_000;
    let mut bins = HistogramBins::with_count(COUNT);
    if !text.is_empty() {
        let micros = parse_integer(text, "u").and_then(|number| u64::try_from(number).ok());
        match micros {
            Some(micros @ 1..) => bins.width = Duration::from_micros(micros),
            _ => return refuse("the width is not a number of microseconds (u)"),
        }
    }
    Ok(bins)
}

/// Parses the value of `--histograms`: width and number of bins, lower and upper percentage.
///
/// Without a number of bins, the count is 0: the default depends on the version.
pub(super) fn bins(text: &str) -> Result<HistogramBins, EarlyExit> {
    let mut bins = HistogramBins::with_count(0);
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 4 {
        return refuse("more values than WIDTH,COUNT,LOW,HIGH");
    }
    if let Some(width) = parts.first().filter(|width| !width.is_empty()) {
        let (unit, micros) = if width.contains('m') {
            ("m", 1000)
        } else {
            ("u", 1)
        };
        let number = parse_integer(width, unit).and_then(|number| u64::try_from(number).ok());
        match number.and_then(|number| number.checked_mul(micros)) {
            Some(micros @ 1..) => bins.width = Duration::from_micros(micros),
            _ => {
                return refuse("the width is not a number of microseconds (u) or milliseconds (m)");
            }
        }
    }
    if let Some(number) = parts.get(1) {
        bins.count = count(number)?.max(1);
        if bins.count > HistogramBins::MAX_COUNT {
            return refuse(format!("more than {} bins", HistogramBins::MAX_COUNT));
        }
    }
    for (percent, text) in bins.percents.iter_mut().zip(parts.iter().skip(2)) {
        match parse_real(text, "") {
            Some(number) if (0.0..=100.0).contains(&number) => *percent = number,
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
    let number = parse_integer(text, "").and_then(|number| number.try_into().ok());
    number.map_or_else(|| refuse("not a whole number"), Ok)
}

/// Returns a duration that can be added to any time; 0 for a negative number.
fn duration(seconds: f64) -> Option<Duration> {
    let duration = Duration::try_from_secs_f64(seconds.max(0.0)).ok()?;
    (duration <= Duration::from_secs(u32::MAX.into())).then_some(duration)
}

/// Parses seconds with a fraction, without a unit. A negative number yields 0.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    match split_real(text)? {
        (seconds, "") => duration(seconds),
        _ => None,
    }
}

/// Parses seconds with a fraction and an optional unit. A negative number yields 0.
pub(super) fn time(text: &str) -> Result<Duration, EarlyExit> {
    let time = parse_real(text, "s").and_then(duration);
    time.map_or_else(|| refuse("not a number of seconds up to 4294967295"), Ok)
}

/// Parses milliseconds with a fraction and an optional unit. A negative number yields 0.
pub(super) fn milliseconds(text: &str) -> Result<Duration, EarlyExit> {
    let time = parse_real(text, "ms").and_then(|number| duration(number / 1000.0));
    time.map_or_else(
        || refuse("not a number of milliseconds up to 4294967295000"),
        Ok,
    )
}

/// Parses the value of `--ipg`: milliseconds with a fraction.
pub(super) fn gap(text: &str) -> Result<Duration, EarlyExit> {
    let gap = seconds(text).map(|seconds| seconds / 1000);
    gap.ok_or_else(|| stock_error(&format!("ERRPORE: Invalid value of '{text}' for --ipg")))
}

/// Parses a port or a range FIRST-LAST. Returns the first and the last port.
pub(super) fn ports(text: &str) -> Result<(u16, u16), EarlyExit> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text| parse_integer(text, "")?.try_into().ok();
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok((first, last)),
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
        _ => {
            let octet = || units::parse_strict_c_integer(text)?.try_into().ok();
            return units::parse_type_of_service(&lower).or_else(octet);
        }
    };
    Some(named)
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
            ("8KB", Some(8192)),
            ("8kB", Some(8000)),
            ("10X", Some(10)),
            ("1e6", Some(1_000_000)),
            ("0x100", Some(256)),
            ("+5", Some(5)),
            ("1P", None),
            ("8 K", None),
            ("1.2.3", None),
            ("nan", None),
            ("1e400", None),
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
            ("100 PPS", Some(RateSetting::Datagrams(100.0))),
            ("100p", Some(RateSetting::Datagrams(100.0))),
            ("8mbit", Some(RateSetting::Bits(8e6))),
            ("8mbit/s", Some(RateSetting::Bits(8e6))),
            ("8mbps", None),
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
    }

    /// The expected numbers are those in the header of stock.
    #[test]
    fn rates_of_pacing_and_frames_have_decimal_suffixes() {
        for (text, expected) in [
            ("8000000", Some(1_000_000)),
            ("8000B", Some(1000)),
            ("1m", Some(125_000)),
            ("1mbps", Some(125_000)),
            ("1M", Some(1_000_000)),
            ("1Mbps", Some(1_000_000)),
            ("1KB", Some(1000)),
            ("abc", None),
        ] {
            assert_eq!(bytes_per_second(text).ok(), expected, "{text}");
        }
        for (text, rate, load, deviation) in [
            ("10:1m,0", 10.0, FrameLoad::Bits(1e6), 0.0),
            ("10fps:1mbps,100kx", 10.0, FrameLoad::Bits(1e6), 1e5),
            ("60Hz:1M", 60.0, FrameLoad::Bits(8e6), 0.0),
            (":1K,1Kb", 60.0, FrameLoad::Bits(8e3), 8e3),
            ("1e1:2ps", 10.0, FrameLoad::Datagrams(2.0), 0.0),
        ] {
            assert_eq!(frames(text).ok(), Some((rate, load, deviation)), "{text}");
        }
        for text in ["abc:1m", "10ms:1m", "10:1mp", "10:1m,abc"] {
            assert!(frames(text).is_err(), "{text}");
        }
    }

    /// The expected widths are those that stock prints.
    #[test]
    fn bins_have_microseconds_or_milliseconds() {
        let micros = |text| {
            bins(text)
                .ok()
                .map(|bins| (bins.width.as_micros(), bins.count))
        };
        for (text, expected) in [
            ("", Some((100, 0))),
            ("50", Some((50, 0))),
            ("100u,20", Some((100, 20))),
            ("100usec,+20", Some((100, 20))),
            ("1m", Some((1000, 0))),
            ("1ms,20x,5%,95x", Some((1000, 20))),
            ("1,1000000", Some((1, 1_000_000))),
            ("1,1000001", None),
            ("0", None),
            ("1M", None),
            ("1s", None),
            ("0.5", None),
            ("1m,1K", None),
            ("m", None),
            ("abc", None),
            ("9223372036854775807m", None),
        ] {
            assert_eq!(micros(text), expected, "{text}");
        }
    }

    #[test]
    fn whole_numbers_and_times_may_have_units() {
        for (text, expected) in [
            ("2", Some(2)),
            ("2x", Some(2)),
            (" +2", Some(2)),
            ("2K", None),
            ("1.5", None),
            ("0x2", None),
            ("-1", None),
            ("4294967296", None),
            ("abc", None),
        ] {
            assert_eq!(count(text).ok(), expected, "{text}");
        }
        for (text, expected) in [
            ("5001x", Some((5001, 5001))),
            ("5001-5003x", Some((5001, 5003))),
            ("5003-5001", None),
            ("65536", None),
            ("-1", None),
        ] {
            assert_eq!(ports(text).ok(), expected, "{text}");
        }
        let millis = Duration::from_millis;
        for (text, as_seconds, as_time, as_milliseconds) in [
            ("1.5", Some(1500), Some(1500), Some(1)),
            (" +2", Some(2000), Some(2000), Some(2)),
            ("0x10", Some(16_000), Some(16_000), Some(16)),
            ("1e1", Some(10_000), Some(10_000), Some(10)),
            ("-1", Some(0), Some(0), Some(0)),
            ("1s", None, Some(1000), None),
            ("5x", None, Some(5000), Some(5)),
            ("5ms", None, None, Some(5)),
            ("10m", None, None, None),
            ("4294967296", None, None, Some(4_294_967_296)),
            ("1e19", None, None, None),
            ("nan", None, None, None),
            ("inf", None, None, None),
            ("", None, None, None),
        ] {
            assert_eq!(seconds(text), as_seconds.map(millis), "{text}");
            assert_eq!(time(text).ok(), as_time.map(millis), "{text}");
            let milliseconds = milliseconds(text).ok().map(|time| time.as_millis());
            assert_eq!(milliseconds, as_milliseconds, "{text}");
        }
    }

    #[test]
    fn types_of_service_have_names() {
        for (text, expected) in [
            ("AF43", Some(0x98)),
            ("NQB", Some(0xb4)),
            ("0x10", Some(16)),
            ("020", Some(16)),
            ("255", Some(255)),
            ("+16", Some(16)),
            ("16x", None),
            ("08", None),
            ("-1", None),
            ("256", None),
            ("xyz", None),
        ] {
            assert_eq!(type_of_service(text), expected, "{text}");
        }
    }
}
