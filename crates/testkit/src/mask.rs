//! Comparison of two outputs with their figures masked.
//!
//! A figure is a word that is a number. Words end at a blank, a comma, an equals sign, a quote or
//! the end of a line. So `10^6bits/sec`, `127.0.0.1` and `AF_INET6` are text.

use std::fmt;

/// Replacement of a figure.
const MASK: &str = "#";

/// Line that stock netperf prints if its timer signal arrives twice, as on a busy machine.
const SECOND_SIGNAL_LINE: &str = "catcher: timer popped with times_up != 0";

/// Parts of linerate's warnings about a missed and an uneven pace, which a busy machine may cause.
const PACE_WARNINGS: [&str; 2] = [
    ": this host fell behind its schedule",
    ": the pace of this host",
];

/// The first line in which two outputs differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Line number, from 1.
    pub line: usize,
    /// Line of the output under test; `None` if the output is shorter.
    pub ours: Option<String>,
    /// Line of the expected output; `None` if the output is shorter.
    pub expected: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            ours,
            expected,
        } = self;
        write!(f, "line {line}: {ours:?}, expected {expected:?}")
    }
}

/// Compares two outputs with their figures masked.
///
/// The columns of a table move with the width of its figures. If all figures of a paragraph have
/// the same width in both outputs, all blanks must be equal, including trailing ones. Otherwise
/// each run of blanks counts as one. Stock netperf's occasional line "timer popped" is ignored.
pub fn compare_masked(ours: &str, expected: &str) -> Result<(), Difference> {
    let lines = |text| -> Vec<&str> {
        let lines = str::split(text, '\n');
        lines.filter(|line| *line != SECOND_SIGNAL_LINE).collect()
    };
    let (ours, expected) = (lines(ours), lines(expected));
    let mut start = 0;
    while start < ours.len().max(expected.len()) {
        let end = start + paragraph_lines(&ours[start.min(ours.len())..]).max(1);
        let keeps_widths = (start..end).all(|index| {
            let widths = |lines: &[&str]| lines.get(index).map(|line| figure_widths(line));
            widths(&ours) == widths(&expected)
        });
        for index in start..end {
            let our_line = ours.get(index).copied();
            let expected_line = expected.get(index).copied();
            if our_line.map(|line| mask_figures(line, keeps_widths))
                != expected_line.map(|line| mask_figures(line, keeps_widths))
            {
                return Err(Difference {
                    line: index + 1,
                    ours: our_line.map(str::to_owned),
                    expected: expected_line.map(str::to_owned),
                });
            }
        }
        start = end;
    }
    Ok(())
}

/// Returns a text without linerate's warnings about its pace, which a busy machine may cause.
pub fn without_pace_warnings(text: &str) -> String {
    let lines = text.split_inclusive('\n');
    let is_kept = |line: &&str| !PACE_WARNINGS.iter().any(|warning| line.contains(warning));
    lines.filter(is_kept).collect()
}

/// Returns the figures of a text, in order.
pub fn figures(text: &str) -> Vec<f64> {
    words(text)
        .filter(|word| is_figure(word))
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// Returns the keys and values of the `KEY=value` lines of a text, in order.
pub fn key_values(text: &str) -> Vec<(&str, &str)> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .collect()
}

/// Returns the number of lines up to and including the first empty line.
fn paragraph_lines(lines: &[&str]) -> usize {
    lines
        .iter()
        .position(|line| line.is_empty())
        .map_or(lines.len(), |index| index + 1)
}

fn figure_widths(line: &str) -> Vec<usize> {
    words(line)
        .filter(|word| is_figure(word))
        .map(str::len)
        .collect()
}

/// Masks the figures of a line. With `keeps_widths`, each character of a figure becomes `#`.
/// Otherwise, each figure becomes `#`, and runs of blanks become one.
fn mask_figures(line: &str, keeps_widths: bool) -> String {
    let mut text = String::new();
    for word in words(line) {
        match (is_figure(word), keeps_widths) {
            (true, true) => text.extend(word.chars().map(|_| '#')),
            (true, false) => text.push_str(MASK),
            (false, _) => text.push_str(word),
        }
    }
    if keeps_widths {
        return text;
    }
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// Splits a line before and after each separator.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split_inclusive(is_separator)
        .flat_map(|word| match word.char_indices().next_back() {
            Some((index, last)) if is_separator(last) => [&word[..index], &word[index..]],
            _ => [word, ""],
        })
        .filter(|word| !word.is_empty())
}

fn is_separator(char: char) -> bool {
    matches!(char, ' ' | '\t' | '\n' | ',' | '=' | '"')
}

/// Returns whether printf(3) could have printed the word for a number. This includes `nan` and
/// `inf`, which stock netperf prints for unmeasured values.
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
    fn ignores_a_second_timer_message() {
        let output = format!("MIGRATED\n{SECOND_SIGNAL_LINE}\n1\n");
        assert_eq!(compare_masked(&output, "MIGRATED\n2\n"), Ok(()));
        assert!(compare_masked("MIGRATED\ntimer\n1\n", "MIGRATED\n2\n").is_err());
    }

    #[test]
    fn figures_are_masked() {
        for (text, expected) in [
            ("131072  16384  16384    0.00     9411.85   ", "# # # # #"),
            ("LOCAL_BYTES_SENT=10", "LOCAL_BYTES_SENT=#"),
            ("-1,-nan,3.3e+08,TCP", "#,#,#,TCP"),
            (
                "10^6bits/sec 127.0.0.1 AF_INET6 2x",
                "10^6bits/sec 127.0.0.1 AF_INET6 2x",
            ),
        ] {
            assert_eq!(mask_figures(text, false), expected);
        }
    }

    #[test]
    fn compares_blanks_if_figures_have_equal_widths() {
        for (ours, expected, is_equal) in [
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
                compare_masked(ours, expected).is_ok(),
                is_equal,
                "{ours:?} {expected:?}"
            );
        }
    }

    #[test]
    fn extracts_figures_and_key_values() {
        assert_eq!(figures("a 1 x2 -3.5\n4"), [1.0, -3.5, 4.0]);
        assert_eq!(
            key_values("BANNER\nA=1\nB=x=y\n"),
            [("A", "1"), ("B", "x=y")]
        );
    }
}
