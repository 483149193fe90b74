//! Interim results (`-D`): a thread that looks at the counts on a grid of time, so that the loop that
//! counts knows nothing of it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant, SystemTime};

use engine::{Counters, Reason, Stop};
use model::{Counts, Limit};

use super::answer::Answer;
use crate::options::{Settings, Test};
use crate::result::Interval;

/// A flow's counts, and who is told when they begin and end to move.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress<'a> {
    pub(super) counters: &'a Arc<Counters>,
    /// Those of all flows of the test, at the one flow that says when it begins.
    pub(super) all: &'a [Arc<Counters>],
    pub(super) interim: Option<&'a Interim>,
    /// Whether the peer answers.
    pub(super) answer: &'a Arc<Answer>,
}

/// The thread that reports interim results. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Interim(Sender<Phase>);

#[derive(Debug)]
enum Phase {
    Begun {
        at: Instant,
        before: Counts,
        counters: Vec<Arc<Counters>>,
    },
    /// One of the flows has ended.
    Ended(Instant),
}

impl Progress<'_> {
    /// The measured phase has begun.
    pub(super) fn begun(&self, at: Instant) {
        if let Some(Interim(thread)) = self.interim
            && !self.all.is_empty()
        {
            let _ = thread.send(Phase::Begun {
                at,
                before: counts(self.all),
                counters: self.all.to_vec(),
            });
        }
    }

    /// The loop has ended: what the counters say is the last word.
    pub(super) fn ended(&self) {
        if let Some(Interim(thread)) = self.interim {
            let _ = thread.send(Phase::Ended(Instant::now()));
        }
    }
}

fn counts(counters: &[Arc<Counters>]) -> Counts {
    let mut sum = Counts::default();
    for counters in counters {
        sum += counters.counts();
    }
    sum
}

impl Interim {
    /// Starts the thread; `None` when no interim results are wanted. It must be started before this
    /// thread is bound to a CPU, or it would share that.
    ///
    /// Each result goes to `report`. If that fails, `cancel` is pulled.
    pub(crate) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        settings: &Settings,
        cancel: &Stop,
        report: impl FnMut(Interval) -> io::Result<()> + Send + 'scope,
    ) -> io::Result<Option<Self>> {
        let Some(interval) = settings.print.interim else {
            return Ok(None);
        };
        // The stock tool's classic tests have no line for the rest.
        let tells_rest = !matches!(settings.test, Test::TcpSendfile | Test::TcpCc);
        let mut reporter = Reporter {
            interval,
            expected_end: match settings.flow.limit {
                Limit::Time(length) if tells_rest => Some(length),
                _ => None,
            },
            tells_rest,
            cancel: cancel.clone(),
            report,
        };
        let (sender, phases) = mpsc::channel();
        Builder::new()
            .stack_size(128 * 1024)
            .spawn_scoped(scope, move || {
                // Standard output is all that it needs; the loop's descriptors stay the loop's alone.
                sys::process::own_descriptors(&[]);
                reporter.follow(&phases);
            })?;
        Ok(Some(Self(sender)))
    }
}

struct Reporter<F> {
    interval: Duration,
    /// After how long the loop should end by itself.
    expected_end: Option<Duration>,
    /// Whether what is left when the loop ends has a line of its own.
    tells_rest: bool,
    cancel: Stop,
    report: F,
}

/// What had been done when.
#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    counts: Counts,
}

impl<F: FnMut(Interval) -> io::Result<()>> Reporter<F> {
    fn follow(&mut self, phases: &Receiver<Phase>) {
        let mut phase = phases.recv().ok();
        while let Some(now) = phase {
            phase = match now {
                Phase::Begun {
                    at,
                    before,
                    counters,
                } => {
                    let begun = Sample { at, counts: before };
                    self.report_until_next(phases, begun, &counters)
                }
                Phase::Ended(_) => phases.recv().ok(),
            };
        }
    }

    /// The results of one measured phase; what follows it, until nobody is left to say so.
    fn report_until_next(
        &mut self,
        phases: &Receiver<Phase>,
        begun: Sample,
        counters: &[Arc<Counters>],
    ) -> Option<Phase> {
        let mut last = begun;
        let mut moving = counters.len();
        let mut grid = Grid::new(self.interval, self.expected_end);
        loop {
            let due = begun.at + grid.next();
            match phases.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    let sample = sample(counters);
                    self.report(last, sample, false);
                    grid.pass(sample.at - begun.at);
                    last = sample;
                }
                Ok(Phase::Ended(_)) if moving > 1 => moving -= 1,
                Ok(phase) => {
                    if let Phase::Ended(at) = phase
                        && self.tells_rest
                    {
                        let counts = counts(counters);
                        self.report(last, Sample { at, counts }, true);
                    }
                    return Some(phase);
                }
            }
        }
    }

    fn report(&mut self, from: Sample, to: Sample, is_rest: bool) {
        let reported = (self.report)(Interval {
            from: from.counts,
            to: to.counts,
            elapsed: to.at - from.at,
            ended: SystemTime::now() - to.at.elapsed(),
            is_rest,
        });
        if reported.is_err() {
            self.cancel.pull(Reason::Cancelled);
        }
    }
}

/// Looks at the clock and the counts at once: when it was kept off its CPU in between, again.
fn sample(counters: &[Arc<Counters>]) -> Sample {
    const AT_ONCE: Duration = Duration::from_micros(20);
    const TRIES: u32 = 5;
    let look = || {
        let at = Instant::now();
        let counts = counts(counters);
        (Sample { at, counts }, at.elapsed())
    };
    let mut best = look();
    for _ in 1..TRIES {
        if best.1 < AT_ONCE {
            break;
        }
        best = look();
    }
    best.0
}

/// The times at which results are due, from the beginning of the phase.
#[derive(Debug)]
struct Grid {
    interval: Duration,
    due: Duration,
    /// When the phase will end by itself: a result that is due then is the last line's.
    expected_end: Option<Duration>,
}

impl Grid {
    fn new(interval: Duration, expected_end: Option<Duration>) -> Self {
        let mut grid = Self {
            interval,
            due: Duration::ZERO,
            expected_end,
        };
        grid.pass(Duration::ZERO);
        grid
    }

    fn next(&self) -> Duration {
        self.due
    }

    /// Sets the next time, the first on the grid after `now`: lateness does not add up.
    fn pass(&mut self, now: Duration) {
        let intervals = now.as_nanos() / self.interval.as_nanos() + 1;
        let intervals = u32::try_from(intervals).unwrap_or(u32::MAX);
        self.due = self.interval.saturating_mul(intervals);
        let is_the_end = |end: Duration| self.due + self.interval / 10 >= end;
        if self.expected_end.is_some_and(is_the_end) {
            self.due += self.interval;
            self.expected_end = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::answer::Watch;
    use crate::options::Unanswered;

    fn answer(counters: &Arc<Counters>) -> Arc<Answer> {
        Watch::over(std::slice::from_ref(counters), Unanswered::Report).swap_remove(0)
    }

    #[test]
    fn the_results_are_all_of_the_work_and_the_time() {
        let words = ["-D", "0.005", "-l", "0"];
        let settings = crate::options::netperf("netperf", words.map(Into::into)).unwrap();
        let counters = Arc::new(Counters::default());
        // What an iteration before this one had done.
        counters.count_received(1_000_000, 1);
        let mut intervals = Vec::new();
        let (begun, total) = (Instant::now(), 10_000_000);
        let ended = std::thread::scope(|scope| {
            let report = |interval| {
                intervals.push(interval);
                Ok(())
            };
            let interim = Interim::start(scope, &settings, &Stop::new(), report).unwrap();
            let progress = Progress {
                counters: &counters,
                all: std::slice::from_ref(&counters),
                interim: interim.as_ref(),
                answer: &answer(&counters),
            };
            progress.begun(begun);
            while begun.elapsed() < Duration::from_millis(50) {
                std::thread::yield_now();
            }
            counters.count_received(total, 1);
            progress.ended();
            begun.elapsed()
        });
        assert!(intervals.len() > 1, "{intervals:?}");
        let time: Duration = intervals.iter().map(|interval| interval.elapsed).sum();
        assert!(
            ended.abs_diff(time) < Duration::from_millis(10),
            "{intervals:?}"
        );
        let bytes = |interval: &Interval| interval.to.received.0 - interval.from.received.0;
        assert_eq!(intervals.iter().map(bytes).sum::<u64>(), total as u64);
    }

    #[test]
    fn a_reader_that_has_had_enough_ends_it() {
        let closed = |_| Err(io::ErrorKind::BrokenPipe.into());
        let words = ["-D", "0.001", "-l", "0"];
        let settings = crate::options::netperf("netperf", words.map(Into::into)).unwrap();
        let cancel = Stop::new();
        std::thread::scope(|scope| {
            let interim = Interim::start(scope, &settings, &cancel, closed).unwrap();
            let counters = Arc::default();
            Progress {
                counters: &counters,
                all: &[Arc::default()],
                interim: interim.as_ref(),
                answer: &answer(&counters),
            }
            .begun(Instant::now());
            while !cancel.is_set() {
                std::thread::yield_now();
            }
        });
        assert_eq!(cancel.reason(), Some(Reason::Cancelled));
    }

    #[rustfmt::skip]
    #[test]
    fn the_grid_skips_what_is_past_and_what_the_last_line_tells() {
        let ms = Duration::from_millis;
        // Interval, end, times at which the results were printed → times that were due.
        for (interval, end, printed, due) in [
            (300, None, &[300, 600, 950, 1201][..], &[300, 600, 900, 1200, 1500][..]),
            (300, None, &[1_000], &[300, 1_200]),
            (200, Some(1_000), &[200, 400, 600, 801], &[200, 400, 600, 800, 1_200]),
            (300, Some(1_000), &[300, 600, 900], &[300, 600, 900, 1_500]),
            (1_000, Some(1_000), &[], &[2_000]),
            (5_000, Some(1_000), &[], &[10_000]),
        ] {
            let mut grid = Grid::new(ms(interval), end.map(ms));
            let mut seen = vec![grid.next()];
            for at in printed {
                grid.pass(ms(*at));
                seen.push(grid.next());
            }
            let due: Vec<_> = due.iter().map(|at| ms(*at)).collect();
            assert_eq!(seen, due, "{interval} {end:?}");
        }
    }
}
