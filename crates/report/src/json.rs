//! The report as one JSON document, the same for every dialect.
//!
//! A key contains the unit of its figure, except for counts of calls, datagrams and transactions. A
//! figure that was not measured or not reported is `null`. New members keep the same [`SCHEMA`]; a
//! removed member or a changed meaning requires a new one. `docs/schema/linerate-3.json` is generated
//! from these types and those of the model, with their comments.
//!
//! Runs and sides are destructured without `..`. The compiler then reports each new field of the
//! model that is neither written nor explicitly omitted.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use humantime::format_rfc3339_millis;
use model::{
    BufferSizes, ClockFacts, CombinedTotals, Counts, CpuUse, DatagramCounts, DepartureClock,
    EndCause, ExecutionTimes, FlowOutcome, GroupOutcome, HostFacts, Interface, Interfaces,
    LogEntry, Outcome, PacingResult, PacketRecord, PeerOutcome, Plan, RefusedSetting, Series, Side,
    SocketFacts, SpacingResult, StepOutcome, Totals, TransactionOutcome, Warning,
};
use serde::Serialize;
use stats::confidence::ConfidenceLevel;
use stats::{ClockFit, Histogram, HistogramSummary, PacketFigures};
use units::BitRate;

use crate::{Report, TestFigures, TestReport, TransactionFigures};

/// The value of the member `schema` of each document.
pub const SCHEMA: &str = "linerate/3";

/// Returns the indented document, with a final newline.
pub fn json(report: &Report) -> String {
    // Serialization of plain values with string keys cannot fail.
    let document = serde_json::to_string_pretty(&Document::new(report)).unwrap_or_default();
    codec::escaped_json(&document) + "\n"
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Document<'a> {
    schema: &'static str,
    /// The version of linerate.
    linerate: &'static str,
    /// The command line.
    command_line: &'a str,
    /// The start, in RFC 3339 format, UTC.
    started: Option<String>,
    /// The peer; the first of several.
    peer: PeerDocument<'a>,
    /// Both hosts.
    hosts: Hosts<'a>,
    /// The tests, in order.
    tests: Vec<TestDocument<'a>>,
    /// Whether the user ended the run early.
    interrupted: bool,
    /// Tests that did not run: the run was interrupted, or an earlier test failed for a reason that
    /// affects them too.
    not_run: &'a [String],
    /// The error of the run, or else that of the first failed test; `null` if none failed.
    error: Option<&'a str>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PeerDocument<'a> {
    /// Its name or address.
    host: &'a str,
    /// The port of its control connection.
    control_port: Option<u32>,
    /// Whether the peer is a server in this process.
    embedded: bool,
    /// The program, such as `linerate` or `netserver`; `null` if the peer answered no test.
    kind: Option<&'static str>,
    /// The program and its version, if it is linerate.
    program: Option<&'a str>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Hosts<'a> {
    local: Option<&'a HostFacts>,
    remote: Option<&'a HostFacts>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TestDocument<'a> {
    /// Its name.
    name: &'a str,
    plan: &'a Plan,
    /// The index of the run with the median rate.
    median_run: Option<usize>,
    /// The figures of that run.
    figures: Option<TestFigures>,
    /// The rate limit of one-way datagrams.
    pace: Option<PaceDocument<'a>>,
    /// The lowest and the highest rate of several runs, in transactions or bits per second.
    rate_range: Option<[f64; 2]>,
    /// The confidence interval of the mean of several runs.
    confidence: Option<ConfidenceDocument>,
    /// Each distinct warning of the runs, and the warnings about all runs together.
    warnings: Vec<WarningDocument>,
    /// Each run, in order.
    runs: Vec<RunDocument<'a>>,
    /// The reason why further runs are missing.
    error: Option<&'a str>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PaceDocument<'a> {
    /// The payload rate of all flows of one direction together.
    rate_bps: BitRate,
    /// The stream test whose rate is the limit; `null` if the user set the limit.
    of: Option<&'a str>,
}

/// Half widths are in percent of the mean, as after a ±; `null` if the mean is 0.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ConfidenceDocument {
    /// The confidence level, in percent.
    level_percent: ConfidenceLevel,
    /// The requested full width of the interval, if any.
    target_width_percent: Option<f64>,
    /// Whether the interval of the rate is as narrow as requested; `null` without a request.
    is_reached: Option<bool>,
    /// Runs.
    iterations: u32,
    /// Transactions or bits per second.
    mean_rate: Option<f64>,
    /// Half width of the rate's interval.
    rate_half_width_percent: Option<f64>,
    /// Half width of the interval of this host's CPU time.
    local_cpu_half_width_percent: Option<f64>,
    /// Half width of the interval of the peer's CPU time.
    remote_cpu_half_width_percent: Option<f64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RunDocument<'a> {
    /// Start by the wall clock: RFC 3339, UTC, to the millisecond.
    started: Option<String>,
    /// Why it ended.
    ended: &'a EndCause,
    /// Whether the local user ended the run early.
    interrupted: bool,
    figures: TestFigures,
    local: SideDocument<'a>,
    /// The peer; null if it reported nothing, or if there are several.
    remote: Option<SideDocument<'a>>,
    /// The flows of both directions, if there are several.
    flows: &'a [FlowOutcome],
    /// Each peer, if there are several.
    peers: Vec<PeerOutcomeDocument<'a>>,
    /// Each group, if the plan has several or has transactions.
    groups: Vec<GroupDocument<'a>>,
    /// The totals of transactions, for the time in which any of them ran.
    active: Option<TotalsDocument<'a>>,
    /// Samples over time.
    series: &'a [Series],
    /// A record of each datagram, if the plan asks for it.
    packets: &'a [PacketRecord],
    /// The peer's clock relative to this end's; only if packets are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_fit: Option<&'a ClockFit>,
    /// Figures from the records of packets, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    packet_figures: Option<PacketFigures>,
    /// Messages of the run.
    log: &'a [LogEntry],
    /// Workers and peers that failed.
    failures: u64,
    /// Warnings about this run.
    warnings: Vec<WarningDocument>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SideDocument<'a> {
    /// The program that measured, with its version.
    program: Option<&'a str>,
    counts: &'a Counts,
    /// The measured phase, in nanoseconds.
    elapsed_ns: Option<u64>,
    /// CPU time of the thread that moved the data, in nanoseconds.
    thread_cpu_ns: Option<u64>,
    socket: &'a SocketFacts,
    /// The settings that the system refused.
    refused: &'a [RefusedSetting],
    buffers: &'a BufferSizes,
    cpu: Option<&'a CpuUse>,
    interface: Option<&'a Interface>,
    /// The traffic of each interface of the host.
    interfaces: Option<&'a Interfaces>,
    clock: Option<&'a ClockFacts>,
    /// Times of transactions.
    latency: Option<HistogramSummary>,
    /// Times of single send calls.
    send_times: Option<HistogramSummary>,
    /// Times of single receive calls.
    receive_times: Option<HistogramSummary>,
    /// The achieved rate and the delays of its intervals, if the test was paced.
    pacing_result: Option<&'a PacingResult>,
    /// Times between the starts of paced intervals.
    send_gaps: Option<HistogramSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spacing_result: Option<SpacedDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    datagrams: Option<&'a DatagramCounts>,
    /// Smoothed round-trip times of the connection, sampled at least 100 times per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    smoothed_rtt: Option<HistogramSummary>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SpacedDocument {
    /// Datagrams that the kernel accepted.
    sent: u64,
    /// Send calls refused by the kernel.
    refused: u64,
    /// Datagrams dropped by a queueing discipline after their launch time.
    missed: u64,
    /// Send times that the sender skipped.
    skipped: u64,
    /// From the first datagram's time to the last one's, in nanoseconds.
    first_to_last_ns: u64,
    /// From the first datagram's time to the end of the last one's gap, in nanoseconds.
    elapsed_ns: u64,
    /// Clock of gaps and lateness: the sender's at the decision to send, or the driver's when it
    /// got the datagram.
    clock: DepartureClock,
    /// Gaps between datagrams of one burst; null without a gap.
    gaps: Option<HistogramSummary>,
    /// Lateness of each datagram; null if unknown.
    lateness: Option<HistogramSummary>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PeerOutcomeDocument<'a> {
    /// As the user named it.
    host: &'a str,
    /// The index in `groups`, if the peer took part in only one group.
    group: Option<usize>,
    /// The address of its control connection.
    address: Option<&'a str>,
    /// It runs on this host.
    is_local: bool,
    /// Its program: linerate or uperf.
    program: Option<&'static str>,
    /// The peer's version of the wire format.
    form: Option<&'a str>,
    /// `null` if the peer was lost or received no request for them.
    totals: Option<CombinedDocument>,
    side: Option<SideDocument<'a>>,
    host_facts: Option<&'a HostFacts>,
    /// Text that it sent with its figures.
    message: Option<&'a str>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TotalsDocument<'a> {
    counts: &'a Counts,
    /// The time, in nanoseconds.
    elapsed_ns: u64,
    /// The rate of both directions together.
    moved_bps: Option<f64>,
    /// Executed steps per second.
    operations_per_s: Option<f64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CombinedDocument {
    /// Payload.
    bytes: u64,
    /// Executed steps.
    operations: u64,
    /// Executed steps that failed.
    failed_operations: u64,
    /// The time, in nanoseconds.
    elapsed_ns: u64,
    /// Payload, in bits per second.
    moved_bps: Option<f64>,
    /// Executed steps per second.
    operations_per_s: Option<f64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct GroupDocument<'a> {
    /// Its name.
    name: &'a str,
    /// Totals from the first worker's start to the last worker's end.
    totals: TotalsDocument<'a>,
    /// Totals over the time in which a transaction of the group ran.
    active: TotalsDocument<'a>,
    /// Each worker.
    workers: Vec<TotalsDocument<'a>>,
    /// Its transactions, in order; empty if its body is one loop.
    transactions: Vec<TransactionDocument<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TransactionDocument<'a> {
    /// Its name.
    name: &'a str,
    totals: TotalsDocument<'a>,
    /// The start, as a time since the start of the run.
    started_after_ns: u64,
    /// Workers that started it.
    workers: u64,
    /// From the first worker's start to the last one's, in nanoseconds.
    start_spread_ns: u64,
    /// Completed rounds.
    rounds: u64,
    /// A round moves data in both directions or opens a connection.
    is_exchange: bool,
    /// Whether the transaction ends after a time, not after a number of rounds.
    is_timed: bool,
    /// It moves datagrams.
    has_datagrams: bool,
    /// Payload that arrived at either end; transactions of one direction only.
    arrived_bytes: Option<u64>,
    /// The time for which the receiving end ran longer than the sending one.
    arrival_delay_ns: u64,
    /// Derived figures.
    figures: TransactionFigures,
    times: Option<&'a ExecutionTimes>,
    /// Its steps, in order.
    steps: Vec<StepDocument<'a>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StepDocument<'a> {
    /// Its name.
    name: &'a str,
    times: Option<&'a ExecutionTimes>,
    /// The counters by name; `null` if the machine lacks or forbids a counter.
    counters: BTreeMap<&'a str, Option<u64>>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WarningDocument {
    #[serde(flatten)]
    warning: Warning,
    text: String,
}

impl<'a> Document<'a> {
    fn new(report: &'a Report) -> Self {
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
                program: report
                    .find_in_sides(|run| run.remote.as_ref(), |side| side.program.as_deref()),
            },
            hosts: Hosts {
                local: report.find_in_sides(|run| Some(&run.local), |side| side.host.as_ref()),
                remote: report.find_in_sides(|run| run.remote.as_ref(), |side| side.host.as_ref()),
            },
            tests: report.tests.iter().map(TestDocument::new).collect(),
            interrupted: report.interrupted,
            not_run: &report.not_run,
            error: report.error(),
        }
    }
}

impl<'a> TestDocument<'a> {
    fn new(test: &'a TestReport) -> Self {
        let median_run = test.median_run_index();
        let mut warnings: Vec<&Warning> = Vec::new();
        let warnings_about_runs = test.warnings_about_runs();
        for warning in test
            .runs
            .iter()
            .flat_map(|run| &run.warnings)
            .chain(&warnings_about_runs)
        {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        Self {
            name: &test.plan.name,
            plan: &test.plan,
            median_run,
            figures: median_run.map(|run| TestFigures::from_outcome(&test.runs[run])),
            pace: test.pace_limit.as_ref().map(|pace| PaceDocument {
                rate_bps: pace.rate,
                of: pace.reference_test.as_deref(),
            }),
            rate_range: test.rate_range().map(|(low, high)| [low, high]),
            confidence: ConfidenceDocument::new(test),
            warnings: warnings.into_iter().map(WarningDocument::new).collect(),
            runs: test.runs.iter().map(RunDocument::new).collect(),
            error: test.error.as_deref(),
        }
    }
}

impl<'a> RunDocument<'a> {
    fn new(run: &'a Outcome) -> Self {
        let Outcome {
            // The document contains the plan of the test.
            plan: _,
            started,
            local,
            remote,
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
            interrupted: *ended == EndCause::Cancelled,
            figures: TestFigures::from_outcome(run),
            local: SideDocument::new(local),
            remote: remote.as_ref().map(SideDocument::new),
            flows,
            peers: peers.iter().map(PeerOutcomeDocument::new).collect(),
            groups: groups.iter().map(GroupDocument::new).collect(),
            active: active.as_ref().map(TotalsDocument::new),
            series,
            packets,
            clock_fit: clock_fit.as_ref(),
            packet_figures: run.packet_figures(),
            log,
            failures: *failures,
            warnings: warnings.iter().map(WarningDocument::new).collect(),
        }
    }
}

impl<'a> PeerOutcomeDocument<'a> {
    fn new(peer: &'a PeerOutcome) -> Self {
        Self {
            host: &peer.host,
            group: peer.group,
            address: peer.address.as_deref(),
            is_local: peer.is_local,
            program: peer.program,
            form: peer.form.as_deref(),
            totals: peer.totals.as_ref().map(CombinedDocument::new),
            side: peer.side.as_ref().map(SideDocument::new),
            host_facts: peer.side.as_ref().and_then(|side| side.host.as_ref()),
            message: peer.message.as_deref(),
        }
    }
}

impl<'a> TotalsDocument<'a> {
    fn new(totals: &'a Totals) -> Self {
        let (combined, has_elapsed) = (totals.combined(), !totals.elapsed.is_zero());
        Self {
            counts: &totals.counts,
            elapsed_ns: nanoseconds(totals.elapsed),
            moved_bps: has_elapsed.then(|| combined.bits_per_second()),
            operations_per_s: has_elapsed.then(|| combined.operations_per_second()),
        }
    }
}

impl CombinedDocument {
    fn new(totals: &CombinedTotals) -> Self {
        let has_elapsed = !totals.elapsed.is_zero();
        Self {
            bytes: totals.bytes.0,
            operations: totals.operations,
            failed_operations: totals.failed_operations,
            elapsed_ns: nanoseconds(totals.elapsed),
            moved_bps: has_elapsed.then(|| totals.bits_per_second()),
            operations_per_s: has_elapsed.then(|| totals.operations_per_second()),
        }
    }
}

impl<'a> GroupDocument<'a> {
    fn new(group: &'a GroupOutcome) -> Self {
        Self {
            name: &group.name,
            totals: TotalsDocument::new(&group.totals),
            active: TotalsDocument::new(&group.active),
            workers: group.workers.iter().map(TotalsDocument::new).collect(),
            transactions: (group.transactions.iter())
                .map(TransactionDocument::new)
                .collect(),
        }
    }
}

impl<'a> TransactionDocument<'a> {
    fn new(transaction: &'a TransactionOutcome) -> Self {
        Self {
            name: &transaction.name,
            totals: TotalsDocument::new(&transaction.totals),
            started_after_ns: nanoseconds(transaction.started_after),
            workers: transaction.workers,
            start_spread_ns: nanoseconds(transaction.start_spread),
            rounds: transaction.rounds,
            is_exchange: transaction.is_exchange,
            is_timed: transaction.is_timed,
            has_datagrams: transaction.has_datagrams,
            arrived_bytes: transaction.arrived.map(|bytes| bytes.0),
            arrival_delay_ns: nanoseconds(transaction.arrival_delay),
            figures: TransactionFigures::from_outcome(transaction),
            times: transaction.times.as_ref(),
            steps: transaction.steps.iter().map(StepDocument::new).collect(),
        }
    }
}

impl<'a> StepDocument<'a> {
    fn new(step: &'a StepOutcome) -> Self {
        let counters = step.counters.iter();
        Self {
            name: &step.name,
            times: step.times.as_ref(),
            counters: counters.map(|(name, count)| (&**name, *count)).collect(),
        }
    }
}

impl<'a> SideDocument<'a> {
    fn new(side: &'a Side) -> Self {
        let Side {
            counts,
            elapsed,
            socket,
            refused,
            buffers,
            latency,
            send_times,
            receive_times,
            pacing_result: paced,
            send_gaps,
            spacing_result: spaced,
            datagrams,
            smoothed_rtt,
            thread_cpu,
            cpu,
            // The document contains the host's facts once, or next to the side of each peer.
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
            pacing_result: paced.as_ref(),
            send_gaps: summary(send_gaps),
            spacing_result: spaced.as_ref().map(SpacedDocument::new),
            datagrams: datagrams.as_ref(),
            smoothed_rtt: summary(smoothed_rtt),
        }
    }
}

impl SpacedDocument {
    fn new(spaced: &SpacingResult) -> Self {
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
    fn new(warning: &Warning) -> Self {
        Self {
            text: warning.to_string(),
            warning: warning.clone(),
        }
    }
}

impl ConfidenceDocument {
    fn new(test: &TestReport) -> Option<Self> {
        let confidence = test.confidence()?;
        let half_of = |width: Option<f64>| width.map(|width| width / 2.0);
        Some(Self {
            level_percent: confidence.level,
            target_width_percent: confidence.target_width_percent,
            is_reached: confidence
                .target_width_percent
                .map(|_| confidence.is_reached),
            iterations: confidence.iterations,
            mean_rate: test.mean_rate(),
            rate_half_width_percent: half_of(confidence.throughput_width_percent),
            local_cpu_half_width_percent: half_of(confidence.local_cpu_width_percent),
            remote_cpu_half_width_percent: half_of(confidence.remote_cpu_width_percent),
        })
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Formats a time in UTC, to the millisecond. Returns `None` before 1970, which `humantime` cannot
/// format, and after 9999, which RFC 3339 cannot express.
fn rfc3339(time: SystemTime) -> Option<String> {
    let since_1970 = time.duration_since(UNIX_EPOCH).ok()?;
    (since_1970 < YEAR_10000).then(|| format_rfc3339_millis(time).to_string())
}

const YEAR_10000: Duration = Duration::from_secs(253_402_300_800);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_from_1970_to_9999_are_formatted() {
        let after_1970 = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_millis(1)), None);
        let first = rfc3339(UNIX_EPOCH);
        assert_eq!(first.as_deref(), Some("1970-01-01T00:00:00.000Z"));
        let last = rfc3339(after_1970(253_402_300_799));
        assert_eq!(last.as_deref(), Some("9999-12-31T23:59:59.000Z"));
        assert_eq!(rfc3339(after_1970(253_402_300_800)), None);
    }

    /// `BLESS=1 cargo test -p report` updates the file.
    #[test]
    fn published_schema_describes_the_documents() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/schema/linerate-3.json"
        );
        let generator = schemars::generate::SchemaSettings::draft2020_12()
            .for_serialize()
            .into_generator();
        let mut schema = generator.into_root_schema_for::<Document<'_>>();
        schema.insert("$id".to_owned(), "urn:linerate:schema:linerate-3".into());
        schema.insert("title".to_owned(), SCHEMA.into());
        let text = serde_json::to_string_pretty(&schema).expect("a document") + "\n";
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(path, &text).expect("the file is writable");
        }
        let published = std::fs::read_to_string(path).expect("the file is readable");
        assert_eq!(published, text);
    }
}
