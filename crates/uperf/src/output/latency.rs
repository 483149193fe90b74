//! Latency lines of `-H stdout`, in the format of a fork of uperf.

use std::time::Duration;

use model::GroupOutcome;
use stats::Histogram;

/// Returns mean, median and 99th percentile in microseconds; `None` without latencies.
///
/// Scripts parse the number after the colon. Transactions without a duration are excluded, because
/// they only prepare and clean up.
pub(super) fn latencies(groups: &[GroupOutcome]) -> Option<String> {
    let transactions = groups.iter().flat_map(|group| &group.transactions);
    let mut times = Histogram::default();
    for latency in transactions
        .filter(|transaction| transaction.is_timed)
        .filter_map(|transaction| transaction.latency.as_ref())
    {
        times.merge(latency);
    }
    let us = |time: Duration| time.as_nanos() as f64 / 1000.0;
    Some(format!(
        "\nAverage : {:.3} us\n50th    : {:.3} us\n99th    : {:.3} us\n",
        us(Duration::from_nanos(times.mean_ns()? as u64)),
        us(times.percentile(50.0)?),
        us(times.percentile(99.0)?)
    ))
}
