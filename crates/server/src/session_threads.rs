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

/// The stack size of a session in bytes. Its buffers are on the heap.
const STACK_BYTES: usize = 256 * 1024;

/// The number of threads from which the threads of ended sessions wait for other ones.
const MANY_THREADS: u64 = 64;

/// At most this part of the process's threads waits for a session.
const IDLE_DIVISOR: u64 = 32;

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

/// The last one gets the next session.
static IDLE: Mutex<Vec<IdleThread>> = Mutex::new(Vec::new());

/// Runs a session on a thread that has ended another one, or on a new thread. The caller has charged
/// the thread.
pub(crate) fn spawn(session: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let session: Session = Box::new(session);
    let idle_thread = idle_threads().pop();
    if let Some(thread) = idle_thread {
        // A thread that has left the list waits for its session.
        let sent = thread.sender.send(session);
        return sent.map_err(|_| io::Error::other("a waiting thread has ended"));
    }
    let builder = Builder::new().stack_size(STACK_BYTES);
    builder.spawn(move || run_sessions(session)).map(drop)
}

fn run_sessions(first: Session) {
    first();
    // A bound thread would run the next session on the wrong CPU.
    while !sys::cpu::is_thread_bound()
        && let Some(session) = next_session()
    {
        session();
    }
}

/// Waits for a session. Returns `None` if there are enough other threads, or no session comes.
fn next_session() -> Option<Session> {
    let amounts = ResourceAmounts {
        threads: 1,
        ..ResourceAmounts::default()
    };
    let budget = ResourceBudget::process();
    if budget.threads.used() < MANY_THREADS {
        return None;
    }
    let share = budget.reserve(BudgetHolder::Local, amounts).ok()?;
    let (sender, receiver) = mpsc::channel();
    let id = std::thread::current().id();
    let idle_time = {
        let mut threads = idle_threads();
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
        idle_threads().retain(|thread| thread.id != id);
        // Fails, because the sender was in the list, unless a session is about to be sent.
        receiver.recv().ok()
    })
}

fn idle_threads() -> MutexGuard<'static, Vec<IdleThread>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(20);

    fn thread_of_session(bind: bool) -> ThreadId {
        let (sender, receiver) = mpsc::channel();
        let session = move || {
            if bind {
                let cpu = sys::cpu::allowed_cpus().unwrap()[0];
                sys::cpu::bind_thread(cpu).unwrap();
            }
            sender.send(std::thread::current().id()).unwrap();
        };
        spawn(session).unwrap();
        receiver.recv_timeout(TIMEOUT).unwrap()
    }

    fn await_idle(is_idle: impl Fn(&[IdleThread]) -> bool) {
        let deadline = std::time::Instant::now() + TIMEOUT;
        while !is_idle(&idle_threads()) {
            assert!(std::time::Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    // One test, because the threads belong to the process.
    #[test]
    fn a_thread_runs_sessions_until_none_comes() {
        let ended = thread_of_session(false);
        assert!(idle_threads().is_empty());
        let amounts = ResourceAmounts {
            threads: MANY_THREADS,
            ..ResourceAmounts::default()
        };
        let budget = ResourceBudget::process();
        let _many = budget.reserve(BudgetHolder::Local, amounts).unwrap();
        let first = thread_of_session(false);
        assert_ne!(first, ended);
        await_idle(|threads| threads.len() == 1);
        assert_eq!(thread_of_session(false), first);
        await_idle(|threads| threads.len() == 1);
        // It is bound to a CPU now, so it ends.
        assert_eq!(thread_of_session(true), first);
        let second = thread_of_session(false);
        assert_ne!(second, first);
        await_idle(|threads| threads.len() == 1 && threads[0].id == second);
        await_idle(<[IdleThread]>::is_empty);
    }
}
