//! The evidence of a test: whether the path carried its rate.

use std::time::Duration;

use crate::result::ThroughputResult;
use crate::wire::ResponderDetails;

/// The figures that decide whether a path carries a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathEvidence {
    /// Payload of a datagram.
    pub bytes: u32,
    /// Sent datagrams.
    pub sent: u64,
    /// Datagrams lost on the path, without `dropped`.
    pub lost: u64,
    /// Datagrams dropped by the responder's socket; 0 if unknown.
    pub dropped: u64,
    /// The time from the first departure to the last.
    pub departure_span: Duration,
    /// The time from the first arrival to the last.
    pub arrival_span: Duration,
}

/// The tolerated extra time of the arrivals, which scheduling can cause.
const SCHEDULING_SPREAD: Duration = Duration::from_micros(200);

impl PathEvidence {
    /// Returns the evidence of a test.
    pub fn from_test(test: &ThroughputResult) -> Self {
        let spacing = test.outcome.local.spacing_result.as_ref();
        let delivery = test.delivery_counts();
        // With a stock responder, a repeated datagram may hide a lost one.
        let received = delivery.map_or(test.receiver_counts.received, |counts| counts.received);
        let missing = test.sent.saturating_sub(received);
        let details = test.details.as_ref();
        let dropped = details.and_then(ResponderDetails::socket_drops);
        let dropped = dropped.unwrap_or(0).min(missing);
        Self {
            bytes: test.load.bytes,
            sent: test.sent,
            lost: missing - dropped,
            dropped,
            departure_span: spacing.map_or(test.send_time, |spacing| spacing.first_to_last),
            arrival_span: test.receiver_counts.elapsed,
        }
    }

    /// Returns the payload rate of the departures, in bits per second.
    pub fn offered_rate(&self) -> f64 {
        self.rate(self.sent, self.departure_span)
    }

    /// Returns the payload rate of the received datagrams, in bits per second.
    pub fn received_rate(&self) -> f64 {
        self.rate(self.sent - self.lost - self.dropped, self.arrival_span)
    }

    /// Returns the payload rate that the path delivered, in bits per second. It includes datagrams
    /// dropped by the responder's socket.
    pub fn delivered_rate(&self) -> f64 {
        self.rate(self.sent - self.lost, self.arrival_span)
    }

    /// Returns the payload rate of `datagrams` over the time from the first to the last one. This
    /// time consists of `datagrams - 1` gaps.
    fn rate(&self, datagrams: u64, time: Duration) -> f64 {
        let bits = f64::from(self.bytes) * 8.0 * datagrams.saturating_sub(1) as f64;
        if time.is_zero() {
            return 0.0;
        }
        bits / time.as_secs_f64()
    }

    /// Returns the fraction of datagrams that the path lost.
    pub fn lost_fraction(&self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }

    /// Returns the extra time of the arrivals over the departures, as a fraction of the latter. It
    /// shows how fast a queue grew.
    pub fn arrival_stretch(&self) -> f64 {
        let departures = self.departure_span.as_secs_f64();
        if departures <= 0.0 {
            return 0.0;
        }
        self.arrival_span.as_secs_f64() / departures - 1.0
    }

    /// Returns whether the path carried the rate: loss and arrival stretch are tolerable.
    pub fn is_carried(&self, tolerated_loss: f64, tolerated_stretch: f64) -> bool {
        let max_span = self.departure_span.mul_f64(1.0 + tolerated_stretch);
        let max_span = max_span.max(self.departure_span + SCHEDULING_SPREAD);
        self.sent > 0 && self.lost_fraction() <= tolerated_loss && self.arrival_span <= max_span
    }
}
