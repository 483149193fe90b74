//! The running tests of a server.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use sys::Address;

/// The tests that are running.
#[derive(Debug, Default)]
pub struct Registry(Mutex<Vec<Weak<Running>>>);

/// A test, which runs as long as it is held.
#[derive(Debug)]
pub struct Running {
    peer: Address,
    since: Instant,
    others: AtomicU32,
}

impl Registry {
    /// Registers a test of a client.
    pub fn enter(&self, peer: &Address) -> Arc<Running> {
        let mut tests = self.tests();
        tests.retain(|test| test.strong_count() > 0);
        let others = tests.iter().filter_map(Weak::upgrade);
        let others = others.map(|other| other.others.fetch_add(1, Relaxed));
        let running = Arc::new(Running {
            peer: peer.clone(),
            since: Instant::now(),
            others: AtomicU32::new(others.count() as u32),
        });
        tests.push(Arc::downgrade(&running));
        running
    }

    /// Returns one line per running test, for the log.
    pub fn describe(&self) -> Vec<String> {
        let describe = |test: Arc<Running>| {
            let seconds = test.since.elapsed().as_secs_f64();
            format!("{} for {seconds:.1} s", test.peer)
        };
        let tests = self.tests();
        tests
            .iter()
            .filter_map(Weak::upgrade)
            .map(describe)
            .collect()
    }

    fn tests(&self) -> MutexGuard<'_, Vec<Weak<Running>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Returns the number of other tests that have overlapped with this one.
    pub fn others(&self) -> u32 {
        self.others.load(Relaxed)
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
        assert_eq!((first.others(), second.others()), (1, 1));
        drop((first, second));
        assert_eq!(registry.describe().len(), 0);
        assert_eq!(registry.enter(peer).others(), 0);
    }
}
