//! Execution of a master's commands, which start transactions and end the run.

use std::io;
use std::time::{Duration, Instant};

use engine::{BarrierStatus, Stop};
use server::RunningTest;

use super::session::Session;
use crate::strand::{Workers, ipv6_mapped_text};
use crate::wire::{Endian, MasterCommand};
use crate::{ProtocolStep, running_transaction_name};

/// Interval of checks for progress after the master's command. The strands still finish the
/// transaction: the command may arrive before the last data.
const QUIET_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Number of successive checks without progress after which strands are interrupted: 1 s. The limit
/// is a number of checks, not a time: a slave that gets no CPU time must not take its own delay for
/// silence.
const QUIET_POLLS: u32 = 100;

/// [`QUIET_POLLS`] for strands that only receive: 200 ms, TCP's minimum retransmission timeout.
const RECEIVER_QUIET_POLLS: u32 = 20;

/// Maximum wait at a barrier for strands that make progress, and for interrupted strands. A stock
/// slave has the same timeout.
const BARRIER_TIMEOUT: Duration = Duration::from_secs(6);

/// Maximum time from the request for counters to the end of the last strands. It is less than the
/// 15 s timeout of a stock master.
const LAST_STRANDS_TIMEOUT: Duration = Duration::from_secs(12);

/// Interval of checks of the strands between commands.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Timeout for the request for counters if this slave is stopped after all strands have ended.
const LAST_COMMAND_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum number of commands per run. It exceeds the number of transactions of any group, because
/// a master sends a command for each transaction of its longest group.
const MAX_COMMANDS: usize = 4096;

/// End of a run.
pub(super) enum RunEnd {
    /// The master has ended the run. The work ended at this time.
    Done(Instant),
    /// A strand has failed.
    StrandFailed,
    /// The run exceeds the slave's time limit.
    TooLong,
    /// Strands did not reach this barrier in time.
    BarrierTimedOut(usize),
    /// This number of strands still ran after the last timeout.
    StrandsStillRunning(usize),
    /// This slave was stopped at this stage of the run.
    Interrupted(String),
    /// This slave was stopped at this stage. The master would take a goodbye there for a normal
    /// end, so the slave sends none.
    InterruptedWithoutGoodbye(String),
    /// The control connection failed at this stage.
    ConnectionLost(String, io::Error),
}

/// Returns the stage of a run for messages. `started` is the last started transaction.
pub(super) fn stage_name(started: Option<usize>) -> String {
    match started {
        None => "before Txn1".to_owned(),
        Some(stage) => format!("in {}", running_transaction_name(stage)),
    }
}

impl Session<'_> {
    /// Executes the master's commands until it requests the counters or leaves, or a strand fails.
    pub(super) fn run_commands(
        &self,
        workers: &mut Workers,
        order: Endian,
        running: &RunningTest,
    ) -> RunEnd {
        let mut started = None;
        let run_deadline = Instant::now() + self.limits.work.duration + self.idle_timeout();
        for _ in 0..MAX_COMMANDS {
            let command = match self.next_command(workers, started, order, run_deadline) {
                Ok(command) => command,
                Err(end) => return end,
            };
            let peer = ipv6_mapped_text(self.control.peer());
            self.print_step(&ProtocolStep::CommandReceived(command, &peer));
            match command {
                MasterCommand::NextTransaction(number) => {
                    let stage = number as usize;
                    if stage >= workers.transactions_of_longest_group()
                        || started.is_some_and(|last| stage <= last)
                    {
                        continue;
                    }
                    let status = self.wait_for_barrier(workers, started, stage);
                    if self.server.cancel_stop.is_set() {
                        return RunEnd::Interrupted(stage_name(started));
                    }
                    if self.cancel.is_set() {
                        return self.master_left(stage_name(started), order);
                    }
                    if status.failed {
                        return RunEnd::StrandFailed;
                    }
                    if !status.complete && status.running > 0 {
                        return RunEnd::BarrierTimedOut(stage);
                    }
                    workers.start_transaction(stage);
                    self.print_step(&ProtocolStep::BarrierReleased(number));
                    started = Some(stage);
                }
                MasterCommand::SendStatistics => {
                    return self.wait_for_last_strands(workers, started, order);
                }
                MasterCommand::Abort | MasterCommand::Error | MasterCommand::Other(..) => {
                    running.fail(&"the client aborted the run");
                    return RunEnd::Done(Instant::now());
                }
            }
        }
        let words = format!("more than {MAX_COMMANDS} commands");
        let error = io::Error::new(io::ErrorKind::InvalidData, words);
        RunEnd::ConnectionLost(stage_name(started), error)
    }

    /// Waits for the end of all strands after the master has requested the counters.
    fn wait_for_last_strands(
        &self,
        workers: &Workers,
        started: Option<usize>,
        order: Endian,
    ) -> RunEnd {
        let stage = || "at the statistics".to_owned();
        let deadline = Instant::now() + LAST_STRANDS_TIMEOUT;
        if let Some(last) = started.filter(|last| workers.continues_until_interrupted(*last)) {
            let (status, last_activity) =
                self.wait_until_quiet(workers, None, deadline, RECEIVER_QUIET_POLLS);
            if self.cancel.is_set() && !self.server.cancel_stop.is_set() {
                return self.master_left(stage(), order);
            }
            if status.running > 0 {
                workers.interrupt(last);
                return RunEnd::Done(last_activity);
            }
        }
        loop {
            let now = Instant::now();
            let status = workers.wait_for_barrier(None, deadline.min(now + POLL_INTERVAL));
            if status.running == 0 {
                return RunEnd::Done(Instant::now());
            }
            if self.server.cancel_stop.is_set() {
                return RunEnd::InterruptedWithoutGoodbye(stage());
            }
            if now >= deadline {
                return RunEnd::StrandsStillRunning(status.running);
            }
            let poll_result = self.control.wait_readable(now).and_then(|has_command| {
                // The only possible command now is an abort.
                let _: Option<[u8; MasterCommand::LEN]> = has_command
                    .then(|| self.control.read(deadline))
                    .transpose()?;
                Ok(has_command)
            });
            match poll_result {
                Ok(false) => {}
                Ok(true) => return RunEnd::Done(Instant::now()),
                Err(error) => return RunEnd::ConnectionLost(stage(), error),
            }
        }
    }

    /// Waits for the master's next command; fails if a strand fails.
    fn next_command(
        &self,
        workers: &Workers,
        started: Option<usize>,
        order: Endian,
        run_deadline: Instant,
    ) -> Result<MasterCommand, RunEnd> {
        let lost = |error| RunEnd::ConnectionLost(stage_name(started), error);
        let deadline = match started {
            None => self.idle_deadline(),
            // The master may run its longest transaction while this slave's strands only wait.
            Some(_) => self.idle_deadline() + self.limits.work.duration,
        };
        loop {
            match self.control.wait_readable(Instant::now() + POLL_INTERVAL) {
                Ok(true) => break,
                Ok(false) if workers.wait_for_barrier(None, Instant::now()).failed => {
                    return Err(RunEnd::StrandFailed);
                }
                Ok(false) if Instant::now() >= run_deadline => return Err(RunEnd::TooLong),
                Ok(false) if Instant::now() >= deadline => {
                    return Err(lost(io::ErrorKind::TimedOut.into()));
                }
                Ok(false) => {}
                Err(_) if self.server.cancel_stop.is_set() => {
                    return self.last_command(workers, started, order);
                }
                Err(error) => return Err(lost(error)),
            }
        }
        if Instant::now() >= run_deadline {
            return Err(RunEnd::TooLong);
        }
        let bytes = match self
            .control
            .read::<{ MasterCommand::LEN }>(self.idle_deadline())
        {
            Ok(bytes) => bytes,
            // The slave was stopped after the first byte of the command.
            Err(_) if self.server.cancel_stop.is_set() => {
                return self.last_command(workers, started, order);
            }
            Err(error) => return Err(lost(error)),
        };
        MasterCommand::decode(&bytes, order).map_err(|_| {
            lost(io::Error::new(
                io::ErrorKind::InvalidData,
                "Wrong command magic",
            ))
        })
    }

    /// Receives the last command after a stop of this slave. If all strands have ended, the run is
    /// complete and the master may still request the counters.
    fn last_command(
        &self,
        workers: &Workers,
        started: Option<usize>,
        order: Endian,
    ) -> Result<MasterCommand, RunEnd> {
        let interrupted = || RunEnd::Interrupted(stage_name(started));
        let in_last_transaction =
            started.is_some_and(|last| last + 1 == workers.transactions_of_longest_group());
        if !in_last_transaction || workers.wait_for_barrier(None, Instant::now()).running > 0 {
            return Err(interrupted());
        }
        let mut bytes = [0; MasterCommand::LEN];
        let deadline = Instant::now() + LAST_COMMAND_TIMEOUT;
        let received = self.control.receive(&mut bytes, deadline, &Stop::new());
        if received.ok() != Some(bytes.len()) {
            return Err(interrupted());
        }
        MasterCommand::decode(&bytes, order).map_err(|_| interrupted())
    }

    /// Returns the end of a run whose master closed the connection. An abort before that is a
    /// normal end.
    fn master_left(&self, stage: String, order: Endian) -> RunEnd {
        let mut bytes = [0; MasterCommand::LEN];
        let deadline = self.idle_deadline();
        match self
            .control
            .receive(&mut bytes, deadline, self.server.cancel_stop)
        {
            Ok(_) if MasterCommand::decode(&bytes, order) == Ok(MasterCommand::Abort) => {
                RunEnd::Done(Instant::now())
            }
            Ok(_) => RunEnd::ConnectionLost(stage, io::ErrorKind::UnexpectedEof.into()),
            Err(error) => RunEnd::ConnectionLost(stage, error),
        }
    }

    /// Waits for the strands at a barrier. Interrupts the running transaction if they make no
    /// progress.
    fn wait_for_barrier(
        &self,
        workers: &Workers,
        started: Option<usize>,
        stage: usize,
    ) -> BarrierStatus {
        let deadline = || Instant::now() + BARRIER_TIMEOUT;
        let wait = |quiet_polls| {
            self.wait_until_quiet(workers, Some(stage), deadline(), quiet_polls)
                .0
        };
        let Some(current_stage) = started else {
            return wait(u32::MAX);
        };
        let quiet_polls = if workers.continues_until_interrupted(current_stage) {
            RECEIVER_QUIET_POLLS
        } else {
            QUIET_POLLS
        };
        let status = wait(quiet_polls);
        if status.complete {
            return status;
        }
        workers.interrupt(current_stage);
        wait(u32::MAX)
    }

    /// Waits while the strands make progress, but not after a stop or after the master has left.
    /// Returns the status of the barrier and the time of the last progress.
    fn wait_until_quiet(
        &self,
        workers: &Workers,
        stage: Option<usize>,
        deadline: Instant,
        max_quiet_polls: u32,
    ) -> (BarrierStatus, Instant) {
        let progress = || {
            let counts = workers.counts();
            (counts.bytes(), counts.operations)
        };
        let (mut before, mut last_activity, mut quiet_polls) = (progress(), Instant::now(), 0);
        loop {
            let next_poll = deadline.min(Instant::now() + QUIET_POLL_INTERVAL);
            let status = workers.wait_for_barrier(stage, next_poll);
            let (now, after) = (Instant::now(), progress());
            if after == before && status.selecting_count == 0 {
                quiet_polls += 1;
            } else {
                (before, last_activity, quiet_polls) = (after, now, 0);
            }
            let is_over = status.ends_wait() || self.cancel.is_set();
            if is_over || quiet_polls >= max_quiet_polls || now >= deadline {
                return (status, last_activity);
            }
        }
    }
}
