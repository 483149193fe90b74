//! The connections of a strand, and the rule that selects the connection of a flowop.
//!
//! A connection is identified by its number only, so both ends must follow exactly the same rule.
//! It is uperf's rule, with a pool and a cache.

use std::rc::Rc;

/// Maximum number of connections in the cache.
const CACHE_CAPACITY: usize = 8;

/// The connections of one strand. Flowops without a connection number use number 0.
#[derive(Debug)]
pub(super) struct ConnectionPool<T> {
    /// The newest is last. A connection that was closed out of order stays as an entry without a
    /// connection.
    pool: Vec<PoolEntry<T>>,
    /// Connections that were looked up, in the order of their first use.
    cache: Vec<PoolEntry<T>>,
}

#[derive(Debug)]
struct PoolEntry<T> {
    number: u32,
    connection: Option<Rc<T>>,
}

/// Result of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup<T> {
    /// An open connection.
    Open(Rc<T>),
    /// A connection that is already closed.
    Closed,
    /// No connection has this number.
    Missing,
}

impl<T> ConnectionPool<T> {
    pub(super) fn new() -> Self {
        Self {
            pool: Vec::new(),
            cache: Vec::new(),
        }
    }

    /// Adds a new connection.
    pub(super) fn add(&mut self, number: u32, connection: Rc<T>) {
        let connection = Some(connection);
        self.pool.push(PoolEntry { number, connection });
    }

    /// Returns the open connections.
    pub(super) fn open(&self) -> impl Iterator<Item = &T> {
        self.pool
            .iter()
            .filter_map(|entry| entry.connection.as_deref())
    }

    /// Returns the number of entries, including those that were closed out of order.
    pub(super) fn len(&self) -> usize {
        self.pool.len()
    }

    /// Returns the first cached connection of this number. Otherwise returns the newest one and
    /// caches it.
    pub(super) fn find(&mut self, number: u32) -> Lookup<T> {
        if let Some(cached) = self.cache.iter().find(|entry| entry.number == number) {
            return cached.lookup();
        }
        let Some(newest) = self.pool.iter().rev().find(|entry| entry.number == number) else {
            return Lookup::Missing;
        };
        let found = newest.lookup();
        if self.cache.len() < CACHE_CAPACITY {
            let connection = newest.connection.as_ref().map(Rc::clone);
            self.cache.push(PoolEntry { number, connection });
        }
        found
    }

    /// Closes the connection that [`Self::find`] returns, and then the newest of this number, which
    /// may be another one. Returns both, or `None` if there was nothing to close.
    pub(super) fn close(&mut self, number: u32) -> Option<[Option<Rc<T>>; 2]> {
        let found = match self.find(number) {
            Lookup::Open(connection) => Some(connection),
            Lookup::Closed => None,
            Lookup::Missing => return None,
        };
        if let Some(found) = &found {
            let same = |entry: &&mut PoolEntry<T>| {
                let connection = entry.connection.as_ref();
                connection.is_some_and(|connection| Rc::ptr_eq(connection, found))
            };
            if let Some(entry) = self.pool.iter_mut().find(same) {
                entry.connection = None;
            }
        }
        let newest = self.pool.iter().rposition(|entry| entry.number == number);
        let other = newest.and_then(|at| self.pool.remove(at).connection);
        self.cache.clear();
        if found.is_none() && other.is_none() {
            return None;
        }
        Some([found, other])
    }
}

impl<T> PoolEntry<T> {
    fn lookup(&self) -> Lookup<T> {
        match &self.connection {
            Some(connection) => Lookup::Open(Rc::clone(connection)),
            None => Lookup::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executes each word of the script: `1+a` opens connection `a` with number 1, `1=a` expects a
    /// lookup of 1 to find `a`, and `1-ab` expects a close of 1 to close `a` and `b`. `-` stands
    /// for a closed connection, and `?` for none.
    fn run_script(script: &str) -> ConnectionPool<char> {
        let mut pool = ConnectionPool::new();
        for word in script.split(' ') {
            let (number, names) = (word[..1].parse().unwrap(), &word[2..]);
            let result = match &word[1..2] {
                "+" => {
                    let opened = names.chars().map(Rc::new);
                    opened.for_each(|name| pool.add(number, name));
                    continue;
                }
                "=" => match pool.find(number) {
                    Lookup::Open(connection) => connection.to_string(),
                    Lookup::Closed => "-".to_owned(),
                    Lookup::Missing => "?".to_owned(),
                },
                _ => pool.close(number).map_or("?".to_owned(), |closed| {
                    let closed = closed.into_iter().flatten();
                    closed.map(|connection| *connection).collect()
                }),
            };
            assert_eq!(result, names, "{word} of {script}");
        }
        pool
    }

    #[test]
    fn the_newest_is_found_until_one_is_cached() {
        run_script("0+ab 0=b");
        run_script("0+a 0=a 0+b 0=a");
        // Connections of different numbers are independent.
        run_script("1+a 2+b 1=a 2=b 3=? 1-a 1=? 2=b 3-?");
        // "connect A, write, connect B, disconnect, write": the lookup closes A, and the removal
        // closes B. Only the empty entry of A is left.
        run_script("0+a 0=a 0+b 0-ab 0=- 0-? 0=?");
    }

    #[test]
    fn repeated_opens_and_closes_leave_nothing() {
        let pool = run_script(&["0+a 0=a 0-a"; 100].join(" "));
        assert!(pool.pool.is_empty() && pool.cache.is_empty());
    }
}
