//! Scripts: lists of steps that run repeatedly over any number of connections.
//!
//! The loops of a workload are compiled for their operations; a script reads its operations from a
//! list. Work of a dialect, such as opening connections by its rules, is also a step:
//! [`ConnectionManager::perform`].

mod event_counters;
mod executor;
mod manager;
mod step_times;
#[cfg(test)]
mod tests;

pub use crate::end::StepFailure;
pub use crate::io::{Connection, EarlyDatagrams, EarlySocket, Layer};
pub use crate::timer::StepTimer;
pub use event_counters::EventCounts;
pub use manager::{ConnectionManager, DialectStepResult};
pub use step_times::{PassObserver, PassTimes, StepReport, StepTimes};

use model::{EndCause, Limit, Pacing, Step};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::counters::Counters;
use crate::end::LoopResult;
use crate::pace::Pace;
use crate::stop::{Stop, StopReason};
use executor::{Executor, StepEnd, Steps};

/// Settings of one run of a script.
#[derive(Debug)]
pub(crate) struct ScriptSettings<'a> {
    /// Number of rounds after which the script ends.
    pub(crate) limit: Limit,
    /// Schedule of the rounds; `None` runs them without pauses.
    pub(crate) pacing: Option<Pacing>,
    pub(crate) stop: &'a Stop,
    pub(crate) counters: &'a Counters,
}

/// Bytes of memory per step of a script, without the headers of its messages.
pub const STEP_BYTES: usize = size_of::<Step>() + executor::BOUND_STEP_BYTES;

/// A list of steps, with the connection of each.
#[derive(Debug)]
pub struct Script {
    steps: Steps,
    random: SmallRng,
}

impl Script {
    /// Returns a script without connections; `seed` is for random sizes.
    pub fn new(steps: Vec<Step>, seed: u64) -> Self {
        Self {
            steps: Steps::new(steps),
            random: SmallRng::seed_from_u64(seed),
        }
    }

    /// Runs the script to its end. It sends from `buffer` and receives into it.
    ///
    /// # Panics
    /// If a step moves more bytes per call than the buffer has.
    pub(crate) fn run(
        &mut self,
        manager: &mut dyn ConnectionManager,
        settings: &ScriptSettings<'_>,
        buffer: &mut [u8],
        timer: &mut impl StepTimer,
    ) -> LoopResult {
        let stop = settings.stop;
        let mut pace = settings.pacing.map(|pacing| Pace::start(&pacing, None));
        let mut rounds = match settings.limit {
            Limit::Transactions(rounds) => rounds,
            _ => u64::MAX,
        };
        let mut executor = Executor {
            manager,
            buffer,
            random: &mut self.random,
            stop,
            counters: settings.counters.writer(),
        };
        timer.start();
        let Some(pace) = &mut pace else {
            return match executor.run_rounds(&mut self.steps, rounds, timer) {
                Ok(()) => EndCause::Count.into(),
                Err((step_index, end)) => end.into_loop_result(step_index, stop),
            };
        };
        while rounds > 0 {
            if stop.is_set() {
                return StepEnd::Stopped.into_loop_result(0, stop);
            }
            if pace.wait_if_early(stop) {
                timer.start();
                continue;
            }
            pace.record_paced_passes(1);
            if let Err((step, end)) = executor.run_rounds(&mut self.steps, 1, timer) {
                return end.into_loop_result(step, stop);
            }
            rounds -= 1;
        }
        EndCause::Count.into()
    }
}

impl StepEnd {
    fn into_loop_result(self, step_index: usize, stop: &Stop) -> LoopResult {
        match self {
            Self::Stopped => stop.reason().unwrap_or(StopReason::Deadline).into(),
            Self::EndOfStream => EndCause::PeerClosed.into(),
            Self::Done => EndCause::Count.into(),
            Self::Failed(failure) => LoopResult {
                failed_step: Some((step_index, failure.clone())),
                ..EndCause::Failed(failure.action).into()
            },
        }
    }
}
