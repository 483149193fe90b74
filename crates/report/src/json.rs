//! The report as one JSON document, the same for every dialect.
//!
//! A key names its figure's unit, but for counts of calls, datagrams and transactions. A figure that was not measured, or
//! not reported, is `null`. Members may be added under the same [`SCHEMA`]; one that goes or changes its meaning takes
//! another. `docs/schema/linerate-2.json` describes each.
//!
//! A run and a side are taken apart without `..`, so that a member that is added to the model is shown, or is left out on
//! purpose.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use humantime::format_rfc3339_millis;
use model::{
    BuffersUsed, ClockFacts, CombinedTotals, Counts, CpuUse, DatagramCounts, DepartureClock, Ended,
    FlowShare, GroupOutcome, HostFacts, Interface, Interfaces, LogEntry, Outcome, Paced,
    PacketRecord, PeerOutcome, Plan, Refused, Series, Side, SocketFacts, Spaced, StepOutcome,
    Times, Totals, TransactionOutcome, Warning,
};
use serde::Serialize;
use stats::confidence::Level;
use stats::{ClockFit, Histogram, PacketFigures, Summary};
use units::BitRate;

use crate::{Figures, Report, Tested, TransactionFigures};

/// The member `schema` of every document.
pub const SCHEMA: &str = "linerate/2";

/// The document, indented, with its last newline.
pub fn json(report: &Report) -> String {
    // A tree of plain values with text keys always has a text.
    let document = serde_json::to_string_pretty(&Document::of(report)).unwrap_or_default();
    codec::escaped_json(&document) + "\n"
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    /// The version of this program.
    linerate: &'static str,
    /// What was typed.
    command_line: &'a str,
    /// RFC 3339, UTC.
    started: Option<String>,
    peer: PeerDocument<'a>,
    hosts: Hosts<'a>,
    tests: Vec<TestDocument<'a>>,
    /// Somebody ended the run before its time.
    interrupted: bool,
    /// Tests that did not take place for that, or because they would have failed as one before them did.
    not_run: &'a [String],
    /// Why the run failed, or else the first test that did; `null` when none failed.
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct PeerDocument<'a> {
    host: &'a str,
    control_port: Option<u32>,
    /// It was a server in this process.
    embedded: bool,
    /// `linerate`, `netserver` or `uperf`; `null` when no test was answered.
    kind: Option<&'static str>,
    /// With its version, of a linerate.
    program: Option<&'a str>,
}

#[derive(Serialize)]
struct Hosts<'a> {
    here: Option<&'a HostFacts>,
    there: Option<&'a HostFacts>,
}

#[derive(Serialize)]
struct TestDocument<'a> {
    name: &'a str,
    plan: &'a Plan,
    /// The index of the run with the median rate.
    median_run: Option<usize>,
    /// Of that run.
    figures: Option<Figures>,
    /// What one-way datagrams were paced to.
    pace: Option<PaceDocument<'a>>,
    /// The lowest and the highest rate (transactions or bits a second) of several runs.
    rate_range: Option<[f64; 2]>,
    /// How well the mean of several runs is known.
    confidence: Option<ConfidenceDocument>,
    /// Each doubt of any run once, and those of all of them together.
    warnings: Vec<WarningDocument>,
    runs: Vec<RunDocument<'a>>,
    /// Why there is not more of it.
    error: Option<&'a str>,
}

#[derive(Serialize)]
struct PaceDocument<'a> {
    /// Payload of all flows in one direction.
    rate_bps: BitRate,
    /// The stream test whose rate it is; `null` where the user asked for it.
    of: Option<&'a str>,
}

/// Half a width is what stands behind a ±, in percent of the mean; `null` with a mean of 0.
#[derive(Serialize)]
struct ConfidenceDocument {
    level_percent: Level,
    /// The interval's full width, if one was asked for …
    target_width_percent: Option<f64>,
    /// … and whether the rate's is as narrow.
    reached: Option<bool>,
    iterations: u32,
    /// Transactions or bits a second.
    mean_rate: Option<f64>,
    rate_half_width_percent: Option<f64>,
    here_cpu_half_width_percent: Option<f64>,
    there_cpu_half_width_percent: Option<f64>,
}

#[derive(Serialize)]
struct RunDocument<'a> {
    started: Option<String>,
    ended: &'a Ended,
    /// Somebody here ended it before its time.
    interrupted: bool,
    figures: Figures,
    here: SideDocument<'a>,
    there: Option<SideDocument<'a>>,
    /// Each of several, in both directions.
    flows: &'a [FlowShare],
    peers: Vec<PeerOutcomeDocument<'a>>,
    groups: Vec<GroupDocument<'a>>,
    /// Of transactions, over the time in which any of them ran.
    active: Option<TotalsDocument<'a>>,
    series: &'a [Series],
    packets: &'a [PacketRecord],
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_fit: Option<&'a ClockFit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packet_figures: Option<PacketFigures>,
    log: &'a [LogEntry],
    /// Workers and peers that failed.
    failures: u64,
    warnings: Vec<WarningDocument>,
}

#[derive(Serialize)]
struct SideDocument<'a> {
    program: Option<&'a str>,
    counts: &'a Counts,
    elapsed_ns: Option<u64>,
    thread_cpu_ns: Option<u64>,
    socket: &'a SocketFacts,
    /// Settings that the system refused.
    refused: &'a [Refused],
    buffers: &'a BuffersUsed,
    cpu: Option<&'a CpuUse>,
    interface: Option<&'a Interface>,
    /// What each interface of the host carried.
    interfaces: Option<&'a Interfaces>,
    clock: Option<&'a ClockFacts>,
    latency: Option<Summary>,
    send_times: Option<Summary>,
    receive_times: Option<Summary>,
    /// The rate that was reached and how evenly, of a test at a pace.
    paced: Option<&'a Paced>,
    send_gaps: Option<Summary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spaced: Option<SpacedDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    datagrams: Option<&'a DatagramCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    smoothed_rtt: Option<Summary>,
}

#[derive(Serialize)]
struct SpacedDocument {
    sent: u64,
    refused: u64,
    missed: u64,
    skipped: u64,
    first_to_last_ns: u64,
    elapsed_ns: u64,
    clock: DepartureClock,
    gaps: Option<Summary>,
    lateness: Option<Summary>,
}

#[derive(Serialize)]
struct PeerOutcomeDocument<'a> {
    host: &'a str,
    /// The group's place in `groups`, where it took part in one alone.
    group: Option<usize>,
    address: Option<&'a str>,
    is_local: bool,
    program: Option<&'static str>,
    form: Option<&'a str>,
    /// `null` if it was lost.
    totals: Option<CombinedDocument>,
    side: Option<SideDocument<'a>>,
    host_facts: Option<&'a HostFacts>,
    message: Option<&'a str>,
}

#[derive(Serialize)]
struct TotalsDocument<'a> {
    counts: &'a Counts,
    elapsed_ns: u64,
    /// Both directions.
    moved_bps: Option<f64>,
    operations_per_s: Option<f64>,
}

#[derive(Serialize)]
struct CombinedDocument {
    bytes: u64,
    operations: u64,
    failed_operations: u64,
    elapsed_ns: u64,
    moved_bps: Option<f64>,
    operations_per_s: Option<f64>,
}

#[derive(Serialize)]
struct GroupDocument<'a> {
    name: &'a str,
    totals: TotalsDocument<'a>,
    active: TotalsDocument<'a>,
    workers: Vec<TotalsDocument<'a>>,
    transactions: Vec<TransactionDocument<'a>>,
}

#[derive(Serialize)]
struct TransactionDocument<'a> {
    name: &'a str,
    totals: TotalsDocument<'a>,
    begun_ns: u64,
    workers: u64,
    start_spread_ns: u64,
    rounds: u64,
    is_exchange: bool,
    is_timed: bool,
    has_datagrams: bool,
    arrived_bytes: Option<u64>,
    figures: TransactionFigures,
    times: Option<&'a Times>,
    steps: Vec<StepDocument<'a>>,
}

#[derive(Serialize)]
struct StepDocument<'a> {
    name: &'a str,
    times: Option<&'a Times>,
    /// By their names; `null` is one that the machine does not have or allow.
    counters: BTreeMap<&'a str, Option<u64>>,
}

#[derive(Serialize)]
struct WarningDocument {
    #[serde(flatten)]
    warning: Warning,
    text: String,
}

impl<'a> Document<'a> {
    fn of(report: &'a Report) -> Self {
        Self {
            schema: SCHEMA,
            linerate: report.version,
            command_line: &report.command_line,
            started: rfc3339(report.started),
            peer: PeerDocument {
                host: &report.peer.host,
                control_port: report.peer.port,
                embedded: report.peer.embedded,
                kind: report.peer.kind,
                program: report.first_of(|run| run.there.as_ref(), |side| side.program.as_deref()),
            },
            hosts: Hosts {
                here: report.first_of(|run| Some(&run.here), |side| side.host.as_ref()),
                there: report.first_of(|run| run.there.as_ref(), |side| side.host.as_ref()),
            },
            tests: report.tests.iter().map(TestDocument::of).collect(),
            interrupted: report.interrupted,
            not_run: &report.not_run,
            error: report.error(),
        }
    }
}

impl<'a> TestDocument<'a> {
    fn of(test: &'a Tested) -> Self {
        let median_run = test.median();
        let mut warnings: Vec<&Warning> = Vec::new();
        let doubts = test.doubts();
        for warning in test
            .runs
            .iter()
            .flat_map(|run| &run.warnings)
            .chain(&doubts)
        {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        Self {
            name: &test.plan.name,
            plan: &test.plan,
            median_run,
            figures: median_run.map(|run| Figures::of(&test.runs[run])),
            pace: test.pace.as_ref().map(|pace| PaceDocument {
                rate_bps: pace.rate,
                of: pace.of.as_deref(),
            }),
            rate_range: test.spread().map(|(low, high)| [low, high]),
            confidence: ConfidenceDocument::of(test),
            warnings: warnings.into_iter().map(WarningDocument::of).collect(),
            runs: test.runs.iter().map(RunDocument::of).collect(),
            error: test.error.as_deref(),
        }
    }
}

impl<'a> RunDocument<'a> {
    fn of(run: &'a Outcome) -> Self {
        let Outcome {
            // That of the test is shown.
            plan: _,
            started,
            here,
            there,
            flows,
            peers,
            groups,
            active,
            series,
            packets,
            clock_fit,
            log,
            ended,
            failures,
            warnings,
        } = run;
        Self {
            started: rfc3339(*started),
            ended,
            interrupted: *ended == Ended::Cancelled,
            figures: Figures::of(run),
            here: SideDocument::of(here),
            there: there.as_ref().map(SideDocument::of),
            flows,
            peers: peers.iter().map(PeerOutcomeDocument::of).collect(),
            groups: groups.iter().map(GroupDocument::of).collect(),
            active: active.as_ref().map(TotalsDocument::of),
            series,
            packets,
            clock_fit: clock_fit.as_ref(),
            packet_figures: run.packet_figures(),
            log,
            failures: *failures,
            warnings: warnings.iter().map(WarningDocument::of).collect(),
        }
    }
}

impl<'a> PeerOutcomeDocument<'a> {
    fn of(peer: &'a PeerOutcome) -> Self {
        Self {
            host: &peer.host,
            group: peer.group,
            address: peer.address.as_deref(),
            is_local: peer.is_local,
            program: peer.program,
            form: peer.form.as_deref(),
            totals: peer.totals.as_ref().map(CombinedDocument::of),
            side: peer.side.as_ref().map(SideDocument::of),
            host_facts: peer.side.as_ref().and_then(|side| side.host.as_ref()),
            message: peer.message.as_deref(),
        }
    }
}

impl<'a> TotalsDocument<'a> {
    fn of(totals: &'a Totals) -> Self {
        let (combined, in_time) = (totals.combined(), !totals.elapsed.is_zero());
        Self {
            counts: &totals.counts,
            elapsed_ns: nanoseconds(totals.elapsed),
            moved_bps: in_time.then(|| combined.bits_per_second()),
            operations_per_s: in_time.then(|| combined.operations_per_second()),
        }
    }
}

impl CombinedDocument {
    fn of(totals: &CombinedTotals) -> Self {
        let in_time = !totals.elapsed.is_zero();
        Self {
            bytes: totals.bytes.0,
            operations: totals.operations,
            failed_operations: totals.failed_operations,
            elapsed_ns: nanoseconds(totals.elapsed),
            moved_bps: in_time.then(|| totals.bits_per_second()),
            operations_per_s: in_time.then(|| totals.operations_per_second()),
        }
    }
}

impl<'a> GroupDocument<'a> {
    fn of(group: &'a GroupOutcome) -> Self {
        Self {
            name: &group.name,
            totals: TotalsDocument::of(&group.totals),
            active: TotalsDocument::of(&group.active),
            workers: group.workers.iter().map(TotalsDocument::of).collect(),
            transactions: (group.transactions.iter())
                .map(TransactionDocument::of)
                .collect(),
        }
    }
}

impl<'a> TransactionDocument<'a> {
    fn of(transaction: &'a TransactionOutcome) -> Self {
        Self {
            name: &transaction.name,
            totals: TotalsDocument::of(&transaction.totals),
            begun_ns: nanoseconds(transaction.begun),
            workers: transaction.workers,
            start_spread_ns: nanoseconds(transaction.start_spread),
            rounds: transaction.rounds,
            is_exchange: transaction.is_exchange,
            is_timed: transaction.is_timed,
            has_datagrams: transaction.has_datagrams,
            arrived_bytes: transaction.arrived.map(|bytes| bytes.0),
            figures: TransactionFigures::of(transaction),
            times: transaction.times.as_ref(),
            steps: transaction.steps.iter().map(StepDocument::of).collect(),
        }
    }
}

impl<'a> StepDocument<'a> {
    fn of(step: &'a StepOutcome) -> Self {
        let counters = step.counters.iter();
        Self {
            name: &step.name,
            times: step.times.as_ref(),
            counters: counters.map(|(name, count)| (&**name, *count)).collect(),
        }
    }
}

impl<'a> SideDocument<'a> {
    fn of(side: &'a Side) -> Self {
        let Side {
            counts,
            elapsed,
            socket,
            refused,
            buffers,
            latency,
            send_times,
            receive_times,
            paced,
            send_gaps,
            spaced,
            datagrams,
            smoothed_rtt,
            thread_cpu,
            cpu,
            // Shown once in the document, or beside a peer's side.
            host: _,
            interface,
            interfaces,
            clock,
            program,
        } = side;
        let summary = |times: &Option<Histogram>| times.as_ref().and_then(Histogram::summary);
        Self {
            program: program.as_deref(),
            counts,
            elapsed_ns: elapsed.map(nanoseconds),
            thread_cpu_ns: thread_cpu.map(nanoseconds),
            socket,
            refused,
            buffers,
            cpu: cpu.as_ref(),
            interface: interface.as_ref(),
            interfaces: interfaces.as_ref(),
            clock: clock.as_ref(),
            latency: summary(latency),
            send_times: summary(send_times),
            receive_times: summary(receive_times),
            paced: paced.as_ref(),
            send_gaps: summary(send_gaps),
            spaced: spaced.as_ref().map(SpacedDocument::of),
            datagrams: datagrams.as_ref(),
            smoothed_rtt: summary(smoothed_rtt),
        }
    }
}

impl SpacedDocument {
    fn of(spaced: &Spaced) -> Self {
        Self {
            sent: spaced.sent,
            refused: spaced.refused,
            missed: spaced.missed,
            skipped: spaced.skipped,
            first_to_last_ns: nanoseconds(spaced.first_to_last),
            elapsed_ns: nanoseconds(spaced.elapsed),
            clock: spaced.clock,
            gaps: spaced.gaps.summary(),
            lateness: spaced.lateness.summary(),
        }
    }
}

impl WarningDocument {
    fn of(warning: &Warning) -> Self {
        Self {
            text: warning.to_string(),
            warning: warning.clone(),
        }
    }
}

impl ConfidenceDocument {
    fn of(test: &Tested) -> Option<Self> {
        let found = test.confidence()?;
        let half = |width: Option<f64>| width.map(|width| width / 2.0);
        Some(Self {
            level_percent: found.level,
            target_width_percent: found.target_width_percent,
            reached: found.target_width_percent.map(|_| found.reached),
            iterations: found.iterations,
            mean_rate: test.mean_rate(),
            rate_half_width_percent: half(found.throughput_width_percent),
            here_cpu_half_width_percent: half(found.local_cpu_width_percent),
            there_cpu_half_width_percent: half(found.remote_cpu_width_percent),
        })
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// To the millisecond, in UTC; `None` of a time before 1970 or after 9999, which RFC 3339 cannot write.
fn rfc3339(time: SystemTime) -> Option<String> {
    let since_1970 = time.duration_since(UNIX_EPOCH).ok()?;
    (since_1970 < YEAR_10000).then(|| format_rfc3339_millis(time).to_string())
}

const YEAR_10000: Duration = Duration::from_secs(253_402_300_800);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_that_rfc_3339_can_write() {
        let after_1970 = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_millis(1)), None);
        let first = rfc3339(UNIX_EPOCH);
        assert_eq!(first.as_deref(), Some("1970-01-01T00:00:00.000Z"));
        let last = rfc3339(after_1970(253_402_300_799));
        assert_eq!(last.as_deref(), Some("9999-12-31T23:59:59.000Z"));
        assert_eq!(rfc3339(after_1970(253_402_300_800)), None);
    }
}
