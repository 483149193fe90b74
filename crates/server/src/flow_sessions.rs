//! The sessions that expect flows of datagrams, and their turns.
//!
//! A flow belongs to a session by its host and its token. Flows without a token do not identify
//! their session, so the sessions of a host that expect such flows take turns.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sys::Address;

use crate::ThirdParties;

/// The time from the start of a turn, or from its last flow, after which it ends.
const TURN_TIME: Duration = Duration::from_secs(2);

/// The sessions of one socket.
#[derive(Debug, Default)]
pub(crate) struct FlowSessions {
    /// Addresses whose flows the last session accepts, unless a session expects their host.
    pub(crate) third_parties: ThirdParties,
    /// The sessions that expect flows, in the order of their starts.
    expected: Vec<Expectation>,
    queues: Vec<TurnQueue>,
    last_id: u64,
}

/// The session that accepts a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) id: u64,
    /// The number of sessions that the flow could belong to.
    pub(crate) candidates: usize,
}

/// A session that expects flows.
#[derive(Debug)]
struct Expectation {
    id: u64,
    /// The host of its flows; `None` means any host.
    host: Option<Address>,
    /// The token of its flows; without one, empty.
    token: Box<[u8]>,
    /// The end of its turn, if it has no token.
    turn_end: Instant,
}

/// The sessions without a token that wait until they may expect flows of their common host.
#[derive(Debug)]
struct TurnQueue {
    host: Address,
    ids: VecDeque<u64>,
    /// Whether the newest session is the next one; otherwise the oldest. Both alternate, so that
    /// silent clients delay neither those before them nor those after them for long.
    next_is_newest: bool,
}

impl FlowSessions {
    /// Returns the id of a new session.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Lets a session expect flows of `host`, or of any host.
    pub(crate) fn expect(&mut self, id: u64, host: Option<&Address>, token: &[u8]) {
        self.expected.push(Expectation {
            id,
            host: host.cloned(),
            token: token.into(),
            turn_end: Instant::now() + TURN_TIME,
        });
    }

    /// Lets a session wait for its turn to expect flows of `host`.
    pub(crate) fn queue(&mut self, id: u64, host: &Address) {
        match self.queue_of(host) {
            Some(queue) => queue.ids.push_back(id),
            None => self.queues.push(TurnQueue {
                host: host.clone(),
                ids: VecDeque::from([id]),
                next_is_newest: false,
            }),
        }
    }

    /// Returns whether a session waits for its turn.
    pub(crate) fn is_queued(&self, id: u64) -> bool {
        self.queues.iter().any(|queue| queue.ids.contains(&id))
    }

    /// Removes a session from the queue of its host, if it is the next one and the turn before has
    /// ended. Returns whether its turn may begin.
    pub(crate) fn take_turn(&mut self, id: u64, host: &Address) -> bool {
        let is_next = self.queue_of(host).and_then(|queue| queue.next()) == Some(id);
        let now = Instant::now();
        let has_turn = |other: &Expectation| other.is_for(host, &[]) && other.turn_end > now;
        if !is_next || self.expected.iter().any(has_turn) {
            return false;
        }
        self.leave_queue(id);
        if let Some(queue) = self.queue_of(host) {
            queue.next_is_newest ^= true;
        }
        true
    }

    /// Extends the turn of a session that has got a flow.
    pub(crate) fn extend_turn(&mut self, id: u64, now: Instant) {
        let session = self.expected.iter_mut().find(|session| session.id == id);
        if let Some(session) = session {
            session.turn_end = now + TURN_TIME;
        }
    }

    /// Removes a session.
    pub(crate) fn remove(&mut self, id: u64) {
        self.expected.retain(|session| session.id != id);
        self.leave_queue(id);
    }

    /// Returns the session that accepts a flow: the last one that expects its host and token.
    pub(crate) fn owner(&self, from: &Address, token: &[u8]) -> Option<Owner> {
        let sessions = self.expected.iter();
        let of_host = last_of(sessions.filter(|session| session.is_for(from, token)));
        of_host.or_else(|| {
            let is_third_party = self.third_parties.contain(from);
            let accepts = |session: &&Expectation| is_third_party && *session.token == *token;
            last_of(self.expected.iter().filter(accepts))
        })
    }

    fn queue_of(&mut self, host: &Address) -> Option<&mut TurnQueue> {
        let mut queues = self.queues.iter_mut();
        queues.find(|queue| queue.host.shares_host_with(host))
    }

    fn leave_queue(&mut self, id: u64) {
        for queue in &mut self.queues {
            queue.ids.retain(|other| *other != id);
        }
        self.queues.retain(|queue| !queue.ids.is_empty());
    }
}

/// Returns the last of these sessions as an owner, with their number.
fn last_of<'a>(mut sessions: impl DoubleEndedIterator<Item = &'a Expectation>) -> Option<Owner> {
    let last = sessions.next_back()?;
    Some(Owner {
        id: last.id,
        candidates: 1 + sessions.count(),
    })
}

impl Expectation {
    fn is_for(&self, from: &Address, token: &[u8]) -> bool {
        let is_host = self
            .host
            .as_ref()
            .is_none_or(|host| host.shares_host_with(from));
        *self.token == *token && is_host
    }
}

impl TurnQueue {
    fn next(&self) -> Option<u64> {
        let next = if self.next_is_newest {
            self.ids.back()
        } else {
            self.ids.front()
        };
        next.copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_sessions_begin_from_both_ends() {
        let mut sessions = FlowSessions::default();
        let host = Address::Inet("127.0.0.1:1".parse().unwrap());
        (1..=5).for_each(|id| sessions.queue(id, &host));
        let mut order = Vec::new();
        while let Some(next) = (1..=5).find(|id| sessions.take_turn(*id, &host)) {
            order.push(next);
        }
        assert_eq!(order, [1, 5, 2, 4, 3]);
    }
}
