//! A bound on the memory of buffers.

use crate::budget::{Budget, Exceeded, Holder, Share};

/// How much memory buffers may take: one ring, and all rings of a budget.
#[derive(Clone, Debug)]
pub struct Memory {
    per_ring: u64,
    budget: Budget,
    holder: Holder,
}

impl Memory {
    /// At most `per_ring` bytes for a ring and `together` bytes for all rings, which are this process's own.
    pub fn new(per_ring: u64, together: u64) -> Self {
        let budget = Budget::with_bounds(together, together);
        Self::within(&budget, Holder::Local, per_ring)
    }

    /// At most `per_ring` bytes for a ring, on the account of `holder`.
    pub fn within(budget: &Budget, holder: Holder, per_ring: u64) -> Self {
        Self {
            per_ring,
            budget: budget.clone(),
            holder,
        }
    }

    /// Takes memory for a ring; fails if a bound leaves less.
    pub fn take(&self, bytes: u64) -> Result<Share, Exceeded> {
        if bytes > self.per_ring {
            return Err(Exceeded::Part {
                asked: bytes,
                most: self.per_ring,
            });
        }
        self.budget.take(self.holder, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_and_all_rings_have_bounds() {
        let memory = Memory::new(6, 10);
        assert!(memory.take(7).is_err());
        let first = memory.take(6).unwrap();
        assert!(memory.take(5).is_err());
        let second = memory.clone().take(4).unwrap();
        assert!(memory.take(1).is_err());
        drop((first, second));
        assert!(memory.take(6).is_ok());
    }
}
