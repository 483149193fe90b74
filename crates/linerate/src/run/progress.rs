//! What is seen of a test while it runs: samples of its counts, and the line that a person at a terminal
//! reads of them.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use engine::{Counters, Interval, Reading};
use model::Sample;
use units::{BitRate, Bytes};

/// How often the line changes.
const TICK: Duration = Duration::from_millis(200);

/// How often the counts are sampled: so often over a test, and not more often than that.
const SAMPLES: u32 = 200;
const SHORTEST: Duration = Duration::from_millis(10);

/// The widest that the bar gets.
const BAR: usize = 40;

/// What stands beside the bar: the title, the rate, and blanks.
const BESIDE: usize = 20 + 1 + 1 + 16;

/// Room at the end of the line for the `^C` that a terminal echoes: it would move what is longer to the
/// next line, where this one could not be cleared.
const ECHO: usize = 3;

/// One measured time, a test's or its warm-up's.
pub(super) struct Phase {
    title: String,
    length: Duration,
    transactional: bool,
    /// The columns of the terminal on stderr, if it is one.
    columns: Option<usize>,
}

impl Phase {
    pub(super) fn new(title: String, length: Duration, transactional: bool) -> Self {
        let stderr = io::stderr();
        let columns = sys::process::terminal_columns(&stderr).map(usize::from);
        Self {
            title,
            length,
            transactional,
            columns: columns.filter(|_| stderr.is_terminal()),
        }
    }

    /// Samples the counters and shows the rate until the last of the flows hangs up.
    ///
    /// The samples start when the data begins to move, and end with the test's length.
    pub(super) fn follow(&self, counters: &[Arc<Counters>], ended: &Receiver<()>) -> Vec<Sample> {
        let grid = (self.length / SAMPLES).max(SHORTEST);
        let mut shown = Reading::now(counters);
        let started = shown.at;
        let length = Some(self.length);
        let samples = engine::sample_until(ended, counters, grid, length, |reading, _| {
            if let Some(columns) = self.columns
                && reading.at >= shown.at + TICK
            {
                let rate = self.rate(&reading.since(&shown));
                show(&self.line(columns, reading.at - started, &rate));
                shown = *reading;
            }
        });
        if self.columns.is_some() {
            show("");
        }
        samples
    }

    fn line(&self, columns: usize, elapsed: Duration, rate: &str) -> String {
        let bar = columns.saturating_sub(BESIDE + ECHO).min(BAR);
        let share = elapsed.as_secs_f64() / self.length.as_secs_f64();
        let done = ((bar as f64 * share) as usize).min(bar);
        let mut line = String::new();
        let (full, rest) = ("━".repeat(done), " ".repeat(bar - done));
        // Writing to a string does not fail.
        let _ = write!(line, "{:<20} {full}{rest} {rate}", self.title);
        line.chars().take(columns.saturating_sub(ECHO)).collect()
    }

    fn rate(&self, interval: &Interval) -> String {
        let Interval { elapsed, counts } = interval;
        if self.transactional {
            let rate = counts.transactions as f64 / elapsed.as_secs_f64();
            return format!("{rate:.0} tran/s");
        }
        let rate = Bytes(counts.bytes()).over(*elapsed);
        rate.unwrap_or(BitRate(0.0)).to_string()
    }
}

/// Puts text in the place of the line: to its beginning, the text, and nothing behind it.
fn show(line: &str) {
    // Nobody need read it.
    let _ = write!(io::stderr(), "\r{line}\x1b[K");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_leaves_room_for_an_echo_at_any_width() {
        let phase = Phase {
            title: "TCP_STREAM 10/10".to_owned(),
            length: Duration::from_secs(2),
            transactional: false,
            columns: None,
        };
        for columns in 0..200 {
            for millis in [0, 1999, 2000, 9000] {
                let elapsed = Duration::from_millis(millis);
                let line = phase.line(columns, elapsed, "100.00 Gbit/s");
                let width = line.chars().count();
                assert!(width <= columns.saturating_sub(2), "{columns}: {line}");
            }
        }
        let line = phase.line(80, Duration::from_secs(1), "1.00 Gbit/s");
        assert_eq!(line.matches('━').count(), 19, "{line}");
    }
}
