//! A run from its first barrier to the end of its last strand, and what is said of it meanwhile.

use std::io::Write;
use std::time::{Duration, Instant, SystemTime};

use engine::Stop;
use engine::script::Tallied;

use super::TICK;
use super::connect::Slave;
use crate::options::Master;
use crate::output::{self, Message, PROGRESS_END, Sample, Totals, Width, running_name};
use crate::strand::{Crew, Log};
use crate::wire::{Command, Goodbye};

/// How long a stock slave's strands are given to come to their next barrier: it interrupts those that are
/// late. Its own masters take as long as this, at most.
const LONGEST_STAGE: Duration = Duration::from_secs(1);

/// Runs all transactions; the exit code of a run that did not come to its end.
pub(super) fn stages(
    crew: &mut Crew,
    slaves: &mut [Slave],
    narrator: &mut Narrator<'_>,
    stop: &Stop,
    log: &mut Log,
) -> Option<u8> {
    let least = if slaves.iter().all(|slave| slave.is_ours) {
        Duration::ZERO
    } else {
        narrator.interval.min(LONGEST_STAGE)
    };
    let mut begun = Instant::now();
    for stage in 0..crew.stages() {
        let not_before = begun + least;
        if let Some(code) = until(crew, Some(stage), slaves, narrator, stop, log) {
            return Some(code);
        }
        std::thread::sleep(not_before.saturating_duration_since(Instant::now()));
        narrator.ended(crew.tallied());
        for slave in slaves.iter() {
            slave.tell(Command::NextTransaction(stage as u32));
        }
        begun = crew.release(stage);
        narrator.begun(stage, begun, crew.tallied());
    }
    let code = until(crew, None, slaves, narrator, stop, log);
    if code.is_none() {
        narrator.ended(crew.tallied());
    }
    code
}

/// Waits for a barrier, or the end of all strands.
fn until(
    crew: &Crew,
    stage: Option<usize>,
    slaves: &mut [Slave],
    narrator: &mut Narrator<'_>,
    stop: &Stop,
    log: &mut Log,
) -> Option<u8> {
    loop {
        let next = Instant::now() + TICK;
        let standing = crew.wait(stage, next.min(narrator.due()));
        if stop.is_set() {
            return Some(2);
        }
        if standing.failed {
            return Some(1);
        }
        if standing.complete || standing.running == 0 {
            return None;
        }
        if let Some(slave) = slaves.iter_mut().find(|slave| slave.speaks()) {
            narrator.say(&Message::SlaveAborted);
            match slave.goodbye(true) {
                Ok(goodbye) => slave.last_word = Some(goodbye),
                Err(error) => {
                    let place = narrator.place();
                    log.say(format!("[{}] lost {place}: {error}", slave.host), 0);
                }
            }
            return Some(1);
        }
        narrator.tick(crew.tallied());
    }
}

/// What a slave said, as far as it is worth the log.
pub(super) fn note(log: &mut Log, host: &str, goodbye: &Goodbye) {
    let words = || format!("[{host}] {}", goodbye.message.to_string_lossy());
    match goodbye.kind {
        Goodbye::ERROR => log.say(words(), 0),
        Goodbye::WARNING => log.warn(words()),
        _ => {}
    }
}

/// Who prints how far the run is.
pub(super) struct Narrator<'a> {
    out: &'a mut dyn Write,
    is_raw: bool,
    is_silent: bool,
    width: Width,
    pub(super) interval: Duration,
    /// The transaction that runs, when it began, and what had been done by then.
    running: Option<(usize, Instant, Tallied)>,
    next: Instant,
    has_begun: bool,
}

impl<'a> Narrator<'a> {
    pub(super) fn new(master: &Master, width: Width, out: &'a mut dyn Write) -> Self {
        Self {
            out,
            is_raw: master.print.raw,
            is_silent: !master.print.run,
            width,
            interval: master.interval,
            running: None,
            next: Instant::now() + master.interval,
            has_begun: false,
        }
    }

    pub(super) fn print(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
    }

    pub(super) fn say(&mut self, message: &Message<'_>) {
        self.print(&message.to_string());
    }

    /// When there is something to print next.
    fn due(&self) -> Instant {
        self.next
    }

    /// Where the run is, for whoever reads of its end.
    pub(super) fn place(&self) -> String {
        match self.running {
            Some((stage, _, _)) => format!("in {}", running_name(stage)),
            None if self.has_begun => "at the end".to_owned(),
            None => "before Txn1".to_owned(),
        }
    }

    fn begun(&mut self, stage: usize, now: Instant, tallied: Tallied) {
        self.running = Some((stage, now, tallied));
        self.has_begun = true;
        self.next = now + self.interval;
        self.line(tallied, now);
    }

    fn tick(&mut self, tallied: Tallied) {
        let now = Instant::now();
        if now < self.next {
            return;
        }
        // The grid does not move; what was missed is left out.
        while self.next <= now {
            self.next += self.interval.max(Duration::from_millis(1));
        }
        self.line(tallied, now);
    }

    fn ended(&mut self, tallied: Tallied) {
        if self.running.is_some() {
            self.line(tallied, Instant::now());
            if !self.is_silent {
                self.print(PROGRESS_END);
            }
        }
        self.running = None;
    }

    fn line(&mut self, tallied: Tallied, now: Instant) {
        let Some((stage, begun, before)) = self.running else {
            return;
        };
        if self.is_silent {
            return;
        }
        let since = tallied.since(&before);
        let sample = Sample {
            name: running_name(stage),
            totals: totals(&since, now.saturating_duration_since(begun)),
            ended: SystemTime::now(),
        };
        let text = output::progress(self.is_raw, self.width, &sample);
        self.print(&text);
    }
}

/// Counts over a time, as they are printed.
pub(super) fn totals(tallied: &Tallied, elapsed: Duration) -> Totals {
    Totals {
        bytes: tallied.bytes(),
        operations: tallied.executions,
        errors: tallied.failures,
        elapsed,
    }
}
