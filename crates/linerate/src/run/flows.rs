//! One run of one test: its flows, side by side, and their sum.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use sys::Address;

use engine::Stop;
use model::{Ended, Outcome, Series, Warning};
use netperf::client::{ClientError, Flows, Scope};
use netperf::options::Settings;
use units::BitRate;

use super::doubts;
use super::progress::Phase;
use super::settings::{fit_datagrams, pace_datagrams};

/// Why a test has no result.
#[derive(Debug)]
pub(super) struct Failure {
    /// In one line.
    pub(super) why: String,
    /// What else would fail.
    pub(super) scope: Scope,
    /// How long the test ran, if the peer ended it before its time.
    pub(super) ended_early: Option<Duration>,
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self {
            why: error.to_string(),
            scope: error.scope(),
            ended_early: match error {
                ClientError::Cut { after, .. } => Some(after),
                _ => None,
            },
        }
    }
}

impl Failure {
    /// Of this test alone.
    pub(super) fn of_test(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            scope: Scope::Test,
            ended_early: None,
        }
    }

    /// The peer ended the test, and reported what it had until then.
    pub(super) fn of_cut(outcome: &Outcome) -> Option<Self> {
        let cut = outcome.warnings.iter().find_map(|warning| match warning {
            Warning::EndedEarly { after } => Some(*after),
            _ => None,
        });
        let after = cut.filter(|_| outcome.ended != Ended::Cancelled)?;
        Some(Self {
            why: format!("the peer ended the test after {:.2} s", after.as_secs_f64()),
            scope: Scope::Peer,
            ended_early: Some(after),
        })
    }
}

/// Runs the settings' test on all its flows, which begin together, and of one-way datagrams together
/// keep to `rate`.
pub(super) fn run(
    settings: &Settings,
    rate: Option<BitRate>,
    stop: &Stop,
    phase: &Phase,
) -> Result<Outcome, Failure> {
    let mut flows = Flows::connect(settings, stop)?;
    let Some(remote) = flows.remote().cloned() else {
        let why = "without a control connection nothing is known of the other end";
        return Err(Failure::of_test(why));
    };
    if let Address::Inet(remote) = remote {
        for settings in flows.settings_mut() {
            fit_datagrams(settings, remote);
        }
    }
    if let Some(BitRate(rate)) = rate {
        let each = BitRate(rate / f64::from(settings.flows.max(1)));
        for settings in flows.settings_mut() {
            pace_datagrams(settings, each);
        }
    }
    let counters = flows.counters();
    let run = thread::scope(|scope| {
        // Dropped when the flows have ended, however they did.
        let (running, ended) = mpsc::channel();
        let (flows, counters) = (&mut flows, &counters);
        let test = scope.spawn(move || {
            let _running = running;
            flows.measure(counters)
        });
        let samples = phase.follow(counters, &ended);
        test.join().map(|run| (run, samples))
    });
    let (run, samples) = match run {
        Ok((run, samples)) => (run?, samples),
        Err(_) => return Err(Failure::of_test("a flow's thread broke off")),
    };
    flows.close();
    let mut sum = run.outcome;
    sum.series = vec![Series {
        name: settings.name.clone(),
        samples,
        ..Series::default()
    }];
    doubts::add(&mut sum, &remote);
    Ok(sum)
}
