//! Formats of figures and texts for the HTML page.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Escapes the special characters of HTML and replaces control characters with spaces.
pub(crate) fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(c),
            // HTML does not allow control characters.
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Formats a value with three significant digits and a decimal prefix.
pub(super) fn format_amount(value: f64, unit: &str) -> String {
    let (mut value, mut prefix) = (value, "");
    for next_prefix in ["k", "M", "G", "T", "P", "E"] {
        // Values that would round to 1000 get the next prefix.
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        prefix = next_prefix;
    }
    format!("{} {prefix}{unit}", format_digits(value))
}

/// Formats a percentage.
pub(super) fn format_percent(percent: f64) -> String {
    format!("{} %", format_digits(percent))
}

/// Formats a duration with three significant digits.
pub(super) fn format_duration(time: Duration) -> String {
    format_nanoseconds(time.as_nanos() as f64)
}

/// Formats a duration in nanoseconds, which may have a fraction, with three significant digits.
pub(crate) fn format_nanoseconds(nanoseconds: f64) -> String {
    let (mut value, mut unit) = (nanoseconds, "ns");
    for next_unit in ["µs", "ms", "s"] {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = next_unit;
    }
    format!("{} {unit}", format_digits(value))
}

/// Formats the date and time of day, UTC.
pub(super) fn format_utc(time: SystemTime) -> String {
    let seconds_since_1970 = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let (days, seconds) = (seconds_since_1970 / 86_400, seconds_since_1970 % 86_400);
    let (year, month, day) = calendar_date(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Converts days since 1970-01-01 to year, month and day. Internally, years start on March 1, so
/// that a leap day is the last day of a year.
fn calendar_date(days: u64) -> (u64, u64, u64) {
    const ERA: u64 = 146_097; // 400 years
    let days = days + 719_468;
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, year_offset) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (400 * era + year + year_offset, month, day)
}

fn format_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let decimals = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_significant_digits() {
        for (value, text) in [
            (0.0, "0 bit/s"),
            (1.0, "1.00 bit/s"),
            (9.996, "10.0 bit/s"),
            (999.4, "999 bit/s"),
            (999.6, "1.00 kbit/s"),
            (46_850_000.0, "46.9 Mbit/s"),
            (1e21, "1000 Ebit/s"),
        ] {
            assert_eq!(format_amount(value, "bit/s"), text);
        }
        assert_eq!(format_nanoseconds(781.0), "781 ns");
        assert_eq!(format_nanoseconds(13_670.0), "13.7 µs");
        assert_eq!(format_duration(Duration::from_secs(3600)), "3600 s");
    }

    #[test]
    fn texts_are_escaped() {
        assert_eq!(
            escape_html("<a href=\"x\">'&\u{1b}\n"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp; \n"
        );
    }

    /// The expected texts are from `date -u -d @N`.
    #[test]
    fn dates_are_correct() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_799, "2000-02-29 23:59:59 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
            (1_795_209_459, "2026-11-20 21:17:39 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(format_utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
