//! Several flows that ran at the same time: one Outcome of all, and what each of them did.

use std::time::Duration;

use serde::Serialize;
use stats::Histogram;
use units::Bytes;

use crate::plan::nanos;
use crate::{Ended, Outcome, Paced, Side, Warning};

/// What one of several flows did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FlowShare {
    /// Its data came from the peer, where that of other flows went there.
    pub inbound: bool,
    /// How long after the first of the flows it began, by the monotonic clock.
    #[serde(rename = "started_after_ns", with = "nanos")]
    pub started_after: Duration,
    /// Its measured phase.
    #[serde(rename = "elapsed_ns", with = "crate::outcome::optional_nanos")]
    pub elapsed: Option<Duration>,
    /// Payload that arrived in time, at either end; `None` if the peer did not tell.
    #[serde(rename = "arrived_bytes")]
    pub arrived: Option<Bytes>,
    /// Transactions that were completed.
    pub transactions: u64,
}

impl FlowShare {
    fn of(outcome: &Outcome, started_after: Duration) -> Self {
        let (sends, receives) = (outcome.plan.sends(), outcome.plan.receives());
        let there = || outcome.there.as_ref().map(|there| there.counts.received);
        let here = outcome.here.counts.received;
        Self {
            inbound: receives && !sends,
            started_after,
            elapsed: outcome.here.elapsed,
            arrived: match (sends, receives) {
                (false, _) => Some(here),
                (true, false) => there(),
                (true, true) => there().map(|there| there + here),
            },
            transactions: outcome.here.counts.transactions,
        }
    }

    /// Payload a second over the flow's own time.
    pub fn bytes_per_second(&self) -> Option<f64> {
        per_second(self.arrived?.0 as f64, self.elapsed)
    }

    /// Transactions a second over the flow's own time.
    pub fn transactions_per_second(&self) -> Option<f64> {
        per_second(self.transactions as f64, self.elapsed)
    }

    fn ended_after(&self) -> Option<Duration> {
        Some(self.started_after + self.elapsed?)
    }
}

fn per_second(amount: f64, elapsed: Option<Duration>) -> Option<f64> {
    Some(amount / elapsed?.as_secs_f64()).filter(|rate| rate.is_finite())
}

impl Outcome {
    /// What flows moved together, each given with how long after the first it began: counts are sums,
    /// times lie in one histogram, and the time is from the first flow's beginning to the last one's
    /// end. What belongs to a host or cannot be added is the first flow's. `None` of no flows.
    ///
    /// The first flow's plan is that of all.
    pub fn sum(flows: Vec<(Self, Duration)>) -> Option<Self> {
        let count = flows.len() as u32;
        let shares: Vec<FlowShare> = flows
            .iter()
            .map(|(outcome, started_after)| FlowShare::of(outcome, *started_after))
            .collect();
        let mut flows = flows.into_iter().map(|(outcome, _)| outcome);
        let mut sum = flows.next()?;
        flows.for_each(|flow| add(&mut sum, flow));
        let ends: Option<Vec<Duration>> = shares.iter().map(FlowShare::ended_after).collect();
        sum.here.elapsed = ends.and_then(|ends| ends.into_iter().max());
        sum.warnings
            .retain_mut(|warning| is_of_others(warning, count - 1));
        sum.flows = if count > 1 { shares } else { Vec::new() };
        Some(sum)
    }

    /// How far apart the flows began.
    pub fn start_spread(&self) -> Option<Duration> {
        let starts = || self.flows.iter().map(|flow| flow.started_after);
        starts().max()?.checked_sub(starts().min()?)
    }
}

fn add(sum: &mut Outcome, flow: Outcome) {
    sum.started = sum.started.min(flow.started);
    add_side(&mut sum.here, flow.here);
    match (&mut sum.there, flow.there) {
        (Some(sum), Some(flow)) => add_side(sum, flow),
        // A sum without one of its parts is none.
        (sum, _) => *sum = None,
    }
    if weight(&flow.ended) > weight(&sum.ended) {
        sum.ended = flow.ended;
    }
    for warning in flow.warnings {
        let known = sum
            .warnings
            .iter_mut()
            .find(|known| known.is_like(&warning));
        match known {
            Some(known) => add_warning(known, &warning),
            None => sum.warnings.push(warning),
        }
    }
}

fn add_side(sum: &mut Side, flow: Side) {
    sum.counts += flow.counts;
    sum.elapsed = sum.elapsed.max(flow.elapsed);
    sum.thread_cpu = sum
        .thread_cpu
        .zip(flow.thread_cpu)
        .map(|(sum, flow)| sum + flow);
    sum.socket.retransmits = sum
        .socket
        .retransmits
        .zip(flow.socket.retransmits)
        .map(|(sum, flow)| sum.saturating_add(flow));
    let dropped = (sum.socket.dropped).zip(flow.socket.dropped);
    sum.socket.dropped = dropped.map(|(sum, flow)| sum.saturating_add(flow));
    for (sum, flow) in [
        (&mut sum.latency, flow.latency),
        (&mut sum.send_times, flow.send_times),
        (&mut sum.receive_times, flow.receive_times),
        (&mut sum.send_gaps, flow.send_gaps),
        (&mut sum.smoothed_rtt, flow.smoothed_rtt),
    ] {
        add_times(sum, flow);
    }
    match (&mut sum.datagrams, flow.datagrams) {
        (Some(sum), Some(flow)) => sum.add(&flow),
        // Of the other direction.
        (sum, flow) => *sum = sum.or(flow),
    }
    match (&mut sum.paced, flow.paced) {
        (Some(sum), Some(flow)) => add_paced(sum, &flow),
        (sum, _) => *sum = None,
    }
    for refused in flow.refused {
        if !sum.refused.contains(&refused) {
            sum.refused.push(refused);
        }
    }
    // The other direction's, where the first flow has none.
    let (sum, flow) = (&mut sum.buffers, flow.buffers);
    sum.send_bytes = sum.send_bytes.or(flow.send_bytes);
    sum.send_width = sum.send_width.or(flow.send_width);
    sum.receive_bytes = sum.receive_bytes.or(flow.receive_bytes);
    sum.receive_width = sum.receive_width.or(flow.receive_width);
}

fn add_paced(sum: &mut Paced, flow: &Paced) {
    sum.passes += flow.passes;
    sum.elapsed = sum.elapsed.max(flow.elapsed);
    sum.intervals += flow.intervals;
    sum.late_intervals += flow.late_intervals;
    sum.worst_lag = sum.worst_lag.max(flow.worst_lag);
    sum.waited += flow.waited;
}

fn add_times(sum: &mut Option<Histogram>, flow: Option<Histogram>) {
    match (sum, flow) {
        (Some(sum), Some(flow)) => sum.merge(&flow),
        (sum, flow) => *sum = sum.take().or(flow),
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
