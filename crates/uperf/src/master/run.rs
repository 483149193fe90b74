//! Runs all transactions, from the first barrier to the end of the last strand, and reports
//! progress.

use std::io;
use std::time::{Duration, Instant, SystemTime};

use engine::{BarrierStatus, CounterDelta, CounterReading, Sampler, Stop};
use model::{Series, Totals};
use sys::clock::PriorityWakeup;

use super::POLL_INTERVAL;
use super::connect::{FAILED_GOODBYE_TIMEOUT, Slave};
use crate::strand::{Log, Workers};
use crate::wire::{Goodbye, MasterCommand};
use crate::{
    FlowopKind, GroupSpec, MasterEvent, ProtocolStep, running_transaction_name, transaction_name,
};
use control::describe_error;

/// Maximum time that a stock slave's strands get to reach their next barrier; the slave interrupts
/// late ones. A stock master waits for at most this time between two commands.
const MAX_STAGE_WAIT: Duration = Duration::from_secs(1);

/// How long a stock slave gets to read the last data of a transaction with iterations. It loses
/// data that is unread when the next command arrives.
const LAST_DATA_TIME: Duration = Duration::from_millis(200);

/// How long a host takes to close all connections of a process that has died.
const PROCESS_EXIT_TIME: Duration = Duration::from_millis(200);

/// In this time before the end of a transaction, the master waits for the end and for nothing else.
const END_APPROACH: Duration = Duration::from_millis(100);

/// Runs all transactions. Returns whether the run failed.
pub(super) fn run_transactions(
    workers: &mut Workers,
    slaves: &mut [Slave],
    progress: &mut Progress<'_>,
    stop: &Stop,
    log: &mut Log,
) -> bool {
    let has_stock_slave = slaves.iter().any(|slave| !slave.is_linerate);
    let min_stage_time = progress.interval.min(MAX_STAGE_WAIT);
    let mut start = Instant::now();
    for stage in 0..workers.transactions_of_longest_group() {
        if await_barrier(workers, Some(stage), slaves, progress, stop, log) {
            return true;
        }
        if has_stock_slave {
            await_stock_slaves(workers, stage, start + min_stage_time);
        }
        progress.end_transaction(workers);
        for slave in slaves.iter() {
            if let Some(command) = slave.next_command(stage as u32) {
                progress.send_command(slave, command);
            }
        }
        // Read before the start, so the transaction includes work that is done before the first
        // sample.
        let counts = workers.counts();
        start = workers.start_transaction(stage);
        progress.begin_transaction(CounterReading { at: start, counts });
    }
    let has_failed = await_barrier(workers, None, slaves, progress, stop, log);
    if !has_failed {
        progress.end_transaction(workers);
        if slaves.iter().any(|slave| slave.idle_transaction.is_some()) {
            await_stock_slaves(
                workers,
                workers.transactions_of_longest_group(),
                Instant::now(),
            );
        }
    }
    has_failed
}

/// Gives the strands of stock slaves time to reach this barrier, at least until `not_before`. After
/// a transaction with a duration, the local strands have already waited for them.
fn await_stock_slaves(workers: &Workers, stage: usize, not_before: Instant) {
    let is_settled = stage == 0 || workers.is_timed(stage - 1);
    let data_time = if is_settled {
        Duration::ZERO
    } else {
        LAST_DATA_TIME
    };
    let deadline = not_before.max(Instant::now() + data_time);
    std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
}

/// Waits until all strands reach a barrier or end. Returns whether the run failed.
fn await_barrier(
    workers: &mut Workers,
    stage: Option<usize>,
    slaves: &mut [Slave],
    progress: &mut Progress<'_>,
    stop: &Stop,
    log: &mut Log,
) -> bool {
    let mut wakeup = None;
    loop {
        let next_sample = progress.next_sample_at();
        let status = poll_workers(workers, stage, next_sample, &mut wakeup);
        if status.peer_closed && (status.complete || status.running == 0) {
            await_close(slaves);
        }
        // Checked before the strands, because a strand may take the end of a slave for the regular
        // end of its work.
        let sender = slaves.iter_mut().find(|slave| slave.has_message());
        // Checked after the slaves: a signal interrupts `has_message`, which then returns true.
        if stop.is_set() {
            return true;
        }
        if let Some(slave) = sender {
            progress.report(&MasterEvent::UnexpectedSlaveMessage);
            slave.await_goodbye(Instant::now() + FAILED_GOODBYE_TIMEOUT);
            if let Some(Err(error)) = &slave.goodbye {
                log_lost_slave(log, &slave.host, &progress.describe_position(), error);
            }
            return true;
        }
        if status.failed {
            return true;
        }
        if status.complete || status.running == 0 {
            return false;
        }
        progress.sample_if_due(workers);
    }
}

/// Waits for a change of the strands, or until the next sample. Shortly before the end of a
/// transaction's time it only sleeps until that end: waiting at the barrier would contend with the
/// strands that arrive there.
fn poll_workers(
    workers: &mut Workers,
    stage: Option<usize>,
    next_sample: Option<Instant>,
    wakeup: &mut Option<PriorityWakeup>,
) -> BarrierStatus {
    let now = Instant::now();
    let next_sample = next_sample.unwrap_or(now + POLL_INTERVAL);
    let Some(end) = workers.next_transaction_end() else {
        *wakeup = None;
        return workers.wait_for_barrier(stage, next_sample.min(now + POLL_INTERVAL));
    };
    if end > now + END_APPROACH {
        let approach = end.checked_sub(END_APPROACH).unwrap_or(end);
        return workers.wait_for_barrier(stage, next_sample.min(now + POLL_INTERVAL).min(approach));
    }
    wakeup.get_or_insert_with(PriorityWakeup::begin);
    std::thread::sleep(end.min(next_sample).saturating_duration_since(now));
    workers.read_counters_at_end();
    workers.wait_for_barrier(stage, now)
}

/// Waits until the control connection of a dead slave is closed. A dying slave closes its
/// connections in any order, and a strand takes a closed connection for the end of its work.
fn await_close(slaves: &[Slave]) {
    let deadline = Instant::now() + PROCESS_EXIT_TIME;
    while Instant::now() < deadline && !slaves.iter().any(Slave::has_message) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Logs a lost slave, with the position of the run.
pub(super) fn log_lost_slave(log: &mut Log, host: &str, position: &str, error: &io::Error) {
    log.error(
        format!("[{host}] lost {position}: {}", describe_error(error)),
        0,
    );
}

/// Logs the error or warning of a goodbye message.
pub(super) fn log_goodbye(log: &mut Log, host: &str, goodbye: &Goodbye) {
    let text = || format!("[{host}] {}", goodbye.message.escaped_lines());
    match goodbye.kind {
        Goodbye::ERROR => log.error(text(), 0),
        Goodbye::WARNING => log.warn(text()),
        _ => {}
    }
}

/// Progress of the run: its samples, and the events that report them.
pub(super) struct Progress<'a> {
    events: &'a mut dyn FnMut(&MasterEvent<'_>),
    pub(super) interval: Duration,
    /// Samples of each started transaction.
    samplers: Vec<Sampler>,
    /// Whether the last started transaction is running.
    is_running: bool,
    /// Slaves that the first transaction connects to; empty once they are reported as unanswered.
    unanswered_hosts: Vec<String>,
    unanswered_time: RunningTime,
}

/// How long the master waits for a data connection before it reports that there is none.
const REPORT_UNANSWERED_AFTER: Duration = Duration::from_secs(5);

/// Time in which this process ran: while it is frozen, it does not see answers.
#[derive(Debug, Default)]
struct RunningTime {
    last_seen: Option<Instant>,
    total: Duration,
}

impl RunningTime {
    /// Adds the time since the last call, at most `interval`: the caller calls at least that often
    /// while it runs. Returns the total.
    fn add(&mut self, now: Instant, interval: Duration) -> Duration {
        let last_seen = self.last_seen.replace(now).unwrap_or(now);
        self.total += now.saturating_duration_since(last_seen).min(interval);
        self.total
    }
}

impl<'a> Progress<'a> {
    pub(super) fn new(interval: Duration, events: &'a mut dyn FnMut(&MasterEvent<'_>)) -> Self {
        Self {
            events,
            interval,
            samplers: Vec::new(),
            is_running: false,
            unanswered_hosts: Vec::new(),
            unanswered_time: RunningTime::default(),
        }
    }

    pub(super) fn report(&mut self, event: &MasterEvent<'_>) {
        (self.events)(event);
    }

    pub(super) fn report_step(&mut self, step: &ProtocolStep<'_>) {
        self.report(&MasterEvent::Step(*step));
    }

    /// Sends a command to a slave and reports it.
    pub(super) fn send_command(&mut self, slave: &Slave, command: MasterCommand) {
        slave.send_command(command);
        self.report_step(&ProtocolStep::CommandSent(command, &slave.host));
    }

    /// Reports that a slave has received its work.
    pub(super) fn report_assigned(&mut self, host: &str, group: &GroupSpec) {
        let first = group
            .transactions
            .first()
            .and_then(|txn| txn.flowops.first());
        if first.is_some_and(|flowop| flowop.kind == FlowopKind::Connect) {
            self.unanswered_hosts.push(host.to_owned());
        }
        self.report_step(&ProtocolStep::WorkorderSent(host, group));
    }

    /// Returns the time of the next sample; `None` if no transaction is running.
    fn next_sample_at(&self) -> Option<Instant> {
        let running = self.samplers.last().filter(|_| self.is_running);
        running.map(Sampler::next_due)
    }

    /// Returns the position of the run, for reports about its end.
    pub(super) fn describe_position(&self) -> String {
        match self.samplers.len() {
            0 => "before Txn1".to_owned(),
            started if self.is_running => format!("in {}", running_transaction_name(started - 1)),
            _ => "at the end".to_owned(),
        }
    }

    /// Ends the samples.
    pub(super) fn end_samples(&mut self) {
        let is_cut = std::mem::take(&mut self.is_running);
        self.report(&MasterEvent::SamplesEnded { is_cut });
    }

    /// Returns the samples of each transaction, with times since `run_start`.
    pub(super) fn series(&self, run_start: Instant) -> Vec<Series> {
        let samplers = self.samplers.iter().enumerate();
        let series = samplers.map(|(number, sampler)| Series {
            name: transaction_name(number),
            started_after: sampler.started().saturating_duration_since(run_start),
            samples: sampler.samples().to_vec(),
        });
        series.collect()
    }

    fn begin_transaction(&mut self, reading: CounterReading) {
        let interval = self.interval.max(Duration::from_millis(1));
        self.samplers.push(Sampler::new(reading, interval));
        self.is_running = true;
        self.add_sample(reading);
    }

    fn sample_if_due(&mut self, workers: &Workers) {
        let at = Instant::now();
        self.report_unanswered(workers, at);
        if self.next_sample_at().is_none_or(|due| at < due) {
            return;
        }
        let stage = self.samplers.len() - 1;
        // After the end of the transaction's time, only `end_transaction` takes a sample.
        if workers.is_time_up(stage) {
            self.samplers[stage].skip(at);
        } else {
            let counts = workers.counts_at_end(stage).counts;
            self.add_sample(CounterReading { at, counts });
        }
    }

    /// Reports once that there is no data connection, as with a firewall that permits only the
    /// control connection.
    fn report_unanswered(&mut self, workers: &Workers, now: Instant) {
        let ([first], true) = (&self.samplers[..], self.is_running) else {
            return;
        };
        let time = &mut self.unanswered_time;
        time.last_seen.get_or_insert(first.started());
        let is_due = time.add(now, self.interval) >= REPORT_UNANSWERED_AFTER;
        if !is_due || self.unanswered_hosts.is_empty() || workers.counts().operations > 0 {
            return;
        }
        let mut hosts = std::mem::take(&mut self.unanswered_hosts);
        hosts.dedup();
        self.report(&MasterEvent::ConnectionsUnanswered(&hosts));
    }

    fn end_transaction(&mut self, workers: &Workers) {
        if std::mem::take(&mut self.is_running) {
            self.add_sample(workers.counts_at_end(self.samplers.len() - 1));
            self.report(&MasterEvent::TransactionEnded);
        }
    }

    fn add_sample(&mut self, reading: CounterReading) {
        let stage = self.samplers.len() - 1;
        let sampler = &mut self.samplers[stage];
        sampler.add(reading);
        let CounterDelta { elapsed, counts } = sampler.total_delta();
        self.report(&MasterEvent::Sampled {
            stage,
            totals: Totals { counts, elapsed }.combined(),
            at: SystemTime::now() - reading.at.elapsed(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_a_frozen_process_is_not_running_time() {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        let mut time = RunningTime::default();
        assert_eq!(time.add(start, second), Duration::ZERO);
        assert_eq!(time.add(start + second / 2, second), second / 2);
        assert_eq!(time.add(start + 60 * second, second), second * 3 / 2);
        assert_eq!(time.add(start + 61 * second, second), second * 5 / 2);
    }
}
