//! Warnings in addition to those of the netperf client: about stock peers, and from the samples of
//! a run.

use model::{End, Outcome, Warning};
use report::TestFigures;
use sys::Address;

/// Adds the warnings to the outcome.
pub(super) fn add(outcome: &mut Outcome, remote: &Address) {
    // A stock peer does not report its host, so only its address shows that it is this host.
    if remote.ip().is_some_and(sys::facts::is_local_address)
        && !outcome.warnings.contains(&Warning::SameHost)
    {
        outcome.warnings.insert(0, Warning::SameHost);
    }
    discard_impossible_cpu(outcome);
    let levels = TestFigures::from_outcome(outcome).levels;
    outcome
        .warnings
        .extend(levels.map(|levels| Warning::TwoLevels {
            low_percent: 100.0 * levels.low_share,
        }));
}

/// Removes the warnings about pacing, for rates that linerate itself chose as an upper limit.
pub(super) fn remove_pacing_warnings(outcome: &mut Outcome) {
    let is_pacing = |warning: &Warning| {
        matches!(
            warning,
            Warning::PacingNotHeld { .. } | Warning::PacingUneven { .. }
        )
    };
    outcome.warnings.retain(|warning| !is_pacing(warning));
}

/// Discards a remote CPU figure above 100 %, and warns that the figure is unavailable.
///
/// In connection tests, a stock server measures until the end of its wait after the test, but
/// divides by the time of the test alone: 300 % in a test of 2 s, less in longer tests.
fn discard_impossible_cpu(outcome: &mut Outcome) {
    let Some(remote) = &mut outcome.remote else {
        return;
    };
    if let Some(cpu) = remote
        .cpu
        .take_if(|cpu| cpu.busy_percent > MAX_BUSY_PERCENT)
    {
        let figure = format!("a plausible CPU time ({:.0} %)", cpu.busy_percent);
        outcome.warnings.retain(|warning| {
            !matches!(
                warning,
                Warning::CpuSaturated {
                    end: End::Remote,
                    ..
                }
            )
        });
        outcome.warnings.push(Warning::NotReportedByPeer { figure });
    }
}

/// Maximum plausible busy share: 100 %, and a tolerance for the ticks between two reads of
/// /proc/stat.
const MAX_BUSY_PERCENT: f64 = 101.0;
