//! Whether a rate went between two values while it was measured.

use serde::Serialize;

use crate::modes;

/// Two values of a rate with next to nothing between them, within one measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Levels {
    /// The mean rate of the time that it was low, in amounts per second …
    pub low: f64,
    /// … and of the rest.
    pub high: f64,
    /// The share of the time that it was low.
    pub low_share: f64,
    /// How often it went from one to the other.
    pub changes: usize,
}

/// The measurement is cut into so many windows: what is shorter is no level.
const WINDOWS: usize = 20;

/// A window has at least so many samples, from which its own uncertainty is estimated.
const SAMPLES: usize = 4;

/// A level holds for at least this share of the windows: what is less is an outlier.
const LEAST_SHARE: f64 = 0.2;

/// The higher level is this much above the lower one, or nobody needs to know.
const LEAST_RATIO: f64 = 1.1;

/// The levels are so many standard errors of a window's rate apart. Data that comes in lumps has large
/// ones, so that the number of lumps that happen to fall into a window makes no level.
const LEAST_ERRORS: f64 = 4.0;

/// The two levels of a rate, by what had been done (an amount that only grows) at times in seconds;
/// `None` when one level explains it as well, or with too few samples to say.
pub fn levels(moments: &[(f64, f64)]) -> Option<Levels> {
    let rates: Vec<f64> = moments
        .windows(2)
        .filter(|pair| pair[1].0 > pair[0].0)
        .map(|pair| (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0))
        .collect();
    let width = rates.len() / WINDOWS;
    if width < SAMPLES {
        return None;
    }
    let windows: Vec<(f64, f64)> = rates.chunks_exact(width).map(mean_and_variance).collect();
    let means: Vec<f64> = windows.iter().map(|(mean, _)| *mean).collect();
    let count = windows.len() as f64;
    let variance = windows.iter().map(|(_, variance)| variance).sum::<f64>() / count;
    let error = (variance / width as f64).sqrt();
    let found = modes(&means)?;
    let smaller = found.low_samples.min(found.high_samples);
    let is_clear = smaller as f64 >= LEAST_SHARE * count
        && found.high > LEAST_RATIO * found.low
        && found.high - found.low > LEAST_ERRORS * error;
    let middle = f64::midpoint(found.low, found.high);
    let sides: Vec<bool> = means.iter().map(|mean| *mean > middle).collect();
    is_clear.then(|| Levels {
        low: found.low,
        high: found.high,
        low_share: found.low_samples as f64 / count,
        changes: sides.windows(2).filter(|pair| pair[0] != pair[1]).count(),
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

    /// What a rate of time leaves on a grid of 10 ms, over two seconds.
    fn moments(rate: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        let mut amount = 0.0;
        let mut moments = vec![(0.0, 0.0)];
        for step in 1..=200 {
            let at = f64::from(step) / 100.0;
            amount += rate(at) / 100.0;
            moments.push((at, amount));
        }
        moments
    }

    #[test]
    fn two_levels_and_what_is_none() {
        let of = |rate: &dyn Fn(f64) -> f64| levels(&moments(rate));
        let wobble = |at: f64| 1.0 + 0.01 * (at * 1000.0).sin();
        assert_eq!(of(&|at| 1000.0 * wobble(at)), None);
        // A step in the middle, and one that is not worth a line.
        let step = of(&|at| if at < 0.8 { 565.0 } else { 654.0 } * wobble(at)).unwrap();
        assert!((step.low - 565.0).abs() < 6.0 && (step.high - 654.0).abs() < 6.0);
        assert!((step.low_share - 0.4).abs() < 0.06, "{step:?}");
        assert_eq!(step.changes, 1);
        assert_eq!(of(&|at| if at < 0.8 { 600.0 } else { 654.0 }), None);
        // To and fro every 200 ms.
        let to_and_fro = of(&|at| if (at * 2.5).fract() < 0.5 { 1.0 } else { 3.0 }).unwrap();
        assert!(to_and_fro.changes > 5, "{to_and_fro:?}");
        // It stands still for half of the time.
        assert_eq!(of(&|at| f64::from(at > 1.0)).unwrap().low.to_bits(), 0);
        // A pause of 100 ms, and a beginning of 200 ms: no level.
        assert_eq!(of(&|at| f64::from(!(0.5..0.6).contains(&at))), None);
        assert_eq!(of(&|at| if at < 0.2 { 10.0 } else { 1.0 }), None);
        assert_eq!(of(&|_| 0.0), None);
        assert_eq!(levels(&moments(|_| 1.0)[..70]), None);
        assert_eq!(levels(&[]), None);
    }

    /// A full send buffer is refilled when a third of it is free: what falls into a window is a number
    /// of lumps.
    #[test]
    fn lumps_are_no_levels() {
        for every_ms in 1..=150 {
            let mut amount = 0.0;
            let moments: Vec<(f64, f64)> = (0..=200)
                .map(|step: u32| {
                    let lumps = step * 10 / every_ms;
                    amount = f64::from(lumps) * 1e6;
                    (f64::from(step) / 100.0, amount)
                })
                .collect();
            assert_eq!(levels(&moments), None, "{every_ms} ms");
        }
    }

    /// Events that are independent of each other, few of them and many.
    #[test]
    fn chance_seldom_makes_levels() {
        let mut random = SmallRng::seed_from_u64(1);
        for per_sample in [0.1, 1.0, 10.0, 1000.0] {
            let events = Poisson::new(per_sample).unwrap();
            let mut found = 0;
            for _ in 0..500 {
                let scale = random.random_range(1.0..100.0);
                let draws: Vec<f64> = (0..200).map(|_| events.sample(&mut random)).collect();
                let at = |step: f64| draws[((step * 100.0) as usize).min(199)] * scale;
                found += usize::from(levels(&moments(at)).is_some());
            }
            assert!(found <= 5, "{found} of 500 with {per_sample} a sample");
        }
    }
}
