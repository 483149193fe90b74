//! Doubts that only the dialect's client can know of, and those that any Outcome has.

use model::{CpuMethod, Outcome, Warning};

use crate::details::Details;

/// Adds what the peer told beyond its results, and the doubts. `same_host` is `None` when the peer
/// cannot say who it is.
pub(crate) fn of_peer(outcome: &mut Outcome, same_host: Option<bool>, details: Option<Details>) {
    let Some(plan) = outcome.plan.flow() else {
        return;
    };
    // What never leaves the host is no doubt about a test that is meant to be so; its CPUs may be.
    let measures_cpu = plan.here.measure_cpu || plan.there.measure_cpu;
    if same_host == Some(true) && (!plan.transport.is_of_one_host() || measures_cpu) {
        outcome.warnings.push(Warning::SameHost);
    }
    match details {
        Some(details) => {
            if details.overlapping_tests > 0 {
                outcome.warnings.push(Warning::PeerShared {
                    tests: details.overlapping_tests,
                });
            }
            outcome.there = Some(details.side);
        }
        None => outcome.warnings.extend(unknown_without_details(outcome)),
    }
    outcome.warnings.extend(not_by_looper(outcome));
    let doubts = outcome.doubts();
    outcome.warnings.extend(doubts);
}

fn not_by_looper(outcome: &Outcome) -> Option<Warning> {
    outcome.plan.flow()?.there.idle_loop?;
    let cpu = outcome.there.as_ref()?.cpu.as_ref()?;
    (cpu.method != CpuMethod::Looper).then(|| Warning::PeerCannotTell {
        figure:
            "its CPU time by a looper, and measured it by its own method (netserver --allow-looper)"
                .to_owned(),
    })
}

fn unknown_without_details(outcome: &Outcome) -> Option<Warning> {
    // Its count of received datagrams has the late ones in it.
    let plan = outcome.plan.flow()?;
    let transport = plan.transport;
    let datagrams =
        transport.has_datagrams() && !transport.is_of_one_host() && !plan.workload.receives();
    let there = outcome.there.as_ref();
    let is_stock = there.is_none_or(|there| there.program.is_none());
    let why = if is_stock {
        "they are in its count"
    } else {
        "its details did not come"
    };
    datagrams.then(|| Warning::PeerCannotTell {
        figure: format!("which datagrams came after the test's time: {why}"),
    })
}
