//! A bound for the lines of a log, so that clients cannot fill a disk.

use std::time::{Duration, Instant};

/// How long a period is.
const PERIOD: Duration = Duration::from_secs(10);

/// The lines of the current period.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    since: Instant,
    lines: u32,
    left_out: u64,
}

/// Whether a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is written, after a count of the lines left out before.
    Written {
        /// So many.
        left_out: u64,
    },
    /// It is not.
    LeftOut,
}

impl Pace {
    /// Begins a period.
    pub fn begin(now: Instant) -> Self {
        Self {
            since: now,
            lines: 0,
            left_out: 0,
        }
    }

    /// Whether a line is written now, of which a period has `most`.
    pub fn judge(&mut self, now: Instant, most: u32) -> Verdict {
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

    const MOST: u32 = 100;

    #[test]
    fn a_period_has_so_many_lines() {
        let now = Instant::now();
        let mut pace = Pace::begin(now);
        let verdicts = (0..MOST + 7).map(|_| pace.judge(now, MOST));
        let written = verdicts.filter(|verdict| *verdict != Verdict::LeftOut);
        assert_eq!(written.count(), MOST as usize);
        let next = Verdict::Written { left_out: 7 };
        assert_eq!(pace.judge(now + PERIOD, MOST), next);
        let further = Verdict::Written { left_out: 0 };
        assert_eq!(pace.judge(now + PERIOD, MOST), further);
    }
}
