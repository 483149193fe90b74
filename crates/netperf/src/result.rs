//! Results of a test, which the client returns and `output` prints.

use std::time::SystemTime;

use model::{Confidence, Outcome, Warning};
use sys::Address;

use crate::peer_report::PeerReport;

/// One finished test.
#[derive(Clone, Debug)]
pub struct FinishedTest {
    /// Measurements of both ends, as far as known.
    pub outcome: Outcome,
    /// The peer's report, field by field.
    pub peer: PeerReport,
    /// The data connection.
    pub endpoints: Endpoints,
    /// The means, if the test had several iterations.
    pub repetition_means: Option<RepeatedResult>,
}

impl FinishedTest {
    /// Returns the warnings of the test, or of all its iterations.
    pub fn warnings(&self) -> &[Warning] {
        let repeated = self.repetition_means.as_ref();
        repeated.map_or(&self.outcome.warnings, |repeated| &repeated.warnings)
    }
}

/// Result of several iterations.
#[derive(Clone, Debug)]
pub struct RepeatedResult {
    /// The means, which are printed.
    pub means: MainFigures,
    /// Widths of their confidence intervals.
    pub confidence: Confidence,
    /// The warnings of all iterations, and those about the confidence.
    pub warnings: Vec<Warning>,
}

/// Figures that have a mean over several iterations.
#[derive(Clone, Copy, Debug)]
pub struct MainFigures {
    /// Throughput in the selected unit.
    pub throughput: f64,
    /// Duration in seconds, by the local clock.
    pub elapsed: f64,
    /// Local CPU utilisation, in percent of all CPUs' time; `None` if not measured.
    pub local_cpu: Option<f64>,
    /// The peer's CPU utilisation, in percent.
    pub remote_cpu: Option<f64>,
    /// Local service demand: microseconds of CPU time per transaction or per KB.
    pub local_demand: Option<f64>,
    /// The peer's service demand, in the same unit.
    pub remote_demand: Option<f64>,
}

/// Names and addresses for the banner and the selectors SOURCE_* and DEST_*.
#[derive(Clone, Debug)]
pub struct Endpoints {
    /// The resolver's canonical name of the local data address ("0.0.0.0" for the wildcard).
    pub source_name: String,
    /// The local data address and requested port (0 if none).
    pub source: Address,
    /// The resolver's canonical name of the destination.
    pub dest_name: String,
    /// The destination's address and requested port (0 if none).
    pub dest: Address,
}

/// One interval of a running test (`-D`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct InterimResult {
    pub(crate) interval: engine::CounterDelta,
    /// Wall-clock time of its end. Only for the label, because the wall clock may be set during a
    /// test.
    pub(crate) ended: SystemTime,
    /// Whether this is the remainder after the last full interval; it may be empty.
    pub(crate) is_remainder: bool,
}
