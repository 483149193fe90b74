//! What the figures of both ends together give reason to doubt.

use model::{End, Ended, Outcome, Side, Transport, Warning};

use crate::details::Details;

/// A CPU with less idle time than this is what may have been measured.
const SATURATED_PERCENT: f64 = 95.0;

/// Less stolen time than this is not worth a line.
const STEAL_PERCENT: f64 = 1.0;

/// Adds what the peer told beyond its results, and the doubts. `same_host` is `None` when the peer
/// cannot say who it is.
pub(crate) fn of_peer(outcome: &mut Outcome, same_host: Option<bool>, details: Option<Details>) {
    if same_host == Some(true) {
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
        None => outcome.warnings.extend(unknown_of_a_stock_peer(outcome)),
    }
    let ends = [
        (End::Here, Some(&outcome.here)),
        (End::There, outcome.there.as_ref()),
    ];
    let doubts: Vec<Warning> = ends
        .into_iter()
        .filter_map(|(end, side)| Some((end, side?)))
        .flat_map(|(end, side)| of_cpu(end, side))
        .collect();
    outcome.warnings.extend(doubts);

    let late = outcome
        .there
        .as_ref()
        .map_or(0, |there| there.counts.receive_calls_late);
    if late > 0 {
        outcome
            .warnings
            .push(Warning::LateDatagrams { datagrams: late });
    }
    let failed_sends = outcome.here.counts.failed_sends;
    if failed_sends > 0 {
        outcome
            .warnings
            .push(Warning::SenderOverflow { failed_sends });
    }
    if let (Ended::Cancelled, Some(after)) = (&outcome.ended, outcome.here.elapsed) {
        outcome.warnings.push(Warning::EndedEarly { after });
    }
}

fn unknown_of_a_stock_peer(outcome: &Outcome) -> Option<Warning> {
    // Its count of received datagrams has the late ones in it.
    let datagrams = outcome.plan.transport == Transport::Udp && !outcome.plan.workload.receives();
    datagrams.then(|| Warning::PeerCannotTell {
        figure: "which datagrams came after the test's time: they are in its count".to_owned(),
    })
}

fn of_cpu(end: End, side: &Side) -> Vec<Warning> {
    let Some(cpu) = &side.cpu else {
        return Vec::new();
    };
    let mut doubts = Vec::new();
    if let Some((_, busy_percent)) = cpu.peak.filter(|(_, busy)| *busy > SATURATED_PERCENT) {
        doubts.push(Warning::CpuSaturated { end, busy_percent });
    }
    if let Some(steal_percent) = cpu.steal_percent.filter(|steal| *steal > STEAL_PERCENT) {
        doubts.push(Warning::StealTime { end, steal_percent });
    }
    doubts
}
