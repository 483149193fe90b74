//! Clients that are admitted and wait for their session.

use std::collections::VecDeque;

use engine::BudgetHolder;

/// Waiting clients. The addresses take turns, so many connections of one do not delay others.
#[derive(Debug)]
pub(crate) struct Arrivals<T>(VecDeque<(BudgetHolder, VecDeque<T>)>);

impl<T> Default for Arrivals<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Arrivals<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push(&mut self, holder: BudgetHolder, client: T) {
        match self.0.iter_mut().find(|(other, _)| *other == holder) {
            Some((_, clients)) => clients.push_back(client),
            None => self.0.push_back((holder, VecDeque::from([client]))),
        }
    }

    /// Returns the oldest client of the address whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let (holder, mut clients) = self.0.pop_front()?;
        let client = clients.pop_front();
        if !clients.is_empty() {
            self.0.push_back((holder, clients));
        }
        client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_take_turns() {
        let [first, second] =
            ["192.0.2.1", "192.0.2.2"].map(|address| BudgetHolder::Ip(address.parse().unwrap()));
        let mut arrivals = Arrivals::default();
        for (holder, client) in [(first, 1), (first, 2), (first, 3), (second, 4), (second, 5)] {
            arrivals.push(holder, client);
        }
        let order: Vec<_> = std::iter::from_fn(|| arrivals.pop()).collect();
        assert_eq!(order, [1, 4, 2, 5, 3]);
        assert!(arrivals.is_empty());
    }
}
