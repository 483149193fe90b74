//! The log: lines on stderr, warnings only without `-d`. Their rate is bounded, so that clients cannot fill a disk.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sys::write_error_line;

/// The most lines per [`PERIOD`] with `-d`.
const MOST_LINES: u32 = 1000;

/// The most lines per [`PERIOD`] without it.
const MOST_WARNINGS: u32 = 100;

const PERIOD: Duration = Duration::from_secs(10);

/// The most lines per [`PERIOD`]; 0 until the log is started.
static MOST: AtomicU32 = AtomicU32::new(0);

static PACE: Mutex<Option<Pace>> = Mutex::new(None);

/// The lines of the current period.
#[derive(Clone, Copy, Debug)]
struct Pace {
    since: Instant,
    lines: u32,
    left_out: u64,
}

/// Whether a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is written, after a count of the lines left out before.
    Written {
        left_out: u64,
    },
    LeftOut,
}

/// Starts the log: with warnings, and with all other lines if `debug` is set.
pub(super) fn start(debug: bool) {
    let most = if debug { MOST_LINES } else { MOST_WARNINGS };
    MOST.store(most, Relaxed);
}

/// Writes a line if `-d` is given; never from within a measured loop.
pub(super) fn log(line: fmt::Arguments<'_>) {
    if MOST.load(Relaxed) == MOST_LINES {
        write(line);
    }
}

/// Writes a line about a host that may be an attacker: a refused client, or data from another address than the client's.
pub(super) fn warn(line: fmt::Arguments<'_>) {
    if MOST.load(Relaxed) > 0 {
        write(line);
    }
}

fn write(line: fmt::Arguments<'_>) {
    let verdict = {
        let mut pace = PACE.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        pace.get_or_insert(Pace::begin(now))
            .judge(now, MOST.load(Relaxed))
    };
    let Verdict::Written { left_out } = verdict else {
        return;
    };
    if left_out > 0 {
        write_error_line(format_args!("netserver: {left_out} log lines left out"));
    }
    write_error_line(format_args!("netserver: {line}"));
}

impl Pace {
    fn begin(now: Instant) -> Self {
        Self {
            since: now,
            lines: 0,
            left_out: 0,
        }
    }

    fn judge(&mut self, now: Instant, most: u32) -> Verdict {
        let mut left_out = 0;
        if now.saturating_duration_since(self.since) >= PERIOD {
            left_out = self.left_out;
            *self = Self::begin(now);
        }
        if self.lines == most {
            self.left_out += 1;
            return Verdict::LeftOut;
        }
        self.lines += 1;
        Verdict::Written { left_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_has_so_many_lines() {
        let now = Instant::now();
        let mut pace = Pace::begin(now);
        let verdicts = (0..MOST_LINES + 7).map(|_| pace.judge(now, MOST_LINES));
        let written = verdicts.filter(|verdict| *verdict != Verdict::LeftOut);
        assert_eq!(written.count(), MOST_LINES as usize);
        let next = Verdict::Written { left_out: 7 };
        assert_eq!(pace.judge(now + PERIOD, MOST_LINES), next);
        let further = Verdict::Written { left_out: 0 };
        assert_eq!(pace.judge(now + PERIOD, MOST_LINES), further);
    }
}
