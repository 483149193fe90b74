//! Any list of steps, run again and again over any number of connections.
//!
//! The loops of `bulk.rs`, `transaction.rs` and `connection.rs` know what they do when they are compiled; this one
//! is told, and looks at nothing but its own list while it runs. What a dialect does by itself (opening
//! connections by its own rules, say) are steps as well: [`Performer::perform`].

mod counting;
mod line;
mod tally;
#[cfg(test)]
mod tests;
mod watch;

pub use counting::Counts;
pub use line::{Layer, Line};
pub use tally::{Tallied, Tally};
pub use watch::{Journal, Pass, StepTimes, Watch};

use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use model::Pacing;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sys::call::{self, Error};
use sys::clock::{ExactSleep, monotonic_ns, sleep_until};

use crate::pace::Pace;
use crate::stop::{Reason, Stop};

/// One step of a script.
#[derive(Clone, Debug)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// How often it is done in a pass.
    pub count: u64,
    /// An execution that fails counts all the same, with no bytes.
    pub can_fail: bool,
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Sends over the step's line.
    Send(Transfer),
    /// Receives from the step's line.
    Receive(Transfer),
    /// Lets time pass.
    Think {
        /// How much.
        duration: Duration,
        /// Keeps the CPU meanwhile.
        spins: bool,
    },
    /// What the [`Performer`] does.
    Own,
    /// Nothing.
    Nothing,
}

/// How much an execution moves.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Bytes.
    pub amount: Amount,
    /// So often.
    pub repeat: u64,
    /// Before each, how long it is waited that the line takes or has something.
    pub patience: Option<Duration>,
}

/// Bytes of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// All of so many, in as many calls as it takes.
    Exactly(u32),
    /// In one call: to send, as many as chance says; to receive, whatever comes, up to the most.
    Between {
        /// The fewest.
        min: u32,
        /// The most.
        max: u32,
    },
}

/// How often the list is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounds {
    /// So often.
    Times(u64),
    /// Until the stop is pulled.
    UntilStopped,
}

/// What a script runs under.
#[derive(Debug)]
pub struct Orders<'a> {
    /// How often.
    pub rounds: Rounds,
    /// When each round begins; `None` is as fast as it goes.
    pub pacing: Option<Pacing>,
    /// What ends it.
    pub stop: &'a Stop,
    /// Where it counts.
    pub tally: &'a Tally,
}

/// Who does what the engine has no word for.
pub trait Performer {
    /// The line of a transfer step that has none, or no longer; it keeps it until it is told to forget.
    fn line(&mut self, step: usize) -> Result<Rc<Line>, Failure>;
    /// Executes a step of its own; the bytes that it sent, and the steps that forget their lines.
    fn perform(&mut self, step: usize, stop: &Stop) -> Result<Performed, Failure>;
}

/// What a step of the performer's own came to.
#[derive(Debug, Default)]
pub struct Performed {
    /// Bytes that it sent.
    pub sent: u64,
    /// This step and all behind it forget their lines.
    pub later_forget: bool,
    /// Whatever step has one of these lines forgets it: they are closed.
    pub closed: [Option<Rc<Line>>; 2],
    /// There is no more to do: the script ends here, as if it had been done.
    pub ends: bool,
}

/// Why an execution failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was tried, in the dialect's words or as the call's name.
    pub what: String,
    /// The error number, 0 for none.
    pub errno: i32,
}

/// How a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptEnd {
    /// All rounds are done, or the performer said that there is no more to do.
    Done,
    /// The stop was pulled.
    Stopped(Reason),
    /// The peer ended the stream in this step.
    EndOfStream(usize),
    /// An execution of this step failed.
    Failed(usize, Failure),
}

/// The steps, each with the line that it uses.
#[derive(Debug)]
pub struct Script {
    steps: Vec<Bound>,
    random: SmallRng,
}

#[derive(Debug)]
struct Bound {
    plain: Plain,
    line: Option<Rc<Line>>,
    step: Step,
}

/// A transfer that one call does on most lines: so many bytes, once, without a wait before.
#[derive(Clone, Copy, Debug)]
enum Plain {
    Send(u32),
    Receive(u32),
    No,
}

/// Why a step was left.
enum Left {
    Stopped,
    EndOfStream,
    Done,
    Failed(Failure),
}

impl Script {
    /// A script; `seed` is for sizes that chance decides.
    pub fn new(steps: Vec<Step>, seed: u64) -> Self {
        Self {
            steps: steps
                .into_iter()
                .map(|step| Bound {
                    plain: Plain::of(&step.action),
                    line: None,
                    step,
                })
                .collect(),
            random: SmallRng::seed_from_u64(seed),
        }
    }

    /// What the buffer of [`Self::run`] must hold, in bytes.
    pub fn largest(&self) -> usize {
        let largest = self.steps.iter().map(|bound| match bound.step.action {
            Action::Send(transfer) | Action::Receive(transfer) => transfer.amount.largest(),
            _ => 0,
        });
        largest.max().unwrap_or(0)
    }

    /// Runs it to its end. What is sent comes from `buffer`, and what is received goes there.
    ///
    /// # Panics
    /// When the buffer is smaller than [`Self::largest`].
    pub fn run(
        &mut self,
        performer: &mut impl Performer,
        orders: &Orders<'_>,
        buffer: &mut [u8],
        watch: &mut impl Watch,
    ) -> ScriptEnd {
        assert!(buffer.len() >= self.largest(), "the buffer is too small");
        let stop = orders.stop;
        let _attending = stop.attend();
        let mut pace = orders.pacing.map(|pacing| Pace::start(&pacing, None));
        let mut left = match orders.rounds {
            Rounds::Times(times) => times,
            Rounds::UntilStopped => u64::MAX,
        };
        let mut hand = Hand {
            performer,
            buffer,
            random: &mut self.random,
            stop,
            tally: orders.tally,
        };
        watch.start();
        while left > 0 && !stop.is_set() {
            let Some(pace) = &mut pace else {
                match hand.rounds(&mut self.steps, left, watch) {
                    Ok(rest) => left = rest,
                    Err((at, why)) => return why.ended(at, stop),
                }
                continue;
            };
            if pace.waited(stop) {
                watch.start();
                continue;
            }
            pace.took_turn();
            match hand.rounds(&mut self.steps, 1, watch) {
                Ok(rest) => left = left - 1 + rest,
                Err((at, why)) => return why.ended(at, stop),
            }
        }
        if left > 0 {
            return ScriptEnd::Stopped(stop.reason().unwrap_or(Reason::Deadline));
        }
        ScriptEnd::Done
    }
}

/// What executes the steps.
struct Hand<'a, P> {
    performer: &'a mut P,
    buffer: &'a mut [u8],
    random: &'a mut SmallRng,
    stop: &'a Stop,
    tally: &'a Tally,
}

impl<P: Performer> Hand<'_, P> {
    /// Rounds as fast as they go; how many are left when the stop is pulled. A function of its own, so
    /// that the registers are the loop's.
    #[inline(never)]
    fn rounds(
        &mut self,
        steps: &mut [Bound],
        mut left: u64,
        watch: &mut impl Watch,
    ) -> Result<u64, (usize, Left)> {
        let stop = self.stop;
        while left > 0 {
            for at in 0..steps.len() {
                self.pass(steps, at, watch).map_err(|why| (at, why))?;
            }
            watch.round();
            left -= 1;
            if stop.is_set() {
                break;
            }
        }
        Ok(left)
    }

    /// All executions of one step.
    #[inline]
    fn pass(&mut self, steps: &mut [Bound], at: usize, watch: &mut impl Watch) -> Result<(), Left> {
        let count = steps[at].step.count;
        let mut done = 0;
        while done < count {
            if self.stop.is_set() {
                watch.step(at, done);
                return Err(Left::Stopped);
            }
            let first = self.call(&steps[at]);
            if !first.is_all
                && let Err(left) = self.execute(steps, at, first.came)
            {
                watch.step(at, done);
                return Err(left);
            }
            self.tally.executed();
            done += 1;
        }
        watch.step(at, done);
        Ok(())
    }

    /// The one call of a plain transfer, if it is one.
    #[inline]
    fn call(&mut self, bound: &Bound) -> First {
        let Some(Line::Socket(socket)) = bound.line.as_deref() else {
            return First::default();
        };
        let socket = socket.as_fd();
        match bound.plain {
            Plain::Send(bytes) => {
                let came = call::send(socket, &self.buffer[..bytes as usize]);
                let is_all = came == Ok(bytes as usize);
                if is_all {
                    self.tally.sent(bytes as usize);
                }
                First {
                    is_all,
                    came: Some(came),
                }
            }
            Plain::Receive(bytes) => {
                let came = call::receive(socket, &mut self.buffer[..bytes as usize]);
                let is_all = came == Ok(bytes as usize);
                if is_all {
                    self.tally.received(bytes as usize);
                }
                First {
                    is_all,
                    came: Some(came),
                }
            }
            Plain::No => First::default(),
        }
    }

    /// An execution that was no plain call, or is not done with it: `came` is what that gave.
    #[cold]
    #[inline(never)]
    fn execute(
        &mut self,
        steps: &mut [Bound],
        at: usize,
        came: Option<Result<usize, Error>>,
    ) -> Result<(), Left> {
        match self.try_execute(steps, at, came) {
            Err(Left::Failed(_)) if steps[at].step.can_fail && !self.stop.is_set() => {
                self.tally.failed();
                Ok(())
            }
            Err(Left::Failed(failure)) if failure.is_interruption() && self.stop.is_set() => {
                Err(Left::Stopped)
            }
            other => other,
        }
    }

    fn try_execute(
        &mut self,
        steps: &mut [Bound],
        at: usize,
        mut came: Option<Result<usize, Error>>,
    ) -> Result<(), Left> {
        let bound = &mut steps[at];
        match bound.step.action {
            Action::Send(transfer) => {
                let line = line_of(bound, at, self.performer)?;
                for _ in 0..transfer.repeat {
                    self.send(line, transfer, came.take())?;
                }
                Ok(())
            }
            Action::Receive(transfer) => {
                let line = line_of(bound, at, self.performer)?;
                for _ in 0..transfer.repeat {
                    self.receive(line, transfer, came.take())?;
                }
                Ok(())
            }
            Action::Think { duration, spins } => think(duration, spins, self.stop),
            Action::Own => self.perform(steps, at),
            Action::Nothing => Ok(()),
        }
    }

    fn send(
        &mut self,
        line: &Line,
        transfer: Transfer,
        mut came: Option<Result<usize, Error>>,
    ) -> Result<(), Left> {
        let (wanted, whole) = match transfer.amount {
            Amount::Exactly(bytes) => (bytes as usize, true),
            Amount::Between { min, max } => {
                (self.random.random_range(min..=max.max(min)) as usize, false)
            }
        };
        let mut sent = 0;
        loop {
            if let Some(patience) = transfer.patience {
                wait_to_send(line, patience)?;
            }
            let taken = came
                .take()
                .unwrap_or_else(|| line.send(&self.buffer[sent..wanted]));
            match taken {
                Ok(0) => return Err(Left::EndOfStream),
                Ok(bytes) => {
                    self.tally.sent(bytes);
                    sent += bytes;
                    if sent >= wanted || !whole {
                        return Ok(());
                    }
                }
                Err(error) => {
                    interrupted(error, self.stop).map_err(|error| failed("send", error))?;
                }
            }
            if self.stop.is_set() {
                return Err(Left::Stopped);
            }
        }
    }

    fn receive(
        &mut self,
        line: &Line,
        transfer: Transfer,
        mut came: Option<Result<usize, Error>>,
    ) -> Result<(), Left> {
        let (wanted, whole) = match transfer.amount {
            Amount::Exactly(bytes) => (bytes as usize, true),
            Amount::Between { max, .. } => (max as usize, false),
        };
        let mut received = 0;
        loop {
            if let Some(patience) = transfer.patience {
                wait_to_receive(line, patience)?;
            }
            let given = came
                .take()
                .unwrap_or_else(|| line.receive(&mut self.buffer[received..wanted]));
            match given {
                Ok(0) => return Err(Left::EndOfStream),
                Ok(bytes) => {
                    self.tally.received(bytes);
                    received += bytes;
                    if received >= wanted || !whole {
                        return Ok(());
                    }
                }
                Err(error) => {
                    interrupted(error, self.stop).map_err(|error| failed("receive", error))?;
                }
            }
            if self.stop.is_set() {
                return Err(Left::Stopped);
            }
        }
    }

    #[inline(never)]
    fn perform(&mut self, steps: &mut [Bound], at: usize) -> Result<(), Left> {
        let performed = self
            .performer
            .perform(at, self.stop)
            .map_err(Left::Failed)?;
        if performed.sent > 0 {
            self.tally.sent(performed.sent as usize);
        }
        if performed.later_forget {
            for bound in &mut steps[at..] {
                bound.line = None;
            }
        }
        for closed in performed.closed.iter().flatten() {
            for bound in &mut *steps {
                bound.line.take_if(|line| Rc::ptr_eq(line, closed));
            }
        }
        if performed.ends {
            return Err(Left::Done);
        }
        Ok(())
    }
}

/// What a plain transfer's call came to.
#[derive(Default)]
struct First {
    /// It was the whole transfer, and is counted.
    is_all: bool,
    /// What the call gave, if there was one.
    came: Option<Result<usize, Error>>,
}

impl Plain {
    fn of(action: &Action) -> Self {
        match action {
            Action::Send(transfer) => transfer.plain_bytes().map_or(Self::No, Self::Send),
            Action::Receive(transfer) => transfer.plain_bytes().map_or(Self::No, Self::Receive),
            _ => Self::No,
        }
    }
}

impl Transfer {
    fn plain_bytes(&self) -> Option<u32> {
        match (self.amount, self.repeat, self.patience) {
            (Amount::Exactly(bytes), 1, None) => Some(bytes),
            _ => None,
        }
    }
}

impl Amount {
    fn largest(self) -> usize {
        match self {
            Self::Exactly(bytes) => bytes as usize,
            Self::Between { min, max } => max.max(min) as usize,
        }
    }
}

impl Failure {
    /// A failure of a call.
    pub fn of_call(what: &str, error: Error) -> Self {
        Self {
            what: what.to_owned(),
            errno: error.raw_os_error(),
        }
    }

    /// One that no call is to blame for.
    pub fn of_sense(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            errno: 0,
        }
    }

    fn is_interruption(&self) -> bool {
        self.errno == Error::INTR.raw_os_error()
    }
}

impl Left {
    fn ended(self, at: usize, stop: &Stop) -> ScriptEnd {
        match self {
            Self::Stopped => ScriptEnd::Stopped(stop.reason().unwrap_or(Reason::Deadline)),
            Self::EndOfStream => ScriptEnd::EndOfStream(at),
            Self::Done => ScriptEnd::Done,
            Self::Failed(failure) => ScriptEnd::Failed(at, failure),
        }
    }
}

#[inline]
fn line_of<'b>(
    bound: &'b mut Bound,
    at: usize,
    performer: &mut impl Performer,
) -> Result<&'b Line, Left> {
    if bound.line.is_none() {
        bound.line = Some(performer.line(at).map_err(Left::Failed)?);
    }
    bound.line.as_deref().ok_or(Left::Done)
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

fn wait_to_send(line: &Line, patience: Duration) -> Result<(), Left> {
    let ready = call::wait_writable(line.socket(), patience);
    in_time(ready, "send")
}

fn wait_to_receive(line: &Line, patience: Duration) -> Result<(), Left> {
    if line.has_input() {
        return Ok(());
    }
    let ready = call::wait_readable(line.socket(), patience);
    in_time(ready, "receive")
}

fn in_time(ready: Result<bool, Error>, what: &str) -> Result<(), Left> {
    match ready {
        Ok(true) => Ok(()),
        Ok(false) => Err(failed(what, Error::TIMEDOUT)),
        Err(error) => Err(failed(what, error)),
    }
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
