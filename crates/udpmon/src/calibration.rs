//! The measurement of the clock cost, which stock prints in its first lines.

use sys::clock::monotonic_ns;

use crate::output::ClockCost;

/// The number of pairs of clock reads. The shortest interval between two reads counts.
const READ_PAIRS: u32 = 10_000;

/// The number of busy waits. The smallest overrun counts.
const BUSY_WAITS: u32 = 100;

/// The intended duration of a busy wait.
const WAIT_NS: u64 = 10_000;

/// Measures the clock cost. The measurement takes about 2 ms.
pub(crate) fn calibrate() -> ClockCost {
    let read_ns = (0..READ_PAIRS).map(|_| {
        let before = monotonic_ns();
        monotonic_ns() - before
    });
    let overrun_ns = |_| {
        let before = monotonic_ns();
        loop {
            let waited = monotonic_ns() - before;
            if waited >= WAIT_NS {
                break waited - WAIT_NS;
            }
        }
    };
    let micros = |min_ns: Option<u64>| min_ns.unwrap_or(0) as f64 / 1e3;
    ClockCost {
        read_us: micros(read_ns.min()),
        wait_us: micros((0..BUSY_WAITS).map(overrun_ns).min()),
    }
}
