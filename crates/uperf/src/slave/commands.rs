//! The commands of a master, which begin its transactions and end its run.

use std::io;
use std::time::{Duration, Instant};

use engine::{BarrierStatus, Stop};

use server::Running;

use super::session::Session;
use crate::strand::{Workers, machine_text};
use crate::wire::{Command, Order};
use crate::{Step, running_name};

/// How often strands are looked at that finish by themselves what the master's have finished already: its
/// word may come before the last data.
const QUIET_LOOK: Duration = Duration::from_millis(10);

/// So many looks in turn must find that nothing is done: a second. By looks, as whoever gets no CPU for so
/// long does nothing either, and is not at its end.
const GRACE_LOOKS: u32 = 100;

/// The same of what only receives: the shortest time in which TCP sends again.
const QUIET_LOOKS: u32 = 20;

/// How long strands may take that do something, and how long they may then take to come to a barrier; a stock
/// slave's patience.
const BARRIER: Duration = Duration::from_secs(6);

/// How long strands may go on when the master wants its figures: less than the 15 s that a stock master
/// waits for them.
const LAST_STRANDS: Duration = Duration::from_secs(12);

/// How often the strands are looked at while the master says nothing.
const LOOK: Duration = Duration::from_millis(50);

/// How long the master of a run that has come to its end may take to ask for the figures, if this slave is stopped.
const LAST_COMMAND: Duration = Duration::from_secs(1);

/// Commands that a master may send: of the longest group of all that it has, each transaction, and more.
const MOST_COMMANDS: usize = 4096;

/// Why nothing more is done for the master.
pub(super) enum Ending {
    /// It has what it wanted, since then.
    Done(Instant),
    /// A strand has failed.
    Failed,
    /// The run takes longer than this slave lets it.
    Long,
    /// Strands did not come to this barrier.
    Late(usize),
    /// So many strands went on after the master's had ended.
    Unended(usize),
    /// Somebody here wants it to end, and where it was.
    Interrupted(String),
    /// The same at a place where a goodbye would be that of a run that came to its end.
    Broken(String),
    /// The connection is of no use any more, since it was there.
    Lost(String, io::Error),
}

/// Where a run is, for the message about its end.
pub(super) fn place(opened: Option<usize>) -> String {
    match opened {
        None => "before Txn1".to_owned(),
        Some(stage) => format!("in {}", running_name(stage)),
    }
}

impl Session<'_> {
    /// Does what the master says until it wants the figures, is gone, or a strand fails.
    pub(super) fn obey(&self, workers: &mut Workers, order: Order, running: &Running) -> Ending {
        let mut opened = None;
        let longest = Instant::now() + self.limits.work.duration + self.idle();
        for _ in 0..MOST_COMMANDS {
            let command = match self.next_command(workers, opened, order, longest) {
                Ok(command) => command,
                Err(outcome) => return outcome,
            };
            self.step(&Step::Heard(command, &machine_text(self.control.peer())));
            match command {
                Command::NextTransaction(number) => {
                    let stage = number as usize;
                    if stage >= workers.stages() || opened.is_some_and(|opened| stage <= opened) {
                        continue;
                    }
                    let status = self.await_barrier(workers, opened, stage);
                    if self.server.cut.is_set() {
                        return Ending::Interrupted(place(opened));
                    }
                    if self.gone.is_set() {
                        return self.master_left(place(opened), order);
                    }
                    if status.failed {
                        return Ending::Failed;
                    }
                    if !status.complete && status.running > 0 {
                        return Ending::Late(stage);
                    }
                    workers.release(stage);
                    self.step(&Step::Unlocked(number));
                    opened = Some(stage);
                }
                Command::SendStatistics => return self.await_last_strands(workers, opened, order),
                Command::Abort | Command::Error | Command::Other(..) => {
                    running.fail(&"the client ended it before its time");
                    return Ending::Done(Instant::now());
                }
            }
        }
        let words = format!("more than {MOST_COMMANDS} commands");
        let error = io::Error::new(io::ErrorKind::InvalidData, words);
        Ending::Lost(place(opened), error)
    }

    /// The master has all that it wanted but the figures.
    fn await_last_strands(&self, workers: &Workers, opened: Option<usize>, order: Order) -> Ending {
        let place = || "at the statistics".to_owned();
        let until = Instant::now() + LAST_STRANDS;
        if let Some(last) = opened.filter(|last| workers.awaits_end(*last)) {
            let (status, last_news) = self.await_quiet(workers, None, until, QUIET_LOOKS);
            if self.gone.is_set() && !self.server.cut.is_set() {
                return self.master_left(place(), order);
            }
            if status.running > 0 {
                workers.interrupt(last);
                return Ending::Done(last_news);
            }
        }
        loop {
            let now = Instant::now();
            let status = workers.wait(None, until.min(now + LOOK));
            if status.running == 0 {
                return Ending::Done(Instant::now());
            }
            if self.server.cut.is_set() {
                return Ending::Broken(place());
            }
            if now >= until {
                return Ending::Unended(status.running);
            }
            let gone = self.control.is_readable(now).and_then(|speaks| {
                // There is nothing more for it to say but that it wants no figures either.
                let _: Option<[u8; Command::LEN]> =
                    speaks.then(|| self.control.read(self.soon())).transpose()?;
                Ok(speaks)
            });
            match gone {
                Ok(false) => {}
                Ok(true) => return Ending::Done(Instant::now()),
                Err(error) => return Ending::Lost(place(), error),
            }
        }
    }

    /// Waits for the master's next word, as long as no strand fails.
    fn next_command(
        &self,
        workers: &Workers,
        opened: Option<usize>,
        order: Order,
        longest: Instant,
    ) -> Result<Command, Ending> {
        let lost = |error| Ending::Lost(place(opened), error);
        let until = match opened {
            None => self.soon(),
            // Strands that only wait meanwhile do so for as long as the longest transaction.
            Some(_) => self.soon() + self.limits.work.duration,
        };
        loop {
            match self.control.is_readable(Instant::now() + LOOK) {
                Ok(true) => break,
                Ok(false) if workers.wait(None, Instant::now()).failed => {
                    return Err(Ending::Failed);
                }
                Ok(false) if Instant::now() >= longest => return Err(Ending::Long),
                Ok(false) if Instant::now() >= until => {
                    return Err(lost(io::ErrorKind::TimedOut.into()));
                }
                Ok(false) => {}
                Err(_) if self.server.cut.is_set() => {
                    return self.last_command(workers, opened, order);
                }
                Err(error) => return Err(lost(error)),
            }
        }
        if Instant::now() >= longest {
            return Err(Ending::Long);
        }
        let bytes = match self.control.read::<{ Command::LEN }>(self.soon()) {
            Ok(bytes) => bytes,
            // The stop came right after the first byte.
            Err(_) if self.server.cut.is_set() => {
                return self.last_command(workers, opened, order);
            }
            Err(error) => return Err(lost(error)),
        };
        Command::decode(&bytes, order).map_err(|_| {
            lost(io::Error::new(
                io::ErrorKind::InvalidData,
                "Wrong command magic",
            ))
        })
    }

    /// The word of a master whose run has just come to its end when this slave is stopped.
    fn last_command(
        &self,
        workers: &Workers,
        opened: Option<usize>,
        order: Order,
    ) -> Result<Command, Ending> {
        let interrupted = || Ending::Interrupted(place(opened));
        let is_last = opened.is_some_and(|opened| opened + 1 == workers.stages());
        if !is_last || workers.wait(None, Instant::now()).running > 0 {
            return Err(interrupted());
        }
        let mut bytes = [0; Command::LEN];
        let until = Instant::now() + LAST_COMMAND;
        let received = self.control.receive(&mut bytes, until, &Stop::new());
        if received.ok() != Some(bytes.len()) {
            return Err(interrupted());
        }
        Command::decode(&bytes, order).map_err(|_| interrupted())
    }

    /// The end for a master that has closed its connection, perhaps after it has said so.
    fn master_left(&self, place: String, order: Order) -> Ending {
        let mut bytes = [0; Command::LEN];
        let until = self.soon();
        match self.control.receive(&mut bytes, until, self.server.cut) {
            Ok(_) if Command::decode(&bytes, order) == Ok(Command::Abort) => {
                Ending::Done(Instant::now())
            }
            Ok(_) => Ending::Lost(place, io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Ending::Lost(place, error),
        }
    }

    /// Waits for the strands at a barrier, and ends what they do if they do not come by themselves.
    fn await_barrier(
        &self,
        workers: &Workers,
        opened: Option<usize>,
        stage: usize,
    ) -> BarrierStatus {
        let soon = || Instant::now() + BARRIER;
        let wait = |looks| self.await_quiet(workers, Some(stage), soon(), looks).0;
        let Some(opened) = opened else {
            return wait(u32::MAX);
        };
        let looks = if workers.awaits_end(opened) {
            QUIET_LOOKS
        } else {
            GRACE_LOOKS
        };
        let status = wait(looks);
        if status.complete {
            return status;
        }
        workers.interrupt(opened);
        wait(u32::MAX)
    }

    /// Waits as long as something is done, and there is a master and no stop; and when the last was.
    fn await_quiet(
        &self,
        workers: &Workers,
        stage: Option<usize>,
        until: Instant,
        looks: u32,
    ) -> (BarrierStatus, Instant) {
        let done = || {
            let counts = workers.counts();
            (counts.bytes(), counts.operations)
        };
        let (mut before, mut last_news, mut quiet_looks) = (done(), Instant::now(), 0);
        loop {
            let status = workers.wait(stage, until.min(Instant::now() + QUIET_LOOK));
            let (now, after) = (Instant::now(), done());
            if after == before && status.selecting == 0 {
                quiet_looks += 1;
            } else {
                (before, last_news, quiet_looks) = (after, now, 0);
            }
            let is_over = status.is_settled() || self.gone.is_set();
            if is_over || quiet_looks >= looks || now >= until {
                return (status, last_news);
            }
        }
    }
}
