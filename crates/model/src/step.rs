//! Lists of steps over several connections: the body of a plan that only a profile knows.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::outcome::optional_nanos;
use crate::plan::nanos;
use crate::{Limit, Pacing};

/// A list of steps that is repeated: uperf's transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transaction {
    /// When it ends: after a time, or after a number of rounds ([`Limit::Transactions`]).
    pub limit: Limit,
    /// When each round begins; `None` is as fast as it goes.
    pub pacing: Option<Pacing>,
    /// One after the other.
    pub steps: Vec<Step>,
}

/// One step of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What people call it (`write`); only ever printed.
    pub name: Cow<'static, str>,
    /// What is done.
    pub action: Action,
    /// How often it is done in a round.
    pub count: u64,
    /// An execution that fails counts all the same, with no bytes.
    pub can_fail: bool,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Sends over the step's connection.
    Send(Transfer),
    /// Receives from the step's connection.
    Receive(Transfer),
    /// Lets time pass.
    Think {
        /// How much.
        #[serde(rename = "duration_ns", with = "nanos")]
        duration: Duration,
        /// Keeps the CPU meanwhile.
        spins: bool,
    },
    /// What the dialect does itself: opens or closes a connection by its own rules, sends a file.
    Own,
    /// Nothing.
    Nothing,
}

/// How much an execution moves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Bytes.
    pub amount: Amount,
    /// So often.
    pub repeat: u64,
    /// How long it waits, before each, until the connection takes or has something.
    #[serde(rename = "patience_ns", with = "optional_nanos")]
    pub patience: Option<Duration>,
    /// Calls wait for what they need. If not, they fail where they would have to wait, and the patience
    /// is for what comes after that.
    pub waits: bool,
    /// Several messages a call, or options of each message.
    pub batch: Option<Batch>,
}

impl Transfer {
    /// One plain transfer, of no bytes yet.
    pub const PLAIN: Self = Self {
        amount: Amount::Exactly(0),
        repeat: 1,
        patience: None,
        waits: true,
        batch: None,
    };
}

/// Bytes of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// This many, in as many calls as it takes.
    #[serde(rename = "bytes")]
    Exactly(u32),
    /// A random size. To send: one call, or as much as a layer takes. To receive: what one
    /// call gives, up to the most. In a batch: each message.
    Between {
        /// The fewest.
        #[serde(rename = "min_bytes")]
        min: u32,
        /// The most.
        #[serde(rename = "max_bytes")]
        max: u32,
    },
}

/// Messages of one transfer that go several a call, or with options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// How many messages; a call takes as many of them as it can.
    pub count: u64,
    /// Options of each message sent over SCTP.
    pub info: Option<SendInfo>,
}

/// Options of one SCTP message: RFC 6458, sections 5.3.4 and 5.3.7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendInfo {
    /// Its stream, from 0.
    pub stream: u16,
    /// It need not wait for those before it.
    pub is_unordered: bool,
    /// When it may be given up; `None` is never.
    pub reliability: Option<PartialReliability>,
}

/// When a message is given up: RFC 3758, RFC 7496.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialReliability {
    /// By what.
    pub policy: ReliabilityPolicy,
    /// Milliseconds, retransmissions or a priority.
    pub value: u32,
}

/// What decides when a message is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReliabilityPolicy {
    /// Milliseconds that it may wait: RFC 3758, section 3.
    Lifetime,
    /// How often it may be sent again: RFC 7496, section 3.1.
    Retransmissions,
    /// Its priority, 0 the highest: when a message of a higher one finds the send buffer full, it goes.
    /// RFC 7496, section 3.2.
    Priority,
}

impl Amount {
    /// The most bytes that one transfer moves at once.
    pub fn largest(self) -> u32 {
        match self {
            Self::Exactly(bytes) => bytes,
            Self::Between { min, max } => max.max(min),
        }
    }
}
