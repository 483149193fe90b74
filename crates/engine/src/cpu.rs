//! CPU time of the host over the measured phase.

use std::sync::Arc;
use std::time::Instant;

use model::{CpuMethod, CpuUse, EndpointPlan};
use sys::cpu::{CpuTicks, elapsed_ticks, read_ticks};

use crate::looper::{IdleCounts, Looper};

/// Measures the CPU time of the whole host between two moments.
#[derive(Debug)]
pub(crate) struct CpuMeter {
    started: Instant,
    start_ticks: Vec<(u32, CpuTicks)>,
    /// Whether a looper ran on this host at the start.
    looper_was_running: bool,
    /// Number of loopers that this process had started before the measurement.
    loopers_started: u64,
    looper: Option<LooperMeter>,
}

#[derive(Debug)]
struct LooperMeter {
    looper: Arc<Looper>,
    start_counts: IdleCounts,
    idle_rate: f64,
}

impl CpuMeter {
    /// Starts a measurement if the endpoint requests one. Returns `None` if /proc/stat has no
    /// ticks, or if the requested looper has not been started and calibrated.
    ///
    /// A tick of /proc/stat is 10 ms (4 ms on some kernels), so a share over one second is accurate
    /// to a few percentage points.
    pub(crate) fn start(endpoint: &EndpointPlan) -> Option<Self> {
        if !endpoint.measure_cpu {
            return None;
        }
        let looper_meter = match endpoint.idle_loop {
            None => None,
            Some(idle_loop) => {
                let looper = Looper::current()?;
                Some(LooperMeter {
                    start_counts: looper.counts(),
                    looper,
                    idle_rate: idle_loop.rate?,
                })
            }
        };
        Some(Self {
            looper_was_running: Looper::is_running_on_host(),
            loopers_started: Looper::started_count(),
            started: Instant::now(),
            start_ticks: read_ticks().ok()?,
            looper: looper_meter,
        })
    }

    /// Returns the CPU time since the start. Returns `None` also if /proc/stat has become unavailable
    /// or does not advance, or cannot separate a looper's time from this process's.
    pub(crate) fn finish(&self) -> Option<CpuUse> {
        let finished = read_ticks().ok()?;
        // A looper of another test, in this or another process, uses the idle time.
        let looper_was_running = self.looper_was_running
            || Looper::is_running_on_host()
            || Looper::started_count() != self.loopers_started;
        if looper_was_running && self.looper.is_none() && sys::cpu::is_nice() {
            return None;
        }
        let nice = if looper_was_running {
            NiceTime::Idle
        } else {
            NiceTime::Work
        };
        let elapsed = elapsed_ticks(&self.start_ticks, &finished, self.started.elapsed());
        if elapsed.is_empty() {
            return None;
        }
        let account = account(elapsed, nice);
        Some(match &self.looper {
            None => account.used,
            Some(meter) => {
                let counts = meter.looper.counts();
                looper_cpu_use(
                    &account,
                    &counts.missing_percent(&meter.start_counts, meter.idle_rate),
                )
            }
        })
    }
}

/// Returns the CPU time that a looper missed, without the time that a hypervisor took.
fn looper_cpu_use(account: &CpuAccount, missing: &[(u32, f64)]) -> CpuUse {
    let each: Vec<(u32, f64)> = missing
        .iter()
        .map(|(cpu, missing)| {
            let steal = account.steal.iter().find(|(steal_cpu, _)| steal_cpu == cpu);
            let steal = steal.map_or(0.0, |(_, percent)| *percent);
            (*cpu, (missing - steal).max(0.0))
        })
        .collect();
    CpuUse {
        busy_percent: mean(&each),
        cpus: each.len() as u32,
        peak: peak(&each),
        method: CpuMethod::Looper,
        busy_percent_per_cpu: each,
        ..account.used.clone()
    }
}

fn mean(each: &[(u32, f64)]) -> f64 {
    each.iter().map(|(_, percent)| percent).sum::<f64>() / each.len().max(1) as f64
}

fn peak(each: &[(u32, f64)]) -> Option<(u32, f64)> {
    each.iter()
        .copied()
        .reduce(|peak, next| if next.1 > peak.1 { next } else { peak })
}

/// CPU time by /proc/stat, and each CPU's stolen time in percent.
struct CpuAccount {
    used: CpuUse,
    steal: Vec<(u32, f64)>,
}

/// How time of low priority counts.
#[derive(Clone, Copy, Debug)]
enum NiceTime {
    Work,
    /// The time is that of a looper. Other work of low priority is not measured.
    Idle,
}

fn account(mut elapsed: Vec<(u32, CpuTicks)>, nice: NiceTime) -> CpuAccount {
    if matches!(nice, NiceTime::Idle) {
        for (_, ticks) in &mut elapsed {
            ticks.idle += std::mem::take(&mut ticks.nice);
        }
    }
    let share = |field: fn(&CpuTicks) -> u64| -> Vec<(u32, f64)> {
        let percents = elapsed
            .iter()
            .map(|(cpu, ticks)| (*cpu, percent(field(ticks), ticks.total())));
        percents.collect()
    };
    let (each, steal) = (share(busy), share(|ticks| ticks.steal));
    CpuAccount {
        used: CpuUse {
            busy_percent: mean(&each),
            user_percent: mean(&share(|ticks| ticks.user + ticks.nice)),
            system_percent: mean(&share(|ticks| ticks.system)),
            iowait_percent: mean(&share(|ticks| ticks.iowait)),
            irq_percent: mean(&share(|ticks| ticks.irq)),
            softirq_percent: mean(&share(|ticks| ticks.softirq)),
            steal_percent: Some(mean(&steal)),
            cpus: elapsed.len() as u32,
            peak: peak(&each),
            method: CpuMethod::ProcStat,
            busy_percent_per_cpu: each,
        },
        steal,
    }
}

/// Returns the time in which the CPU worked for this host: neither idle, nor waiting for a disk,
/// nor taken by the hypervisor.
fn busy(ticks: &CpuTicks) -> u64 {
    ticks.total() - ticks.idle - ticks.iowait - ticks.steal
}

fn percent(part: u64, total: u64) -> f64 {
    if total == 0 {
        0.0
    } else {
        part as f64 * 100.0 / total as f64
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A time after which a CPU without ticks is frozen.
    const LONG: Duration = Duration::from_secs(1);

    #[test]
    fn shares_are_means_over_the_cpus_and_the_peak_is_the_busiest() {
        let started = [(0, CpuTicks::default()), (1, CpuTicks::default())];
        let finished = [
            (
                0,
                CpuTicks {
                    user: 25,
                    system: 25,
                    idle: 50,
                    ..CpuTicks::default()
                },
            ),
            (
                1,
                CpuTicks {
                    softirq: 60,
                    steal: 20,
                    iowait: 10,
                    idle: 10,
                    ..CpuTicks::default()
                },
            ),
            (
                2,
                CpuTicks {
                    user: 1000,
                    ..CpuTicks::default()
                },
            ),
        ];
        let elapsed = elapsed_ticks(&started, &finished, LONG);
        let used = account(elapsed, NiceTime::Work).used;
        assert_eq!(used.cpus, 2);
        assert!((used.busy_percent - 55.0).abs() < 1e-9);
        assert!((used.user_percent - 12.5).abs() < 1e-9);
        assert_eq!(used.steal_percent, Some(10.0));
        assert_eq!(used.peak, Some((1, 60.0)));
    }

    #[test]
    fn no_elapsed_tick_is_zero_use_unless_the_ticks_are_frozen() {
        let same = [(
            0,
            CpuTicks {
                user: 5,
                ..CpuTicks::default()
            },
        )];
        let elapsed = elapsed_ticks(&same, &same, Duration::from_millis(1));
        let used = account(elapsed, NiceTime::Work).used;
        assert!(used.cpus == 1 && used.busy_percent.abs() < 1e-9);
        assert_eq!(elapsed_ticks(&same, &same, LONG), []);
        assert_eq!(account(Vec::new(), NiceTime::Work).used.peak, None);
    }

    #[test]
    fn nice_time_of_a_looper_counts_as_idle() {
        let elapsed = CpuTicks {
            user: 20,
            nice: 70,
            idle: 10,
            ..CpuTicks::default()
        };
        let busy = |nice| {
            let used = account(vec![(0, elapsed)], nice).used;
            // The parts add up to the busy time.
            assert!((used.user_percent - used.busy_percent).abs() < 1e-9);
            (used.busy_percent, used.peak)
        };
        assert_eq!(busy(NiceTime::Work), (90.0, Some((0, 90.0))));
        assert_eq!(busy(NiceTime::Idle), (20.0, Some((0, 20.0))));
    }

    #[test]
    fn the_use_by_a_looper_excludes_stolen_time() {
        let account = CpuAccount {
            used: account(Vec::new(), NiceTime::Work).used,
            steal: vec![(0, 10.0), (1, 30.0)],
        };
        let used = looper_cpu_use(&account, &[(0, 50.0), (1, 20.0), (2, 20.0)]);
        assert_eq!(used.busy_percent_per_cpu, [(0, 40.0), (1, 0.0), (2, 20.0)]);
        assert!((used.busy_percent - 20.0).abs() < 1e-9);
        assert_eq!((used.cpus, used.peak), (3, Some((0, 40.0))));
        assert_eq!(used.method, CpuMethod::Looper);
    }
}
