//! The search for the highest rate without loss.
//!
//! In a test above the bottleneck's rate, datagrams arrive at that rate. So the search tries the arrival rate of the
//! last test, slightly lower rates and slightly higher ones. It bisects only where these rates do not narrow the
//! bounds.

use crate::options::{Search, gap_of};
use crate::steps::Evidence;

/// A running search.
#[derive(Clone, Debug)]
pub struct Searcher {
    settings: Search,
    bytes: u32,
    /// The highest rate that the path carried, with its test. A rate given by the user has no test.
    low: Option<(f64, Option<Evidence>)>,
    /// The lowest rate that the path did not carry.
    high: Option<(f64, Evidence)>,
    /// The arrival rate of that test.
    bottleneck: Option<f64>,
    /// Whether arrivals did not show the bottleneck's rate.
    is_misled: bool,
    tried: u32,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// The highest rate that the path carried, in bits of payload per second; `None` if it carried none.
    pub rate: Option<f64>,
    /// The test of that rate.
    pub carried: Option<Evidence>,
    /// The test of the lowest rate that the path did not carry; `None` if no rate was too high.
    pub refused: Option<Evidence>,
    /// The reason for the end of the search.
    pub why: Why,
    /// The number of tests.
    pub tests: u32,
}

/// The reason for the end of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The bounds reached the requested precision.
    Precise,
    /// The path carried the highest rate: that of this host, or the upper bound of the search.
    NoBound,
    /// The path did not carry even the lowest rate.
    NothingCarried,
    /// The search ran too many tests, because the path's capacity changes.
    Unsteady,
}

/// The maximum number of tests. A search with more tests indicates a changing path.
const MOST_TESTS: u32 = 40;

/// A rate at which the next bit takes a second.
const LOWEST: f64 = 1000.0;

impl Searcher {
    /// Begins a search with datagrams of this payload.
    pub fn new(settings: Search, bytes: u32) -> Self {
        Self {
            settings,
            bytes,
            low: settings.low.map(|rate| (rate, None)),
            high: None,
            bottleneck: None,
            is_misled: false,
            tried: 0,
        }
    }

    /// Returns the next rate to try, in bits of payload per second, or the result. `None` means as fast as possible.
    pub fn advance(&mut self) -> Result<Option<f64>, Box<Found>> {
        if self.tried == 0 {
            return Ok(self.settings.high);
        }
        let Some((high, _)) = self.high else {
            return Err(self.found(Why::NoBound));
        };
        let low = self.low.map_or(0.0, |(rate, _)| rate);
        let is_one_gap = low > 0.0 && gap_of(self.bytes, low) == gap_of(self.bytes, high);
        if high <= low * (1.0 + self.settings.precision) || is_one_gap {
            return match self.low {
                // No test has tried the given bound.
                Some((rate, None)) => Ok(Some(rate)),
                _ => Err(self.found(Why::Precise)),
            };
        }
        if self.tried >= MOST_TESTS {
            return Err(self.found(Why::Unsteady));
        }
        if high <= LOWEST {
            return Err(self.found(Why::NothingCarried));
        }
        Ok(Some(self.between(low, high)))
    }

    /// Returns a rate between the bounds. Until the path carries a rate, this is the next one below the bottleneck's;
    /// then it is the next one above. If no such rate is between the bounds, returns a rate in the middle.
    fn between(&self, low: f64, high: f64) -> f64 {
        let step = self.settings.precision * 0.45;
        let sign = match self.low {
            Some((_, Some(_))) => 1.0,
            _ => -1.0,
        };
        let steps = [1.0, 3.0, 8.0, 20.0].map(|times| 1.0 + sign * times * step);
        let guesses = self.bottleneck.map(|rate| steps.map(|by| rate * by));
        let is_inside = |rate: &f64| *rate > low * 1.000_1 && *rate < high * 0.999_9;
        let middle = if low > high / 4.0 {
            f64::midpoint(low, high)
        } else {
            high / 2.0
        };
        let guess = guesses.into_iter().flatten().find(is_inside);
        guess.unwrap_or(middle)
    }

    /// Handles the evidence of the test that [`Self::advance`] requested. Returns whether the path carried the rate.
    pub fn saw(&mut self, asked: Option<f64>, evidence: &Evidence) -> bool {
        self.tried += 1;
        let settings = &self.settings;
        let is_carried = evidence.is_carried(settings.tolerated, settings.precision * 0.3);
        let offered = evidence.offered();
        if is_carried {
            // A sender below the requested rate gives no evidence about that rate.
            let rate = asked.map_or(offered, |asked| asked.min(offered));
            self.low = Some((rate, Some(*evidence)));
        } else {
            let rate = asked.unwrap_or(offered).max(offered.min(LOWEST));
            self.high = Some((rate, *evidence));
            // Loss below the delivered rate has another cause than a bottleneck, so the bottleneck's rate is unknown.
            self.is_misled |= self.bottleneck.is_some_and(|seen| rate < seen);
            let seen = evidence.delivered();
            self.bottleneck = (seen > 0.0 && !self.is_misled).then_some(seen);
            // The path no longer carries the lower bound, or never carried the given one.
            self.low = self.low.filter(|(low, _)| *low < rate);
        }
        is_carried
    }

    fn found(&self, why: Why) -> Box<Found> {
        let tested = self.low.and_then(|(rate, test)| Some((rate, test?)));
        let why = match (why, tested) {
            (Why::Precise, None) => Why::NothingCarried,
            _ => why,
        };
        Box::new(Found {
            rate: tested.map(|(rate, _)| rate),
            carried: tested.map(|(_, test)| test),
            refused: self.high.map(|(_, test)| test),
            why,
            tests: self.tried,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A bottleneck with a queue. Its first bytes may pass at any rate.
    struct Link {
        bits_per_second: f64,
        queue_bytes: f64,
        bucket_bytes: f64,
        fastest: f64,
        /// One of this number of datagrams is lost at any rate.
        loses_one_of: u64,
    }

    const LINK: Link = Link {
        bits_per_second: 1e8,
        queue_bytes: 1e5,
        bucket_bytes: 0.0,
        fastest: 2e9,
        loses_one_of: u64::MAX,
    };

    impl Link {
        /// The datagrams of one second, or the requested number.
        fn carry(&self, bytes: u32, rate: Option<f64>, count: Option<u64>) -> Evidence {
            let bits = f64::from(bytes) * 8.0;
            let rate = rate.unwrap_or(self.fastest).min(self.fastest);
            let sent = count.unwrap_or((rate / bits) as u64).max(2);
            let gap = bits / rate;
            let departures = gap * (sent - 1) as f64;
            let (mut free_at, mut arrivals, mut lost) = (0.0_f64, 0.0, 0);
            let service = bits / self.bits_per_second;
            let bucket = self.bucket_bytes * 8.0 / self.bits_per_second;
            for number in 0..sent {
                let now = gap * number as f64;
                let wait = (free_at - now - bucket).max(0.0);
                let is_full = wait * self.bits_per_second / 8.0 > self.queue_bytes;
                if is_full || (number + 1) % self.loses_one_of == 0 {
                    lost += 1;
                    continue;
                }
                free_at = free_at.max(now) + service;
                arrivals = now + wait;
            }
            Evidence {
                bytes,
                sent,
                lost,
                dropped: 0,
                departures: Duration::from_secs_f64(departures),
                arrivals: Duration::from_secs_f64(arrivals),
            }
        }

        fn search(&self, bytes: u32, settings: Search, count: Option<u64>) -> Found {
            let mut searcher = Searcher::new(settings, bytes);
            loop {
                match searcher.advance() {
                    Ok(rate) => {
                        // The gap of sent datagrams is a whole number of nanoseconds.
                        let sent = rate
                            .map(|rate| f64::from(bytes) * 8.0 / gap_of(bytes, rate).as_secs_f64());
                        searcher.saw(rate, &self.carry(bytes, sent, count))
                    }
                    Err(found) => return *found,
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
                    let found = link.search(bytes, Search::default(), None);
                    let rate = found.rate.unwrap();
                    let off = rate / bits_per_second - 1.0;
                    assert!(
                        off.abs() < 0.01,
                        "{bits_per_second} {queue_bytes} {bucket_bytes} {bytes}: {found:?}"
                    );
                    assert_eq!(found.why, Why::Precise);
                    assert!(found.tests <= 12, "{found:?}");
                    assert!(found.carried.unwrap().lost == 0 && found.refused.is_some());
                }
            }
        }
    }

    #[test]
    fn a_search_ends_at_its_bounds() {
        let bounded = |low: Option<f64>, high: Option<f64>| Search {
            low,
            high,
            ..Search::default()
        };
        let found = LINK.search(1400, bounded(None, Some(5e7)), None);
        assert_eq!((found.why, found.tests), (Why::NoBound, 1));
        assert!((found.rate.unwrap() / 5e7 - 1.0).abs() < 1e-3);
        let found = LINK.search(1400, bounded(Some(9e7), Some(2e8)), None);
        assert!((found.rate.unwrap() / 1e8 - 1.0).abs() < 0.01, "{found:?}");
        // The search discards a bound that is too high.
        let found = LINK.search(1400, bounded(Some(1.5e8), Some(2e8)), None);
        assert!((found.rate.unwrap() / 1e8 - 1.0).abs() < 0.01, "{found:?}");
        let slow = Link {
            fastest: 5e7,
            ..LINK
        };
        let found = slow.search(1400, Search::default(), None);
        assert_eq!((found.why, found.tests), (Why::NoBound, 1));
    }

    #[test]
    fn loss_at_any_rate_is_found_out() {
        let lossy = Link {
            loses_one_of: 50,
            ..LINK
        };
        let found = lossy.search(1400, Search::default(), Some(1000));
        assert_eq!((found.rate, found.why), (None, Why::NothingCarried));
        let tolerant = Search {
            tolerated: 0.03,
            ..Search::default()
        };
        let found = lossy.search(1400, tolerant, None);
        assert!((found.rate.unwrap() / 1e8 - 1.0).abs() < 0.04, "{found:?}");
        let dead = Link {
            loses_one_of: 1,
            ..LINK
        };
        assert_eq!(
            dead.search(1400, Search::default(), Some(9)).why,
            Why::NothingCarried
        );
    }

    /// A few datagrams do not fill the queue, but they arrive later and later.
    #[test]
    fn a_queue_that_is_not_full_shows_the_rate() {
        let link = Link {
            queue_bytes: 1e9,
            ..LINK
        };
        let found = link.search(1400, Search::default(), Some(20_000));
        assert!((found.rate.unwrap() / 1e8 - 1.0).abs() < 0.01, "{found:?}");
    }
}
