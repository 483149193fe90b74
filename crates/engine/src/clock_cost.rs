//! Measures the cost and the resolution of the clock.

use model::ClockFacts;
use sys::clock::monotonic_ns;

/// Measures the clock with about 2,000 reads, which take 0.1 ms.
pub fn clock_facts() -> ClockFacts {
    // The first reads load the clock's page and code into the cache.
    let _ = read_steps();
    let steps = read_steps();
    // A sum of steps shows the cost of a read, even if the clock is too coarse for a single step.
    // The median leaves out batches that an interrupt has lengthened.
    let mut batches: Vec<u64> = steps
        .chunks(BATCH)
        .map(|batch| batch.iter().sum())
        .collect();
    batches.sort_unstable();
    ClockFacts {
        cost_ns: batches[batches.len() / 2] as f64 / BATCH as f64,
        resolution_ns: resolution(&steps),
    }
}

const BATCH: usize = 64;
const READINGS: usize = 16 * BATCH;

/// Returns the clock's advances between consecutive reads, in nanoseconds.
fn read_steps() -> Vec<u64> {
    let mut readings = [0; READINGS + 1];
    for reading in &mut readings {
        *reading = monotonic_ns();
    }
    readings.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// Returns the resolution of the clock in nanoseconds: the smallest distance between different
/// advances. If a tick is not a whole number of nanoseconds, advances differ by one and count as
/// equal. Three consecutive values show a resolution of 1 ns.
fn resolution(steps: &[u64]) -> u64 {
    let mut advances = steps.to_vec();
    advances.sort_unstable();
    advances.dedup();
    if advances.windows(3).any(|three| three[2] - three[0] == 2) {
        return 1;
    }
    let mut ticks = advances;
    ticks.dedup_by(|later, earlier| *later - *earlier == 1);
    let distance = ticks.windows(2).map(|pair| pair[1] - pair[0]).min();
    distance.or(ticks.first().copied()).unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resolution_is_the_smallest_distance_between_advances() {
        for (steps, expected) in [
            // A time stamp counter of some GHz.
            (&[31, 32, 33, 30, 32, 1200][..], 1),
            // A clock of 100 MHz.
            (&[30, 40, 30, 30, 20, 570][..], 10),
            // A timer of 24 MHz, which ticks between most reads.
            (&[41, 42, 83, 84, 42, 41][..], 42),
            // The same timer, read faster than it ticks.
            (&[0, 0, 41, 0, 42, 0][..], 41),
            // A clock of 4 ms.
            (&[0, 0, 4_000_000, 0][..], 4_000_000),
            (&[25, 25, 25][..], 25),
            (&[0][..], 1),
            (&[][..], 1),
        ] {
            assert_eq!(resolution(steps), expected, "{steps:?}");
        }
    }

    #[test]
    fn the_facts_of_this_clock_are_plausible() {
        let facts = clock_facts();
        assert!((1.0..100_000.0).contains(&facts.cost_ns), "{facts:?}");
        assert!(facts.resolution_ns >= 1, "{facts:?}");
    }
}
