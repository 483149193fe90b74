//! The server's passphrase and the delays after failed attempts.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::{BudgetHolder, Stop};
use sys::clock::{monotonic_ns, sleep_until};

/// Delay of the next attempt from an address after its first failure. Each further failure doubles
/// it.
const FIRST_DELAY: Duration = Duration::from_millis(250);

/// Maximum delay.
const MAX_DELAY: Duration = Duration::from_secs(8);

/// Maximum wait of an attempt. An attempt that would wait longer is refused.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Time for which a failure is remembered.
const FAILURE_RETENTION: Duration = Duration::from_secs(600);

/// Maximum number of addresses with remembered failures.
const MAX_ADDRESSES: usize = 4096;

/// The passphrase.
#[derive(Debug)]
pub(super) struct Passphrase {
    text: String,
    failures: Mutex<HashMap<BudgetHolder, Failures>>,
}

/// The failures of one address.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
    /// The earliest time of the next attempt.
    next_attempt: Instant,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    Right,
    Wrong,
    /// Refused without a check: too many attempts from the same address are waiting.
    Refused,
}

impl Passphrase {
    pub(super) fn new(text: String) -> Self {
        Self {
            text,
            failures: Mutex::default(),
        }
    }

    /// Checks an attempt, after a delay if earlier attempts from this address failed.
    /// `attempted` is `None` if the client sent another message.
    pub(super) fn check(
        &self,
        from: BudgetHolder,
        attempted: Option<&[u8]>,
        stop: &Stop,
    ) -> Attempt {
        let now = Instant::now();
        let Some(turn) = self.reserve_turn(from, now) else {
            return Attempt::Refused;
        };
        wait_until(turn, stop);
        if attempted.is_some_and(|offered| equals_in_constant_time(offered, self.text.as_bytes())) {
            self.failures().remove(&from);
            return Attempt::Right;
        }
        self.record_failure(from, Instant::now());
        Attempt::Wrong
    }

    /// Reserves the time of this attempt; `None` if it is too far away.
    fn reserve_turn(&self, from: BudgetHolder, now: Instant) -> Option<Instant> {
        let mut failures = self.failures();
        let Some(known) = failures.get_mut(&from) else {
            return Some(now);
        };
        let turn = known.next_attempt.max(now);
        if turn - now > MAX_WAIT {
            return None;
        }
        known.next_attempt = turn + known.delay();
        Some(turn)
    }

    fn record_failure(&self, from: BudgetHolder, now: Instant) {
        let mut failures = self.failures();
        failures.retain(|_, known| now.saturating_duration_since(known.last) < FAILURE_RETENTION);
        if failures.len() >= MAX_ADDRESSES && !failures.contains_key(&from) {
            let oldest = failures.iter().min_by_key(|(_, known)| known.last);
            if let Some(oldest) = oldest.map(|(holder, _)| *holder) {
                failures.remove(&oldest);
            }
        }
        let known = failures.entry(from).or_insert(Failures {
            count: 0,
            last: now,
            next_attempt: now,
        });
        known.count = known.count.saturating_add(1);
        known.last = now;
        known.next_attempt = known.next_attempt.max(now + known.delay());
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<BudgetHolder, Failures>> {
        // The values are valid even after a panic.
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failures {
    fn delay(&self) -> Duration {
        let doublings = self.count.saturating_sub(1).min(16);
        (FIRST_DELAY * (1 << doublings)).min(MAX_DELAY)
    }
}

/// Compares in a time that depends only on the longer text's length.
fn equals_in_constant_time(left: &[u8], right: &[u8]) -> bool {
    let byte = |text: &[u8], index: usize| text.get(index).copied().unwrap_or(0);
    let differences = (0..left.len().max(right.len())).fold(0, |differences, index| {
        black_box(differences | (byte(left, index) ^ byte(right, index)))
    });
    differences == 0 && left.len() == right.len()
}

fn wait_until(turn: Instant, stop: &Stop) {
    let remaining = turn.saturating_duration_since(Instant::now());
    if remaining.is_zero() {
        return;
    }
    let _registration = stop.register_thread();
    let turn_ns = monotonic_ns() + remaining.as_nanos() as u64;
    // A signal ends the sleep; the stop sends one.
    while !stop.is_set() && sleep_until(turn_ns).is_err() {}
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const RIGHT: Option<&[u8]> = Some(b"secret");
    const WRONG: Option<&[u8]> = Some(b"guess");

    fn holder(number: u32) -> BudgetHolder {
        BudgetHolder::Ip(Ipv4Addr::from_bits(number).into())
    }

    #[test]
    fn equality_requires_the_same_bytes_and_length() {
        for (left, right, same) in [
            ("", "", true),
            ("a", "a", true),
            ("a", "b", false),
            ("a", "a\0", false),
            ("", "a", false),
            ("secret", "secre", false),
        ] {
            assert_eq!(
                equals_in_constant_time(left.as_bytes(), right.as_bytes()),
                same,
                "{left:?} {right:?}"
            );
        }
    }

    #[test]
    fn failures_delay_only_the_same_address() {
        let passphrase = Passphrase::new("secret".to_owned());
        let stop = Stop::new();
        let start = Instant::now();
        for _ in 0..2 {
            assert_eq!(passphrase.check(holder(1), WRONG, &stop), Attempt::Wrong);
        }
        assert!(start.elapsed() >= FIRST_DELAY);
        let other_start = Instant::now();
        assert_eq!(passphrase.check(holder(2), RIGHT, &stop), Attempt::Right);
        assert!(other_start.elapsed() < FIRST_DELAY);
        // A correct attempt also waits. It deletes the failures.
        assert_eq!(passphrase.check(holder(1), RIGHT, &stop), Attempt::Right);
        assert!(start.elapsed() >= FIRST_DELAY * 3);
        assert!(passphrase.failures().is_empty());
        assert_eq!(passphrase.check(holder(1), None, &stop), Attempt::Wrong);
    }

    #[test]
    fn turns_are_spaced_and_bounded() {
        let passphrase = Passphrase::new("secret".to_owned());
        let now = Instant::now();
        for _ in 0..3 {
            passphrase.record_failure(holder(1), now);
        }
        // The first turn is 1 s after the last failure; further turns are 1 s apart.
        let turns: Vec<_> = (0..20)
            .map(|_| passphrase.reserve_turn(holder(1), now))
            .collect();
        let after = |turn: &Option<Instant>| turn.map(|turn| turn - now);
        let delays: Vec<_> = turns.iter().map_while(after).collect();
        let expected: Vec<_> = (1..=10).map(Duration::from_secs).collect();
        assert_eq!(delays, expected);
        assert!(turns[delays.len()..].iter().all(Option::is_none));
        for _ in 0..100 {
            passphrase.record_failure(holder(1), now);
        }
        assert_eq!(passphrase.failures()[&holder(1)].delay(), MAX_DELAY);
    }

    #[test]
    fn remembered_addresses_are_bounded_and_expire() {
        let passphrase = Passphrase::new("secret".to_owned());
        let now = Instant::now();
        for number in 0..MAX_ADDRESSES as u32 + 10 {
            passphrase.record_failure(holder(number), now + Duration::from_micros(number.into()));
        }
        assert_eq!(passphrase.failures().len(), MAX_ADDRESSES);
        assert!(!passphrase.failures().contains_key(&holder(0)));
        passphrase.record_failure(holder(1), now + FAILURE_RETENTION * 2);
        assert_eq!(passphrase.failures().len(), 1);
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let passphrase = Passphrase::new("secret".to_owned());
        for _ in 0..20 {
            passphrase.record_failure(holder(1), Instant::now());
        }
        let stop = Stop::new();
        let _deadline =
            engine::deadline_thread().set_at(Instant::now() + Duration::from_millis(20), &stop);
        let start = Instant::now();
        passphrase.check(holder(1), WRONG, &stop);
        assert!(start.elapsed() < MAX_DELAY);
    }
}
