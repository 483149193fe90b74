//! The warning that the means of several iterations missed the requested confidence.

use crate::options::{Settings, Test};
use crate::result::FinishedTest;

/// Formats the warning that precedes the table, or returns an empty text.
///
/// As in the stock tool, it prints full interval widths, while the banner prints half widths.
/// Figures that were not measured are 0.
pub(super) fn format_warning(settings: &Settings, run: &FinishedTest) -> String {
    let unconfident = run
        .repetition_means
        .as_ref()
        .filter(|repeated| !repeated.confidence.is_reached);
    let Some(repeated) = unconfident.filter(|_| settings.test != Test::TcpCc) else {
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
