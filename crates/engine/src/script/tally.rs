use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};
use sys::shared::{CacheLine, SharedLines};

/// What a script has done, on cache lines of its own: one thread writes, anybody reads at any time.
#[derive(Debug)]
pub struct Tally(Place);

#[derive(Debug)]
enum Place {
    Own(Box<CacheLine>),
    Shared(Arc<SharedLines>, usize),
}

impl Default for Tally {
    fn default() -> Self {
        Self(Place::Own(Box::default()))
    }
}

/// A [`Tally`] at one moment, or the difference of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tallied {
    /// Executions of steps.
    pub executions: u64,
    /// Bytes that calls took.
    pub sent: u64,
    /// Bytes that calls gave.
    pub received: u64,
    /// Executions that failed and were allowed to.
    pub failures: u64,
}

impl Tally {
    /// One that a forked process writes and its parent reads, in this line.
    pub fn shared(lines: &Arc<SharedLines>, at: usize) -> Self {
        Self(Place::Shared(Arc::clone(lines), at))
    }

    /// What it is now.
    pub fn read(&self) -> Tallied {
        let CacheLine(counters) = self.line();
        Tallied {
            executions: counters[EXECUTIONS].load(Relaxed),
            sent: counters[SENT].load(Relaxed),
            received: counters[RECEIVED].load(Relaxed),
            failures: counters[FAILURES].load(Relaxed),
        }
    }

    /// Where its one writer writes.
    pub(super) fn pen(&self) -> Pen<'_> {
        Pen(self.line())
    }

    fn line(&self) -> &CacheLine {
        match &self.0 {
            Place::Own(line) => line,
            Place::Shared(lines, at) => &lines[*at],
        }
    }
}

const EXECUTIONS: usize = 0;
const SENT: usize = 1;
const RECEIVED: usize = 2;
const FAILURES: usize = 3;

/// What a loop writes a [`Tally`] with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pen<'a>(&'a CacheLine);

impl Pen<'_> {
    #[inline]
    pub(super) fn executed(self) {
        self.add(EXECUTIONS, 1);
    }

    #[inline]
    pub(super) fn sent(self, bytes: usize) {
        self.add(SENT, bytes as u64);
    }

    #[inline]
    pub(super) fn received(self, bytes: usize) {
        self.add(RECEIVED, bytes as u64);
    }

    #[cold]
    pub(super) fn failed(self) {
        self.add(FAILURES, 1);
    }

    /// There is one writer, so a load and a store are an addition.
    #[inline]
    fn add(self, counter: usize, amount: u64) {
        let counter: &AtomicU64 = &self.0.0[counter];
        counter.store(counter.load(Relaxed) + amount, Relaxed);
    }
}

impl Tallied {
    /// Both directions.
    pub fn bytes(&self) -> u64 {
        self.sent + self.received
    }

    /// What has come since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            executions: self.executions - earlier.executions,
            sent: self.sent - earlier.sent,
            received: self.received - earlier.received,
            failures: self.failures - earlier.failures,
        }
    }
}

impl std::ops::AddAssign for Tallied {
    fn add_assign(&mut self, other: Self) {
        self.executions += other.executions;
        self.sent += other.sent;
        self.received += other.received;
        self.failures += other.failures;
    }
}
