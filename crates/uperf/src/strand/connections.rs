//! A strand's connections, and which of them a flowop means.
//!
//! Both ends of a test find a connection by its number alone, so they must agree on the rule to the letter:
//! uperf's, with its pool and its cache.

use std::rc::Rc;

/// As many connections as the cache has room for.
const CACHED: usize = 8;

/// The connections of one strand; 0 is the number of those without one.
#[derive(Debug)]
pub(super) struct ConnectionPool<T> {
    /// The newest last. A connection that was closed beside its turn stays, without what it was.
    pool: Vec<Named<T>>,
    /// Those that were looked up, in the order of their first use.
    cache: Vec<Named<T>>,
}

#[derive(Debug)]
struct Named<T> {
    number: u32,
    connection: Option<Rc<T>>,
}

/// What a look-up came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<T> {
    /// This one.
    Open(Rc<T>),
    /// One that is closed already.
    Closed,
    /// There is none of this number.
    Nothing,
}

impl<T> ConnectionPool<T> {
    pub(super) fn new() -> Self {
        Self {
            pool: Vec::new(),
            cache: Vec::new(),
        }
    }

    /// A connection was opened.
    pub(super) fn add(&mut self, number: u32, connection: Rc<T>) {
        let connection = Some(connection);
        self.pool.push(Named { number, connection });
    }

    /// Those that are open.
    pub(super) fn open(&self) -> impl Iterator<Item = &T> {
        self.pool
            .iter()
            .filter_map(|named| named.connection.as_deref())
    }

    /// How many have a place here, those with it that were closed beside their turn.
    pub(super) fn len(&self) -> usize {
        self.pool.len()
    }

    /// The first cached one of this number, else the newest, which is cached from then on.
    pub(super) fn find(&mut self, number: u32) -> Found<T> {
        if let Some(cached) = self.cache.iter().find(|named| named.number == number) {
            return cached.found();
        }
        let Some(newest) = self.pool.iter().rev().find(|named| named.number == number) else {
            return Found::Nothing;
        };
        let found = newest.found();
        if self.cache.len() < CACHED {
            let connection = newest.connection.as_ref().map(Rc::clone);
            self.cache.push(Named { number, connection });
        }
        found
    }

    /// Closes what [`Self::find`] finds, and then the newest of this number, which may be another;
    /// `None` if there was nothing to close.
    pub(super) fn close(&mut self, number: u32) -> Option<[Option<Rc<T>>; 2]> {
        let found = match self.find(number) {
            Found::Open(connection) => Some(connection),
            Found::Closed => None,
            Found::Nothing => return None,
        };
        if let Some(found) = &found {
            let same = |named: &&mut Named<T>| {
                let connection = named.connection.as_ref();
                connection.is_some_and(|connection| Rc::ptr_eq(connection, found))
            };
            if let Some(named) = self.pool.iter_mut().find(same) {
                named.connection = None;
            }
        }
        let newest = self.pool.iter().rposition(|named| named.number == number);
        let other = newest.and_then(|at| self.pool.remove(at).connection);
        self.cache.clear();
        if found.is_none() && other.is_none() {
            return None;
        }
        Some([found, other])
    }
}

impl<T> Named<T> {
    fn found(&self) -> Found<T> {
        match &self.connection {
            Some(connection) => Found::Open(Rc::clone(connection)),
            None => Found::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does what each word says: `1+a` opens a connection a of number 1, `1=a` looks it up, and `1-ab` closes a and b.
    /// What is closed already is found as `-`, and what there is not as `?`.
    fn follow(script: &str) -> ConnectionPool<char> {
        let mut pool = ConnectionPool::new();
        for word in script.split(' ') {
            let (number, names) = (word[..1].parse().unwrap(), &word[2..]);
            let came_to = match &word[1..2] {
                "+" => {
                    let opened = names.chars().map(Rc::new);
                    opened.for_each(|name| pool.add(number, name));
                    continue;
                }
                "=" => match pool.find(number) {
                    Found::Open(connection) => connection.to_string(),
                    Found::Closed => "-".to_owned(),
                    Found::Nothing => "?".to_owned(),
                },
                _ => pool.close(number).map_or("?".to_owned(), |closed| {
                    let closed = closed.into_iter().flatten();
                    closed.map(|connection| *connection).collect()
                }),
            };
            assert_eq!(came_to, names, "{word} of {script}");
        }
        pool
    }

    #[test]
    fn the_newest_is_meant_until_one_was_used() {
        follow("0+ab 0=b");
        follow("0+a 0=a 0+b 0=a");
        // Numbers tell them apart.
        follow("1+a 2+b 1=a 2=b 3=? 1-a 1=? 2=b 3-?");
        // "connect A, write, connect B, disconnect, write": the look-up closes A, the removal B, and A's place
        // stays, which alone is left.
        follow("0+a 0=a 0+b 0-ab 0=- 0-? 0=?");
    }

    #[test]
    fn opened_and_closed_again_and_again() {
        let pool = follow(&["0+a 0=a 0-a"; 100].join(" "));
        assert!(pool.pool.is_empty() && pool.cache.is_empty());
    }
}
