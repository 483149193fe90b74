//! Warnings that only netperf's client can derive, and those of any Outcome.

use model::{CpuMethod, End, Outcome, Side, Warning};

use crate::details::Details;

/// Adds the peer's details and all warnings to the outcome. `same_host` is `None` if the peer does
/// not identify its host.
pub(crate) fn add_peer_details(
    outcome: &mut Outcome,
    same_host: Option<bool>,
    details: Option<Details>,
) {
    let Some(plan) = outcome.plan.flow() else {
        return;
    };
    // A transport within one host needs no warning, unless CPU time is measured.
    let measures_cpu = plan.local.measure_cpu || plan.remote.measure_cpu;
    if same_host == Some(true) && (!plan.transport.is_local() || measures_cpu) {
        outcome.warnings.push(Warning::SameHost);
    }
    match details {
        Some(details) => {
            if details.overlapping_tests > 0 {
                outcome.warnings.push(Warning::PeerShared {
                    tests: details.overlapping_tests,
                });
            }
            outcome.remote = Some(details.side);
        }
        None => outcome.warnings.extend(late_datagrams_unknown(outcome)),
    }
    outcome.warnings.extend(looper_not_used(outcome));
    outcome.warnings.extend(unavailable_cpu_times(outcome));
    let derived = outcome.derive_warnings();
    outcome.warnings.extend(derived);
}

/// Returns a warning for each end whose requested CPU time is unavailable.
fn unavailable_cpu_times(outcome: &Outcome) -> Vec<Warning> {
    let Some(plan) = outcome.plan.flow() else {
        return Vec::new();
    };
    let remote = outcome.remote.as_ref();
    let unavailable = |end, is_requested, side: Option<&Side>, reason: Option<&str>| {
        let is_missing = is_requested && side.is_some_and(|side| side.cpu.is_none());
        is_missing.then(|| Warning::NotInForce {
            end,
            setting: "CPU time".to_owned(),
            requested: "measurement".to_owned(),
            in_force: None,
            reason: reason.map(str::to_owned),
        })
    };
    let reason = Some("/proc/stat is unavailable or masked");
    let local = unavailable(
        End::Local,
        plan.local.measure_cpu,
        Some(&outcome.local),
        reason,
    );
    let remote = unavailable(End::Remote, plan.remote.measure_cpu, remote, None);
    local.into_iter().chain(remote).collect()
}

fn looper_not_used(outcome: &Outcome) -> Option<Warning> {
    outcome.plan.flow()?.remote.idle_loop?;
    let cpu = outcome.remote.as_ref()?.cpu.as_ref()?;
    (cpu.method != CpuMethod::Looper).then(|| Warning::NotReportedByPeer {
        figure: "CPU time measured by a looper; it used another method (a looper needs netserver --allow-looper)"
            .to_owned(),
    })
}

fn late_datagrams_unknown(outcome: &Outcome) -> Option<Warning> {
    // The peer's count of received datagrams includes late ones.
    let plan = outcome.plan.flow()?;
    let transport = plan.transport;
    let sends_datagrams =
        transport.has_datagrams() && !transport.is_local() && !plan.workload.receives();
    let remote = outcome.remote.as_ref();
    let is_stock = remote.is_none_or(|remote| remote.program.is_none());
    let reason = if is_stock {
        "its count includes them"
    } else {
        "its details did not arrive"
    };
    sends_datagrams.then(|| Warning::NotReportedByPeer {
        figure: format!("which datagrams arrived after the end of the test: {reason}"),
    })
}
