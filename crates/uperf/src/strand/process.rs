//! A strand that is a process of its own (`nprocs=`).
//!
//! All processes are forked before the first strand that is a thread. Each receives its parent's orders over
//! a socket pair, and in the parent a thread takes the strand's place at the barriers. The strand's counters are in
//! memory that both processes share.

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
use sys::process::{Forked, fork, leave, settle_as_child, wait_for};

use super::StrandOutcome;
use super::worker::Worker;
use super::workers::Workers;

/// A message from a strand's process to its parent.
#[derive(Debug, Serialize, Deserialize)]
enum Report {
    Event(BarrierEvent),
    Outcome(StrandOutcome),
}

/// A message from the parent to a strand's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Order {
    /// The barrier of this number has opened at that time.
    Open(usize, #[serde(with = "monotonic")] Instant),
    /// The transaction of this number ends now.
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

/// Returns the messages that come, up to the end of the stream, which is an error.
fn messages<T: DeserializeOwned>(from: &UnixStream) -> impl Iterator<Item = io::Result<T>> {
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

/// The parent's socket, as the barrier of a strand's process has it.
#[derive(Debug)]
struct Parent(UnixStream);

impl BarrierObserver for Parent {
    fn notify(&self, event: BarrierEvent) {
        // A parent that is gone takes this process with it.
        let _ = send(&self.0, &Report::Event(event));
    }
}

/// A strand's process, as its parent has it.
#[derive(Debug)]
pub(super) struct Process {
    number: u32,
    link: UnixStream,
    /// It has been waited for: the number may be another's.
    is_over: AtomicBool,
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that nobody leads any more ends.
        if !self.is_over.load(SeqCst) {
            let _ = self.link.shutdown(Shutdown::Both);
            let _ = wait_for(self.number);
        }
    }
}

impl Process {
    /// Forks a process for this worker.
    pub(super) fn fork(worker: Worker) -> io::Result<Self> {
        let (here, there) = UnixStream::pair()?;
        let parent = std::process::id();
        match fork()? {
            Forked::Parent(number) => Ok(Self {
                number,
                link: here,
                is_over: AtomicBool::new(false),
            }),
            // Whatever was inherited is not to be dropped: its descriptors are closed.
            Forked::Child => leave(i32::from(live(worker, parent, &there).is_err())),
        }
    }

    /// Sends an order. A process that is gone needs none.
    pub(super) fn order(&self, order: Order) {
        let _ = send(&self.link, &order);
    }

    /// Kills a process that does not answer. Only as long as it is waited for: the number may be another's then.
    pub(super) fn kill(&self) {
        let _ = sys::process::kill(self.number);
    }

    /// Takes the strand's place at the barriers until the process has ended.
    pub(super) fn accompany(&self, group: usize, barrier: &StartBarrier) -> StrandOutcome {
        let outcome = self.follow(barrier);
        let _ = self.link.shutdown(Shutdown::Both);
        let ended = wait_for(self.number);
        self.is_over.store(true, SeqCst);
        if let Ok(outcome) = outcome {
            return StrandOutcome { group, ..outcome };
        }
        let how = ended.map_or_else(|error| sys::describe(&error), |ended| ended.to_string());
        let why = format!("process {} of a strand is gone: {how}", self.number);
        StrandOutcome::of_failure(group, &why, 0)
    }

    fn follow(&self, barrier: &StartBarrier) -> io::Result<StrandOutcome> {
        let mut participant = Some(barrier.participant());
        let mut stage = 0;
        for report in messages(&self.link) {
            match report? {
                Report::Outcome(outcome) => return Ok(outcome),
                Report::Event(BarrierEvent::Arrived) => {
                    let order = match barrier.arrive(stage) {
                        Some(at) => Order::Open(stage, at),
                        None => Order::Abort,
                    };
                    send(&self.link, &order)?;
                    stage += 1;
                }
                Report::Event(BarrierEvent::Left { failed }) => {
                    if let Some(participant) = participant.take() {
                        participant.leave(failed);
                    }
                    if !failed {
                        barrier.await_dismissal();
                    }
                    send(&self.link, &Order::Finish)?;
                }
                Report::Event(event) => barrier.report(event),
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Runs a worker in its process, as its parent orders.
fn live(worker: Worker, parent: u32, mut link: &UnixStream) -> io::Result<()> {
    let group = Arc::clone(&worker.group);
    let mut keep = vec![link.as_fd()];
    keep.extend(worker.listeners.descriptors());
    keep.extend(group.descriptors());
    settle_as_child(parent, &keep)?;
    engine::forked();
    let barrier = StartBarrier::new(&[(1, group.setup.group.transactions.len())]);
    let barrier = barrier.observed_by(Parent(link.try_clone()?));
    let mut workers = Workers::of_process(barrier, worker)?;
    for order in messages(link) {
        match order? {
            Order::Open(stage, at) => workers.release_at(stage, at),
            Order::Interrupt(stage) => workers.interrupt(stage),
            Order::Abort => workers.abort(),
            Order::Finish => break,
        }
    }
    let responses = group.watching.responses.as_ref();
    let Some(mut outcome) = workers.finish().pop() else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    if let Some(Err(error)) = responses.map(|file| file.finish()) {
        outcome.log.say(format!("-X: {}", sys::describe(&error)), 0);
    }
    send(link, &Report::Outcome(outcome))?;
    link.shutdown(Shutdown::Write)?;
    // Orders that are unread when it ends would reset the connection, and the outcome with it.
    io::copy(&mut link, &mut io::sink()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive() {
        let (here, there) = UnixStream::pair().unwrap();
        let orders = [Order::Interrupt(9), Order::Abort, Order::Finish];
        let opened = Instant::now();
        send(&there, &Order::Open(3, opened)).unwrap();
        for order in orders {
            send(&there, &order).unwrap();
        }
        drop(there);
        let mut received = messages(&here);
        let Some(Ok(Order::Open(3, at))) = received.next() else {
            panic!("no time");
        };
        let distance = at.max(opened) - at.min(opened);
        assert!(distance < std::time::Duration::from_secs(1), "{distance:?}");
        for order in orders {
            assert_eq!(received.next().unwrap().unwrap(), order);
        }
        assert!(received.next().unwrap().is_err());
    }
}
