//! Confidence intervals of a mean, and netperf's rule for the number of samples.
//!
//! The rule stops as soon as the interval is narrow enough, which favours samples that happen to be
//! close together. So the intervals of stopped runs cover the true mean less often than their
//! level. `bench/confidence` measures the difference.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Nominal probability that an interval covers the true mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(into = "u8", try_from = "u8")]
pub enum ConfidenceLevel {
    /// 95 %.
    P95,
    /// 99 %.
    P99,
}

impl ConfidenceLevel {
    /// Returns the level in percent.
    pub fn percent(self) -> u8 {
        match self {
            Self::P95 => 95,
            Self::P99 => 99,
        }
    }

    /// Returns Student's two-sided t: the distance from the mean to each end of the interval, in
    /// standard errors. `None` for 0 degrees of freedom.
    pub fn student_t(self, degrees_of_freedom: u32) -> Option<f64> {
        let t = StudentsT::new(0.0, 1.0, f64::from(degrees_of_freedom)).ok()?;
        Some(t.inverse_cdf(f64::midpoint(1.0, f64::from(self.percent()) / 100.0)))
    }
}

impl TryFrom<u8> for ConfidenceLevel {
    type Error = &'static str;

    fn try_from(percent: u8) -> Result<Self, Self::Error> {
        match percent {
            95 => Ok(Self::P95),
            99 => Ok(Self::P99),
            _ => Err("a confidence level is 95 or 99"),
        }
    }
}

impl From<ConfidenceLevel> for u8 {
    fn from(level: ConfidenceLevel) -> Self {
        level.percent()
    }
}

/// Running mean and variance of samples.
///
/// It uses Welford's recurrence. The textbook formula (mean of squares minus square of mean) would
/// lose all digits of a rate of 10^10 bit/s that varies in its eighth digit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunningMoments {
    samples: u32,
    mean: f64,
    /// Sum of squared deviations from the mean.
    squared_deviations: f64,
}

impl RunningMoments {
    /// Adds a sample.
    pub fn add(&mut self, sample: f64) {
        self.samples += 1;
        let deviation = sample - self.mean;
        self.mean += deviation / f64::from(self.samples);
        self.squared_deviations += deviation * (sample - self.mean);
    }

    /// Returns the number of samples.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Returns the mean; `None` without samples.
    pub fn mean(&self) -> Option<f64> {
        (self.samples > 0).then_some(self.mean)
    }

    /// Returns the standard error of the mean; `None` with fewer than two samples.
    pub fn standard_error(&self) -> Option<f64> {
        let n = f64::from(self.samples);
        (self.samples > 1).then(|| (self.squared_deviations / (n * (n - 1.0))).sqrt())
    }

    /// Returns the full width of the mean's confidence interval as a fraction of the mean. `None`
    /// with fewer than two samples, or if the mean is 0.
    pub fn relative_width(&self, level: ConfidenceLevel) -> Option<f64> {
        let error = self.standard_error()?;
        let width = 2.0 * level.student_t(self.samples - 1)? * error / self.mean.abs();
        width.is_finite().then_some(width)
    }
}

impl Extend<f64> for RunningMoments {
    fn extend<T: IntoIterator<Item = f64>>(&mut self, samples: T) {
        for sample in samples {
            self.add(sample);
        }
    }
}

impl FromIterator<f64> for RunningMoments {
    fn from_iter<T: IntoIterator<Item = f64>>(samples: T) -> Self {
        let mut moments = Self::default();
        moments.extend(samples);
        moments
    }
}

/// Goal of a series of measurements: netperf's `-i` and `-I`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfidenceGoal {
    /// Level of the confidence interval.
    pub level: ConfidenceLevel,
    /// Largest full width of the interval, as a fraction of the mean.
    pub max_relative_width: f64,
    /// Minimum number of samples.
    pub min_samples: u32,
    /// Maximum number of samples.
    pub max_samples: u32,
}

impl ConfidenceGoal {
    /// Returns whether the interval is narrow enough. A mean of 0, as of an idle CPU, always is.
    pub fn is_reached_by(&self, moments: &RunningMoments) -> bool {
        moments.samples > 1
            && moments
                .relative_width(self.level)
                .is_none_or(|width| width <= self.max_relative_width)
    }

    /// Returns whether another sample is needed after `samples`.
    pub fn needs_more(&self, samples: u32, is_reached: bool) -> bool {
        samples < self.min_samples || (!is_reached && samples < self.max_samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// netperf's table of t for 1 to 30 degrees of freedom, which matches the textbooks.
    #[rustfmt::skip]
    const TABLE: [(ConfidenceLevel, [f64; 30]); 2] = [
        (ConfidenceLevel::P95, [
            12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
            2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
            2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
        ]),
        (ConfidenceLevel::P99, [
            63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169,
            3.106, 3.055, 3.012, 2.977, 2.947, 2.921, 2.898, 2.878, 2.861, 2.845,
            2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
        ]),
    ];

    #[test]
    fn quantiles_match_the_published_table() {
        for (level, table) in TABLE {
            for (degrees, expected) in (1..).zip(table) {
                let t = level.student_t(degrees).unwrap();
                assert!((t - expected).abs() < 0.000_51, "{level:?} {degrees}: {t}");
            }
            assert_eq!(level.student_t(0), None);
        }
    }

    /// Returns mean and relative width by netperf's formulas: sums, and the population variance.
    fn netperf_formula(samples: &[f64], level: ConfidenceLevel) -> (f64, f64) {
        let n = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / n;
        let variance = samples.iter().map(|x| x * x).sum::<f64>() / n - mean * mean;
        let t = level.student_t(samples.len() as u32 - 1).unwrap();
        (mean, 2.0 * t * (variance / (n - 1.0)).sqrt() / mean)
    }

    #[test]
    fn results_match_netperfs_formula() {
        for samples in [
            &[1.0, 2.0][..],
            &[941.2, 938.7, 940.0],
            &[10.0, 11.0, 9.5, 10.25, 14.0, 7.0],
        ] {
            for level in [ConfidenceLevel::P95, ConfidenceLevel::P99] {
                let moments: RunningMoments = samples.iter().copied().collect();
                let (mean, width) = netperf_formula(samples, level);
                assert!((moments.mean().unwrap() - mean).abs() < 1e-9);
                assert!((moments.relative_width(level).unwrap() - width).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn a_small_spread_on_a_large_mean_is_not_lost() {
        let spread = [0.0, 1.0, 2.0, 3.0];
        let moments: RunningMoments = spread.iter().map(|x| x + 1e15).collect();
        let expected: RunningMoments = spread.into_iter().collect();
        let error = moments.standard_error().unwrap();
        assert!(
            (error - expected.standard_error().unwrap()).abs() < 1e-12,
            "{error}"
        );
    }

    #[test]
    fn width_is_none_without_spread_or_mean() {
        let moments = |samples: &[f64]| samples.iter().copied().collect::<RunningMoments>();
        assert_eq!(moments(&[]).mean(), None);
        assert_eq!(moments(&[5.0]).relative_width(ConfidenceLevel::P95), None);
        assert_eq!(
            moments(&[0.0, 0.0]).relative_width(ConfidenceLevel::P95),
            None
        );
        assert_eq!(
            moments(&[5.0, 5.0]).relative_width(ConfidenceLevel::P95),
            Some(0.0)
        );
    }

    #[test]
    fn the_goal_limits_the_number_of_samples() {
        let goal = ConfidenceGoal {
            level: ConfidenceLevel::P95,
            max_relative_width: 0.05,
            min_samples: 3,
            max_samples: 10,
        };
        for (samples, reached, more) in [
            (0, false, true),
            (2, true, true),
            (3, true, false),
            (3, false, true),
            (9, false, true),
            (10, false, false),
        ] {
            assert_eq!(
                goal.needs_more(samples, reached),
                more,
                "{samples} {reached}"
            );
        }
        let reached = |samples: &[f64]| goal.is_reached_by(&samples.iter().copied().collect());
        assert!(!reached(&[1.0]));
        assert!(reached(&[1.0, 1.0]));
        assert!(!reached(&[1.0, 1.1]));
        // All samples are 0, as the load of an idle CPU.
        assert!(reached(&[0.0, 0.0]));
    }
}
