//! A rate limit for log lines, so that clients cannot fill a disk.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sys::write_error_line;

/// The length of a period.
const PERIOD: Duration = Duration::from_secs(10);

/// A limit for log lines, and the number of lines in the current period.
#[derive(Clone, Copy, Debug)]
pub struct LogRateLimit {
    period_start: Instant,
    lines: u32,
    suppressed: u64,
}

impl LogRateLimit {
    /// Starts a period.
    pub fn begin(now: Instant) -> Self {
        Self {
            period_start: now,
            lines: 0,
            suppressed: 0,
        }
    }

    /// Starts the next period if the current one has ended. Returns the number of lines suppressed
    /// in the period that has ended.
    pub fn begin_next_period(&mut self, now: Instant) -> Option<u64> {
        let has_ended = now.saturating_duration_since(self.period_start) >= PERIOD;
        has_ended.then(|| std::mem::replace(self, Self::begin(now)).suppressed)
    }

    /// Returns the number of lines suppressed in this period.
    pub fn suppressed(&self) -> u64 {
        self.suppressed
    }

    /// Counts a line that another limit suppressed.
    pub fn count_suppressed(&mut self) {
        self.suppressed += 1;
    }

    /// Returns the number of lines left out before this one, or `None` if this one is left out as
    /// well. A period has at most `max_lines` lines.
    pub fn admit(&mut self, now: Instant, max_lines: u32) -> Option<u64> {
        let suppressed = self.begin_next_period(now).unwrap_or(0);
        if self.lines == max_lines {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        Some(suppressed)
    }
}

/// A limit for lines that several threads write.
#[derive(Debug, Default)]
pub struct SharedLogLimit(Mutex<Option<LogRateLimit>>);

impl SharedLogLimit {
    /// Does the same as [`LogRateLimit::admit`], now.
    pub fn admit(&self, max_lines: u32) -> Option<u64> {
        let mut limit = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let limit = limit.get_or_insert(LogRateLimit::begin(now));
        limit.admit(now, max_lines)
    }
}

/// A log on stderr with a limit of lines per period.
#[derive(Debug)]
pub struct ErrorLog {
    program: &'static str,
    limit: SharedLogLimit,
}

impl ErrorLog {
    /// A limit for lines about refused clients.
    pub const MAX_WARNINGS: u32 = 100;

    /// Creates a log whose lines begin with a program's name.
    pub const fn new(program: &'static str) -> Self {
        Self {
            program,
            limit: SharedLogLimit(Mutex::new(None)),
        }
    }

    /// Writes a line, unless the period has `max_lines` lines.
    pub fn write(&self, line: fmt::Arguments<'_>, max_lines: u32) {
        let Some(suppressed) = self.limit.admit(max_lines) else {
            return;
        };
        let program = self.program;
        if suppressed > 0 {
            write_error_line(format_args!("{program}: {suppressed} log lines left out"));
        }
        write_error_line(format_args!("{program}: {line}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_LINES: u32 = 100;

    #[test]
    fn a_period_has_a_maximum_of_lines() {
        let now = Instant::now();
        let mut limit = LogRateLimit::begin(now);
        let written = (0..MAX_LINES + 7).filter_map(|_| limit.admit(now, MAX_LINES));
        assert_eq!(written.count(), MAX_LINES as usize);
        assert_eq!(limit.admit(now + PERIOD, MAX_LINES), Some(7));
        assert_eq!(limit.admit(now + PERIOD, MAX_LINES), Some(0));
    }
}
