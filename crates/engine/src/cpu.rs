use model::{CpuMethod, CpuUse};
use sys::cpu::{Ticks, snapshot};

/// Accounts the whole host's CPU time between two moments, from /proc/stat.
///
/// A tick is 10 ms (4 ms on some kernels), so a share over a second is right to a few points.
#[derive(Debug)]
pub struct CpuMeter {
    started: Vec<(u32, Ticks)>,
}

impl CpuMeter {
    /// Starts; `None` where /proc/stat cannot be read.
    pub fn start() -> Option<Self> {
        Some(Self {
            started: snapshot().ok()?,
        })
    }

    /// What passed since.
    pub fn finish(&self) -> Option<CpuUse> {
        Some(account(&self.started, &snapshot().ok()?))
    }
}

fn account(started: &[(u32, Ticks)], finished: &[(u32, Ticks)]) -> CpuUse {
    // A CPU that came or went in between has no two readings to compare.
    let passed: Vec<(u32, Ticks)> = finished
        .iter()
        .filter_map(|(cpu, now)| {
            let (_, before) = started.iter().find(|(other, _)| other == cpu)?;
            Some((*cpu, now.since(before)))
        })
        .collect();
    let mean = |share: fn(&Ticks) -> u64| {
        let sum: f64 = passed
            .iter()
            .map(|(_, ticks)| percent(share(ticks), ticks.total()))
            .sum();
        if passed.is_empty() {
            0.0
        } else {
            sum / passed.len() as f64
        }
    };
    let peak = passed
        .iter()
        .map(|(cpu, ticks)| (*cpu, percent(busy(ticks), ticks.total())))
        .reduce(|most, next| if next.1 > most.1 { next } else { most });
    CpuUse {
        busy_percent: mean(busy),
        user_percent: mean(|t| t.user),
        system_percent: mean(|t| t.system),
        iowait_percent: mean(|t| t.iowait),
        irq_percent: mean(|t| t.irq),
        softirq_percent: mean(|t| t.softirq),
        steal_percent: Some(mean(|t| t.steal)),
        cpus: passed.len() as u32,
        peak,
        method: CpuMethod::ProcStat,
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
        let used = account(&started, &finished);
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
        assert!(account(&same, &same).busy_percent.abs() < 1e-9);
        assert_eq!(account(&[], &[]).peak, None);
    }
}
