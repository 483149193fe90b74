//! The fast path of a script: steps of one call each, over a connected socket.

use std::rc::Rc;

use model::{Action, Amount, Step, Transfer};
use sys::call::Error;

use crate::counters::{Counter, CounterWriter};
use crate::io::{Connection, Io, Plain};
use crate::stop::Flag;
use crate::timer::Watch;

/// A step as the fast path uses it.
#[derive(Debug)]
pub(crate) struct FastStep {
    call: Call,
    /// Executions per round.
    count: u64,
}

/// The call of one execution.
#[derive(Debug)]
enum Call {
    Send(Rc<Connection>, u32),
    Receive(Rc<Connection>, u32),
    /// No single call over a socket, or the step has no connection yet.
    None,
}

/// The place of a script in its list.
#[derive(Debug)]
pub(crate) struct Place {
    /// The step.
    pub(crate) at: usize,
    /// Executions that are left of the step in this round.
    pub(crate) left: u64,
    /// Rounds that are left, including this one.
    rounds: u64,
}

/// Where the calls' data is, and what they are counted in.
pub(crate) struct Context<'a> {
    pub(crate) buffer: &'a mut [u8],
    pub(crate) stop: Flag<'a>,
    pub(crate) counters: CounterWriter<'a>,
}

/// Why the fast path was left.
#[derive(Debug)]
pub(crate) enum Exit {
    /// All rounds are done.
    Done,
    /// The stop was pulled.
    Stopped,
    /// The next execution is not one call, or its call returned this, which does not complete it.
    Execute(Option<Result<usize, Error>>),
}

impl FastStep {
    /// A step without a connection.
    pub(crate) fn new(step: &Step) -> Self {
        Self {
            call: Call::None,
            count: step.count,
        }
    }

    /// Gives the step a connection, or takes it away. A fixed number of bytes, once, without a wait before it, is one
    /// call in most cases.
    pub(crate) fn bind(&mut self, step: &Step, connection: Option<&Rc<Connection>>) {
        self.call = Call::None;
        let (Some(connection), Action::Send(transfer) | Action::Receive(transfer)) =
            (connection, &step.action)
        else {
            return;
        };
        let Transfer {
            amount: Amount::Exactly(bytes),
            repeat: 1,
            patience: None,
            waits: true,
            batch: None,
        } = *transfer
        else {
            return;
        };
        self.call = match step.action {
            Action::Send(_) if connection.plain_to_send().is_some() => {
                Call::Send(Rc::clone(connection), bytes)
            }
            Action::Receive(_) if connection.plain().is_some() => {
                Call::Receive(Rc::clone(connection), bytes)
            }
            _ => Call::None,
        };
    }
}

impl Place {
    /// The beginning of `rounds`.
    pub(crate) fn first(steps: &[FastStep], rounds: u64) -> Self {
        Self {
            at: 0,
            left: steps.first().map_or(0, |step| step.count),
            rounds,
        }
    }

    /// Remembers where the loop was left.
    #[cold]
    fn leave(&mut self, at: usize, left: u64, exit: Exit) -> Exit {
        self.at = at;
        self.left = left;
        exit
    }

    /// Goes on after an execution; false if no round is left.
    pub(crate) fn executed(&mut self, steps: &[FastStep], watch: &mut impl Watch) -> bool {
        if self.left > 1 {
            self.left -= 1;
            return true;
        }
        watch.step(self.at, steps[self.at].count);
        self.at += 1;
        if self.at == steps.len() {
            self.at = 0;
            if self.round_was_last(watch) {
                return false;
            }
        }
        self.left = steps[self.at].count;
        true
    }

    /// Ends a round.
    #[inline]
    fn round_was_last(&mut self, watch: &mut impl Watch) -> bool {
        watch.round();
        self.rounds -= 1;
        self.rounds == 0
    }
}

/// Executes steps from `place` on, as long as each execution is one call that moves all of its bytes.
///
/// A list of one step, or of a request and its response, has a loop of its own.
pub(crate) fn run(
    steps: &[FastStep],
    place: &mut Place,
    context: &mut Context<'_>,
    watch: &mut impl Watch,
) -> Exit {
    match steps {
        [only] => {
            if let Some(send) = Sending::of(&only.call) {
                return one(&send, only.count, place, context, watch);
            }
            if let Some(receive) = Receiving::of(&only.call) {
                return one(&receive, only.count, place, context, watch);
            }
        }
        [first, second] if first.count == 1 && second.count == 1 => {
            let (first, second) = (&first.call, &second.call);
            if let (Some(ask), Some(hear)) = (Sending::of(first), Receiving::of(second)) {
                return two(&ask, &hear, place, context, watch);
            }
            if let (Some(hear), Some(answer)) = (Receiving::of(first), Sending::of(second)) {
                return two(&hear, &answer, place, context, watch);
            }
        }
        _ => {}
    }
    any(steps, place, context, watch)
}

/// The same transfer, `count` times per round.
#[inline(never)]
fn one(
    transfer: &impl OneCall,
    count: u64,
    place: &mut Place,
    context: &mut Context<'_>,
    watch: &mut impl Watch,
) -> Exit {
    let mut left = place.left;
    loop {
        if context.stop.is_set() {
            return place.leave(0, left, Exit::Stopped);
        }
        if let Err(came) = transfer.execute(context) {
            return place.leave(0, left, Exit::Execute(Some(came)));
        }
        left -= 1;
        if left > 0 {
            continue;
        }
        left = count;
        watch.step(0, count);
        if place.round_was_last(watch) {
            return Exit::Done;
        }
    }
}

/// Two transfers by turns.
#[inline(never)]
fn two(
    first: &impl OneCall,
    second: &impl OneCall,
    place: &mut Place,
    context: &mut Context<'_>,
    watch: &mut impl Watch,
) -> Exit {
    let mut first_is_done = place.at == 1;
    loop {
        if context.stop.is_set() {
            return place.leave(usize::from(first_is_done), 1, Exit::Stopped);
        }
        if !first_is_done {
            if let Err(came) = first.execute(context) {
                return place.leave(0, 1, Exit::Execute(Some(came)));
            }
            watch.step(0, 1);
        }
        first_is_done = false;
        if let Err(came) = second.execute(context) {
            return place.leave(1, 1, Exit::Execute(Some(came)));
        }
        watch.step(1, 1);
        if place.round_was_last(watch) {
            return Exit::Done;
        }
    }
}

/// Any list. A function of its own, so that the registers are the loop's.
#[inline(never)]
fn any(
    steps: &[FastStep],
    place: &mut Place,
    context: &mut Context<'_>,
    watch: &mut impl Watch,
) -> Exit {
    let mut left = place.left;
    let mut ahead = steps[place.at..].iter();
    let exit = loop {
        let Some(step) = ahead.as_slice().first() else {
            if place.round_was_last(watch) {
                return Exit::Done;
            }
            ahead = steps.iter();
            left = steps[0].count;
            continue;
        };
        if context.stop.is_set() {
            break Exit::Stopped;
        }
        let came = match &step.call {
            Call::Send(..) => Sending::of(&step.call).map(|send| send.execute(context)),
            Call::Receive(..) => Receiving::of(&step.call).map(|receive| receive.execute(context)),
            Call::None => None,
        };
        match came {
            Some(Ok(())) => {}
            Some(Err(came)) => break Exit::Execute(Some(came)),
            None => break Exit::Execute(None),
        }
        left -= 1;
        if left == 0 {
            watch.step(steps.len() - ahead.len(), step.count);
            ahead.next();
            left = ahead.as_slice().first().map_or(0, |next| next.count);
        }
    };
    place.leave(steps.len() - ahead.len(), left, exit)
}

/// A transfer that is one call.
trait OneCall {
    /// Makes the call, and counts its bytes if it moved all of them.
    fn execute(&self, context: &mut Context<'_>) -> Result<(), Result<usize, Error>>;
}

/// Sends a number of bytes.
struct Sending<I>(I, usize);

/// Receives a number of bytes. The kernel waits until a few are all there; of more, each piece is counted as it
/// comes.
struct Receiving<I>(I, usize);

/// The most bytes that count as a few.
const FEW: usize = 64 << 10;

impl<'a> Sending<Plain<'a>> {
    #[inline]
    fn of(call: &'a Call) -> Option<Self> {
        match call {
            Call::Send(connection, bytes) => {
                Some(Self(connection.plain_to_send()?, *bytes as usize))
            }
            _ => None,
        }
    }
}

impl<'a> Receiving<Plain<'a>> {
    #[inline]
    fn of(call: &'a Call) -> Option<Self> {
        match call {
            Call::Receive(connection, bytes) => Some(Self(connection.plain()?, *bytes as usize)),
            _ => None,
        }
    }
}

impl<I: Io> OneCall for Sending<I> {
    #[inline]
    fn execute(&self, context: &mut Context<'_>) -> Result<(), Result<usize, Error>> {
        let came = self.0.send(&context.buffer[..self.1]);
        if came != Ok(self.1) {
            return Err(came);
        }
        context.counters.add(Counter::Sent, self.1 as u64);
        context.counters.add(Counter::Operations, 1);
        Ok(())
    }
}

impl<I: Io> OneCall for Receiving<I> {
    #[inline]
    fn execute(&self, context: &mut Context<'_>) -> Result<(), Result<usize, Error>> {
        let room = &mut context.buffer[..self.1];
        let came = if self.1 <= FEW {
            self.0.receive_whole(room)
        } else {
            self.0.receive(room)
        };
        if came != Ok(self.1) {
            return Err(came);
        }
        context.counters.add(Counter::Received, self.1 as u64);
        context.counters.add(Counter::Operations, 1);
        Ok(())
    }
}
