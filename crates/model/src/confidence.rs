//! Confidence intervals of the means of several iterations.

use serde::Serialize;
use stats::confidence::ConfidenceLevel;

/// Confidence intervals of the means of several iterations of one test. A width is the full width
/// of an interval, in percent of its mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Confidence {
    /// Confidence level in percent: how often such an interval covers the true mean. It holds if
    /// the number of iterations does not depend on their results.
    #[serde(rename = "level_percent")]
    pub level: ConfidenceLevel,
    /// The requested width, if any.
    pub target_width_percent: Option<f64>,
    /// Number of iterations.
    pub iterations: u32,
    /// Width for the throughput; `None` with one iteration or a mean of 0.
    pub throughput_width_percent: Option<f64>,
    /// Width for this end's CPU utilisation, if measured.
    pub local_cpu_width_percent: Option<f64>,
    /// Width for the peer's CPU utilisation, if measured.
    pub remote_cpu_width_percent: Option<f64>,
    /// Whether the intervals are as narrow as requested.
    pub is_reached: bool,
}
