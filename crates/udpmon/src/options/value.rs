//! Values of options.

use std::time::Duration;

use getopt::{Quit, refuse, within};

use super::settings::{RecordKind, RecordsWanted, Search};
use crate::wire::Binning;

/// The maximum gap, pause or test duration, in seconds.
const LONGEST: f64 = 86_400.0;

/// The maximum number of items in a list, and of tests in a sweep of gaps.
pub(super) const MOST_STEPS: usize = 100_000;

/// The maximum number of records. Stock counts their bytes in 32 bits, and the largest record has 32 bytes.
const MOST_RECORDS: i64 = (u32::MAX / 32) as i64;

/// A decimal number in this range.
pub(super) fn whole<T: TryFrom<i64>>(
    text: &str,
    range: std::ops::RangeInclusive<i64>,
) -> Result<T, Quit> {
    within(text, text.parse().ok(), range)
}

/// A hexadecimal number, with or without `0x`, up to `most`.
pub(super) fn hexadecimal(text: &str, most: u64) -> Result<u64, Quit> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    match u64::from_str_radix(digits, 16) {
        Ok(number) if !digits.starts_with('+') && number <= most => Ok(number),
        Ok(_) => refuse(format!("not a hexadecimal number up to {most:x}")),
        Err(_) => refuse("not a hexadecimal number"),
    }
}

/// Parses a mask of at least one CPU.
pub(super) fn mask(text: &str) -> Result<u64, Quit> {
    match hexadecimal(text, u64::MAX)? {
        0 => refuse("the mask has no CPU"),
        mask => Ok(mask),
    }
}

/// A decimal number from 0 on.
pub(super) fn number(text: &str) -> Result<f64, Quit> {
    let plain = |text: &&str| text.bytes().all(|c| c.is_ascii_digit() || c == b'.');
    match Some(text).filter(plain).and_then(|text| text.parse().ok()) {
        Some(number) => Ok(number),
        None => refuse("not a number from 0 on"),
    }
}

/// Microseconds, kept to a nanosecond.
pub(super) fn micros(text: &str) -> Result<Duration, Quit> {
    of_seconds(number(text)?, 1e6)
}

/// Seconds, not 0.
pub(super) fn seconds(text: &str) -> Result<Duration, Quit> {
    let time = of_seconds(number(text)?, 1.0)?;
    if time.is_zero() {
        return refuse("the time must not be 0");
    }
    Ok(time)
}

fn of_seconds(number: f64, per_second: f64) -> Result<Duration, Quit> {
    if number > LONGEST * per_second {
        return refuse("longer than a day");
    }
    let nanos = (number * (1e9 / per_second)).round();
    Ok(Duration::from_nanos(nanos as u64))
}

/// A rate in Mbit/s, as bits per second.
pub(super) fn megabits(text: &str) -> Result<f64, Quit> {
    match number(text)? {
        rate if (0.001..=1e6).contains(&rate) => Ok(rate * 1e6),
        _ => refuse("not a rate from 0.001 to 1000000 Mbit/s"),
    }
}

/// A size in bytes with a suffix K, M or G.
pub(super) fn bytes(text: &str, range: std::ops::RangeInclusive<i64>) -> Result<u64, Quit> {
    within(text, units::netperf_size(text), range)
}

/// Parses a percentage. Returns a fraction of 1.
pub(super) fn percent(text: &str, least: f64) -> Result<f64, Quit> {
    let digits = text.strip_suffix('%').unwrap_or(text);
    match number(digits)? {
        percent if (least..=50.0).contains(&percent) => Ok(percent / 100.0),
        _ => refuse(format!("not from {least} to 50 per cent")),
    }
}

/// `[skip:]n` of records.
pub(super) fn records(text: &str, kind: RecordKind) -> Result<RecordsWanted, Quit> {
    let (skip, count) = text.split_once(':').unwrap_or(("0", text));
    Ok(RecordsWanted {
        kind,
        skip: whole(skip, 0..=i64::from(u32::MAX))?,
        count: whole(count, 1..=MOST_RECORDS)?,
    })
}

/// `LOW:HIGH` of a search, in Mbit/s; either may be left out.
pub(super) fn rates(text: &str, search: &mut Search) -> Result<(), Quit> {
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

/// Parses a comma-separated list of numbers and ranges `first:last:step`. `number` parses each number.
pub(super) fn list<T: Copy + PartialOrd + std::ops::Add<Output = T> + Default>(
    text: &str,
    number: impl Fn(&str) -> Result<T, Quit>,
) -> Result<Vec<T>, Quit> {
    let mut all = Vec::new();
    for item in text.split(',') {
        match item.split(':').collect::<Vec<_>>()[..] {
            [one] => all.push(number(one)?),
            [first, last, step] => all.extend(steps(number(first)?, number(last)?, number(step)?)?),
            _ => return refuse("not a list of numbers and of ranges FIRST:LAST:STEP"),
        }
        if all.len() > MOST_STEPS {
            return refuse(format!("more than {MOST_STEPS} tests"));
        }
    }
    Ok(all)
}

/// Returns the numbers from `first` to `last`; only `first` if `last` is below it.
pub(super) fn steps<T: Copy + PartialOrd + std::ops::Add<Output = T> + Default>(
    first: T,
    last: T,
    step: T,
) -> Result<Vec<T>, Quit> {
    if first < last && step <= T::default() {
        return refuse("a step of 0 never reaches the end");
    }
    let mut all = vec![first];
    let mut next = first + step;
    while next > first && next <= last {
        if all.len() == MOST_STEPS {
            return refuse(format!("more than {MOST_STEPS} tests"));
        }
        all.push(next);
        next = next + step;
    }
    Ok(all)
}

/// The low edge of a histogram.
pub(super) fn low(bins: &mut Binning, text: &str) -> Result<(), Quit> {
    bins.low = whole(text, 0..=i64::from(i32::MAX))?;
    Ok(())
}

/// The width of a histogram's bins.
pub(super) fn width(bins: &mut Binning, text: &str) -> Result<(), Quit> {
    bins.width = whole(text, 1..=i64::from(i32::MAX))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_numbers_and_ranges() {
        let size = |text: &str| whole::<u32>(text, 16..=65507);
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
        let mut search = Search::default();
        rates(":100", &mut search).unwrap();
        assert_eq!((search.low, search.high), (None, Some(1e8)));
        for text in ["", "100", "100:100", "x:", "0:1"] {
            assert!(rates(text, &mut search).is_err(), "{text}");
        }
    }
}
