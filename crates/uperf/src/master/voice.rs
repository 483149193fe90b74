//! What a master says while it runs, and where that goes.

use std::io::Write;

use crate::output::{Message, Step};

/// Text goes to stdout; where a document has its place, what went wrong and what is being done goes to
/// stderr, and all else is in the document.
pub(super) struct Voice<'a> {
    out: &'a mut dyn Write,
    /// `--json`.
    is_mute: bool,
    /// `-v`.
    is_verbose: bool,
}

impl<'a> Voice<'a> {
    pub(super) fn new(out: &'a mut dyn Write, is_mute: bool, is_verbose: bool) -> Self {
        Self {
            out,
            is_mute,
            is_verbose,
        }
    }

    /// What somebody reads in time. A reader that has had enough is no failure.
    pub(super) fn print(&mut self, text: &str) {
        if !self.is_mute {
            let _ = self.out.write_all(text.as_bytes());
            let _ = self.out.flush();
        }
    }

    pub(super) fn say(&mut self, message: &Message<'_>) {
        self.tell(&message.to_string());
    }

    pub(super) fn step(&mut self, step: &Step<'_>) {
        if self.is_verbose {
            self.tell(&step.to_string());
        }
    }

    /// A line that is not of the result.
    pub(super) fn tell(&mut self, line: &str) {
        if self.is_mute {
            eprint!("{line}");
        } else {
            self.print(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_stands_alone() {
        for (is_mute, is_verbose, expected) in [
            (false, false, "Starting \n*** Slave aborted! ***\n"),
            (
                false,
                true,
                "Starting \n*** Slave aborted! ***\nCompleted handshake phase 1\n",
            ),
            (true, true, ""),
        ] {
            let mut out = Vec::new();
            let mut voice = Voice::new(&mut out, is_mute, is_verbose);
            voice.print("Starting ");
            voice.say(&Message::SlaveAborted);
            voice.step(&Step::Phase1Done);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
