//! A sweep over sizes, and over the gaps of each size.

use std::time::Duration;

use crate::options::Sweep;
use crate::sequence::PathEvidence;

/// For `--early-stop`, the path carried the rate of a test if its arrivals lasted at most this
/// share longer than its departures.
const MAX_STRETCH: f64 = 0.005;

/// The position in a running sweep.
#[derive(Clone, Debug)]
pub struct SweepPosition<'a> {
    sweep: &'a Sweep,
    /// The index of the size of the next test.
    size_index: usize,
    /// The index of the gap of the next test.
    gap_index: usize,
    /// The number of consecutive tests whose rate the path carried.
    consecutive_carried: u32,
}

impl<'a> SweepPosition<'a> {
    /// Starts at the first test.
    pub fn new(sweep: &'a Sweep) -> Self {
        Self {
            sweep,
            size_index: 0,
            gap_index: 0,
            consecutive_carried: 0,
        }
    }

    /// Returns size and gap of the next test; `None` at the end.
    pub fn advance(&mut self) -> Option<(u32, Duration)> {
        if self.gap_index == self.sweep.gaps.len() {
            (self.size_index, self.gap_index, self.consecutive_carried) =
                (self.size_index + 1, 0, 0);
        }
        let bytes = *self.sweep.sizes.get(self.size_index)?;
        let gap = self.sweep.gaps[self.gap_index];
        self.gap_index += 1;
        Some((bytes, gap))
    }

    /// Evaluates the evidence of the last test. Returns the number of tests of its size that the
    /// sweep skips.
    pub fn record_evidence(&mut self, evidence: &PathEvidence) -> usize {
        let is_carried = evidence.is_carried(0.0, MAX_STRETCH);
        self.consecutive_carried = if is_carried {
            self.consecutive_carried + 1
        } else {
            0
        };
        let is_enough = self
            .sweep
            .early_stop
            .is_some_and(|required| self.consecutive_carried >= required);
        if !is_enough {
            return 0;
        }
        let remaining = self.sweep.gaps.len() - self.gap_index;
        self.gap_index = self.sweep.gaps.len();
        remaining
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(lost: u64) -> PathEvidence {
        let time = Duration::from_millis(10);
        PathEvidence {
            bytes: 100,
            sent: 100,
            lost,
            dropped: 0,
            departure_span: time,
            arrival_span: time,
        }
    }

    #[test]
    fn a_sweep_tests_each_size_with_each_gap() {
        let gaps: Vec<_> = (0..4).map(Duration::from_micros).collect();
        let mut sweep = Sweep {
            sizes: vec![100, 50],
            gaps,
            early_stop: None,
        };
        let run_sweep = |sweep: &Sweep, lost: fn(u64) -> u64| {
            let mut position = SweepPosition::new(sweep);
            let mut tests = Vec::new();
            while let Some((bytes, gap)) = position.advance() {
                tests.push((bytes, gap.as_micros() as u64));
                position.record_evidence(&evidence(lost(gap.as_micros() as u64)));
            }
            tests
        };
        let all = run_sweep(&sweep, |_| 0);
        assert_eq!(all.len(), 8);
        assert_eq!((all[0], all[4], all[7]), ((100, 0), (50, 0), (50, 3)));
        sweep.early_stop = Some(2);
        assert_eq!(
            run_sweep(&sweep, |_| 0),
            [(100, 0), (100, 1), (50, 0), (50, 1)]
        );
        // A test with loss restarts the count.
        assert_eq!(run_sweep(&sweep, |gap| u64::from(gap == 1)), all);
        assert_eq!(run_sweep(&sweep, |gap| u64::from(gap == 0)).len(), 6);
    }
}
