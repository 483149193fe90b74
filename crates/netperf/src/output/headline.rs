//! The warning where the means of several iterations are not known well.

use crate::options::{Settings, Test};
use crate::result::TestRun;

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
