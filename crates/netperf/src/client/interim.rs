//! Interim results (`-D`): a thread samples the counters without disturbing the hot loop.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant, SystemTime};

use engine::{CounterReading, Counters, Sampler, Stop, StopReason};
use model::Limit;

use super::answer::AnswerStatus;
use crate::options::{Settings, Test};
use crate::result::InterimResult;

/// A flow's counters and the threads that observe them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress<'a> {
    pub(super) counters: &'a Arc<Counters>,
    /// In the flow that reports the start: the counters of all flows. In the other flows: empty.
    pub(super) all_counters: &'a [Arc<Counters>],
    pub(super) interim: Option<&'a Interim>,
    /// Whether the peer has answered.
    pub(super) answer: &'a Arc<AnswerStatus>,
}

/// The thread that reports interim results. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Interim(Sender<PhaseEvent>);

#[derive(Debug)]
enum PhaseEvent {
    Started(CounterReading, Vec<Arc<Counters>>),
    /// A flow has ended.
    Ended(Instant),
}

impl Progress<'_> {
    /// Reports the start of the measured phase.
    pub(super) fn report_start(&self, at: Instant) {
        if let Some(Interim(thread)) = self.interim
            && !self.all_counters.is_empty()
        {
            let start = CounterReading {
                at,
                ..CounterReading::now(self.all_counters)
            };
            let _ = thread.send(PhaseEvent::Started(start, self.all_counters.to_vec()));
        }
    }

    /// Reports the end of the loop at this time; the counters are final.
    pub(super) fn report_end(&self, at: Instant) {
        if let Some(Interim(thread)) = self.interim {
            let _ = thread.send(PhaseEvent::Ended(at));
        }
    }
}

impl Interim {
    /// Starts the thread; `None` without `-D`. Call it before this thread is bound to a CPU,
    /// because the new thread would inherit the binding.
    ///
    /// Each result goes to `report`. If that fails, `cancel` is set.
    pub(crate) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        settings: &Settings,
        cancel: &Stop,
        report: impl FnMut(InterimResult) -> io::Result<()> + Send + 'scope,
    ) -> io::Result<Option<Self>> {
        let Some(interval) = settings.print.interim else {
            return Ok(None);
        };
        // The stock tool's classic tests print no line for the remainder.
        let reports_remainder = !matches!(settings.test, Test::TcpSendfile | Test::TcpCc);
        let mut reporter = Reporter {
            interval,
            expected_duration: match settings.flow.limit {
                Limit::Time(length) if reports_remainder => Some(length),
                _ => None,
            },
            reports_remainder,
            cancel: cancel.clone(),
            report,
        };
        let (sender, events) = mpsc::channel();
        Builder::new()
            .stack_size(128 * 1024)
            .spawn_scoped(scope, move || {
                // The thread needs only standard output. A private descriptor table keeps the hot
                // loop's table unshared.
                sys::process::use_private_descriptors(&[]);
                reporter.run(&events);
            })?;
        Ok(Some(Self(sender)))
    }
}

struct Reporter<F> {
    interval: Duration,
    /// The expected duration of the loop, so that no interim line is printed just before the final
    /// one; `None` if the test has no final line or no time limit.
    expected_duration: Option<Duration>,
    /// Whether the remainder at the end has its own line.
    reports_remainder: bool,
    cancel: Stop,
    report: F,
}

impl<F: FnMut(InterimResult) -> io::Result<()>> Reporter<F> {
    fn run(&mut self, events: &Receiver<PhaseEvent>) {
        let mut event = events.recv().ok();
        while let Some(current) = event {
            event = match current {
                PhaseEvent::Started(start, counters) => self.report_phase(events, start, &counters),
                PhaseEvent::Ended(_) => events.recv().ok(),
            };
        }
    }

    /// Reports the results of one measured phase. Returns the next event; `None` at the end of the
    /// test.
    fn report_phase(
        &mut self,
        events: &Receiver<PhaseEvent>,
        start: CounterReading,
        counters: &[Arc<Counters>],
    ) -> Option<PhaseEvent> {
        let mut sampler = Sampler::new(start, self.interval).with_end_after(self.expected_duration);
        let mut running_flows = counters.len();
        loop {
            let remaining = sampler.next_due().saturating_duration_since(Instant::now());
            match events.recv_timeout(remaining) {
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    let reading = CounterReading::now(counters);
                    self.report(&reading, sampler.last_reading(), false);
                    sampler.add(reading);
                }
                Ok(PhaseEvent::Ended(_)) if running_flows > 1 => running_flows -= 1,
                Ok(event) => {
                    if let PhaseEvent::Ended(at) = event
                        && self.reports_remainder
                    {
                        let end = CounterReading {
                            at,
                            ..CounterReading::now(counters)
                        };
                        self.report(&end, sampler.last_reading(), true);
                    }
                    return Some(event);
                }
            }
        }
    }

    fn report(&mut self, end: &CounterReading, start: &CounterReading, is_remainder: bool) {
        let reported = (self.report)(InterimResult {
            interval: end.since(start),
            ended: SystemTime::now() - end.at.elapsed(),
            is_remainder,
        });
        if reported.is_err() {
            self.cancel.set(StopReason::Cancelled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::answer::AnswerMonitor;
    use crate::options::UnansweredPolicy;

    /// Returns settings of an endless test with this interim interval in seconds.
    fn settings_with_interval(seconds: &str) -> Settings {
        let words = ["-D", seconds, "-l", "0"];
        crate::options::parse_netperf("netperf", words.map(Into::into)).unwrap()
    }

    fn answer_status(counters: &Arc<Counters>) -> Arc<AnswerStatus> {
        AnswerMonitor::start(std::slice::from_ref(counters), UnansweredPolicy::Report)
            .swap_remove(0)
    }

    #[test]
    fn intervals_add_up_to_the_whole_test() {
        let counters = Arc::new(Counters::default());
        // Counts of an earlier iteration.
        counters.count_received(1_000_000, 1);
        let mut intervals = Vec::new();
        let (started, total_bytes) = (Instant::now(), 10_000_000);
        let elapsed = std::thread::scope(|scope| {
            let report = |result| {
                intervals.push(result);
                Ok(())
            };
            let interim = Interim::start(
                scope,
                &settings_with_interval("0.005"),
                &Stop::new(),
                report,
            )
            .unwrap();
            let progress = Progress {
                counters: &counters,
                all_counters: std::slice::from_ref(&counters),
                interim: interim.as_ref(),
                answer: &answer_status(&counters),
            };
            progress.report_start(started);
            while started.elapsed() < Duration::from_millis(50) {
                std::thread::yield_now();
            }
            counters.count_received(total_bytes, 1);
            progress.report_end(Instant::now());
            started.elapsed()
        });
        assert!(intervals.len() > 1, "{intervals:?}");
        let time: Duration = intervals.iter().map(|result| result.interval.elapsed).sum();
        assert!(
            elapsed.abs_diff(time) < Duration::from_millis(10),
            "{intervals:?}"
        );
        let bytes = |result: &InterimResult| result.interval.counts.received.0;
        assert_eq!(intervals.iter().map(bytes).sum::<u64>(), total_bytes as u64);
    }

    #[test]
    fn a_closed_output_cancels_the_test() {
        let closed = |_| Err(io::ErrorKind::BrokenPipe.into());
        let cancel = Stop::new();
        std::thread::scope(|scope| {
            let interim =
                Interim::start(scope, &settings_with_interval("0.001"), &cancel, closed).unwrap();
            let counters = Arc::default();
            Progress {
                counters: &counters,
                all_counters: &[Arc::default()],
                interim: interim.as_ref(),
                answer: &answer_status(&counters),
            }
            .report_start(Instant::now());
            while !cancel.is_set() {
                std::thread::yield_now();
            }
        });
        assert_eq!(cancel.reason(), Some(StopReason::Cancelled));
    }
}
