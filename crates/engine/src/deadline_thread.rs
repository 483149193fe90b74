//! The one thread of a process that keeps time for all its runs.
//!
//! It only sleeps, sets flags and wakes threads, so a busy machine cannot make it late by more than
//! its own scheduling.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use sys::call::{self, Error};
use sys::poller::Poller;
use sys::wake::Sleeper;

use crate::counters::Counters;
use crate::stop::{Reason, Stop};

/// When a thread that did not yet see its flag is woken again; then after twice as long each time, up to
/// the other: a thousand threads that wait for the CPU and not for their peers need no thousand signals
/// a millisecond.
const WAKE_AGAIN: Duration = Duration::from_millis(1);
const WAKE_AT_LEAST: Duration = Duration::from_millis(32);

/// How often counters are read within the patience for them: a silence may last longer by this part of it.
const LOOKS: u32 = 4;

/// The thread that keeps deadlines, one per process: [`deadline_thread`].
#[derive(Debug)]
pub struct DeadlineThread {
    poller: Poller,
    state: Mutex<State>,
}

/// What should move, and what ends when it does not.
#[derive(Debug)]
struct Look {
    /// Nobody counts in it any more when it cannot be had.
    counters: Weak<Counters>,
    stop: Stop,
    patience: Duration,
    /// [`Counters::progress`] at the last look.
    seen: u64,
    /// When it was another.
    since: Instant,
}

/// A stop whose threads are woken.
#[derive(Debug)]
struct Waking {
    stop: Stop,
    next: Instant,
    pause: Duration,
}

#[derive(Debug, Default)]
struct State {
    /// Deadlines, in order; the number tells equal times apart.
    deadlines: BTreeMap<(Instant, u64), (Stop, Reason)>,
    /// When to look at what should move.
    looks: BTreeMap<(Instant, u64), Look>,
    /// What a hang-up, or an input, ends.
    watched: HashMap<u64, (Stop, Reason)>,
    /// Inputs that are watched for good.
    inputs: Vec<OwnedFd>,
    /// Pulled stops whose threads have not all left.
    waking: Vec<Waking>,
    last_number: u64,
}

/// The process's deadline thread, started at first use. One that binds threads to CPUs must do so after:
/// threads inherit what they are bound to. A forked child has none until it says so: [`forked`].
pub fn deadline_thread() -> &'static DeadlineThread {
    // A parent's, and that of its forked children.
    static THREADS: [(OnceLock<DeadlineThread>, OnceLock<()>); 2] =
        [const { (OnceLock::new(), OnceLock::new()) }; 2];
    let (thread, started) = &THREADS[usize::from(IS_CHILD.load(Relaxed))];
    let thread = thread.get_or_init(|| DeadlineThread {
        poller: Poller::new().expect("a process that can start has two descriptors left"),
        state: Mutex::default(),
    });
    started.get_or_init(|| {
        std::thread::Builder::new()
            .stack_size(64 * 1024)
            .spawn(move || thread.keep())
            .expect("a process that can start can start one thread");
    });
    thread
}

/// This process was forked from one that has a deadline thread, which is not here.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Says in a forked child that it is one; it forks no further.
pub fn forked() {
    IS_CHILD.store(true, Relaxed);
}

impl DeadlineThread {
    /// Pulls `stop` at `when`, unless the promise is dropped before.
    pub fn at(&self, when: Instant, stop: &Stop) -> Promise<'_> {
        self.at_for(when, stop, Reason::Deadline)
    }

    /// As [`DeadlineThread::at`], for another reason.
    pub(crate) fn at_for(&self, when: Instant, stop: &Stop, reason: Reason) -> Promise<'_> {
        let mut state = self.state();
        let key = (when, state.number());
        let is_next = state
            .deadlines
            .keys()
            .next()
            .is_none_or(|first| key < *first);
        state.deadlines.insert(key, (stop.clone(), reason));
        drop(state);
        if is_next {
            self.poller.call();
        }
        Promise { thread: self, key }
    }

    /// Pulls `stop` when the peer of this connection hangs up, unless the watch is dropped before. Several watches may
    /// be on one connection. The thread that makes a watch must drop it: threads may have descriptors of their own.
    pub fn on_hang_up<'a>(&'a self, connection: BorrowedFd<'a>, stop: &Stop) -> Watch<'a> {
        self.watch(connection, stop, Poller::watch)
    }

    /// As [`DeadlineThread::on_hang_up`], but only when the connection is reset: a peer that has nothing more to send may still
    /// receive.
    pub fn on_reset<'a>(&'a self, connection: BorrowedFd<'a>, stop: &Stop) -> Watch<'a> {
        self.watch(connection, stop, Poller::watch_reset)
    }

    fn watch<'a>(
        &'a self,
        connection: BorrowedFd<'a>,
        stop: &Stop,
        watch: impl Fn(&Poller, BorrowedFd<'_>, u64) -> io::Result<()>,
    ) -> Watch<'a> {
        let mut state = self.state();
        let number = state.number();
        state
            .watched
            .insert(number, (stop.clone(), Reason::PeerClosed));
        drop(state);
        let mut watched = watch(&self.poller, connection, number);
        // epoll takes a descriptor once, by its number: another thread may have a copy with the same one.
        let mut copies = Vec::new();
        while matches!(&watched, Err(error) if error.kind() == io::ErrorKind::AlreadyExists)
            && let Ok(copy) = connection.try_clone_to_owned()
        {
            watched = watch(&self.poller, copy.as_fd(), number);
            copies.push(copy);
        }
        // A descriptor that cannot be watched costs the early end only.
        Watch {
            thread: self,
            connection,
            copy: copies.pop(),
            is_watched: watched.is_ok(),
            number,
        }
    }

    /// Pulls `stop` at the first SIGINT, SIGTERM or signal of `others`. A second SIGINT or SIGTERM ends the process at
    /// once.
    pub fn on_signals(&self, others: &[i32], stop: &Stop) -> io::Result<()> {
        let input = OwnedFd::from(sys::signal::first_interrupt(others)?);
        let mut state = self.state();
        let number = state.number();
        self.poller.watch_input(input.as_fd(), number)?;
        state
            .watched
            .insert(number, (stop.clone(), Reason::Cancelled));
        state.inputs.push(input);
        Ok(())
    }

    /// Pulls `stop` when nothing has been counted in `counters` for `patience` or up to a quarter longer,
    /// as long as the counters exist.
    ///
    /// A time-out of the socket would have the kernel set and take back a timer in each call that
    /// waits.
    pub fn on_silence(&self, counters: &Arc<Counters>, patience: Duration, stop: &Stop) {
        let now = Instant::now();
        let look = Look {
            counters: Arc::downgrade(counters),
            stop: stop.clone(),
            patience,
            seen: counters.progress(),
            since: now,
        };
        let mut state = self.state();
        let key = (now + patience / LOOKS, state.number());
        state.looks.insert(key, look);
        drop(state);
        self.poller.call();
    }

    /// Goes on waking the threads of a pulled stop until they have all left.
    pub(crate) fn keep_waking(&self, stop: &Stop) {
        let mut state = self.state();
        match state.waking.iter_mut().find(|known| known.stop.is(stop)) {
            // A thread has come that has not been woken at all.
            Some(known) => known.hurry(),
            None => state.waking.push(Waking::begin(stop)),
        }
        drop(state);
        self.poller.call();
    }

    fn keep(&self) {
        self.poller.move_in();
        loop {
            let next = self.serve_what_is_due();
            let pause = next.map(|when| when.saturating_duration_since(Instant::now()));
            for tag in self.poller.wait(pause) {
                let watched = self.state().watched.remove(&tag);
                if let Some((stop, reason)) = watched {
                    stop.pull(reason);
                }
            }
        }
    }

    /// Pulls what is due and wakes who has not left; when there is something to do next.
    fn serve_what_is_due(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut due = Vec::new();
        let mut state = self.state();
        while let Some(first) = state.deadlines.first_entry() {
            if first.key().0 > now {
                break;
            }
            due.push(first.remove());
        }
        let silent = state.look(now);
        let to_wake: Vec<Waking> = state.waking.extract_if(.., |one| one.next <= now).collect();
        drop(state);

        // Without the lock: a pull takes the stop's own lock and comes back for ours.
        for (stop, reason) in &due {
            stop.pull(*reason);
        }
        for stop in &silent {
            stop.pull(Reason::Silence);
        }
        let still: Vec<Waking> = to_wake.into_iter().filter_map(Waking::again).collect();

        let mut state = self.state();
        for one in still {
            // A thread may have come to it meanwhile.
            if !state.waking.iter().any(|known| known.stop.is(&one.stop)) {
                state.waking.push(one);
            }
        }
        let again = state.waking.iter().map(|one| one.next).min();
        let deadline = state.deadlines.keys().next().map(|(when, _)| *when);
        let look = state.looks.keys().next().map(|(when, _)| *when);
        [again, deadline, look].into_iter().flatten().min()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waking {
    fn begin(stop: &Stop) -> Self {
        Self {
            stop: stop.clone(),
            next: Instant::now() + WAKE_AGAIN,
            pause: WAKE_AGAIN,
        }
    }

    fn hurry(&mut self) {
        self.pause = WAKE_AGAIN;
        self.next = self.next.min(Instant::now() + WAKE_AGAIN);
    }

    /// Wakes the threads once more; when it is to be done again, if any are left.
    fn again(mut self) -> Option<Self> {
        self.stop.wake().then(|| {
            self.pause = (self.pause * 2).min(WAKE_AT_LEAST);
            self.next = Instant::now() + self.pause;
            self
        })
    }
}

impl State {
    /// Reads the counters that are due; returns the stops of those that are silent.
    fn look(&mut self, now: Instant) -> Vec<Stop> {
        let mut silent = Vec::new();
        while let Some(first) = self.looks.first_entry() {
            if first.key().0 > now {
                break;
            }
            let ((_, number), mut look) = first.remove_entry();
            let Some(counters) = look.counters.upgrade() else {
                continue;
            };
            let progress = counters.progress();
            if progress != look.seen {
                (look.seen, look.since) = (progress, now);
            }
            if now.duration_since(look.since) >= look.patience {
                silent.push(look.stop);
            } else {
                self.looks
                    .insert((now + look.patience / LOOKS, number), look);
            }
        }
        silent
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

/// A deadline to come; dropped, it does not come.
#[derive(Debug)]
#[must_use]
pub struct Promise<'a> {
    thread: &'a DeadlineThread,
    key: (Instant, u64),
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        self.thread.state().deadlines.remove(&self.key);
    }
}

/// A connection whose end is waited for; dropped, it is not.
#[derive(Debug)]
#[must_use]
pub struct Watch<'a> {
    thread: &'a DeadlineThread,
    connection: BorrowedFd<'a>,
    /// What is watched in place of a descriptor that another watch has.
    copy: Option<OwnedFd>,
    is_watched: bool,
    number: u64,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.is_watched {
            let copy = self.copy.as_ref().map(AsFd::as_fd);
            self.thread.poller.forget(copy.unwrap_or(self.connection));
        }
        self.thread.state().watched.remove(&self.number);
    }
}

/// What of a stop needs the deadline thread.
impl Stop {
    /// Ends the run; the first reason counts. The deadline thread wakes the threads until they have left.
    pub fn pull(&self, reason: Reason) {
        let Some(followers) = self.set(reason) else {
            return;
        };
        for (follower, delay) in followers {
            follower.pull_after(delay, reason);
        }
        if self.wake() {
            deadline_thread().keep_waking(self);
        }
    }

    fn pull_after(&self, delay: Duration, reason: Reason) {
        if delay.is_zero() {
            return self.pull(reason);
        }
        let promise = deadline_thread().at_for(Instant::now() + delay, self, reason);
        // Dropping the promise would cancel it.
        std::mem::forget(promise);
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
        self.add_follower(&follower, delay);
        // Read only now: a pull before that saw no follower yet.
        if let Some(reason) = self.reason() {
            follower.pull_after(delay, reason);
        }
        follower
    }

    /// A follower that is also pulled at `when`, unless the promise is dropped before.
    pub fn follower_until(&self, when: Instant) -> (Self, Promise<'static>) {
        let follower = self.follower();
        let promise = deadline_thread().at(when, &follower);
        (follower, promise)
    }

    /// Registers the calling thread as one to wake, until the guard is dropped.
    #[must_use]
    pub fn attend(&self) -> Attending<'_> {
        let sleeper = Sleeper::this_thread();
        self.enter(sleeper);
        if self.is_set() {
            // Pulled before the thread was on the list, so nothing wakes it yet.
            deadline_thread().keep_waking(self);
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
}

/// A thread's place on a [`Stop`]'s list.
#[derive(Debug)]
pub struct Attending<'a> {
    stop: &'a Stop,
    sleeper: Sleeper,
}

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        self.stop.leave(self.sleeper);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_does_not_move_ends_what_waits_for_it() {
        let (silent, moving) = (Arc::new(Counters::default()), Arc::new(Counters::default()));
        let (ends, goes_on, gone) = (Stop::new(), Stop::new(), Stop::new());
        let patience = Duration::from_millis(40);
        deadline_thread().on_silence(&silent, patience, &ends);
        deadline_thread().on_silence(&moving, patience * 50, &goes_on);
        deadline_thread().on_silence(&Arc::new(Counters::default()), patience, &gone);
        let start = Instant::now();
        while !ends.is_set() {
            std::thread::yield_now();
        }
        assert!(start.elapsed() >= patience);
        assert_eq!(ends.reason(), Some(Reason::Silence));
        assert!(!goes_on.is_set() && !gone.is_set());
    }

    #[test]
    fn what_has_moved_since_the_last_look_is_not_silent() {
        let counters = Arc::new(Counters::default());
        let mut state = State::default();
        let begun = Instant::now();
        let look = Look {
            counters: Arc::downgrade(&counters),
            stop: Stop::new(),
            patience: Duration::from_secs(4),
            seen: counters.progress(),
            since: begun,
        };
        state.looks.insert((begun, 1), look);
        let mut at = |seconds| state.look(begun + Duration::from_secs(seconds)).len();
        assert_eq!((at(1), at(3)), (0, 0));
        counters.count_received(1, 1);
        // Five seconds after its beginning, but none after it has moved.
        assert_eq!((at(5), at(8)), (0, 0));
        assert_eq!((at(9), at(20)), (1, 0));
    }
}
