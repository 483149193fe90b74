//! One test without a control connection (`-N`): against any service that answers as the test needs
//! it, which nobody can ask how it was.

use std::time::{Instant, SystemTime};

use engine::{GroupMember, Stop};
use model::{Outcome, Warning};

use super::ClientError;
use super::interim::Progress;
use super::local::{LocalEnd, Measured, bind_thread};
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
    let mut doubts: Vec<_> = bind_thread(plan).into_iter().collect();
    let mut end = LocalEnd::prepare(settings, &endpoints, &mut doubts)?;
    let started = SystemTime::now();
    let Measured {
        begun,
        mut here,
        ended,
        doubts: own,
        tcp_info,
    } = end.run(settings, &endpoints.dest, None, cancel, progress, member)?;
    doubts.extend(own);
    if let Some(dump) = tcp_info.filter(|_| !settings.test.is_classic()) {
        dump.print();
    }
    here.host = Some(engine::facts(None));
    here.program = Some(crate::PROGRAM.to_owned());
    let mut outcome = Outcome {
        warnings: doubts,
        ..Outcome::of_flow(settings.plan(), started, here, None, ended)
    };
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
