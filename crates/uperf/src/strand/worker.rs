//! One strand's thread: its transactions, one after the other.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use engine::script::{Failure, STEP_BYTES, Script, StepTimes};
use engine::{BarrierEvent, Counters, Job, JobBody, Path, Reason, StartBarrier, Steps};
use model::Ended;
use sys::buffer::BufferRing;
use sys::call::Error;
use sys::counter::EventCounters;
use sys::message::{HEADER_BYTES, MOST};
use sys::process::thread_id;

use super::allowance::{Allowance, has_encryption, process_bytes};
use super::connection_manager::StrandConnections;
use super::connections::ConnectionPool;
use super::journal::Journal;
use super::settle::settle;
use super::{Listeners, Log, StrandOutcome, TransactionOutcome, Watching, WorkerGroup, compile};
use crate::profile::memory::{PROCESS, TLS, buffer_bytes};
use crate::workorder::{Group, Transaction};

/// What a strand's buffer begins at a multiple of, bytes.
const PAGE: u32 = 4096;

/// What the random sizes of a strand come from.
pub(super) fn seed(group: usize, index: usize) -> u64 {
    (group as u64) << 32 | index as u64
}

/// One strand at its start.
pub(super) struct Worker {
    pub(super) barrier: Arc<StartBarrier>,
    pub(super) group: Arc<WorkerGroup>,
    pub(super) counters: Arc<Counters>,
    /// Number of the strand in its group.
    pub(super) index: usize,
    /// Number of the group among those of this process.
    pub(super) group_number: usize,
    pub(super) seed: u64,
    pub(super) listeners: Listeners,
}

impl Worker {
    /// Runs all transactions, on the thread of the worker.
    pub(super) fn run(self) -> StrandOutcome {
        let participant = self.barrier.participant();
        let (group, setup) = (&*self.group, &self.group.setup);
        // On pages of its own, like netperf's buffers: the kernel copies whole cache lines then.
        let Some(mut ring) = BufferRing::new(1, buffer_bytes(&setup.group), PAGE, 0) else {
            participant.leave(true);
            let what = "no memory for a strand's buffer";
            let errno = Error::NOMEM.raw_os_error();
            return StrandOutcome::of_failure(self.group_number, what, errno);
        };
        let buffer = ring.advance();
        let transactions = &setup.group.transactions;
        let mut outcomes = Vec::with_capacity(transactions.len());
        let mut failed = false;
        let mut connections = StrandConnections {
            setup,
            barrier: &self.barrier,
            index: self.index,
            flowops: &[],
            open: ConnectionPool::new(),
            listeners: self.listeners,
            allowance: Allowance::new(setup.account.as_ref(), &setup.group),
            next_file: self.index,
            log: Log::default(),
        };
        let events = group.watching.event_counters(&mut connections.log);
        for (stage, transaction) in transactions.iter().enumerate() {
            // Before the barrier: it is no part of the transaction's time.
            let compiled = &group.compiled[stage];
            let mut script = Script::new(compiled.steps.clone(), self.seed);
            connections.flowops = &transaction.flowops;
            if self.barrier.arrive(stage).is_none() {
                break;
            }
            let began = Instant::now();
            let before = self.counters.counts();
            let mut times = group.watching.step_times(transaction, events.as_ref());
            let mut job = Job {
                body: JobBody::Steps(Steps {
                    script: &mut script,
                    pacing: compiled.pacing,
                    buffer,
                    times: times.as_mut(),
                }),
                limit: compiled.limit,
                stop: &group.stops[stage],
                counters: &self.counters,
            };
            let ran = engine::run(&mut job, Path::Manager(&mut connections));
            let elapsed = began.elapsed();
            outcomes.push(TransactionOutcome {
                began,
                elapsed,
                before,
                counts: self.counters.counts().since(&before),
                cut: None,
                times: times.map(StepTimes::finish).unwrap_or_default(),
            });
            match (ran.ended, ran.failed_step) {
                (_, Some((at, failure)))
                    if group.is_end(transaction, at, began.elapsed(), &failure) =>
                {
                    self.barrier.report(BarrierEvent::PeerClosed);
                }
                (_, Some((at, failure))) => {
                    say(&mut connections.log, transaction, at, &failure);
                    failed = true;
                    break;
                }
                (Ended::Cancelled, _) => break,
                // The end of a stream, not a stop because the control connection ended.
                (Ended::PeerClosed, _)
                    if group.stops[stage].reason() != Some(Reason::PeerClosed) =>
                {
                    self.barrier.report(BarrierEvent::PeerClosed);
                }
                _ => {}
            }
            if let (Some(duration), true) = (transaction.duration, setup.has_stock_slave) {
                settle(&self.barrier, &connections.open, began, duration, buffer);
            }
        }
        participant.leave(failed);
        if !failed {
            self.barrier.await_dismissal();
        }
        StrandOutcome {
            group: self.group_number,
            transactions: outcomes,
            log: connections.log,
            failed,
        }
    }
}

impl Watching {
    /// The meter of a transaction's times; `None` if no times are kept.
    fn step_times(
        &self,
        transaction: &Transaction,
        events: Option<&Rc<EventCounters>>,
    ) -> Option<StepTimes> {
        let with_steps = self.flowops || self.responses.is_some();
        if !self.transactions && !self.histogram && !with_steps {
            return None;
        }
        let mut times = StepTimes::new(transaction.flowops.len(), with_steps, self.cpu);
        if let Some(file) = &self.responses {
            times = times.with_journal(Box::new(Journal::new(file, thread_id())));
        }
        if let Some(events) = events {
            times = times.with_counters(Rc::clone(events));
        }
        // What is executed once has no distribution.
        let is_repeated = transaction.duration.is_some() || transaction.iterations > 1;
        if self.histogram && is_repeated {
            times = times.with_histogram();
        }
        Some(times)
    }

    /// The calling thread's event counters, if there is something to be counted.
    fn event_counters(&self, log: &mut Log) -> Option<Rc<EventCounters>> {
        if self.counters.is_empty() {
            return None;
        }
        log.warn(match EventCounters::open(&self.counters) {
            Ok((counters, _)) if counters.len() == self.counters.len() => {
                return Some(Rc::new(counters));
            }
            Ok(_) => "a strand has not all of the counters".to_owned(),
            Err(error) => format!("a strand has no counters: {}", sys::describe(&error)),
        });
        None
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
    let buffer = buffer_bytes(group) as usize;
    let datagrams = buffer * usize::from(compile::has_datagrams(group));
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
    use crate::{Flowop, Kind};

    #[test]
    fn a_strand_has_a_buffer_and_headers() {
        let bytes = |size, batch_size| {
            let write = Flowop {
                batch_size,
                ..Flowop::of_bytes(Kind::Write, size)
            };
            strand_bytes(&Group::of([Flowop::new(Kind::Connect), write]))
        };
        let with_list = bytes(10_000, 1);
        assert_eq!(bytes(20_000, 1), with_list + 10_000);
        let header = HEADER_BYTES as u64;
        assert_eq!(bytes(10_000, 8), with_list + 8 * header);
        assert_eq!(bytes(10_000, u64::MAX), with_list + 1024 * header);
    }
}
