//! A flag with a reason that ends a run, and the threads that must see it.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use model::Ended;
use sys::wake::Sleeper;

/// How many threads are woken before others may have the list.
const WOKEN_AT_ONCE: usize = 32;

/// One flag with a reason, and the threads that must see it.
///
/// A loop reads the flag once a pass. A thread that blocks in a system call is woken by a signal,
/// which the [`DeadlineThread`](crate::DeadlineThread) repeats until the thread has left its loop: one signal can
/// come between the loop's look at the flag and its next call, and would be lost.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// 0 while running, else a [`Reason`].
    flag: AtomicU8,
    sleepers: Mutex<Vec<Sleeper>>,
    /// Stops that are pulled with this one, or after a delay, as long as they are in use.
    followers: Mutex<Vec<(Weak<Inner>, Duration)>>,
}

/// A stop's flag, where it lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag<'a>(&'a AtomicU8);

/// Why a run is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// Its time is up.
    Deadline = 1,
    /// The peer is gone.
    PeerClosed = 2,
    /// Somebody here wants it to end.
    Cancelled = 3,
    /// Nothing has moved for longer than somebody has patience.
    Silence = 4,
}

impl From<Reason> for Ended {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Deadline => Self::Deadline,
            Reason::PeerClosed => Self::PeerClosed,
            Reason::Cancelled => Self::Cancelled,
            Reason::Silence => Self::Failed("no data moved any more".to_owned()),
        }
    }
}

impl Flag<'_> {
    #[inline]
    pub(crate) fn is_set(self) -> bool {
        self.0.load(Relaxed) != 0
    }
}

impl Stop {
    /// A stop that nobody has pulled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the run is to end.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.flag().is_set()
    }

    /// The flag alone, for a loop that looks at it once a pass.
    #[inline]
    pub(crate) fn flag(&self) -> Flag<'_> {
        Flag(&self.0.flag)
    }

    /// Why, if it is.
    pub fn reason(&self) -> Option<Reason> {
        match self.0.flag.load(Relaxed) {
            0 => None,
            1 => Some(Reason::Deadline),
            2 => Some(Reason::PeerClosed),
            4 => Some(Reason::Silence),
            _ => Some(Reason::Cancelled),
        }
    }

    /// Wakes the threads that have not yet left their loops; whether there are any.
    pub(crate) fn wake(&self) -> bool {
        let mut left = usize::MAX;
        loop {
            // A few at a time: those that leave need the lock. From the end, as one that leaves has the last
            // one take its place.
            let sleepers = lock(&self.0.sleepers);
            left = left.min(sleepers.len());
            if left == 0 {
                return !sleepers.is_empty();
            }
            let next = left.saturating_sub(WOKEN_AT_ONCE);
            sleepers[next..left]
                .iter()
                .for_each(|sleeper| sleeper.wake());
            left = next;
        }
    }

    /// Sets the flag, and returns the followers that end with it; `None` if it was set before.
    pub(crate) fn set(&self, reason: Reason) -> Option<Vec<(Self, Duration)>> {
        let flag = &self.0.flag;
        flag.compare_exchange(0, reason as u8, Relaxed, Relaxed)
            .ok()?;
        let followers = std::mem::take(&mut *lock(&self.0.followers)).into_iter();
        // A follower that nobody uses any more needs no further word.
        let followers = followers.filter_map(|(one, delay)| Some((Self(one.upgrade()?), delay)));
        Some(followers.collect())
    }

    /// Lets `follower` end with this stop, or `delay` later.
    pub(crate) fn add_follower(&self, follower: &Self, delay: Duration) {
        let mut followers = lock(&self.0.followers);
        followers.retain(|(other, _)| other.strong_count() > 0);
        followers.push((Arc::downgrade(&follower.0), delay));
    }

    /// Puts a thread on the list of those to wake.
    pub(crate) fn enter(&self, sleeper: Sleeper) {
        lock(&self.0.sleepers).push(sleeper);
    }

    /// Takes it off again; once, as a thread may be on the list twice: in a function and in one that it calls.
    pub(crate) fn leave(&self, sleeper: Sleeper) {
        let mut sleepers = lock(&self.0.sleepers);
        if let Some(at) = sleepers.iter().position(|other| *other == sleeper) {
            sleepers.swap_remove(at);
        }
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A list of plain values is whole after any panic.
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
                let _attending = stop.attend();
                while !stop.is_set() {
                    // The pull falls into this sleep, before the thread blocks.
                    std::thread::sleep(Duration::from_millis(20));
                    let _ = near.read(&mut [0; 1]);
                }
            });
            std::thread::sleep(Duration::from_millis(5));
            stop.pull(Reason::Cancelled);
        });
        assert_eq!(stop.reason(), Some(Reason::Cancelled));
    }

    #[test]
    fn followers_end_with_their_leader_and_not_the_other_way() {
        let leader = Stop::new();
        let (first, second) = (leader.follower(), leader.follower());
        first.pull(Reason::Deadline);
        assert!(!leader.is_set() && !second.is_set());
        leader.pull(Reason::Cancelled);
        assert_eq!(first.reason(), Some(Reason::Deadline));
        assert_eq!(second.reason(), Some(Reason::Cancelled));
        assert_eq!(leader.follower().reason(), Some(Reason::Cancelled));
    }

    #[test]
    fn a_follower_may_end_later() {
        let leader = Stop::new();
        let delay = Duration::from_millis(30);
        let late = leader.follower_after(delay);
        let begun = Instant::now();
        leader.pull(Reason::Cancelled);
        let later = leader.follower_after(delay);
        assert!(!late.is_set() && !later.is_set());
        for stop in [late, later] {
            while !stop.is_set() {
                std::thread::yield_now();
            }
            assert_eq!(stop.reason(), Some(Reason::Cancelled));
        }
        assert!(begun.elapsed() >= delay);
    }

    #[test]
    fn a_deadline_pulls_at_its_time() {
        let stop = Stop::new();
        let start = Instant::now();
        let _promise = crate::deadline_thread().at(start + Duration::from_millis(30), &stop);
        let cancelled = Stop::new();
        drop(crate::deadline_thread().at(start + Duration::from_millis(10), &cancelled));
        while !stop.is_set() {
            std::thread::yield_now();
        }
        assert!(start.elapsed() >= Duration::from_millis(30));
        assert!(!cancelled.is_set());
    }
}
