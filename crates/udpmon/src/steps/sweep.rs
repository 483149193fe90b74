//! A sweep over sizes, and over the gaps of each size.

use std::time::Duration;

use crate::options::Sweep;
use crate::steps::Evidence;

/// The maximum extra time of arrivals over departures in a test that counts as loss-free.
const STRETCH: f64 = 0.005;

/// A position in a sweep.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    sweep: &'a Sweep,
    size: usize,
    gap: usize,
    /// Consecutive tests that the path carried.
    carried: u32,
}

impl<'a> Walk<'a> {
    /// Starts at the first test.
    pub fn new(sweep: &'a Sweep) -> Self {
        Self {
            sweep,
            size: 0,
            gap: 0,
            carried: 0,
        }
    }

    /// Returns size and gap of the next test; `None` at the end.
    pub fn advance(&mut self) -> Option<(u32, Duration)> {
        if self.gap == self.sweep.gaps.len() {
            (self.size, self.gap, self.carried) = (self.size + 1, 0, 0);
        }
        let bytes = *self.sweep.sizes.get(self.size)?;
        let gap = self.sweep.gaps[self.gap];
        self.gap += 1;
        Some((bytes, gap))
    }

    /// Handles the evidence of that test. Returns the number of skipped tests of its size.
    pub fn saw(&mut self, evidence: &Evidence) -> usize {
        let is_carried = evidence.is_carried(0.0, STRETCH);
        self.carried = if is_carried { self.carried + 1 } else { 0 };
        let is_enough = self
            .sweep
            .early_stop
            .is_some_and(|enough| self.carried >= enough);
        if !is_enough {
            return 0;
        }
        let left = self.sweep.gaps.len() - self.gap;
        self.gap = self.sweep.gaps.len();
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(lost: u64) -> Evidence {
        let time = Duration::from_millis(10);
        Evidence {
            bytes: 100,
            sent: 100,
            lost,
            dropped: 0,
            departures: time,
            arrivals: time,
        }
    }

    #[test]
    fn a_sweep_takes_each_size_with_each_gap() {
        let gaps: Vec<_> = (0..4).map(Duration::from_micros).collect();
        let mut sweep = Sweep {
            sizes: vec![100, 50],
            gaps,
            early_stop: None,
        };
        let walked = |sweep: &Sweep, lost: fn(u64) -> u64| {
            let mut walk = Walk::new(sweep);
            let mut all = Vec::new();
            while let Some((bytes, gap)) = walk.advance() {
                all.push((bytes, gap.as_micros() as u64));
                walk.saw(&evidence(lost(gap.as_micros() as u64)));
            }
            all
        };
        let all = walked(&sweep, |_| 0);
        assert_eq!(all.len(), 8);
        assert_eq!((all[0], all[4], all[7]), ((100, 0), (50, 0), (50, 3)));
        sweep.early_stop = Some(2);
        assert_eq!(
            walked(&sweep, |_| 0),
            [(100, 0), (100, 1), (50, 0), (50, 1)]
        );
        // A test with loss restarts the count.
        assert_eq!(walked(&sweep, |gap| u64::from(gap == 1)), all);
        assert_eq!(walked(&sweep, |gap| u64::from(gap == 0)).len(), 6);
    }
}
