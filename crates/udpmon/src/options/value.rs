//! Parsers of option values.

use std::time::Duration;

use getopt::{EarlyExit, check_range, refuse};

use super::settings::{RecordKind, RecordRequest, SearchSettings};
use crate::wire::Binning;

/// The maximum gap, pause or test duration, in seconds.
const MAX_SECONDS: f64 = 86_400.0;

/// The maximum number of items in a list, and of tests in a sweep.
pub(super) const MAX_TESTS: usize = 100_000;

/// The maximum number of records per test. Stock counts their bytes in 32 bits, and the largest
/// record has 32 bytes.
const MAX_RECORDS: i64 = (u32::MAX / 32) as i64;

/// Parses a decimal integer in this range.
pub(super) fn integer<T: TryFrom<i64>>(
    text: &str,
    range: std::ops::RangeInclusive<i64>,
) -> Result<T, EarlyExit> {
    check_range(text, text.parse().ok(), range)
}

/// Parses a hexadecimal number up to `max`, with or without `0x`.
pub(super) fn hexadecimal(text: &str, max: u64) -> Result<u64, EarlyExit> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    match u64::from_str_radix(digits, 16) {
        Ok(number) if !digits.starts_with('+') && number <= max => Ok(number),
        Ok(_) => refuse(format!("not a hexadecimal number up to {max:x}")),
        Err(_) => refuse("not a hexadecimal number"),
    }
}

/// Parses a mask of at least one CPU.
pub(super) fn mask(text: &str) -> Result<u64, EarlyExit> {
    match hexadecimal(text, u64::MAX)? {
        0 => refuse("the mask has no CPU"),
        mask => Ok(mask),
    }
}

/// Parses a decimal number that is not negative.
pub(super) fn number(text: &str) -> Result<f64, EarlyExit> {
    let is_decimal = |text: &&str| text.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    match Some(text)
        .filter(is_decimal)
        .and_then(|text| text.parse().ok())
    {
        Some(number) => Ok(number),
        None => refuse("not a non-negative number"),
    }
}

/// Parses microseconds, with a resolution of 1 ns.
pub(super) fn micros(text: &str) -> Result<Duration, EarlyExit> {
    duration(number(text)?, 1e6)
}

/// Parses seconds, greater than 0.
pub(super) fn seconds(text: &str) -> Result<Duration, EarlyExit> {
    let time = duration(number(text)?, 1.0)?;
    if time.is_zero() {
        return refuse("the time must not be 0");
    }
    Ok(time)
}

/// Returns the duration of `number` units; at most a day.
fn duration(number: f64, units_per_second: f64) -> Result<Duration, EarlyExit> {
    if number > MAX_SECONDS * units_per_second {
        return refuse("longer than a day");
    }
    let nanos = (number * (1e9 / units_per_second)).round();
    Ok(Duration::from_nanos(nanos as u64))
}

/// Parses a rate in Mbit/s. Returns bits per second.
pub(super) fn megabits(text: &str) -> Result<f64, EarlyExit> {
    match number(text)? {
        rate if (0.001..=1e6).contains(&rate) => Ok(rate * 1e6),
        _ => refuse("not a rate from 0.001 to 1000000 Mbit/s"),
    }
}

/// Parses a size in bytes with an optional suffix K, M or G.
pub(super) fn bytes(text: &str, range: std::ops::RangeInclusive<i64>) -> Result<u64, EarlyExit> {
    check_range(text, units::parse_netperf_size(text), range)
}

/// Parses a percentage. Returns a fraction of 1.
pub(super) fn percent(text: &str, min: f64) -> Result<f64, EarlyExit> {
    let digits = text.strip_suffix('%').unwrap_or(text);
    match number(digits)? {
        percent if (min..=50.0).contains(&percent) => Ok(percent / 100.0),
        _ => refuse(format!("not from {min} to 50 per cent")),
    }
}

/// Parses `[skip:]n` of `-G` and `-L`.
pub(super) fn records(text: &str, kind: RecordKind) -> Result<RecordRequest, EarlyExit> {
    let (skip, count) = text.split_once(':').unwrap_or(("0", text));
    Ok(RecordRequest {
        kind,
        skip: integer(skip, 0..=i64::from(u32::MAX))?,
        count: integer(count, 1..=MAX_RECORDS)?,
    })
}

/// Parses `LOW:HIGH` of `--search` in Mbit/s, and sets the bounds. Either bound may be empty.
pub(super) fn set_rate_bounds(text: &str, search: &mut SearchSettings) -> Result<(), EarlyExit> {
    let Some((low, high)) = text.split_once(':') else {
        return refuse("not LOW:HIGH in Mbit/s");
    };
    let bound = |text: &str| (!text.is_empty()).then(|| megabits(text)).transpose();
    (search.low, search.high) = (bound(low)?, bound(high)?);
    match (search.low, search.high) {
        (Some(low), Some(high)) if low >= high => refuse("LOW is not below HIGH"),
        _ => Ok(()),
    }
}

/// Parses a comma-separated list of numbers and ranges `first:last:step`. `parse_number` parses
/// each number.
pub(super) fn list<T: Copy + PartialOrd + std::ops::Add<Output = T> + Default>(
    text: &str,
    parse_number: impl Fn(&str) -> Result<T, EarlyExit>,
) -> Result<Vec<T>, EarlyExit> {
    let mut numbers = Vec::new();
    for item in text.split(',') {
        match item.split(':').collect::<Vec<_>>()[..] {
            [number] => numbers.push(parse_number(number)?),
            [first, last, step] => numbers.extend(numbers_from_to(
                parse_number(first)?,
                parse_number(last)?,
                parse_number(step)?,
            )?),
            _ => return refuse("not a list of numbers and of ranges FIRST:LAST:STEP"),
        }
        if numbers.len() > MAX_TESTS {
            return refuse(format!("more than {MAX_TESTS} tests"));
        }
    }
    Ok(numbers)
}

/// Returns the numbers from `first` to `last` with this step; only `first` if `last` is below it.
pub(super) fn numbers_from_to<T: Copy + PartialOrd + std::ops::Add<Output = T> + Default>(
    first: T,
    last: T,
    step: T,
) -> Result<Vec<T>, EarlyExit> {
    if first < last && step <= T::default() {
        return refuse("a step of 0 never reaches the end");
    }
    let mut numbers = vec![first];
    let mut next = first + step;
    while next > first && next <= last {
        if numbers.len() == MAX_TESTS {
            return refuse(format!("more than {MAX_TESTS} tests"));
        }
        numbers.push(next);
        next = next + step;
    }
    Ok(numbers)
}

/// Sets the low edge of a histogram.
pub(super) fn set_low_edge(bins: &mut Binning, text: &str) -> Result<(), EarlyExit> {
    bins.low = integer(text, 0..=i64::from(i32::MAX))?;
    Ok(())
}

/// Sets the bin width of a histogram.
pub(super) fn set_bin_width(bins: &mut Binning, text: &str) -> Result<(), EarlyExit> {
    bins.width = integer(text, 1..=i64::from(i32::MAX))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_numbers_and_ranges() {
        let size = |text: &str| integer::<u32>(text, 16..=65507);
        for (text, expected) in [
            ("1400", Some(vec![1400])),
            ("100,50", Some(vec![100, 50])),
            ("64:192:64,20", Some(vec![64, 128, 192, 20])),
            ("64:100:64", Some(vec![64])),
            ("64:32:64", Some(vec![64])),
            ("", None),
            ("64:128", None),
            ("100,", None),
            ("16:1:0", None),
        ] {
            assert_eq!(list(text, size).ok(), expected, "{text}");
        }
        let gaps = list("0:0.4:0.1,20", micros).unwrap();
        let nanos: Vec<_> = gaps.iter().map(Duration::as_nanos).collect();
        assert_eq!(nanos, [0, 100, 200, 300, 400, 20_000]);
        assert!(list("0:1:0", micros).is_err());
        assert!(list("0:86400000000:0.001", micros).is_err());
    }

    #[test]
    fn numbers_are_checked() {
        assert_eq!(hexadecimal("b8", 255).ok(), Some(0xb8));
        assert_eq!(hexadecimal("0xb8", 255).ok(), Some(0xb8));
        for text in ["100", "g", "", "-1", "+1"] {
            assert!(hexadecimal(text, 255).is_err(), "{text}");
        }
        for text in ["-1", "inf", "nan", "1e3", "", "1.2.3"] {
            assert!(number(text).is_err(), "{text}");
        }
        assert_eq!(micros("37.3").unwrap().as_nanos(), 37_300);
        assert_eq!(percent("0.5%", 0.0).ok(), Some(0.005));
        let records = records("2:10", RecordKind::All).unwrap();
        assert_eq!((records.skip, records.count, records.bytes()), (2, 10, 320));
        let mut search = SearchSettings::default();
        set_rate_bounds(":100", &mut search).unwrap();
        assert_eq!((search.low, search.high), (None, Some(1e8)));
        for text in ["", "100", "100:100", "x:", "0:1"] {
            assert!(set_rate_bounds(text, &mut search).is_err(), "{text}");
        }
    }
}
