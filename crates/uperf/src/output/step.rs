//! `-v`: what is being done, in the stock tool's words. What stock says of its own ways (shared memory,
//! signals, children) is left out where it would not be true.

use std::fmt::{self, Display};
use std::net::SocketAddr;

/// One step, displayed with its line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The limit of descriptors could not be raised, for this reason.
    Descriptors(&'a str),
    /// All slaves know the protocol and what will be needed.
    Phase1Done,
    /// They get their work now.
    Phase2,
    /// This one does.
    Phase2With(&'a str),
    /// This end listens where the profile wants it to.
    AcceptsReady,
    /// The header is sent.
    Header,
    /// The group follows.
    Sending,
    /// It is sent.
    Workorder,
    /// One of its transactions is.
    Transaction,
    /// One of their flowops is.
    Flowop,
    /// All of it is.
    Sent,
    /// This slave has all that it needs.
    Phase2DoneWith(&'a str),
    /// All have.
    Phase2Done,
    /// A command goes to this slave.
    Told(Command, &'a str),
    /// A master has connected.
    Accepted(SocketAddr),
    /// A command has come from this master.
    Heard(Command, &'a str),
    /// The strands of this master's group are let go, for the transaction of this number.
    Unlocked(u32),
}

/// What a master tells its slaves while a profile runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// The transaction of this number begins.
    NextTransaction(u32),
    /// All is over.
    Abort,
    /// The totals are wanted.
    SendStatistics,
}

impl Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptors(why) => writeln!(f, "Unable to increase file descriptors: {why}"),
            Self::Phase1Done => f.write_str("Completed handshake phase 1\n"),
            Self::Phase2 => f.write_str("Starting handshake phase 2\n"),
            Self::Phase2With(host) => writeln!(f, "Handshake phase 2 with {host}"),
            Self::AcceptsReady => f.write_str("  Done preprocessing accepts\n"),
            Self::Header => f.write_str("  Sent handshake header\n"),
            Self::Sending => f.write_str("  Sending workorder\n"),
            Self::Workorder => f.write_str("    Sent workorder\n"),
            Self::Transaction => f.write_str("    Sent transaction\n"),
            Self::Flowop => f.write_str("    Sent flowop\n"),
            Self::Sent => f.write_str("TX worklist success  Sent workorder\n"),
            Self::Phase2DoneWith(host) => writeln!(f, "Handshake phase 2 with {host} done"),
            Self::Phase2Done => f.write_str("Completed handshake phase 2\n"),
            Self::Told(command, host) => writeln!(f, "TX command [{command}] to {host}"),
            Self::Accepted(peer) => writeln!(f, "Accepted connection from {peer}"),
            Self::Heard(command, host) => writeln!(f, "RX Command [{command}] from {host}"),
            Self::Unlocked(number) => {
                writeln!(f, "{}: unlocking barrier {number}", std::process::id())
            }
        }
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value) = match self {
            Self::NextTransaction(number) => ("NEXT_TXN", *number),
            Self::Abort => ("ABORT", 0),
            Self::SendStatistics => ("SEND_STATS", 0),
        };
        write!(f, "UPERF_CMD_{name}, {value}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_their_number() {
        for (step, text) in [
            (
                Step::Told(Command::NextTransaction(2), "h"),
                "TX command [UPERF_CMD_NEXT_TXN, 2] to h\n",
            ),
            (
                Step::Told(Command::SendStatistics, "h"),
                "TX command [UPERF_CMD_SEND_STATS, 0] to h\n",
            ),
            (
                Step::Heard(Command::Abort, "h"),
                "RX Command [UPERF_CMD_ABORT, 0] from h\n",
            ),
        ] {
            assert_eq!(step.to_string(), text);
        }
    }
}
