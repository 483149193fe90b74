//! Lists of steps over several connections, for plans that are read from a profile.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::nanos::{Nanos, OptionalNanos};
use crate::{Limit, Pacing};

/// A list of steps that is repeated: uperf's transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Transaction {
    /// The limit: a time, or a number of rounds ([`Limit::Transactions`]).
    pub limit: Limit,
    /// Schedule of the rounds; `None` runs them without pauses.
    pub pacing: Option<Pacing>,
    /// The steps of a round, executed in order.
    pub steps: Vec<Step>,
}

/// One step of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// The step's name (`write`); used only in output.
    pub name: Cow<'static, str>,
    /// The operation.
    pub action: Action,
    /// Number of executions per round.
    pub count: u64,
    /// Whether an execution may fail. A failed one is counted as executed, with 0 bytes.
    pub can_fail: bool,
}

/// The operation of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Sends over the step's connection.
    Send(Transfer),
    /// Receives from the step's connection.
    Receive(Transfer),
    /// Waits.
    Think {
        /// Duration of the wait.
        #[serde(rename = "duration_ns", with = "Nanos")]
        duration: Duration,
        /// Whether the worker polls the clock instead of sleeping.
        spins: bool,
    },
    /// An operation that the dialect implements: opens or closes a connection, or sends a file.
    DialectSpecific,
    /// Does nothing.
    Nothing,
}

/// Amount and conditions of the data that an execution moves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Transfer {
    /// Bytes per transfer.
    pub amount: Amount,
    /// Number of transfers.
    pub repeat: u64,
    /// Maximum wait, before each transfer, until the connection is ready.
    #[serde(rename = "timeout_ns", with = "OptionalNanos")]
    pub timeout: Option<Duration>,
    /// Whether calls block until the connection is ready. Otherwise they fail where they would
    /// block, and the timeout applies to the wait after the failure.
    pub is_blocking: bool,
    /// Several messages per call, or options of each message.
    pub batch: Option<Batch>,
}

impl Transfer {
    /// One transfer of 0 bytes with blocking calls and no options.
    pub const DEFAULT: Self = Self {
        amount: Amount::Exactly(0),
        repeat: 1,
        timeout: None,
        is_blocking: true,
        batch: None,
    };
}

/// Bytes of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// This number of bytes, in as many calls as needed.
    #[serde(rename = "exactly_bytes")]
    Exactly(u32),
    /// A random number of bytes. A send is one call, which may move fewer bytes; over a layer that
    /// sends records, such as TLS, a send moves all bytes. A receive returns the data of one call,
    /// at most the maximum. In a batch, the number applies to each message.
    Between {
        /// Minimum.
        #[serde(rename = "min_bytes")]
        min: u32,
        /// Maximum.
        #[serde(rename = "max_bytes")]
        max: u32,
    },
}

/// Messages of one transfer that share calls or have options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Batch {
    /// Number of messages; each call moves as many of them as possible.
    pub count: u64,
    /// Options of each message sent over SCTP.
    pub info: Option<SendInfo>,
}

/// Options of one SCTP message: RFC 6458, sections 5.3.4 and 5.3.7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SendInfo {
    /// Stream number, from 0.
    pub stream: u16,
    /// Whether the message may be delivered before earlier ones.
    pub is_unordered: bool,
    /// Rule for abandoning the message; `None` never abandons it.
    pub reliability: Option<PartialReliability>,
}

/// Rule for abandoning a message: RFC 3758, RFC 7496.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartialReliability {
    /// The kind of the limit.
    pub policy: ReliabilityPolicy,
    /// The limit: milliseconds, retransmissions or a priority.
    pub value: u32,
}

/// Kind of the limit after which a message is abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReliabilityPolicy {
    /// Maximum time until the message is sent, in milliseconds: RFC 3758, section 3.
    Lifetime,
    /// Maximum number of retransmissions: RFC 7496, section 3.1.
    Retransmissions,
    /// Priority; 0 is the highest. If the send buffer is full, a message of higher priority
    /// replaces one of lower priority: RFC 7496, section 3.2.
    Priority,
}

impl Amount {
    /// Returns the maximum bytes of one transfer, or of one message of a batch.
    pub fn max_bytes(self) -> u32 {
        match self {
            Self::Exactly(bytes) => bytes,
            Self::Between { min, max } => max.max(min),
        }
    }
}
