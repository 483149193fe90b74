//! Conventions of the protocol that no message carries: codes, and the meanings of zero.

use std::time::Duration;

use model::{CpuMethod, Pacing, Wait};

/// Calibration value of hosts that count clock ticks, as Linux does: ticks per second.
pub(crate) const TICKS_PER_SECOND: f32 = 100.0;

/// Value of TCP_DEFER_ACCEPT for test option `-a`, in seconds.
pub(crate) const DEFER_ACCEPT_SECONDS: u32 = 5;

/// The protocol's code for /proc/stat.
const PROC_STAT_CODE: u32 = 8;
/// The protocol's code for a looper.
const LOOPER_CODE: u32 = 4;

/// Returns the method of CPU measurement for a protocol code.
pub(crate) fn cpu_method_from_code(code: u32) -> CpuMethod {
    match code {
        LOOPER_CODE => CpuMethod::Looper,
        PROC_STAT_CODE => CpuMethod::ProcStat,
        other => CpuMethod::Peer(other),
    }
}

/// Returns the protocol code for a method of CPU measurement.
pub(crate) fn cpu_method_code(method: CpuMethod) -> u32 {
    match method {
        CpuMethod::ProcStat => PROC_STAT_CODE,
        CpuMethod::Looper => LOOPER_CODE,
        CpuMethod::Peer(code) => code,
    }
}

/// Returns the pacing of `-b` and `-w`. A burst of 0 means no pacing; an interval of 0 means 1 ms.
pub(crate) fn pacing(burst: u64, interval_us: u32, wait: Wait) -> Option<Pacing> {
    const DEFAULT_INTERVAL_US: u32 = 1_000;
    let interval_us = if interval_us == 0 {
        DEFAULT_INTERVAL_US
    } else {
        interval_us
    };
    (burst > 0).then(|| Pacing {
        burst,
        interval: Duration::from_micros(interval_us.into()),
        wait,
    })
}
