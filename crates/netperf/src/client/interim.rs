//! Interim results (`-D`): a thread that samples the counters, so that the loop that counts does not notice.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant, SystemTime};

use engine::{Counters, Reading, Reason, Sampler, Stop};
use model::Limit;

use super::answer::Answer;
use crate::options::{Settings, Test};
use crate::result::InterimResult;

/// A flow's counters, and the threads that follow them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress<'a> {
    pub(super) counters: &'a Arc<Counters>,
    /// The counters of all flows, at the one flow that reports when the test begins.
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
    Begun(Reading, Vec<Arc<Counters>>),
    /// One of the flows has ended.
    Ended(Instant),
}

impl Progress<'_> {
    /// The measured phase has begun.
    pub(super) fn begun(&self, at: Instant) {
        if let Some(Interim(thread)) = self.interim
            && !self.all.is_empty()
        {
            let begun = Reading {
                at,
                ..Reading::now(self.all)
            };
            let _ = thread.send(Phase::Begun(begun, self.all.to_vec()));
        }
    }

    /// The loop has ended at this time: what the counters say is the last word.
    pub(super) fn ended(&self, at: Instant) {
        if let Some(Interim(thread)) = self.interim {
            let _ = thread.send(Phase::Ended(at));
        }
    }
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
        report: impl FnMut(InterimResult) -> io::Result<()> + Send + 'scope,
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

impl<F: FnMut(InterimResult) -> io::Result<()>> Reporter<F> {
    fn follow(&mut self, phases: &Receiver<Phase>) {
        let mut phase = phases.recv().ok();
        while let Some(now) = phase {
            phase = match now {
                Phase::Begun(begun, counters) => self.report_until_next(phases, begun, &counters),
                Phase::Ended(_) => phases.recv().ok(),
            };
        }
    }

    /// The results of one measured phase; what follows it, until nobody is left to say so.
    fn report_until_next(
        &mut self,
        phases: &Receiver<Phase>,
        begun: Reading,
        counters: &[Arc<Counters>],
    ) -> Option<Phase> {
        let mut sampler = Sampler::new(begun, self.interval).ending_after(self.expected_end);
        let mut moving = counters.len();
        loop {
            let left = sampler.due().saturating_duration_since(Instant::now());
            match phases.recv_timeout(left) {
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    let reading = Reading::now(counters);
                    self.report(&reading, sampler.last(), false);
                    sampler.add(reading);
                }
                Ok(Phase::Ended(_)) if moving > 1 => moving -= 1,
                Ok(phase) => {
                    if let Phase::Ended(at) = phase
                        && self.tells_rest
                    {
                        let ended = Reading {
                            at,
                            ..Reading::now(counters)
                        };
                        self.report(&ended, sampler.last(), true);
                    }
                    return Some(phase);
                }
            }
        }
    }

    fn report(&mut self, to: &Reading, from: &Reading, is_rest: bool) {
        let reported = (self.report)(InterimResult {
            interval: to.since(from),
            ended: SystemTime::now() - to.at.elapsed(),
            is_rest,
        });
        if reported.is_err() {
            self.cancel.pull(Reason::Cancelled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::answer::Watch;
    use crate::options::Unanswered;

    /// A test without end that reports so often.
    fn every(seconds: &str) -> Settings {
        let words = ["-D", seconds, "-l", "0"];
        crate::options::netperf("netperf", words.map(Into::into)).unwrap()
    }

    fn answer(counters: &Arc<Counters>) -> Arc<Answer> {
        Watch::over(std::slice::from_ref(counters), Unanswered::Report).swap_remove(0)
    }

    #[test]
    fn the_results_are_all_of_the_work_and_the_time() {
        let counters = Arc::new(Counters::default());
        // What an iteration before this one had done.
        counters.count_received(1_000_000, 1);
        let mut intervals = Vec::new();
        let (begun, total) = (Instant::now(), 10_000_000);
        let ended = std::thread::scope(|scope| {
            let report = |result| {
                intervals.push(result);
                Ok(())
            };
            let interim = Interim::start(scope, &every("0.005"), &Stop::new(), report).unwrap();
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
            progress.ended(Instant::now());
            begun.elapsed()
        });
        assert!(intervals.len() > 1, "{intervals:?}");
        let time: Duration = intervals.iter().map(|result| result.interval.elapsed).sum();
        assert!(
            ended.abs_diff(time) < Duration::from_millis(10),
            "{intervals:?}"
        );
        let bytes = |result: &InterimResult| result.interval.counts.received.0;
        assert_eq!(intervals.iter().map(bytes).sum::<u64>(), total as u64);
    }

    #[test]
    fn a_reader_that_has_had_enough_ends_it() {
        let closed = |_| Err(io::ErrorKind::BrokenPipe.into());
        let cancel = Stop::new();
        std::thread::scope(|scope| {
            let interim = Interim::start(scope, &every("0.001"), &cancel, closed).unwrap();
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
}
