//! A rate limit for log lines, so that clients cannot fill a disk.

use std::time::{Duration, Instant};

/// The length of a period.
const PERIOD: Duration = Duration::from_secs(10);

/// The number of lines in the current period.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    since: Instant,
    lines: u32,
    left_out: u64,
}

/// The decision about a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Write it. First report the number of lines left out before.
    Written {
        /// The number of lines left out.
        left_out: u64,
    },
    /// Do not write it.
    LeftOut,
}

impl Pace {
    /// Starts a period.
    pub fn begin(now: Instant) -> Self {
        Self {
            since: now,
            lines: 0,
            left_out: 0,
        }
    }

    /// Decides whether to write a line now. A period has at most `most` lines.
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
