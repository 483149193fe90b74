//! The loop that is sacred: transfers of one call each.

use std::rc::Rc;

use sys::call::Error;

use super::straight::{self, Plain, Receiving, Sending};
use super::{Connection, Watch};
use crate::counters::CounterWriter;
use crate::stop::Flag;
use model::{Action, Amount, Step, Transfer};

/// A step as [`run`] sees it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) way: Way,
    /// Executions a pass.
    pub(super) count: u64,
}

/// What one execution is.
#[derive(Debug)]
pub(super) enum Way {
    Send(Rc<Connection>, u32),
    Receive(Rc<Connection>, u32),
    /// No single call over a socket, or it is not known yet over which.
    Other,
}

/// Where in its list a script is.
#[derive(Debug)]
pub(super) struct Place {
    /// The step.
    pub(super) at: usize,
    /// Its executions that are left of this pass.
    pub(super) left: u64,
    /// Rounds that are left, with this one.
    pub(super) rounds: u64,
}

/// What the loop works with.
pub(super) struct Hands<'a> {
    pub(super) buffer: &'a mut [u8],
    pub(super) stop: Flag<'a>,
    pub(super) counters: CounterWriter<'a>,
}

/// Why the loop was left.
#[derive(Debug)]
pub(super) enum Next {
    /// All rounds are done.
    Done,
    /// The stop was pulled.
    Stopped,
    /// An execution that is no plain call, or one whose call gave this and is not done with it.
    Execute(Option<Result<usize, Error>>),
}

impl Call {
    /// A step whose connection is not known yet.
    pub(super) fn new(step: &Step) -> Self {
        Self {
            way: Way::Other,
            count: step.count,
        }
    }

    /// The step's connection is this one, or none any more.
    pub(super) fn bind(&mut self, step: &Step, connection: Option<&Rc<Connection>>) {
        self.way = match connection {
            Some(connection) if connection.plain_socket().is_some() => {
                Way::of(&step.action, connection)
            }
            _ => Way::Other,
        };
    }
}

impl Way {
    /// So many bytes, once, without a wait before, are one call on most connections.
    fn of(action: &Action, connection: &Rc<Connection>) -> Self {
        let plain = |transfer: &Transfer| match *transfer {
            Transfer {
                amount: Amount::Exactly(bytes),
                repeat: 1,
                patience: None,
                waits: true,
                batch: None,
            } => Some(bytes),
            _ => None,
        };
        let send = |bytes| Self::Send(Rc::clone(connection), bytes);
        let receive = |bytes| Self::Receive(Rc::clone(connection), bytes);
        match action {
            Action::Send(transfer) => plain(transfer).map_or(Self::Other, send),
            Action::Receive(transfer) => plain(transfer).map_or(Self::Other, receive),
            _ => Self::Other,
        }
    }
}

impl Place {
    /// The beginning of so many rounds.
    pub(super) fn first(calls: &[Call], rounds: u64) -> Self {
        Self {
            at: 0,
            left: calls.first().map_or(0, |call| call.count),
            rounds,
        }
    }

    /// Remembers where the loop was left.
    #[cold]
    pub(super) fn leave(&mut self, at: usize, left: u64, next: Next) -> Next {
        self.at = at;
        self.left = left;
        next
    }

    /// An execution is done: goes on to the next; false when no round is left.
    pub(super) fn executed(&mut self, calls: &[Call], watch: &mut impl Watch) -> bool {
        if self.left > 1 {
            self.left -= 1;
            return true;
        }
        watch.step(self.at, calls[self.at].count);
        self.at += 1;
        if self.at == calls.len() {
            watch.round();
            self.rounds -= 1;
            self.at = 0;
        }
        self.left = calls[self.at].count;
        self.rounds > 0
    }
}

/// Runs from `place` on, as long as plain calls do what is wanted.
pub(super) fn run(
    calls: &[Call],
    place: &mut Place,
    hands: &mut Hands<'_>,
    watch: &mut impl Watch,
) -> Next {
    straight::run(calls, place, hands, watch).unwrap_or_else(|| any(calls, place, hands, watch))
}

/// Any list. A function of its own, so that the registers are the loop's.
#[inline(never)]
fn any(calls: &[Call], place: &mut Place, hands: &mut Hands<'_>, watch: &mut impl Watch) -> Next {
    let mut left = place.left;
    let mut ahead = calls[place.at..].iter();
    let next = loop {
        let Some(call) = ahead.as_slice().first() else {
            watch.round();
            place.rounds -= 1;
            if place.rounds == 0 {
                return Next::Done;
            }
            ahead = calls.iter();
            left = calls[0].count;
            continue;
        };
        if hands.stop.is_set() {
            break Next::Stopped;
        }
        let came = match &call.way {
            Way::Send(connection, bytes) => {
                Sending::over(connection, *bytes).map(|op| op.execute(hands))
            }
            Way::Receive(connection, bytes) => {
                Receiving::over(connection, *bytes).map(|op| op.execute(hands))
            }
            Way::Other => None,
        };
        match came {
            Some(Ok(())) => {}
            Some(Err(came)) => break Next::Execute(Some(came)),
            None => break Next::Execute(None),
        }
        left -= 1;
        if left == 0 {
            watch.step(calls.len() - ahead.len(), call.count);
            ahead.next();
            left = ahead.as_slice().first().map_or(0, |next| next.count);
        }
    };
    place.leave(calls.len() - ahead.len(), left, next)
}
