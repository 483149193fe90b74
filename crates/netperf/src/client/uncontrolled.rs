//! One test without a control connection (`-N`): against any service that answers as the test needs
//! it, which nobody can ask how it was.

use std::time::Instant;

use engine::{GroupMember, Stop};
use model::Warning;

use super::ClientError;
use super::interim::Progress;
use super::local::LocalEnd;
use crate::options::Settings;
use crate::peer_report::PeerReport;
use crate::result::{Endpoints, TestRun};

/// Runs the test, together with the group of `member`. Returns also when the measured phase began. An
/// error is a test without a result.
pub(super) fn test(
    settings: &Settings,
    endpoints: Endpoints,
    cancel: &Stop,
    progress: Progress<'_>,
    member: Option<GroupMember<'_>>,
) -> Result<(TestRun, Instant), ClientError> {
    let plan = &settings.flow;
    let mut end = LocalEnd::prepare(settings, &endpoints)?;
    let dest = &endpoints.dest;
    let (mut outcome, begun) = end.run(settings, dest, None, cancel, progress, member)?;
    outcome.here.host = Some(engine::facts(None));
    if !plan.workload.receives() && plan.workload.sends() {
        outcome.warnings.push(Warning::PeerCannotTell {
            figure: "what arrived: there is no control connection (-N)".to_owned(),
        });
    }
    let doubts = outcome.doubts();
    outcome.warnings.extend(doubts);
    let run = TestRun {
        outcome,
        peer: PeerReport::nothing(),
        endpoints,
        repeated: None,
    };
    Ok((run, begun))
}
