//! What a strand has to say when the run is over.

use std::io;
use std::os::fd::AsFd;

use model::LogEntry;
use serde::{Deserialize, Serialize};

use crate::output;

/// Entries, each distinct one once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Log {
    entries: Vec<LogEntry>,
    /// What was done about unexpected addresses, for the operator of this end.
    strangers: Vec<String>,
}

/// Different entries that one log may have. More would come of errors that differ in each execution.
const MOST_ENTRIES: usize = 64;

/// What stands for entries without a place.
const MORE: &str = "more errors and warnings, which are left out";

/// Lines about unexpected addresses that one run may have.
const MOST_STRANGERS: usize = 8;

impl Log {
    /// Says an error, with the system's reason, 0 for none.
    pub(crate) fn say(&mut self, text: impl Into<String>, errno: i32) {
        let mut error = entry(false, text);
        if errno != 0 {
            // Without the number that Rust adds.
            error.reason = sys::describe(&io::Error::from_raw_os_error(errno));
        }
        self.add(error);
    }

    /// Says a warning.
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.add(entry(true, text));
    }

    /// Warns of a connection or a datagram from an unexpected address.
    pub(super) fn stranger(&mut self, text: String) {
        self.warn(text.clone());
        self.add_stranger(text);
    }

    fn add_stranger(&mut self, text: String) {
        if self.strangers.len() < MOST_STRANGERS && !self.strangers.contains(&text) {
            self.strangers.push(text);
        }
    }

    /// Takes over another's entries.
    pub(crate) fn merge(&mut self, other: &Self) {
        for entry in &other.entries {
            self.add(entry.clone());
        }
        for text in &other.strangers {
            self.add_stranger(text.clone());
        }
    }

    /// In the order in which they were first said.
    pub(crate) fn entries(&self) -> &[LogEntry] {
        &self.entries
    }

    /// What was done about unexpected addresses.
    pub(crate) fn strangers(&self) -> &[String] {
        &self.strangers
    }

    /// Whether nothing was said.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Warns when the buffers that the kernel gave are not what was asked for: by more than a tenth,
    /// which on Linux they always are, as it gives twice as much.
    pub(super) fn compare_buffers(&mut self, socket: &impl AsFd, asked: u64) {
        let socket = socket2::SockRef::from(socket);
        let given = [
            ("Send buffer", socket.send_buffer_size()),
            ("Recv buffer", socket.recv_buffer_size()),
        ];
        for (name, size) in given {
            let Ok(size) = size else { continue };
            if (size as u64).abs_diff(asked) * 10 > asked {
                let (got, wanted) = (output::size(size as u64), output::size(asked));
                self.warn(format!("{name}: {got} (Requested:{wanted})"));
            }
        }
    }

    fn add(&mut self, entry: LogEntry) {
        let same =
            |other: &&mut LogEntry| (&other.text, &other.reason) == (&entry.text, &entry.reason);
        if let Some(known) = self.entries.iter_mut().find(same) {
            known.count += entry.count;
        } else if self.entries.len() < MOST_ENTRIES {
            self.entries.push(entry);
        } else if let Some(last) = self.entries.last_mut() {
            // The last place is for all that have none.
            let count = last.count + entry.count;
            *last = LogEntry {
                count,
                ..self::entry(false, MORE)
            };
        }
    }
}

fn entry(is_warning: bool, text: impl Into<String>) -> LogEntry {
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
    fn the_same_is_said_once() {
        let mut log = Log::default();
        log.say("a", 1);
        log.say("a", 2);
        log.say("a", 1);
        let mut other = Log::default();
        other.say("a", 1);
        log.merge(&other);
        let times: Vec<u64> = log.entries().iter().map(|entry| entry.count).collect();
        assert_eq!(times, [3, 1]);
    }

    #[test]
    fn a_log_has_an_end() {
        let mut log = Log::default();
        for number in 0..1000 {
            log.say(format!("error {number}"), 0);
        }
        assert_eq!(log.entries().len(), MOST_ENTRIES);
        let rest = log.entries().last().unwrap();
        assert_eq!((rest.text.as_str(), rest.count), (MORE, 1000 - 63));
        let mut other = Log::default();
        other.merge(&log);
        other.merge(&log);
        assert_eq!(other.entries().len(), MOST_ENTRIES);
    }

    #[test]
    fn buffers_that_differ_by_a_tenth() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let given = socket2::SockRef::from(&socket).send_buffer_size().unwrap() as u64;
        let mut log = Log::default();
        log.compare_buffers(&socket, given);
        assert!(log.is_empty(), "{log:?}");
        log.compare_buffers(&socket, given * 2);
        assert_eq!(log.entries().len(), 2);
        assert!(log.entries()[0].is_warning);
    }
}
