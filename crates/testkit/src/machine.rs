//! Load of the machine, for tests whose figures depend on it.

use std::thread::sleep;
use std::time::Duration;

/// Time over which the load is measured: 50 ticks per CPU.
const SAMPLE_TIME: Duration = Duration::from_millis(500);

/// Maximum busy share of the CPUs of an idle machine. Time stolen by a hypervisor counts as busy.
const MAX_BUSY_SHARE: f64 = 0.1;

/// Returns whether the machine is almost idle. The caller must be idle too.
pub fn is_machine_idle() -> bool {
    let before = CpuTicks::read();
    sleep(SAMPLE_TIME);
    let after = CpuTicks::read();
    let idle = after.idle.saturating_sub(before.idle) as f64;
    let total = after.total.saturating_sub(before.total) as f64;
    total > 0.0 && 1.0 - idle / total <= MAX_BUSY_SHARE
}

/// CPU time in ticks, from the first line of `/proc/stat`: proc(5).
struct CpuTicks {
    /// Idle time, including the time waiting for I/O.
    idle: u64,
    total: u64,
}

impl CpuTicks {
    fn read() -> Self {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        Self::parse(text.lines().next().unwrap_or_default())
    }

    fn parse(line: &str) -> Self {
        let words = line.split_whitespace().skip(1);
        // The ticks of guests are also part of the user ticks, so fields 9 and 10 are left out.
        let ticks: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
        Self {
            idle: ticks.iter().skip(3).take(2).sum(),
            total: ticks.iter().sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_a_line_of_proc_stat() {
        let ticks = CpuTicks::parse("cpu  10 20 30 400 50 6 7 8 10 0");
        assert_eq!((ticks.idle, ticks.total), (450, 531));
    }
}
