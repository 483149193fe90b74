//! Detection of a rate that changes between two levels during a measurement.

use serde::Serialize;

use crate::find_modes;

/// Two levels of a rate within one measurement, with almost no values between them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RateLevels {
    /// Mean rate of the low level, in amounts per second.
    pub low: f64,
    /// Mean rate of the high level, in amounts per second.
    pub high: f64,
    /// Share of the time at the low level.
    pub low_share: f64,
    /// Number of changes between the levels.
    pub changes: usize,
}

/// Minimum number of windows that a measurement is divided into. Shorter periods are not levels.
const MIN_WINDOWS: usize = 20;

/// Minimum samples per window; their variance gives the uncertainty of the window's rate.
const MIN_WINDOW_SAMPLES: usize = 4;

/// Minimum share of windows at each level; fewer windows are outliers.
const MIN_SHARE: f64 = 0.2;

/// Minimum ratio of the high level to the low level; smaller changes are irrelevant.
const MIN_RATIO: f64 = 1.1;

/// Minimum difference of the levels, in standard errors of a window's rate. Bursty data has large
/// standard errors, so a varying number of bursts per window does not look like levels.
const MIN_STANDARD_ERRORS: f64 = 4.0;

/// Finds the two levels of a rate. `progress` has times in seconds and the total amount at each
/// time, which never decreases. Returns `None` if one level explains the rate as well, or with too
/// few samples.
pub fn find_levels(progress: &[(f64, f64)]) -> Option<RateLevels> {
    let rates: Vec<f64> = progress
        .windows(2)
        .filter(|pair| pair[1].0 > pair[0].0)
        .map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0))
        .collect();
    let window_samples = rates.len() / MIN_WINDOWS;
    if window_samples < MIN_WINDOW_SAMPLES {
        return None;
    }
    let windows = rates.chunks_exact(window_samples).map(mean_and_variance);
    let windows: Vec<(f64, f64)> = windows.collect();
    let means: Vec<f64> = windows.iter().map(|(mean, _)| *mean).collect();
    let count = windows.len() as f64;
    let variance = windows.iter().map(|(_, variance)| variance).sum::<f64>() / count;
    let error = (variance / window_samples as f64).sqrt();
    let modes = find_modes(&means)?;
    let smaller = modes.low_samples.min(modes.high_samples);
    let is_clear = smaller as f64 >= MIN_SHARE * count
        && modes.high > MIN_RATIO * modes.low
        && modes.high - modes.low > MIN_STANDARD_ERRORS * error;
    let middle = f64::midpoint(modes.low, modes.high);
    let is_high: Vec<bool> = means.iter().map(|mean| *mean > middle).collect();
    is_clear.then(|| RateLevels {
        low: modes.low,
        high: modes.high,
        low_share: modes.low_samples as f64 / count,
        changes: is_high.windows(2).filter(|pair| pair[0] != pair[1]).count(),
    })
}

fn mean_and_variance(rates: &[f64]) -> (f64, f64) {
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    (mean, squares / (count - 1.0))
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use rand_distr::{Distribution, Poisson};

    use super::*;

    /// Returns the progress of a rate that depends on time, every 10 ms for two seconds.
    fn progress(rate: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        let mut amount = 0.0;
        let mut progress = vec![(0.0, 0.0)];
        for step in 1..=200 {
            let at = f64::from(step) / 100.0;
            amount += rate(at) / 100.0;
            progress.push((at, amount));
        }
        progress
    }

    #[test]
    fn two_levels_are_found_and_short_or_small_changes_ignored() {
        let levels_of = |rate: &dyn Fn(f64) -> f64| find_levels(&progress(rate));
        let noise = |at: f64| 1.0 + 0.01 * (at * 1000.0).sin();
        assert_eq!(levels_of(&|at| 1000.0 * noise(at)), None);
        // A large step in the middle, and a step below the minimum ratio.
        let step = levels_of(&|at| if at < 0.8 { 565.0 } else { 654.0 } * noise(at)).unwrap();
        assert!((step.low - 565.0).abs() < 6.0 && (step.high - 654.0).abs() < 6.0);
        assert!((step.low_share - 0.4).abs() < 0.06, "{step:?}");
        assert_eq!(step.changes, 1);
        assert_eq!(levels_of(&|at| if at < 0.8 { 600.0 } else { 654.0 }), None);
        // Alternates every 200 ms.
        let alternating =
            levels_of(&|at| if (at * 2.5).fract() < 0.5 { 1.0 } else { 3.0 }).unwrap();
        assert!(alternating.changes > 5, "{alternating:?}");
        // The rate is 0 for half of the time.
        assert_eq!(
            levels_of(&|at| f64::from(at > 1.0)).unwrap().low.to_bits(),
            0
        );
        // A pause of 100 ms and a start of 200 ms are too short for levels.
        assert_eq!(levels_of(&|at| f64::from(!(0.5..0.6).contains(&at))), None);
        assert_eq!(levels_of(&|at| if at < 0.2 { 10.0 } else { 1.0 }), None);
        assert_eq!(levels_of(&|_| 0.0), None);
        assert_eq!(find_levels(&progress(|_| 1.0)[..70]), None);
        assert_eq!(find_levels(&[]), None);
    }

    /// A full send buffer is refilled when a third of it is free, so each window contains a whole
    /// number of bursts.
    #[test]
    fn bursts_are_not_levels() {
        for interval_ms in 1..=150 {
            let mut amount = 0.0;
            let progress: Vec<(f64, f64)> = (0..=200)
                .map(|step: u32| {
                    let bursts = step * 10 / interval_ms;
                    amount = f64::from(bursts) * 1e6;
                    (f64::from(step) / 100.0, amount)
                })
                .collect();
            assert_eq!(find_levels(&progress), None, "{interval_ms} ms");
        }
    }

    /// Independent random events, at low and high rates.
    #[test]
    fn random_events_rarely_show_levels() {
        let mut random = SmallRng::seed_from_u64(1);
        for per_sample in [0.1, 1.0, 10.0, 1000.0] {
            let events = Poisson::new(per_sample).unwrap();
            let mut found = 0;
            for _ in 0..500 {
                let scale = random.random_range(1.0..100.0);
                let draws: Vec<f64> = (0..200).map(|_| events.sample(&mut random)).collect();
                let at = |step: f64| draws[((step * 100.0) as usize).min(199)] * scale;
                found += usize::from(find_levels(&progress(at)).is_some());
            }
            assert!(found <= 5, "{found} of 500 with {per_sample} per sample");
        }
    }
}
