//! The messages of the log, in the stock tool's words, and how they are kept.

use super::figures::Entry;
use super::number::size;

impl Entry {
    /// Something failed; `reason` is the system's, and may be empty.
    pub fn error(text: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            warning: false,
            text: text.into(),
            reason: reason.into(),
            count: 1,
        }
    }

    /// Something is not as it was asked for.
    pub fn warning(text: impl Into<String>) -> Self {
        Self {
            warning: true,
            ..Self::error(text, "")
        }
    }

    /// An execution failed. `name` is the flowop's, which a slave is not told: empty there.
    pub fn flowop(name: &str, reason: impl Into<String>) -> Self {
        Self::error(format!("Error for flowop {name} "), reason)
    }

    /// No connection of this name.
    pub fn no_connection(name: u32) -> Self {
        Self::error(format!("No such connection {name}"), "")
    }

    /// A disconnect found nothing to close.
    pub fn already_closed() -> Self {
        Self::error("Connection already closed", "")
    }

    /// No connection to this address, with its port.
    pub fn not_connected(protocol: &str, address: &str, reason: impl Into<String>) -> Self {
        Self::error(format!("{protocol}: Cannot connect to {address}"), reason)
    }

    /// No address of this name, by the resolver's words.
    pub fn not_resolved(host: &str, why: &str) -> Self {
        Self::error(format!("name_to_addr({host}): {why}"), "")
    }

    /// A send buffer of the size that was asked for, or another one.
    pub fn send_buffer(bytes: u64, requested: u64) -> Self {
        Self::buffer("Send", bytes, requested)
    }

    /// The same of a receive buffer.
    pub fn receive_buffer(bytes: u64, requested: u64) -> Self {
        Self::buffer("Recv", bytes, requested)
    }

    /// What a slave said of itself at the end.
    pub fn of_slave(host: &str, text: &str) -> Self {
        Self::error(format!("[{host}] {text}"), "")
    }

    /// Puts it into a log, where it is counted if it is there already.
    pub fn add_to(self, log: &mut Vec<Self>) {
        let is_same = |known: &&mut Self| {
            (known.warning, &known.text, &known.reason) == (self.warning, &self.text, &self.reason)
        };
        match log.iter_mut().find(is_same) {
            Some(known) => known.count = known.count.saturating_add(self.count),
            None => log.push(self),
        }
    }

    fn buffer(direction: &str, bytes: u64, requested: u64) -> Self {
        Self::warning(format!(
            "{direction} buffer: {} (Requested:{})",
            size(bytes),
            size(requested)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::log;

    #[test]
    fn messages_are_stocks() {
        for (entry, text) in [
            (
                Entry::flowop("write", "Message too long"),
                "** Error for flowop write  Message too long\n",
            ),
            (
                Entry::flowop("", "Connection reset by peer"),
                "** Error for flowop   Connection reset by peer\n",
            ),
            (Entry::no_connection(7), "** No such connection 7  \n"),
            (
                Entry::not_connected("TCP", "127.0.0.1:20000", "Connection refused"),
                "** TCP: Cannot connect to 127.0.0.1:20000 Connection refused\n",
            ),
            (
                Entry::send_buffer(131_072, 65_536),
                "** Warning: Send buffer: 128.00KB (Requested:64.00KB)  \n",
            ),
            (
                Entry::receive_buffer(1024, 0),
                "** Warning: Recv buffer: 1024.00B (Requested:0)  \n",
            ),
            (
                Entry::of_slave("h", " No such connection 7  \n"),
                "** [h]  No such connection 7  \n  \n",
            ),
        ] {
            assert_eq!(log(&[entry]), text);
        }
    }

    #[test]
    fn each_message_is_kept_once() {
        let mut entries = Vec::new();
        for _ in 0..3 {
            Entry::no_connection(1).add_to(&mut entries);
            Entry::error("a", "b").add_to(&mut entries);
        }
        Entry::error("a", "c").add_to(&mut entries);
        Entry::warning("a").add_to(&mut entries);
        let counts: Vec<_> = entries.iter().map(|entry| entry.count).collect();
        assert_eq!(counts, [3, 3, 1, 1]);
    }
}
