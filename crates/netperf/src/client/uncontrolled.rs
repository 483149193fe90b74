//! Runs one test without a control connection (`-N`), against any service with a suitable protocol.
//! Such a service reports nothing.

use std::time::Instant;

use engine::{GroupMember, Stop};
use model::Warning;

use super::ClientError;
use super::interim::Progress;
use super::local::LocalEnd;
use crate::options::Settings;
use crate::peer_report::PeerReport;
use crate::result::{Endpoints, FinishedTest};

/// Runs the test, together with the group of `member`. Returns the result and the start of the
/// measured phase.
pub(super) fn run_test(
    settings: &Settings,
    endpoints: Endpoints,
    cancel: &Stop,
    progress: Progress<'_>,
    member: Option<GroupMember<'_>>,
) -> Result<(FinishedTest, Instant), ClientError> {
    let plan = &settings.flow;
    let mut local = LocalEnd::prepare(settings, &endpoints)?;
    let dest = &endpoints.dest;
    let (mut outcome, started) = local.run(settings, dest, None, cancel, progress, member)?;
    outcome.local.host = Some(engine::host_facts(None));
    if !plan.workload.receives() && plan.workload.sends() {
        outcome.warnings.push(Warning::NotReportedByPeer {
            figure: "what arrived: there is no control connection (-N)".to_owned(),
        });
    }
    let derived = outcome.derive_warnings();
    outcome.warnings.extend(derived);
    let run = FinishedTest {
        outcome,
        peer: PeerReport::without_control(),
        endpoints,
        repetition_means: None,
    };
    Ok((run, started))
}
