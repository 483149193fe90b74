//! What happens while a master runs, for its reader.

use std::time::{Duration, SystemTime};

use model::{CombinedTotals, Warning};

use crate::Group;
use crate::wire::Command;

/// One event, in the order of a run.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A step of the protocol.
    Step(Step<'a>),
    /// What is already known to make the result doubtful.
    Doubtful(&'a [Warning]),
    /// The handshakes are over; the strands are about to be started.
    Starting,
    /// All strands are there, after so long.
    Started(Duration),
    /// How far the transaction of this number is, from 0.
    Sampled {
        /// Its number.
        stage: usize,
        /// What it has done since it began.
        totals: CombinedTotals,
        /// When it was looked at, by the wall clock.
        at: SystemTime,
    },
    /// It has ended.
    TransactionEnded,
    /// There are no more samples; whether a transaction had not ended.
    SamplesEnded {
        /// It had not.
        is_cut: bool,
    },
    /// No data connection to these hosts has come about for some time.
    Unanswered(&'a [String]),
    /// A slave sent something while it had nothing to say.
    SlaveAborted,
    /// So many strands have failed until now.
    StrandFailed(u64),
    /// A slave reported no totals at the end.
    SlaveLost(&'a str),
}

/// A step of the protocol, at either end: the lines of `-v`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step<'a> {
    /// All slaves know the protocol and what will be needed.
    Phase1Done,
    /// They get their work now.
    Phase2,
    /// This one does; this end listens where the profile wants it to.
    Phase2With(&'a str),
    /// This slave has its group, and all else that it needs.
    Assigned(&'a str, &'a Group),
    /// All have.
    Phase2Done,
    /// A command goes to this slave.
    Told(Command, &'a str),
    /// A master has connected.
    Accepted(&'a str),
    /// A command has come from this master.
    Heard(Command, &'a str),
    /// The strands of this master's group are let go, for the transaction of this number.
    Unlocked(u32),
}

/// The transaction of this number, from 0, as reports name it.
pub fn transaction_name(number: usize) -> String {
    format!("Txn{number}")
}

/// The same while it runs.
pub fn running_name(number: usize) -> String {
    format!("Txn{}", number + 1)
}
