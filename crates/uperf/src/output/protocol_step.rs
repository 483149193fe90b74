//! Lines of `-v`, in the stock tool's words.
//!
//! Stock's lines about its implementation (shared memory, signals, children) are omitted if
//! they would be untrue.

use std::fmt::{self, Display};

use crate::ProtocolStep;
use crate::wire::MasterCommand;

impl Display for ProtocolStep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Phase1Done => f.write_str("Completed handshake phase 1\n"),
            Self::Phase2 => f.write_str("Starting handshake phase 2\n"),
            Self::Phase2WithSlave(host) => {
                writeln!(
                    f,
                    "Handshake phase 2 with {host}\n  Done preprocessing accepts"
                )
            }
            Self::WorkorderSent(host, group) => {
                f.write_str("  Sent handshake header\n  Sending workorder\n    Sent workorder\n")?;
                for transaction in &group.transactions {
                    let flowops = "    Sent flowop\n".repeat(transaction.flowops.len());
                    write!(f, "    Sent transaction\n{flowops}")?;
                }
                f.write_str("TX worklist success  Sent workorder\n")?;
                writeln!(f, "Handshake phase 2 with {host} done")
            }
            Self::Phase2Done => f.write_str("Completed handshake phase 2\n"),
            Self::CommandSent(command, host) => {
                writeln!(f, "TX command [{}] to {host}", format_command(command))
            }
            Self::MasterAccepted(peer) => writeln!(f, "Accepted connection from {peer}"),
            Self::CommandReceived(command, host) => {
                writeln!(f, "RX Command [{}] from {host}", format_command(command))
            }
            Self::BarrierReleased(number) => {
                writeln!(f, "{}: unlocking barrier {number}", std::process::id())
            }
        }
    }
}

/// Formats the command's name, or number if it has none, and its value.
fn format_command(command: &MasterCommand) -> String {
    match command {
        MasterCommand::NextTransaction(number) => format!("UPERF_CMD_NEXT_TXN, {number}"),
        MasterCommand::Abort => "UPERF_CMD_ABORT, 0".to_owned(),
        MasterCommand::SendStatistics => "UPERF_CMD_SEND_STATS, 0".to_owned(),
        MasterCommand::Error => "UPERF_CMD_ERROR, 0".to_owned(),
        MasterCommand::Other(number, value) => format!("{number}, {value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_show_name_number_and_host() {
        let steps = [
            ProtocolStep::CommandSent(MasterCommand::NextTransaction(2), "h"),
            ProtocolStep::CommandSent(MasterCommand::SendStatistics, "h"),
            ProtocolStep::CommandReceived(MasterCommand::Abort, "h"),
        ];
        let expected = "TX command [UPERF_CMD_NEXT_TXN, 2] to h\n\
            TX command [UPERF_CMD_SEND_STATS, 0] to h\n\
            RX Command [UPERF_CMD_ABORT, 0] from h\n";
        assert_eq!(steps.map(|step| step.to_string()).concat(), expected);
    }
}
