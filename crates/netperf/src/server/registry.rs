use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sys::Address;

/// The tests that are running: who, since when, and how many others ran meanwhile.
#[derive(Debug, Default)]
pub(super) struct Registry {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: Vec<Entry>,
    last_number: u64,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    peer: Address,
    since: Instant,
    /// Tests of others that overlapped with this one.
    others: u32,
}

impl Registry {
    /// Registers a test until the guard goes.
    pub(super) fn enter(&self, peer: &Address) -> Running<'_> {
        let mut state = self.state();
        state.last_number += 1;
        let number = state.last_number;
        for entry in &mut state.running {
            entry.others += 1;
        }
        let others = state.running.len() as u32;
        state.running.push(Entry {
            number,
            peer: peer.clone(),
            since: Instant::now(),
            others,
        });
        Running {
            registry: self,
            number,
        }
    }

    /// One line a running test, for the log.
    pub(super) fn describe(&self) -> Vec<String> {
        let describe = |entry: &Entry| {
            format!(
                "{} for {:.1} s",
                entry.peer,
                entry.since.elapsed().as_secs_f64()
            )
        };
        self.state().running.iter().map(describe).collect()
    }

    fn remove(&self, number: u64) -> u32 {
        let mut state = self.state();
        let at = state
            .running
            .iter()
            .position(|entry| entry.number == number);
        at.map_or(0, |at| state.running.swap_remove(at).others)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A test's place in the registry.
#[derive(Debug)]
pub(super) struct Running<'a> {
    registry: &'a Registry,
    number: u64,
}

impl Running<'_> {
    /// Takes the test out; how many others overlapped with it.
    pub(super) fn leave(self) -> u32 {
        let others = self.registry.remove(self.number);
        std::mem::forget(self);
        others
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.registry.remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_are_counted_on_both_sides() {
        let registry = Registry::default();
        let peer = &Address::Inet("127.0.0.1:1".parse().unwrap());
        let first = registry.enter(peer);
        let second = registry.enter(peer);
        assert_eq!(registry.describe().len(), 2);
        assert_eq!(second.leave(), 1);
        assert_eq!(first.leave(), 1);
        assert_eq!(registry.enter(peer).leave(), 0);
        drop(registry.enter(peer));
        assert_eq!(registry.describe().len(), 0);
    }
}
