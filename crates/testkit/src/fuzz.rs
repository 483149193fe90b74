//! The seeded loop of all fuzz tests, and their common mutations.
//!
//! `FUZZ_ITERATIONS` sets the number of inputs per test (default [`DEFAULT_INPUTS`]). A failure
//! prints the seed of its input. `FUZZ_SEED` runs only that input. `FUZZ_SECONDS` limits the time of
//! the tests that send their inputs to a server.

use std::ffi::OsString;
use std::fmt::Debug;
use std::ops::{Range, RangeInclusive};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Default number of inputs per test.
pub const DEFAULT_INPUTS: u64 = 20_000;

/// Minimum number of inputs for the check of the accepted percentage.
const MIN_INPUTS_FOR_CHECK: u64 = 500;

/// Runs `test` once per seed. `test` returns whether it accepted its input.
///
/// The percentage of accepted inputs must be within `accepted_percent`. A test checks little if it
/// accepts or refuses nearly all inputs.
///
/// # Panics
///
/// If `test` panics (the message contains the seed), or if the percentage is out of range.
pub fn run_inputs(
    name: &str,
    accepted_percent: RangeInclusive<u64>,
    test: impl Fn(&mut SmallRng) -> bool,
) {
    run_one_in(name, 1, accepted_percent, test);
}

/// Does the same as [`run_inputs`] with 1/`divisor` of the inputs, for slow tests.
pub fn run_one_in(
    name: &str,
    divisor: u64,
    accepted_percent: RangeInclusive<u64>,
    test: impl Fn(&mut SmallRng) -> bool,
) {
    let seeds = seeds(DEFAULT_INPUTS);
    let seeds = seeds.start..seeds.start + (seeds.end - seeds.start).div_ceil(divisor);
    let inputs = seeds.end - seeds.start;
    let mut accepted = 0;
    for seed in seeds {
        let run = || test(&mut SmallRng::seed_from_u64(seed));
        let Ok(is_accepted) = catch_unwind(AssertUnwindSafe(run)) else {
            panic!("FUZZ_SEED={seed}: {name}");
        };
        accepted += u64::from(is_accepted);
    }
    check_accepted_percent(name, inputs, accepted, &accepted_percent);
}

/// Applies `encode_and_decode` to `input`, and then to the result. Returns whether the first call
/// succeeded.
///
/// # Panics
///
/// If the result of the second call differs from that of the first.
pub fn check_round_trip<T: PartialEq + Debug>(
    input: &T,
    encode_and_decode: impl Fn(&T) -> Option<T>,
) -> bool {
    let Some(decoded) = encode_and_decode(input) else {
        return false;
    };
    assert_eq!(encode_and_decode(&decoded), Some(decoded));
    true
}

/// Returns a random element of `choices`.
pub fn choose<'a, T>(rng: &mut SmallRng, choices: &'a [T]) -> &'a T {
    choices.choose(rng).expect("there is a choice")
}

/// Overwrites up to four bytes, words or ranges of a record. The length stays the same.
pub fn overwrite_randomly(rng: &mut SmallRng, record: &mut [u8]) {
    let len = record.len();
    if len < 4 {
        return rng.fill(record);
    }
    for _ in 0..rng.random_range(0..5) {
        match rng.random_range(0..4) {
            0 => record[rng.random_range(0..len)] = rng.random(),
            1..=2 => {
                let offset = 4 * rng.random_range(0..len / 4);
                record[offset..offset + 4].copy_from_slice(&random_word(rng));
            }
            // Makes a text unterminated, shorter or invalid UTF-8.
            _ => {
                let start = rng.random_range(0..len);
                let end = rng.random_range(start..len);
                record[start..end].fill(*choose(rng, b"x\xff\xc3\0"));
            }
        }
    }
}

/// Returns a random word of a record: zeros, a small number, a special number, a float, or noise.
/// Numbers are in network byte order.
pub fn random_word(rng: &mut SmallRng) -> [u8; 4] {
    const SPECIAL_NUMBERS: [i32; 9] = [
        -1,
        1,
        i32::MAX,
        i32::MIN,
        65_535,
        65_536,
        0xBADC,
        // The float values NaN and infinity.
        0x7fc0_0000,
        0x7f80_0000,
    ];
    match rng.random_range(0..8) {
        0..=2 => [0; 4],
        3..=4 => rng.random_range(-2..64_i32).to_be_bytes(),
        5 => choose(rng, &SPECIAL_NUMBERS).to_be_bytes(),
        6 => rng.random_range(0.0..1000.0_f32).to_be_bytes(),
        _ => rng.random(),
    }
}

/// Returns the bytes with some of them changed, duplicated or removed.
pub fn damage(rng: &mut SmallRng, bytes: &[u8]) -> Vec<u8> {
    damage_with(rng, bytes, &[])
}

/// Does the same as [`damage`], and sometimes inserts one of `words`.
pub fn damage_with(rng: &mut SmallRng, bytes: &[u8], words: &[&str]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..rng.random_range(0..5) {
        let start = rng.random_range(0..=bytes.len());
        let end = (start + rng.random_range(0..20)).min(bytes.len());
        match rng.random_range(0..if words.is_empty() { 4 } else { 5 }) {
            0 if start < bytes.len() => bytes[start] = rng.random(),
            // Changes a digit, so that the document stays valid.
            1 => {
                if let Some(digit) = bytes[start..].iter_mut().find(|byte| byte.is_ascii_digit()) {
                    *digit = rng.random_range(b'0'..=b'9');
                }
            }
            2 => {
                let copy = bytes[start..end].to_vec();
                bytes.splice(start..start, copy);
            }
            4 => drop(bytes.splice(start..start, choose(rng, words).bytes())),
            _ => drop(bytes.drain(start..end)),
        }
    }
    bytes
}

/// Generates random command lines from the options of a program and from typical values.
pub struct ArgumentGenerator {
    options: Vec<String>,
    values: &'static [&'static str],
    suffixes: &'static [&'static str],
}

impl ArgumentGenerator {
    /// Creates a generator with the options in synopses such as `-o, --old[=n]`. `values` are
    /// examples of accepted values, and `suffixes` are suffixes of numbers, such as `k`.
    pub fn new(
        synopses: impl Iterator<Item = String>,
        values: &'static [&'static str],
        suffixes: &'static [&'static str],
    ) -> Self {
        let option_names = |synopsis: String| -> Vec<String> {
            let names = synopsis
                .split(", ")
                .filter_map(|name| name.split([' ', '[']).next());
            names.map(str::to_owned).collect()
        };
        Self {
            options: synopses.flat_map(option_names).collect(),
            values,
            suffixes,
        }
    }

    /// Returns a random number of random words, fewer than `word_limit`.
    pub fn command_line(&self, rng: &mut SmallRng, word_limit: usize) -> Vec<String> {
        let word_count = rng.random_range(0..word_limit);
        (0..word_count).map(|_| self.random_argument(rng)).collect()
    }

    /// Returns the words of one of `roles`, such as `-c h`, followed by up to 4 random words.
    pub fn command_line_with_role(&self, rng: &mut SmallRng, roles: &[&str]) -> Vec<OsString> {
        let role = choose(rng, roles).split_whitespace().map(OsString::from);
        let words = self.command_line(rng, 5).into_iter().map(Into::into);
        role.chain(words).collect()
    }

    fn random_argument(&self, rng: &mut SmallRng) -> String {
        let option = choose(rng, &self.options);
        match rng.random_range(0..10) {
            0..=3 => option.clone(),
            4 => format!("{option}{}", self.value(rng)),
            5 => format!("{option}={}", self.value(rng)),
            // A cluster of characters, most of which are not options.
            6 => {
                let length = rng.random_range(0..4);
                (0..length).fold("-".to_owned(), |word, _| {
                    word + *choose(rng, &NON_OPTION_CHARACTERS)
                })
            }
            7 => "--".to_owned(),
            _ => self.value(rng),
        }
    }

    /// Returns a typical value, a number with a suffix, a pair of either, or noise.
    pub fn value(&self, rng: &mut SmallRng) -> String {
        match rng.random_range(0..8) {
            0..=1 => (*choose(rng, self.values)).to_owned(),
            2..=3 => self.number(rng),
            4 => format!("{},{}", self.number(rng), self.number(rng)),
            5 => format!("{},{}", choose(rng, self.values), choose(rng, self.values)),
            6 => (0..rng.random_range(0..200))
                .map(|_| char::from(rng.random_range(1..127_u8)))
                .collect(),
            _ => (0..rng.random_range(0..12))
                .map(|_| rng.random::<char>())
                .filter(|char| *char != '\0')
                .collect(),
        }
    }

    /// Returns a number of any size with a suffix.
    pub fn number(&self, rng: &mut SmallRng) -> String {
        const EXTREMES: [i64; 7] = [
            i64::MIN,
            i64::MAX,
            1 << 31,
            -(1 << 31),
            (1 << 32) - 1,
            65_535,
            65_536,
        ];
        let suffix = choose(rng, self.suffixes);
        match rng.random_range(0..5) {
            0 => format!("{}{suffix}", rng.random_range(-2..20)),
            1 => format!("{}{suffix}", choose(rng, &EXTREMES)),
            2 => format!("{}.{}{suffix}", rng.random::<u8>(), rng.random::<u8>()),
            _ => format!("{}{suffix}", rng.random::<i64>() >> rng.random_range(0..63)),
        }
    }
}

/// Characters that few programs have as options, including some that are not letters.
const NON_OPTION_CHARACTERS: [&str; 16] = [
    "q", "Q", "z", "-", "=", "?", ":", ";", "0", "9", "é", " ", "\n", "\u{1}", ",", "/",
];

/// Prints the number of accepted inputs. Fails the test unless their percentage is within
/// `accepted_percent`. Does not check fewer than 500 inputs.
pub fn check_accepted_percent(
    name: &str,
    inputs: u64,
    accepted: u64,
    accepted_percent: &RangeInclusive<u64>,
) {
    println!("{name}: {accepted} of {inputs} inputs accepted");
    if inputs < MIN_INPUTS_FOR_CHECK {
        return;
    }
    let (min, max) = (
        accepted_percent.start() * inputs,
        accepted_percent.end() * inputs,
    );
    assert!(
        (min..=max).contains(&(100 * accepted)),
        "{name}: {accepted} of {inputs} inputs accepted, not {accepted_percent:?} percent"
    );
}

/// Returns only the seed in `FUZZ_SEED`, if set, or else seeds from 0. Their number is
/// `FUZZ_ITERATIONS`, or `default_count` if this variable is not set.
pub fn seeds(default_count: u64) -> Range<u64> {
    match read_variable("FUZZ_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..read_variable("FUZZ_ITERATIONS").unwrap_or(default_count),
    }
}

/// Returns the time in `FUZZ_SECONDS`, if set.
pub fn time_limit() -> Option<Duration> {
    read_variable("FUZZ_SECONDS").map(Duration::from_secs)
}

fn read_variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok();
    value.and_then(|value| value.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(accepted_percent: RangeInclusive<u64>, accepted: u64) -> bool {
        catch_unwind(|| check_accepted_percent("inputs", 1000, accepted, &accepted_percent))
            .is_err()
    }

    #[test]
    fn a_percentage_out_of_range_fails() {
        assert!(!fails(20..=30, 200) && !fails(20..=30, 300) && !fails(0..=0, 0));
        assert!(fails(20..=30, 199) && fails(20..=30, 301) && fails(100..=100, 999));
        // Too few inputs for the check.
        check_accepted_percent("inputs", 10, 10, &(0..=0));
    }

    #[test]
    fn a_round_trip_that_changes_the_input_fails() {
        assert!(check_round_trip(&2, |n| Some(*n)) && !check_round_trip(&2, |_| None));
        assert!(catch_unwind(|| check_round_trip(&2, |n| Some(n + 1))).is_err());
    }

    #[test]
    fn mutations_work_with_inputs_of_any_length() {
        for length in 0..9 {
            run_inputs("mutations", 100..=100, |rng| {
                let mut record = vec![7; length];
                overwrite_randomly(rng, &mut record);
                assert_eq!(record.len(), length);
                damage_with(rng, &record, &["word"]);
                true
            });
        }
    }
}
