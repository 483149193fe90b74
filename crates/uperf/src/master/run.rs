//! A run from its first barrier to the end of its last strand, and what is said of it meanwhile.

use std::io;
use std::time::{Duration, Instant, SystemTime};

use engine::{BarrierStatus, Interval, Reading, Sampler, Stop};
use model::{Counts, Series};
use sys::clock::Prompt;

use super::TICK;
use super::connect::{GOODBYE_AFTER_FAILURE, Slave};
use super::voice::Voice;
use crate::options::Master;
use crate::output::{
    self, Message, PROGRESS_END, Sample, Step, Totals, Width, running_name, transaction_name,
};
use crate::strand::{Log, Workers};
use crate::wire::{Command, Goodbye};
use crate::{Group, Kind};
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

/// Runs all transactions; the exit code of a run that did not come to its end.
pub(super) fn stages(
    workers: &mut Workers,
    slaves: &mut [Slave],
    narrator: &mut Narrator<'_>,
    stop: &Stop,
    log: &mut Log,
) -> Option<u8> {
    let has_stock_slave = slaves.iter().any(|slave| !slave.is_ours);
    let least = narrator.interval.min(LONGEST_STAGE);
    let mut begun = Instant::now();
    for stage in 0..workers.stages() {
        if let Some(code) = until(workers, Some(stage), slaves, narrator, stop, log) {
            return Some(code);
        }
        if has_stock_slave {
            await_stock_slaves(workers, stage, begun + least);
        }
        narrator.ended(workers);
        for slave in slaves.iter() {
            if let Some(command) = slave.next(stage as u32) {
                narrator.command(slave, command);
            }
        }
        // What is done before anybody looks is of the transaction as well.
        let counts = workers.counts();
        begun = workers.release(stage);
        narrator.begun(Reading { at: begun, counts });
    }
    let code = until(workers, None, slaves, narrator, stop, log);
    if code.is_none() {
        narrator.ended(workers);
        if slaves.iter().any(|slave| slave.parks_at.is_some()) {
            await_stock_slaves(workers, workers.stages(), Instant::now());
        }
    }
    code
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

/// Waits for a barrier, or the end of all strands.
fn until(
    workers: &mut Workers,
    stage: Option<usize>,
    slaves: &mut [Slave],
    narrator: &mut Narrator<'_>,
    stop: &Stop,
    log: &mut Log,
) -> Option<u8> {
    let mut prompt = None;
    loop {
        let next_line = narrator.due();
        let status = look(workers, stage, next_line, &mut prompt);
        if status.peer_closed && (status.complete || status.running == 0) {
            await_word(slaves);
        }
        // Before the strands: what they see of a slave's end may look to them as the end of their work.
        let speaks = slaves.iter_mut().find(|slave| slave.speaks());
        // Only now: a signal in between ends the asking too, as if somebody spoke.
        if stop.is_set() {
            return Some(2);
        }
        if let Some(slave) = speaks {
            narrator.say(&Message::SlaveAborted);
            slave.hear(Instant::now() + GOODBYE_AFTER_FAILURE);
            if let Some(Err(error)) = &slave.last_word {
                lost(log, &slave.host, &narrator.place(), error);
            }
            return Some(1);
        }
        if status.failed {
            return Some(1);
        }
        if status.complete || status.running == 0 {
            return None;
        }
        narrator.tick(workers);
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

/// Who prints how far the run is.
pub(super) struct Narrator<'a> {
    voice: Voice<'a>,
    is_raw: bool,
    is_silent: bool,
    width: Width,
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

impl<'a> Narrator<'a> {
    pub(super) fn new(master: &Master, width: Width, voice: Voice<'a>) -> Self {
        Self {
            voice,
            is_raw: master.print.raw,
            is_silent: !master.print.progress,
            width,
            interval: master.interval,
            samplers: Vec::new(),
            is_running: false,
            opened_to: Vec::new(),
        }
    }

    pub(super) fn print(&mut self, text: &str) {
        self.voice.print(text);
    }

    pub(super) fn say(&mut self, message: &Message<'_>) {
        self.voice.say(message);
    }

    /// A line that is not of the result.
    pub(super) fn tell(&mut self, line: &str) {
        self.voice.tell(line);
    }

    pub(super) fn step(&mut self, step: &Step<'_>) {
        self.voice.step(step);
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
        for step in [Step::Header, Step::Sending, Step::Workorder] {
            self.step(&step);
        }
        for transaction in &group.transactions {
            self.step(&Step::Transaction);
            for _ in &transaction.flowops {
                self.step(&Step::Flowop);
            }
        }
        self.step(&Step::Sent);
        self.step(&Step::Phase2DoneWith(host));
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
        if self.is_silent {
            return;
        }
        // The line of a transaction that has failed has no end yet.
        if std::mem::take(&mut self.is_running) {
            self.print(PROGRESS_END);
        }
        self.print(&self.width.rule());
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
            let (counts, _) = workers.counts_by(stage);
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
        let hosts = hosts.join(", ");
        eprintln!(
            "uperf: the control connection to {hosts} is up, but no data connection gets an answer; does a firewall \
             drop them? (port= in the profile sets their port)"
        );
    }

    fn ended(&mut self, workers: &Workers) {
        if std::mem::take(&mut self.is_running) {
            let (counts, at) = workers.counts_by(self.samplers.len() - 1);
            self.line(Reading { at, counts });
            if !self.is_silent {
                self.print(PROGRESS_END);
            }
        }
    }

    fn line(&mut self, reading: Reading) {
        let stage = self.samplers.len() - 1;
        let sampler = &mut self.samplers[stage];
        sampler.add(reading);
        let Interval { elapsed, counts } = sampler.total();
        if self.is_silent {
            return;
        }
        let sample = Sample {
            name: running_name(stage),
            totals: totals(&counts, elapsed),
            ended: SystemTime::now() - reading.at.elapsed(),
        };
        let text = output::progress(self.is_raw, self.width, &sample);
        self.print(&text);
    }
}

/// Counts over a time, as they are printed.
pub(super) fn totals(counts: &Counts, elapsed: Duration) -> Totals {
    Totals {
        bytes: counts.bytes(),
        operations: counts.operations,
        errors: counts.failed_operations,
        elapsed,
    }
}
