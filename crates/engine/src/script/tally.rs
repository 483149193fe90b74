use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a script has done, on cache lines of its own: one thread writes, anybody reads at any time.
///
/// Without pointers and of fixed layout, so that it can lie in memory that processes share.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Tally {
    executions: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
    failures: AtomicU64,
}

/// A [`Tally`] at one moment, or the difference of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// What it is now.
    pub fn read(&self) -> Tallied {
        Tallied {
            executions: self.executions.load(Relaxed),
            sent: self.sent.load(Relaxed),
            received: self.received.load(Relaxed),
            failures: self.failures.load(Relaxed),
        }
    }

    #[inline]
    pub(super) fn executed(&self) {
        add(&self.executions, 1);
    }

    #[inline]
    pub(super) fn sent(&self, bytes: usize) {
        add(&self.sent, bytes as u64);
    }

    #[inline]
    pub(super) fn received(&self, bytes: usize) {
        add(&self.received, bytes as u64);
    }

    #[cold]
    pub(super) fn failed(&self) {
        add(&self.failures, 1);
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

/// There is one writer, so a load and a store are an addition.
#[inline]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed) + amount, Relaxed);
}
