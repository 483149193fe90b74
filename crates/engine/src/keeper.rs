//! The one thread of a process that keeps time for all its runs.
//!
//! It only sleeps, sets flags and wakes threads, so a busy machine cannot make it late by more than
//! its own scheduling.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sys::vigil::Vigil;

use crate::stop::{Reason, Stop};

/// How often a thread that did not yet see its flag is woken again.
const WAKE_AGAIN: Duration = Duration::from_millis(1);

/// The time keeper. There is one a process: [`keeper`].
#[derive(Debug)]
pub struct Keeper {
    vigil: Vigil,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Deadlines, in order; the number tells equal times apart.
    deadlines: BTreeMap<(Instant, u64), Stop>,
    /// What a hang-up, or an input, ends.
    watched: HashMap<u64, (Stop, Reason)>,
    /// Inputs that are watched for good.
    inputs: Vec<OwnedFd>,
    /// Pulled stops whose threads have not all left.
    waking: Vec<Stop>,
    last_number: u64,
}

/// The process's keeper, started at first use. A process that forks must do so before, and one that
/// binds threads to CPUs after: threads inherit what they are bound to.
pub fn keeper() -> &'static Keeper {
    static KEEPER: OnceLock<Keeper> = OnceLock::new();
    static STARTED: OnceLock<()> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| Keeper {
        vigil: Vigil::new().expect("a process that can start has two descriptors left"),
        state: Mutex::default(),
    });
    STARTED.get_or_init(|| {
        std::thread::Builder::new()
            .stack_size(64 * 1024)
            .spawn(move || keeper.keep())
            .expect("a process that can start can start one thread");
    });
    keeper
}

impl Keeper {
    /// Pulls `stop` at `when`, unless the promise is dropped before.
    pub fn at(&self, when: Instant, stop: &Stop) -> Promise<'_> {
        let mut state = self.state();
        let key = (when, state.number());
        let is_next = state
            .deadlines
            .keys()
            .next()
            .is_none_or(|first| key < *first);
        state.deadlines.insert(key, stop.clone());
        drop(state);
        if is_next {
            self.vigil.call();
        }
        Promise { keeper: self, key }
    }

    /// Pulls `stop` when the peer of this connection hangs up, unless the watch is dropped before.
    pub fn on_hang_up<'a>(&'a self, connection: BorrowedFd<'a>, stop: &Stop) -> Watch<'a> {
        let mut state = self.state();
        let number = state.number();
        state
            .watched
            .insert(number, (stop.clone(), Reason::PeerClosed));
        drop(state);
        // A descriptor that cannot be watched (there is no such socket) costs the early end only.
        let _ = self.vigil.watch(connection, number);
        Watch {
            keeper: self,
            connection,
            number,
        }
    }

    /// Pulls `stop` when there is something to read from `input` (a pipe that a signal handler writes
    /// to): somebody here wants it to end.
    pub fn on_input(&self, input: OwnedFd, stop: &Stop) -> io::Result<()> {
        let mut state = self.state();
        let number = state.number();
        self.vigil.watch_input(input.as_fd(), number)?;
        state
            .watched
            .insert(number, (stop.clone(), Reason::Cancelled));
        state.inputs.push(input);
        Ok(())
    }

    /// What a thread with a descriptor table of its own must have in it to speak to the keeper.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        self.vigil.descriptors()
    }

    /// Goes on waking the threads of a pulled stop until they have all left.
    pub(crate) fn keep_waking(&self, stop: &Stop) {
        let mut state = self.state();
        if !state.waking.iter().any(|known| known.is(stop)) {
            state.waking.push(stop.clone());
        }
        drop(state);
        self.vigil.call();
    }

    fn keep(&self) {
        self.vigil.move_in();
        loop {
            let next = self.serve_what_is_due();
            let pause = next.map(|when| when.saturating_duration_since(Instant::now()));
            for tag in self.vigil.wait(pause) {
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
        let waking = std::mem::take(&mut state.waking);
        drop(state);

        // Without the lock: a pull takes the stop's own lock and comes back for ours.
        for stop in &due {
            stop.pull(Reason::Deadline);
        }
        let still: Vec<Stop> = waking.into_iter().filter(Stop::wake).collect();

        let mut state = self.state();
        state.waking.extend(still);
        let again = (!state.waking.is_empty()).then(|| now + WAKE_AGAIN);
        let deadline = state.deadlines.keys().next().map(|(when, _)| *when);
        [again, deadline].into_iter().flatten().min()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

/// A deadline to come; dropped, it does not come.
#[derive(Debug)]
#[must_use]
pub struct Promise<'a> {
    keeper: &'a Keeper,
    key: (Instant, u64),
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        self.keeper.state().deadlines.remove(&self.key);
    }
}

/// A connection whose end is waited for; dropped, it is not.
#[derive(Debug)]
#[must_use]
pub struct Watch<'a> {
    keeper: &'a Keeper,
    connection: BorrowedFd<'a>,
    number: u64,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.keeper.vigil.forget(self.connection);
        self.keeper.state().watched.remove(&self.number);
    }
}
