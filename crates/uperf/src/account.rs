//! What one run may take of this process: memory, and descriptors for its connections.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{Budget, Exceeded, Holder, Share};

/// What one run has taken. It is given back when nobody has the account any more.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    memory: Budget,
    holder: Holder,
    books: Arc<Mutex<Books>>,
    /// The most memory that was taken at a time.
    peak: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Books {
    memory: Share,
    /// Descriptors of this process.
    descriptors: Share,
    /// Descriptors of this run, of which each connection is one, each listener and each file.
    connections: u64,
    most_connections: u64,
}

/// A bound that keeps a run from something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Scarce {
    /// That of `--max-memory`.
    #[error("{0} (bytes, --max-memory)")]
    Memory(Exceeded),
    /// That of the process's descriptors.
    #[error("{0} (descriptors, RLIMIT_NOFILE)")]
    Descriptors(Exceeded),
    /// That of `--max-connections`.
    #[error("more than {0} connections, listeners and files of one master (--max-connections)")]
    Connections(u64),
}

impl Account {
    /// An account of `holder`, for a run with at most this many connections.
    pub(crate) fn open(
        memory: &Budget,
        descriptors: &Budget,
        holder: Holder,
        most_connections: u64,
    ) -> Result<Self, Scarce> {
        let books = Books {
            memory: memory.take(holder, 0).map_err(Scarce::Memory)?,
            descriptors: descriptors.take(holder, 0).map_err(Scarce::Descriptors)?,
            connections: 0,
            most_connections,
        };
        Ok(Self {
            memory: memory.clone(),
            holder,
            books: Arc::new(Mutex::new(books)),
            peak: Arc::default(),
        })
    }

    /// Takes memory.
    pub(crate) fn take_memory(&self, bytes: u64) -> Result<(), Scarce> {
        let mut books = self.books();
        books.memory.grow(bytes).map_err(Scarce::Memory)?;
        self.peak.fetch_max(books.memory.amount(), Relaxed);
        Ok(())
    }

    /// Gives memory back.
    pub(crate) fn give_memory_back(&self, bytes: u64) {
        self.books().memory.shrink(bytes);
    }

    /// The most memory that was taken at a time, bytes.
    pub(crate) fn peak(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.peak)
    }

    /// Memory that is given back when the share is dropped.
    pub(crate) fn lend_memory(&self, bytes: u64) -> Result<Share, Scarce> {
        let lent = self.memory.take(self.holder, bytes);
        lent.map_err(Scarce::Memory)
    }

    /// Takes descriptors that are no connections.
    pub(crate) fn take_descriptors(&self, count: u64) -> Result<(), Scarce> {
        let mut books = self.books();
        books.descriptors.grow(count).map_err(Scarce::Descriptors)
    }

    /// Takes connections, with so much memory for each.
    pub(crate) fn take_connections(&self, count: u64, bytes_each: u64) -> Result<(), Scarce> {
        let mut books = self.books();
        let all = books.connections.saturating_add(count);
        if all > books.most_connections {
            return Err(Scarce::Connections(books.most_connections));
        }
        books.descriptors.grow(count).map_err(Scarce::Descriptors)?;
        let memory = books.memory.grow(count.saturating_mul(bytes_each));
        if let Err(exceeded) = memory {
            books.descriptors.shrink(count);
            return Err(Scarce::Memory(exceeded));
        }
        books.connections = all;
        Ok(())
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // Sums are whole after any panic.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back() {
        let (memory, descriptors) = (Budget::new(1000), Budget::new(100));
        let holder = Holder::Machine(3);
        let open = |most| Account::open(&memory, &descriptors, holder, most).unwrap();
        let account = open(10);
        account.take_memory(500).unwrap();
        account.take_connections(9, 20).unwrap();
        assert_eq!(account.take_connections(2, 0), Err(Scarce::Connections(10)));
        account.take_connections(1, 0).unwrap();
        assert_eq!((memory.used(), descriptors.used()), (680, 10));
        account.give_memory_back(80);
        let lent = account.lend_memory(300).unwrap();
        assert!(matches!(account.take_memory(101), Err(Scarce::Memory(_))));
        drop(lent);
        account.take_memory(101).unwrap();
        let other = open(1000);
        let refused = other.take_connections(85, 0);
        assert!(
            matches!(refused, Err(Scarce::Descriptors(_))),
            "{refused:?}"
        );
        // What is refused takes nothing.
        let refused = other.take_connections(10, 1000);
        assert!(matches!(refused, Err(Scarce::Memory(_))), "{refused:?}");
        assert_eq!(descriptors.used(), 10);
        drop((account, other));
        assert_eq!((memory.used(), descriptors.used()), (0, 0));
    }
}
