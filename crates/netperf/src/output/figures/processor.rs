//! One end's CPU time.

use model::{CpuMethod, CpuUse};

use super::NONE;

/// One end's CPU time, in percent of all its CPUs' time.
pub(in crate::output) struct Processor {
    pub(in crate::output) measured: bool,
    pub(in crate::output) busy: f64,
    pub(in crate::output) user: f64,
    pub(in crate::output) system: f64,
    pub(in crate::output) iowait: f64,
    pub(in crate::output) irq: f64,
    pub(in crate::output) softirq: f64,
    /// The letter of the method.
    pub(in crate::output) method: char,
    pub(in crate::output) cpus: u32,
    pub(in crate::output) peak_id: i64,
    pub(in crate::output) peak_busy: f64,
    /// Service demand: microseconds of CPU time a transaction or a KB.
    pub(in crate::output) demand: f64,
}

impl Processor {
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
            peak_busy: cpu.peak.map_or(NONE, |(_, busy)| finite(busy)),
            demand: NONE,
        }
    }

    /// With such a share for what has no figure of its own.
    pub(super) fn unmeasured(share: f64) -> Self {
        Self {
            measured: false,
            busy: NONE,
            user: share,
            system: share,
            iowait: share,
            irq: share,
            softirq: share,
            method: 'U',
            cpus: 0,
            peak_id: -1,
            peak_busy: NONE,
            demand: NONE,
        }
    }
}

/// The letter that the stock client has for a method.
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

/// A peer's figure, unless it is none.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { NONE }
}
