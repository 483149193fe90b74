//! Go's durations.

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

#[cfg(test)]
mod tests {
    use super::*;

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
