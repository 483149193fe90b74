//! Formats numbers right-aligned in a column, followed by a blank.

use std::time::Duration;

/// Formats bytes in units of 1024, cut to one character less than the column.
///
/// In a column of 8, 249.18 MB is `249.18M`.
pub(super) fn bytes(bytes: u64, width: usize) -> String {
    align_truncated(&full_size(bytes), width)
}

/// Formats bytes in units of 1024, without column or cut.
pub(crate) fn full_size(bytes: u64) -> String {
    const UNITS: [&str; 8] = ["B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB"];
    format_scaled(bytes as f64, 1024.0, &UNITS)
}

/// Formats bits per second in units of 1000, cut as in [`bytes`].
pub(super) fn rate(bits: f64, width: usize) -> String {
    const UNITS: [&str; 8] = [
        "b/s", "Kb/s", "Mb/s", "Gb/s", "Tb/s", "Pb/s", "Eb/s", "Zb/s",
    ];
    align_truncated(&format_scaled(bits, 1000.0, &UNITS), width)
}

/// Formats a duration in ns, us, ms or s.
pub(super) fn time(time: Duration, width: usize) -> String {
    nanoseconds(time.as_nanos() as f64, width)
}

/// Like [`time`], for a number of nanoseconds that may have a fraction, such as a mean.
pub(super) fn nanoseconds(nanoseconds: f64, width: usize) -> String {
    let mut value = nanoseconds;
    let mut unit = "ns";
    for larger in ["us", "ms", "s"] {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    align(&format!("{value:.2}{unit}"), width)
}

/// Aligns a text right in a column.
pub(super) fn align(text: &str, width: usize) -> String {
    format!("{text:>width$} ")
}

fn align_truncated(number: &str, width: usize) -> String {
    align(&number[..number.len().min(width - 1)], width)
}

fn format_scaled(value: f64, base: f64, units: &[&str]) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let (mut value, mut unit) = (value, 0);
    while value > base && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    format!("{value:.2}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_cut_to_their_column() {
        for (value, width, text) in [
            (0, 8, "       0 "),
            (1, 8, "   1.00B "),
            (90, 8, "  90.00B "),
            (1024, 8, " 1024.00 "),
            (1025, 8, "  1.00KB "),
            (6400, 8, "  6.25KB "),
            (12_897_485, 8, " 12.30MB "),
            (131_072, 8, " 128.00K "),
            (912_000, 8, " 890.62K "),
            (261_284_168, 8, " 249.18M "),
            (4_348_654_387, 8, "  4.05GB "),
            (131_072, 10, "  128.00KB "),
            (912_000, 10, "  890.62KB "),
            (1_048_576, 10, " 1024.00KB "),
            (168_820_736, 10, "  161.00MB "),
            (u64::MAX, 8, " 16.00EB "),
        ] {
            assert_eq!(bytes(value, width), text, "{value}");
        }
    }

    #[test]
    fn rates_have_units_of_a_thousand() {
        for (value, width, text) in [
            (0.0, 12, "           0 "),
            (0.001, 12, "     0.00b/s "),
            (773.11, 12, "   773.11b/s "),
            (1000.0, 12, "  1000.00b/s "),
            (3590.0, 12, "    3.59Kb/s "),
            (46_850_000.0, 12, "   46.85Mb/s "),
            (588_960_000.0, 12, "  588.96Mb/s "),
            (15.79e9, 12, "   15.79Gb/s "),
            (721_200.0, 11, " 721.20Kb/s "),
            (8.34e9, 11, "   8.34Gb/s "),
            (999_999.9, 11, " 1000.00Kb/ "),
            (1e30, 12, " 1000000000. "),
        ] {
            assert_eq!(rate(value, width), text, "{value}");
        }
    }

    #[test]
    fn times_end_at_seconds() {
        for (value, width, text) in [
            (0, 11, "     0.00ns "),
            (791, 11, "   791.00ns "),
            (999, 11, "   999.00ns "),
            (1000, 11, "     1.00us "),
            (188_740, 11, "   188.74us "),
            (4_010_000, 11, "     4.01ms "),
            (243_450_000, 8, "243.45ms "),
            (1_600_000_000, 8, "   1.60s "),
            (3_600_000_000_000, 8, "3600.00s "),
        ] {
            assert_eq!(time(Duration::from_nanos(value), width), text, "{value}");
        }
    }
}
