//! A run from its first barrier to the end of its last strand, and what is said of it meanwhile.

use std::io;
use std::time::{Duration, Instant, SystemTime};

use engine::{BarrierStatus, Interval, Reading, Sampler, Stop};
use model::{Series, Totals};
use sys::clock::Prompt;

use super::TICK;
use super::connect::{GOODBYE_AFTER_FAILURE, Slave};
use crate::strand::{Log, Workers};
use crate::wire::{Command, Goodbye};
use crate::{Event, Group, Kind, Step, running_name, transaction_name};
use control::why;

/// How long a stock slave's strands are given to come to their next barrier: it interrupts those that are
/// late. Its own masters take as long as this, at most.
const LONGEST_STAGE: Duration = Duration::from_secs(1);

/// Time that a stock slave is given to read the last data of a transaction with a number of iterations: what it
/// has not read when the next command comes is lost.
const LAST_DATA: Duration = Duration::from_millis(200);

/// How long a host takes to end all connections of a process that has died.
const LAST_OF_ITS_CONNECTIONS: Duration = Duration::from_millis(200);

/// How long before a transaction's time is up nothing else is waited for.
const CUT_APPROACH: Duration = Duration::from_millis(100);

/// Runs all transactions; whether the run did not come to its end.
pub(super) fn stages(
    workers: &mut Workers,
    slaves: &mut [Slave],
    progress: &mut Progress<'_>,
    stop: &Stop,
    log: &mut Log,
) -> bool {
    let has_stock_slave = slaves.iter().any(|slave| !slave.is_ours);
    let least = progress.interval.min(LONGEST_STAGE);
    let mut begun = Instant::now();
    for stage in 0..workers.stages() {
        if until(workers, Some(stage), slaves, progress, stop, log) {
            return true;
        }
        if has_stock_slave {
            await_stock_slaves(workers, stage, begun + least);
        }
        progress.ended(workers);
        for slave in slaves.iter() {
            if let Some(command) = slave.next(stage as u32) {
                progress.command(slave, command);
            }
        }
        // What is done before anybody looks is of the transaction as well.
        let counts = workers.counts();
        begun = workers.release(stage);
        progress.begun(Reading { at: begun, counts });
    }
    let has_failed = until(workers, None, slaves, progress, stop, log);
    if !has_failed {
        progress.ended(workers);
        if slaves.iter().any(|slave| slave.parks_at.is_some()) {
            await_stock_slaves(workers, workers.stages(), Instant::now());
        }
    }
    has_failed
}

/// Gives stock slaves' strands time to come to this barrier, at least until then. After a transaction's
/// duration the strands here have waited for them already.
fn await_stock_slaves(workers: &Workers, stage: usize, not_before: Instant) {
    let is_settled = stage == 0 || workers.is_timed(stage - 1);
    let for_data = if is_settled {
        Duration::ZERO
    } else {
        LAST_DATA
    };
    let until = not_before.max(Instant::now() + for_data);
    std::thread::sleep(until.saturating_duration_since(Instant::now()));
}

/// Waits for a barrier, or the end of all strands; whether the run has failed.
fn until(
    workers: &mut Workers,
    stage: Option<usize>,
    slaves: &mut [Slave],
    progress: &mut Progress<'_>,
    stop: &Stop,
    log: &mut Log,
) -> bool {
    let mut prompt = None;
    loop {
        let next_line = progress.due();
        let status = look(workers, stage, next_line, &mut prompt);
        if status.peer_closed && (status.complete || status.running == 0) {
            await_word(slaves);
        }
        // Before the strands: what they see of a slave's end may look to them as the end of their work.
        let speaks = slaves.iter_mut().find(|slave| slave.speaks());
        // Only now: a signal in between ends the asking too, as if somebody spoke.
        if stop.is_set() {
            return true;
        }
        if let Some(slave) = speaks {
            progress.report(&Event::SlaveAborted);
            slave.hear(Instant::now() + GOODBYE_AFTER_FAILURE);
            if let Some(Err(error)) = &slave.last_word {
                lost(log, &slave.host, &progress.place(), error);
            }
            return true;
        }
        if status.failed {
            return true;
        }
        if status.complete || status.running == 0 {
            return false;
        }
        progress.tick(workers);
    }
}

/// Waits until there is something to see, or to print. Shortly before a transaction's time is up for that
/// alone: strands that leave have what is waited with.
fn look(
    workers: &mut Workers,
    stage: Option<usize>,
    next_line: Option<Instant>,
    prompt: &mut Option<Prompt>,
) -> BarrierStatus {
    let now = Instant::now();
    let next_line = next_line.unwrap_or(now + TICK);
    let Some(due) = workers.due() else {
        *prompt = None;
        return workers.wait(stage, next_line.min(now + TICK));
    };
    if due > now + CUT_APPROACH {
        let approach = due.checked_sub(CUT_APPROACH).unwrap_or(due);
        return workers.wait(stage, next_line.min(now + TICK).min(approach));
    }
    prompt.get_or_insert_with(Prompt::begin);
    std::thread::sleep(due.min(next_line).saturating_duration_since(now));
    workers.read_due();
    workers.wait(stage, now)
}

/// A slave that dies ends its connections in any order, and to a strand an end is the end of its work: who has
/// ended it is known a little later.
fn await_word(slaves: &[Slave]) {
    let until = Instant::now() + LAST_OF_ITS_CONNECTIONS;
    while Instant::now() < until && !slaves.iter().any(Slave::speaks) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Names a slave that is lost, and where the run was then.
pub(super) fn lost(log: &mut Log, host: &str, place: &str, error: &io::Error) {
    log.say(format!("[{host}] lost {place}: {}", why(error)), 0);
}

/// What a slave said, as far as it is worth the log.
pub(super) fn note(log: &mut Log, host: &str, goodbye: &Goodbye) {
    let words = || format!("[{host}] {}", goodbye.message.lines());
    match goodbye.kind {
        Goodbye::ERROR => log.say(words(), 0),
        Goodbye::WARNING => log.warn(words()),
        _ => {}
    }
}

/// How far the run is: its samples, and the events that report it.
pub(super) struct Progress<'a> {
    events: &'a mut dyn FnMut(&Event<'_>),
    pub(super) interval: Duration,
    /// The samples of each transaction that has begun.
    samplers: Vec<Sampler>,
    /// The last of them has not ended.
    is_running: bool,
    /// Slaves that the first transaction opens connections to, until they are reported as unanswered.
    opened_to: Vec<String>,
}

/// Without a data connection for this long the master reports it.
const REPORT_UNANSWERED_AFTER: Duration = Duration::from_secs(5);

impl<'a> Progress<'a> {
    pub(super) fn new(interval: Duration, events: &'a mut dyn FnMut(&Event<'_>)) -> Self {
        Self {
            events,
            interval,
            samplers: Vec::new(),
            is_running: false,
            opened_to: Vec::new(),
        }
    }

    pub(super) fn report(&mut self, event: &Event<'_>) {
        (self.events)(event);
    }

    pub(super) fn step(&mut self, step: &Step<'_>) {
        self.report(&Event::Step(*step));
    }

    /// Tells a slave what to do.
    pub(super) fn command(&mut self, slave: &Slave, command: Command) {
        slave.tell(command);
        self.step(&Step::Told(command, &slave.host));
    }

    /// A slave has its work.
    pub(super) fn assigned(&mut self, host: &str, group: &Group) {
        let first = group
            .transactions
            .first()
            .and_then(|txn| txn.flowops.first());
        if first.is_some_and(|flowop| flowop.kind == Kind::Connect) {
            self.opened_to.push(host.to_owned());
        }
        self.step(&Step::Assigned(host, group));
    }

    /// When the next line of a running transaction is due.
    fn due(&self) -> Option<Instant> {
        let running = self.samplers.last().filter(|_| self.is_running);
        running.map(Sampler::due)
    }

    /// Where the run is, to report its end.
    pub(super) fn place(&self) -> String {
        match self.samplers.len() {
            0 => "before Txn1".to_owned(),
            begun if self.is_running => format!("in {}", running_name(begun - 1)),
            _ => "at the end".to_owned(),
        }
    }

    /// The progress is over.
    pub(super) fn close(&mut self) {
        let is_cut = std::mem::take(&mut self.is_running);
        self.report(&Event::SamplesEnded { is_cut });
    }

    /// Returns the samples of the transactions, by the time since `run_begun`.
    pub(super) fn series(&self, run_begun: Instant) -> Vec<Series> {
        let samplers = self.samplers.iter().enumerate();
        let series = samplers.map(|(number, sampler)| Series {
            name: transaction_name(number),
            begun: sampler.started().saturating_duration_since(run_begun),
            samples: sampler.samples().to_vec(),
        });
        series.collect()
    }

    fn begun(&mut self, begun: Reading) {
        let interval = self.interval.max(Duration::from_millis(1));
        self.samplers.push(Sampler::new(begun, interval));
        self.is_running = true;
        self.line(begun);
    }

    fn tick(&mut self, workers: &Workers) {
        let at = Instant::now();
        self.report_unanswered(workers, at);
        if self.due().is_none_or(|due| at < due) {
            return;
        }
        let stage = self.samplers.len() - 1;
        // What comes after the time has no line: the last one is of the time.
        if workers.is_over(stage) {
            self.samplers[stage].skip(at);
        } else {
            let counts = workers.counts_by(stage).counts;
            self.line(Reading { at, counts });
        }
    }

    /// Reports once that no data connection has come about, as behind a firewall that lets the control
    /// connection through.
    fn report_unanswered(&mut self, workers: &Workers, now: Instant) {
        let ([first], true) = (&self.samplers[..], self.is_running) else {
            return;
        };
        let is_due = now >= first.started() + REPORT_UNANSWERED_AFTER;
        if !is_due || self.opened_to.is_empty() || workers.counts().operations > 0 {
            return;
        }
        let mut hosts = std::mem::take(&mut self.opened_to);
        hosts.dedup();
        self.report(&Event::Unanswered(&hosts));
    }

    fn ended(&mut self, workers: &Workers) {
        if std::mem::take(&mut self.is_running) {
            self.line(workers.counts_by(self.samplers.len() - 1));
            self.report(&Event::TransactionEnded);
        }
    }

    fn line(&mut self, reading: Reading) {
        let stage = self.samplers.len() - 1;
        let sampler = &mut self.samplers[stage];
        sampler.add(reading);
        let Interval { elapsed, counts } = sampler.total();
        self.report(&Event::Sampled {
            stage,
            totals: Totals { counts, elapsed }.combined(),
            at: SystemTime::now() - reading.at.elapsed(),
        });
    }
}
