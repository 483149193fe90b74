use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use model::Ended;
use sys::call::{self, Error};
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
            Reason::Silence => Self::Failed("the peer's data stopped".to_owned()),
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

    /// A stop that this one's end also ends, but not the other way round.
    #[must_use]
    pub fn follower(&self) -> Self {
        self.follower_after(Duration::ZERO)
    }

    /// As [`Stop::follower`], but pulled `delay` later: a stopped server lets running tests go on for that long.
    #[must_use]
    pub fn follower_after(&self, delay: Duration) -> Self {
        let follower = Self::new();
        let mut followers = lock(&self.0.followers);
        followers.retain(|(other, _)| other.strong_count() > 0);
        followers.push((Arc::downgrade(&follower.0), delay));
        drop(followers);
        // Taken only now: whoever pulled this stop before saw no follower yet.
        if let Some(reason) = self.reason() {
            follower.pull_after(delay, reason);
        }
        follower
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

    /// Ends the run; the first reason counts. The deadline thread goes on waking the threads.
    pub fn pull(&self, reason: Reason) {
        if self
            .0
            .flag
            .compare_exchange(0, reason as u8, Relaxed, Relaxed)
            .is_err()
        {
            return;
        }
        // A follower that ended before this one needs no further word.
        let followers = std::mem::take(&mut *lock(&self.0.followers));
        for (follower, delay) in followers {
            if let Some(follower) = follower.upgrade() {
                Self(follower).pull_after(delay, reason);
            }
        }
        if self.wake() {
            crate::deadline_thread().keep_waking(self);
        }
    }

    fn pull_after(&self, delay: Duration, reason: Reason) {
        if delay.is_zero() {
            return self.pull(reason);
        }
        let promise = crate::deadline_thread().at_for(Instant::now() + delay, self, reason);
        // Dropping the promise would cancel it.
        std::mem::forget(promise);
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

    /// Registers the calling thread as one to wake, until the guard is dropped.
    #[must_use]
    pub fn attend(&self) -> Attending<'_> {
        let sleeper = Sleeper::this_thread();
        lock(&self.0.sleepers).push(sleeper);
        if self.is_set() {
            // Pulled before we were on the list, so nobody wakes us yet.
            crate::deadline_thread().keep_waking(self);
        }
        Attending {
            stop: self,
            sleeper,
        }
    }

    /// Waits until a socket has something to read or its peer has closed it; `false` at the deadline, ECANCELED at the
    /// stop.
    pub fn wait_readable(&self, socket: BorrowedFd<'_>, until: Instant) -> Result<bool, Error> {
        let _attending = self.attend();
        while !self.is_set() {
            let left = until.saturating_duration_since(Instant::now());
            match call::wait_readable(socket, left) {
                Err(Error::INTR) => {}
                other => return other,
            }
        }
        Err(Error::CANCELED)
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A thread's place on a [`Stop`]'s list.
#[derive(Debug)]
pub struct Attending<'a> {
    stop: &'a Stop,
    sleeper: Sleeper,
}

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        let mut sleepers = lock(&self.stop.0.sleepers);
        // One of them: a thread may attend twice, in a function and in one that it calls.
        if let Some(at) = sleepers.iter().position(|sleeper| *sleeper == self.sleeper) {
            sleepers.swap_remove(at);
        }
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
