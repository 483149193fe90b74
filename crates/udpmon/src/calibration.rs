//! The cost of the clock, as stock prints it in its first lines.

use sys::clock::monotonic_ns;

use crate::output::Calibration;

/// Pairs of clock reads. The shortest pair counts.
const READS: u32 = 10_000;

/// Busy waits. The wait with the smallest overrun counts.
const WAITS: u32 = 100;

/// The intended duration of a busy wait.
const WAIT_NS: u64 = 10_000;

/// Measures the cost, which takes about 2 ms.
pub(crate) fn calibrate() -> Calibration {
    let read_ns = (0..READS).map(|_| {
        let before = monotonic_ns();
        monotonic_ns() - before
    });
    let late_ns = |_| {
        let before = monotonic_ns();
        loop {
            let waited = monotonic_ns() - before;
            if waited >= WAIT_NS {
                break waited - WAIT_NS;
            }
        }
    };
    let micros = |least: Option<u64>| least.unwrap_or(0) as f64 / 1e3;
    Calibration {
        read_us: micros(read_ns.min()),
        wait_us: micros((0..WAITS).map(late_ns).min()),
    }
}
