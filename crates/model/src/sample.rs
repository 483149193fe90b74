//! Samples of the counters at regular intervals, and records of single datagrams.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::Bytes;

use crate::DatagramCounts;
use crate::nanos::{Nanos, OptionalNanos};

/// Samples of a test or a transaction, in chronological order. The figures of an interval are the
/// difference of two samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// Name of the sampled test, or of the sampled transaction (`Txn1`) of all groups.
    pub name: String,
    /// Start, relative to the start of the run.
    #[serde(rename = "started_after_ns", with = "Nanos")]
    pub started_after: Duration,
    /// The samples, at most a few thousand. Each is cumulative.
    pub samples: Vec<Sample>,
}

/// Cumulative counts and the connection's state at a point in time. Values that were not sampled
/// are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// Time since the start of the series, by the monotonic clock.
    #[serde(rename = "at_ns", with = "Nanos")]
    pub at: Duration,
    /// Bytes accepted by this end's send calls since the start of the series.
    #[serde(rename = "sent_bytes")]
    pub sent: Bytes,
    /// Bytes returned by this end's receive calls since the start of the series.
    #[serde(rename = "received_bytes")]
    pub received: Bytes,
    /// Transactions, or executed steps.
    pub operations: u64,
    /// Sent bytes that the peer has acknowledged; `None` if unknown.
    #[serde(
        rename = "acknowledged_bytes",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub acknowledged: Option<Bytes>,
    /// Counts of the receiver of numbered datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<DatagramCounts>,
    /// State of the connection at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathSample>,
}

impl Sample {
    /// Returns the bytes of both directions, at this end.
    pub fn bytes(&self) -> Bytes {
        self.sent + self.received
    }

    /// Returns the bytes that have arrived at the peer. If unknown, those that this end has sent.
    pub fn arrived_at_peer(&self) -> Bytes {
        self.acknowledged.unwrap_or(self.sent)
    }
}

/// The kernel's state of a connection at a point in time: `struct tcp_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathSample {
    /// The smoothed round-trip time.
    #[serde(rename = "smoothed_rtt_ns", with = "OptionalNanos")]
    pub smoothed_rtt: Option<Duration>,
    /// The mean deviation of the round-trip time.
    #[serde(rename = "rtt_deviation_ns", with = "OptionalNanos")]
    pub rtt_deviation: Option<Duration>,
    /// The congestion window, in bytes.
    pub congestion_window_bytes: Option<u64>,
    /// Segments retransmitted since the connection was opened.
    pub retransmits: Option<u64>,
    /// The path's MTU, in bytes.
    pub path_mtu_bytes: Option<u32>,
    /// The window that the peer has advertised, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_window_bytes: Option<u32>,
    /// Reordering distance in segments beyond which TCP assumes a loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reordering: Option<u32>,
    /// Reordering events that TCP has seen since the connection was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder_events: Option<u32>,
}

/// One arrival of a datagram, or one lost datagram, of a test that records them. A duplicate is a
/// further record with the same number. Records are in the order of arrival if it is known.
/// Datagrams lost after the last arrival have records too; otherwise nothing would show that they
/// were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketRecord {
    /// Sequence number, from 0.
    pub number: u64,
    /// Payload in bytes.
    pub bytes: u32,
    /// Send time since the start of the test, by the sender's clock; `None` without a timestamp.
    #[serde(rename = "sent_ns", with = "OptionalNanos")]
    pub sent: Option<Duration>,
    /// Arrival time since the start of the test, by the receiver's clock; `None` for a lost
    /// datagram.
    #[serde(rename = "received_ns", with = "OptionalNanos")]
    pub received: Option<Duration>,
    /// One-way delay by both clocks, corrected by their difference as far as known; can be
    /// negative.
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
