//! What is computed of an Outcome, late and from counts and times.

use std::time::Duration;

use model::{CombinedTotals, Counts, FlowShare, Outcome, Sample, Side, TransactionOutcome};
use serde::Serialize;
use stats::{Levels, Summary, jain_index};
use units::{BitRate, Bytes};

/// The derived figures of one Outcome. What the test does not have, or an end did not tell, is
/// `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Payload that arrived within the test's time, over that time (RFC 1242's throughput is this at
    /// no loss); of bulk transfers.
    pub throughput_bps: Option<BitRate>,
    /// Payload that the send calls took, over the same time; of datagrams only, as a stream delivers
    /// what it takes.
    pub offered_bps: Option<BitRate>,
    /// Transactions over the test's time.
    pub transactions_per_s: Option<f64>,
    /// Payload of both directions that this end's calls moved, over the time in which they ran; of lists of steps.
    pub moved_bps: Option<BitRate>,
    /// Executions of steps over the time in which they ran; of lists of steps.
    pub operations_per_s: Option<f64>,
    /// From each request to its response, or of connection tests from the connection's opening to
    /// its end.
    pub latency: Option<Summary>,
    /// CPU time an amount of work.
    pub service_demand: Demand,
    /// Segments that TCP sent again, at the ends that send data and know.
    pub retransmits: Option<u64>,
    /// Of one-way datagrams, what became of them.
    pub datagrams: Option<Datagrams>,
    /// What several flows did beside each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<Spread>,
    /// Two levels that the rate had within the run, in bits or transactions per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levels: Option<Levels>,
}

/// The derived figures of one transaction of a group. What it does not have is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TransactionFigures {
    /// Payload that arrived, at either end, over the transaction's time; of one direction.
    pub throughput_bps: Option<BitRate>,
    /// Payload that was sent in datagrams, over the same time; of one direction.
    pub offered_bps: Option<BitRate>,
    /// Rounds over the same time, where a round is an exchange or opens a connection.
    pub transactions_per_s: Option<f64>,
    /// Times of rounds.
    pub latency: Option<Summary>,
}

impl TransactionFigures {
    /// The figures of one transaction.
    pub fn of(transaction: &TransactionOutcome) -> Self {
        let elapsed = transaction.totals.elapsed;
        let counts = &transaction.totals.counts;
        let has_moved = counts.sent + counts.received > Bytes(0);
        let is_one_way = !transaction.is_exchange && has_moved;
        let rounds = transaction.rounds as f64;
        Self {
            throughput_bps: transaction
                .arrived
                .filter(|_| is_one_way)
                .and_then(|bytes| bytes.over(elapsed)),
            offered_bps: (is_one_way && transaction.has_datagrams && counts.sent > Bytes(0))
                .then(|| counts.sent.over(elapsed))
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

/// Several flows beside each other. A rate is in transactions or bits a second, over the flow's own
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// How many there were, in both directions.
    pub flows: usize,
    /// The slowest one's rate.
    pub slowest_rate: f64,
    /// The fastest one's rate.
    pub fastest_rate: f64,
    /// 1 when all were equally fast, 1/n when one had it all.
    pub jain_index: Option<f64>,
    /// From the first one's beginning to the last one's, in nanoseconds.
    pub start_spread_ns: u64,
    /// Of a test in both directions: what arrived at the peer, over the test's time …
    pub outbound_bps: Option<BitRate>,
    /// … and what arrived here.
    pub inbound_bps: Option<BitRate>,
}

/// Service demand: the CPU time that an end's whole host spent in the test, over the work done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Demand {
    /// Of bulk transfers: microseconds a KB, which is 1024 bytes as netperf has it, of the payload
    /// that the end itself moved.
    Bytes {
        /// This end's.
        here_us_per_kb: Option<f64>,
        /// The peer's.
        there_us_per_kb: Option<f64>,
    },
    /// Microseconds a transaction.
    Transactions {
        /// This end's.
        here_us_per_transaction: Option<f64>,
        /// The peer's.
        there_us_per_transaction: Option<f64>,
    },
}

/// What became of the datagrams that one end sent to the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Datagrams {
    /// What the sender's kernel took.
    pub sent: u64,
    /// What the receiver got within the test's time.
    pub received: u64,
    /// What it got after that; `None` when it cannot tell and `received` has them in it.
    pub received_late: Option<u64>,
    /// What it never got (RFC 7680), and did not get twice.
    pub lost: u64,
    /// `lost` over `sent`; `None` when nothing was sent.
    pub lost_percent: Option<f64>,
    /// Of `lost`, what the receiver's own socket dropped, so that the path did not; `None` when it
    /// cannot tell.
    pub dropped_by_receiver: Option<u64>,
}

impl Figures {
    /// The figures of one Outcome.
    pub fn of(outcome: &Outcome) -> Self {
        let elapsed = outcome.here.elapsed;
        let transactional = outcome.plan.is_transactional();
        let datagrams = datagrams(outcome);
        let steps = totals_of_steps(outcome);
        let rate = |bytes: Bytes| {
            elapsed
                .and_then(|elapsed| bytes.over(elapsed))
                .filter(|_| !transactional)
        };
        Self {
            throughput_bps: match outcome.here.spaced {
                Some(_) => arrival_rate(outcome),
                None => received(outcome).and_then(rate),
            },
            offered_bps: match &outcome.here.spaced {
                Some(spaced) => outcome.here.counts.sent.over(spaced.elapsed),
                None => datagrams.and_then(|_| rate(offered(outcome)?)),
            },
            transactions_per_s: elapsed
                .filter(|elapsed| transactional && !elapsed.is_zero())
                .map(|elapsed| outcome.here.counts.transactions as f64 / elapsed.as_secs_f64()),
            moved_bps: steps.map(|steps| BitRate(steps.bits_per_second())),
            operations_per_s: steps.map(|steps| steps.operations_per_second()),
            latency: outcome
                .here
                .latency
                .as_ref()
                .and_then(stats::Histogram::summary),
            service_demand: demand(outcome),
            retransmits: retransmits(outcome),
            datagrams,
            spread: spread(outcome),
            levels: levels_of(outcome),
        }
    }

    /// The one figure by which runs of a test are compared: transactions a second, or bits a second.
    pub fn rate(&self) -> Option<f64> {
        let bits = self.throughput_bps.or(self.moved_bps);
        self.transactions_per_s.or(bits.map(|rate| rate.0))
    }

    /// The unit of [`Figures::rate`].
    pub fn rate_unit(&self) -> &'static str {
        match self.transactions_per_s {
            Some(_) => "tran/s",
            None => "bit/s",
        }
    }
}

impl Demand {
    /// This end's and the peer's, in the unit of [`Demand::unit`].
    pub fn both(self) -> (Option<f64>, Option<f64>) {
        match self {
            Self::Bytes {
                here_us_per_kb: here,
                there_us_per_kb: there,
            }
            | Self::Transactions {
                here_us_per_transaction: here,
                there_us_per_transaction: there,
            } => (here, there),
        }
    }

    /// As people write it.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Bytes { .. } => "µs/KB",
            Self::Transactions { .. } => "µs/tran",
        }
    }
}

/// What groups of transactions moved, over the time in which any of them ran.
fn totals_of_steps(outcome: &Outcome) -> Option<CombinedTotals> {
    let totals = outcome.active.as_ref()?.combined();
    (!totals.elapsed.is_zero()).then_some(totals)
}

/// The end that sends a one-way transfer.
fn sender(outcome: &Outcome) -> Option<&Side> {
    if outcome.plan.sends() {
        Some(&outcome.here)
    } else {
        outcome.there.as_ref()
    }
}

/// The end that it arrives at.
fn receiver(outcome: &Outcome) -> Option<&Side> {
    if outcome.plan.receives() {
        Some(&outcome.here)
    } else {
        outcome.there.as_ref()
    }
}

fn received(outcome: &Outcome) -> Option<Bytes> {
    if outcome.plan.is_bidirectional() {
        let there = outcome.there.as_ref()?;
        return Some(outcome.here.counts.received + there.counts.received);
    }
    receiver(outcome).map(|side| side.counts.received)
}

/// The rate of spaced datagrams at their receiver: those after the first one, over the time from the first to the last.
fn arrival_rate(outcome: &Outcome) -> Option<BitRate> {
    let there = outcome.there.as_ref()?;
    let arrivals = there.counts.receive_calls as f64;
    let later = (arrivals - 1.0) / arrivals;
    let rate = there.counts.received.over(there.elapsed?)?.0 * later;
    (rate.is_finite() && rate > 0.0).then_some(BitRate(rate))
}

fn offered(outcome: &Outcome) -> Option<Bytes> {
    let sent = sender(outcome)?.counts.sent;
    if outcome.plan.is_bidirectional() {
        return Some(sent + receiver(outcome)?.counts.sent);
    }
    Some(sent)
}

fn spread(outcome: &Outcome) -> Option<Spread> {
    let transactional = outcome.plan.is_transactional();
    let rate = |flow: &FlowShare| {
        if transactional {
            flow.transactions_per_second()
        } else {
            flow.bytes_per_second().map(|rate| rate * 8.0)
        }
    };
    let rates: Vec<f64> = outcome.flows.iter().map(rate).collect::<Option<_>>()?;
    let one_way = |counts: Option<&Counts>| {
        let bytes = counts.filter(|_| outcome.plan.is_bidirectional())?.received;
        bytes.over(outcome.here.elapsed?)
    };
    Some(Spread {
        flows: rates.len(),
        slowest_rate: rates.iter().copied().reduce(f64::min)?,
        fastest_rate: rates.iter().copied().reduce(f64::max)?,
        jain_index: jain_index(&rates),
        start_spread_ns: u64::try_from(outcome.start_spread()?.as_nanos()).unwrap_or(u64::MAX),
        outbound_bps: one_way(outcome.there.as_ref().map(|there| &there.counts)),
        inbound_bps: one_way(Some(&outcome.here.counts)),
    })
}

fn levels_of(outcome: &Outcome) -> Option<Levels> {
    let transactional = outcome.plan.is_transactional();
    let moment = |sample: &Sample| {
        let amount = if transactional {
            sample.operations as f64
        } else {
            sample.bytes().0 as f64 * 8.0
        };
        (sample.at.as_secs_f64(), amount)
    };
    let samples = outcome.series.iter().flat_map(|series| &series.samples);
    let moments: Vec<_> = samples.map(moment).collect();
    stats::levels(&moments)
}

fn datagrams(outcome: &Outcome) -> Option<Datagrams> {
    let transport = outcome.plan.flow()?.transport;
    if !transport.has_datagrams() || outcome.plan.is_transactional() {
        return None;
    }
    let (mut sent, got) = (sender(outcome)?.counts, receiver(outcome)?);
    let mut counts = got.counts;
    if outcome.plan.is_bidirectional() {
        // Each end has sent and received.
        sent += counts;
        counts = sent;
    }
    // A stock peer counts late ones among the others, and does not report how many they are; a linerate
    // reports them with the facts of its host.
    let received_late = got.host.as_ref().map(|_| counts.receive_calls_late);
    let twice = |side: &Side| side.datagrams.map_or(0, |datagrams| datagrams.duplicated);
    let back = sender(outcome).filter(|_| outcome.plan.is_bidirectional());
    let arrived = (counts.receive_calls).saturating_add(counts.receive_calls_late);
    let arrived = arrived.saturating_sub(twice(got) + back.map_or(0, twice));
    let lost = sent.send_calls.saturating_sub(arrived);
    let dropped = match back.map(|side| side.socket.dropped) {
        Some(back) => (got.socket.dropped.zip(back)).map(|(got, back)| got.saturating_add(back)),
        None => got.socket.dropped,
    };
    Some(Datagrams {
        sent: sent.send_calls,
        received: counts.receive_calls,
        received_late,
        lost,
        lost_percent: (sent.send_calls > 0).then(|| lost as f64 / sent.send_calls as f64 * 100.0),
        dropped_by_receiver: dropped.map(|dropped| dropped.min(lost)),
    })
}

fn retransmits(outcome: &Outcome) -> Option<u64> {
    let (plan, both) = (&outcome.plan, outcome.plan.is_bidirectional());
    let told = |side: &Side| side.socket.retransmits.map(u64::from);
    let here = (plan.sends() || both)
        .then(|| told(&outcome.here))
        .flatten();
    let there = outcome
        .there
        .as_ref()
        .filter(|_| plan.receives() || both)
        .and_then(told);
    here.into_iter()
        .chain(there)
        .reduce(|here, there| here + there)
}

fn demand(outcome: &Outcome) -> Demand {
    let (here, there) = (&outcome.here, outcome.there.as_ref());
    if outcome.plan.is_transactional() {
        let transactions = here.counts.transactions as f64;
        return Demand::Transactions {
            here_us_per_transaction: cpu_time_us(here, here.elapsed)
                .and_then(|time| over(time, transactions)),
            there_us_per_transaction: there
                .and_then(|there| cpu_time_us(there, here.elapsed))
                .and_then(|time| over(time, transactions)),
        };
    }
    let kilobytes = |side: &Side| {
        let counts = side.counts;
        (counts.sent + counts.received + counts.received_late).0 as f64 / 1024.0
    };
    Demand::Bytes {
        here_us_per_kb: cpu_time_us(here, here.elapsed)
            .and_then(|time| over(time, kilobytes(here))),
        there_us_per_kb: there
            .and_then(|there| over(cpu_time_us(there, here.elapsed)?, kilobytes(there))),
    }
}

/// The CPU time of all of an end's CPUs, in microseconds. The share is of the end's own time, and
/// that of the other one where it did not tell its own.
fn cpu_time_us(side: &Side, otherwise: Option<Duration>) -> Option<f64> {
    let cpu = side.cpu.as_ref()?;
    let elapsed = side.elapsed.or(otherwise)?;
    Some(cpu.busy_percent / 100.0 * f64::from(cpu.cpus) * elapsed.as_secs_f64() * 1e6)
}

fn over(amount: f64, per: f64) -> Option<f64> {
    Some(amount / per).filter(|quotient| quotient.is_finite())
}
