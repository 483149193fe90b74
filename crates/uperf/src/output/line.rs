//! Lines of every kind: the rule, and what a sample says, for people and for programs.

use std::time::{SystemTime, UNIX_EPOCH};

use model::CombinedTotals;

use super::number::{bytes, rate};

/// What a line says of a transaction that runs, a group, a strand, or the whole.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// What it is of.
    pub name: &'a str,
    /// So much.
    pub totals: CombinedTotals,
    /// When its time ended, by the wall clock.
    pub ended: SystemTime,
}

/// How wide the output is, in columns: the terminal's width, at most 128, and 80 where there is no
/// terminal or it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Width(usize);

impl Width {
    /// Of a terminal with so many columns; `None` is no terminal.
    pub fn of(columns: Option<u16>) -> Self {
        match columns {
            None | Some(0) => Self(80),
            Some(columns) => Self(usize::from(columns.min(128))),
        }
    }

    /// A line of dashes, one less than there are columns.
    pub fn rule(self) -> String {
        "-".repeat(self.0 - 1) + "\n"
    }

    /// What makes room for a line where another one stands.
    pub(super) fn wiped(self) -> String {
        format!("\r{}\r", " ".repeat(self.0 - 1))
    }
}

/// A sample for people, without a line end (spec section 6.2).
pub(super) fn summary(sample: &Sample<'_>) -> String {
    let totals = &sample.totals;
    let name = printable(sample.name);
    let bytes = bytes(totals.bytes.0, 8);
    let seconds = totals.elapsed.as_secs_f64();
    let rate = rate(totals.bits_per_second(), 12);
    let operations = totals.operations_per_second();
    format!("{name:<8.8} {bytes}/{seconds:7.2}(s) = {rate} {operations:10.0}op/s ")
}

/// A sample for programs (`-R`), with its line end. The time stamp is in milliseconds.
pub(super) fn raw(sample: &Sample<'_>) -> String {
    let since = sample.ended.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (milliseconds, rest) = (since.as_millis(), since.subsec_nanos() % 1_000_000);
    let name = printable(sample.name);
    let totals = &sample.totals;
    format!(
        "timestamp_ms:{milliseconds}.{:04} name:{name} nr_bytes:{} nr_ops:{}\n",
        rest / 100,
        totals.bytes.0,
        totals.operations
    )
}

/// One line of a section.
pub(super) fn section_line(is_raw: bool, sample: &Sample<'_>) -> String {
    if is_raw {
        raw(sample)
    } else {
        summary(sample) + "\n"
    }
}

/// A name that stays in its line, whatever a profile or a peer has in it.
pub(super) fn printable(name: &str) -> String {
    name.chars().map(shown).collect()
}

/// A text of several lines that moves nothing on the terminal.
pub(super) fn printable_lines(text: &str) -> String {
    let shown = |c| if c == '\n' { c } else { shown(c) };
    text.chars().map(shown).collect()
}

fn shown(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use units::Bytes;

    #[test]
    fn the_width_is_the_terminals_within_bounds() {
        for (columns, dashes) in [
            (None, 79),
            (Some(0), 79),
            (Some(1), 0),
            (Some(80), 79),
            (Some(100), 99),
            (Some(128), 127),
            (Some(200), 127),
        ] {
            assert_eq!(Width::of(columns).rule().len(), dashes + 1, "{columns:?}");
        }
        assert_eq!(Width::of(Some(5)).wiped(), "\r    \r");
    }

    #[test]
    fn a_sample_in_both_forms() {
        let mut sample = Sample {
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
        // No line of another kind can be made of a name.
        sample.name = "two\nlines, long";
        assert!(summary(&sample).starts_with("two line   30.00B "));
        assert!(raw(&sample).contains(" name:two lines, long nr_bytes"));
        sample.ended = UNIX_EPOCH - Duration::from_secs(1);
        assert!(raw(&sample).starts_with("timestamp_ms:0.0000 "));
    }
}
