//! The evidence of a test about the path.

use std::time::Duration;

use crate::result::Throughput;

/// The figures that decide whether a path carries a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// Payload of a datagram.
    pub bytes: u32,
    /// Sent datagrams.
    pub sent: u64,
    /// Datagrams lost by the path, without `dropped`.
    pub lost: u64,
    /// Datagrams dropped by the responder's socket, if known.
    pub dropped: u64,
    /// From the first departure to the last.
    pub departures: Duration,
    /// From the first arrival to the last.
    pub arrivals: Duration,
}

/// The spread of arrivals that scheduling can explain.
const UNAVOIDABLE: Duration = Duration::from_micros(200);

impl Evidence {
    /// Returns the evidence of a test.
    pub fn of(test: &Throughput) -> Self {
        let spaced = test.outcome.here.spaced.as_ref();
        let fate = test.fate();
        // With a stock responder, a repeated datagram may hide a lost one.
        let received = fate.map_or(test.received.received, |fate| fate.received);
        let missing = test.sent.saturating_sub(received);
        let details = test.details.as_ref();
        let dropped = details.map_or(0, |details| details.socket_drops.min(missing));
        Self {
            bytes: test.load.bytes,
            sent: test.sent,
            lost: missing - dropped,
            dropped,
            departures: spaced.map_or(test.send_time, |spaced| spaced.first_to_last),
            arrivals: test.received.elapsed,
        }
    }

    /// Returns the departure rate of payload, in bits per second.
    pub fn offered(&self) -> f64 {
        self.rate(self.sent, self.departures)
    }

    /// Returns the received rate of payload, in bits per second.
    pub fn received(&self) -> f64 {
        self.rate(self.sent - self.lost - self.dropped, self.arrivals)
    }

    /// Returns the rate of payload that the path delivered, in bits per second.
    pub fn delivered(&self) -> f64 {
        self.rate(self.sent - self.lost, self.arrivals)
    }

    /// Divides datagrams by the gaps between them, of which there is one fewer.
    fn rate(&self, datagrams: u64, time: Duration) -> f64 {
        let bits = f64::from(self.bytes) * 8.0 * datagrams.saturating_sub(1) as f64;
        if time.is_zero() {
            return 0.0;
        }
        bits / time.as_secs_f64()
    }

    /// Returns the fraction of datagrams that the path lost.
    pub fn loss(&self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }

    /// Returns the extra time of the arrivals, as a fraction of the time of the departures. A queue grew by this
    /// fraction.
    pub fn stretch(&self) -> f64 {
        let departures = self.departures.as_secs_f64();
        if departures <= 0.0 {
            return 0.0;
        }
        self.arrivals.as_secs_f64() / departures - 1.0
    }

    /// Whether the path carried the rate: almost no loss, and no growing queue.
    pub fn is_carried(&self, tolerated_loss: f64, tolerated_stretch: f64) -> bool {
        let longest = self.departures.mul_f64(1.0 + tolerated_stretch);
        let longest = longest.max(self.departures + UNAVOIDABLE);
        self.sent > 0 && self.loss() <= tolerated_loss && self.arrivals <= longest
    }
}
