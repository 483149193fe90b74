//! One strand's thread: its transactions, one after the other.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use engine::script::{Failure, Orders, Pass, STEP_BYTES, Script, ScriptEnd, StepTimes};
use engine::{BarrierEvent, Counters, Reason, StartBarrier, Stop};
use sys::buffer::BufferRing;
use sys::call::Error;
use sys::counter::EventCounters;
use sys::message::{HEADER_BYTES, MOST};
use sys::process::thread_id;

use super::allowance::{Allowance, has_encryption, process_bytes};
use super::connection_manager::{Desk, Worker};
use super::connections::Connections;
use super::journal::Journal;
use super::settle::settle;
use super::{Listeners, Log, Shared, StrandOutcome, TransactionOutcome, Watching, compile};
use crate::profile::memory::{PROCESS, TLS};
use crate::workorder::{Group, Transaction};

/// What a strand's buffer begins at a multiple of, bytes.
const PAGE: usize = 4096;

/// Bytes that every strand has for what it sends and receives, at least; uperf's.
const LEAST_BUFFER: usize = 8192;

/// What the random sizes of a strand come from.
pub(super) fn seed(group: usize, index: usize) -> u64 {
    (group as u64) << 32 | index as u64
}

/// What one strand's thread begins with.
pub(super) struct Member {
    pub(super) barrier: Arc<StartBarrier>,
    pub(super) shared: Arc<Shared>,
    pub(super) counters: Arc<Counters>,
    pub(super) index: usize,
    pub(super) group: usize,
    pub(super) seed: u64,
    pub(super) listeners: Listeners,
    /// It is the only strand of a process.
    pub(super) is_process: bool,
}

impl Member {
    pub(super) fn run(self) -> StrandOutcome {
        let shared = &*self.shared;
        let mut outcome = StrandOutcome {
            group: self.group,
            transactions: Vec::with_capacity(shared.group.transactions.len()),
            log: Log::default(),
            failed: false,
        };
        let allowance = self.allowance();
        let mut desk = Desk {
            barrier: &self.barrier,
            index: self.index,
            connections: Connections::new(),
            peers: &shared.peers,
            tls: &shared.tls,
            policy: shared.policy,
            follows: shared.follows,
            listeners: self.listeners,
            account: shared.account.as_ref(),
            allowance,
            files: Arc::clone(&shared.files),
            next_file: self.index,
            log: Log::default(),
        };
        let participant = self.barrier.participant();
        // On pages of its own, as netperf's buffers are: the kernel copies whole lines of cache then.
        let Some(mut ring) = BufferRing::new(1, buffer_bytes(&shared.group), PAGE, 0) else {
            desk.log.say(
                "no memory for a strand's buffer",
                Error::NOMEM.raw_os_error(),
            );
            participant.leave(true);
            outcome.log = desk.log;
            outcome.failed = true;
            return outcome;
        };
        let buffer = ring.advance();
        let events = shared.watching.counters(&mut desk.log);
        for (stage, transaction) in shared.group.transactions.iter().enumerate() {
            // Before the barrier: it is no part of the transaction's time.
            let mut script = Script::new(shared.lists[stage].clone(), self.seed);
            if self.barrier.arrive(stage).is_none() {
                break;
            }
            let began = Instant::now();
            let before = self.counters.counts();
            let part = Part {
                transaction,
                stop: &shared.stops[stage],
                counters: &self.counters,
                watching: &shared.watching,
                events: events.as_ref(),
            };
            let (end, times) = part.run(&mut script, &mut desk, buffer);
            outcome.transactions.push(TransactionOutcome {
                began,
                elapsed: began.elapsed(),
                before,
                counts: self.counters.counts().since(&before),
                cut: None,
                rounds: times
                    .as_ref()
                    .map_or(Pass::default(), |times| *times.rounds()),
                flowops: times
                    .as_ref()
                    .map_or_else(Vec::new, |times| times.steps().to_vec()),
                events: times
                    .as_ref()
                    .and_then(|times| times.counts().map(<[_]>::to_vec)),
                histogram: times.and_then(|times| times.histogram().cloned()),
            });
            match end {
                ScriptEnd::Failed(at, failure)
                    if shared.is_end(transaction, at, began.elapsed(), &failure) =>
                {
                    self.barrier.report(BarrierEvent::PeerClosed);
                }
                ScriptEnd::Failed(at, failure) => {
                    say(&mut desk.log, transaction, at, &failure);
                    outcome.failed = true;
                    break;
                }
                ScriptEnd::Stopped(Reason::Cancelled) => break,
                ScriptEnd::EndOfStream(_) => self.barrier.report(BarrierEvent::PeerClosed),
                ScriptEnd::Done | ScriptEnd::Stopped(_) => {}
            }
            if let (Some(duration), true) = (transaction.duration, shared.has_stock_slave) {
                settle(&self.barrier, &desk.connections, began, duration, buffer);
            }
        }
        participant.leave(outcome.failed);
        if !outcome.failed {
            self.barrier.await_dismissal();
        }
        outcome.log = desk.log;
        outcome
    }
}

impl Member {
    fn allowance(&self) -> Allowance {
        let (account, group) = (self.shared.account.as_ref(), &self.shared.group);
        if self.is_process {
            Allowance::of_process(account, group)
        } else {
            Allowance::of_thread(account, group)
        }
    }
}

/// One strand's run of one transaction.
struct Part<'a> {
    transaction: &'a Transaction,
    stop: &'a Stop,
    counters: &'a Counters,
    watching: &'a Watching,
    events: Option<&'a Rc<EventCounters>>,
}

impl Part<'_> {
    fn run(
        &self,
        script: &mut Script,
        desk: &mut Desk<'_>,
        buffer: &mut [u8],
    ) -> (ScriptEnd, Option<StepTimes>) {
        let transaction = self.transaction;
        let mut worker = Worker { desk, transaction };
        let orders = Orders {
            rounds: compile::rounds(transaction),
            pacing: compile::pacing(transaction),
            stop: self.stop,
            counters: self.counters,
        };
        let watching = self.watching;
        if watching.is_nothing() {
            let end = script.run(&mut worker, &orders, buffer, &mut ());
            return (end, None);
        }
        let steps = transaction.flowops.len();
        let with_steps = watching.flowops || watching.responses.is_some();
        let mut times = StepTimes::new(steps, with_steps, watching.cpu);
        if let Some(file) = &watching.responses {
            times = times.with_journal(Box::new(Journal::new(file, thread_id())));
        }
        if let Some(events) = self.events {
            times = times.with_counters(Rc::clone(events));
        }
        // What is executed once has no distribution.
        let is_repeated = transaction.duration.is_some() || transaction.iterations > 1;
        if watching.histogram && is_repeated {
            times = times.with_histogram();
        }
        let end = script.run(&mut worker, &orders, buffer, &mut times);
        (end, Some(times))
    }
}

impl Watching {
    fn is_nothing(&self) -> bool {
        !self.transactions && !self.flowops && !self.histogram && self.responses.is_none()
    }

    /// The calling thread's counters, if there is something to be counted.
    fn counters(&self, log: &mut Log) -> Option<Rc<EventCounters>> {
        if self.counters.is_empty() {
            return None;
        }
        match EventCounters::open(&self.counters) {
            Ok((counters, _)) if counters.len() == self.counters.len() => Some(Rc::new(counters)),
            Ok(_) => {
                log.warn("a strand has not all of the counters");
                None
            }
            Err(error) => {
                log.warn(format!(
                    "a strand has no counters: {}",
                    sys::describe(&error)
                ));
                None
            }
        }
    }
}

/// What a strand uses of its stack: 16 KiB were measured.
const STACK: usize = 32 << 10;

/// What it has beside all that depends on its group: places in lists, its counters, its handles.
const BESIDE: usize = 2 << 10;

/// Bytes that a strand has: its stack, its buffer, a header for each message of a call, its list, what it says of
/// each transaction, what TLS keeps, and what it has as a process.
pub(crate) fn strand_bytes(group: &Group) -> u64 {
    let transactions = group.transactions.iter();
    let longest = transactions
        .map(|transaction| transaction.flowops.len())
        .max();
    let buffer = buffer_bytes(group);
    let datagrams = if compile::has_datagrams(group) {
        buffer
    } else {
        0
    };
    let bytes = STACK
        + BESIDE
        + buffer
        + datagrams
        + headers(group) * HEADER_BYTES
        + longest.unwrap_or(0) * STEP_BYTES
        + group.transactions.len() * size_of::<TransactionOutcome>();
    let tls = if has_encryption(group) { TLS } else { 0 };
    let process = if group.strands.processes {
        PROCESS + process_bytes(group)
    } else {
        0
    };
    bytes as u64 + tls + process
}

/// Messages of the largest call.
fn headers(group: &Group) -> usize {
    let transfers =
        (group.flowops()).filter(|flowop| flowop.kind.transfers() && flowop.batch_size > 1);
    let most = transfers.map(|flowop| flowop.batch_size).max();
    usize::try_from(most.unwrap_or(0)).map_or(MOST, |most| most.min(MOST))
}

/// Bytes of a strand's buffer: the most that any flowop of the group moves at once.
pub(super) fn buffer_bytes(group: &Group) -> usize {
    let transfers = group.flowops().filter(|flowop| flowop.kind.transfers());
    let largest = transfers.map(|flowop| flowop.size.largest() as usize).max();
    largest.unwrap_or(0).max(LEAST_BUFFER)
}

/// Logs a failure as uperf does: a failed call as `Error for flowop write  Message too long`; what has words of its
/// own, with these.
fn say(log: &mut Log, transaction: &Transaction, at: usize, failure: &Failure) {
    let flowop = transaction.flowops[at].kind;
    let is_call = failure.errno != 0 && !failure.what.contains(' ');
    let what = if is_call {
        format!("Error for flowop {flowop} ")
    } else {
        failure.what.clone()
    };
    log.say(what, failure.errno);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flowop, Kind, Size};

    #[test]
    fn a_strand_has_a_buffer_and_headers() {
        let bytes = |size, batch_size| {
            let write = Flowop {
                size: Size::Fixed(size),
                batch_size,
                ..Flowop::new(Kind::Write)
            };
            strand_bytes(&Group {
                transactions: vec![Transaction {
                    flowops: vec![Flowop::new(Kind::Connect), write],
                    ..Transaction::default()
                }],
                ..Group::default()
            })
        };
        let with_list = bytes(10_000, 1);
        assert_eq!(bytes(20_000, 1), with_list + 10_000);
        let header = HEADER_BYTES as u64;
        assert_eq!(bytes(10_000, 8), with_list + 8 * header);
        assert_eq!(bytes(10_000, u64::MAX), with_list + 1024 * header);
    }
}
