//! Any list of steps, run again and again over any number of connections.
//!
//! The loops for a workload know their operations when they are compiled; a script gets them as a list. What a dialect
//! does itself, such as opening connections by its own rules, is a step as well: [`ConnectionManager::perform`].

mod counting;
mod executor;
mod manager;
#[cfg(test)]
mod tests;
mod watch;

pub use crate::end::Failure;
pub use crate::io::{Connection, Early, Elsewhere, Layer};
pub use crate::timer::Watch;
pub use counting::EventCounts;
pub use manager::{ConnectionManager, Performed};
pub use watch::{Journal, Pass, StepReport, StepTimes};

use model::{Ended, Limit, Pacing, Step};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::counters::Counters;
use crate::end::Ran;
use crate::pace::Pace;
use crate::stop::{Reason, Stop};
use executor::{Executor, Left, Steps};

/// What a script runs under.
#[derive(Debug)]
pub(crate) struct Orders<'a> {
    /// Rounds after which it ends.
    pub(crate) limit: Limit,
    /// When each round begins; `None` is as fast as it goes.
    pub(crate) pacing: Option<Pacing>,
    pub(crate) stop: &'a Stop,
    pub(crate) counters: &'a Counters,
}

/// Bytes that a script has for each of its steps, beside their messages' headers.
pub const STEP_BYTES: usize = size_of::<Step>() + executor::STEP_BYTES;

/// The steps, each with the connection that it uses.
#[derive(Debug)]
pub struct Script {
    steps: Steps,
    random: SmallRng,
}

impl Script {
    /// A script; `seed` is for sizes that chance decides.
    pub fn new(steps: Vec<Step>, seed: u64) -> Self {
        Self {
            steps: Steps::new(steps),
            random: SmallRng::seed_from_u64(seed),
        }
    }

    /// Runs it to its end. What is sent comes from `buffer`, and what is received goes there.
    ///
    /// # Panics
    /// When a step moves more bytes at once than the buffer has.
    pub(crate) fn run(
        &mut self,
        manager: &mut dyn ConnectionManager,
        orders: &Orders<'_>,
        buffer: &mut [u8],
        watch: &mut impl Watch,
    ) -> Ran {
        let stop = orders.stop;
        let mut pace = orders.pacing.map(|pacing| Pace::start(&pacing, None));
        let mut rounds = match orders.limit {
            Limit::Transactions(rounds) => rounds,
            _ => u64::MAX,
        };
        let mut executor = Executor {
            manager,
            buffer,
            random: &mut self.random,
            stop,
            counters: orders.counters.writer(),
        };
        watch.start();
        let Some(pace) = &mut pace else {
            return match executor.rounds(&mut self.steps, rounds, watch) {
                Ok(()) => Ended::Count.into(),
                Err((at, why)) => why.ran(at, stop),
            };
        };
        while rounds > 0 {
            if stop.is_set() {
                return Left::Stopped.ran(0, stop);
            }
            if pace.waited(stop) {
                watch.start();
                continue;
            }
            pace.took_turns(1);
            if let Err((at, why)) = executor.rounds(&mut self.steps, 1, watch) {
                return why.ran(at, stop);
            }
            rounds -= 1;
        }
        Ended::Count.into()
    }
}

impl Left {
    fn ran(self, at: usize, stop: &Stop) -> Ran {
        match self {
            Self::Stopped => stop.reason().unwrap_or(Reason::Deadline).into(),
            Self::EndOfStream => Ended::PeerClosed.into(),
            Self::Done => Ended::Count.into(),
            Self::Failed(failure) => Ran {
                failed_step: Some((at, failure.clone())),
                ..Ended::Failed(failure.what).into()
            },
        }
    }
}
