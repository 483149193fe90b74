//! What a test showed about the path.

use std::time::Duration;

use crate::result::Throughput;

/// The figures that decide whether a path carries a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// Payload of a datagram.
    pub bytes: u32,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Those that the path lost: without `dropped`.
    pub lost: u64,
    /// Those that the responder's socket dropped, as far as that is known.
    pub dropped: u64,
    /// From the first departure to the last.
    pub departures: Duration,
    /// From the first arrival to the last.
    pub arrivals: Duration,
}

/// A spread of arrivals that scheduling explains.
const UNAVOIDABLE: Duration = Duration::from_micros(200);

impl Evidence {
    /// The evidence of a test.
    pub fn of(test: &Throughput) -> Self {
        let spaced = test.outcome.here.spaced.as_ref();
        let fate = test.fate();
        // Of a stock responder a repeated datagram may hide a lost one.
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

    /// The rate of payload with which datagrams left, in bits per second.
    pub fn offered(&self) -> f64 {
        self.rate(self.sent, self.departures)
    }

    /// The rate of payload with which datagrams were received, in bits per second.
    pub fn received(&self) -> f64 {
        self.rate(self.sent - self.lost - self.dropped, self.arrivals)
    }

    /// The rate of payload with which the path delivered datagrams, in bits per second.
    pub fn delivered(&self) -> f64 {
        self.rate(self.sent - self.lost, self.arrivals)
    }

    /// Datagrams over the gaps between them, of which there is one less.
    fn rate(&self, datagrams: u64, time: Duration) -> f64 {
        let bits = f64::from(self.bytes) * 8.0 * datagrams.saturating_sub(1) as f64;
        if time.is_zero() {
            return 0.0;
        }
        bits / time.as_secs_f64()
    }

    /// The part of the datagrams that the path lost.
    pub fn loss(&self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }

    /// How much longer arrivals took than departures, as a part of the departures' time: a queue grew by that.
    pub fn stretch(&self) -> f64 {
        let departures = self.departures.as_secs_f64();
        if departures <= 0.0 {
            return 0.0;
        }
        self.arrivals.as_secs_f64() / departures - 1.0
    }

    /// Whether the path carried it: hardly anything was lost, and no queue grew.
    pub fn is_carried(&self, tolerated_loss: f64, tolerated_stretch: f64) -> bool {
        let longest = self.departures.mul_f64(1.0 + tolerated_stretch);
        let longest = longest.max(self.departures + UNAVOIDABLE);
        self.sent > 0 && self.loss() <= tolerated_loss && self.arrivals <= longest
    }
}
