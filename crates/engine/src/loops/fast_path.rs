//! The fast path of scripts: steps of one system call each, over connected sockets.

use std::rc::Rc;

use model::{Action, Amount, Step, Transfer};
use sys::call::Error;

use crate::counters::{Counter, CounterWriter};
use crate::io::{Connection, Io, Plain};
use crate::stop::StopFlag;
use crate::timer::StepTimer;

/// A step in the form of the fast path.
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
    /// The step is not a single call over a socket, or has no connection yet.
    None,
}

/// The position of a script in its list of steps.
#[derive(Debug)]
pub(crate) struct Cursor {
    /// Index of the step.
    pub(crate) step: usize,
    /// Remaining executions of the step in this round.
    pub(crate) executions_left: u64,
    /// Remaining rounds, including this one.
    rounds_left: u64,
}

/// Buffer, stop and counters of the calls.
pub(crate) struct CallContext<'a> {
    pub(crate) buffer: &'a mut [u8],
    pub(crate) stop: StopFlag<'a>,
    pub(crate) counters: CounterWriter<'a>,
}

/// Reason for which the fast path returned.
#[derive(Debug)]
pub(crate) enum Exit {
    /// All rounds are done.
    Done,
    /// The stop was set.
    Stopped,
    /// The next execution needs more than one call. The result of its first call, if already made.
    Execute(Option<Result<usize, Error>>),
}

impl FastStep {
    /// Returns a step without a connection.
    pub(crate) fn new(step: &Step) -> Self {
        Self {
            call: Call::None,
            count: step.count,
        }
    }

    /// Sets or clears the connection of the step. One transfer of a fixed size, without a timeout,
    /// is usually one call.
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
            timeout: None,
            is_blocking: true,
            batch: None,
        } = *transfer
        else {
            return;
        };
        self.call = match step.action {
            Action::Send(_) if connection.as_plain_sender().is_some() => {
                Call::Send(Rc::clone(connection), bytes)
            }
            Action::Receive(_) if connection.as_plain().is_some() => {
                Call::Receive(Rc::clone(connection), bytes)
            }
            _ => Call::None,
        };
    }
}

impl Cursor {
    /// Returns the start of `rounds` rounds.
    pub(crate) fn at_start(steps: &[FastStep], rounds: u64) -> Self {
        Self {
            step: 0,
            executions_left: steps.first().map_or(0, |step| step.count),
            rounds_left: rounds,
        }
    }

    /// Saves the position at which the loop ended.
    #[cold]
    fn save(&mut self, step: usize, executions_left: u64, exit: Exit) -> Exit {
        self.step = step;
        self.executions_left = executions_left;
        exit
    }

    /// Advances after an execution; returns false after the last round.
    pub(crate) fn advance(&mut self, steps: &[FastStep], timer: &mut impl StepTimer) -> bool {
        if self.executions_left > 1 {
            self.executions_left -= 1;
            return true;
        }
        timer.step(self.step, steps[self.step].count);
        self.step += 1;
        if self.step == steps.len() {
            self.step = 0;
            if self.end_round(timer) {
                return false;
            }
        }
        self.executions_left = steps[self.step].count;
        true
    }

    /// Ends a round; returns whether it was the last.
    #[inline]
    fn end_round(&mut self, timer: &mut impl StepTimer) -> bool {
        timer.round();
        self.rounds_left -= 1;
        self.rounds_left == 0
    }
}

/// Executes steps from `cursor`, as long as each execution is one call that moves all of its bytes.
///
/// Lists of one step, and of a request and its response, have separate loops.
pub(crate) fn run(
    steps: &[FastStep],
    cursor: &mut Cursor,
    context: &mut CallContext<'_>,
    timer: &mut impl StepTimer,
) -> Exit {
    match steps {
        [step] => {
            if let Some(send) = SendCall::from_call(&step.call) {
                return run_one(&send, step.count, cursor, context, timer);
            }
            if let Some(receive) = ReceiveCall::from_call(&step.call) {
                return run_one(&receive, step.count, cursor, context, timer);
            }
        }
        [first, second] if first.count == 1 && second.count == 1 => {
            let (first, second) = (&first.call, &second.call);
            if let (Some(send), Some(receive)) =
                (SendCall::from_call(first), ReceiveCall::from_call(second))
            {
                return run_two(&send, &receive, cursor, context, timer);
            }
            if let (Some(receive), Some(send)) =
                (ReceiveCall::from_call(first), SendCall::from_call(second))
            {
                return run_two(&receive, &send, cursor, context, timer);
            }
        }
        _ => {}
    }
    run_any(steps, cursor, context, timer)
}

/// Runs the same transfer, `count` times per round.
#[inline(never)]
fn run_one(
    transfer: &impl SingleCall,
    count: u64,
    cursor: &mut Cursor,
    context: &mut CallContext<'_>,
    timer: &mut impl StepTimer,
) -> Exit {
    let mut left = cursor.executions_left;
    loop {
        if context.stop.is_set() {
            return cursor.save(0, left, Exit::Stopped);
        }
        if let Err(result) = transfer.execute(context) {
            return cursor.save(0, left, Exit::Execute(Some(result)));
        }
        timer.execution(0);
        left -= 1;
        if left > 0 {
            continue;
        }
        left = count;
        timer.step(0, count);
        if cursor.end_round(timer) {
            return Exit::Done;
        }
    }
}

/// Runs two transfers alternately.
#[inline(never)]
fn run_two(
    first: &impl SingleCall,
    second: &impl SingleCall,
    cursor: &mut Cursor,
    context: &mut CallContext<'_>,
    timer: &mut impl StepTimer,
) -> Exit {
    let mut first_is_done = cursor.step == 1;
    loop {
        if context.stop.is_set() {
            return cursor.save(usize::from(first_is_done), 1, Exit::Stopped);
        }
        if !first_is_done {
            if let Err(result) = first.execute(context) {
                return cursor.save(0, 1, Exit::Execute(Some(result)));
            }
            timer.execution(0);
            timer.step(0, 1);
        }
        first_is_done = false;
        if let Err(result) = second.execute(context) {
            return cursor.save(1, 1, Exit::Execute(Some(result)));
        }
        timer.execution(1);
        timer.step(1, 1);
        if cursor.end_round(timer) {
            return Exit::Done;
        }
    }
}

/// Runs any list. It is not inlined, so that the loop can use all registers.
#[inline(never)]
fn run_any(
    steps: &[FastStep],
    cursor: &mut Cursor,
    context: &mut CallContext<'_>,
    timer: &mut impl StepTimer,
) -> Exit {
    let mut left = cursor.executions_left;
    let mut steps_left = steps[cursor.step..].iter();
    let exit = loop {
        let Some(step) = steps_left.as_slice().first() else {
            if cursor.end_round(timer) {
                return Exit::Done;
            }
            steps_left = steps.iter();
            left = steps[0].count;
            continue;
        };
        if context.stop.is_set() {
            break Exit::Stopped;
        }
        let result = match &step.call {
            Call::Send(..) => SendCall::from_call(&step.call).map(|send| send.execute(context)),
            Call::Receive(..) => {
                ReceiveCall::from_call(&step.call).map(|receive| receive.execute(context))
            }
            Call::None => None,
        };
        match result {
            Some(Ok(())) => {}
            Some(Err(result)) => break Exit::Execute(Some(result)),
            None => break Exit::Execute(None),
        }
        let index = steps.len() - steps_left.len();
        timer.execution(index);
        left -= 1;
        if left == 0 {
            timer.step(index, step.count);
            steps_left.next();
            left = steps_left.as_slice().first().map_or(0, |next| next.count);
        }
    };
    cursor.save(steps.len() - steps_left.len(), left, exit)
}

/// A transfer that is one call.
trait SingleCall {
    /// Makes the call, and counts its bytes if it moved all of them; else returns its result.
    fn execute(&self, context: &mut CallContext<'_>) -> Result<(), Result<usize, Error>>;
}

/// A send call: the method and the number of bytes.
struct SendCall<I>(I, usize);

/// A receive call: the method and the number of bytes. Up to [`MAX_WAIT_ALL_BYTES`] are received
/// with MSG_WAITALL; of a longer receive, each piece is counted when it arrives.
struct ReceiveCall<I>(I, usize);

/// Maximum bytes of a receive with MSG_WAITALL.
const MAX_WAIT_ALL_BYTES: usize = 64 << 10;

impl<'a> SendCall<Plain<'a>> {
    #[inline]
    fn from_call(call: &'a Call) -> Option<Self> {
        match call {
            Call::Send(connection, bytes) => {
                Some(Self(connection.as_plain_sender()?, *bytes as usize))
            }
            _ => None,
        }
    }
}

impl<'a> ReceiveCall<Plain<'a>> {
    #[inline]
    fn from_call(call: &'a Call) -> Option<Self> {
        match call {
            Call::Receive(connection, bytes) => Some(Self(connection.as_plain()?, *bytes as usize)),
            _ => None,
        }
    }
}

impl<I: Io> SingleCall for SendCall<I> {
    #[inline]
    fn execute(&self, context: &mut CallContext<'_>) -> Result<(), Result<usize, Error>> {
        let result = self.0.send(&context.buffer[..self.1]);
        if result != Ok(self.1) {
            return Err(result);
        }
        context.counters.add(Counter::Sent, self.1 as u64);
        context.counters.add(Counter::Operations, 1);
        Ok(())
    }
}

impl<I: Io> SingleCall for ReceiveCall<I> {
    #[inline]
    fn execute(&self, context: &mut CallContext<'_>) -> Result<(), Result<usize, Error>> {
        let buffer = &mut context.buffer[..self.1];
        let result = if self.1 <= MAX_WAIT_ALL_BYTES {
            self.0.receive_wait_all(buffer)
        } else {
            self.0.receive(buffer)
        };
        if result != Ok(self.1) {
            return Err(result);
        }
        context.counters.add(Counter::Received, self.1 as u64);
        context.counters.add(Counter::Operations, 1);
        Ok(())
    }
}
