//! The thread that enforces the deadlines of all runs of a process.
//!
//! It only sleeps, sets flags and wakes threads. On a busy machine it is therefore late only by its
//! own scheduling delay.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sys::call::{self, Error};
use sys::poller::Poller;
use sys::wake::WakeableThread;

use crate::counters::Counters;
use crate::stop::{Stop, StopReason};

/// First interval after which a stopped thread that has not left its loop is woken again. Each
/// further interval is twice as long.
const MIN_WAKE_INTERVAL: Duration = Duration::from_millis(1);

/// Longest interval between wake-ups. A thousand threads that wait for a CPU do not need a thousand
/// signals per millisecond.
const MAX_WAKE_INTERVAL: Duration = Duration::from_millis(32);

/// Number of reads of the counters per idle timeout. A timeout may be late by one such interval.
const CHECKS_PER_TIMEOUT: u32 = 4;

/// The thread that enforces deadlines. A process has one: [`deadline_thread`].
#[derive(Debug)]
pub struct DeadlineThread {
    poller: Poller,
    state: Mutex<State>,
}

/// Counters that must change within a timeout, and the stop to set otherwise.
#[derive(Debug)]
struct ProgressCheck {
    counters: Arc<Counters>,
    stop: Stop,
    timeout: Duration,
    /// Time of the next check.
    due: Instant,
    /// [`Counters::progress`] at the last check.
    last_progress: u64,
    /// Time at which `last_progress` last changed.
    last_change: Instant,
}

/// A stop whose threads are still being woken.
#[derive(Debug)]
struct PendingWake {
    stop: Stop,
    next: Instant,
    interval: Duration,
}

#[derive(Debug, Default)]
struct State {
    /// Deadlines by time. The ID distinguishes equal times.
    deadlines: BTreeMap<(Instant, u64), (Stop, StopReason)>,
    /// Progress checks by ID.
    progress_checks: HashMap<u64, ProgressCheck>,
    /// The times at which progress checks are due, with their IDs.
    due_checks: BTreeSet<(Instant, u64)>,
    /// Stops to set on a hang-up or an input, by the ID of the watch.
    watched: HashMap<u64, (Stop, StopReason)>,
    /// Inputs that are watched until the process ends.
    inputs: Vec<OwnedFd>,
    /// Stops that are set and whose threads have not all left.
    pending_wakes: Vec<PendingWake>,
    last_id: u64,
}

/// Returns the process's deadline thread, which starts at first use. Bind threads to CPUs only
/// after that, because threads inherit the binding. A forked child starts its own thread after
/// [`mark_forked`].
pub fn deadline_thread() -> &'static DeadlineThread {
    // The parent uses the first. A forked child uses the second, in its own copy of the memory.
    static THREADS: [(OnceLock<DeadlineThread>, OnceLock<()>); 2] =
        [const { (OnceLock::new(), OnceLock::new()) }; 2];
    let (thread, started) = &THREADS[usize::from(IS_CHILD.load(Relaxed))];
    let thread = thread.get_or_init(|| DeadlineThread {
        poller: Poller::new().expect("the deadline thread needs two file descriptors"),
        state: Mutex::default(),
    });
    started.get_or_init(|| {
        std::thread::Builder::new()
            .stack_size(64 * 1024)
            .spawn(move || thread.run())
            .expect("the process needs a deadline thread");
    });
    thread
}

/// Whether this process is a forked child. A fork does not copy the deadline thread.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Marks this process as a forked child. A child must not fork again.
pub fn mark_forked() {
    IS_CHILD.store(true, Relaxed);
}

impl DeadlineThread {
    /// Sets `stop` at `when`, unless the guard is dropped first.
    pub fn set_at(&self, when: Instant, stop: &Stop) -> DeadlineGuard<'_> {
        self.set_at_with_reason(when, stop, StopReason::Deadline)
    }

    /// Does the same as [`DeadlineThread::set_at`], with another reason.
    pub(crate) fn set_at_with_reason(
        &self,
        when: Instant,
        stop: &Stop,
        reason: StopReason,
    ) -> DeadlineGuard<'_> {
        let mut state = self.state();
        let key = (when, state.next_id());
        let is_next = state
            .deadlines
            .keys()
            .next()
            .is_none_or(|first| key < *first);
        state.deadlines.insert(key, (stop.clone(), reason));
        drop(state);
        if is_next {
            self.poller.wake();
        }
        DeadlineGuard { thread: self, key }
    }

    /// Sets `stop` when the peer of this connection hangs up, unless the watch is dropped first. A
    /// connection may have several watches. The thread that creates a watch must drop it, because
    /// threads may have separate descriptor tables.
    pub fn set_on_hang_up<'a>(
        &'a self,
        connection: BorrowedFd<'a>,
        stop: &Stop,
    ) -> ConnectionWatch<'a> {
        self.watch_connection(connection, stop, Poller::watch_hang_up)
    }

    /// Does the same as [`DeadlineThread::set_on_hang_up`], but only if the connection is reset. A
    /// peer that has ended its stream may still receive.
    pub fn set_on_reset<'a>(
        &'a self,
        connection: BorrowedFd<'a>,
        stop: &Stop,
    ) -> ConnectionWatch<'a> {
        self.watch_connection(connection, stop, Poller::watch_reset)
    }

    fn watch_connection<'a>(
        &'a self,
        connection: BorrowedFd<'a>,
        stop: &Stop,
        watch: impl Fn(&Poller, BorrowedFd<'_>, u64) -> io::Result<()>,
    ) -> ConnectionWatch<'a> {
        let mut state = self.state();
        let id = state.next_id();
        state
            .watched
            .insert(id, (stop.clone(), StopReason::PeerClosed));
        drop(state);
        let mut watched = watch(&self.poller, connection, id);
        // epoll accepts a connection only once per descriptor number. Another watch, or a thread
        // with its own descriptor table, may already use the number. A duplicate has another one.
        let mut copies = Vec::new();
        while matches!(&watched, Err(error) if error.kind() == io::ErrorKind::AlreadyExists)
            && let Ok(copy) = connection.try_clone_to_owned()
        {
            watched = watch(&self.poller, copy.as_fd(), id);
            copies.push(copy);
        }
        // If the descriptor cannot be watched, a hang-up does not set the stop.
        ConnectionWatch {
            thread: self,
            connection,
            copy: copies.pop(),
            is_watched: watched.is_ok(),
            id,
        }
    }

    /// Sets `stop` at the first SIGINT, SIGTERM or signal of `other_signals`. A second SIGINT or
    /// SIGTERM ends the process immediately.
    pub fn set_on_signals(&self, other_signals: &[i32], stop: &Stop) -> io::Result<()> {
        let input = OwnedFd::from(sys::signal::notify_first_interrupt(other_signals)?);
        let mut state = self.state();
        let id = state.next_id();
        self.poller.watch_input(input.as_fd(), id)?;
        state
            .watched
            .insert(id, (stop.clone(), StopReason::Cancelled));
        state.inputs.push(input);
        Ok(())
    }

    /// Sets `stop` if `counters` do not change for `timeout`, or up to a quarter longer, unless the
    /// watch is dropped first.
    ///
    /// A socket timeout would cost more: the kernel would set and cancel a timer in each call that
    /// waits.
    pub fn set_on_idle(
        &self,
        counters: &Arc<Counters>,
        timeout: Duration,
        stop: &Stop,
    ) -> IdleWatch<'_> {
        let now = Instant::now();
        let check = ProgressCheck {
            counters: Arc::clone(counters),
            stop: stop.clone(),
            timeout,
            due: now + timeout / CHECKS_PER_TIMEOUT,
            last_progress: counters.progress(),
            last_change: now,
        };
        let mut state = self.state();
        let id = state.next_id();
        let key = (check.due, id);
        state.due_checks.insert(key);
        state.progress_checks.insert(id, check);
        let is_first = state.due_checks.first() == Some(&key);
        drop(state);
        if is_first {
            self.poller.wake();
        }
        IdleWatch { thread: self, id }
    }

    /// Wakes the threads of a set stop again and again until all have left.
    pub(crate) fn keep_waking(&self, stop: &Stop) {
        let mut state = self.state();
        match state
            .pending_wakes
            .iter_mut()
            .find(|wake| wake.stop.is_same(stop))
        {
            // A newly registered thread has not been woken yet.
            Some(wake) => wake.restart_interval(),
            None => state.pending_wakes.push(PendingWake::new(stop)),
        }
        drop(state);
        self.poller.wake();
    }

    fn run(&self) {
        self.poller.use_private_descriptors();
        loop {
            let next = self.process_due();
            let pause = next.map(|when| when.saturating_duration_since(Instant::now()));
            for id in self.poller.wait(pause) {
                let watched = self.state().watched.remove(&id);
                if let Some((stop, reason)) = watched {
                    stop.set(reason);
                }
            }
        }
    }

    /// Sets the stops that are due, and wakes the threads that have not left. Returns the time of
    /// the next action.
    fn process_due(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut due_deadlines = Vec::new();
        let mut state = self.state();
        while let Some(first) = state.deadlines.first_entry() {
            if first.key().0 > now {
                break;
            }
            due_deadlines.push(first.remove());
        }
        let idle_stops = state.check_progress(now);
        let due_wakes: Vec<PendingWake> = state
            .pending_wakes
            .extract_if(.., |wake| wake.next <= now)
            .collect();
        drop(state);

        // The state is not locked here: `Stop::set` locks the stop, and may then lock the state.
        for (stop, reason) in &due_deadlines {
            stop.set(*reason);
        }
        for stop in &idle_stops {
            stop.set(StopReason::IdleTimeout);
        }
        let unfinished: Vec<PendingWake> = due_wakes
            .into_iter()
            .filter_map(PendingWake::wake_again)
            .collect();

        let mut state = self.state();
        for wake in unfinished {
            // `keep_waking` may have added the stop again meanwhile.
            if !state
                .pending_wakes
                .iter()
                .any(|pending| pending.stop.is_same(&wake.stop))
            {
                state.pending_wakes.push(wake);
            }
        }
        let next_wake = state.pending_wakes.iter().map(|wake| wake.next).min();
        let next_deadline = state.deadlines.keys().next().map(|(when, _)| *when);
        let next_check = state.due_checks.first().map(|(when, _)| *when);
        [next_wake, next_deadline, next_check]
            .into_iter()
            .flatten()
            .min()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingWake {
    fn new(stop: &Stop) -> Self {
        Self {
            stop: stop.clone(),
            next: Instant::now() + MIN_WAKE_INTERVAL,
            interval: MIN_WAKE_INTERVAL,
        }
    }

    fn restart_interval(&mut self) {
        self.interval = MIN_WAKE_INTERVAL;
        self.next = self.next.min(Instant::now() + MIN_WAKE_INTERVAL);
    }

    /// Wakes the threads once more. Returns the next wake-up if any threads are left.
    fn wake_again(mut self) -> Option<Self> {
        self.stop.wake().then(|| {
            self.interval = (self.interval * 2).min(MAX_WAKE_INTERVAL);
            self.next = Instant::now() + self.interval;
            self
        })
    }
}

impl State {
    /// Reads the counters that are due. Returns the stops of those whose timeout has passed.
    fn check_progress(&mut self, now: Instant) -> Vec<Stop> {
        let mut idle_stops = Vec::new();
        while let Some(&(due, id)) = self.due_checks.first().filter(|(due, _)| *due <= now) {
            self.due_checks.remove(&(due, id));
            let Some(check) = self.progress_checks.get_mut(&id) else {
                continue;
            };
            let progress = check.counters.progress();
            if progress != check.last_progress {
                (check.last_progress, check.last_change) = (progress, now);
            }
            if now.duration_since(check.last_change) >= check.timeout {
                idle_stops.extend(self.progress_checks.remove(&id).map(|check| check.stop));
            } else {
                check.due = now + check.timeout / CHECKS_PER_TIMEOUT;
                self.due_checks.insert((check.due, id));
            }
        }
        idle_stops
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}

/// A pending deadline. Dropping the guard cancels the deadline.
#[derive(Debug)]
#[must_use]
pub struct DeadlineGuard<'a> {
    thread: &'a DeadlineThread,
    key: (Instant, u64),
}

impl Drop for DeadlineGuard<'_> {
    fn drop(&mut self) {
        self.thread.state().deadlines.remove(&self.key);
    }
}

/// A watch on the progress of counters. Dropping it ends the watch.
#[derive(Debug)]
#[must_use]
pub struct IdleWatch<'a> {
    thread: &'a DeadlineThread,
    id: u64,
}

impl Drop for IdleWatch<'_> {
    fn drop(&mut self) {
        let mut state = self.thread.state();
        if let Some(check) = state.progress_checks.remove(&self.id) {
            state.due_checks.remove(&(check.due, self.id));
        }
        if state.progress_checks.is_empty() {
            // The table would keep the memory of thousands of entries.
            state.progress_checks = HashMap::default();
        }
    }
}

/// A watch on the end of a connection. Dropping it ends the watch.
#[derive(Debug)]
#[must_use]
pub struct ConnectionWatch<'a> {
    thread: &'a DeadlineThread,
    connection: BorrowedFd<'a>,
    /// The watched duplicate, if another watch uses the descriptor of `connection`.
    copy: Option<OwnedFd>,
    is_watched: bool,
    id: u64,
}

impl Drop for ConnectionWatch<'_> {
    fn drop(&mut self) {
        if self.is_watched {
            let copy = self.copy.as_ref().map(AsFd::as_fd);
            self.thread.poller.unwatch(copy.unwrap_or(self.connection));
        }
        self.thread.state().watched.remove(&self.id);
    }
}

/// Methods that use the deadline thread.
impl Stop {
    /// Ends the run. Only the first reason counts. The deadline thread wakes the threads until they
    /// have left.
    pub fn set(&self, reason: StopReason) {
        let Some(children) = self.record_reason(reason) else {
            return;
        };
        for (child, delay) in children {
            child.set_after(delay, reason);
        }
        if self.wake() {
            deadline_thread().keep_waking(self);
        }
    }

    fn set_after(&self, delay: Duration, reason: StopReason) {
        if delay.is_zero() {
            return self.set(reason);
        }
        let guard = deadline_thread().set_at_with_reason(Instant::now() + delay, self, reason);
        // Dropping the guard would cancel the deadline.
        std::mem::forget(guard);
    }

    /// Returns a stop that is set when this one is set. Setting the child does not set this
    /// stop.
    #[must_use]
    pub fn child(&self) -> Self {
        self.child_after(Duration::ZERO)
    }

    /// Does the same as [`Stop::child`], but sets the child `delay` later. A stopped server
    /// lets running tests continue for that long.
    #[must_use]
    pub fn child_after(&self, delay: Duration) -> Self {
        let child = self.add_child(delay);
        // Read the reason only now: if the stop was set before, it did not set this child.
        if let Some(reason) = self.reason() {
            child.set_after(delay, reason);
        }
        child
    }

    /// Returns a child that is also set at `when`, unless the guard is dropped first.
    pub fn child_until(&self, when: Instant) -> (Self, DeadlineGuard<'static>) {
        let child = self.child();
        let guard = deadline_thread().set_at(when, &child);
        (child, guard)
    }

    /// Registers the calling thread to be woken, until the registration is dropped.
    #[must_use]
    pub fn register_thread(&self) -> ThreadRegistration<'_> {
        let thread = WakeableThread::this_thread();
        self.add_wakeable_thread(thread);
        if self.is_set() {
            // The stop was set before the thread was registered, so nothing wakes it yet.
            deadline_thread().keep_waking(self);
        }
        ThreadRegistration { stop: self, thread }
    }

    /// Waits until a socket is readable or its peer has closed it. Returns `false` at the deadline,
    /// and ECANCELED if the stop is set.
    pub fn wait_readable(&self, socket: BorrowedFd<'_>, until: Instant) -> Result<bool, Error> {
        let _registration = self.register_thread();
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

/// A thread's registration with a [`Stop`]. Dropping it removes the thread.
#[derive(Debug)]
pub struct ThreadRegistration<'a> {
    stop: &'a Stop,
    thread: WakeableThread,
}

impl Drop for ThreadRegistration<'_> {
    fn drop(&mut self) {
        self.stop.remove_wakeable_thread(self.thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_counters_set_the_stop() {
        let (idle, moving) = (Arc::new(Counters::default()), Arc::new(Counters::default()));
        let (idle_stop, moving_stop, dropped_stop) = (Stop::new(), Stop::new(), Stop::new());
        let timeout = Duration::from_millis(40);
        drop(deadline_thread().set_on_idle(&idle, timeout, &dropped_stop));
        assert!(
            Arc::strong_count(&idle) == 1,
            "a dropped watch keeps nothing"
        );
        let _idle = deadline_thread().set_on_idle(&idle, timeout, &idle_stop);
        let _moving = deadline_thread().set_on_idle(&moving, timeout * 50, &moving_stop);
        let start = Instant::now();
        while !idle_stop.is_set() {
            std::thread::yield_now();
        }
        assert!(start.elapsed() >= timeout);
        assert_eq!(idle_stop.reason(), Some(StopReason::IdleTimeout));
        assert!(!moving_stop.is_set() && !dropped_stop.is_set());
    }

    #[test]
    fn progress_restarts_the_idle_timeout() {
        let counters = Arc::new(Counters::default());
        let mut state = State::default();
        let start = Instant::now();
        let check = ProgressCheck {
            counters: Arc::clone(&counters),
            stop: Stop::new(),
            timeout: Duration::from_secs(4),
            due: start,
            last_progress: counters.progress(),
            last_change: start,
        };
        state.due_checks.insert((start, 1));
        state.progress_checks.insert(1, check);
        let mut idle_count_at = |seconds| {
            state
                .check_progress(start + Duration::from_secs(seconds))
                .len()
        };
        assert_eq!((idle_count_at(1), idle_count_at(3)), (0, 0));
        counters.count_received(1, 1);
        // The check at 5 s finds the change and restarts the timeout.
        assert_eq!((idle_count_at(5), idle_count_at(8)), (0, 0));
        assert_eq!((idle_count_at(9), idle_count_at(20)), (1, 0));
    }
}
