use crate::budget::{Budget, Holder, Share};

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

    /// Takes memory for a ring; `None` if a bound leaves less.
    pub(crate) fn take(&self, bytes: u64) -> Option<Share> {
        if bytes > self.per_ring {
            return None;
        }
        self.budget.take(self.holder, bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_and_all_rings_have_bounds() {
        let memory = Memory::new(6, 10);
        assert!(memory.take(7).is_none());
        let first = memory.take(6).unwrap();
        assert!(memory.take(5).is_none());
        let second = memory.clone().take(4).unwrap();
        assert!(memory.take(1).is_none());
        drop((first, second));
        assert!(memory.take(6).is_some());
    }
}
