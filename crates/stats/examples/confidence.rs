//! Simulation of the coverage of confidence intervals, for `bench/confidence`.
//!
//! Arguments: runs, level, full width, minimum and maximum iterations, shape (`normal` or
//! `bimodal`), spread. It prints the coverage, the mean number of iterations, the coverage of the
//! runs that stopped early at five iterations or fewer, their share, and the share of runs detected
//! as bimodal.

use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Normal};
use rand_xoshiro::Xoshiro256PlusPlus;
use stats::confidence::{ConfidenceGoal, ConfidenceLevel, RunningMoments};
use stats::find_modes;

/// Maximum number of iterations of a run that stopped early.
const FEW: u32 = 5;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [runs, level, width, min, max, shape, spread] = &words[..] else {
        panic!("runs level width min max shape spread");
    };
    let runs: u32 = runs.parse().expect("a number of runs");
    let goal = ConfidenceGoal {
        level: ConfidenceLevel::try_from(level.parse::<u8>().expect("a level")).expect("95 or 99"),
        max_relative_width: width.parse().expect("a width"),
        min_samples: min.parse().expect("iterations"),
        max_samples: max.parse().expect("iterations"),
    };
    let bimodal = shape == "bimodal";
    let spread: f64 = spread.parse().expect("a spread");

    let mut random = Xoshiro256PlusPlus::seed_from_u64(20_260_101);
    let normal = Normal::new(0.0, if bimodal { spread / 8.0 } else { spread }).expect("a spread");
    let mut draw = || {
        let mode = if random.random::<bool>() {
            spread
        } else {
            -spread
        };
        1.0 + normal.sample(&mut random) + if bimodal { mode } else { 0.0 }
    };
    let (mut covered, mut iterations, mut few, mut few_covered, mut two_modes) = (0, 0, 0, 0, 0);
    for _ in 0..runs {
        let mut moments = RunningMoments::default();
        let mut samples = Vec::new();
        while goal.needs_more(moments.samples(), goal.is_reached_by(&moments)) {
            samples.push(draw());
            moments.extend(samples.last().copied());
        }
        let mean = moments.mean().expect("a sample");
        let width = moments.relative_width(goal.level).expect("two samples");
        let covers = u32::from((mean - 1.0).abs() <= mean * width / 2.0);
        covered += covers;
        iterations += moments.samples();
        if moments.samples() <= FEW && moments.samples() < goal.max_samples {
            few += 1;
            few_covered += covers;
        }
        two_modes += u32::from(find_modes(&samples).is_some());
    }
    let of = |part: u32, whole: u32| f64::from(part) / f64::from(whole.max(1));
    println!(
        "{:.5} {:.3} {:.5} {:.5} {:.5}",
        of(covered, runs),
        of(iterations, runs),
        of(few_covered, few),
        of(few, runs),
        of(two_modes, runs),
    );
}
