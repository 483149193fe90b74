//! One strand's thread: its transactions, one after the other.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use engine::script::{STEP_BYTES, Script, StepFailure, StepTimes};
use engine::{
    BarrierEvent, Counters, Job, JobBody, JobSockets, ScriptLoop, StartBarrier, StopReason,
};
use model::EndCause;
use sys::buffer::BufferRing;
use sys::call::Error;
use sys::counter::EventCounters;
use sys::message::{HEADER_BYTES, MAX_MESSAGES};
use sys::process::thread_id;

use super::connection_budget::{ConnectionBudget, process_connection_bytes, uses_tls};
use super::connection_manager::StrandConnections;
use super::connections::ConnectionPool;
use super::response_file::ResponseWriter;
use super::stock_slave::await_transaction_end;
use super::{
    Listeners, Log, MeasurementOptions, StrandOutcome, StrandTransactionOutcome, WorkerGroup,
    compile,
};
use crate::profile::memory::{PROCESS_BYTES, TLS_BYTES, buffer_bytes};
use crate::workorder::{GroupSpec, TransactionSpec};

/// Alignment of a strand's buffer, bytes.
const BUFFER_ALIGNMENT: u32 = 4096;

/// Returns the seed of a strand's random sizes.
pub(super) fn random_seed(group: usize, index: usize) -> u64 {
    (group as u64) << 32 | index as u64
}

/// A strand that has not started yet.
pub(super) struct Worker {
    pub(super) barrier: Arc<StartBarrier>,
    pub(super) group: Arc<WorkerGroup>,
    pub(super) counters: Arc<Counters>,
    /// Index of the strand in its group.
    pub(super) index: usize,
    /// Index of the group among the groups of this process.
    pub(super) group_number: usize,
    pub(super) seed: u64,
    pub(super) listeners: Listeners,
}

impl Worker {
    /// Runs all transactions on the current thread. At the end it closes the connections, and waits
    /// until the sender of `turn` is dropped.
    pub(super) fn run(self, turn: &Receiver<()>) -> StrandOutcome {
        let participant = self.barrier.participant();
        let (group, setup) = (&*self.group, &self.group.setup);
        // Page alignment, as for netperf's buffers, lets the kernel copy whole cache lines.
        let Some(mut ring) = BufferRing::new(1, buffer_bytes(&setup.group), BUFFER_ALIGNMENT, 0)
        else {
            participant.leave(true);
            let what = "no memory for a strand's buffer";
            let errno = Error::NOMEM.raw_os_error();
            return StrandOutcome::from_failure(self.group_number, what, errno);
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
            pool: ConnectionPool::new(),
            listeners: self.listeners,
            connection_budget: ConnectionBudget::new(setup.run_budget.as_ref(), &setup.group),
            next_file: self.index,
            log: Log::default(),
        };
        let events = group.measurements.event_counters(&mut connections.log);
        for (stage, transaction) in transactions.iter().enumerate() {
            // Done before the barrier, so it is not part of the transaction's time.
            let compiled = &group.compiled[stage];
            let mut script = Script::new(compiled.steps.clone(), self.seed);
            connections.flowops = &transaction.flowops;
            if self.barrier.arrive(stage).is_none() {
                break;
            }
            let began = Instant::now();
            let before = self.counters.counts();
            let mut times = group.measurements.step_times(transaction, events.as_ref());
            let mut job = Job {
                body: JobBody::Steps(ScriptLoop {
                    script: &mut script,
                    pacing: compiled.pacing,
                    buffer,
                    times: times.as_mut(),
                }),
                limit: compiled.limit,
                stop: &group.stops[stage],
                counters: &self.counters,
            };
            let result = engine::run(&mut job, JobSockets::Manager(&mut connections));
            let elapsed = began.elapsed();
            outcomes.push(StrandTransactionOutcome {
                began,
                elapsed,
                before,
                counts: self.counters.counts().since(&before),
                cut: None,
                times: times.map(StepTimes::finish).unwrap_or_default(),
            });
            match (result.ended, result.failed_step) {
                (_, Some((step, failure)))
                    if group.is_expected_close(transaction, step, began.elapsed(), &failure) =>
                {
                    self.barrier.record_event(BarrierEvent::PeerClosed);
                }
                (_, Some((step, failure))) => {
                    log_failure(&mut connections.log, transaction, step, &failure);
                    failed = true;
                    break;
                }
                (EndCause::Cancelled, _) => break,
                // The peer ended the stream. This is not the stop that follows the end of the
                // control connection.
                (EndCause::PeerClosed, _)
                    if group.stops[stage].reason() != Some(StopReason::PeerClosed) =>
                {
                    self.barrier.record_event(BarrierEvent::PeerClosed);
                }
                _ => {}
            }
            if let (Some(duration), true) = (transaction.duration, setup.has_stock_slave) {
                await_transaction_end(&self.barrier, &connections.pool, began, duration, buffer);
            }
        }
        participant.leave(failed);
        if !failed {
            self.barrier.wait_for_run_end();
        }
        let log = std::mem::take(&mut connections.log);
        drop(connections);
        let _ = turn.recv();
        StrandOutcome {
            group: self.group_number,
            transactions: outcomes,
            log,
            failed,
        }
    }
}

impl MeasurementOptions {
    /// Returns the meter of a transaction's times; `None` if no times are measured.
    fn step_times(
        &self,
        transaction: &TransactionSpec,
        events: Option<&Rc<EventCounters>>,
    ) -> Option<StepTimes> {
        let with_steps = self.flowops || self.responses.is_some();
        if !self.transactions && !self.histogram && !with_steps {
            return None;
        }
        let mut times = StepTimes::new(transaction.flowops.len(), with_steps, self.cpu);
        if let Some(file) = &self.responses {
            times = times.with_observer(Box::new(ResponseWriter::new(file, thread_id())));
        }
        if let Some(events) = events {
            times = times.with_counters(Rc::clone(events));
        }
        // A single execution has no distribution.
        let is_repeated = transaction.duration.is_some() || transaction.iterations > 1;
        if self.histogram && is_repeated {
            times = times.with_histogram();
        }
        Some(times)
    }

    /// Opens the event counters of the calling thread; `None` if no events are requested or
    /// permitted.
    fn event_counters(&self, log: &mut Log) -> Option<Rc<EventCounters>> {
        if self.counters.is_empty() {
            return None;
        }
        log.warn(match EventCounters::open(&self.counters) {
            Ok((counters, _)) if counters.len() == self.counters.len() => {
                return Some(Rc::new(counters));
            }
            Ok(_) => "some counters of a strand are unavailable".to_owned(),
            Err(error) => {
                let reason = sys::describe(&error);
                format!("the counters of a strand are unavailable: {reason}")
            }
        });
        None
    }
}

/// Stack use of a strand, bytes; 16 KiB were measured.
const STACK_BYTES: usize = 32 << 10;

/// Memory use that does not depend on the group, bytes: list entries, counters, handles.
const FIXED_BYTES: usize = 2 << 10;

/// Returns the memory use of a strand, bytes. It includes the stack, the buffer, a header per
/// message of a call, the flowop list, the transaction results, the TLS state and the process
/// overhead.
pub(crate) fn strand_bytes(group: &GroupSpec) -> u64 {
    let transactions = group.transactions.iter();
    let longest = transactions
        .map(|transaction| transaction.flowops.len())
        .max();
    let buffer = buffer_bytes(group) as usize;
    let datagrams = buffer * usize::from(compile::has_datagrams(group));
    let bytes = STACK_BYTES
        + FIXED_BYTES
        + buffer
        + datagrams
        + max_messages_per_call(group) * HEADER_BYTES
        + longest.unwrap_or(0) * STEP_BYTES
        + group.transactions.len() * size_of::<StrandTransactionOutcome>();
    let tls = if uses_tls(group) { TLS_BYTES } else { 0 };
    let process = if group.strands.processes {
        PROCESS_BYTES + process_connection_bytes(group)
    } else {
        0
    };
    bytes as u64 + tls + process
}

/// Returns the number of messages of the largest call.
fn max_messages_per_call(group: &GroupSpec) -> usize {
    let transfers =
        (group.flowops()).filter(|flowop| flowop.kind.transfers() && flowop.batch_size > 1);
    let max_messages = transfers.map(|flowop| flowop.batch_size).max();
    usize::try_from(max_messages.unwrap_or(0)).map_or(MAX_MESSAGES, |max| max.min(MAX_MESSAGES))
}

/// Logs a failure as uperf does. A failed call gets the prefix of `Error for flowop write  Message
/// too long`; other failures have a complete text.
fn log_failure(log: &mut Log, transaction: &TransactionSpec, step: usize, failure: &StepFailure) {
    let flowop = transaction.flowops[step].kind;
    let is_call = failure.errno != 0 && !failure.action.contains(' ');
    let text = if is_call {
        format!("Error for flowop {flowop} ")
    } else {
        failure.action.clone()
    };
    log.error(text, failure.errno);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flowop, FlowopKind};

    #[test]
    fn strand_bytes_include_buffer_and_headers() {
        let bytes = |size, batch_size| {
            let write = Flowop {
                batch_size,
                ..Flowop::with_size(FlowopKind::Write, size)
            };
            strand_bytes(&GroupSpec::with_flowops([
                Flowop::new(FlowopKind::Connect),
                write,
            ]))
        };
        let base = bytes(10_000, 1);
        assert_eq!(bytes(20_000, 1), base + 10_000);
        let header = HEADER_BYTES as u64;
        assert_eq!(bytes(10_000, 8), base + 8 * header);
        assert_eq!(bytes(10_000, u64::MAX), base + 1024 * header);
    }
}
