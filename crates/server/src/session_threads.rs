//! Threads that run one session after another.
//!
//! A thread's start and end change the address space, under one lock of the kernel. If a server
//! with thousands of threads started one for each of hundreds of short sessions per second, all
//! would wait for that lock. A thread of a server with few threads ends with its session.

use std::io;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, ThreadId};
use std::time::Duration;

use engine::{BudgetHolder, ResourceAmounts, ResourceBudget, ResourceShare};

use crate::freed_memory::release_freed_memory_soon;

/// The stack size of a session in bytes. Its buffers are on the heap.
const STACK_BYTES: usize = 256 * 1024;

/// The number of threads from which the threads of ended sessions wait for other ones.
const MIN_THREADS_FOR_REUSE: u64 = 64;

/// At most this part of the process's threads waits for a session. One address, the unproven ones
/// and these threads together leave as much to others.
const IDLE_DIVISOR: u64 = 64;

/// How long a thread waits for a session. Each one that waits already adds to this time, so that
/// the threads of many sessions do not end at once.
const IDLE_TIME: Duration = Duration::from_secs(1);
const IDLE_TIME_PER_THREAD: Duration = Duration::from_millis(4);

type Session = Box<dyn FnOnce() + Send>;

/// A thread that waits for a session.
struct IdleThread {
    id: ThreadId,
    sender: Sender<Session>,
    _share: ResourceShare,
}

/// The threads of the sessions of all servers.
pub(crate) static SESSION_THREADS: SessionThreads = SessionThreads::new(MIN_THREADS_FOR_REUSE);

/// Threads that run sessions, and those that wait for one.
pub(crate) struct SessionThreads {
    /// The number of threads of the process from which threads wait.
    min_threads: u64,
    /// The last one gets the next session.
    idle: Mutex<Vec<IdleThread>>,
}

impl SessionThreads {
    const fn new(min_threads: u64) -> Self {
        Self {
            min_threads,
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Runs a session on a thread that has ended another one, or on a new thread. The caller has
    /// charged the thread.
    pub(crate) fn spawn(&'static self, session: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let session: Session = Box::new(session);
        let idle_thread = self.idle().pop();
        if let Some(thread) = idle_thread {
            // A thread that has left the list waits for its session.
            let sent = thread.sender.send(session);
            return sent.map_err(|_| io::Error::other("a waiting thread has ended"));
        }
        let builder = Builder::new().stack_size(STACK_BYTES);
        builder.spawn(move || self.run_sessions(session)).map(drop)
    }

    fn run_sessions(&self, first: Session) {
        first();
        // A bound thread would run the next session on the wrong CPU.
        while !sys::cpu::is_thread_bound()
            && let Some(session) = self.next_session()
        {
            session();
        }
        // A freed block in a thread's cache keeps its page in use until the thread ends.
        release_freed_memory_soon();
    }

    /// Waits for a session. Returns `None` if there are few threads, if enough others wait, or if no
    /// session comes.
    fn next_session(&self) -> Option<Session> {
        let budget = ResourceBudget::process();
        if budget.threads.used() < self.min_threads {
            return None;
        }
        let amounts = ResourceAmounts {
            threads: 1,
            ..ResourceAmounts::default()
        };
        let share = budget.reserve(BudgetHolder::Local, amounts).ok()?;
        let (sender, receiver) = mpsc::channel();
        let id = std::thread::current().id();
        let idle_time = {
            let mut threads = self.idle();
            let count = threads.len() as u32;
            if u64::from(count) >= budget.threads.total() / IDLE_DIVISOR {
                return None;
            }
            threads.push(IdleThread {
                id,
                sender,
                _share: share,
            });
            IDLE_TIME + IDLE_TIME_PER_THREAD * count
        };
        receiver.recv_timeout(idle_time).ok().or_else(|| {
            // This drops the sender, unless another thread has taken it and is about to send a
            // session.
            self.idle().retain(|thread| thread.id != id);
            receiver.recv().ok()
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<IdleThread>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Runs a session, which calls `prepare`. Returns its thread.
    fn thread_of_session(threads: &'static SessionThreads, prepare: fn()) -> ThreadId {
        let (sender, receiver) = mpsc::channel();
        let session = move || {
            prepare();
            sender.send(std::thread::current().id()).unwrap();
        };
        threads.spawn(session).unwrap();
        receiver.recv_timeout(TIMEOUT).unwrap()
    }

    /// Waits until only these threads wait for a session. Returns whether `other` has waited meanwhile.
    fn await_idle(
        threads: &SessionThreads,
        expected: &[ThreadId],
        other: Option<ThreadId>,
    ) -> bool {
        let deadline = Instant::now() + TIMEOUT;
        let mut has_waited = false;
        loop {
            let idle: Vec<_> = threads.idle().iter().map(|thread| thread.id).collect();
            has_waited |= other.is_some_and(|id| idle.contains(&id));
            if idle == expected {
                return has_waited;
            }
            assert!(Instant::now() < deadline, "no {expected:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_thread_runs_sessions_until_none_comes() {
        static THREADS: SessionThreads = SessionThreads::new(0);
        let bind = || sys::cpu::bind_thread(sys::cpu::allowed_cpus().unwrap()[0]).unwrap();
        let first = thread_of_session(&THREADS, || ());
        await_idle(&THREADS, &[first], None);
        assert_eq!(thread_of_session(&THREADS, || ()), first);
        await_idle(&THREADS, &[first], None);
        // It is bound to a CPU now, so it ends.
        assert_eq!(thread_of_session(&THREADS, bind), first);
        let second = thread_of_session(&THREADS, || ());
        assert_ne!(second, first);
        assert!(!await_idle(&THREADS, &[second], Some(first)));
        assert!(!await_idle(&THREADS, &[], Some(first)));
    }

    #[test]
    fn a_thread_ends_with_its_session_if_there_are_few() {
        static THREADS: SessionThreads = SessionThreads::new(u64::MAX);
        assert!(THREADS.next_session().is_none());
    }
}
