//! The results of a client's flows, and their sum.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use engine::CounterReading;
use model::{EndCause, FlowPlan, Outcome, Plan, Sample, Series};

use super::{ClientResult, ClientRun};
use crate::event::TestEvent;
use crate::options::PacingSteps;
use crate::report_group::MeasuredFlow;
use crate::traffic::FlowResult;

impl ClientRun<'_> {
    /// Records the result of a flow, and the first failure.
    pub(crate) fn record_result(&self, flow: &FlowPlan, result: FlowResult) {
        if let EndCause::Failed(reason) = &result.ended {
            let _ = self.first_failure.set(reason.clone());
        }
        let (started_monotonic, started_at) = self.started;
        let start_offset = result.started.saturating_duration_since(started_monotonic);
        let plan = Plan::for_flow("", self.client.host.clone(), flow.clone());
        let mut outcome = Outcome::for_flow(
            plan,
            started_at + start_offset,
            result.side,
            result.remote,
            result.ended,
        );
        outcome.warnings.extend(result.warning);
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.push((outcome, start_offset));
    }

    /// Runs a flow, and raises the rate of its pacing (`--fq-rate-step`). Samples the flow if the
    /// results go to a JSON or HTML document.
    pub(crate) fn run_flow<T>(&self, measured: &MeasuredFlow, run: impl FnOnce() -> T) -> T {
        let Some(steps) = self.client.pacing_steps.filter(|_| measured.sends) else {
            return self.run_sampled(measured, run);
        };
        let (end_sender, end_receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            let socket = measured.socket.as_fd();
            self.spawn(scope, move || {
                if let Err(error) = raise_pacing(socket, steps, &end_receiver) {
                    self.fail(format!(
                        "SO_MAX_PACING_RATE failed: {}",
                        sys::describe(&error)
                    ));
                }
            });
            let result = self.run_sampled(measured, run);
            drop(end_sender);
            result
        })
    }

    fn run_sampled<T>(&self, measured: &MeasuredFlow, run: impl FnOnce() -> T) -> T {
        const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
        if !self.client.json && self.client.html.is_none() {
            return run();
        }
        let add_to_sample = |_: &CounterReading, sample: Option<&mut Sample>| {
            if let Some(sample) = sample {
                let socket = measured.socket.as_fd();
                sample.path = engine::path_sample(socket);
                let acknowledged = engine::acknowledged_bytes(socket);
                sample.acknowledged = acknowledged.map(|bytes| bytes.min(sample.sent));
                sample.datagrams = measured.counters.datagrams();
            }
        };
        let counters = [Arc::clone(&measured.counters)];
        let started_after = self.started.0.elapsed();
        let (end_sender, end_receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            let samples = self.spawn(scope, || {
                let end_receiver = end_receiver;
                engine::sample_until(
                    &end_receiver,
                    &counters,
                    SAMPLE_INTERVAL,
                    None,
                    add_to_sample,
                )
            });
            let result = run();
            drop(end_sender);
            let series = Series {
                name: format!("flow {}", measured.id.number),
                started_after,
                samples: samples.and_then(|it| self.join(it)).unwrap_or_default(),
            };
            let mut all_series = self.series.lock().unwrap_or_else(PoisonError::into_inner);
            all_series.push(series);
            result
        })
    }

    /// Records the connect time of a connection; `None` for a failed one.
    pub(super) fn record_connect_time(&self, time: Option<Duration>) {
        let times = self.connect_times.lock();
        times.unwrap_or_else(PoisonError::into_inner).push(time);
    }

    pub(super) fn report_connect_times(&self) {
        let times = self.connect_times.lock();
        let times = times.unwrap_or_else(PoisonError::into_inner);
        self.observer.observe(&TestEvent::ConnectTimes(&times));
    }

    pub(super) fn finish(self) -> ClientResult {
        let results = self.results.into_inner();
        let mut results = results.unwrap_or_else(PoisonError::into_inner);
        // The plan lists the sending flows first.
        results.sort_by_key(|(outcome, _)| !outcome.plan.sends());
        let first_offset = results.iter().map(|(_, start_offset)| *start_offset).min();
        for (_, start_offset) in &mut results {
            *start_offset -= first_offset.unwrap_or_default();
        }
        let series = self.series.into_inner();
        let mut series = series.unwrap_or_else(PoisonError::into_inner);
        // A short flow may have no samples.
        series.retain(|series| !series.samples.is_empty());
        series.sort_by(|one, other| one.name.cmp(&other.name));
        let first_start = series.iter().map(|series| series.started_after).min();
        for series in &mut series {
            series.started_after -= first_start.unwrap_or_default();
        }
        let outcome = Outcome::sum(results).map(|sum| {
            let mut plan = self.client.plan.clone();
            if let (Some(planned), Some(flow)) = (plan.flow_mut(), sum.plan.flow()) {
                planned.clone_from(flow);
            }
            Outcome {
                plan,
                series,
                ..sum
            }
        });
        ClientResult {
            error: match self.first_failure.into_inner() {
                None if outcome.is_none() && self.client.connect_only.is_none() => {
                    Some("nothing was measured".to_owned())
                }
                failure => failure,
            },
            outcome,
            peer: Some(self.server_address),
        }
    }
}

/// Raises the rate of a socket's pacing until the sender of `ended` is dropped.
fn raise_pacing(
    socket: BorrowedFd<'_>,
    steps: PacingSteps,
    ended: &Receiver<Infallible>,
) -> io::Result<()> {
    let started = Instant::now();
    for number in 1.. {
        let due = steps.interval.saturating_mul(number);
        let wait = due.saturating_sub(started.elapsed());
        if ended.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            break;
        }
        sys::option::set_max_pacing_rate(socket, steps.rate_after(number.into()))?;
    }
    Ok(())
}
