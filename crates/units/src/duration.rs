//! Durations: those of linerate's own options, and Go's.

use std::time::Duration;

/// Parses a duration as Go's `time.Duration` prints it: `10s`, `1m0s`, `1h0m0s`, `1.5s`, `200ms`.
///
/// Go programs pass such text to measurement tools. Returns `None` for any other text and for a
/// duration that is not positive. Each number needs a unit, so `10` is not a duration.
pub fn parse_go_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let term = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(term)?;
        rest = tail;
    }
    (!total.is_zero()).then_some(total)
}

/// Parses a duration of linerate's own options: seconds, such as `90` or `0.5`, or numbers with
/// units, such as `1m30s`. Unlike the stock tools' parsers, it refuses any other text. The error is
/// a phrase that names the units.
pub fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    const EXPECTED: &str =
        "not a duration: use seconds, or numbers with h, m, s, ms, us or ns, such as 1m30s";
    let is_number = |text: &str| {
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        digits(whole) && digits(fraction)
    };
    let seconds = text.strip_suffix('s').unwrap_or(text);
    if is_number(seconds) {
        let seconds = seconds.parse().ok();
        return seconds
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .ok_or(EXPECTED);
    }
    parse_go_duration(text).ok_or(EXPECTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_own_options_are_strict() {
        for (text, millis) in [
            ("10", 10_000),
            ("0", 0),
            ("0s", 0),
            ("0.5", 500),
            ("1m30s", 90_000),
            ("200ms", 200),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)));
        }
        for text in [
            "",
            "10x",
            "3d",
            "1K",
            "-5",
            "+5",
            "1e3",
            "inf",
            ".5",
            "5.",
            "10 s",
            "s",
            "10S",
            "0x10",
            "1m30",
            "99999999999999999999999999",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn go_durations_are_parsed() {
        for (text, millis) in [
            ("10s", Some(10_000)),
            ("1m0s", Some(60_000)),
            ("1h0m0s", Some(3_600_000)),
            ("1h2m3s", Some(3_723_000)),
            ("1.5s", Some(1_500)),
            ("200ms", Some(200)),
            ("10", None),
            ("", None),
            ("s", None),
            ("0s", None),
            ("10m", Some(600_000)),
            ("10S", None),
            ("-10s", None),
            ("10s5", None),
            ("1..5s", None),
            ("99999999999999999999999h", None),
        ] {
            assert_eq!(
                parse_go_duration(text),
                millis.map(Duration::from_millis),
                "{text}"
            );
        }
    }
}
