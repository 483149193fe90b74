//! Figures derived from the counts and times of an outcome.

use std::time::Duration;

use model::{CombinedTotals, FlowOutcome, Outcome, Sample, Side, TransactionOutcome};
use serde::Serialize;
use stats::{HistogramSummary, RateLevels, jain_index};
use units::{BitRate, Bytes};

/// The derived figures of one outcome. A figure is `None` if the test does not have it, or if an
/// end did not report it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TestFigures {
    /// Payload that arrived within the test's time, divided by [`Outcome::arrival_time`]; for bulk
    /// transfers. Without loss, this is the throughput of RFC 1242.
    pub throughput_bps: Option<BitRate>,
    /// Payload that send calls accepted, divided by the test's time; for datagrams only, because a
    /// stream delivers all accepted data.
    pub offered_bps: Option<BitRate>,
    /// Transactions per second of the test's time.
    pub transactions_per_s: Option<f64>,
    /// Payload that local steps moved in both directions, divided by the time in which any
    /// transaction ran; for lists of steps.
    pub moved_bps: Option<BitRate>,
    /// Executed steps per second of the time in which any transaction ran; for lists of steps.
    pub operations_per_s: Option<f64>,
    /// The time from each request to its response. For connection tests, it starts when the
    /// connection is opened and ends when it is closed.
    pub latency: Option<HistogramSummary>,
    /// CPU time per amount of work.
    pub service_demand: ServiceDemand,
    /// Segments that TCP retransmitted, at the sending ends that report them.
    pub retransmits: Option<u64>,
    /// Counts of sent, received and lost one-way datagrams.
    pub datagrams: Option<DatagramFigures>,
    /// The comparison of concurrent flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_spread: Option<FlowSpread>,
    /// Two levels between which the rate changed within the run, in bits or transactions per
    /// second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<RateLevels>,
}

/// The derived figures of one transaction of a group. Unavailable figures are `None`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TransactionFigures {
    /// Payload that arrived at either end, divided by the transaction's time and the delay of the
    /// arrival; for one-way transfers.
    pub throughput_bps: Option<BitRate>,
    /// Payload sent in datagrams, divided by the transaction's time; for one-way transfers.
    pub offered_bps: Option<BitRate>,
    /// Rounds per second of the transaction's time, if a round moves data in both directions or
    /// opens a connection. A round executes the transaction's list of steps once.
    pub transactions_per_s: Option<f64>,
    /// Durations of rounds.
    pub latency: Option<HistogramSummary>,
}

impl TransactionFigures {
    /// Computes the figures of one transaction.
    pub fn from_outcome(transaction: &TransactionOutcome) -> Self {
        let elapsed = transaction.totals.elapsed;
        let counts = &transaction.totals.counts;
        let has_moved_data = counts.sent + counts.received > Bytes(0);
        let is_one_way = !transaction.is_exchange && has_moved_data;
        let rounds = transaction.rounds as f64;
        Self {
            throughput_bps: transaction
                .arrived
                .filter(|_| is_one_way)
                .and_then(|bytes| {
                    bytes.rate_over(elapsed.saturating_add(transaction.arrival_delay))
                }),
            offered_bps: (is_one_way && transaction.has_datagrams && counts.sent > Bytes(0))
                .then(|| counts.sent.rate_over(elapsed))
                .flatten(),
            transactions_per_s: (transaction.is_exchange && !elapsed.is_zero())
                .then(|| rounds / elapsed.as_secs_f64()),
            latency: transaction
                .latency
                .as_ref()
                .and_then(stats::Histogram::summary),
        }
    }
}

/// A comparison of concurrent flows. Rates are in transactions or bits per second of each flow's
/// own time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FlowSpread {
    /// The number of flows in both directions.
    pub flows: usize,
    /// The rate of the slowest flow.
    pub slowest_rate: f64,
    /// The rate of the fastest flow.
    pub fastest_rate: f64,
    /// Jain's index: 1 if all flows had the same rate, 1/n if one of n flows got everything.
    pub jain_index: Option<f64>,
    /// The time between the starts of the first and the last flow, in nanoseconds.
    pub start_spread_ns: u64,
    /// The rate of arrivals at the peer while its flows ran; for bidirectional tests only.
    pub outbound_bps: Option<BitRate>,
    /// The rate of local arrivals while their flows ran; for bidirectional tests only.
    pub inbound_bps: Option<BitRate>,
}

/// Service demand: the CPU time of all CPUs of a host during the test, divided by the work done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum ServiceDemand {
    /// For bulk transfers: microseconds per KB of payload that the end moved. A KB is 1024 bytes,
    /// as in netperf.
    Bytes {
        /// The local service demand.
        here_us_per_kb: Option<f64>,
        /// The service demand of the peer.
        there_us_per_kb: Option<f64>,
    },
    /// For transactions: microseconds per transaction.
    Transactions {
        /// The local service demand.
        here_us_per_transaction: Option<f64>,
        /// The service demand of the peer.
        there_us_per_transaction: Option<f64>,
    },
}

/// Counts of one-way datagrams: sent, received and lost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DatagramFigures {
    /// Datagrams that the kernel of the sender accepted.
    pub sent: u64,
    /// Datagrams that the receiver read within the test's time.
    pub received: u64,
    /// Datagrams that the receiver read later; `None` if `received` includes them and their number
    /// is unknown.
    pub received_late: Option<u64>,
    /// Datagrams that never arrived (RFC 7680). Duplicates do not count as arrivals.
    pub lost: u64,
    /// `lost` in percent of `sent`; `None` if nothing was sent.
    pub lost_percent: Option<f64>,
    /// The part of `lost` that the receiver's socket dropped, so that the path did not lose it;
    /// `None` if unknown.
    pub dropped_by_receiver: Option<u64>,
}

impl TestFigures {
    /// Computes the figures of one outcome.
    pub fn from_outcome(outcome: &Outcome) -> Self {
        let elapsed = outcome.local.elapsed;
        let is_transactional = outcome.plan.is_transactional();
        let datagrams = datagram_figures(outcome);
        let step_totals = step_totals(outcome);
        let rate_over = |bytes: Bytes, time: Option<Duration>| {
            time.and_then(|time| bytes.rate_over(time))
                .filter(|_| !is_transactional)
        };
        Self {
            throughput_bps: match outcome.local.spacing_result {
                Some(_) => arrival_rate(outcome),
                None => received_bytes(outcome)
                    .and_then(|bytes| rate_over(bytes, outcome.arrival_time())),
            },
            offered_bps: match &outcome.local.spacing_result {
                Some(spaced) => outcome.local.counts.sent.rate_over(spaced.elapsed),
                None => datagrams.and_then(|_| rate_over(offered_bytes(outcome)?, elapsed)),
            },
            transactions_per_s: elapsed
                .filter(|elapsed| is_transactional && !elapsed.is_zero())
                .map(|elapsed| outcome.local.counts.transactions as f64 / elapsed.as_secs_f64()),
            moved_bps: step_totals.map(|steps| BitRate(steps.bits_per_second())),
            operations_per_s: step_totals.map(|steps| steps.operations_per_second()),
            latency: outcome
                .local
                .latency
                .as_ref()
                .and_then(stats::Histogram::summary),
            service_demand: service_demand(outcome),
            retransmits: total_retransmits(outcome),
            datagrams,
            flow_spread: flow_spread(outcome),
            levels: rate_levels(outcome),
        }
    }

    /// Returns the figure by which runs of a test are compared: transactions or bits per second.
    pub fn rate(&self) -> Option<f64> {
        let bits = self.throughput_bps.or(self.moved_bps);
        self.transactions_per_s.or(bits.map(|rate| rate.0))
    }

    /// Returns the unit of [`TestFigures::rate`].
    pub fn rate_unit(&self) -> &'static str {
        match self.transactions_per_s {
            Some(_) => "tran/s",
            None => "bit/s",
        }
    }
}

impl ServiceDemand {
    /// Returns the local value and that of the peer, in [`ServiceDemand::unit`].
    pub fn local_and_remote(self) -> (Option<f64>, Option<f64>) {
        match self {
            Self::Bytes {
                here_us_per_kb: local,
                there_us_per_kb: remote,
            }
            | Self::Transactions {
                here_us_per_transaction: local,
                there_us_per_transaction: remote,
            } => (local, remote),
        }
    }

    /// Returns the unit for display.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Bytes { .. } => "µs/KB",
            Self::Transactions { .. } => "µs/tran",
        }
    }
}

/// Returns the totals of all groups of transactions, for the time in which any of them ran.
fn step_totals(outcome: &Outcome) -> Option<CombinedTotals> {
    let totals = outcome.active.as_ref()?.combined();
    (!totals.elapsed.is_zero()).then_some(totals)
}

/// Returns the sending end of a one-way transfer.
fn sender(outcome: &Outcome) -> Option<&Side> {
    if outcome.plan.sends() {
        Some(&outcome.local)
    } else {
        outcome.remote.as_ref()
    }
}

/// Returns the receiving end of a one-way transfer.
fn receiver(outcome: &Outcome) -> Option<&Side> {
    if outcome.plan.receives() {
        Some(&outcome.local)
    } else {
        outcome.remote.as_ref()
    }
}

fn received_bytes(outcome: &Outcome) -> Option<Bytes> {
    if outcome.plan.is_bidirectional() {
        let remote = outcome.remote.as_ref()?;
        return Some(outcome.local.counts.received + remote.counts.received);
    }
    receiver(outcome).map(|side| side.counts.received)
}

/// Returns the rate of spaced datagrams at the receiver: the datagrams after the first one, divided
/// by the time from the first to the last arrival.
fn arrival_rate(outcome: &Outcome) -> Option<BitRate> {
    let remote = outcome.remote.as_ref()?;
    let arrivals = remote.counts.receive_calls as f64;
    let share_after_first = (arrivals - 1.0) / arrivals;
    let rate = remote.counts.received.rate_over(remote.elapsed?)?.0 * share_after_first;
    (rate.is_finite() && rate > 0.0).then_some(BitRate(rate))
}

fn offered_bytes(outcome: &Outcome) -> Option<Bytes> {
    let sent = sender(outcome)?.counts.sent;
    if outcome.plan.is_bidirectional() {
        return Some(sent + receiver(outcome)?.counts.sent);
    }
    Some(sent)
}

fn flow_spread(outcome: &Outcome) -> Option<FlowSpread> {
    let is_transactional = outcome.plan.is_transactional();
    let rate = |flow: &FlowOutcome| {
        if is_transactional {
            flow.transactions_per_second()
        } else {
            flow.bytes_per_second().map(|rate| rate * 8.0)
        }
    };
    let rates: Vec<f64> = outcome.flows.iter().map(rate).collect::<Option<_>>()?;
    let arrival_rate_of = |inbound: bool| {
        let is_bidirectional = outcome.plan.is_bidirectional();
        let flows = outcome.flows.iter().filter(|flow| flow.inbound == inbound);
        direction_rate(flows.filter(|_| is_bidirectional))
    };
    Some(FlowSpread {
        flows: rates.len(),
        slowest_rate: rates.iter().copied().reduce(f64::min)?,
        fastest_rate: rates.iter().copied().reduce(f64::max)?,
        jain_index: jain_index(&rates),
        start_spread_ns: u64::try_from(outcome.start_spread()?.as_nanos()).unwrap_or(u64::MAX),
        outbound_bps: arrival_rate_of(false),
        inbound_bps: arrival_rate_of(true),
    })
}

/// Returns the rate of the flows of one direction, from their first start to their last end.
fn direction_rate<'f>(flows: impl Iterator<Item = &'f FlowOutcome> + Clone) -> Option<BitRate> {
    let start = flows.clone().map(|flow| flow.started_after).min()?;
    let (mut bytes, mut end) = (Bytes(0), start);
    for flow in flows {
        bytes = bytes + flow.arrived?;
        end = end.max(flow.started_after.saturating_add(flow.elapsed?));
    }
    bytes.rate_over(end.saturating_sub(start))
}

fn rate_levels(outcome: &Outcome) -> Option<RateLevels> {
    let is_transactional = outcome.plan.is_transactional();
    let point = |sample: &Sample| {
        let amount = if is_transactional {
            sample.operations as f64
        } else {
            sample.bytes().0 as f64 * 8.0
        };
        (sample.at.as_secs_f64(), amount)
    };
    // The samples of several series are of different flows or transactions.
    let [series] = &outcome.series[..] else {
        return None;
    };
    let samples = series.samples.iter();
    let measured = samples.filter(|sample| sample.at >= outcome.plan.phases.warm_up);
    stats::find_levels(&measured.map(point).collect::<Vec<_>>())
}

fn datagram_figures(outcome: &Outcome) -> Option<DatagramFigures> {
    let transport = outcome.plan.flow()?.transport;
    if !transport.has_datagrams() || outcome.plan.is_transactional() {
        return None;
    }
    let (mut sent, receiving_side) = (sender(outcome)?.counts, receiver(outcome)?);
    let mut counts = receiving_side.counts;
    if outcome.plan.is_bidirectional() {
        // Each count is the sum of both ends, because both send and receive.
        sent += counts;
        counts = sent;
    }
    // A stock peer includes late datagrams in its count. A linerate peer counts them separately; it
    // is recognized by the facts of its host.
    let received_late = receiving_side
        .host
        .as_ref()
        .map(|_| counts.receive_calls_late);
    let duplicates = |side: &Side| side.datagrams.map_or(0, |datagrams| datagrams.duplicated);
    let reverse_receiver = sender(outcome).filter(|_| outcome.plan.is_bidirectional());
    let arrived = (counts.receive_calls).saturating_add(counts.receive_calls_late);
    let arrived =
        arrived.saturating_sub(duplicates(receiving_side) + reverse_receiver.map_or(0, duplicates));
    let missing = sent.send_calls.saturating_sub(arrived);
    // With a warm-up, both ends count from their own end of it, and only the numbers show a loss.
    let has_warm_up = !outcome.plan.phases.warm_up.is_zero();
    let lost = [Some(receiving_side), reverse_receiver]
        .into_iter()
        .flatten();
    let lost = lost.map(|side| side.datagrams.map(|datagrams| datagrams.lost));
    let lost = lost.sum::<Option<u64>>().filter(|_| has_warm_up);
    let lost = lost.map_or(missing, |lost| lost.min(sent.send_calls));
    let dropped = match reverse_receiver.map(|side| side.socket.dropped) {
        Some(reverse_dropped) => (receiving_side.socket.dropped.zip(reverse_dropped))
            .map(|(dropped, reverse)| dropped.saturating_add(reverse)),
        None => receiving_side.socket.dropped,
    };
    Some(DatagramFigures {
        sent: sent.send_calls,
        received: counts.receive_calls,
        received_late,
        lost,
        lost_percent: (sent.send_calls > 0).then(|| lost as f64 / sent.send_calls as f64 * 100.0),
        dropped_by_receiver: dropped.map(|dropped| dropped.min(lost)),
    })
}

fn total_retransmits(outcome: &Outcome) -> Option<u64> {
    let (plan, is_bidirectional) = (&outcome.plan, outcome.plan.is_bidirectional());
    let reported = |side: &Side| side.socket.retransmits.map(u64::from);
    let local = (plan.sends() || is_bidirectional)
        .then(|| reported(&outcome.local))
        .flatten();
    let remote = outcome
        .remote
        .as_ref()
        .filter(|_| plan.receives() || is_bidirectional)
        .and_then(reported);
    local
        .into_iter()
        .chain(remote)
        .reduce(|local, remote| local + remote)
}

fn service_demand(outcome: &Outcome) -> ServiceDemand {
    let (local, remote) = (&outcome.local, outcome.remote.as_ref());
    if outcome.plan.is_transactional() {
        let transactions = local.counts.transactions as f64;
        return ServiceDemand::Transactions {
            here_us_per_transaction: cpu_time_us(local, local.elapsed)
                .and_then(|time| ratio(time, transactions)),
            there_us_per_transaction: remote
                .and_then(|remote| cpu_time_us(remote, local.elapsed))
                .and_then(|time| ratio(time, transactions)),
        };
    }
    let kilobytes = |side: &Side| {
        let counts = side.counts;
        (counts.sent + counts.received + counts.received_late).0 as f64 / 1024.0
    };
    ServiceDemand::Bytes {
        here_us_per_kb: cpu_time_us(local, local.elapsed)
            .and_then(|time| ratio(time, kilobytes(local))),
        there_us_per_kb: remote
            .and_then(|remote| ratio(cpu_time_us(remote, local.elapsed)?, kilobytes(remote))),
    }
}

/// Returns the CPU time of all CPUs of an end, in microseconds. The busy share applies to the
/// elapsed time of this end, or to `fallback` if the end did not report one.
fn cpu_time_us(side: &Side, fallback: Option<Duration>) -> Option<f64> {
    let cpu = side.cpu.as_ref()?;
    let elapsed = side.elapsed.or(fallback)?;
    Some(cpu.busy_percent / 100.0 * f64::from(cpu.cpus) * elapsed.as_secs_f64() * 1e6)
}

fn ratio(amount: f64, divisor: f64) -> Option<f64> {
    Some(amount / divisor).filter(|quotient| quotient.is_finite())
}
