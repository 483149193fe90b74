//! Histograms as text.

use std::fmt::Write;

use units::iperf::format_general;

use crate::wire::LinearHistogram;

/// Formats a histogram: its title, its sums, and one line per bin.
pub fn format_histogram(histogram: &LinearHistogram) -> String {
    let mut text = format!(
        "Hist {:8} {}\n counts {} mean {:.2} underflows {} overflows {}\n",
        histogram.id,
        histogram.title,
        histogram.binned_count(),
        histogram.mean(),
        histogram.underflow(),
        histogram.overflow()
    );
    for (bin, count) in histogram.bin_counts().iter().enumerate() {
        let _ = writeln!(text, "{} ; {count}", histogram.low_edge(bin));
    }
    text
}

/// Formats a histogram with the additional lines of `udpmon_req`.
pub fn format_latency_histogram(histogram: &LinearHistogram) -> String {
    let figures = HistogramFigures::from_histogram(histogram);
    let format_g4 = |number| format_general(number, 4);
    format!(
        "{} counts {}; underflows {}; overflows {}; \n mean {} sigma {}; coeff_skew {}; coeff_kurtosis {}; \n \
         median {}; 25-quartile {}; 75-quartile {}; \n",
        format_histogram(histogram),
        histogram.binned_count(),
        histogram.underflow(),
        histogram.overflow(),
        format_g4(figures.mean),
        format_g4(figures.sigma),
        format_g4(figures.skew),
        format_g4(figures.kurtosis),
        figures.median,
        figures.lower_quartile,
        figures.upper_quartile
    )
}

/// Stock's figures of the values in the bins. Except for the mean, each value counts as the low
/// edge of its bin.
pub(super) struct HistogramFigures {
    pub(super) mean: f64,
    pub(super) sigma: f64,
    pub(super) skew: f64,
    /// As in stock: divided by the square of sigma, although a kurtosis requires the fourth power.
    pub(super) kurtosis: f64,
    pub(super) median: i64,
    pub(super) lower_quartile: i64,
    pub(super) upper_quartile: i64,
}

impl HistogramFigures {
    pub(super) fn from_histogram(histogram: &LinearHistogram) -> Self {
        let total = histogram.binned_count();
        let mean = histogram.mean();
        let bins = || {
            let bins = histogram.bin_counts().iter().enumerate();
            bins.map(|(bin, count)| (histogram.low_edge(bin), *count))
        };
        let moment = |power: i32| -> f64 {
            let terms = bins().map(|(edge, count)| count as f64 * (edge as f64 - mean).powi(power));
            terms.sum::<f64>() / total.max(1) as f64
        };
        let sigma = moment(2).sqrt();
        let ratio = |dividend: f64, divisor: f64| {
            if divisor > 0.0 {
                dividend / divisor
            } else {
                0.0
            }
        };
        let quantile = |part: f64| {
            let target = (part * total as f64) as u64;
            let mut cumulative = 0_u64;
            let reached = bins().find(|(_, count)| {
                cumulative = cumulative.saturating_add(*count);
                cumulative >= target
            });
            reached.map_or(0, |(edge, _)| if total > 0 { edge } else { 0 })
        };
        Self {
            mean,
            sigma,
            skew: ratio(moment(3), sigma.powi(3)),
            kurtosis: if total > 0 {
                ratio(moment(4), sigma.powi(2)) - 3.0
            } else {
                0.0
            },
            median: quantile(0.5),
            lower_quartile: quantile(0.25),
            upper_quartile: quantile(0.75),
        }
    }
}
