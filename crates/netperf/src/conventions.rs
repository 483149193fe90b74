//! What both ends take for granted, as no message explains it: codes, and what a zero stands for.

use std::time::Duration;

use model::{CpuMethod, Pacing, Wait};

/// What a calibration gives where the kernel counts clock ticks, as it does on Linux: so many a second.
pub(crate) const TICKS_A_SECOND: f32 = 100.0;

/// TCP_DEFER_ACCEPT of test option `-a`.
pub(crate) const DEFER_ACCEPT_SECONDS: u32 = 5;

/// The peers' code for /proc/stat.
const PROC_STAT: u32 = 8;
/// The peers' code for a looper.
const LOOPER: u32 = 4;

/// How CPU time was found out, by the peers' code.
pub(crate) fn cpu_method(code: u32) -> CpuMethod {
    match code {
        LOOPER => CpuMethod::Looper,
        PROC_STAT => CpuMethod::ProcStat,
        other => CpuMethod::Peer(other),
    }
}

/// The peers' code for how CPU time was found out.
pub(crate) fn cpu_code(method: CpuMethod) -> u32 {
    match method {
        CpuMethod::ProcStat => PROC_STAT,
        CpuMethod::Looper => LOOPER,
        CpuMethod::Peer(code) => code,
    }
}

/// `-b` and `-w`: without a burst there is no pacing, and without an interval it is a millisecond.
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
