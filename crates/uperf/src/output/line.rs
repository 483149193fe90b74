//! Sample lines, for people and for programs, and the rule (line of dashes).

use std::time::{SystemTime, UNIX_EPOCH};

use model::CombinedTotals;

use super::number::{bytes, rate};

/// Content of a line about a transaction, a group, a strand or the total.
#[derive(Clone, Copy, Debug)]
pub struct SampleLine<'a> {
    /// Name of the item.
    pub name: &'a str,
    /// Counts and elapsed time.
    pub totals: CombinedTotals,
    /// Wall-clock time at the end of the elapsed time.
    pub ended: SystemTime,
}

/// Width of the output, in columns.
///
/// This is the terminal's width, at most 128; 80 without a terminal or if its width is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width(usize);

impl Width {
    /// Returns the width for a terminal with `columns` columns; `None` means no terminal.
    pub fn for_terminal(columns: Option<u16>) -> Self {
        match columns {
            None | Some(0) => Self(80),
            Some(columns) => Self(usize::from(columns.min(128))),
        }
    }

    /// Returns a line of dashes, one shorter than the width.
    pub fn rule(self) -> String {
        "-".repeat(self.0 - 1) + "\n"
    }

    /// Returns the text that clears the current line of the terminal.
    pub(super) fn clear_line(self) -> String {
        format!("\r{}\r", " ".repeat(self.0 - 1))
    }
}

/// Formats a sample for people, without a line end.
pub(super) fn summary(sample: &SampleLine<'_>) -> String {
    let totals = &sample.totals;
    let name = printable_line(sample.name);
    let bytes = bytes(totals.bytes.0, 8);
    let seconds = totals.elapsed.as_secs_f64();
    let rate = rate(totals.bits_per_second(), 12);
    let operations = totals.operations_per_second();
    format!("{name:<8.8} {bytes}/{seconds:7.2}(s) = {rate} {operations:10.0}op/s ")
}

/// Formats a sample for programs (`-R`), with its line end. The time stamp is in milliseconds.
pub(super) fn raw(sample: &SampleLine<'_>) -> String {
    let since_epoch = sample.ended.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (milliseconds, remaining_ns) = (
        since_epoch.as_millis(),
        since_epoch.subsec_nanos() % 1_000_000,
    );
    let name = printable_line(sample.name);
    let totals = &sample.totals;
    format!(
        "timestamp_ms:{milliseconds}.{:04} name:{name} nr_bytes:{} nr_ops:{}\n",
        remaining_ns / 100,
        totals.bytes.0,
        totals.operations
    )
}

/// Formats one line of a section.
pub(super) fn section_line(is_raw: bool, sample: &SampleLine<'_>) -> String {
    if is_raw {
        raw(sample)
    } else {
        summary(sample) + "\n"
    }
}

/// Replaces control characters, so that a name from a profile or peer stays on its line.
pub(super) fn printable_line(name: &str) -> String {
    name.chars().map(printable_char).collect()
}

/// Replaces control characters other than line ends.
pub(super) fn printable_lines(text: &str) -> String {
    let shown = |c| if c == '\n' { c } else { printable_char(c) };
    text.chars().map(shown).collect()
}

fn printable_char(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use units::Bytes;

    #[test]
    fn the_width_is_that_of_the_terminal_within_limits() {
        for (columns, dashes) in [
            (None, 79),
            (Some(0), 79),
            (Some(1), 0),
            (Some(80), 79),
            (Some(100), 99),
            (Some(128), 127),
            (Some(200), 127),
        ] {
            assert_eq!(
                Width::for_terminal(columns).rule().len(),
                dashes + 1,
                "{columns:?}"
            );
        }
        assert_eq!(Width::for_terminal(Some(5)).clear_line(), "\r    \r");
    }

    #[test]
    fn samples_are_formatted_for_people_and_programs() {
        let mut sample = SampleLine {
            name: "Txn2",
            totals: CombinedTotals {
                bytes: Bytes(30),
                operations: 3,
                failed_operations: 0,
                elapsed: Duration::from_millis(500),
            },
            ended: UNIX_EPOCH + Duration::from_nanos(1_795_211_141_197_884_399),
        };
        assert_eq!(
            summary(&sample),
            "Txn2       30.00B /   0.50(s) =    480.00b/s           6op/s "
        );
        assert_eq!(
            raw(&sample),
            "timestamp_ms:1795211141197.8843 name:Txn2 nr_bytes:30 nr_ops:3\n"
        );
        // A name cannot forge another line.
        sample.name = "two\nlines, long";
        assert!(summary(&sample).starts_with("two line   30.00B "));
        assert!(raw(&sample).contains(" name:two lines, long nr_bytes"));
        sample.ended = UNIX_EPOCH - Duration::from_secs(1);
        assert!(raw(&sample).starts_with("timestamp_ms:0.0000 "));
    }
}
