//! `-v`: what is being done, in the stock tool's words. What stock says of its own ways (shared memory,
//! signals, children) is left out where it would not be true.

use std::fmt::{self, Display};

use crate::Step;
use crate::wire::Command;

impl Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Phase1Done => f.write_str("Completed handshake phase 1\n"),
            Self::Phase2 => f.write_str("Starting handshake phase 2\n"),
            Self::Phase2With(host) => {
                writeln!(
                    f,
                    "Handshake phase 2 with {host}\n  Done preprocessing accepts"
                )
            }
            Self::Assigned(host, group) => {
                f.write_str("  Sent handshake header\n  Sending workorder\n    Sent workorder\n")?;
                for transaction in &group.transactions {
                    let flowops = "    Sent flowop\n".repeat(transaction.flowops.len());
                    write!(f, "    Sent transaction\n{flowops}")?;
                }
                f.write_str("TX worklist success  Sent workorder\n")?;
                writeln!(f, "Handshake phase 2 with {host} done")
            }
            Self::Phase2Done => f.write_str("Completed handshake phase 2\n"),
            Self::Told(command, host) => writeln!(f, "TX command [{}] to {host}", words(command)),
            Self::Accepted(peer) => writeln!(f, "Accepted connection from {peer}"),
            Self::Heard(command, host) => {
                writeln!(f, "RX Command [{}] from {host}", words(command))
            }
            Self::Unlocked(number) => {
                writeln!(f, "{}: unlocking barrier {number}", std::process::id())
            }
        }
    }
}

/// Its name and value; one without a name has its number.
fn words(command: &Command) -> String {
    match command {
        Command::NextTransaction(number) => format!("UPERF_CMD_NEXT_TXN, {number}"),
        Command::Abort => "UPERF_CMD_ABORT, 0".to_owned(),
        Command::SendStatistics => "UPERF_CMD_SEND_STATS, 0".to_owned(),
        Command::Error => "UPERF_CMD_ERROR, 0".to_owned(),
        Command::Other(number, value) => format!("{number}, {value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_their_number() {
        let steps = [
            Step::Told(Command::NextTransaction(2), "h"),
            Step::Told(Command::SendStatistics, "h"),
            Step::Heard(Command::Abort, "h"),
        ];
        let expected = "TX command [UPERF_CMD_NEXT_TXN, 2] to h\n\
            TX command [UPERF_CMD_SEND_STATS, 0] to h\n\
            RX Command [UPERF_CMD_ABORT, 0] from h\n";
        assert_eq!(steps.map(|step| step.to_string()).concat(), expected);
    }
}
