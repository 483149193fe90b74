//! When each of a test's datagrams leaves, and what became of that.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use stats::Histogram;

use crate::plan::nanos;

/// A schedule for single datagrams, each with a time of its own, which counts from the first one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spacing {
    /// From one datagram's time to the next one's; zero is as fast as it goes.
    #[serde(rename = "gap_ns", with = "nanos")]
    pub gap: Duration,
    /// Bursts with pauses between them; `None` is one burst of all datagrams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<Bursts>,
    /// What becomes of a time that has passed.
    pub lateness: Lateness,
    /// Who waits for a datagram's time.
    pub method: SpacingMethod,
}

/// Bursts of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bursts {
    /// Datagrams a burst, at least 1.
    pub datagrams: u64,
    /// Bursts; 0 is without end.
    pub count: u64,
    /// What is added to the gap between a burst's last datagram and the next burst.
    #[serde(rename = "pause_ns", with = "nanos")]
    pub pause: Duration,
}

/// What a sender does that is late for one or more datagrams. None is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lateness {
    /// Sends them at once, until it is on time again: the mean gap holds.
    #[default]
    CatchUp,
    /// Sends one at once, and leaves out the times that have passed: no gap is shorter than the schedule's, but for the one
    /// after it, and the others stay on the schedule's times.
    Skip,
    /// Sends it at once, and moves the rest of the schedule: no gap is shorter. So does UDPmon.
    Stretch,
}

/// Who waits for a datagram's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpacingMethod {
    /// The sending thread, which reads the clock all the time; most of a long gap is slept.
    #[default]
    Spin,
    /// The kernel or the NIC, by a time with each datagram: SO_TXTIME with the queueing discipline fq or etf.
    LaunchTime,
    /// The kernel, by a rate: SO_MAX_PACING_RATE with the queueing discipline fq.
    PacingRate,
}

/// Who says when a datagram left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DepartureClock {
    /// The sender: the clock read that decided to send it.
    #[default]
    Sender,
    /// The kernel, which stamped it when its driver took it: where the kernel keeps datagrams until their time.
    Driver,
}

/// What became of a [`Spacing`].
#[derive(Clone, Debug, Default)]
pub struct Spaced {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// Sends that the kernel refused; none of them used a number.
    pub refused: u64,
    /// Of those sent, the datagrams that a queueing discipline dropped because their launch time had passed.
    pub missed: u64,
    /// Times that passed and were left out: [`Lateness::Skip`].
    pub skipped: u64,
    /// From the first datagram's time to the last one's.
    pub first_to_last: Duration,
    /// From the first datagram's time to the end of the last one's gap, or of its send call if that was later.
    pub elapsed: Duration,
    /// Whose times gaps and lateness are of.
    pub clock: DepartureClock,
    /// Gaps between datagrams that left one after the other; those between two bursts are not in it. Its mean is exact.
    pub gaps: Histogram,
    /// How late each was for its time.
    pub lateness: Histogram,
}
