//! A strand that runs in a separate process (`nprocs=`).
//!
//! All processes are forked before the first strand that is a thread. Each receives commands from
//! its parent over a socket pair. In the parent, a thread represents the strand at the barriers.
//! The strand's counters are in memory that both processes share.

use std::io::{self, BufReader, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Instant;

use engine::{BarrierEvent, BarrierObserver, StartBarrier};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sys::process::{ForkResult, exit_now, fork, prepare_child, wait_for_child};

use super::StrandOutcome;
use super::worker::Worker;
use super::workers::Workers;

/// A message from a strand's process to its parent.
#[derive(Debug, Serialize, Deserialize)]
enum ProcessReport {
    Event(BarrierEvent),
    Outcome(StrandOutcome),
}

/// A message from the parent to a strand's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ProcessCommand {
    /// The barrier of this transaction opened at this time.
    Open(usize, #[serde(with = "monotonic")] Instant),
    /// This transaction ends now.
    Interrupt(usize),
    /// The whole run ends now.
    Abort,
    /// The process closes its connections and sends its outcome.
    Finish,
}

/// Sends one message.
fn send(mut to: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    to.write_all(&serde_json::to_vec(message)?)
}

/// Returns the received messages. The end of the stream is an error.
fn receive_messages<T: DeserializeOwned>(from: &UnixStream) -> impl Iterator<Item = io::Result<T>> {
    let messages = serde_json::Deserializer::from_reader(BufReader::new(from)).into_iter();
    let ended = std::iter::once_with(|| Err(io::ErrorKind::UnexpectedEof.into()));
    messages
        .map(|message| message.map_err(io::Error::from))
        .chain(ended)
}

/// Serializes an `Instant` as nanoseconds of the monotonic clock, which all processes share.
pub(super) mod monotonic {
    use std::time::{Duration, Instant};

    use serde::{Deserialize, Deserializer, Serializer};
    use sys::clock::monotonic_ns;

    pub(crate) fn serialize<S: Serializer>(at: &Instant, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(monotonic_ns() - at.elapsed().as_nanos() as u64)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Instant, D::Error> {
        let at_ns = u64::deserialize(from)?;
        let ago = Duration::from_nanos(monotonic_ns().saturating_sub(at_ns));
        let now = Instant::now();
        Ok(now.checked_sub(ago).unwrap_or(now))
    }
}

/// The socket to the parent, over which the barrier of a strand's process reports its events.
#[derive(Debug)]
struct ParentLink(UnixStream);

impl BarrierObserver for ParentLink {
    fn notify(&self, event: BarrierEvent) {
        // The process ends with its parent, so a failed send needs no handling.
        let _ = send(&self.0, &ProcessReport::Event(event));
    }
}

/// A strand's process, as its parent controls it.
#[derive(Debug)]
pub(super) struct Process {
    pid: u32,
    link: UnixStream,
    /// The process was waited for. The system may have reused its PID.
    is_reaped: AtomicBool,
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process ends when its socket is closed.
        if !self.is_reaped.load(SeqCst) {
            let _ = self.link.shutdown(Shutdown::Both);
            let _ = wait_for_child(self.pid);
        }
    }
}

impl Process {
    /// Forks a process for this worker.
    pub(super) fn fork(worker: Worker) -> io::Result<Self> {
        let (parent_end, child_end) = UnixStream::pair()?;
        let parent = std::process::id();
        match fork()? {
            ForkResult::Parent(pid) => Ok(Self {
                pid,
                link: parent_end,
                is_reaped: AtomicBool::new(false),
            }),
            // Exits without dropping inherited values, because their descriptors are closed.
            ForkResult::Child => {
                exit_now(i32::from(run_child(worker, parent, &child_end).is_err()))
            }
        }
    }

    /// Sends a command. An error means that the process has ended, so it is ignored.
    pub(super) fn send_command(&self, command: ProcessCommand) {
        let _ = send(&self.link, &command);
    }

    /// Kills a process that does not answer. The PID is valid only until the process is waited for.
    pub(super) fn kill(&self) {
        let _ = sys::process::kill_child(self.pid);
    }

    /// Represents the strand at the barriers until its process has ended. Returns its outcome.
    pub(super) fn represent(&self, group: usize, barrier: &StartBarrier) -> StrandOutcome {
        let outcome = self.relay_reports(barrier);
        let _ = self.link.shutdown(Shutdown::Both);
        let ended = wait_for_child(self.pid);
        self.is_reaped.store(true, SeqCst);
        if let Ok(outcome) = outcome {
            return StrandOutcome { group, ..outcome };
        }
        let status = ended.map_or_else(|error| sys::describe(&error), |ended| ended.to_string());
        let reason = format!("process {} of a strand is gone: {status}", self.pid);
        StrandOutcome::from_failure(group, &reason, 0)
    }

    fn relay_reports(&self, barrier: &StartBarrier) -> io::Result<StrandOutcome> {
        let mut participant = Some(barrier.participant());
        let mut stage = 0;
        for report in receive_messages(&self.link) {
            match report? {
                ProcessReport::Outcome(outcome) => return Ok(outcome),
                ProcessReport::Event(BarrierEvent::Arrived) => {
                    let command = match barrier.arrive(stage) {
                        Some(at) => ProcessCommand::Open(stage, at),
                        None => ProcessCommand::Abort,
                    };
                    send(&self.link, &command)?;
                    stage += 1;
                }
                ProcessReport::Event(BarrierEvent::Left { failed }) => {
                    if let Some(participant) = participant.take() {
                        participant.leave(failed);
                    }
                    if !failed {
                        barrier.wait_for_run_end();
                    }
                    send(&self.link, &ProcessCommand::Finish)?;
                }
                ProcessReport::Event(event) => barrier.record_event(event),
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Runs a worker in its process, controlled by the parent.
fn run_child(worker: Worker, parent: u32, mut link: &UnixStream) -> io::Result<()> {
    let group = Arc::clone(&worker.group);
    let mut kept_descriptors = vec![link.as_fd()];
    kept_descriptors.extend(worker.listeners.descriptors());
    kept_descriptors.extend(group.descriptors());
    prepare_child(parent, &kept_descriptors)?;
    engine::mark_forked();
    let barrier = StartBarrier::new(&[(1, group.setup.group.transactions.len())]);
    let barrier = barrier.observed_by(ParentLink(link.try_clone()?));
    let mut workers = Workers::for_process(barrier, worker)?;
    for command in receive_messages(link) {
        match command? {
            ProcessCommand::Open(stage, at) => workers.start_transaction_at(stage, at),
            ProcessCommand::Interrupt(stage) => workers.interrupt(stage),
            ProcessCommand::Abort => workers.abort(),
            ProcessCommand::Finish => break,
        }
    }
    let responses = group.measurements.responses.as_ref();
    let Some(mut outcome) = workers.finish().pop() else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    outcome.failed |= responses.is_some_and(|file| !file.finish_with_log(&mut outcome.log));
    send(link, &ProcessReport::Outcome(outcome))?;
    link.shutdown(Shutdown::Write)?;
    // Unread commands would reset the connection on exit, and the outcome would be lost.
    io::copy(&mut link, &mut io::sink()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_in_order_until_the_end() {
        let (parent_end, child_end) = UnixStream::pair().unwrap();
        let commands = [
            ProcessCommand::Interrupt(9),
            ProcessCommand::Abort,
            ProcessCommand::Finish,
        ];
        let opened = Instant::now();
        send(&child_end, &ProcessCommand::Open(3, opened)).unwrap();
        for command in commands {
            send(&child_end, &command).unwrap();
        }
        drop(child_end);
        let mut received = receive_messages(&parent_end);
        let Some(Ok(ProcessCommand::Open(3, at))) = received.next() else {
            panic!("no time");
        };
        let distance = at.max(opened) - at.min(opened);
        assert!(distance < std::time::Duration::from_secs(1), "{distance:?}");
        for command in commands {
            assert_eq!(received.next().unwrap().unwrap(), command);
        }
        assert!(received.next().unwrap().is_err());
    }
}
