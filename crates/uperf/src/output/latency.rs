//! `-H stdout`: three lines, as a fork of uperf prints them.

use std::time::Duration;

use super::figures::Latencies;

/// In microseconds. What looks for these lines takes the number behind the colon.
pub(super) fn latencies(latencies: &Latencies) -> String {
    let us = |time: Duration| time.as_nanos() as f64 / 1000.0;
    let Latencies { mean, median, p99 } = *latencies;
    format!(
        "\nAverage : {:.3} us\n50th    : {:.3} us\n99th    : {:.3} us\n",
        us(mean),
        us(median),
        us(p99)
    )
}
