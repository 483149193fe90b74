//! Limits of the memory of buffers.

use crate::budget::{BudgetExceeded, BudgetHolder, BudgetShare, SharedBudget};
use crate::resources::ResourceBudget;

/// Memory limits of buffer rings: one per ring, and a budget that all rings share.
#[derive(Clone, Debug)]
pub struct BufferMemory {
    per_ring: u64,
    budget: SharedBudget,
    holder: BudgetHolder,
}

impl BufferMemory {
    /// Creates limits for the local process: `per_ring` bytes per ring, and `total` bytes for all
    /// rings.
    pub fn new(per_ring: u64, total: u64) -> Self {
        let process = ResourceBudget::process().memory.clone();
        let budget = SharedBudget::with_parent(total, total, Some(process));
        Self::from_budget(&budget, BudgetHolder::Local, per_ring)
    }

    /// Creates a limit of `per_ring` bytes per ring. The rings are charged to `holder` in `budget`.
    pub fn from_budget(budget: &SharedBudget, holder: BudgetHolder, per_ring: u64) -> Self {
        Self {
            per_ring,
            budget: budget.clone(),
            holder,
        }
    }

    /// Reserves memory for a ring. Fails if the reservation would exceed a limit.
    pub fn reserve(&self, bytes: u64) -> Result<BudgetShare, BudgetExceeded> {
        if bytes > self.per_ring {
            return Err(BudgetExceeded::Share {
                requested: bytes,
                max: self.per_ring,
            });
        }
        self.budget.reserve(self.holder, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_and_all_rings_have_limits() {
        let memory = BufferMemory::new(6, 10);
        assert!(memory.reserve(7).is_err());
        let first = memory.reserve(6).unwrap();
        assert!(memory.reserve(5).is_err());
        let second = memory.clone().reserve(4).unwrap();
        assert!(memory.reserve(1).is_err());
        drop((first, second));
        assert!(memory.reserve(6).is_ok());
    }
}
