//! Progress of a running test: samples of its counters, and a progress line on a terminal.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use engine::{CounterDelta, CounterReading, Counters};
use model::Sample;
use units::{BitRate, Bytes};

/// Interval between two updates of the progress line.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Maximum number of samples per test.
const MAX_SAMPLES: u32 = 200;
/// Minimum time between two samples.
const MIN_SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum width of the bar in columns.
const MAX_BAR_COLUMNS: usize = 40;

/// Columns of the line outside the bar: the title, the rate, and spaces.
const TEXT_COLUMNS: usize = 20 + 1 + 1 + 16;

/// Free columns at the end of the line for the `^C` that a terminal echoes. The echo would wrap a
/// longer line, and a wrapped line could not be cleared.
const ECHO_COLUMNS: usize = 3;

/// One phase of a test: its warm-up or one of its runs.
pub(super) struct Phase {
    title: String,
    length: Duration,
    is_transactional: bool,
    /// Width of the terminal on standard error, if it is a terminal.
    columns: Option<usize>,
}

impl Phase {
    pub(super) fn new(title: String, length: Duration, is_transactional: bool) -> Self {
        let stderr = io::stderr();
        let columns = sys::process::terminal_columns(&stderr).map(usize::from);
        Self {
            title,
            length,
            is_transactional,
            columns: columns.filter(|_| stderr.is_terminal()),
        }
    }

    /// Samples the counters and shows the rate of arriving data until the channel's sender is dropped.
    ///
    /// The samples start with the first data, and end after the length of the test.
    pub(super) fn sample_and_show(
        &self,
        counters: &[Arc<Counters>],
        end_receiver: &Receiver<()>,
    ) -> Vec<Sample> {
        let sample_interval = (self.length / MAX_SAMPLES).max(MIN_SAMPLE_INTERVAL);
        let mut last_shown = (CounterReading::now(counters), None);
        let started = last_shown.0.at;
        let length = Some(self.length);
        let samples = engine::sample_until(
            end_receiver,
            counters,
            sample_interval,
            length,
            |reading, _| {
                if let Some(columns) = self.columns
                    && reading.at >= last_shown.0.at + REDRAW_INTERVAL
                {
                    let arrived = engine::arrived_bytes(counters);
                    let mut delta = reading.since(&last_shown.0);
                    if let Some(Bytes(arrived)) = arrived {
                        let before = last_shown.1.map_or(0, |Bytes(before)| before);
                        delta.counts.sent = Bytes(arrived.saturating_sub(before));
                    }
                    let rate = self.format_rate(&delta);
                    redraw_line(&self.progress_line(columns, reading.at - started, &rate));
                    last_shown = (*reading, arrived);
                }
            },
        );
        if self.columns.is_some() {
            redraw_line("");
        }
        samples
    }

    fn progress_line(&self, columns: usize, elapsed: Duration, rate: &str) -> String {
        let bar_columns = columns
            .saturating_sub(TEXT_COLUMNS + ECHO_COLUMNS)
            .min(MAX_BAR_COLUMNS);
        let share = elapsed.as_secs_f64() / self.length.as_secs_f64();
        let filled_columns = ((bar_columns as f64 * share) as usize).min(bar_columns);
        let mut line = String::new();
        let filled = "━".repeat(filled_columns);
        let empty = " ".repeat(bar_columns - filled_columns);
        // Writing to a string cannot fail.
        let _ = write!(line, "{:<20} {filled}{empty} {rate}", self.title);
        line.chars()
            .take(columns.saturating_sub(ECHO_COLUMNS))
            .collect()
    }

    fn format_rate(&self, interval: &CounterDelta) -> String {
        let CounterDelta { elapsed, counts } = interval;
        if self.is_transactional {
            let rate = counts.transactions as f64 / elapsed.as_secs_f64();
            return format!("{rate:.0} tran/s");
        }
        let rate = Bytes(counts.bytes()).rate_over(*elapsed);
        rate.unwrap_or(BitRate(0.0)).to_string()
    }
}

/// Replaces the line on the terminal: returns to its start, prints the text, clears the rest.
fn redraw_line(line: &str) {
    // An error does not matter: the line is informative only.
    let _ = write!(io::stderr(), "\r{line}\x1b[K");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_leaves_columns_for_an_echo_at_any_width() {
        let phase = Phase {
            title: "TCP_STREAM 10/10".to_owned(),
            length: Duration::from_secs(2),
            is_transactional: false,
            columns: None,
        };
        for columns in 0..200 {
            for millis in [0, 1999, 2000, 9000] {
                let elapsed = Duration::from_millis(millis);
                let line = phase.progress_line(columns, elapsed, "100.00 Gbit/s");
                let width = line.chars().count();
                assert!(
                    width <= columns.saturating_sub(ECHO_COLUMNS),
                    "{columns}: {line}"
                );
            }
        }
        let line = phase.progress_line(80, Duration::from_secs(1), "1.00 Gbit/s");
        assert_eq!(line.matches('━').count(), 19, "{line}");
    }
}
