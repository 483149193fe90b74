use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How much memory buffers may take: one ring, and all rings together.
#[derive(Clone, Debug)]
pub struct Memory {
    each: u64,
    left: Arc<AtomicU64>,
}

/// A ring's share; it is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    bytes: u64,
    left: Arc<AtomicU64>,
}

impl Memory {
    /// At most `each` bytes a ring, and `together` bytes for all that share this bound.
    pub fn new(each: u64, together: u64) -> Self {
        Self {
            each,
            left: Arc::new(AtomicU64::new(together)),
        }
    }

    /// Takes a share; `None` when a bound does not allow it.
    pub(crate) fn take(&self, bytes: u64) -> Option<Share> {
        if bytes > self.each {
            return None;
        }
        let taken = self
            .left
            .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes));
        taken.ok().map(|_| Share {
            bytes,
            left: Arc::clone(&self.left),
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.left.fetch_add(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_come_back() {
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
