//! The log of `linerate serve`: one line per test on standard output, and notes on standard error.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::ValueEnum;
use engine::BudgetHolder;
use server::{LogRateLimit, RecordWriter, TestRecord};
use sys::Address;
use units::BitRate;

/// The maximum number of lines per period of [`LogRateLimit`]. Notes and incomplete tests share it,
/// because any host can cause them, also with forged addresses. The complete tests of each address
/// that moved data have such a limit of their own.
const MAX_LINES: u32 = 1000;

static LIMITS: Mutex<Option<Limits>> = Mutex::new(None);

/// The limits of the current period.
struct Limits {
    shared: LogRateLimit,
    /// The number of lines per address.
    by_address: HashMap<BudgetHolder, u32>,
}

/// The format of the test lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// A sentence
    Text,
    /// A JSON object
    Json,
    /// No lines
    None,
}

impl LogFormat {
    /// Returns a writer of one line per finished test. It ignores write errors, such as a closed
    /// pipe.
    pub(super) fn writer(self) -> Option<RecordWriter> {
        match self {
            Self::None => None,
            Self::Text => Some(|test| {
                write_test(test, codec::escaped(&format_test(test)).to_string());
            }),
            Self::Json => Some(|test| {
                let line = serde_json::to_string(test).unwrap_or_default();
                write_test(test, codec::escaped_json(&line));
            }),
        }
    }
}

fn write_test(test: &TestRecord, line: String) {
    let has_data = test.is_complete && test.received_bytes + test.sent_bytes > 0;
    let holder = test.peer.parse::<SocketAddr>().ok();
    let holder = holder.map(|peer| BudgetHolder::for_address(&Address::Inet(peer)));
    if may_write(holder.filter(|_| has_data)) {
        let _ = getopt::stdout().write_all((line + "\n").as_bytes());
    }
}

/// Formats the log line of a test.
fn format_test(test: &TestRecord) -> String {
    let TestRecord {
        started,
        peer,
        dialect,
        seconds,
        ..
    } = test;
    let started = humantime::format_rfc3339_millis(*started);
    let (amount, rate) = (format_amount(test), BitRate(test.bits_per_second));
    let end = test.end.as_deref().unwrap_or_default();
    let mut line = format!(
        "{started} {peer} {dialect} {}: {amount} in {seconds:.2} s ({rate}): {end}",
        test.test
    );
    if test.overlapping_tests > 0 {
        let (others, names) = (test.overlapping_tests, test.overlapped_with.join(", "));
        let _ = write!(line, "; other tests at the same time: {others} ({names})");
    }
    line
}

/// Formats the bytes of a test: `received 1.10 GBytes`.
pub(super) fn format_amount(test: &TestRecord) -> String {
    let padded = |bytes: u64| units::iperf::Scale::Bytes(None).format(bytes as f64);
    let bytes_text = |bytes| padded(bytes).trim_start().to_owned();
    match (test.received_bytes, test.sent_bytes) {
        (received, 0) => format!("received {}", bytes_text(received)),
        (0, sent) => format!("sent {}", bytes_text(sent)),
        (received, sent) => format!(
            "received {}, sent {}",
            bytes_text(received),
            bytes_text(sent)
        ),
    }
}

/// Writes a line about a client to standard error, at most [`MAX_LINES`] per period.
pub(super) fn write_note(line: fmt::Arguments<'_>) {
    if may_write(None) {
        write_operator_note(line);
    }
}

/// Writes a line that only the operator can cause.
pub(super) fn write_operator_note(line: fmt::Arguments<'_>) {
    sys::write_error_line(format_args!("linerate serve: {line}"));
}

/// Reports the lines left out in the last period.
pub(super) fn report_left_out_lines() {
    let limits = LIMITS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(limits) = &*limits {
        report_left_out(limits.shared.suppressed());
    }
}

fn report_left_out(lines: u64) {
    if lines > 0 {
        write_operator_note(format_args!("{lines} log lines left out"));
    }
}

/// Returns whether a line may be written now. `address` is the client of a complete test that moved
/// data; other lines share a limit.
fn may_write(address: Option<BudgetHolder>) -> bool {
    let mut limits = LIMITS.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    let limits = limits.get_or_insert_with(|| Limits {
        shared: LogRateLimit::begin(now),
        by_address: HashMap::new(),
    });
    if let Some(left_out) = limits.shared.begin_next_period(now) {
        limits.by_address.clear();
        report_left_out(left_out);
    }
    match address {
        None => limits.shared.admit(now, MAX_LINES).is_some(),
        Some(address) => {
            let lines = limits.by_address.entry(address).or_default();
            *lines = lines.saturating_add(1);
            let is_written = *lines <= MAX_LINES;
            if !is_written {
                limits.shared.count_suppressed();
            }
            is_written
        }
    }
}

/// Writes the messages of dialects as notes.
#[cfg(any(feature = "iperf", feature = "iperf3"))]
pub(super) struct NoteWriter;

#[cfg(feature = "iperf3")]
impl Write for NoteWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        write_note(format_args!("{}", String::from_utf8_lossy(line).trim_end()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(feature = "iperf")]
impl iperf::event::Observer for NoteWriter {
    fn observe(&self, event: &iperf::event::TestEvent<'_>) {
        use iperf::event::TestEvent::{Error, StreamFailed};
        match event {
            Error(line) => write_note(format_args!("iperf: {line}")),
            StreamFailed(_, reason) => write_note(format_args!("iperf: {reason}")),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_do_not_use_up_the_lines_of_others() {
        let holder = |text: &str| {
            let address: SocketAddr = text.parse().unwrap();
            Some(BudgetHolder::for_address(&Address::Inet(address)))
        };
        let attempts = MAX_LINES as usize * 2;
        for address in [holder("192.0.2.1:1"), None] {
            let written = (0..attempts).filter(|_| may_write(address)).count();
            assert_eq!(written, MAX_LINES as usize);
            assert!(may_write(holder("192.0.2.2:1")));
        }
        let left_out = LIMITS.lock().unwrap().as_ref().unwrap().shared.suppressed();
        assert_eq!(left_out, u64::from(MAX_LINES) * 2);
    }
}
