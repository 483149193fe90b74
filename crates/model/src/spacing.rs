//! Departure schedule of a test's datagrams, and its results.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use stats::Histogram;

use crate::nanos::Nanos;

/// A schedule for single datagrams. Each datagram has its own send time, relative to the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spacing {
    /// Time from one datagram to the next; zero sends without pauses.
    #[serde(rename = "gap_ns", with = "Nanos")]
    pub gap: Duration,
    /// Bursts with pauses between them; `None` is one burst of all datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<Bursts>,
    /// Handling of late datagrams.
    pub lateness: Lateness,
    /// Method of waiting for a datagram's time.
    pub method: SpacingMethod,
}

/// Bursts of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bursts {
    /// Datagrams per burst, at least 1.
    pub datagrams: u64,
    /// Number of bursts; 0 is unlimited.
    pub count: u64,
    /// Extra pause between a burst's last datagram and the next burst, added to the gap.
    #[serde(rename = "pause_ns", with = "Nanos")]
    pub pause: Duration,
}

/// Handling of late datagrams. All of them are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Lateness {
    /// Send late datagrams without pauses until the sender is on time again. This keeps the mean
    /// gap.
    #[default]
    CatchUp,
    /// Send one datagram immediately and skip the missed times. The other datagrams keep their
    /// scheduled times. Only the gap after the late datagram is shorter than scheduled.
    Skip,
    /// Send the datagram immediately and delay the remaining schedule, so that no gap is shorter
    /// than scheduled. UDPmon does the same.
    Stretch,
}

/// Method of waiting for a datagram's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SpacingMethod {
    /// The sending thread polls the clock; it sleeps for most of a long gap.
    #[default]
    Spin,
    /// The kernel or the NIC sends each datagram at the launch time that it carries: SO_TXTIME with
    /// the queueing discipline fq or etf.
    LaunchTime,
    /// The kernel limits the rate: SO_MAX_PACING_RATE with the queueing discipline fq.
    PacingRate,
}

/// Source of the departure times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DepartureClock {
    /// The sender's clock, read just before the send call.
    #[default]
    Sender,
    /// The kernel's timestamp of the transfer to the driver, for methods in which the kernel delays
    /// the datagrams.
    Driver,
}

/// Result of a [`Spacing`].
#[derive(Clone, Debug, Default)]
pub struct SpacingResult {
    /// Datagrams accepted by the kernel.
    pub sent: u64,
    /// Send calls refused by the kernel. They use no sequence number.
    pub refused: u64,
    /// Sent datagrams that a queueing discipline dropped because their launch time had passed.
    pub missed: u64,
    /// Skipped send times: [`Lateness::Skip`].
    pub skipped: u64,
    /// Time from the first datagram to the last.
    pub first_to_last: Duration,
    /// Time from the first datagram to the end of the last gap, or to the end of the last send call
    /// if that is later.
    pub elapsed: Duration,
    /// Source of the times in `gaps` and `lateness`.
    pub clock: DepartureClock,
    /// Gaps between consecutive datagrams, without the gaps between bursts. The mean is exact.
    pub gaps: Histogram,
    /// Lateness of each datagram.
    pub lateness: Histogram,
}
