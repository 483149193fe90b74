//! The CPU time of one host.

use model::{CpuMethod, CpuUse};

use super::NOT_MEASURED;

/// The CPU time of one host, in percent of the time of all its CPUs.
pub(in crate::output) struct CpuFigures {
    pub(in crate::output) measured: bool,
    pub(in crate::output) busy: f64,
    pub(in crate::output) user: f64,
    pub(in crate::output) system: f64,
    pub(in crate::output) iowait: f64,
    pub(in crate::output) irq: f64,
    pub(in crate::output) softirq: f64,
    /// The letter of the measurement method.
    pub(in crate::output) method: char,
    pub(in crate::output) cpus: u32,
    pub(in crate::output) peak_id: i64,
    pub(in crate::output) peak_busy: f64,
    /// Service demand: microseconds of CPU time per transaction or per KB.
    pub(in crate::output) demand: f64,
}

impl CpuFigures {
    pub(super) fn new(cpu: &CpuUse) -> Self {
        Self {
            measured: true,
            busy: finite(cpu.busy_percent),
            user: finite(cpu.user_percent),
            system: finite(cpu.system_percent),
            iowait: finite(cpu.iowait_percent),
            irq: finite(cpu.irq_percent),
            softirq: finite(cpu.softirq_percent),
            method: method_letter(cpu.method),
            cpus: cpu.cpus,
            peak_id: cpu.peak.map_or(-1, |(id, _)| id.into()),
            peak_busy: cpu.peak.map_or(NOT_MEASURED, |(_, busy)| finite(busy)),
            demand: NOT_MEASURED,
        }
    }

    /// Creates the figures of a host without CPU measurement. `share` is printed for user, system,
    /// iowait, irq and softirq.
    pub(super) fn unmeasured(share: f64) -> Self {
        Self {
            measured: false,
            busy: NOT_MEASURED,
            user: share,
            system: share,
            iowait: share,
            irq: share,
            softirq: share,
            method: 'U',
            cpus: 0,
            peak_id: -1,
            peak_busy: NOT_MEASURED,
            demand: NOT_MEASURED,
        }
    }
}

/// Returns the stock client's letter for a measurement method.
fn method_letter(method: CpuMethod) -> char {
    const LETTERS: [char; 13] = [
        'U', 'I', 'P', 'T', 'L', 'R', 'N', 'K', 'S', 'C', 'E', 'M', 'O',
    ];
    match method {
        CpuMethod::Looper => 'L',
        CpuMethod::ProcStat => 'S',
        CpuMethod::Peer(code) => LETTERS.get(code as usize).copied().unwrap_or('?'),
    }
}

/// Returns a peer's figure, or −1 if it is NaN or infinite.
fn finite(value: f64) -> f64 {
    if value.is_finite() {
        value
    } else {
        NOT_MEASURED
    }
}
