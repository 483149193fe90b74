//! Several flows that ran at the same time → one Outcome.

use std::mem;

use model::{Ended, Outcome, Paced, Side, Warning};
use stats::Histogram;

/// What flows that started together moved together: counts are sums, times lie in one histogram,
/// and the time is that of the flow that took longest. What belongs to a host or cannot be added is
/// the first flow's, which is the one that measures the CPUs. `None` of no flows.
pub fn merge(flows: Vec<Outcome>) -> Option<Outcome> {
    let count = flows.len() as u32;
    let mut flows = flows.into_iter();
    let mut merged = flows.next()?;
    for flow in flows {
        add(&mut merged, flow);
    }
    merged.plan.flows = count;
    merged
        .warnings
        .retain_mut(|warning| is_of_others(warning, count - 1));
    Some(merged)
}

fn add(merged: &mut Outcome, flow: Outcome) {
    merged.started = merged.started.min(flow.started);
    add_side(&mut merged.here, flow.here);
    match (&mut merged.there, flow.there) {
        (Some(merged), Some(flow)) => add_side(merged, flow),
        // A sum without one of its parts is none.
        (merged, _) => *merged = None,
    }
    if weight(&flow.ended) > weight(&merged.ended) {
        merged.ended = flow.ended;
    }
    for warning in flow.warnings {
        let known = merged
            .warnings
            .iter_mut()
            .find(|known| mem::discriminant(*known) == mem::discriminant(&warning));
        match known {
            Some(known) => add_warning(known, &warning),
            None => merged.warnings.push(warning),
        }
    }
}

fn add_side(merged: &mut Side, flow: Side) {
    merged.counts += flow.counts;
    merged.elapsed = merged.elapsed.max(flow.elapsed);
    merged.socket.retransmits = merged
        .socket
        .retransmits
        .zip(flow.socket.retransmits)
        .map(|(merged, flow)| merged.saturating_add(flow));
    for (merged, flow) in [
        (&mut merged.latency, flow.latency),
        (&mut merged.send_times, flow.send_times),
        (&mut merged.receive_times, flow.receive_times),
        (&mut merged.send_gaps, flow.send_gaps),
    ] {
        add_times(merged, flow);
    }
    match (&mut merged.paced, flow.paced) {
        (Some(paced), Some(flow)) => {
            add_paced(paced, &flow);
            // Of flows whose times did not travel there is no common distribution.
            paced.gaps = merged.send_gaps.as_ref().and_then(Histogram::summary);
        }
        (paced, _) => *paced = None,
    }
}

fn add_paced(merged: &mut Paced, flow: &Paced) {
    merged.passes += flow.passes;
    merged.elapsed = merged.elapsed.max(flow.elapsed);
    merged.intervals += flow.intervals;
    merged.late_intervals += flow.late_intervals;
    merged.worst_lag = merged.worst_lag.max(flow.worst_lag);
    merged.waited += flow.waited;
}

fn add_times(merged: &mut Option<Histogram>, flow: Option<Histogram>) {
    match (merged, flow) {
        (Some(merged), Some(flow)) => merged.merge(&flow),
        (merged, flow) => *merged = merged.take().or(flow),
    }
}

/// Doubts with a count are added up; any other one stands for all flows as the first had it.
fn add_warning(known: &mut Warning, flow: &Warning) {
    match (known, flow) {
        (
            Warning::LateDatagrams { datagrams: sum },
            Warning::LateDatagrams { datagrams: count },
        )
        | (
            Warning::SenderOverflow { failed_sends: sum },
            Warning::SenderOverflow {
                failed_sends: count,
            },
        ) => *sum += count,
        (Warning::PeerShared { tests: most }, Warning::PeerShared { tests }) => {
            *most = (*most).max(*tests);
        }
        _ => {}
    }
}

/// The peer does not know that a flow's neighbours belong to it.
fn is_of_others(warning: &mut Warning, neighbours: u32) -> bool {
    match warning {
        Warning::PeerShared { tests } => {
            *tests = tests.saturating_sub(neighbours);
            *tests > 0
        }
        _ => true,
    }
}

/// Which end says most about all of them.
fn weight(ended: &Ended) -> u8 {
    match ended {
        Ended::Deadline | Ended::Count => 0,
        Ended::PeerClosed => 1,
        Ended::Cancelled => 2,
        Ended::Failed(_) => 3,
    }
}
