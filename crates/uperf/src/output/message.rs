//! Lines about what went wrong, in the stock tool's words.

use std::fmt::{self, Display};

/// One of them, with its line end. All go to stdout but [`Self::Interrupted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// No control connection to this host.
    Connecting(&'a str),
    /// The slave on this host refused phase 1.
    Phase1(&'a str),
    /// It refused phase 2.
    Phase2(&'a str),
    /// Why it did, in its own words.
    Says {
        /// The slave's host.
        host: &'a str,
        /// What it said.
        said: &'a str,
    },
    /// The handshake with it failed.
    Handshaking(&'a str),
    /// It did not answer when all was ready.
    Phase3(&'a str),
    /// A slave sent something while it had nothing to say.
    SlaveAborted,
    /// A slave reported no totals at the end.
    Goodbye(&'a str),
    /// The file of `-X` cannot be written.
    ResponseFile,
    /// A strand failed, as the one of this number.
    Strand(u64),
    /// So many strands and slaves failed.
    Failures(u64),
    /// SIGINT; for stderr.
    Interrupted,
}

impl Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting(host) => writeln!(f, "Error connecting to {host}"),
            Self::Phase1(host) => writeln!(f, "Error while handshaking with {host}"),
            Self::Phase2(host) => writeln!(f, "Error while handshaking phase 2 with {host}"),
            Self::Says { host, said } => writeln!(f, "{host} says: {said}"),
            Self::Handshaking(host) => writeln!(f, "error handshaking with {host}"),
            Self::Phase3(host) => writeln!(f, "Error handshaking P3 with {host}"),
            Self::SlaveAborted => f.write_str("\n*** Slave aborted! ***\n"),
            Self::Goodbye(host) => writeln!(f, "\nError saying goodbye with {host}"),
            Self::ResponseFile => f.write_str("Cannot open file\n"),
            Self::Strand(failed) => {
                writeln!(
                    f,
                    "flag_error:global_error={failed}, Error executing transactions"
                )
            }
            Self::Failures(failed) => {
                writeln!(f, "\nWARNING: {failed} Errors detected during run")
            }
            Self::Interrupted => f.write_str("\nGot SIGINT Aborting ...: Interrupt\n"),
        }
    }
}
