//! The histogram that builds with histograms print at verbosity 2: decades of ten columns.

use stats::Histogram;

use crate::client::TestRun;
use crate::options::{Form, Settings, Test};

/// Eight decades from 1 µs on, the first column of each being less than one of its unit.
const DECADES: [&str; 8] = [
    "UNIT_USEC",
    "TEN_USEC",
    "HUNDRED_USEC",
    "UNIT_MSEC",
    "TEN_MSEC",
    "HUNDRED_MSEC",
    "UNIT_SEC",
    "TEN_SEC",
];

/// The blocks of all times that were recorded, each under its title.
pub(super) fn blocks(settings: &Settings, run: &TestRun) -> String {
    let here = &run.outcome.here;
    [
        (&here.latency, title(settings, Times::Transactions)),
        (&here.send_times, title(settings, Times::Sends)),
        (&here.receive_times, title(settings, Times::Receives)),
    ]
    .into_iter()
    .filter_map(|(times, title)| Some(title + &block(times.as_ref()?)))
    .collect()
}

#[derive(Clone, Copy)]
enum Times {
    Transactions,
    Sends,
    Receives,
}

/// Each test has its own words, dots and empty lines for the same thing.
fn title(settings: &Settings, times: Times) -> String {
    if !matches!(settings.print.form, Form::Table) {
        return format!("\nHistogram of {} times\n", subject(settings, times));
    }
    match (settings.test, times) {
        (Test::UdpRr, Times::Transactions) => "\nHistogram of request/reponse times.\n",
        (_, Times::Transactions) => "\nHistogram of request/response times\n",
        (Test::UdpStream, Times::Sends) => "\nHistogram of time spent in send() call\n",
        (_, Times::Sends) => "\n\nHistogram of time spent in send() call.\n",
        (_, Times::Receives) => "\n\nHistogram of time spent in recv() call.\n",
    }
    .to_owned()
}

fn subject(settings: &Settings, times: Times) -> &'static str {
    let direction = settings.direction;
    match times {
        Times::Sends => "send",
        Times::Receives => "recv",
        Times::Transactions if !direction.connection => "request/response",
        Times::Transactions if direction.transmit => "connect/request/response/close",
        Times::Transactions => "connect/close",
    }
}

fn block(times: &Histogram) -> String {
    let mut columns = [[0_u64; 10]; DECADES.len()];
    let mut beyond = 0;
    for (low, high, count) in times.buckets() {
        match column_of(low + (high - low) / 2) {
            Some((decade, column)) => columns[decade][column] += u64::from(count),
            None => beyond += u64::from(count),
        }
    }
    let mut lines: Vec<_> = DECADES
        .iter()
        .zip(columns)
        .map(|(name, counts)| {
            format!(
                "{name:<14}: {}",
                counts.map(|n| format!("{n:>4}")).join(": ")
            )
        })
        .collect();
    lines.push(format!(">100_SECS: {beyond}"));
    lines.push(format!("HIST_TOTAL:      {}\n", times.len()));
    lines.join("\n")
}

/// Decade and column of a time; `None` from 100 s on.
fn column_of(time_ns: u64) -> Option<(usize, usize)> {
    let mut unit = 1_000;
    for decade in 0..DECADES.len() {
        if time_ns / unit < 10 {
            return Some((decade, (time_ns / unit) as usize));
        }
        unit *= 10;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_the_first_decade_that_holds_them() {
        for (time_ns, expected) in [
            (0, Some((0, 0))),
            (999, Some((0, 0))),
            (9_999, Some((0, 9))),
            (10_000, Some((1, 1))),
            (1_000_000, Some((3, 1))),
            (99_999_999_999, Some((7, 9))),
            (100_000_000_000, None),
            (u64::MAX, None),
        ] {
            assert_eq!(column_of(time_ns), expected, "{time_ns}");
        }
    }

    #[test]
    fn the_block_has_the_stock_layout() {
        let mut times = Histogram::default();
        for micros in [45, 46, 47, 48, 55, 65, 75, 550, 850, 7500] {
            times.record(micros * 1000);
        }
        assert_eq!(
            block(&times),
            "\
UNIT_USEC     :    0:    0:    0:    0:    0:    0:    0:    0:    0:    0
TEN_USEC      :    0:    0:    0:    0:    4:    1:    1:    1:    0:    0
HUNDRED_USEC  :    0:    0:    0:    0:    0:    1:    0:    0:    1:    0
UNIT_MSEC     :    0:    0:    0:    0:    0:    0:    0:    1:    0:    0
TEN_MSEC      :    0:    0:    0:    0:    0:    0:    0:    0:    0:    0
HUNDRED_MSEC  :    0:    0:    0:    0:    0:    0:    0:    0:    0:    0
UNIT_SEC      :    0:    0:    0:    0:    0:    0:    0:    0:    0:    0
TEN_SEC       :    0:    0:    0:    0:    0:    0:    0:    0:    0:    0
>100_SECS: 0
HIST_TOTAL:      10
"
        );
    }
}
