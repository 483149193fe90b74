use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Where flows wait for each other, so that their data starts together.
///
/// It opens when all of them are there, or when one of them says that it will not come: then nobody
/// starts. The waiting is of no flow's time.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug)]
struct State {
    /// Flows that have not come yet.
    awaited: usize,
    /// One of them will not come.
    broken: bool,
}

/// One flow's place at a [`Gate`]; dropped, it says that the flow will not come.
#[derive(Debug)]
#[must_use]
pub(crate) struct Ticket<'a>(&'a Gate);

impl Gate {
    /// A gate for so many flows.
    pub(crate) fn new(flows: usize) -> Self {
        Self {
            state: Mutex::new(State {
                awaited: flows,
                broken: false,
            }),
            moved: Condvar::new(),
        }
    }

    /// A place at the gate: each flow takes one.
    pub(crate) fn ticket(&self) -> Ticket<'_> {
        Ticket(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket<'_> {
    /// Waits until all are there; false if one of them will not come. The last to come does what
    /// `first` says before it lets the others go.
    pub(crate) fn pass(self, first: impl FnOnce()) -> bool {
        let gate = self.0;
        std::mem::forget(self);
        let mut state = gate.state();
        state.awaited -= 1;
        if state.awaited == 0 {
            if !state.broken {
                first();
            }
            gate.moved.notify_all();
            return !state.broken;
        }
        while state.awaited > 0 && !state.broken {
            state = gate
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        !state.broken
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.awaited -= 1;
        state.broken = true;
        self.0.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    #[test]
    fn nobody_passes_before_the_last_has_come() {
        let (gate, there, first) = (Gate::new(4), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let ticket = gate.ticket();
                scope.spawn(|| {
                    there.fetch_add(1, SeqCst);
                    let count = || assert_eq!(first.fetch_add(1, SeqCst), 0);
                    assert!(ticket.pass(count));
                    assert_eq!((there.load(SeqCst), first.load(SeqCst)), (4, 1));
                });
            }
        });
    }

    #[test]
    fn one_that_does_not_come_sends_all_home() {
        for stays_away in 0..3 {
            let gate = Gate::new(3);
            std::thread::scope(|scope| {
                for number in 0..3 {
                    let ticket = gate.ticket();
                    scope.spawn(move || {
                        if number == stays_away {
                            drop(ticket);
                        } else {
                            assert!(!ticket.pass(|| panic!("nobody is to start")));
                        }
                    });
                }
            });
        }
    }
}
