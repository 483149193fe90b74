//! How well means are known.

use serde::Serialize;
use stats::confidence::Level;

/// How well the means of several iterations of one test are known. A width is the full width of a
/// confidence interval, in percent of its mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Confidence {
    /// How often such an interval covers the true mean, in percent, when the number of iterations does
    /// not depend on what they found.
    #[serde(rename = "level_percent")]
    pub level: Level,
    /// The width that was wanted, if any was.
    pub target_width_percent: Option<f64>,
    /// Iterations that were run.
    pub iterations: u32,
    /// The throughput's width; `None` with one iteration, or with a mean of 0.
    pub throughput_width_percent: Option<f64>,
    /// This end's CPU utilisation's, if it was measured.
    pub local_cpu_width_percent: Option<f64>,
    /// The peer's CPU utilisation's, if it was measured.
    pub remote_cpu_width_percent: Option<f64>,
    /// Whether the intervals are as narrow as was wanted.
    pub reached: bool,
}
