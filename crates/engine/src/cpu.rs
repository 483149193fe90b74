//! CPU time of the host over the measured phase.

use std::sync::Arc;

use model::{CpuMethod, CpuUse, Half};
use sys::cpu::{Ticks, snapshot};

use crate::looper::{Count, Looper};

/// Accounts the whole host's CPU time between two moments.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    started: Vec<(u32, Ticks)>,
    /// Whether a looper counted then, on this host, …
    looper_counted: bool,
    /// … and how many this process had started.
    loopers_started: u64,
    looped: Option<Looped>,
}

#[derive(Debug)]
struct Looped {
    looper: Arc<Looper>,
    started: Count,
    idle_rate: f64,
}

impl CpuMeter {
    /// Starts, if the half asks for it; `None` where /proc/stat cannot be read, or where nobody has
    /// started and calibrated the looper that it asks for.
    ///
    /// A tick of /proc/stat is 10 ms (4 ms on some kernels), so a share over a second is right to a few
    /// points.
    pub(crate) fn start(half: &Half) -> Option<Self> {
        if !half.measure_cpu {
            return None;
        }
        let looped = match half.idle_loop {
            None => None,
            Some(idle_loop) => {
                let looper = Looper::current()?;
                Some(Looped {
                    started: looper.count(),
                    looper,
                    idle_rate: idle_loop.rate?,
                })
            }
        };
        Some(Self {
            looper_counted: Looper::counts_here(),
            loopers_started: Looper::started(),
            started: snapshot().ok()?,
            looped,
        })
    }

    /// What passed since; `None`, too, where /proc/stat cannot tell a looper's time from this
    /// process's.
    pub(crate) fn finish(&self) -> Option<CpuUse> {
        let finished = snapshot().ok()?;
        // Another test's looper, here or in another process, takes what would be idle.
        let looper_counted = self.looper_counted
            || Looper::counts_here()
            || Looper::started() != self.loopers_started;
        if looper_counted && self.looped.is_none() && sys::cpu::is_nice() {
            return None;
        }
        let nice = if looper_counted {
            Nice::Idle
        } else {
            Nice::Work
        };
        let used = account(&self.started, &finished, nice);
        Some(match &self.looped {
            None => used.used,
            Some(looped) => {
                let count = looped.looper.count();
                by_looper(
                    &used,
                    &count.missing_percent(&looped.started, looped.idle_rate),
                )
            }
        })
    }
}

/// What the looper missed, less what a hypervisor took: that was nobody's work here.
fn by_looper(counted: &Accounted, missing: &[(u32, f64)]) -> CpuUse {
    let each: Vec<(u32, f64)> = missing
        .iter()
        .map(|(cpu, missing)| {
            let steal = counted.steal.iter().find(|(other, _)| other == cpu);
            let steal = steal.map_or(0.0, |(_, percent)| *percent);
            (*cpu, (missing - steal).max(0.0))
        })
        .collect();
    CpuUse {
        busy_percent: mean(&each),
        cpus: each.len() as u32,
        peak: peak(&each),
        method: CpuMethod::Looper,
        each,
        ..counted.used.clone()
    }
}

fn mean(each: &[(u32, f64)]) -> f64 {
    each.iter().map(|(_, percent)| percent).sum::<f64>() / each.len().max(1) as f64
}

fn peak(each: &[(u32, f64)]) -> Option<(u32, f64)> {
    each.iter()
        .copied()
        .reduce(|most, next| if next.1 > most.1 { next } else { most })
}

/// What /proc/stat says, and each CPU's stolen time in percent of its own.
struct Accounted {
    used: CpuUse,
    steal: Vec<(u32, f64)>,
}

/// What time of low priority is taken for.
#[derive(Clone, Copy, Debug)]
enum Nice {
    Work,
    /// A looper's. Other work of low priority is then not seen.
    Idle,
}

fn account(started: &[(u32, Ticks)], finished: &[(u32, Ticks)], nice: Nice) -> Accounted {
    // A CPU that came or went in between has no two readings to compare.
    let passed: Vec<(u32, Ticks)> = finished
        .iter()
        .filter_map(|(cpu, now)| {
            let (_, before) = started.iter().find(|(other, _)| other == cpu)?;
            let mut passed = now.since(before);
            if matches!(nice, Nice::Idle) {
                passed.idle += std::mem::take(&mut passed.nice);
            }
            Some((*cpu, passed))
        })
        .collect();
    let share = |of: fn(&Ticks) -> u64| -> Vec<(u32, f64)> {
        let percents = passed
            .iter()
            .map(|(cpu, ticks)| (*cpu, percent(of(ticks), ticks.total())));
        percents.collect()
    };
    let (each, steal) = (share(busy), share(|t| t.steal));
    Accounted {
        used: CpuUse {
            busy_percent: mean(&each),
            user_percent: mean(&share(|t| t.user)),
            system_percent: mean(&share(|t| t.system)),
            iowait_percent: mean(&share(|t| t.iowait)),
            irq_percent: mean(&share(|t| t.irq)),
            softirq_percent: mean(&share(|t| t.softirq)),
            steal_percent: Some(mean(&steal)),
            cpus: passed.len() as u32,
            peak: peak(&each),
            method: CpuMethod::ProcStat,
            each,
        },
        steal,
    }
}

/// Time in which the CPU worked for this host: neither idle (waiting for a disk is idle too) nor
/// taken by the hypervisor.
fn busy(ticks: &Ticks) -> u64 {
    ticks.total() - ticks.idle - ticks.iowait - ticks.steal
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 * 100.0 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_means_over_the_cpus_and_the_peak_is_the_busiest() {
        let started = [(0, Ticks::default()), (1, Ticks::default())];
        let finished = [
            (
                0,
                Ticks {
                    user: 25,
                    system: 25,
                    idle: 50,
                    ..Ticks::default()
                },
            ),
            (
                1,
                Ticks {
                    softirq: 60,
                    steal: 20,
                    iowait: 10,
                    idle: 10,
                    ..Ticks::default()
                },
            ),
            (
                2,
                Ticks {
                    user: 1000,
                    ..Ticks::default()
                },
            ),
        ];
        let used = account(&started, &finished, Nice::Work).used;
        assert_eq!(used.cpus, 2);
        assert!((used.busy_percent - 55.0).abs() < 1e-9);
        assert!((used.user_percent - 12.5).abs() < 1e-9);
        assert_eq!(used.steal_percent, Some(10.0));
        assert_eq!(used.peak, Some((1, 60.0)));
    }

    #[test]
    fn no_time_is_no_use() {
        let same = [(
            0,
            Ticks {
                user: 5,
                ..Ticks::default()
            },
        )];
        assert!(account(&same, &same, Nice::Work).used.busy_percent.abs() < 1e-9);
        assert_eq!(account(&[], &[], Nice::Work).used.peak, None);
    }

    #[test]
    fn what_a_looper_took_was_idle() {
        let passed = Ticks {
            user: 20,
            nice: 70,
            idle: 10,
            ..Ticks::default()
        };
        let busy = |nice| {
            let used = account(&[(0, Ticks::default())], &[(0, passed)], nice).used;
            (used.busy_percent, used.peak)
        };
        assert_eq!(busy(Nice::Work), (90.0, Some((0, 90.0))));
        assert_eq!(busy(Nice::Idle), (20.0, Some((0, 20.0))));
    }

    #[test]
    fn what_was_stolen_is_not_missed_work() {
        let counted = Accounted {
            used: account(&[], &[], Nice::Work).used,
            steal: vec![(0, 10.0), (1, 30.0)],
        };
        let used = by_looper(&counted, &[(0, 50.0), (1, 20.0), (2, 20.0)]);
        assert_eq!(used.each, [(0, 40.0), (1, 0.0), (2, 20.0)]);
        assert!((used.busy_percent - 20.0).abs() < 1e-9);
        assert_eq!((used.cpus, used.peak), (3, Some((0, 40.0))));
        assert_eq!(used.method, CpuMethod::Looper);
    }
}
