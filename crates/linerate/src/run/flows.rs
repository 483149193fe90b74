//! One run of one test: its parallel flows and their sum.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use sys::Address;

use engine::Stop;
use model::{EndCause, Outcome, Series, Warning};
use netperf::client::{ClientError, FailureScope, Flows};
use netperf::options::Settings;
use units::BitRate;

use super::progress::Phase;
use super::settings::{fit_datagrams, pace_datagrams};
use super::warnings;

/// Failure of a test.
#[derive(Debug)]
pub(super) struct Failure {
    /// Reason in one line.
    pub(super) reason: String,
    /// The other tests that would fail for the same reason.
    pub(super) scope: FailureScope,
    /// Time until the peer ended the test, if it ended the test early.
    pub(super) ended_early: Option<Duration>,
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self {
            reason: error.to_string(),
            scope: error.scope(),
            ended_early: match error {
                ClientError::CutShort { after, .. } => Some(after),
                _ => None,
            },
        }
    }
}

impl Failure {
    /// Returns a failure that concerns only this test.
    pub(super) fn for_test(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            scope: FailureScope::Test,
            ended_early: None,
        }
    }

    /// Returns a failure if the peer ended the test early. The outcome then covers only the time
    /// until the end.
    pub(super) fn for_early_end(outcome: &Outcome) -> Option<Self> {
        let ended_after = outcome.warnings.iter().find_map(|warning| match warning {
            Warning::EndedEarly { after } => Some(*after),
            _ => None,
        });
        let after = ended_after.filter(|_| outcome.ended != EndCause::Cancelled)?;
        Some(Self {
            reason: format!("the peer ended the test after {:.2} s", after.as_secs_f64()),
            scope: FailureScope::Peer,
            ended_early: Some(after),
        })
    }
}

/// Runs a test. All flows start together. One-way datagrams of all flows share the `total_rate`.
pub(super) fn run(
    settings: &Settings,
    total_rate: Option<BitRate>,
    stop: &Stop,
    phase: &Phase,
) -> Result<Outcome, Failure> {
    let mut flows = Flows::connect(settings, stop)?;
    let Some(remote) = flows.remote().cloned() else {
        let reason = "the address of the peer is unknown without a control connection";
        return Err(Failure::for_test(reason));
    };
    if let Address::Inet(remote) = remote {
        for settings in flows.settings_mut() {
            fit_datagrams(settings, remote);
        }
    }
    if let Some(BitRate(total_rate)) = total_rate {
        let flow_rate = BitRate(total_rate / f64::from(settings.flows.max(1)));
        for settings in flows.settings_mut() {
            pace_datagrams(settings, flow_rate);
        }
    }
    let counters = flows.counters();
    let run = thread::scope(|scope| {
        // The end of the flows drops the sender, even after a panic. The receiver notices that.
        let (end_sender, end_receiver) = mpsc::channel();
        let (flows, counters) = (&mut flows, &counters);
        let test = scope.spawn(move || {
            let _end_sender = end_sender;
            flows.measure(counters)
        });
        let samples = phase.sample_and_show(counters, &end_receiver);
        test.join().map(|run| (run, samples))
    });
    let (run, samples) = match run {
        Ok((run, samples)) => (run?, samples),
        Err(_) => {
            return Err(Failure::for_test(
                "internal error: the thread of a flow ended unexpectedly",
            ));
        }
    };
    flows.close();
    let mut sum = run.outcome;
    sum.series = vec![Series {
        name: settings.name.clone(),
        samples,
        ..Series::default()
    }];
    warnings::add(&mut sum, &remote);
    Ok(sum)
}
