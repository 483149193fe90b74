//! The seeded loop of all fuzz tests, and the mutations that they share.
//!
//! `FUZZ_ITERATIONS` sets the number of inputs per test ([`INPUTS`] by default). A failure prints the
//! seed of its input, which `FUZZ_SEED` repeats.

use std::ffi::OsString;
use std::fmt::Debug;
use std::ops::{Range, RangeInclusive};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Default number of inputs per test.
pub const INPUTS: u64 = 20_000;

/// With fewer inputs no share is compared.
const ENOUGH: u64 = 500;

/// Runs `test` with one seed after the other; it returns whether it accepted its input.
///
/// The percentage of accepted inputs must be within `taken`: inputs that are nearly all accepted, or
/// nearly all refused, test nothing.
///
/// # Panics
///
/// If `test` panics, with the seed in the message, or if the percentage is another.
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
    let seeds = seeds(INPUTS);
    let seeds = seeds.start..seeds.start + (seeds.end - seeds.start).div_ceil(of);
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

/// Decodes an input and encodes it again by `again`, twice; returns whether it was decoded at all.
///
/// # Panics
///
/// If the second round differs from the first.
pub fn survives<T: PartialEq + Debug>(input: &T, again: impl Fn(&T) -> Option<T>) -> bool {
    let Some(once) = again(input) else {
        return false;
    };
    assert_eq!(again(&once), Some(once));
    true
}

/// Returns one of `all`.
pub fn one_of<'a, T>(rng: &mut SmallRng, all: &'a [T]) -> &'a T {
    all.choose(rng).expect("there are some")
}

/// Changes a few bytes, words and texts of a record, whose length stays.
pub fn overwrite(rng: &mut SmallRng, record: &mut [u8]) {
    let len = record.len();
    if len < 4 {
        return rng.fill(record);
    }
    for _ in 0..rng.random_range(0..5) {
        match rng.random_range(0..4) {
            0 => record[rng.random_range(0..len)] = rng.random(),
            1..=2 => {
                let at = 4 * rng.random_range(0..len / 4);
                record[at..at + 4].copy_from_slice(&word(rng));
            }
            // A text that does not end, ends early, or is not UTF-8.
            _ => {
                let start = rng.random_range(0..len);
                let end = rng.random_range(start..len);
                record[start..end].fill(*one_of(rng, b"x\xff\xc3\0"));
            }
        }
    }
}

/// Returns four bytes of a record: zeros, a small number, an end of some range, a float, or noise.
/// Numbers are in network byte order.
pub fn word(rng: &mut SmallRng) -> [u8; 4] {
    const ENDS: [i32; 9] = [
        -1,
        1,
        i32::MAX,
        i32::MIN,
        65_535,
        65_536,
        0xBADC,
        // As floats: not a number, and infinity.
        0x7fc0_0000,
        0x7f80_0000,
    ];
    match rng.random_range(0..8) {
        0..=2 => [0; 4],
        3..=4 => rng.random_range(-2..64_i32).to_be_bytes(),
        5 => one_of(rng, &ENDS).to_be_bytes(),
        6 => rng.random_range(0.0..1000.0_f32).to_be_bytes(),
        _ => rng.random(),
    }
}

/// Returns the bytes with some of them changed, doubled or removed.
pub fn damaged(rng: &mut SmallRng, bytes: &[u8]) -> Vec<u8> {
    damaged_with(rng, bytes, &[])
}

/// The same, sometimes with one of `words` inserted.
pub fn damaged_with(rng: &mut SmallRng, bytes: &[u8], words: &[&str]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..rng.random_range(0..5) {
        let at = rng.random_range(0..=bytes.len());
        let end = (at + rng.random_range(0..20)).min(bytes.len());
        match rng.random_range(0..if words.is_empty() { 4 } else { 5 }) {
            0 if at < bytes.len() => bytes[at] = rng.random(),
            // Another digit: still a document, with other figures.
            1 => {
                if let Some(digit) = bytes[at..].iter_mut().find(|byte| byte.is_ascii_digit()) {
                    *digit = rng.random_range(b'0'..=b'9');
                }
            }
            2 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
            4 => drop(bytes.splice(at..at, one_of(rng, words).bytes())),
            _ => drop(bytes.drain(at..end)),
        }
    }
    bytes
}

/// Random command lines from the options of a program and from values that it knows.
pub struct Words {
    options: Vec<String>,
    values: &'static [&'static str],
    suffixes: &'static [&'static str],
}

impl Words {
    /// Takes the options from synopses such as `-o, --old[=n]`. `values` are some that an option
    /// accepts, `suffixes` the units behind numbers.
    pub fn new(
        synopses: impl Iterator<Item = String>,
        values: &'static [&'static str],
        suffixes: &'static [&'static str],
    ) -> Self {
        let names = |synopsis: String| -> Vec<String> {
            let names = synopsis
                .split(", ")
                .filter_map(|name| name.split([' ', '[']).next());
            names.map(str::to_owned).collect()
        };
        Self {
            options: synopses.flat_map(names).collect(),
            values,
            suffixes,
        }
    }

    /// Returns up to `most` words.
    pub fn command_line(&self, rng: &mut SmallRng, most: usize) -> Vec<String> {
        let words = rng.random_range(0..most);
        (0..words).map(|_| self.word(rng)).collect()
    }

    /// Returns the words of one of `roles`, and up to 4 random ones after them.
    pub fn command_line_of(&self, rng: &mut SmallRng, roles: &[&str]) -> Vec<OsString> {
        let role = one_of(rng, roles).split_whitespace().map(OsString::from);
        let words = self.command_line(rng, 5).into_iter().map(Into::into);
        role.chain(words).collect()
    }

    fn word(&self, rng: &mut SmallRng) -> String {
        let option = one_of(rng, &self.options);
        match rng.random_range(0..10) {
            0..=3 => option.clone(),
            4 => format!("{option}{}", self.value(rng)),
            5 => format!("{option}={}", self.value(rng)),
            // A cluster of letters, most of which are no options.
            6 => {
                let letters = rng.random_range(0..4);
                (0..letters).fold("-".to_owned(), |word, _| word + *one_of(rng, &LETTERS))
            }
            7 => "--".to_owned(),
            _ => self.value(rng),
        }
    }

    /// Returns a known value, a number with a unit, a pair of those, or noise.
    pub fn value(&self, rng: &mut SmallRng) -> String {
        match rng.random_range(0..8) {
            0..=1 => (*one_of(rng, self.values)).to_owned(),
            2..=3 => self.number(rng),
            4 => format!("{},{}", self.number(rng), self.number(rng)),
            5 => format!("{},{}", one_of(rng, self.values), one_of(rng, self.values)),
            6 => (0..rng.random_range(0..200))
                .map(|_| char::from(rng.random_range(1..127_u8)))
                .collect(),
            _ => (0..rng.random_range(0..12))
                .map(|_| rng.random::<char>())
                .filter(|c| *c != '\0')
                .collect(),
        }
    }

    /// Returns a number of any size with a unit.
    pub fn number(&self, rng: &mut SmallRng) -> String {
        const ENDS: [i64; 7] = [
            i64::MIN,
            i64::MAX,
            1 << 31,
            -(1 << 31),
            (1 << 32) - 1,
            65_535,
            65_536,
        ];
        let suffix = one_of(rng, self.suffixes);
        match rng.random_range(0..5) {
            0 => format!("{}{suffix}", rng.random_range(-2..20)),
            1 => format!("{}{suffix}", one_of(rng, &ENDS)),
            2 => format!("{}.{}{suffix}", rng.random::<u8>(), rng.random::<u8>()),
            _ => format!("{}{suffix}", rng.random::<i64>() >> rng.random_range(0..63)),
        }
    }
}

/// Letters that most programs have no option for, and what is not a letter.
const LETTERS: [&str; 16] = [
    "q", "Q", "z", "-", "=", "?", ":", ";", "0", "9", "é", " ", "\n", "\u{1}", ",", "/",
];

/// Fails the test unless the percentage `count` of `inputs` is within `taken`.
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

/// Returns the one seed in `FUZZ_SEED`, or as many as `FUZZ_ITERATIONS` has, or else `default`.
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

    #[test]
    fn a_round_that_changes_the_input_fails() {
        assert!(survives(&2, |n| Some(*n)) && !survives(&2, |_| None));
        assert!(catch_unwind(|| survives(&2, |n| Some(n + 1))).is_err());
    }

    #[test]
    fn mutations_take_inputs_of_any_length() {
        for length in 0..9 {
            each("mutations", 100..=100, |rng| {
                let mut record = vec![7; length];
                overwrite(rng, &mut record);
                assert_eq!(record.len(), length);
                damaged_with(rng, &record, &["word"]);
                true
            });
        }
    }
}
