//! Confidence intervals of a mean, and netperf's rule for when enough has been measured.
//!
//! The rule stops as soon as the interval is narrow enough. That picks out the sample sets that happen
//! to lie close together, so the interval of a run that it stopped covers the true mean less often
//! than its level says: `bench/confidence` has the figures.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// How often an interval is meant to cover the true mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum Level {
    /// In 95 of 100 cases.
    P95,
    /// In 99 of 100 cases.
    P99,
}

impl Level {
    /// In percent.
    pub fn percent(self) -> u8 {
        match self {
            Self::P95 => 95,
            Self::P99 => 99,
        }
    }

    /// Student's two-sided t: as many standard errors lie between the mean and each end of the
    /// interval. `None` without a degree of freedom.
    pub fn t(self, degrees_of_freedom: u32) -> Option<f64> {
        let t = StudentsT::new(0.0, 1.0, f64::from(degrees_of_freedom)).ok()?;
        Some(t.inverse_cdf(f64::midpoint(1.0, f64::from(self.percent()) / 100.0)))
    }
}

impl TryFrom<u8> for Level {
    type Error = &'static str;

    fn try_from(percent: u8) -> Result<Self, Self::Error> {
        match percent {
            95 => Ok(Self::P95),
            99 => Ok(Self::P99),
            _ => Err("a confidence level is 95 or 99"),
        }
    }
}

impl From<Level> for u8 {
    fn from(level: Level) -> Self {
        level.percent()
    }
}

/// Mean and spread of samples that come one by one.
///
/// Welford's recurrence. The textbook's difference of the mean of squares and the square of the mean
/// is the same figure, but with a rate of 10^10 bit/s that varies in its eighth digit nothing of it
/// would be left.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    samples: u32,
    mean: f64,
    /// The sum of squared distances from the mean.
    squares: f64,
}

impl Moments {
    /// Adds a sample.
    pub fn add(&mut self, sample: f64) {
        self.samples += 1;
        let before = sample - self.mean;
        self.mean += before / f64::from(self.samples);
        self.squares += before * (sample - self.mean);
    }

    /// How many there were.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Their mean; `None` before the first.
    pub fn mean(&self) -> Option<f64> {
        (self.samples > 0).then_some(self.mean)
    }

    /// The standard error of the mean; `None` before the second sample.
    pub fn standard_error(&self) -> Option<f64> {
        let n = f64::from(self.samples);
        (self.samples > 1).then(|| (self.squares / (n * (n - 1.0))).sqrt())
    }

    /// The full width of the mean's confidence interval as a fraction of the mean. `None` before the
    /// second sample, and where the mean is 0, of which nothing is a fraction.
    pub fn relative_width(&self, level: Level) -> Option<f64> {
        let error = self.standard_error()?;
        let width = 2.0 * level.t(self.samples - 1)? * error / self.mean.abs();
        width.is_finite().then_some(width)
    }
}

impl Extend<f64> for Moments {
    fn extend<T: IntoIterator<Item = f64>>(&mut self, samples: T) {
        for sample in samples {
            self.add(sample);
        }
    }
}

impl FromIterator<f64> for Moments {
    fn from_iter<T: IntoIterator<Item = f64>>(samples: T) -> Self {
        let mut moments = Self::default();
        moments.extend(samples);
        moments
    }
}

/// When enough has been measured: netperf's `-i` and `-I`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// The level of the interval.
    pub level: Level,
    /// Its full width as a fraction of the mean.
    pub width: f64,
    /// At least so many samples …
    pub min: u32,
    /// … and at most so many.
    pub max: u32,
}

impl Goal {
    /// Whether the interval is narrow enough. Where the mean is 0 nothing is left to narrow down.
    pub fn is_reached_by(&self, moments: &Moments) -> bool {
        moments.samples > 1
            && moments
                .relative_width(self.level)
                .is_none_or(|width| width <= self.width)
    }

    /// Whether another sample is wanted after `samples`.
    pub fn wants_more(&self, samples: u32, reached: bool) -> bool {
        samples < self.min || (!reached && samples < self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Netperf's table for 1 to 30 degrees of freedom, which is every textbook's.
    #[rustfmt::skip]
    const TABLE: [(Level, [f64; 30]); 2] = [
        (Level::P95, [
            12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
            2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
            2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
        ]),
        (Level::P99, [
            63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169,
            3.106, 3.055, 3.012, 2.977, 2.947, 2.921, 2.898, 2.878, 2.861, 2.845,
            2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
        ]),
    ];

    #[test]
    fn quantiles_are_the_tables() {
        for (level, table) in TABLE {
            for (degrees, expected) in (1..).zip(table) {
                let t = level.t(degrees).unwrap();
                assert!((t - expected).abs() < 0.000_51, "{level:?} {degrees}: {t}");
            }
            assert_eq!(level.t(0), None);
        }
    }

    /// The formulas as netperf has them: sums, and the population's variance.
    fn by_sums(samples: &[f64], level: Level) -> (f64, f64) {
        let n = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / n;
        let variance = samples.iter().map(|x| x * x).sum::<f64>() / n - mean * mean;
        let t = level.t(samples.len() as u32 - 1).unwrap();
        (mean, 2.0 * t * (variance / (n - 1.0)).sqrt() / mean)
    }

    #[test]
    fn the_same_as_by_sums() {
        for samples in [
            &[1.0, 2.0][..],
            &[941.2, 938.7, 940.0],
            &[10.0, 11.0, 9.5, 10.25, 14.0, 7.0],
        ] {
            for level in [Level::P95, Level::P99] {
                let moments: Moments = samples.iter().copied().collect();
                let (mean, width) = by_sums(samples, level);
                assert!((moments.mean().unwrap() - mean).abs() < 1e-9);
                assert!((moments.relative_width(level).unwrap() - width).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn a_small_spread_on_a_large_mean_is_not_lost() {
        let spread = [0.0, 1.0, 2.0, 3.0];
        let moments: Moments = spread.iter().map(|x| x + 1e15).collect();
        let expected: Moments = spread.into_iter().collect();
        let error = moments.standard_error().unwrap();
        assert!(
            (error - expected.standard_error().unwrap()).abs() < 1e-12,
            "{error}"
        );
    }

    #[test]
    fn what_has_no_width() {
        let of = |samples: &[f64]| samples.iter().copied().collect::<Moments>();
        assert_eq!(of(&[]).mean(), None);
        assert_eq!(of(&[5.0]).relative_width(Level::P95), None);
        assert_eq!(of(&[0.0, 0.0]).relative_width(Level::P95), None);
        assert_eq!(of(&[5.0, 5.0]).relative_width(Level::P95), Some(0.0));
    }

    #[test]
    fn when_to_stop() {
        let goal = Goal {
            level: Level::P95,
            width: 0.05,
            min: 3,
            max: 10,
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
                goal.wants_more(samples, reached),
                more,
                "{samples} {reached}"
            );
        }
        let reached = |samples: &[f64]| goal.is_reached_by(&samples.iter().copied().collect());
        assert!(!reached(&[1.0]));
        assert!(reached(&[1.0, 1.0]));
        assert!(!reached(&[1.0, 1.1]));
        // An idle CPU.
        assert!(reached(&[0.0, 0.0]));
    }
}
