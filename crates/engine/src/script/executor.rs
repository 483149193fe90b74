//! What executes the steps: all that is not one plain call.

use std::rc::Rc;
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::SmallRng;
use sys::call::{self, Error};
use sys::clock::{ExactSleep, monotonic_ns, sleep_until};
use sys::message::{ControlMessage, Messages, Moved};

use crate::counters::{Counter, CounterWriter};
use model::{Action, Amount, Batch, Step, Transfer};

use super::manager::ConnectionManager;
use crate::end::Failure;
use crate::io::{Connection, until_then};
use crate::loops::fast_path::{self, Context, Exit, FastStep, Place};
use crate::stop::Stop;
use crate::timer::Watch;

/// What executes the steps.
pub(super) struct Executor<'a> {
    pub(super) manager: &'a mut dyn ConnectionManager,
    pub(super) buffer: &'a mut [u8],
    pub(super) random: &'a mut SmallRng,
    pub(super) stop: &'a Stop,
    pub(super) counters: CounterWriter<'a>,
}

/// Why a step was left.
pub(super) enum Left {
    Stopped,
    EndOfStream,
    Done,
    Failed(Failure),
}

/// Which way a transfer goes.
#[derive(Clone, Copy)]
enum Way {
    Out,
    In,
}

/// A script's steps, each with the connection that it uses.
#[derive(Debug)]
pub(super) struct Steps {
    list: Vec<Step>,
    connections: Vec<Option<Rc<Connection>>>,
    /// The control message of each step's messages, if there is anything.
    control: Vec<Option<Box<ControlMessage>>>,
    /// What the calls of several messages are made with.
    messages: Messages,
    /// The steps as the fast path uses them.
    fast: Vec<FastStep>,
}

/// Bytes of what stands beside each step.
pub(super) const STEP_BYTES: usize = size_of::<Option<Rc<Connection>>>()
    + size_of::<Option<Box<ControlMessage>>>()
    + size_of::<ControlMessage>()
    + size_of::<FastStep>();

impl Steps {
    /// Steps whose connections are not known yet.
    pub(super) fn new(steps: Vec<Step>) -> Self {
        Self {
            connections: vec![None; steps.len()],
            control: steps.iter().map(control_message).collect(),
            messages: Messages::new(steps.iter().map(count).max().unwrap_or(0)),
            fast: steps.iter().map(FastStep::new).collect(),
            list: steps,
        }
    }

    fn bind(&mut self, at: usize, connection: Option<Rc<Connection>>) {
        self.fast[at].bind(&self.list[at], connection.as_ref());
        self.connections[at] = connection;
    }

    fn forget_from(&mut self, at: usize) {
        for later in at..self.list.len() {
            self.bind(later, None);
        }
    }

    fn forget(&mut self, closed: &Rc<Connection>) {
        for at in 0..self.list.len() {
            if self.connections[at]
                .as_ref()
                .is_some_and(|connection| Rc::ptr_eq(connection, closed))
            {
                self.bind(at, None);
            }
        }
    }
}

impl Executor<'_> {
    /// So many rounds as fast as they go; else the step that was left, and why.
    pub(super) fn rounds(
        &mut self,
        steps: &mut Steps,
        rounds: u64,
        watch: &mut impl Watch,
    ) -> Result<(), (usize, Left)> {
        if rounds == 0 {
            return Ok(());
        }
        if steps.list.is_empty() {
            // A list without steps still lasts as long as it is to.
            return match rounds {
                u64::MAX => think(Duration::MAX, false, self.stop).map_err(|left| (0, left)),
                _ => Ok(()),
            };
        }
        let mut place = Place::first(&steps.fast, rounds);
        loop {
            let mut context = Context {
                buffer: self.buffer,
                stop: self.stop.flag(),
                counters: self.counters,
            };
            let exit = fast_path::run(&steps.fast, &mut place, &mut context, watch);
            let count = steps.list[place.at].count;
            let left = match exit {
                Exit::Done => return Ok(()),
                Exit::Stopped => Err(Left::Stopped),
                Exit::Execute(_) if count == 0 => Ok(()),
                Exit::Execute(came) => self.execute(steps, place.at, came),
            };
            if let Err(left) = left {
                watch.step(place.at, count - place.left);
                return Err((place.at, left));
            }
            if count > 0 {
                self.counters.add(Counter::Operations, 1);
            }
            if !place.executed(&steps.fast, watch) {
                return Ok(());
            }
        }
    }

    fn execute(
        &mut self,
        steps: &mut Steps,
        at: usize,
        came: Option<Result<usize, Error>>,
    ) -> Result<(), Left> {
        let executed = match steps.list[at].action {
            Action::Send(transfer) => self.transfers(steps, at, Way::Out, transfer, came),
            Action::Receive(transfer) => self.transfers(steps, at, Way::In, transfer, came),
            Action::Think { duration, spins } => think(duration, spins, self.stop),
            Action::Own => self.perform(steps, at),
            Action::Nothing => Ok(()),
        };
        match executed {
            Err(Left::Failed(_)) if steps.list[at].can_fail && !self.stop.is_set() => {
                self.counters.add(Counter::FailedOperations, 1);
                Ok(())
            }
            Err(Left::Failed(failure)) if failure.is_interruption() && self.stop.is_set() => {
                Err(Left::Stopped)
            }
            other => other,
        }
    }

    fn transfers(
        &mut self,
        steps: &mut Steps,
        at: usize,
        way: Way,
        transfer: Transfer,
        mut came: Option<Result<usize, Error>>,
    ) -> Result<(), Left> {
        if steps.connections[at].is_none() {
            let connection = self.manager.connection(at).map_err(Left::Failed)?;
            steps.bind(at, Some(connection));
        }
        let Some(connection) = &steps.connections[at] else {
            return Ok(());
        };
        if connection.has_become_plain() {
            steps.fast[at].bind(&steps.list[at], Some(connection));
        }
        for _ in 0..transfer.repeat {
            let control = steps.control[at].as_deref();
            self.transfer(
                connection,
                way,
                transfer,
                &mut steps.messages,
                control,
                came.take(),
            )?;
        }
        Ok(())
    }

    /// Moves all bytes of a transfer, or a random number of them in one call. A batch is messages of one size, which
    /// are received in whatever messages they come; if the size is random, as many messages.
    fn transfer(
        &mut self,
        connection: &Connection,
        way: Way,
        transfer: Transfer,
        messages: &mut Messages,
        control: Option<&ControlMessage>,
        mut came: Option<Result<usize, Error>>,
    ) -> Result<(), Left> {
        let (each, is_random) = match transfer.amount {
            Amount::Exactly(bytes) => (bytes as usize, false),
            Amount::Between { min, max } => match way {
                Way::Out => (self.random.random_range(min..=max.max(min)) as usize, true),
                Way::In => (max as usize, true),
            },
        };
        let (batch, waits) = (transfer.batch, transfer.waits);
        // A layer takes a record at a time.
        let takes_records = || way.is_out() && connection.with_io(|io| io.takes_records());
        let is_one_call = is_random && batch.is_none() && !takes_records();
        let count = batch.map_or(1, |batch| batch.count);
        let mut left = count.saturating_mul(each as u64);
        while left > 0 {
            if came.is_none()
                && let Some(patience) = transfer.patience.filter(|_| waits)
            {
                way.wait(connection, patience, self.stop)?;
            }
            // The last piece of a batch may be less than a message.
            let size = left.min(each as u64) as usize;
            let moved = match (came.take(), batch) {
                (Some(came), _) => came.map(Moved::one),
                (None, None) => {
                    let piece = &mut self.buffer[each - size..each];
                    let call = connection.with_io(|io| match (way, waits) {
                        (Way::Out, true) => io.send(piece),
                        (Way::Out, false) => io.try_send(piece),
                        (Way::In, true) => io.receive(piece),
                        (Way::In, false) => io.try_receive(piece),
                    });
                    call.map(Moved::one)
                }
                (None, Some(_)) => {
                    let (piece, times) = (&mut self.buffer[..size], left / size as u64);
                    connection.with_io(|io| match way {
                        Way::Out => io.send_messages(messages, control, piece, times, waits),
                        Way::In => io.receive_messages(messages, piece, times, waits),
                    })
                }
            };
            match moved {
                Ok(Moved { bytes: 0, .. }) => return Err(Left::EndOfStream),
                Ok(Moved { bytes, messages }) => {
                    self.moved(way, bytes);
                    left -= match way {
                        _ if is_one_call => left,
                        // Each is a message, however short it is.
                        Way::In if is_random => (messages * each) as u64,
                        _ => bytes as u64,
                    };
                    if left == 0 {
                        return Ok(());
                    }
                }
                Err(error) => self.recover(error, connection, way, transfer)?,
            }
            if self.stop.is_set() {
                return Err(Left::Stopped);
            }
        }
        Ok(())
    }

    /// A call has failed: goes on where it was interrupted for nothing, or did not wait and may.
    #[cold]
    fn recover(
        &self,
        error: Error,
        connection: &Connection,
        way: Way,
        transfer: Transfer,
    ) -> Result<(), Left> {
        match transfer.patience {
            Some(patience) if error == Error::AGAIN && !transfer.waits => {
                way.wait(connection, patience, self.stop)
            }
            _ => interrupted(error, self.stop).map_err(|error| failed(way.name(), error)),
        }
    }

    /// Counts what a call has moved.
    fn moved(&self, way: Way, bytes: usize) {
        match way {
            Way::Out => self.counters.add(Counter::Sent, bytes as u64),
            Way::In => self.counters.add(Counter::Received, bytes as u64),
        }
    }

    fn perform(&mut self, steps: &mut Steps, at: usize) -> Result<(), Left> {
        let performed = self.manager.perform(at, self.stop).map_err(Left::Failed)?;
        if performed.sent > 0 {
            self.counters.add(Counter::Sent, performed.sent);
        }
        if performed.later_forget {
            steps.forget_from(at);
        }
        for closed in performed.closed.iter().flatten() {
            steps.forget(closed);
        }
        if performed.ends {
            return Err(Left::Done);
        }
        Ok(())
    }
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Out => "send",
            Self::In => "receive",
        }
    }

    fn is_out(self) -> bool {
        matches!(self, Self::Out)
    }

    /// Waits until the connection takes or has something.
    fn wait(self, connection: &Connection, patience: Duration, stop: &Stop) -> Result<(), Left> {
        let until = Instant::now().checked_add(patience);
        let mut left = patience;
        loop {
            let ready = match self {
                Self::Out => call::wait_writable(connection.socket(), left),
                Self::In => connection.with_io(|io| io.wait_readable(left)),
            };
            match ready {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(failed(self.name(), Error::TIMEDOUT)),
                Err(error) => {
                    interrupted(error, stop).map_err(|error| failed(self.name(), error))?;
                }
            }
            left = until_then(until);
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
    Some(Box::new(ControlMessage::of(info)))
}

/// Messages of a step; 0 if it is not of messages.
fn count(step: &Step) -> u64 {
    batch(step).map_or(0, |batch| batch.count)
}

/// An interruption is none as long as nobody wants an end.
#[cold]
fn interrupted(error: Error, stop: &Stop) -> Result<(), Error> {
    if error == Error::INTR && !stop.is_set() {
        return Ok(());
    }
    Err(error)
}

#[cold]
fn failed(what: &str, error: Error) -> Left {
    if error == Error::INTR {
        return Left::Stopped;
    }
    Left::Failed(Failure::of_call(what, error))
}

fn think(duration: Duration, spins: bool, stop: &Stop) -> Result<(), Left> {
    let until =
        monotonic_ns().saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    let _exact = (!spins).then(ExactSleep::begin);
    while monotonic_ns() < until {
        if stop.is_set() {
            return Err(Left::Stopped);
        }
        if spins {
            std::hint::spin_loop();
        } else {
            // Interrupted or not, the clock says whether it was long enough.
            let _ = sleep_until(until);
        }
    }
    Ok(())
}
