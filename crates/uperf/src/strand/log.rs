//! Errors and warnings of strands, for the report at the end of a run.

use std::io;
use std::os::fd::AsFd;

use model::LogEntry;
use serde::{Deserialize, Serialize};

use crate::output;

/// Errors and warnings. Equal entries are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Log {
    entries: Vec<LogEntry>,
    /// How connections from unexpected addresses were handled, for the operator of this end.
    stranger_warnings: Vec<String>,
}

/// Maximum number of different entries. Errors that differ in each execution would make the log
/// grow without limit.
const MAX_ENTRIES: usize = 64;

/// Text of the entry that replaces all entries beyond the maximum.
const OMITTED: &str = "more errors and warnings, which are left out";

/// Maximum number of lines about unexpected addresses.
const MAX_STRANGERS: usize = 8;

impl Log {
    /// Adds an error. The reason is the system's text for `errno`; 0 for none.
    pub(crate) fn error(&mut self, text: impl Into<String>, errno: i32) {
        let mut error = new_entry(false, text);
        if errno != 0 {
            // Without the error number that Rust appends.
            error.reason = sys::describe(&io::Error::from_raw_os_error(errno));
        }
        self.add(error);
    }

    /// Adds a warning.
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.add(new_entry(true, text));
    }

    /// Warns of a connection or a datagram from an unexpected address.
    pub(super) fn warn_of_stranger(&mut self, text: String) {
        self.warn(text.clone());
        self.add_stranger(text);
    }

    fn add_stranger(&mut self, text: String) {
        if self.stranger_warnings.len() < MAX_STRANGERS && !self.stranger_warnings.contains(&text) {
            self.stranger_warnings.push(text);
        }
    }

    /// Adds all entries of another log.
    pub(crate) fn merge(&mut self, other: &Self) {
        for entry in &other.entries {
            self.add(entry.clone());
        }
        for text in &other.stranger_warnings {
            self.add_stranger(text.clone());
        }
    }

    /// Returns the entries in the order of their first occurrence.
    pub(crate) fn entries(&self) -> &[LogEntry] {
        &self.entries
    }

    /// Returns how connections from unexpected addresses were handled.
    pub(crate) fn stranger_warnings(&self) -> &[String] {
        &self.stranger_warnings
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Warns if the kernel's buffer sizes differ from the requested size by more than a tenth. On
    /// Linux they always do, because the kernel doubles the requested size.
    pub(super) fn check_buffer_sizes(&mut self, socket: &impl AsFd, requested_bytes: u64) {
        let socket = socket2::SockRef::from(socket);
        let sizes = [
            ("Send buffer", socket.send_buffer_size()),
            ("Recv buffer", socket.recv_buffer_size()),
        ];
        for (name, size) in sizes {
            let Ok(size) = size else { continue };
            if (size as u64).abs_diff(requested_bytes) * 10 > requested_bytes {
                let (actual, requested) = (
                    output::full_size(size as u64),
                    output::full_size(requested_bytes),
                );
                self.warn(format!("{name}: {actual} (Requested:{requested})"));
            }
        }
    }

    fn add(&mut self, entry: LogEntry) {
        let same =
            |other: &&mut LogEntry| (&other.text, &other.reason) == (&entry.text, &entry.reason);
        if let Some(known) = self.entries.iter_mut().find(same) {
            known.count += entry.count;
        } else if self.entries.len() < MAX_ENTRIES {
            self.entries.push(entry);
        } else if let Some(last) = self.entries.last_mut() {
            // The last entry counts all that do not fit.
            let count = last.count + entry.count;
            *last = LogEntry {
                count,
                ..self::new_entry(false, OMITTED)
            };
        }
    }
}

fn new_entry(is_warning: bool, text: impl Into<String>) -> LogEntry {
    LogEntry {
        is_warning,
        text: text.into(),
        reason: String::new(),
        count: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_entries_are_merged() {
        let mut log = Log::default();
        log.error("a", 1);
        log.error("a", 2);
        log.error("a", 1);
        let mut other = Log::default();
        other.error("a", 1);
        log.merge(&other);
        let counts: Vec<u64> = log.entries().iter().map(|entry| entry.count).collect();
        assert_eq!(counts, [3, 1]);
    }

    #[test]
    fn the_log_has_a_maximum_length() {
        let mut log = Log::default();
        for number in 0..1000 {
            log.error(format!("error {number}"), 0);
        }
        assert_eq!(log.entries().len(), MAX_ENTRIES);
        let last = log.entries().last().unwrap();
        assert_eq!((last.text.as_str(), last.count), (OMITTED, 1000 - 63));
        let mut other = Log::default();
        other.merge(&log);
        other.merge(&log);
        assert_eq!(other.entries().len(), MAX_ENTRIES);
    }

    #[test]
    fn buffer_sizes_that_differ_by_more_than_a_tenth_are_logged() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let given = socket2::SockRef::from(&socket).send_buffer_size().unwrap() as u64;
        let mut log = Log::default();
        log.check_buffer_sizes(&socket, given);
        assert!(log.is_empty(), "{log:?}");
        log.check_buffer_sizes(&socket, given * 2);
        assert_eq!(log.entries().len(), 2);
        assert!(log.entries()[0].is_warning);
    }
}
