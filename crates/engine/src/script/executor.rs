//! Executes the steps of a script, except single calls, which the fast path executes.

use std::rc::Rc;
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::SmallRng;
use sys::call::{self, Error};
use sys::clock::{ExactSleep, monotonic_ns, sleep_until};
use sys::message::{ControlMessage, MessageHeaders, MessageTotals};

use crate::counters::{Counter, CounterWriter};
use model::{Action, Amount, Batch, Step, Transfer};

use super::manager::ConnectionManager;
use crate::end::StepFailure;
use crate::io::{Connection, time_until};
use crate::loops::fast_path::{self, CallContext, Cursor, Exit, FastStep};
use crate::stop::Stop;
use crate::timer::StepTimer;

/// Executes the steps of a script.
pub(super) struct Executor<'a> {
    pub(super) manager: &'a mut dyn ConnectionManager,
    pub(super) buffer: &'a mut [u8],
    pub(super) random: &'a mut SmallRng,
    pub(super) stop: &'a Stop,
    pub(super) counters: CounterWriter<'a>,
}

/// Reason for which a script ended at a step.
pub(super) enum StepEnd {
    Stopped,
    EndOfStream,
    Done,
    Failed(StepFailure),
}

/// Direction of a transfer.
#[derive(Clone, Copy)]
enum TransferDirection {
    Send,
    Receive,
}

/// The steps of a script, with the connection of each.
#[derive(Debug)]
pub(super) struct Steps {
    list: Vec<Step>,
    connections: Vec<Option<Rc<Connection>>>,
    /// The control message of each step's messages, if any.
    control: Vec<Option<Box<ControlMessage>>>,
    /// Headers for calls with several messages.
    headers: MessageHeaders,
    /// The steps in the form of the fast path.
    fast_path: Vec<FastStep>,
}

/// Bytes of memory that [`Steps`] adds per step.
pub(super) const BOUND_STEP_BYTES: usize = size_of::<Option<Rc<Connection>>>()
    + size_of::<Option<Box<ControlMessage>>>()
    + size_of::<ControlMessage>()
    + size_of::<FastStep>();

impl Steps {
    /// Returns the steps without connections.
    pub(super) fn new(steps: Vec<Step>) -> Self {
        Self {
            connections: vec![None; steps.len()],
            control: steps.iter().map(control_message).collect(),
            headers: MessageHeaders::new(steps.iter().map(batch_count).max().unwrap_or(0)),
            fast_path: steps.iter().map(FastStep::new).collect(),
            list: steps,
        }
    }

    /// Sets or clears the connection of a step.
    fn bind(&mut self, step: usize, connection: Option<Rc<Connection>>) {
        self.fast_path[step].bind(&self.list[step], connection.as_ref());
        self.connections[step] = connection;
    }

    /// Clears the connections of this and all later steps.
    fn unbind_from(&mut self, first: usize) {
        for step in first..self.list.len() {
            self.bind(step, None);
        }
    }

    /// Clears this connection in all steps that use it.
    fn unbind(&mut self, closed: &Rc<Connection>) {
        for step in 0..self.list.len() {
            if self.connections[step]
                .as_ref()
                .is_some_and(|connection| Rc::ptr_eq(connection, closed))
            {
                self.bind(step, None);
            }
        }
    }
}

impl Executor<'_> {
    /// Runs `rounds` rounds without pauses. An error is the step at which the rounds ended, with
    /// the reason.
    pub(super) fn run_rounds(
        &mut self,
        steps: &mut Steps,
        rounds: u64,
        timer: &mut impl StepTimer,
    ) -> Result<(), (usize, StepEnd)> {
        if rounds == 0 {
            return Ok(());
        }
        if steps.list.is_empty() {
            // An unlimited script without steps waits for the stop.
            return match rounds {
                u64::MAX => think(Duration::MAX, false, self.stop).map_err(|end| (0, end)),
                _ => Ok(()),
            };
        }
        let mut cursor = Cursor::at_start(&steps.fast_path, rounds);
        loop {
            let mut context = CallContext {
                buffer: self.buffer,
                stop: self.stop.flag(),
                counters: self.counters,
            };
            let exit = fast_path::run(&steps.fast_path, &mut cursor, &mut context, timer);
            let count = steps.list[cursor.step].count;
            let result = match exit {
                Exit::Done => return Ok(()),
                Exit::Stopped => Err(StepEnd::Stopped),
                Exit::Execute(_) if count == 0 => Ok(()),
                Exit::Execute(call_result) => self.execute(steps, cursor.step, call_result),
            };
            if let Err(end) = result {
                timer.step(cursor.step, count - cursor.executions_left);
                return Err((cursor.step, end));
            }
            if count > 0 {
                self.counters.add(Counter::Operations, 1);
                timer.execution(cursor.step);
            }
            if !cursor.advance(&steps.fast_path, timer) {
                return Ok(());
            }
        }
    }

    fn execute(
        &mut self,
        steps: &mut Steps,
        step: usize,
        call_result: Option<Result<usize, Error>>,
    ) -> Result<(), StepEnd> {
        let result = match steps.list[step].action {
            Action::Send(transfer) => {
                self.run_transfers(steps, step, TransferDirection::Send, transfer, call_result)
            }
            Action::Receive(transfer) => self.run_transfers(
                steps,
                step,
                TransferDirection::Receive,
                transfer,
                call_result,
            ),
            Action::Think { duration, spins } => think(duration, spins, self.stop),
            Action::DialectSpecific => self.run_dialect_step(steps, step),
            Action::Nothing => Ok(()),
        };
        match result {
            Err(StepEnd::Failed(_)) if steps.list[step].can_fail && !self.stop.is_set() => {
                self.counters.add(Counter::FailedOperations, 1);
                Ok(())
            }
            Err(StepEnd::Failed(failure)) if failure.is_interruption() && self.stop.is_set() => {
                Err(StepEnd::Stopped)
            }
            other => other,
        }
    }

    fn run_transfers(
        &mut self,
        steps: &mut Steps,
        step: usize,
        direction: TransferDirection,
        transfer: Transfer,
        mut call_result: Option<Result<usize, Error>>,
    ) -> Result<(), StepEnd> {
        if steps.connections[step].is_none() {
            let connection = self.manager.connection(step).map_err(StepEnd::Failed)?;
            steps.bind(step, Some(connection));
        }
        let Some(connection) = &steps.connections[step] else {
            return Ok(());
        };
        if connection.has_used_up_early_datagrams() {
            steps.fast_path[step].bind(&steps.list[step], Some(connection));
        }
        for _ in 0..transfer.repeat {
            let control = steps.control[step].as_deref();
            self.run_transfer(
                connection,
                direction,
                transfer,
                &mut steps.headers,
                control,
                call_result.take(),
            )?;
        }
        Ok(())
    }

    /// Moves all bytes of a transfer, or a random number of bytes in one call.
    ///
    /// A batch consists of messages of one size. A receive is complete when it has the bytes of
    /// its batch, because the peer's messages may have other sizes. If the size is random, it is
    /// complete when it has the number of messages.
    fn run_transfer(
        &mut self,
        connection: &Connection,
        direction: TransferDirection,
        transfer: Transfer,
        headers: &mut MessageHeaders,
        control: Option<&ControlMessage>,
        mut call_result: Option<Result<usize, Error>>,
    ) -> Result<(), StepEnd> {
        let (message_bytes, is_random) = match transfer.amount {
            Amount::Exactly(bytes) => (bytes as usize, false),
            Amount::Between { min, max } => match direction {
                TransferDirection::Send => {
                    (self.random.random_range(min..=max.max(min)) as usize, true)
                }
                TransferDirection::Receive => (max as usize, true),
            },
        };
        let (batch, is_blocking) = (transfer.batch, transfer.is_blocking);
        // An encryption layer sends at most one record per call.
        let splits_sends_into_records =
            || direction.is_send() && connection.with_io(|io| io.splits_sends_into_records());
        let is_one_call = is_random && batch.is_none() && !splits_sends_into_records();
        let count = batch.map_or(1, |batch| batch.count);
        let mut left = count.saturating_mul(message_bytes as u64);
        while left > 0 {
            if call_result.is_none()
                && let Some(timeout) = transfer.timeout.filter(|_| is_blocking)
            {
                direction.wait(connection, timeout, self.stop)?;
            }
            // The last piece of a batch may be shorter than a message.
            let size = left.min(message_bytes as u64) as usize;
            let result = match (call_result.take(), batch) {
                (Some(call_result), _) => call_result.map(MessageTotals::single),
                (None, None) => {
                    let piece = &mut self.buffer[message_bytes - size..message_bytes];
                    let call = connection.with_io(|io| match (direction, is_blocking) {
                        (TransferDirection::Send, true) => io.send(piece),
                        (TransferDirection::Send, false) => io.try_send(piece),
                        (TransferDirection::Receive, true) => io.receive(piece),
                        (TransferDirection::Receive, false) => io.try_receive(piece),
                    });
                    call.map(MessageTotals::single)
                }
                (None, Some(_)) => {
                    let (piece, count) = (&mut self.buffer[..size], left / size as u64);
                    connection.with_io(|io| match direction {
                        TransferDirection::Send => {
                            io.send_messages(headers, control, piece, count, is_blocking)
                        }
                        TransferDirection::Receive => {
                            io.receive_messages(headers, piece, count, is_blocking)
                        }
                    })
                }
            };
            match result {
                Ok(MessageTotals { bytes: 0, .. }) => return Err(StepEnd::EndOfStream),
                Ok(MessageTotals { bytes, messages }) => {
                    self.count_bytes(direction, bytes);
                    left -= match direction {
                        _ if is_one_call => left,
                        // Each message counts as a full one, even if it is short.
                        TransferDirection::Receive if is_random => {
                            (messages * message_bytes) as u64
                        }
                        _ => bytes as u64,
                    };
                    if left == 0 {
                        return Ok(());
                    }
                }
                Err(error) => self.recover(error, connection, direction, transfer)?,
            }
            if self.stop.is_set() {
                return Err(StepEnd::Stopped);
            }
        }
        Ok(())
    }

    /// Handles a failed call. After EINTR it continues, unless the stop is set. A non-blocking call
    /// with a timeout waits until the socket is ready.
    #[cold]
    fn recover(
        &self,
        error: Error,
        connection: &Connection,
        direction: TransferDirection,
        transfer: Transfer,
    ) -> Result<(), StepEnd> {
        match transfer.timeout {
            Some(timeout) if error == Error::AGAIN && !transfer.is_blocking => {
                direction.wait(connection, timeout, self.stop)
            }
            _ => ignore_interruption(error, self.stop)
                .map_err(|error| step_failure(direction.name(), error)),
        }
    }

    /// Counts the bytes of a call.
    fn count_bytes(&self, direction: TransferDirection, bytes: usize) {
        match direction {
            TransferDirection::Send => self.counters.add(Counter::Sent, bytes as u64),
            TransferDirection::Receive => self.counters.add(Counter::Received, bytes as u64),
        }
    }

    /// Runs a step of the dialect and clears the connections that its result names.
    fn run_dialect_step(&mut self, steps: &mut Steps, step: usize) -> Result<(), StepEnd> {
        let result = self
            .manager
            .perform(step, self.stop)
            .map_err(StepEnd::Failed)?;
        if result.sent > 0 {
            self.counters.add(Counter::Sent, result.sent);
        }
        if result.rebinds_this_and_later_steps {
            steps.unbind_from(step);
        }
        for closed in result.closed_connections.iter().flatten() {
            steps.unbind(closed);
        }
        if result.is_script_done {
            return Err(StepEnd::Done);
        }
        Ok(())
    }
}

impl TransferDirection {
    fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }

    fn is_send(self) -> bool {
        matches!(self, Self::Send)
    }

    /// Waits until the connection is ready in this direction; fails with ETIMEDOUT after `timeout`.
    fn wait(self, connection: &Connection, timeout: Duration, stop: &Stop) -> Result<(), StepEnd> {
        let deadline = Instant::now().checked_add(timeout);
        let mut remaining = timeout;
        loop {
            let is_ready = match self {
                Self::Send => call::wait_writable(connection.socket(), remaining),
                Self::Receive => connection.with_io(|io| io.wait_readable(remaining)),
            };
            match is_ready {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(step_failure(self.name(), Error::TIMEDOUT)),
                Err(error) => {
                    ignore_interruption(error, stop)
                        .map_err(|error| step_failure(self.name(), error))?;
                }
            }
            remaining = time_until(deadline);
        }
    }
}

fn batch(step: &Step) -> Option<Batch> {
    match &step.action {
        Action::Send(transfer) | Action::Receive(transfer) => transfer.batch,
        _ => None,
    }
}

fn control_message(step: &Step) -> Option<Box<ControlMessage>> {
    let info = batch(step)?.info?;
    Some(Box::new(ControlMessage::for_sctp(info)))
}

/// Returns the messages per batch of a step; 0 if it has no batches.
fn batch_count(step: &Step) -> u64 {
    batch(step).map_or(0, |batch| batch.count)
}

/// Ignores EINTR unless the stop is set.
#[cold]
fn ignore_interruption(error: Error, stop: &Stop) -> Result<(), Error> {
    if error == Error::INTR && !stop.is_set() {
        return Ok(());
    }
    Err(error)
}

#[cold]
fn step_failure(call: &str, error: Error) -> StepEnd {
    if error == Error::INTR {
        return StepEnd::Stopped;
    }
    StepEnd::Failed(StepFailure::from_call(call, error))
}

/// Sleeps or spins for this time; the stop ends it early.
fn think(duration: Duration, spins: bool, stop: &Stop) -> Result<(), StepEnd> {
    let until_ns =
        monotonic_ns().saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    let _exact_sleep = (!spins).then(ExactSleep::begin);
    while monotonic_ns() < until_ns {
        if stop.is_set() {
            return Err(StepEnd::Stopped);
        }
        if spins {
            std::hint::spin_loop();
        } else {
            // An interrupted sleep needs no handling, because the loop reads the clock next.
            let _ = sleep_until(until_ns);
        }
    }
    Ok(())
}
