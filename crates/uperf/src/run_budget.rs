//! Memory, descriptors and connections that one run reserves.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{BudgetExceeded, BudgetHolder, BudgetShare, SharedBudget};

/// Reservations of one run, released when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct RunBudget {
    memory: SharedBudget,
    holder: BudgetHolder,
    usage: Arc<Mutex<RunUsage>>,
    /// Maximum of the reserved memory so far, in bytes.
    peak_memory: Arc<AtomicU64>,
}

/// Current reservations of a run.
#[derive(Debug)]
struct RunUsage {
    memory: BudgetShare,
    /// Descriptors of this process.
    descriptors: BudgetShare,
    /// Connections, listeners and files of this run; each uses one descriptor.
    connections: u64,
    max_connections: u64,
}

/// Limit that prevents a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RunLimit {
    /// `--max-memory`.
    #[error("memory in bytes: {0} (--max-memory)")]
    Memory(BudgetExceeded),
    /// Descriptors of the process (`RLIMIT_NOFILE`).
    #[error("descriptors: {0} (RLIMIT_NOFILE)")]
    Descriptors(BudgetExceeded),
    /// `--max-connections`.
    #[error("more than {0} connections, listeners and files of one master (--max-connections)")]
    Connections(u64),
}

impl RunBudget {
    /// Creates the budget of a run of `holder` with at most `max_connections` connections.
    pub(crate) fn new(
        memory: &SharedBudget,
        descriptors: &SharedBudget,
        holder: BudgetHolder,
        max_connections: u64,
    ) -> Result<Self, RunLimit> {
        let usage = RunUsage {
            memory: memory.reserve(holder, 0).map_err(RunLimit::Memory)?,
            descriptors: descriptors
                .reserve(holder, 0)
                .map_err(RunLimit::Descriptors)?,
            connections: 0,
            max_connections,
        };
        Ok(Self {
            memory: memory.clone(),
            holder,
            usage: Arc::new(Mutex::new(usage)),
            peak_memory: Arc::default(),
        })
    }

    /// Reserves memory until [`Self::release_memory`] or the end of the run.
    pub(crate) fn reserve_memory(&self, bytes: u64) -> Result<(), RunLimit> {
        let mut usage = self.lock_usage();
        usage.memory.grow(bytes).map_err(RunLimit::Memory)?;
        self.peak_memory.fetch_max(usage.memory.amount(), Relaxed);
        Ok(())
    }

    /// Releases memory.
    pub(crate) fn release_memory(&self, bytes: u64) {
        self.lock_usage().memory.shrink(bytes);
    }

    /// Returns the maximum of the reserved memory so far, in bytes.
    pub(crate) fn peak_memory(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.peak_memory)
    }

    /// Reserves memory that is released when the returned share is dropped.
    pub(crate) fn reserve_memory_share(&self, bytes: u64) -> Result<BudgetShare, RunLimit> {
        let share = self.memory.reserve(self.holder, bytes);
        share.map_err(RunLimit::Memory)
    }

    /// Reserves descriptors that do not count as connections.
    pub(crate) fn reserve_descriptors(&self, count: u64) -> Result<(), RunLimit> {
        let mut usage = self.lock_usage();
        usage.descriptors.grow(count).map_err(RunLimit::Descriptors)
    }

    /// Reserves connections, with `bytes_each` of memory per connection.
    pub(crate) fn reserve_connections(&self, count: u64, bytes_each: u64) -> Result<(), RunLimit> {
        let mut usage = self.lock_usage();
        let total = usage.connections.saturating_add(count);
        if total > usage.max_connections {
            return Err(RunLimit::Connections(usage.max_connections));
        }
        usage
            .descriptors
            .grow(count)
            .map_err(RunLimit::Descriptors)?;
        let memory = usage.memory.grow(count.saturating_mul(bytes_each));
        if let Err(exceeded) = memory {
            usage.descriptors.shrink(count);
            return Err(RunLimit::Memory(exceeded));
        }
        usage.connections = total;
        Ok(())
    }

    fn lock_usage(&self) -> MutexGuard<'_, RunUsage> {
        // No panic leaves the sums inconsistent.
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_released() {
        let (memory, descriptors) = (SharedBudget::new(1000), SharedBudget::new(100));
        let holder = BudgetHolder::Machine(3);
        let open = |max_connections| {
            RunBudget::new(&memory, &descriptors, holder, max_connections).unwrap()
        };
        let budget = open(10);
        budget.reserve_memory(500).unwrap();
        budget.reserve_connections(9, 20).unwrap();
        assert_eq!(
            budget.reserve_connections(2, 0),
            Err(RunLimit::Connections(10))
        );
        budget.reserve_connections(1, 0).unwrap();
        assert_eq!((memory.used(), descriptors.used()), (680, 10));
        budget.release_memory(80);
        let share = budget.reserve_memory_share(300).unwrap();
        assert!(matches!(
            budget.reserve_memory(101),
            Err(RunLimit::Memory(_))
        ));
        drop(share);
        budget.reserve_memory(101).unwrap();
        let other = open(1000);
        let refused = other.reserve_connections(85, 0);
        assert!(
            matches!(refused, Err(RunLimit::Descriptors(_))),
            "{refused:?}"
        );
        // A refused reservation takes nothing.
        let refused = other.reserve_connections(10, 1000);
        assert!(matches!(refused, Err(RunLimit::Memory(_))), "{refused:?}");
        assert_eq!(descriptors.used(), 10);
        drop((budget, other));
        assert_eq!((memory.used(), descriptors.used()), (0, 0));
    }
}
