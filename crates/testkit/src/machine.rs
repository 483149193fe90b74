//! How busy the machine is, for tests whose figures depend on it.

use std::thread::sleep;
use std::time::Duration;

/// How long it is looked at: fifty ticks of each CPU.
const SAMPLE: Duration = Duration::from_millis(500);

/// The largest share of the CPUs that others may have on a quiet machine, a hypervisor among them.
const QUIET: f64 = 0.1;

/// Whether next to nothing else runs on this machine just now. The caller must not either.
pub fn is_quiet() -> bool {
    let before = Ticks::now();
    sleep(SAMPLE);
    let after = Ticks::now();
    let idle = after.idle.saturating_sub(before.idle) as f64;
    let all = after.all.saturating_sub(before.all) as f64;
    all > 0.0 && 1.0 - idle / all <= QUIET
}

/// The first line of `/proc/stat`, proc(5).
struct Ticks {
    /// Neither worked nor stolen: idle, or waiting for a disk.
    idle: u64,
    all: u64,
}

impl Ticks {
    fn now() -> Self {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        Self::of(text.lines().next().unwrap_or_default())
    }

    fn of(line: &str) -> Self {
        let words = line.split_whitespace().skip(1);
        // What guests use is part of what users do.
        let ticks: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
        Self {
            idle: ticks.iter().skip(3).take(2).sum(),
            all: ticks.iter().sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernels() {
        let ticks = Ticks::of("cpu  10 20 30 400 50 6 7 8 10 0");
        assert_eq!((ticks.idle, ticks.all), (450, 531));
    }
}
