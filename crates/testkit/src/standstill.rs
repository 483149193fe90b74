//! Standstills of the whole machine, as of a virtual machine whose host stops it for half a minute.
//! All deadlines of the running tests pass meanwhile.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The time between two looks at the clock.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// If a look is later than this, the machine stood still. Other threads delay a look by less.
const MIN_STANDSTILL: Duration = Duration::from_secs(5);

/// The last standstill of the machine.
pub(crate) struct Standstills(Mutex<Option<Standstill>>);

struct Standstill {
    ended: Instant,
    duration: Duration,
}

impl Standstills {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Starts a thread that looks for standstills until the process ends.
    pub(crate) fn watch(&'static self) {
        thread::spawn(move || {
            loop {
                let due = Instant::now() + LOOK_INTERVAL;
                thread::sleep(LOOK_INTERVAL);
                self.look(due, Instant::now());
            }
        });
    }

    fn look(&self, due: Instant, now: Instant) {
        let duration = now.saturating_duration_since(due);
        if duration >= MIN_STANDSTILL {
            let standstill = Standstill {
                ended: now,
                duration,
            };
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(standstill);
        }
    }

    /// Returns the duration of the last standstill that ended after `started`. Waits for the look
    /// that finds a standstill that has just ended.
    pub(crate) fn since(&self, started: Instant) -> Option<Duration> {
        thread::sleep(2 * LOOK_INTERVAL);
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = last.as_ref().filter(|last| last.ended > started);
        last.map(|last| last.duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_look_is_a_standstill() {
        let standstills = Standstills::new();
        let due = Instant::now();
        let second = |count| due + Duration::from_secs(count);
        standstills.look(due, second(4));
        assert_eq!(standstills.since(due), None);
        standstills.look(due, second(36));
        assert_eq!(standstills.since(due), Some(Duration::from_secs(36)));
        assert_eq!(standstills.since(second(37)), None);
    }
}
