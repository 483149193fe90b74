//! The figures that several iterations have means of, and the warning where those are not known well.

use crate::client::TestRun;
use crate::options::{Settings, Test};

/// The figures of a test that several iterations have means of.
#[derive(Clone, Copy, Debug)]
pub struct Headline {
    /// In the unit in force.
    pub throughput: f64,
    /// Seconds by this end's clock.
    pub elapsed: f64,
    /// CPU utilisation here, in percent of all CPUs' time; `None` when it was not measured.
    pub local_cpu: Option<f64>,
    /// The peer's.
    pub remote_cpu: Option<f64>,
    /// Service demand here: microseconds of CPU time a transaction or a KB.
    pub local_demand: Option<f64>,
    /// The peer's.
    pub remote_demand: Option<f64>,
}

/// The block before a table whose figures are not known as well as was asked for. Its figures are full
/// widths where the banner's is half of one, and what was not measured has 0: so the stock tool.
pub(super) fn warning(settings: &Settings, run: &TestRun) -> String {
    let missed = run.repeated.filter(|repeated| !repeated.confidence.reached);
    let Some(repeated) = missed.filter(|_| settings.test != Test::TcpCc) else {
        return String::new();
    };
    let confidence = repeated.confidence;
    let percent = |width: Option<f64>| format!("{:4.3}%", width.unwrap_or(0.0));
    format!(
        "!!! WARNING\n\
         !!! Desired confidence was not achieved within the specified iterations.\n\
         !!! This implies that there was variability in the test environment that\n\
         !!! must be investigated before going further.\n\
         !!! Confidence intervals: Throughput      : {}\n\
         !!!                       Local CPU util  : {}\n\
         !!!                       Remote CPU util : {}\n\n",
        percent(confidence.throughput_width_percent),
        percent(confidence.local_cpu_width_percent),
        percent(confidence.remote_cpu_width_percent),
    )
}
