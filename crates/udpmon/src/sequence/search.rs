//! The search for the highest rate without loss.
//!
//! In a test above the bottleneck's rate, datagrams arrive at the bottleneck's rate. The search
//! therefore tries rates slightly below and slightly above the arrival rate of the last test. It
//! bisects only if these rates are outside of the bounds.

use crate::options::{SearchSettings, gap_for_rate};
use crate::sequence::PathEvidence;

/// A running search.
#[derive(Clone, Debug)]
pub struct Searcher {
    settings: SearchSettings,
    bytes: u32,
    /// The highest rate that the path carried, and its test. A bound given by the user has no test
    /// yet.
    low: Option<(f64, Option<PathEvidence>)>,
    /// The lowest rate that the path did not carry, and its test.
    high: Option<(f64, PathEvidence)>,
    /// The arrival rate of the last test that the path did not carry.
    bottleneck_rate: Option<f64>,
    /// Whether the arrival rate does not show the bottleneck's rate.
    is_bottleneck_hidden: bool,
    test_count: u32,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchResult {
    /// The highest rate that the path carried, in bits of payload per second; `None` if it carried
    /// none.
    pub rate: Option<f64>,
    /// The test with this rate.
    pub carried_test: Option<PathEvidence>,
    /// The test with the lowest rate that the path did not carry; `None` if the path carried all
    /// rates.
    pub failed_test: Option<PathEvidence>,
    /// The reason for the end of the search.
    pub end: SearchEnd,
    /// The number of tests.
    pub test_count: u32,
}

/// The reason for the end of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchEnd {
    /// The bounds reached the requested precision.
    Precise,
    /// The path carried the highest rate: the maximum of this host, or the upper bound of the
    /// search.
    MaxRateCarried,
    /// The path did not carry even the lowest rate.
    NothingCarried,
    /// The search reached the maximum number of tests. The path's capacity probably changes.
    Unsteady,
}

/// The maximum number of tests. More tests are necessary only if the path changes.
const MAX_TESTS: u32 = 40;

/// The search ends if its upper bound is at most this rate, in bits of payload per second.
const MIN_RATE: f64 = 1000.0;

impl Searcher {
    /// Creates a search with datagrams of this payload in bytes.
    pub fn new(settings: SearchSettings, bytes: u32) -> Self {
        Self {
            settings,
            bytes,
            low: settings.low.map(|rate| (rate, None)),
            high: None,
            bottleneck_rate: None,
            is_bottleneck_hidden: false,
            test_count: 0,
        }
    }

    /// Returns the next rate to try, in bits of payload per second; `None` means as fast as
    /// possible. At the end, returns the result as an error.
    pub fn advance(&mut self) -> Result<Option<f64>, Box<SearchResult>> {
        if self.test_count == 0 {
            return Ok(self.settings.high);
        }
        let Some((high, _)) = self.high else {
            return Err(self.result(SearchEnd::MaxRateCarried));
        };
        let low = self.low.map_or(0.0, |(rate, _)| rate);
        let is_same_gap =
            low > 0.0 && gap_for_rate(self.bytes, low) == gap_for_rate(self.bytes, high);
        if high <= low * (1.0 + self.settings.precision) || is_same_gap {
            return match self.low {
                // No test has tried the user's lower bound yet.
                Some((rate, None)) => Ok(Some(rate)),
                _ => Err(self.result(SearchEnd::Precise)),
            };
        }
        if self.test_count >= MAX_TESTS {
            return Err(self.result(SearchEnd::Unsteady));
        }
        if high <= MIN_RATE {
            return Err(self.result(SearchEnd::NothingCarried));
        }
        Ok(Some(self.rate_between(low, high)))
    }

    /// Returns a rate between the bounds. Until a test is carried, this is a rate slightly below
    /// the bottleneck's; then a rate slightly above it. If none of these is between the bounds,
    /// returns a rate in the middle.
    fn rate_between(&self, low: f64, high: f64) -> f64 {
        let step = self.settings.precision * 0.45;
        let sign = match self.low {
            Some((_, Some(_))) => 1.0,
            _ => -1.0,
        };
        let steps = [1.0, 3.0, 8.0, 20.0].map(|multiple| 1.0 + sign * multiple * step);
        let guesses = self
            .bottleneck_rate
            .map(|rate| steps.map(|factor| rate * factor));
        let is_inside = |rate: &f64| *rate > low * 1.000_1 && *rate < high * 0.999_9;
        let middle = if low > high / 4.0 {
            f64::midpoint(low, high)
        } else {
            high / 2.0
        };
        let guess = guesses.into_iter().flatten().find(is_inside);
        guess.unwrap_or(middle)
    }

    /// Evaluates the test that [`Self::advance`] requested. Returns whether the path carried the
    /// rate.
    pub fn record_evidence(&mut self, requested: Option<f64>, evidence: &PathEvidence) -> bool {
        self.test_count += 1;
        let settings = &self.settings;
        let is_carried = evidence.is_carried(settings.tolerated_loss, settings.precision * 0.3);
        let offered = evidence.offered_rate();
        if is_carried {
            // If the sender was slower than requested, the test proves only the rate of the sender.
            let rate = requested.map_or(offered, |requested| requested.min(offered));
            self.low = Some((rate, Some(*evidence)));
        } else {
            let rate = requested.unwrap_or(offered).max(offered.min(MIN_RATE));
            self.high = Some((rate, *evidence));
            // Loss at a rate below the previous arrival rate has another cause than a bottleneck.
            self.is_bottleneck_hidden |=
                self.bottleneck_rate.is_some_and(|previous| rate < previous);
            let delivered = evidence.delivered_rate();
            self.bottleneck_rate =
                (delivered > 0.0 && !self.is_bottleneck_hidden).then_some(delivered);
            // Discard a lower bound that is not below this rate: the path does not carry it now.
            self.low = self.low.filter(|(low, _)| *low < rate);
        }
        is_carried
    }

    fn result(&self, end: SearchEnd) -> Box<SearchResult> {
        let tested = self.low.and_then(|(rate, test)| Some((rate, test?)));
        let end = match (end, tested) {
            (SearchEnd::Precise, None) => SearchEnd::NothingCarried,
            _ => end,
        };
        Box::new(SearchResult {
            rate: tested.map(|(rate, _)| rate),
            carried_test: tested.map(|(_, test)| test),
            failed_test: self.high.map(|(_, test)| test),
            end,
            test_count: self.test_count,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A bottleneck with a queue and a token bucket.
    struct Link {
        bits_per_second: f64,
        queue_bytes: f64,
        bucket_bytes: f64,
        max_send_rate: f64,
        /// One of each `loss_interval` datagrams is lost, at any sending rate.
        loss_interval: u64,
    }

    const LINK: Link = Link {
        bits_per_second: 1e8,
        queue_bytes: 1e5,
        bucket_bytes: 0.0,
        max_send_rate: 2e9,
        loss_interval: u64::MAX,
    };

    impl Link {
        /// Carries the datagrams of one second, or `count` datagrams.
        fn carry(&self, bytes: u32, rate: Option<f64>, count: Option<u64>) -> PathEvidence {
            let bits = f64::from(bytes) * 8.0;
            let rate = rate.unwrap_or(self.max_send_rate).min(self.max_send_rate);
            let sent = count.unwrap_or((rate / bits) as u64).max(2);
            let gap = bits / rate;
            let departure_span = gap * (sent - 1) as f64;
            let (mut free_at, mut last_arrival, mut lost) = (0.0_f64, 0.0, 0);
            let service_time = bits / self.bits_per_second;
            let bucket_time = self.bucket_bytes * 8.0 / self.bits_per_second;
            for number in 0..sent {
                let sent_at = gap * number as f64;
                let wait = (free_at - sent_at - bucket_time).max(0.0);
                let is_full = wait * self.bits_per_second / 8.0 > self.queue_bytes;
                if is_full || (number + 1) % self.loss_interval == 0 {
                    lost += 1;
                    continue;
                }
                free_at = free_at.max(sent_at) + service_time;
                last_arrival = sent_at + wait;
            }
            PathEvidence {
                bytes,
                sent,
                lost,
                dropped: 0,
                departure_span: Duration::from_secs_f64(departure_span),
                arrival_span: Duration::from_secs_f64(last_arrival),
            }
        }

        fn search(&self, bytes: u32, settings: SearchSettings, count: Option<u64>) -> SearchResult {
            let mut searcher = Searcher::new(settings, bytes);
            loop {
                match searcher.advance() {
                    Ok(rate) => {
                        // The sender's gap is a whole number of nanoseconds.
                        let sent = rate.map(|rate| {
                            f64::from(bytes) * 8.0 / gap_for_rate(bytes, rate).as_secs_f64()
                        });
                        searcher.record_evidence(rate, &self.carry(bytes, sent, count))
                    }
                    Err(result) => return *result,
                };
            }
        }
    }

    #[test]
    fn a_search_converges_on_the_links_rate() {
        for bits_per_second in [1e6, 1e7, 9.4e7, 1e9, 1.9e9] {
            for (queue_bytes, bucket_bytes) in [
                (3e3, 0.0),
                (1e5, 0.0),
                (1e6, 0.0),
                (1e5, bits_per_second / 8e3),
                (1e4, bits_per_second / 4e3),
            ] {
                for bytes in [100, 1472] {
                    let link = Link {
                        bits_per_second,
                        queue_bytes,
                        bucket_bytes,
                        ..LINK
                    };
                    let result = link.search(bytes, SearchSettings::default(), None);
                    let rate = result.rate.unwrap();
                    let error = rate / bits_per_second - 1.0;
                    assert!(
                        error.abs() < 0.01,
                        "{bits_per_second} {queue_bytes} {bucket_bytes} {bytes}: {result:?}"
                    );
                    assert_eq!(result.end, SearchEnd::Precise);
                    assert!(result.test_count <= 12, "{result:?}");
                    assert!(result.carried_test.unwrap().lost == 0 && result.failed_test.is_some());
                }
            }
        }
    }

    #[test]
    fn a_search_ends_at_its_bounds() {
        let bounded = |low: Option<f64>, high: Option<f64>| SearchSettings {
            low,
            high,
            ..SearchSettings::default()
        };
        let result = LINK.search(1400, bounded(None, Some(5e7)), None);
        assert_eq!(
            (result.end, result.test_count),
            (SearchEnd::MaxRateCarried, 1)
        );
        assert!((result.rate.unwrap() / 5e7 - 1.0).abs() < 1e-3);
        let result = LINK.search(1400, bounded(Some(9e7), Some(2e8)), None);
        assert!(
            (result.rate.unwrap() / 1e8 - 1.0).abs() < 0.01,
            "{result:?}"
        );
        // The search discards a lower bound that is too high.
        let result = LINK.search(1400, bounded(Some(1.5e8), Some(2e8)), None);
        assert!(
            (result.rate.unwrap() / 1e8 - 1.0).abs() < 0.01,
            "{result:?}"
        );
        let slow = Link {
            max_send_rate: 5e7,
            ..LINK
        };
        let result = slow.search(1400, SearchSettings::default(), None);
        assert_eq!(
            (result.end, result.test_count),
            (SearchEnd::MaxRateCarried, 1)
        );
    }

    #[test]
    fn loss_at_any_rate_ends_the_search() {
        let lossy = Link {
            loss_interval: 50,
            ..LINK
        };
        let result = lossy.search(1400, SearchSettings::default(), Some(1000));
        assert_eq!((result.rate, result.end), (None, SearchEnd::NothingCarried));
        let tolerant = SearchSettings {
            tolerated_loss: 0.03,
            ..SearchSettings::default()
        };
        let result = lossy.search(1400, tolerant, None);
        assert!(
            (result.rate.unwrap() / 1e8 - 1.0).abs() < 0.04,
            "{result:?}"
        );
        let dead = Link {
            loss_interval: 1,
            ..LINK
        };
        assert_eq!(
            dead.search(1400, SearchSettings::default(), Some(9)).end,
            SearchEnd::NothingCarried
        );
    }

    /// The datagrams are too few to fill the queue, but their delay grows.
    #[test]
    fn growing_delay_shows_the_links_rate() {
        let link = Link {
            queue_bytes: 1e9,
            ..LINK
        };
        let result = link.search(1400, SearchSettings::default(), Some(20_000));
        assert!(
            (result.rate.unwrap() / 1e8 - 1.0).abs() < 0.01,
            "{result:?}"
        );
    }
}
