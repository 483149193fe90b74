//! Login attempts: after a failure, the next attempts from the same address wait.

use std::collections::{HashMap, HashSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
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

/// The failed login attempts of each address.
#[derive(Debug, Default)]
pub struct LoginAttempts {
    state: Mutex<State>,
    /// Signals the end of a check.
    checked: Condvar,
}

#[derive(Debug, Default)]
struct State {
    failures: HashMap<BudgetHolder, Failures>,
    /// The addresses whose attempt is being checked.
    checking: HashSet<BudgetHolder>,
}

/// The check of an attempt. While it exists, no other one of the same address is checked.
struct Check<'a> {
    attempts: &'a LoginAttempts,
    from: BudgetHolder,
}

impl Drop for Check<'_> {
    fn drop(&mut self) {
        self.attempts.state().checking.remove(&self.from);
        self.attempts.checked.notify_all();
    }
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
pub enum Attempt {
    /// The login is valid.
    Right,
    /// The login is not valid.
    Wrong,
    /// Refused without a check: too many attempts from the same address are waiting.
    Refused,
}

impl LoginAttempts {
    /// Checks a login by `is_valid`, after a delay if earlier attempts from this address failed.
    ///
    /// One attempt is checked at a time. So simultaneous attempts cannot avoid the delay.
    pub fn check(
        &self,
        from: BudgetHolder,
        stop: &Stop,
        is_valid: impl FnOnce() -> bool,
    ) -> Attempt {
        let mut state = self.state_without_check(from);
        let now = Instant::now();
        let Some(turn) = reserve_turn(&mut state.failures, from, now) else {
            return Attempt::Refused;
        };
        if turn > now {
            drop(state);
            wait_until(turn, stop);
            state = self.state_without_check(from);
        }
        state.checking.insert(from);
        drop(state);
        let check = Check {
            attempts: self,
            from,
        };
        // It takes long, and the attempts of other addresses must not wait.
        let is_valid = is_valid();
        let mut state = self.state();
        if is_valid {
            state.failures.remove(&from);
        } else {
            record_failure(&mut state.failures, from, Instant::now());
        }
        drop(state);
        drop(check);
        if is_valid {
            Attempt::Right
        } else {
            Attempt::Wrong
        }
    }

    /// Waits until no attempt of this address is being checked.
    fn state_without_check(&self, from: BudgetHolder) -> MutexGuard<'_, State> {
        let is_checking = |state: &mut State| state.checking.contains(&from);
        let waited = self.checked.wait_while(self.state(), is_checking);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The values are valid even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reserves the time of this attempt; `None` if it is too far away.
fn reserve_turn(
    failures: &mut HashMap<BudgetHolder, Failures>,
    from: BudgetHolder,
    now: Instant,
) -> Option<Instant> {
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

fn record_failure(
    failures: &mut HashMap<BudgetHolder, Failures>,
    from: BudgetHolder,
    now: Instant,
) {
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

impl Failures {
    fn delay(&self) -> Duration {
        let doublings = self.count.saturating_sub(1).min(16);
        (FIRST_DELAY * (1 << doublings)).min(MAX_DELAY)
    }
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

    fn holder(number: u32) -> BudgetHolder {
        BudgetHolder::Ip(Ipv4Addr::from_bits(number).into())
    }

    #[test]
    fn failures_delay_only_the_same_address() {
        let attempts = LoginAttempts::default();
        let stop = Stop::new();
        let start = Instant::now();
        for _ in 0..2 {
            assert_eq!(attempts.check(holder(1), &stop, || false), Attempt::Wrong);
        }
        assert!(start.elapsed() >= FIRST_DELAY);
        let other_start = Instant::now();
        assert_eq!(attempts.check(holder(2), &stop, || true), Attempt::Right);
        assert!(other_start.elapsed() < FIRST_DELAY);
        // A correct attempt also waits. It deletes the failures.
        assert_eq!(attempts.check(holder(1), &stop, || true), Attempt::Right);
        assert!(start.elapsed() >= FIRST_DELAY * 3);
        assert!(attempts.state().failures.is_empty());
        assert_eq!(attempts.check(holder(1), &stop, || false), Attempt::Wrong);
    }

    #[test]
    fn a_check_blocks_only_the_same_address() {
        let (attempts, stop) = (LoginAttempts::default(), Stop::new());
        let (entered, is_entered) = std::sync::mpsc::channel();
        let (result, results) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let (attempts, stop) = (&attempts, &stop);
            let is_valid = move || {
                entered.send(()).unwrap();
                results.recv().unwrap()
            };
            scope.spawn(move || attempts.check(holder(1), stop, is_valid));
            is_entered.recv().unwrap();
            assert_eq!(attempts.check(holder(2), stop, || true), Attempt::Right);
            // It is checked only after the first one, and knows its failure.
            let second = scope.spawn(|| attempts.check(holder(1), stop, || false));
            result.send(false).unwrap();
            assert_eq!(second.join().unwrap(), Attempt::Wrong);
        });
        assert_eq!(attempts.state().failures[&holder(1)].count, 2);
    }

    #[test]
    fn simultaneous_attempts_of_one_address_wait() {
        let attempts = LoginAttempts::default();
        let stop = Stop::new();
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| attempts.check(holder(1), &stop, || false));
            }
        });
        // The second and the third attempt wait.
        assert!(start.elapsed() >= FIRST_DELAY * 2);
    }

    #[test]
    fn turns_are_spaced_and_bounded() {
        let attempts = LoginAttempts::default();
        let now = Instant::now();
        for _ in 0..3 {
            record_failure(&mut attempts.state().failures, holder(1), now);
        }
        // The first turn is 1 s after the last failure; further turns are 1 s apart.
        let turns: Vec<_> = (0..20)
            .map(|_| reserve_turn(&mut attempts.state().failures, holder(1), now))
            .collect();
        let after = |turn: &Option<Instant>| turn.map(|turn| turn - now);
        let delays: Vec<_> = turns.iter().map_while(after).collect();
        let expected: Vec<_> = (1..=10).map(Duration::from_secs).collect();
        assert_eq!(delays, expected);
        assert!(turns[delays.len()..].iter().all(Option::is_none));
        for _ in 0..100 {
            record_failure(&mut attempts.state().failures, holder(1), now);
        }
        assert_eq!(attempts.state().failures[&holder(1)].delay(), MAX_DELAY);
    }

    #[test]
    fn remembered_addresses_are_bounded_and_expire() {
        let attempts = LoginAttempts::default();
        let now = Instant::now();
        for number in 0..MAX_ADDRESSES as u32 + 10 {
            record_failure(
                &mut attempts.state().failures,
                holder(number),
                now + Duration::from_micros(number.into()),
            );
        }
        assert_eq!(attempts.state().failures.len(), MAX_ADDRESSES);
        assert!(!attempts.state().failures.contains_key(&holder(0)));
        record_failure(
            &mut attempts.state().failures,
            holder(1),
            now + FAILURE_RETENTION * 2,
        );
        assert_eq!(attempts.state().failures.len(), 1);
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let attempts = LoginAttempts::default();
        for _ in 0..20 {
            record_failure(&mut attempts.state().failures, holder(1), Instant::now());
        }
        let stop = Stop::new();
        let _deadline =
            engine::deadline_thread().set_at(Instant::now() + Duration::from_millis(20), &stop);
        let start = Instant::now();
        attempts.check(holder(1), &stop, || false);
        assert!(start.elapsed() < MAX_DELAY);
    }
}
