//! Standstills of the machine or of one of its CPUs, as of a virtual machine whose host stops it for
//! half a minute. The deadlines of the running tests pass meanwhile.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The time between two looks at the clock.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// If a look is later than this, the CPU stood still. Other threads delay a look by less.
const MIN_STANDSTILL: Duration = Duration::from_secs(3);

/// The maximum time to wait for the end of a standstill.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The standstills of the machine's CPUs.
pub(crate) struct Standstills(Mutex<State>);

struct State {
    /// When each CPU is to look at the clock next.
    due: Vec<Instant>,
    /// The end and the duration of the last standstill.
    last: Option<(Instant, Duration)>,
}

impl Standstills {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(State {
            due: Vec::new(),
            last: None,
        }))
    }

    /// Starts a thread on each CPU that looks for standstills until the process ends.
    pub(crate) fn watch(&'static self) {
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        for cpu in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)) {
            let index = self.add(Instant::now());
            thread::spawn(move || {
                let mut this_cpu = CpuSet::new();
                this_cpu.set(cpu);
                let _ = sched_setaffinity(None, &this_cpu);
                loop {
                    thread::sleep(LOOK_INTERVAL);
                    self.look(index, Instant::now());
                }
            });
        }
    }

    /// Adds a CPU, and returns its index.
    pub(crate) fn add(&self, now: Instant) -> usize {
        let mut state = self.lock();
        state.due.push(now + LOOK_INTERVAL);
        state.due.len() - 1
    }

    /// A CPU looks at the clock.
    pub(crate) fn look(&self, index: usize, now: Instant) {
        let mut state = self.lock();
        let duration = now.saturating_duration_since(state.due[index]);
        state.due[index] = now + LOOK_INTERVAL;
        if duration >= MIN_STANDSTILL {
            state.last = Some((now, duration));
        }
    }

    /// Returns the duration of the last standstill that ended after `started`. Waits for the end of
    /// a standstill.
    pub(crate) fn since(&self, started: Instant) -> Option<Duration> {
        let until = Instant::now() + MAX_WAIT;
        loop {
            thread::sleep(2 * LOOK_INTERVAL);
            let now = Instant::now();
            let state = self.lock();
            // The last look may have been just before the standstill.
            if now >= until || state.due.iter().all(|due| now < *due + LOOK_INTERVAL) {
                let last = state.last.filter(|(ended, _)| *ended > started);
                return last.map(|(_, duration)| duration);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_look_is_a_standstill() {
        let standstills = Standstills::new();
        let started = Instant::now();
        let (first, second) = (standstills.add(started), standstills.add(started));
        let look = |index, seconds| {
            standstills.look(index, started + Duration::from_secs(seconds));
        };
        look(first, 100);
        look(second, 2);
        assert_eq!(standstills.lock().last.unwrap().1.as_secs(), 99);
        look(second, 4);
        look(second, 104);
        assert_eq!(standstills.since(started).unwrap().as_secs(), 99);
        let later = started + Duration::from_secs(105);
        assert_eq!(standstills.since(later), None);
    }

    #[test]
    fn a_failure_waits_for_the_end_of_a_standstill() {
        static STANDSTILLS: Standstills = Standstills::new();
        let started = Instant::now();
        let cpu = STANDSTILLS.add(started);
        let running = thread::spawn(move || STANDSTILLS.since(started));
        thread::sleep(MIN_STANDSTILL + 2 * LOOK_INTERVAL);
        assert!(!running.is_finished());
        STANDSTILLS.look(cpu, Instant::now() + Duration::from_secs(60));
        let standstill = running.join().unwrap();
        assert!(standstill.is_some_and(|duration| duration >= MIN_STANDSTILL));
    }
}
