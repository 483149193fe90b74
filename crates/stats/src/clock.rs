//! Offset and skew between the clocks of two hosts, from request-response exchanges.

use serde::{Deserialize, Serialize};

/// One request and its response. Each clock may have any zero point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockExchange {
    /// Departure of the request, by the requester's clock.
    pub sent_ns: i64,
    /// Time in the response, by the responder's clock.
    pub responded_ns: i64,
    /// Arrival of the response, by the requester's clock.
    pub received_ns: i64,
}

/// The responder's clock relative to the requester's.
///
/// The offset is that of the exchange with the shortest round trip. Its error is half the
/// difference between the two directions' delays, which no exchange can show. Half the shortest
/// round trip bounds this error.
///
/// The error is the same in all exchanges, so only the excess over the shortest round trip limits
/// the precision of the skew. The fit divides the time into slices and takes the exchange with the
/// shortest round trip of each slice. It computes the skew from the two of them with the smallest
/// error bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockFit {
    /// Time of the best exchange, by the responder's clock.
    pub at_ns: i64,
    /// The responder's clock minus the requester's clock at this time.
    pub offset_ns: i64,
    /// Error bound of the offset: half the shortest round trip plus half the resolution of the
    /// response's time.
    pub offset_error_ns: u64,
    /// Relative speed of the responder's clock, in parts per million, positive if it is faster.
    /// `None` if the exchanges are too close in time.
    pub skew_ppm: Option<f64>,
    /// Error bound of the skew, if the asymmetry of the path does not change.
    pub skew_error_ppm: f64,
    /// The shortest round trip.
    pub least_rtt_ns: u64,
    /// Count of exchanges.
    pub exchanges: usize,
}

/// Number of time slices; the fit takes one exchange of each.
const SLICES: usize = 16;

/// Maximum difference in speed between the clocks of two hosts, for two uncorrected quartz
/// oscillators. A skew with a larger error is useless.
const MAX_SKEW_PPM: f64 = 100.0;

/// An exchange as a sample of the offset, in nanoseconds.
#[derive(Clone, Copy)]
struct OffsetSample {
    at: i64,
    offset: i64,
    rtt: u64,
}

impl ClockFit {
    /// Fits exchanges whose response times are truncated to multiples of `resolution_ns`. Returns
    /// `None` without an exchange.
    pub fn from_exchanges(exchanges: &[ClockExchange], resolution_ns: u64) -> Option<Self> {
        let half_step = i64::try_from(resolution_ns / 2).ok()?;
        let samples: Vec<OffsetSample> = exchanges
            .iter()
            .filter_map(|exchange| to_sample(exchange, half_step))
            .collect();
        let best = samples.iter().min_by_key(|sample| sample.rtt)?;
        let excess_ns = |sample: &OffsetSample| {
            (sample.rtt - best.rtt) as f64 / 2.0 + resolution_ns as f64 / 2.0
        };
        let fastest = fastest_per_slice(&samples);
        let pairs = (1..fastest.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
        let skews = pairs.filter_map(|(a, b)| {
            let (a, b) = (&fastest[a], &fastest[b]);
            let time_ns = b.at.saturating_sub(a.at) as f64;
            let error = (excess_ns(a) + excess_ns(b)) / time_ns;
            (time_ns > 0.0).then(|| (error, b.offset.saturating_sub(a.offset) as f64 / time_ns))
        });
        let (error, skew) = skews
            .map(|(error, skew)| (error * 1e6, skew * 1e6))
            .min_by(|(a, _), (b, _)| a.total_cmp(b))
            .filter(|(error, _)| *error <= MAX_SKEW_PPM)
            .map_or((MAX_SKEW_PPM, None), |(error, skew)| (error, Some(skew)));
        Some(Self {
            at_ns: best.at,
            offset_ns: best.offset,
            offset_error_ns: best.rtt.div_ceil(2) + resolution_ns.div_ceil(2),
            skew_ppm: skew,
            skew_error_ppm: error,
            least_rtt_ns: best.rtt,
            exchanges: samples.len(),
        })
    }

    /// Converts a time from the responder's clock to the requester's.
    pub fn to_requester_ns(&self, responder_ns: i64) -> i64 {
        let elapsed_ns = responder_ns.saturating_sub(self.at_ns) as f64;
        let drift_ns = self.skew_ppm.unwrap_or(0.0) * 1e-6 * elapsed_ns;
        responder_ns
            .saturating_sub(self.offset_ns)
            .saturating_sub(drift_ns.round() as i64)
    }

    /// Returns the one-way delay of a packet, from its departure (requester's clock) to its arrival
    /// (responder's clock).
    pub fn delay_ns(&self, sent_ns: i64, received_ns: i64) -> i64 {
        self.to_requester_ns(received_ns).saturating_sub(sent_ns)
    }

    /// Returns the error bound of the delay of a packet that arrived at this time of the
    /// responder's clock.
    pub fn delay_error_ns(&self, responder_ns: i64) -> u64 {
        let elapsed_ns = responder_ns.abs_diff(self.at_ns) as f64;
        let drift_ns = (elapsed_ns * self.skew_error_ppm * 1e-6).ceil() as u64;
        self.offset_error_ns.saturating_add(drift_ns)
    }
}

/// Converts an exchange to a sample; `None` if the response arrived before its request was sent.
fn to_sample(exchange: &ClockExchange, half_step: i64) -> Option<OffsetSample> {
    let rtt = exchange.received_ns.checked_sub(exchange.sent_ns)?;
    let at = exchange.responded_ns.checked_add(half_step)?;
    Some(OffsetSample {
        at,
        offset: at.checked_sub(exchange.sent_ns + rtt / 2)?,
        rtt: u64::try_from(rtt).ok()?,
    })
}

/// Returns the sample with the shortest round trip of each slice, ordered by time.
fn fastest_per_slice(samples: &[OffsetSample]) -> Vec<OffsetSample> {
    let times = samples.iter().map(|sample| sample.at);
    let (Some(first), Some(last)) = (times.clone().min(), times.max()) else {
        return Vec::new();
    };
    let width = (last.abs_diff(first) / SLICES as u64 + 1).max(1);
    let mut fastest: [Option<OffsetSample>; SLICES] = [None; SLICES];
    for sample in samples {
        let slice = &mut fastest[(sample.at.abs_diff(first) / width) as usize];
        if slice.is_none_or(|known| sample.rtt < known.rtt) {
            *slice = Some(*sample);
        }
    }
    fastest.into_iter().flatten().collect()
}

/// Returns the slope and the intercept of the least-squares line through points `(x, y)`; `None` if
/// all x are equal.
pub fn least_squares(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean =
        |coordinate: fn(&(f64, f64)) -> f64| points.iter().map(coordinate).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let products = points
        .iter()
        .map(|(x, y)| ((x - mean_x) * (x - mean_x), (x - mean_x) * (y - mean_y)));
    let (squares, products) = products.fold((0.0, 0.0), |sum, product| {
        (sum.0 + product.0, sum.1 + product.1)
    });
    let slope = products / squares;
    slope
        .is_finite()
        .then_some((slope, mean_y - slope * mean_x))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns exchanges with a responder whose clock is `skew_ppm` faster and 5 s ahead. Both
    /// directions take 20 µs. One exchange in eight meets no queue; the others take up to 70 µs
    /// more in one direction.
    fn exchanges(begin_ns: i64, count: i64, skew_ppm: f64) -> Vec<ClockExchange> {
        let exchange = |index: i64| {
            let sent_ns = begin_ns + index * 100_000;
            let queue_ns = (index * 37 % 8) * 10_000;
            let (request_queue_ns, response_queue_ns) = if index % 3 == 0 {
                (queue_ns, 0)
            } else {
                (0, queue_ns)
            };
            let responded = (sent_ns + 20_000 + request_queue_ns) as f64;
            ClockExchange {
                sent_ns,
                responded_ns: 5_000_000_000
                    + (responded * (1.0 + skew_ppm * 1e-6)) as i64 / 1000 * 1000,
                received_ns: sent_ns + 40_000 + request_queue_ns + response_queue_ns,
            }
        };
        (0..count).map(exchange).collect()
    }

    #[test]
    fn offset_and_skew_of_exchanges_around_a_test() {
        for skew_ppm in [0.0, 30.0, -80.0] {
            let all = [
                exchanges(0, 200, skew_ppm),
                exchanges(10_000_000_000, 200, skew_ppm),
            ];
            let fit = ClockFit::from_exchanges(&all.concat(), 1000).unwrap();
            assert_eq!(
                (fit.least_rtt_ns, fit.offset_error_ns, fit.exchanges),
                (40_000, 20_500, 400)
            );
            let error = fit.skew_ppm.unwrap() - skew_ppm;
            assert!(
                error.abs() <= fit.skew_error_ppm && fit.skew_error_ppm < 0.2,
                "{fit:?}"
            );
            // A packet that leaves in the middle of the test and takes 300 µs.
            let sent_ns = 5_000_000_000_i64;
            let arrived = (sent_ns + 300_000) as f64 * (1.0 + skew_ppm * 1e-6);
            let arrived = 5_000_000_000 + arrived as i64;
            let error_ns = fit.delay_ns(sent_ns, arrived) - 300_000;
            assert!(error_ns.abs() < 1600, "{error_ns} with {skew_ppm} ppm");
            assert!(error_ns.unsigned_abs() <= fit.delay_error_ns(arrived));
        }
    }

    /// A least-squares fit over the same few milliseconds would give a slope that is far off.
    #[test]
    fn exchanges_close_in_time_give_no_skew() {
        let before = exchanges(0, 50, 30.0);
        let fit = ClockFit::from_exchanges(&before, 1000).unwrap();
        assert_eq!((fit.skew_ppm, fit.skew_error_ppm), (None, 100.0));
        assert!((fit.offset_ns - 5_000_000_000).abs() < 1000, "{fit:?}");
        assert_eq!(fit.delay_error_ns(fit.at_ns), 20_500);
        assert_eq!(fit.delay_error_ns(fit.at_ns + 1_000_000_000), 120_500);
        let to_us = |exchange: &ClockExchange| {
            let rtt_us = (exchange.received_ns - exchange.sent_ns) / 1000;
            let requester_us = exchange.sent_ns / 1000 + rtt_us / 2;
            ((exchange.responded_ns / 1000) as f64, requester_us as f64)
        };
        let points: Vec<(f64, f64)> = before.iter().map(to_us).collect();
        let (slope, _) = least_squares(&points).unwrap();
        assert!((1.0 / slope - 1.0).abs() > 2e-4, "{slope}");
    }

    #[test]
    fn no_fit_without_valid_exchanges() {
        assert_eq!(ClockFit::from_exchanges(&[], 1), None);
        let reversed = ClockExchange {
            sent_ns: 2,
            responded_ns: i64::MAX,
            received_ns: 1,
        };
        assert_eq!(ClockFit::from_exchanges(&[reversed], 1), None);
        assert_eq!(least_squares(&[(1.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(least_squares(&[]), None);
        assert_eq!(least_squares(&[(0.0, 1.0), (2.0, 5.0)]), Some((2.0, 1.0)));
    }
}
