//! Results of several simultaneous flows: the sum in one Outcome, and the results of each flow.

use std::time::Duration;

use serde::Serialize;
use stats::Histogram;
use units::Bytes;

use crate::nanos::{Nanos, OptionalNanos};
use crate::{EndCause, Outcome, PacingResult, Side, Warning};

/// Results of one of several flows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowOutcome {
    /// Whether the data flows only from the peer to this end.
    pub inbound: bool,
    /// Start relative to the first flow's start, by the monotonic clock.
    #[serde(rename = "started_after_ns", with = "Nanos")]
    pub started_after: Duration,
    /// Duration of its measured phase; [`Outcome::arrival_time`].
    #[serde(rename = "elapsed_ns", with = "OptionalNanos")]
    pub elapsed: Option<Duration>,
    /// Payload that arrived in time, at either end; `None` if the peer did not report it.
    #[serde(rename = "arrived_bytes")]
    pub arrived: Option<Bytes>,
    /// Completed transactions.
    pub transactions: u64,
}

impl FlowOutcome {
    fn from_outcome(outcome: &Outcome, started_after: Duration) -> Self {
        let (sends, receives) = (outcome.plan.sends(), outcome.plan.receives());
        let remote_received = || outcome.remote.as_ref().map(|remote| remote.counts.received);
        let local_received = outcome.local.counts.received;
        Self {
            inbound: receives && !sends,
            started_after,
            elapsed: outcome.arrival_time(),
            arrived: match (sends, receives) {
                (false, _) => Some(local_received),
                (true, false) => remote_received(),
                (true, true) => remote_received().map(|bytes| bytes + local_received),
            },
            transactions: outcome.local.counts.transactions,
        }
    }

    /// Returns the payload bytes per second over the flow's duration.
    pub fn bytes_per_second(&self) -> Option<f64> {
        per_second(self.arrived?.0 as f64, self.elapsed)
    }

    /// Returns the transactions per second over the flow's duration.
    pub fn transactions_per_second(&self) -> Option<f64> {
        per_second(self.transactions as f64, self.elapsed)
    }
}

fn per_second(amount: f64, elapsed: Option<Duration>) -> Option<f64> {
    Some(amount / elapsed?.as_secs_f64()).filter(|rate| rate.is_finite())
}

impl Outcome {
    /// Returns the sum of several flows; `None` without flows. Each flow comes with its start
    /// relative to the first flow's start.
    ///
    /// Counts are added, and histograms are merged. Each duration is from the start of the first
    /// flow to the end of the last one. Facts about a host, and values that cannot be added, come
    /// from the first flow, as does the plan.
    pub fn sum(flows: Vec<(Self, Duration)>) -> Option<Self> {
        let count = flows.len() as u32;
        let flow_outcomes: Vec<FlowOutcome> = flows
            .iter()
            .map(|(outcome, started_after)| FlowOutcome::from_outcome(outcome, *started_after))
            .collect();
        let mut flows = flows.into_iter().map(|(mut outcome, started_after)| {
            let sides = [Some(&mut outcome.local), outcome.remote.as_mut()];
            for side in sides.into_iter().flatten() {
                count_from_first_start(side, started_after);
            }
            outcome
        });
        let mut sum = flows.next()?;
        flows.for_each(|flow| add_flow(&mut sum, flow));
        // Without the end of one flow there is no duration.
        if flow_outcomes.iter().any(|flow| flow.elapsed.is_none()) {
            sum.local.elapsed = None;
        }
        sum.warnings
            .retain_mut(|warning| subtract_sibling_flows(warning, count - 1));
        sum.flows = if count > 1 { flow_outcomes } else { Vec::new() };
        Some(sum)
    }

    /// Returns the time between the first start and the last start of the flows.
    pub fn start_spread(&self) -> Option<Duration> {
        let starts = || self.flows.iter().map(|flow| flow.started_after);
        starts().max()?.checked_sub(starts().min()?)
    }
}

fn add_flow(sum: &mut Outcome, flow: Outcome) {
    sum.started = sum.started.min(flow.started);
    add_side(&mut sum.local, flow.local);
    match (&mut sum.remote, flow.remote) {
        (Some(sum), Some(flow)) => add_side(sum, flow),
        // Without the results of one flow there is no sum.
        (sum, _) => *sum = None,
    }
    if severity(&flow.ended) > severity(&sum.ended) {
        sum.ended = flow.ended;
    }
    for warning in flow.warnings {
        let existing = sum
            .warnings
            .iter_mut()
            .find(|existing| existing.equals_except_figure(&warning));
        match existing {
            Some(existing) => add_warning(existing, &warning),
            None => sum.warnings.push(warning),
        }
    }
}

/// Extends the durations of a flow to begin with the first flow, so that the longest is that of the
/// sum.
fn count_from_first_start(side: &mut Side, started_after: Duration) {
    let paced = side.pacing_result.as_mut();
    let durations = side
        .elapsed
        .iter_mut()
        .chain(paced.map(|paced| &mut paced.elapsed));
    durations.for_each(|elapsed| *elapsed += started_after);
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
        // The flows have opposite directions, so only one receives datagrams.
        (sum, flow) => *sum = sum.or(flow),
    }
    match (&mut sum.pacing_result, flow.pacing_result) {
        (Some(sum), Some(flow)) => add_paced(sum, &flow),
        (sum, _) => *sum = None,
    }
    for refused in flow.refused {
        if !sum.refused.contains(&refused) {
            sum.refused.push(refused);
        }
    }
    // If the first flow does not use a direction, the sizes come from a flow that does.
    let (sum, flow) = (&mut sum.buffers, flow.buffers);
    sum.send_bytes = sum.send_bytes.or(flow.send_bytes);
    sum.send_width = sum.send_width.or(flow.send_width);
    sum.receive_bytes = sum.receive_bytes.or(flow.receive_bytes);
    sum.receive_width = sum.receive_width.or(flow.receive_width);
}

fn add_paced(sum: &mut PacingResult, flow: &PacingResult) {
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

/// Merges a flow's warning into the equal one of the sum. Counts are added; of the numbers of other
/// tests, the largest is kept. Other figures are those of the first flow.
fn add_warning(existing: &mut Warning, flow: &Warning) {
    match (existing, flow) {
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
        (Warning::PeerShared { tests: max }, Warning::PeerShared { tests }) => {
            *max = (*max).max(*tests);
        }
        _ => {}
    }
}

/// Subtracts this test's own flows from a peer's number of other tests, because the peer counts
/// each flow as a test. Returns whether the warning remains.
fn subtract_sibling_flows(warning: &mut Warning, siblings: u32) -> bool {
    match warning {
        Warning::PeerShared { tests } => {
            *tests = tests.saturating_sub(siblings);
            *tests > 0
        }
        _ => true,
    }
}

/// Returns the rank of an end cause. The sum gets the cause with the highest rank.
fn severity(ended: &EndCause) -> u8 {
    match ended {
        EndCause::Deadline | EndCause::Count => 0,
        EndCause::PeerClosed => 1,
        EndCause::Cancelled => 2,
        EndCause::Failed(_) => 3,
    }
}
