//! `-H stdout`: three lines, as a fork of uperf prints them.

use std::time::Duration;

use model::GroupOutcome;
use stats::Histogram;

/// In microseconds. What looks for these lines takes the number behind the colon. Transactions without a duration,
/// which prepare and clean up, are no part of what is asked.
pub(super) fn latencies(groups: &[GroupOutcome]) -> Option<String> {
    let transactions = groups.iter().flat_map(|group| &group.transactions);
    let mut times = Histogram::default();
    for latency in transactions
        .filter(|it| it.is_timed)
        .filter_map(|it| it.latency.as_ref())
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
