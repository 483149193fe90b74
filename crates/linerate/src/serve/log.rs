//! The log of `linerate serve`: one line per test on standard output, and notes on standard error.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::ValueEnum;
use server::{LogDecision, LogRateLimit, RecordWriter, TestRecord};
use units::BitRate;

/// The maximum number of notes per period of [`LogRateLimit`]. The limit is needed because any host
/// can cause notes.
const MAX_NOTES: u32 = 1000;

static NOTE_LIMIT: Mutex<Option<LogRateLimit>> = Mutex::new(None);

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
            Self::Text => Some(|test| drop(writeln!(getopt::stdout(), "{}", format_test(test)))),
            Self::Json => Some(|test| {
                let line = serde_json::to_string(test).unwrap_or_default();
                drop(writeln!(getopt::stdout(), "{line}"));
            }),
        }
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

/// Writes a line to standard error, at most [`MAX_NOTES`] per period.
pub(super) fn write_note(line: fmt::Arguments<'_>) {
    let mut limit = NOTE_LIMIT.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    let limit = limit.get_or_insert(LogRateLimit::begin(now));
    if let LogDecision::Write { suppressed } = limit.decide(now, MAX_NOTES) {
        let mut text = String::new();
        if suppressed > 0 {
            let _ = write!(text, "{suppressed} lines left out\nlinerate serve: ");
        }
        sys::write_error_line(format_args!("linerate serve: {text}{line}"));
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
        if let iperf::event::TestEvent::Error(line) = event {
            write_note(format_args!("iperf: {line}"));
        }
    }
}
