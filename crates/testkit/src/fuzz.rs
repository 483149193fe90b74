//! One random input after the other, by seeds that repeat them.
//!
//! `FUZZ_ITERATIONS` sets how many inputs a test gets ([`INPUTS`] by default); a failure prints its
//! seed, which `FUZZ_SEED` takes.

use std::ops::{Range, RangeInclusive};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::SeedableRng;
use rand::rngs::SmallRng;

/// How many inputs a test gets by default.
pub const INPUTS: u64 = 20_000;

/// With fewer inputs no share is compared.
const ENOUGH: u64 = 500;

/// Runs `test` with one seed after the other; what it returns is whether its input was taken.
///
/// Of all inputs `taken` percent must be: if next to nothing is taken, or next to nothing refused,
/// the inputs have come to test nothing.
///
/// # Panics
///
/// If `test` does, which names the seed, or if another share is taken.
pub fn each(what: &str, taken: RangeInclusive<u64>, test: impl Fn(&mut SmallRng) -> bool) {
    fewer(what, 1, taken, test);
}

/// The same with one of `of` inputs, for tests that take longer.
pub fn fewer(
    what: &str,
    of: u64,
    taken: RangeInclusive<u64>,
    test: impl Fn(&mut SmallRng) -> bool,
) {
    let seeds = seeds(INPUTS / of);
    let inputs = seeds.end - seeds.start;
    let mut count = 0;
    for seed in seeds {
        let run = || test(&mut SmallRng::seed_from_u64(seed));
        let Ok(is_taken) = catch_unwind(AssertUnwindSafe(run)) else {
            panic!("FUZZ_SEED={seed}: {what}");
        };
        count += u64::from(is_taken);
    }
    check(what, inputs, count, &taken);
}

/// Fails the test unless as many percent of the inputs were taken.
pub fn check(what: &str, inputs: u64, count: u64, taken: &RangeInclusive<u64>) {
    println!("{what}: {inputs} inputs, {count} of them taken");
    if inputs < ENOUGH {
        return;
    }
    let (least, most) = (taken.start() * inputs, taken.end() * inputs);
    assert!(
        (least..=most).contains(&(100 * count)),
        "{what}: {count} of {inputs} inputs were taken, not {taken:?} percent"
    );
}

/// The one seed that `FUZZ_SEED` says, or as many as `FUZZ_ITERATIONS` or else `default` says.
pub fn seeds(default: u64) -> Range<u64> {
    let number = |name| {
        let value = std::env::var(name).ok();
        value.and_then(|value| value.parse::<u64>().ok())
    };
    match number("FUZZ_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FUZZ_ITERATIONS").unwrap_or(default),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(taken: RangeInclusive<u64>, count: u64) -> bool {
        catch_unwind(|| check("inputs", 1000, count, &taken)).is_err()
    }

    #[test]
    fn a_share_that_is_another_fails() {
        assert!(!fails(20..=30, 200) && !fails(20..=30, 300) && !fails(0..=0, 0));
        assert!(fails(20..=30, 199) && fails(20..=30, 301) && fails(100..=100, 999));
        // Too few to tell.
        check("inputs", 10, 10, &(0..=0));
    }
}
