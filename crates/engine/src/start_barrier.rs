//! Barriers at which flows and workers wait for each other before they start.

use std::fmt::Debug;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Barriers that workers pass one after the other, one before each phase of a run.
///
/// A barrier opens when its leader opens it ([`Self::open`]), or without a leader when the last
/// worker arrives.
#[derive(Debug)]
pub struct StartBarrier {
    state: Mutex<State>,
    /// Wakes the workers.
    opened: Condvar,
    /// Wakes the leader.
    changed: Condvar,
    observer: Option<Box<dyn BarrierObserver>>,
}

#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the flags change independently of each other"
)]
struct State {
    has_leader: bool,
    /// Expected workers per barrier.
    expected: Vec<usize>,
    /// Arrived workers per barrier.
    arrived: Vec<usize>,
    /// Opening times of the open barriers.
    opened: Vec<Instant>,
    /// Workers that have not ended.
    running: usize,
    failed: bool,
    peer_closed: bool,
    selecting_count: usize,
    aborted: bool,
    dismissed: bool,
}

/// The state of the workers, as their leader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierStatus {
    /// Workers that have not ended.
    pub running: usize,
    /// Whether a worker has failed.
    pub failed: bool,
    /// Whether a peer has closed a worker's connection since the last barrier opened.
    pub peer_closed: bool,
    /// Workers that are selecting their first connection among several: they move no data, but are
    /// not idle.
    pub selecting_count: usize,
    /// Whether all expected workers are at the barrier.
    pub complete: bool,
}

impl BarrierStatus {
    /// Returns whether the leader's wait is over.
    pub fn ends_wait(&self) -> bool {
        self.complete || self.failed || self.running == 0
    }
}

/// Event of a worker, for its leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BarrierEvent {
    /// It is at its next barrier.
    Arrived,
    /// It has ended.
    Left {
        /// It failed.
        failed: bool,
    },
    /// Its peer has closed a connection.
    PeerClosed,
    /// It begins to select its first connection.
    SelectingFirstConnection,
    /// It has selected its first connection.
    SelectedFirstConnection,
}

/// Receives the events of a barrier's workers as they happen, for a leader in another process.
pub trait BarrierObserver: Debug + Send + Sync {
    /// Called by the worker's thread, before it waits.
    fn notify(&self, event: BarrierEvent);
}

/// One worker of a [`StartBarrier`]. Dropping it reports that the worker failed.
#[derive(Debug)]
#[must_use]
pub struct Participant<'a>(&'a StartBarrier);

impl StartBarrier {
    /// Creates barriers with a leader, for groups of `(workers, barriers)`.
    pub fn new(groups: &[(usize, usize)]) -> Self {
        let max_barriers = groups.iter().map(|(_, barriers)| *barriers).max();
        let expected = (0..max_barriers.unwrap_or(0)).map(|index| {
            let participating = groups.iter().filter(|(_, barriers)| *barriers > index);
            participating.map(|(workers, _)| workers).sum()
        });
        let expected: Vec<usize> = expected.collect();
        Self {
            state: Mutex::new(State {
                has_leader: true,
                arrived: vec![0; expected.len()],
                opened: Vec::with_capacity(expected.len()),
                expected,
                running: groups.iter().map(|(workers, _)| workers).sum(),
                ..State::default()
            }),
            opened: Condvar::new(),
            changed: Condvar::new(),
            observer: None,
        }
    }

    /// Creates one barrier without a leader. It opens when the last worker arrives, but never if
    /// a worker fails first.
    pub fn without_leader(workers: usize) -> Self {
        let barrier = Self::new(&[(workers, 1)]);
        barrier.state().has_leader = false;
        barrier
    }

    /// Passes the workers' events on to `observer`.
    #[must_use]
    pub fn observed_by(self, observer: impl BarrierObserver + 'static) -> Self {
        Self {
            observer: Some(Box::new(observer)),
            ..self
        }
    }

    /// Returns the handle of one worker.
    pub fn participant(&self) -> Participant<'_> {
        Participant(self)
    }

    /// Waits at a barrier until it opens. Returns the time at which it opened, or `None` if the run
    /// was aborted.
    pub fn arrive(&self, index: usize) -> Option<Instant> {
        self.arrive_and(index, || ())
    }

    fn arrive_and(&self, index: usize, on_open: impl FnOnce()) -> Option<Instant> {
        self.notify(BarrierEvent::Arrived);
        let mut state = self.state();
        state.arrived[index] += 1;
        if state.is_complete(index) {
            self.changed.notify_all();
            if !state.has_leader && !state.aborted {
                on_open();
                state.opened.push(Instant::now());
                self.opened.notify_all();
            }
        }
        let is_waiting = |state: &mut State| state.opened.len() <= index && !state.aborted;
        let state = self.opened.wait_while(state, is_waiting);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        state.opened.get(index).filter(|_| !state.aborted).copied()
    }

    /// Waits until the leader dismisses the workers, or aborts the run.
    ///
    /// A worker keeps its connections open until then. The peer may still use them, and closing one
    /// with unread data is an error at the peer.
    pub fn wait_for_run_end(&self) {
        let is_waiting = |state: &mut State| !state.dismissed && !state.aborted;
        drop(self.opened.wait_while(self.state(), is_waiting));
    }

    /// Waits until a time, or until the run is aborted.
    pub fn sleep_until(&self, until: Instant) {
        let left = until.saturating_duration_since(Instant::now());
        let is_waiting = |state: &mut State| !state.aborted;
        drop(
            self.opened
                .wait_timeout_while(self.state(), left, is_waiting),
        );
    }

    /// Records an event of a worker, and passes it on to the observer.
    pub fn record_event(&self, event: BarrierEvent) {
        let mut state = self.state();
        match event {
            BarrierEvent::PeerClosed => state.peer_closed = true,
            BarrierEvent::SelectingFirstConnection => state.selecting_count += 1,
            BarrierEvent::SelectedFirstConnection => {
                state.selecting_count = state.selecting_count.saturating_sub(1);
            }
            BarrierEvent::Left { failed } => {
                state.running -= 1;
                state.failed |= failed;
                if failed && !state.has_leader {
                    state.aborted = true;
                    self.opened.notify_all();
                }
                if failed || state.running == 0 {
                    self.changed.notify_all();
                }
            }
            BarrierEvent::Arrived => {}
        }
        drop(state);
        self.notify(event);
    }

    /// Opens a barrier and all earlier ones, with `at` as the opening time.
    pub fn open(&self, index: usize, at: Instant) {
        let mut state = self.state();
        while state.opened.len() <= index {
            state.opened.push(at);
        }
        state.peer_closed = false;
        self.opened.notify_all();
    }

    /// Ends the workers' wait in [`Self::wait_for_run_end`].
    pub fn dismiss(&self) {
        self.state().dismissed = true;
        self.opened.notify_all();
    }

    /// Ends every wait of the workers. No barrier opens after that.
    pub fn abort(&self) {
        self.state().aborted = true;
        self.opened.notify_all();
    }

    /// Waits until all expected workers are at the barrier, if any, until a worker has failed, or
    /// until all have ended. The wait ends at `until` at the latest.
    pub fn wait_for_workers(&self, index: Option<usize>, until: Instant) -> BarrierStatus {
        let left = until.saturating_duration_since(Instant::now());
        let is_waiting = |state: &mut State| !state.status(index).ends_wait();
        let waited = (self.changed).wait_timeout_while(self.state(), left, is_waiting);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.status(index)
    }

    fn notify(&self, event: BarrierEvent) {
        if let Some(observer) = &self.observer {
            observer.notify(event);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_complete(&self, index: usize) -> bool {
        let expected = self.expected.get(index);
        expected.is_some_and(|expected| self.arrived[index] >= *expected)
    }

    fn status(&self, index: Option<usize>) -> BarrierStatus {
        BarrierStatus {
            running: self.running,
            failed: self.failed,
            peer_closed: self.peer_closed,
            selecting_count: self.selecting_count,
            complete: index.is_some_and(|index| self.is_complete(index)),
        }
    }
}

impl Participant<'_> {
    /// Waits for the other workers of a barrier without a leader. The last one calls `on_open`
    /// before any of them goes on. Returns false if a worker failed first.
    pub fn wait_for_others(self, on_open: impl FnOnce()) -> bool {
        let opened = self.0.arrive_and(0, on_open).is_some();
        self.leave(false);
        opened
    }

    /// Reports that the worker has ended.
    pub fn leave(self, failed: bool) {
        self.0.record_event(BarrierEvent::Left { failed });
        std::mem::forget(self);
    }
}

impl Drop for Participant<'_> {
    fn drop(&mut self) {
        self.0.record_event(BarrierEvent::Left { failed: true });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    use super::*;

    fn timeout_end() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    #[test]
    fn the_last_worker_opens_a_barrier_without_a_leader() {
        let (barrier, arrived) = (StartBarrier::without_leader(4), AtomicUsize::new(0));
        let opened = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let participant = barrier.participant();
                scope.spawn(|| {
                    arrived.fetch_add(1, SeqCst);
                    let on_open = || assert_eq!(opened.fetch_add(1, SeqCst), 0);
                    assert!(participant.wait_for_others(on_open));
                    assert_eq!((arrived.load(SeqCst), opened.load(SeqCst)), (4, 1));
                });
            }
        });
    }

    #[test]
    fn a_worker_that_fails_keeps_the_others_from_starting() {
        for failing in 0..3 {
            let barrier = StartBarrier::without_leader(3);
            std::thread::scope(|scope| {
                for number in 0..3 {
                    let participant = barrier.participant();
                    scope.spawn(move || {
                        if number == failing {
                            drop(participant);
                        } else {
                            assert!(!participant.wait_for_others(|| panic!("the barrier opened")));
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn a_leader_opens_one_barrier_after_the_other() {
        // Two workers have two barriers, and one worker has one.
        let barrier = StartBarrier::new(&[(2, 2), (1, 1)]);
        std::thread::scope(|scope| {
            for barriers in [2, 2, 1] {
                let barrier = &barrier;
                scope.spawn(move || {
                    let participant = barrier.participant();
                    for number in 0..barriers {
                        assert!(barrier.arrive(number).is_some());
                    }
                    participant.leave(false);
                });
            }
            let status = barrier.wait_for_workers(Some(0), timeout_end());
            assert_eq!((status.running, status.complete), (3, true));
            let next_status = barrier.wait_for_workers(Some(1), Instant::now());
            assert!(!next_status.complete);
            barrier.open(0, Instant::now());
            assert!(barrier.wait_for_workers(Some(1), timeout_end()).complete);
            barrier.record_event(BarrierEvent::PeerClosed);
            assert!(barrier.wait_for_workers(Some(1), timeout_end()).peer_closed);
            barrier.open(1, Instant::now());
            assert!(!barrier.wait_for_workers(Some(1), timeout_end()).peer_closed);
            assert_eq!(barrier.wait_for_workers(None, timeout_end()).running, 0);
        });
    }

    #[test]
    fn an_aborted_run_ends_every_wait() {
        let barrier = StartBarrier::new(&[(2, 1)]);
        std::thread::scope(|scope| {
            let run_end = scope.spawn(|| barrier.wait_for_run_end());
            let sleep =
                scope.spawn(|| barrier.sleep_until(Instant::now() + Duration::from_secs(60 * 60)));
            let arrival = scope.spawn(|| barrier.arrive(0));
            drop(barrier.participant());
            let status = barrier.wait_for_workers(Some(0), timeout_end());
            assert!(status.failed && !status.complete);
            barrier.abort();
            assert!(arrival.join().unwrap().is_none());
            run_end.join().unwrap();
            sleep.join().unwrap();
        });
    }
}
