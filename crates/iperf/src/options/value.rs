//! The values of options, as iperf 2 reads them. What stock takes for 0 or for its default is refused here.

use std::time::Duration;

use getopt::{Quit, refuse};

use crate::tally::Bins;

/// Bytes: a number with a fraction and a suffix, k m g t of 1000 and K M G T of 1024.
pub(super) fn bytes(text: &str) -> Result<u64, Quit> {
    let number = scaled(text)?;
    if number < 0.0 || number > u64::MAX as f64 / 2.0 {
        return refuse("it is out of range");
    }
    Ok(number as u64)
}

/// The same, as a 32-bit number that is not 0.
pub(super) fn size(text: &str) -> Result<u32, Quit> {
    match u32::try_from(bytes(text)?) {
        Ok(size @ 1..) => Ok(size),
        _ => refuse("it is out of range"),
    }
}

/// Bits per second, or datagrams per second (`100pps`, `10kpps`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Bits of payload per second.
    Bits(f64),
    /// Datagrams per second.
    Datagrams(f64),
    /// Bits of payload per second, drawn anew each second.
    Varying {
        /// Their mean.
        mean: f64,
        /// Their standard deviation.
        deviation: f64,
    },
}

pub(super) fn rate(text: &str) -> Result<Rate, Quit> {
    if let Some((mean, deviation)) = text.split_once(',') {
        return match (scaled(mean)?, scaled(deviation)?) {
            (mean, deviation) if mean > 0.0 && deviation >= 0.0 => {
                Ok(Rate::Varying { mean, deviation })
            }
            _ => refuse("a rate that varies is more than 0"),
        };
    }
    match text.strip_suffix("pps") {
        Some(count) => scaled(count).map(Rate::Datagrams),
        None => scaled(text).map(Rate::Bits),
    }
}

/// A rate whose upper-case suffixes are bytes.
pub(super) fn rate_of_letters(text: &str) -> Result<u64, Quit> {
    let bits = scaled(text)?;
    let is_bytes = text.ends_with(|last: char| last.is_ascii_uppercase());
    Ok(if is_bytes { bits } else { bits / 8.0 } as u64)
}

fn scaled(text: &str) -> Result<f64, Quit> {
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
        _ => return refuse("its suffix is none of k, m, g, t, K, M, G, T"),
    };
    match digits.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number * factor),
        _ => refuse("it is not a number"),
    }
}

/// `--isochronous`: frames per second, bits per second and their standard deviation.
pub(super) fn frames(text: &str) -> Result<(f64, Load, f64), Quit> {
    let (rate, load) = text.split_once(':').unwrap_or((text, "20m"));
    let rate = if rate.is_empty() { "60" } else { rate };
    let Some(rate) = rate.parse().ok().filter(|rate| *rate > 0.0 && *rate <= 1e6) else {
        let line = "Invalid value for frames per second in the isochronous settings";
        return Err(own(line));
    };
    let (mean, deviation) = load.split_once(',').unwrap_or((load, "0"));
    let bits = |text: &str| {
        let is_bytes = text.ends_with(|last: char| last.is_ascii_uppercase());
        scaled(text).map(|number| if is_bytes { number * 8.0 } else { number })
    };
    let (load, amount) = match mean.strip_suffix('p') {
        Some(count) => scaled(count).map(|count| (Load::Datagrams(count), count))?,
        None => bits(mean).map(|bits| (Load::Bits(bits), bits))?,
    };
    if amount <= 0.0 {
        return Err(own(
            "ERROR: Invalid --isochronous mean value, must be greater than zero",
        ));
    }
    Ok((rate, load, bits(deviation)?.max(0.0)))
}

/// How much the frames of `--isochronous` carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Load {
    /// Bits per second.
    Bits(f64),
    /// Datagrams, or buffers, of a frame.
    Datagrams(f64),
}

/// `--histograms`: the bins' width, how many, and the lower and the upper percentage.
pub(super) fn bins(text: &str) -> Result<Bins, Quit> {
    let mut bins = Bins {
        width: Duration::from_micros(100),
        count: 10_000,
        percents: [5.0, 95.0],
    };
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 4 {
        return refuse("it has more than a width, a count and two percentages");
    }
    if let Some(width) = parts.first().filter(|width| !width.is_empty()) {
        let number = width.trim_end_matches(['u', 'm', 's']);
        let unit = match &width[number.len()..] {
            "u" => 1e-6,
            "m" => 1e-3,
            "" | "s" => 1.0,
            _ => return refuse("its width has another unit than u and m"),
        };
        let seconds = number.parse().map_or(0.0, |number: f64| number * unit);
        match Duration::try_from_secs_f64(seconds) {
            Ok(width) if width >= Duration::from_micros(1) => bins.width = width,
            _ => return refuse("its width is not a number of at least 1u"),
        }
    }
    if let Some(number) = parts.get(1) {
        bins.count = count(number)?.max(1);
    }
    for (percent, text) in bins.percents.iter_mut().zip(parts.iter().skip(2)) {
        match text.parse() {
            Ok(number) if (0.0..=100.0).contains(&number) => *percent = number,
            _ => return refuse("its percentages are numbers up to 100"),
        }
    }
    Ok(bins)
}

/// Ends with a line of stock.
fn own(line: &str) -> Quit {
    Quit::Exit(getopt::Exit::stderr(format!("{line}\n"), 1))
}

/// A whole number.
pub(super) fn count(text: &str) -> Result<u32, Quit> {
    text.parse().or_else(|_| refuse("it is not a number"))
}

/// Seconds with a fraction; negative ones are 0.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(seconds.max(0.0)).ok()
}

/// The same; a text is refused.
pub(super) fn time(text: &str) -> Result<Duration, Quit> {
    seconds(text).map_or_else(|| refuse("it is not a number of seconds"), Ok)
}

/// `--ipg`: milliseconds.
pub(super) fn gap(text: &str) -> Result<Duration, Quit> {
    let gap = seconds(text).map(|seconds| seconds / 1000);
    gap.ok_or_else(|| own(&format!("ERRPORE: Invalid value of '{text}' for --ipg")))
}

/// A port, or the first and the last one of a range.
pub(super) fn ports(text: &str) -> Result<(u16, u16), Quit> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last => Ok((first, last)),
        _ => refuse("it is not a port, nor a range of ports"),
    }
}

/// A type of service by its name, or a number of any base up to 255.
pub(super) fn type_of_service(text: &str) -> Option<u8> {
    let lower = text.to_ascii_lowercase();
    let own = match lower.as_str() {
        "nqb" => 0xb4,
        "nqb2" => 0xa8,
        "ac_be" => 0x00,
        "ac_bk" => 0x20,
        "ac_vi" => 0xa0,
        "ac_vo" => 0xc0,
        "le" => 0x04,
        _ => return units::type_of_service(&lower).or_else(|| octet(&lower)),
    };
    Some(own)
}

fn octet(text: &str) -> Option<u8> {
    units::c_number(text)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_of_1000_or_1024() {
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
            ("8m", Some(Rate::Bits(8e6))),
            ("1M", Some(Rate::Bits(1_048_576.0))),
            ("100pps", Some(Rate::Datagrams(100.0))),
            ("10kpps", Some(Rate::Datagrams(10_000.0))),
            ("-1m,2m", None),
            (
                "1m,100k",
                Some(Rate::Varying {
                    mean: 1e6,
                    deviation: 1e5,
                }),
            ),
        ] {
            assert_eq!(rate(text).ok(), expected, "{text}");
        }
        assert_eq!(rate_of_letters("8m").ok(), Some(1_000_000));
        assert_eq!(rate_of_letters("1M").ok(), Some(1 << 20));
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
