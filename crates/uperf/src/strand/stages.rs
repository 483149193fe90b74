//! The barriers before the transactions.

use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::process::Word;

/// Where strands wait for each transaction, and for word from whoever leads them.
#[derive(Debug)]
pub(super) struct Stages {
    state: Mutex<State>,
    /// Strands wait for this, their leader for the other.
    opened: Condvar,
    changed: Condvar,
    /// Who hears of each arrival and departure: the parent of a process that is one strand.
    parent: Option<UnixStream>,
}

#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that happens, in any order"
)]
struct State {
    /// How many strands come to each barrier.
    expected: Vec<usize>,
    /// How many are there, or were.
    arrived: Vec<usize>,
    /// When each barrier was opened, of those that are.
    opened: Vec<Instant>,
    /// Strands that have not ended.
    running: usize,
    failed: bool,
    /// Since the last barrier opened.
    cut: bool,
    /// Strands that may have to wait for a better connection than the first that came.
    choosing: usize,
    aborted: bool,
    dismissed: bool,
}

/// How things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Strands that have not ended.
    pub(crate) running: usize,
    /// One of them has failed.
    pub(crate) failed: bool,
    /// The other end has ended one of its connections, since the last barrier opened.
    pub(crate) cut: bool,
    /// Strands that may have to wait for a better connection than the first that came: they are not idle.
    pub(crate) choosing: usize,
    /// All strands that come to the barrier that was asked about are there.
    pub(crate) complete: bool,
}

impl Stages {
    /// For strands of groups with so many transactions, each.
    pub(super) fn new(groups: &[(usize, usize)]) -> Self {
        let longest = groups.iter().map(|(_, length)| *length).max().unwrap_or(0);
        let come_to = |number: usize| -> usize {
            let coming = groups.iter().filter(|(_, length)| *length > number);
            coming.map(|(strands, _)| strands).sum()
        };
        Self {
            state: Mutex::new(State {
                expected: (0..longest).map(come_to).collect(),
                arrived: vec![0; longest],
                opened: Vec::with_capacity(longest),
                running: groups.iter().map(|(strands, _)| strands).sum(),
                failed: false,
                cut: false,
                choosing: 0,
                aborted: false,
                dismissed: false,
            }),
            opened: Condvar::new(),
            changed: Condvar::new(),
            parent: None,
        }
    }

    /// For the one strand of a forked process, whose parent is told of its arrivals.
    pub(super) fn of_process(transactions: usize, parent: UnixStream) -> Self {
        Self {
            parent: Some(parent),
            ..Self::new(&[(1, transactions)])
        }
    }

    /// A strand is at a barrier, and waits until it opens; when that was, or nothing if it is to end instead.
    pub(super) fn arrive(&self, number: usize) -> Option<Instant> {
        self.tell_parent(Word::Arrived);
        let mut state = self.state();
        state.arrived[number] += 1;
        if state.arrived[number] >= state.expected[number] {
            self.changed.notify_all();
        }
        while state.opened.len() <= number && !state.aborted {
            state = self
                .opened
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.opened.get(number).filter(|_| !state.aborted).copied()
    }

    /// A strand that has ended keeps its connections until then: what it closes with unread data is an
    /// error to the other end, which may still be at it.
    pub(super) fn await_dismissal(&self) {
        let mut state = self.state();
        while !state.dismissed && !state.aborted {
            state = self
                .opened
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until then, unless the run is aborted.
    pub(super) fn pause(&self, until: Instant) {
        let mut state = self.state();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || state.aborted {
                return;
            }
            (state, _) = self
                .opened
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets strands go that have ended.
    pub(super) fn dismiss(&self) {
        self.state().dismissed = true;
        self.opened.notify_all();
    }

    /// A strand's connection was ended by the other end.
    pub(super) fn cut(&self) {
        self.state().cut = true;
        self.tell_parent(Word::Cut);
    }

    /// A strand begins to choose its first connection, or has chosen.
    pub(super) fn choose(&self, begins: bool) {
        let mut state = self.state();
        if begins {
            state.choosing += 1;
        } else {
            state.choosing = state.choosing.saturating_sub(1);
        }
        self.tell_parent(if begins { Word::Choosing } else { Word::Chosen });
    }

    /// A strand has ended.
    pub(super) fn leave(&self, failed: bool) {
        let mut state = self.state();
        state.running -= 1;
        state.failed |= failed;
        self.tell_parent(if failed { Word::Failed } else { Word::Left });
        if state.running == 0 || failed {
            self.changed.notify_all();
        }
    }

    /// Opens a barrier, and all before it, as of then.
    pub(super) fn open(&self, number: usize, at: Instant) {
        let mut state = self.state();
        while state.opened.len() <= number {
            state.opened.push(at);
        }
        state.cut = false;
        self.opened.notify_all();
    }

    /// Nobody passes a barrier any more.
    pub(super) fn abort(&self) {
        self.state().aborted = true;
        self.opened.notify_all();
    }

    /// Waits until all strands are at the barrier, one has failed or all have ended, or until then.
    pub(super) fn wait(&self, number: Option<usize>, until: Instant) -> Standing {
        let mut state = self.state();
        loop {
            let standing = state.standing(number);
            let left = until.saturating_duration_since(Instant::now());
            if standing.complete || standing.failed || standing.running == 0 || left.is_zero() {
                return standing;
            }
            (state, _) = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn tell_parent(&self, word: Word) {
        if let Some(parent) = &self.parent {
            // A parent that is gone takes this process with it.
            let _ = word.say(parent);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn standing(&self, stage: Option<usize>) -> Standing {
        Standing {
            running: self.running,
            failed: self.failed,
            cut: self.cut,
            choosing: self.choosing,
            complete: stage.is_some_and(|stage| {
                let expected = self.expected.get(stage);
                expected.is_some_and(|expected| self.arrived[stage] >= *expected)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_barrier_opens_when_its_leader_says_so() {
        // Two strands with two transactions, one with one.
        let stages = Stages::new(&[(2, 2), (1, 1)]);
        let soon = || Instant::now() + Duration::from_secs(10);
        std::thread::scope(|scope| {
            for length in [2, 2, 1] {
                let stages = &stages;
                scope.spawn(move || {
                    for stage in 0..length {
                        assert!(stages.arrive(stage).is_some());
                    }
                    stages.leave(false);
                });
            }
            let standing = stages.wait(Some(0), soon());
            assert_eq!((standing.running, standing.complete), (3, true));
            let none_yet = stages.wait(Some(1), Instant::now());
            assert!(!none_yet.complete);
            stages.open(0, Instant::now());
            assert!(stages.wait(Some(1), soon()).complete);
            stages.cut();
            assert!(stages.wait(Some(1), soon()).cut);
            stages.open(1, Instant::now());
            assert!(!stages.wait(Some(1), soon()).cut);
            assert_eq!(stages.wait(None, soon()).running, 0);
        });
    }

    #[test]
    fn nobody_waits_for_a_run_that_is_over() {
        let stages = Stages::new(&[(2, 1)]);
        std::thread::scope(|scope| {
            let ended = scope.spawn(|| stages.await_dismissal());
            let pauses =
                scope.spawn(|| stages.pause(Instant::now() + Duration::from_secs(60 * 60)));
            let waits = scope.spawn(|| stages.arrive(0));
            stages.leave(true);
            let standing = stages.wait(Some(0), Instant::now() + Duration::from_secs(10));
            assert!(standing.failed && !standing.complete);
            stages.abort();
            assert!(waits.join().unwrap().is_none());
            ended.join().unwrap();
            pauses.join().unwrap();
        });
    }
}
