//! Two outputs compared with their figures masked.
//!
//! A figure is a word that is a number. A word ends at a blank, a comma, an equals sign, a quote or
//! a line's end, so `10^6bits/sec`, `127.0.0.1` and `AF_INET6` are text.

use std::fmt;

/// What stands for a figure.
const MASK: &str = "#";

/// A line that the stock client prints on a busy machine, when its timer's signal comes a second time.
const SECOND_SIGNAL: &str = "catcher: timer popped with times_up != 0";

/// The first line in which two outputs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Counted from 1.
    pub line: usize,
    /// Of the output under test; `None` when it has ended.
    pub ours: Option<String>,
    /// Of the control.
    pub control: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            ours,
            control,
        } = self;
        write!(f, "line {line}: {ours:?}, control {control:?}")
    }
}

/// Compares two outputs with their figures masked.
///
/// A table's columns move with the width of its figures. So in a paragraph whose figures are as
/// wide in both outputs every blank counts, trailing ones too; in others any run of blanks is one.
/// What the stock client says by chance ("timer popped") is passed over.
pub fn same_text(ours: &str, control: &str) -> Result<(), Difference> {
    let lines = |text| -> Vec<&str> {
        let lines = str::split(text, '\n');
        lines.filter(|line| *line != SECOND_SIGNAL).collect()
    };
    let (ours, control) = (lines(ours), lines(control));
    let mut start = 0;
    while start < ours.len().max(control.len()) {
        let end = start + paragraph(&ours[start.min(ours.len())..]).max(1);
        let exact = (start..end).all(|at| {
            let widths = |lines: &[&str]| lines.get(at).map(|line| figure_widths(line));
            widths(&ours) == widths(&control)
        });
        for at in start..end {
            let (a, b) = (ours.get(at).copied(), control.get(at).copied());
            if a.map(|line| masked(line, exact)) != b.map(|line| masked(line, exact)) {
                return Err(Difference {
                    line: at + 1,
                    ours: a.map(str::to_owned),
                    control: b.map(str::to_owned),
                });
            }
        }
        start = end;
    }
    Ok(())
}

/// The figures of a text, in order.
pub fn figures(text: &str) -> Vec<f64> {
    words(text)
        .filter(|word| is_figure(word))
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// The `KEY=value` lines of a text, in order.
pub fn keyvals(text: &str) -> Vec<(&str, &str)> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .collect()
}

/// How many lines there are up to the first empty one, and with it.
fn paragraph(lines: &[&str]) -> usize {
    lines
        .iter()
        .position(|line| line.is_empty())
        .map_or(lines.len(), |at| at + 1)
}

fn figure_widths(line: &str) -> Vec<usize> {
    words(line)
        .filter(|word| is_figure(word))
        .map(str::len)
        .collect()
}

/// The line with its figures masked, digit by digit if `exact`, else with runs of blanks as one.
fn masked(line: &str, exact: bool) -> String {
    let mut text = String::new();
    for word in words(line) {
        match (is_figure(word), exact) {
            (true, true) => text.extend(word.chars().map(|_| '#')),
            (true, false) => text.push_str(MASK),
            (false, _) => text.push_str(word),
        }
    }
    if exact {
        return text;
    }
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// A line cut before and after each separator.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_inclusive(separates)
        .flat_map(|word| match word.char_indices().next_back() {
            Some((at, last)) if separates(last) => [&word[..at], &word[at..]],
            _ => [word, ""],
        })
        .filter(|word| !word.is_empty())
}

fn separates(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\n' | ',' | '=' | '"')
}

/// Whether printf(3) could have made it of a number. `nan` and `inf` are: the original prints them
/// for what it did not measure.
fn is_figure(word: &str) -> bool {
    let unsigned = word.strip_prefix('-').unwrap_or(word);
    matches!(unsigned, "nan" | "inf")
        || (unsigned.starts_with(|char: char| char.is_ascii_digit())
            && unsigned.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_pops_twice_is_chance() {
        let said = format!("MIGRATED\n{SECOND_SIGNAL}\n1\n");
        assert_eq!(same_text(&said, "MIGRATED\n2\n"), Ok(()));
        assert!(same_text("MIGRATED\ntimer\n1\n", "MIGRATED\n2\n").is_err());
    }

    #[test]
    fn what_a_figure_is() {
        for (text, expected) in [
            ("131072  16384  16384    0.00     9411.85   ", "# # # # #"),
            ("LOCAL_BYTES_SENT=10", "LOCAL_BYTES_SENT=#"),
            ("-1,-nan,3.3e+08,TCP", "#,#,#,TCP"),
            (
                "10^6bits/sec 127.0.0.1 AF_INET6 2x",
                "10^6bits/sec 127.0.0.1 AF_INET6 2x",
            ),
        ] {
            assert_eq!(masked(text, false), expected);
        }
    }

    #[test]
    fn blanks_count_where_the_figures_are_as_wide() {
        for (ours, control, same) in [
            ("  1.00   2  ", "  3.00   4  ", true),
            ("  1.00   2  ", "  3.00   4 ", false),
            ("  1.00   2  ", "  3.00  4  ", false),
            (" 10.00   2  ", "  3.00   4  ", true),
            (" 10.00   2  ", "  3.00   4 ", true),
            (" 10.00 x 2  ", "  3.00   4 ", false),
            ("title \n\n 10\n", "title \n\n1\n", true),
            ("title\n\n 10\n", "title \n\n1\n", false),
            ("1\n", "1\n2\n", false),
        ] {
            assert_eq!(
                same_text(ours, control).is_ok(),
                same,
                "{ours:?} {control:?}"
            );
        }
    }

    #[test]
    fn figures_by_position_and_by_key() {
        assert_eq!(figures("a 1 x2 -3.5\n4"), [1.0, -3.5, 4.0]);
        assert_eq!(keyvals("BANNER\nA=1\nB=x=y\n"), [("A", "1"), ("B", "x=y")]);
    }
}
