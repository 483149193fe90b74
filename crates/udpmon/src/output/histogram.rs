//! Histograms as text.

use std::fmt::Write;

use units::iperf::general;

use crate::wire::Histogram;

/// Formats a histogram: its title, its sums, and one line per bin.
pub fn histogram(histogram: &Histogram) -> String {
    let mut text = format!(
        "Hist {:8} {}\n counts {} mean {:.2} underflows {} overflows {}\n",
        histogram.id,
        histogram.title,
        histogram.in_range(),
        histogram.mean(),
        histogram.underflow(),
        histogram.overflow()
    );
    for (bin, count) in histogram.in_bins().iter().enumerate() {
        let _ = writeln!(text, "{} ; {count}", histogram.edge(bin));
    }
    text
}

/// Formats a histogram with the additional lines of `udpmon_req`.
pub fn latency_histogram(of: &Histogram) -> String {
    let derived = Derived::of(of);
    let g = |number| general(number, 4);
    format!(
        "{} counts {}; underflows {}; overflows {}; \n mean {} sigma {}; coeff_skew {}; coeff_kurtosis {}; \n \
         median {}; 25-quartile {}; 75-quartile {}; \n",
        histogram(of),
        of.in_range(),
        of.underflow(),
        of.overflow(),
        g(derived.mean),
        g(derived.sigma),
        g(derived.skew),
        g(derived.kurtosis),
        derived.median,
        derived.lower,
        derived.upper
    )
}

/// Computes stock's figures of the values in the bins. Each value counts as the low edge of its bin, except for the
/// mean.
pub(super) struct Derived {
    pub(super) mean: f64,
    pub(super) sigma: f64,
    pub(super) skew: f64,
    /// Divides by the square of sigma, although a kurtosis requires its fourth power.
    pub(super) kurtosis: f64,
    pub(super) median: i64,
    pub(super) lower: i64,
    pub(super) upper: i64,
}

impl Derived {
    pub(super) fn of(histogram: &Histogram) -> Self {
        let total = histogram.in_range();
        let mean = histogram.mean();
        let bins = || {
            let bins = histogram.in_bins().iter().enumerate();
            bins.map(|(bin, count)| (histogram.edge(bin), *count))
        };
        let moment = |power: i32| -> f64 {
            let terms = bins().map(|(edge, count)| count as f64 * (edge as f64 - mean).powi(power));
            terms.sum::<f64>() / total.max(1) as f64
        };
        let sigma = moment(2).sqrt();
        let over = |moment: f64, by: f64| if by > 0.0 { moment / by } else { 0.0 };
        let quantile = |part: f64| {
            let wanted = (part * total as f64) as u64;
            let mut running = 0_u64;
            let reached = bins().find(|(_, count)| {
                running = running.saturating_add(*count);
                running >= wanted
            });
            reached.map_or(0, |(edge, _)| if total > 0 { edge } else { 0 })
        };
        Self {
            mean,
            sigma,
            skew: over(moment(3), sigma.powi(3)),
            kurtosis: if total > 0 {
                over(moment(4), sigma.powi(2)) - 3.0
            } else {
                0.0
            },
            median: quantile(0.5),
            lower: quantile(0.25),
            upper: quantile(0.75),
        }
    }
}
