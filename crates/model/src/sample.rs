//! What was looked at while a test ran: samples on a time grid, and records of single datagrams.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::Bytes;

use crate::DatagramCounts;
use crate::outcome::optional_nanos;
use crate::plan::nanos;

/// Samples of something that ran, in the order of time. An interval's figures are the difference of two
/// samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What was sampled: a test, a transaction of all groups (`Txn1`).
    pub name: String,
    /// When it began, since the run did.
    #[serde(rename = "begun_ns", with = "nanos")]
    pub begun: Duration,
    /// At most some thousands; each has all that came before it.
    pub samples: Vec<Sample>,
}

/// What had been moved by a time, and what was seen then. What nobody looked at is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Since its series began, by the monotonic clock.
    #[serde(rename = "at_ns", with = "nanos")]
    pub at: Duration,
    /// Bytes that this end's calls took since then.
    #[serde(rename = "sent_bytes")]
    pub sent: Bytes,
    /// Bytes that they gave.
    #[serde(rename = "received_bytes")]
    pub received: Bytes,
    /// Transactions, or executions of steps.
    pub operations: u64,
    /// What the receiver knows of datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramCounts>,
    /// The connection at that moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathSample>,
}

impl Sample {
    /// Both directions.
    pub fn bytes(&self) -> Bytes {
        self.sent + self.received
    }
}

/// What the kernel knows of a connection at one moment: `struct tcp_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathSample {
    /// The smoothed round-trip time.
    #[serde(rename = "smoothed_rtt_ns", with = "optional_nanos")]
    pub smoothed_rtt: Option<Duration>,
    /// Its mean deviation.
    #[serde(rename = "rtt_deviation_ns", with = "optional_nanos")]
    pub rtt_deviation: Option<Duration>,
    /// The congestion window, in bytes.
    pub congestion_window_bytes: Option<u64>,
    /// Segments sent again since the connection was opened.
    pub retransmits: Option<u64>,
    /// The path's MTU, in bytes.
    pub path_mtu_bytes: Option<u32>,
    /// The window that the peer has advertised, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_window_bytes: Option<u32>,
    /// How far segments may be out of order before one counts as lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordering: Option<u32>,
}

/// One arrival of a datagram, or one lost datagram, of a test that records them. A duplicate is a further record with the
/// same number. Records are in the order of arrival where it is known. Datagrams that were lost after the last arrival
/// have records, as otherwise nothing shows that they were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PacketRecord {
    /// Its number, from 0.
    pub number: u64,
    /// Its payload, in bytes.
    pub bytes: u32,
    /// When it was sent, since the test began, by the sender's clock; `None` of one that the sender did
    /// not stamp.
    #[serde(rename = "sent_ns", with = "optional_nanos")]
    pub sent: Option<Duration>,
    /// When it came, since the test began, by the receiver's clock; `None` of one that was lost.
    #[serde(rename = "received_ns", with = "optional_nanos")]
    pub received: Option<Duration>,
    /// Its delay by both clocks, as far as their difference is known; it can be negative.
    pub one_way_delay_ns: Option<i64>,
}

impl From<&PacketRecord> for stats::Packet {
    fn from(record: &PacketRecord) -> Self {
        let ns = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        Self {
            number: record.number,
            bytes: record.bytes,
            sent_ns: record.sent.map(ns),
            received_ns: record.received.map(ns),
            delay_ns: record.one_way_delay_ns,
        }
    }
}
