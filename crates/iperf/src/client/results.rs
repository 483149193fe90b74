//! The results of a client's flows, and their sum.

use std::os::fd::AsFd;
use std::sync::{Arc, PoisonError, mpsc};
use std::time::Duration;

use engine::Reading;
use model::{Ended, FlowPlan, Outcome, Plan, Sample, Series};

use super::{Finished, Run};
use crate::event::Event;
use crate::report_group::Leg;
use crate::traffic::Went;

impl Run<'_> {
    /// Keeps the result of a flow.
    pub(crate) fn keep(&self, flow: &FlowPlan, went: Went) {
        if let Ended::Failed(why) = &went.ended {
            let _ = self.failure.set(why.clone());
        }
        let (began, started) = self.started;
        let after = began
            .elapsed()
            .saturating_sub(went.side.elapsed.unwrap_or_default());
        let plan = Plan::of_flow("", self.client.host.clone(), flow.clone());
        let mut outcome =
            Outcome::of_flow(plan, started + after, went.side, went.there, went.ended);
        outcome.warnings.extend(went.doubt);
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.push((outcome, after));
    }

    /// Runs a flow. If a document is to be written, samples it meanwhile.
    pub(crate) fn sampled<T>(&self, leg: &Leg, run: impl FnOnce() -> T) -> T {
        const GRID: Duration = Duration::from_millis(100);
        if !self.client.json && self.client.html.is_none() {
            return run();
        }
        let look = |_: &Reading, sample: Option<&mut Sample>| {
            if let Some(sample) = sample {
                sample.path = engine::path_sample(leg.socket.as_fd());
                sample.datagrams = leg.counters.datagrams();
            }
        };
        let counters = [Arc::clone(&leg.counters)];
        let (running, ended) = mpsc::channel();
        std::thread::scope(|scope| {
            let samples = scope.spawn(|| {
                let ended = ended;
                engine::sample_until(&ended, &counters, GRID, None, look)
            });
            let done = run();
            drop(running);
            let series = Series {
                name: format!("flow {}", leg.id.number),
                begun: Duration::ZERO,
                samples: samples.join().unwrap_or_default(),
            };
            let mut all = self.series.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(series);
            done
        })
    }

    /// Keeps the time that a connection took; `None` if it failed.
    pub(super) fn keep_connect_time(&self, time: Option<Duration>) {
        let times = self.connect_times.lock();
        times.unwrap_or_else(PoisonError::into_inner).push(time);
    }

    pub(super) fn report_connect_times(&self) {
        let times = self.connect_times.lock();
        let times = times.unwrap_or_else(PoisonError::into_inner);
        self.observer.see(&Event::ConnectTimes(&times));
    }

    pub(super) fn finish(self) -> Finished {
        let results = self.results.into_inner();
        let mut results = results.unwrap_or_else(PoisonError::into_inner);
        // In the plan the sending flows come first.
        results.sort_by_key(|(outcome, _)| !outcome.plan.sends());
        let first = results.iter().map(|(_, after)| *after).min();
        for (_, after) in &mut results {
            *after -= first.unwrap_or_default();
        }
        let series = self.series.into_inner();
        let mut series = series.unwrap_or_else(PoisonError::into_inner);
        // A short flow has no samples.
        series.retain(|series| !series.samples.is_empty());
        series.sort_by(|one, other| one.name.cmp(&other.name));
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
        Finished {
            error: match self.failure.into_inner() {
                None if outcome.is_none() && self.client.connect_only.is_none() => {
                    Some("nothing was measured".to_owned())
                }
                failure => failure,
            },
            outcome,
            peer: Some(self.to),
        }
    }
}
