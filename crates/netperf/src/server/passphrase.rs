//! The server's passphrase and the delays after failed attempts.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::{Holder, Stop};
use sys::clock::{monotonic_ns, sleep_until};

/// The delay of the next attempt from an address after its first failure. Each further failure doubles it …
const FIRST_DELAY: Duration = Duration::from_millis(250);

/// … up to this.
const LONGEST_DELAY: Duration = Duration::from_secs(8);

/// The longest wait of an attempt; one that would wait longer is refused.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How long a failure is remembered.
const MEMORY: Duration = Duration::from_secs(600);

/// The most addresses with remembered failures.
const MOST_ADDRESSES: usize = 4096;

/// The passphrase.
#[derive(Debug)]
pub(super) struct Passphrase {
    text: String,
    failures: Mutex<HashMap<Holder, Failures>>,
}

/// The failures of one address.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
    /// The earliest time of the next attempt.
    next: Instant,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    Right,
    Wrong,
    /// Refused without a check: too many from the same address are waiting.
    Refused,
}

impl Passphrase {
    pub(super) fn new(text: String) -> Self {
        Self {
            text,
            failures: Mutex::default(),
        }
    }

    /// Checks an attempt, after a delay if others from the same address have failed. `None` stands for another
    /// message in place of a passphrase.
    pub(super) fn attempt(&self, from: Holder, offered: Option<&[u8]>, stop: &Stop) -> Attempt {
        let now = Instant::now();
        let Some(turn) = self.turn(from, now) else {
            return Attempt::Refused;
        };
        wait_until(turn, stop);
        if offered.is_some_and(|offered| is_same(offered, self.text.as_bytes())) {
            self.failures().remove(&from);
            return Attempt::Right;
        }
        self.note_failure(from, Instant::now());
        Attempt::Wrong
    }

    /// Returns the time of this attempt; `None` if it is too far away.
    fn turn(&self, from: Holder, now: Instant) -> Option<Instant> {
        let mut failures = self.failures();
        let Some(known) = failures.get_mut(&from) else {
            return Some(now);
        };
        let turn = known.next.max(now);
        if turn - now > LONGEST_WAIT {
            return None;
        }
        known.next = turn + known.delay();
        Some(turn)
    }

    fn note_failure(&self, from: Holder, now: Instant) {
        let mut failures = self.failures();
        failures.retain(|_, known| now.saturating_duration_since(known.last) < MEMORY);
        if failures.len() >= MOST_ADDRESSES && !failures.contains_key(&from) {
            let oldest = failures.iter().min_by_key(|(_, known)| known.last);
            if let Some(oldest) = oldest.map(|(holder, _)| *holder) {
                failures.remove(&oldest);
            }
        }
        let known = failures.entry(from).or_insert(Failures {
            count: 0,
            last: now,
            next: now,
        });
        known.count = known.count.saturating_add(1);
        known.last = now;
        known.next = known.next.max(now + known.delay());
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<Holder, Failures>> {
        // Plain values are whole after any panic.
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failures {
    fn delay(&self) -> Duration {
        let doublings = self.count.saturating_sub(1).min(16);
        (FIRST_DELAY * (1 << doublings)).min(LONGEST_DELAY)
    }
}

/// Compares in a time that depends on the longer text's length only.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let byte = |text: &[u8], at: usize| text.get(at).copied().unwrap_or(0);
    let differences = (0..one.len().max(other.len())).fold(0, |differences, at| {
        black_box(differences | (byte(one, at) ^ byte(other, at)))
    });
    differences == 0 && one.len() == other.len()
}

fn wait_until(turn: Instant, stop: &Stop) {
    let left = turn.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return;
    }
    let _attending = stop.attend();
    let turn_ns = monotonic_ns() + left.as_nanos() as u64;
    // A signal ends the sleep: one that comes with the stop is enough.
    while !stop.is_set() && sleep_until(turn_ns).is_err() {}
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const RIGHT: Option<&[u8]> = Some(b"secret");
    const WRONG: Option<&[u8]> = Some(b"guess");

    fn holder(number: u32) -> Holder {
        Holder::Ip(Ipv4Addr::from_bits(number).into())
    }

    #[test]
    fn only_the_same_is_the_same() {
        for (one, other, same) in [
            ("", "", true),
            ("a", "a", true),
            ("a", "b", false),
            ("a", "a\0", false),
            ("", "a", false),
            ("secret", "secre", false),
        ] {
            assert_eq!(
                is_same(one.as_bytes(), other.as_bytes()),
                same,
                "{one:?} {other:?}"
            );
        }
    }

    #[test]
    fn failures_delay_the_next_attempt_of_the_same_address_alone() {
        let passphrase = Passphrase::new("secret".to_owned());
        let stop = Stop::new();
        let begun = Instant::now();
        for _ in 0..2 {
            assert_eq!(passphrase.attempt(holder(1), WRONG, &stop), Attempt::Wrong);
        }
        assert!(begun.elapsed() >= FIRST_DELAY);
        let other = Instant::now();
        assert_eq!(passphrase.attempt(holder(2), RIGHT, &stop), Attempt::Right);
        assert!(other.elapsed() < FIRST_DELAY);
        // The right one waits for its turn, and ends the matter.
        assert_eq!(passphrase.attempt(holder(1), RIGHT, &stop), Attempt::Right);
        assert!(begun.elapsed() >= FIRST_DELAY * 3);
        assert!(passphrase.failures().is_empty());
        assert_eq!(passphrase.attempt(holder(1), None, &stop), Attempt::Wrong);
    }

    #[test]
    fn turns_are_apart_and_not_without_end() {
        let passphrase = Passphrase::new("secret".to_owned());
        let now = Instant::now();
        for _ in 0..3 {
            passphrase.note_failure(holder(1), now);
        }
        // 1 s after the last failure, and from each other.
        let turns: Vec<_> = (0..20).map(|_| passphrase.turn(holder(1), now)).collect();
        let after = |turn: &Option<Instant>| turn.map(|turn| turn - now);
        let given: Vec<_> = turns.iter().map_while(after).collect();
        let expected: Vec<_> = (1..=10).map(Duration::from_secs).collect();
        assert_eq!(given, expected);
        assert!(turns[given.len()..].iter().all(Option::is_none));
        for _ in 0..100 {
            passphrase.note_failure(holder(1), now);
        }
        assert_eq!(passphrase.failures()[&holder(1)].delay(), LONGEST_DELAY);
    }

    #[test]
    fn no_more_than_so_many_addresses_are_remembered_nor_for_ever() {
        let passphrase = Passphrase::new("secret".to_owned());
        let now = Instant::now();
        for number in 0..MOST_ADDRESSES as u32 + 10 {
            passphrase.note_failure(holder(number), now + Duration::from_micros(number.into()));
        }
        assert_eq!(passphrase.failures().len(), MOST_ADDRESSES);
        assert!(!passphrase.failures().contains_key(&holder(0)));
        passphrase.note_failure(holder(1), now + MEMORY * 2);
        assert_eq!(passphrase.failures().len(), 1);
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let passphrase = Passphrase::new("secret".to_owned());
        for _ in 0..20 {
            passphrase.note_failure(holder(1), Instant::now());
        }
        let stop = Stop::new();
        let _soon = engine::deadline_thread().at(Instant::now() + Duration::from_millis(20), &stop);
        let begun = Instant::now();
        passphrase.attempt(holder(1), WRONG, &stop);
        assert!(begun.elapsed() < LONGEST_DELAY);
    }
}
