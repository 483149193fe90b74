//! Events that a master's run reports to the user interface.

use std::time::{Duration, SystemTime};

use model::{CombinedTotals, Warning};

use crate::GroupSpec;
use crate::wire::MasterCommand;

/// Event of a master's run.
#[derive(Clone, Copy, Debug)]
pub enum MasterEvent<'a> {
    /// Step of the protocol.
    Step(ProtocolStep<'a>),
    /// Warnings about the result that are known before the end.
    Warnings(&'a [Warning]),
    /// The handshakes are complete; the strands start next.
    Starting,
    /// All strands have started, after this time.
    Started(Duration),
    /// Progress of a transaction.
    Sampled {
        /// Number of the transaction, from 0.
        stage: usize,
        /// Counts since the transaction began.
        totals: CombinedTotals,
        /// Wall-clock time of the sample.
        at: SystemTime,
    },
    /// The transaction has ended.
    TransactionEnded,
    /// No more samples follow.
    SamplesEnded {
        /// True if the last transaction did not end.
        is_cut: bool,
    },
    /// Data connections to these hosts have received no answer for some time.
    ConnectionsUnanswered(&'a [String]),
    /// A slave sent a message at a time when the protocol has none.
    UnexpectedSlaveMessage,
    /// Number of strands that have failed so far.
    StrandFailed(u64),
    /// A slave reported no totals at the end.
    SlaveLost(&'a str),
}

/// Step of the protocol, at either end. `-v` prints these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProtocolStep<'a> {
    /// All slaves have completed handshake phase 1.
    Phase1Done,
    /// Handshake phase 2 begins: the slaves receive their workorders.
    Phase2,
    /// Phase 2 with this slave begins; the master already listens for the profile's accepts.
    Phase2WithSlave(&'a str),
    /// The master has sent this group to this slave.
    WorkorderSent(&'a str, &'a GroupSpec),
    /// All slaves have completed handshake phase 2.
    Phase2Done,
    /// The master sends this command to this slave.
    CommandSent(MasterCommand, &'a str),
    /// This master has connected.
    MasterAccepted(&'a str),
    /// This command has arrived from this master.
    CommandReceived(MasterCommand, &'a str),
    /// The slave releases its strands for the transaction of this number.
    BarrierReleased(u32),
}

/// Returns the name of a transaction in reports; `number` counts from 0.
pub fn transaction_name(number: usize) -> String {
    format!("Txn{number}")
}

/// Returns the name of a transaction in progress lines, where stock counts from 1.
pub fn running_transaction_name(number: usize) -> String {
    format!("Txn{}", number + 1)
}
