//! The stop flag of a run, its reason, and the threads that it wakes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use model::EndCause;
use sys::wake::WakeableThread;

/// Number of threads that are woken before the list is unlocked for other threads.
const WAKE_BATCH: usize = 32;

/// The stop flag of a run, with its reason and the threads to wake.
///
/// A loop reads the flag once per pass. A signal wakes a thread that blocks in a system call. The
/// [`DeadlineThread`](crate::DeadlineThread) repeats the signal until the thread has left its loop.
/// A single signal could arrive between the loop's check of the flag and its next call, and would
/// be lost.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// 0 while running, else a [`StopReason`].
    flag: AtomicU8,
    threads: Mutex<Vec<WakeableThread>>,
    /// Child stops by address, each with its delay: a child is set with this stop, or that much
    /// later. A dropped child leaves the map.
    children: Mutex<BTreeMap<usize, (Weak<Inner>, Duration)>>,
    parent: Option<Stop>,
}

/// Reference to a stop's flag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StopFlag<'a>(&'a AtomicU8);

/// Why a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum StopReason {
    /// Its deadline has passed.
    Deadline = 1,
    /// The peer has closed its connection.
    PeerClosed = 2,
    /// The local program has cancelled it.
    Cancelled = 3,
    /// No data has moved for longer than the idle timeout.
    IdleTimeout = 4,
}

impl From<StopReason> for EndCause {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::Deadline => Self::Deadline,
            StopReason::PeerClosed => Self::PeerClosed,
            StopReason::Cancelled => Self::Cancelled,
            StopReason::IdleTimeout => {
                Self::Failed("no data moved within the idle timeout".to_owned())
            }
        }
    }
}

impl StopFlag<'_> {
    #[inline]
    pub(crate) fn is_set(self) -> bool {
        self.0.load(Relaxed) != 0
    }
}

impl Stop {
    /// Creates a stop that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether the run must end.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.flag().is_set()
    }

    /// Returns the flag alone, for a loop that reads it once per pass.
    #[inline]
    pub(crate) fn flag(&self) -> StopFlag<'_> {
        StopFlag(&self.0.flag)
    }

    /// Returns the reason if the stop is set.
    pub fn reason(&self) -> Option<StopReason> {
        match self.0.flag.load(Relaxed) {
            0 => None,
            1 => Some(StopReason::Deadline),
            2 => Some(StopReason::PeerClosed),
            4 => Some(StopReason::IdleTimeout),
            _ => Some(StopReason::Cancelled),
        }
    }

    /// Wakes the threads that have not left their loops. Returns whether there were any.
    pub(crate) fn wake(&self) -> bool {
        let mut remaining = usize::MAX;
        loop {
            // Wake a few at a time, because threads that leave need the lock. Start at the end:
            // when a thread leaves, the last one takes its place.
            let threads = lock(&self.0.threads);
            remaining = remaining.min(threads.len());
            if remaining == 0 {
                return !threads.is_empty();
            }
            let start = remaining.saturating_sub(WAKE_BATCH);
            threads[start..remaining]
                .iter()
                .for_each(|thread| thread.wake());
            remaining = start;
        }
    }

    /// Sets the flag and returns the children to set; `None` if it was set before.
    pub(crate) fn record_reason(&self, reason: StopReason) -> Option<Vec<(Self, Duration)>> {
        let flag = &self.0.flag;
        flag.compare_exchange(0, reason as u8, Relaxed, Relaxed)
            .ok()?;
        let children = std::mem::take(&mut *lock(&self.0.children)).into_values();
        // A child that is being dropped need not be set.
        let children = children.filter_map(|(child, delay)| Some((Self(child.upgrade()?), delay)));
        Some(children.collect())
    }

    /// Returns a new child that is set with this stop, or `delay` later.
    pub(crate) fn add_child(&self, delay: Duration) -> Self {
        let child = Arc::new(Inner {
            flag: AtomicU8::default(),
            threads: Mutex::default(),
            children: Mutex::default(),
            parent: Some(self.clone()),
        });
        let entry = (Arc::downgrade(&child), delay);
        lock(&self.0.children).insert(child.address(), entry);
        Self(child)
    }

    /// Adds a thread to the list of those to wake.
    pub(crate) fn add_wakeable_thread(&self, thread: WakeableThread) {
        lock(&self.0.threads).push(thread);
    }

    /// Removes one entry of a thread. A thread has two entries if nested functions both
    /// register it.
    pub(crate) fn remove_wakeable_thread(&self, thread: WakeableThread) {
        let mut threads = lock(&self.0.threads);
        if let Some(index) = threads.iter().position(|other| *other == thread) {
            threads.swap_remove(index);
        }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Inner {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(parent) = &self.parent {
            lock(&parent.0.children).remove(&self.address());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A list of plain values remains valid after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_blocked_thread_is_woken_even_when_the_signal_comes_too_early() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _far = listener.accept().unwrap();
        let stop = Stop::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _registration = stop.register_thread();
                while !stop.is_set() {
                    // The stop is set during this sleep, before the thread blocks.
                    std::thread::sleep(Duration::from_millis(20));
                    let _ = near.read(&mut [0; 1]);
                }
            });
            std::thread::sleep(Duration::from_millis(5));
            stop.set(StopReason::Cancelled);
        });
        assert_eq!(stop.reason(), Some(StopReason::Cancelled));
    }

    #[test]
    fn a_parent_sets_its_children_but_a_child_does_not_set_its_parent() {
        let parent = Stop::new();
        let (first, second) = (parent.child(), parent.child());
        first.set(StopReason::Deadline);
        assert!(!parent.is_set() && !second.is_set());
        parent.set(StopReason::Cancelled);
        assert_eq!(first.reason(), Some(StopReason::Deadline));
        assert_eq!(second.reason(), Some(StopReason::Cancelled));
        assert_eq!(parent.child().reason(), Some(StopReason::Cancelled));
    }

    #[test]
    fn a_dropped_child_leaves_nothing() {
        let parent = Stop::new();
        let child = parent.child();
        drop(parent.child());
        assert_eq!(lock(&parent.0.children).len(), 1);
        drop(child);
        assert!(lock(&parent.0.children).is_empty());
    }

    #[test]
    fn a_child_may_be_set_after_a_delay() {
        let parent = Stop::new();
        let delay = Duration::from_millis(30);
        let late = parent.child_after(delay);
        let start = Instant::now();
        parent.set(StopReason::Cancelled);
        let added_after_set = parent.child_after(delay);
        assert!(!late.is_set() && !added_after_set.is_set());
        for stop in [late, added_after_set] {
            while !stop.is_set() {
                std::thread::yield_now();
            }
            assert_eq!(stop.reason(), Some(StopReason::Cancelled));
        }
        assert!(start.elapsed() >= delay);
    }

    #[test]
    fn a_deadline_sets_its_stop() {
        let stop = Stop::new();
        let start = Instant::now();
        let _guard = crate::deadline_thread().set_at(start + Duration::from_millis(30), &stop);
        let cancelled = Stop::new();
        drop(crate::deadline_thread().set_at(start + Duration::from_millis(10), &cancelled));
        while !stop.is_set() {
            std::thread::yield_now();
        }
        assert!(start.elapsed() >= Duration::from_millis(30));
        assert!(!cancelled.is_set());
    }
}
