//! Percentiles of six distributions, compared with the sorted samples: of a recorded histogram, and
//! of histograms that are merged, written and read, or both.

use rand::distr::Uniform;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Exp, LogNormal, Normal, Pareto};
use stats::Histogram;
use stats::log::{self, LogInterval};

const SAMPLES: usize = 100_000;
const PARTS: usize = 7;
const PERCENTS: [f64; 10] = [0.1, 1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 99.99];

/// Documented maximum relative error of a percentile.
const MAX_RELATIVE_ERROR: f64 = 0.01;

#[test]
fn uniform() {
    check(Uniform::new(20_000.0, 400_000.0).unwrap());
}

#[test]
fn normal() {
    check(Normal::new(100_000.0, 15_000.0).unwrap());
}

#[test]
fn exponential() {
    check(Exp::new(1.0 / 50_000.0).unwrap());
}

#[test]
fn lognormal() {
    check(LogNormal::new(10.0, 1.5).unwrap());
}

#[test]
fn pareto() {
    check(Pareto::new(8_000.0, 1.3).unwrap());
}

#[test]
fn bimodal() {
    check(Bimodal);
}

/// Times of a fast path (70 %) and a slow path (30 %).
struct Bimodal;

impl Distribution<f64> for Bimodal {
    fn sample<R: Rng + ?Sized>(&self, random: &mut R) -> f64 {
        let (mean, deviation) = if random.random_bool(0.7) {
            (12_000.0, 500.0)
        } else {
            (2_000_000.0, 90_000.0)
        };
        Normal::new(mean, deviation).unwrap().sample(random)
    }
}

fn check(distribution: impl Distribution<f64>) {
    let mut random = SmallRng::seed_from_u64(20_261_121);
    let values: Vec<u64> = distribution
        .sample_iter(&mut random)
        // Values beyond the histogram's range have no exact percentiles.
        .filter(|value| (0.0..2e11).contains(value))
        .map(|value| value as u64)
        .take(SAMPLES)
        .collect();
    let mut sorted = values.clone();
    sorted.sort_unstable();

    let recorded = histogram(&values);
    let parts: Vec<Histogram> = values.chunks(SAMPLES / PARTS).map(histogram).collect();
    let merged = merge(&parts);
    let reread = write_and_read(std::slice::from_ref(&recorded));
    let reread_and_merged = merge(&write_and_read(&parts));
    for (times, path) in [
        (&recorded, "recorded"),
        (&merged, "merged"),
        (&reread[0], "written and read"),
        (&reread_and_merged, "written, read and merged"),
    ] {
        assert_eq!(times.len(), SAMPLES as u64, "{path}");
        for percent in PERCENTS {
            let rank = (percent / 100.0 * SAMPLES as f64).ceil() as usize;
            let expected = sorted[rank - 1] as f64;
            let actual = times.percentile(percent).unwrap().as_nanos() as f64;
            assert!(
                (actual - expected).abs() <= expected * MAX_RELATIVE_ERROR,
                "{path}: p{percent} is {actual}, not {expected}"
            );
        }
        let summary = times.summary().unwrap();
        assert_eq!(summary.min_ns, sorted[0], "{path}");
        assert_eq!(summary.max_ns, sorted[SAMPLES - 1], "{path}");
        let mean = sorted.iter().map(|value| *value as f64).sum::<f64>() / SAMPLES as f64;
        assert!((summary.mean_ns / mean - 1.0).abs() < 1e-9, "{path}");
    }
}

fn histogram(values: &[u64]) -> Histogram {
    let mut times = Histogram::default();
    for value in values {
        times.record(*value);
    }
    times
}

fn merge(parts: &[Histogram]) -> Histogram {
    let mut sum = Histogram::default();
    for part in parts {
        sum.merge(part);
    }
    sum
}

fn write_and_read(histograms: &[Histogram]) -> Vec<Histogram> {
    let intervals: Vec<LogInterval> = histograms
        .iter()
        .map(|times| LogInterval {
            tag: None,
            started: std::time::Duration::from_secs(1_795_000_000),
            length: std::time::Duration::from_secs(10),
            times: times.clone(),
        })
        .collect();
    let read = log::parse_log(&log::format_log(&intervals)).unwrap();
    read.into_iter().map(|interval| interval.times).collect()
}
