//! The report as one JSON document.
//!
//! A key says its figure's unit, but for counts of calls, datagrams and transactions. What was not
//! measured, or not told, is `null`. Members may be added under the same [`SCHEMA`]; one that goes or
//! changes its meaning takes another. `uperf --json` has the same document, with a `profile` beside
//! (`profile.rs`).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use humantime::format_rfc3339_millis;
use model::{
    BuffersUsed, ClockFacts, Counts, CpuUse, Ended, FlowShare, HostFacts, Interface, Outcome,
    Paced, Plan, Side, SocketFacts, Warning,
};
use serde::Serialize;
use stats::confidence::Level;
use stats::{Histogram, Summary};
use units::BitRate;

use crate::{Figures, Report, Tested};

/// The member `schema` of every document.
pub const SCHEMA: &str = "linerate-run/1";

/// The document, indented, with its last newline.
pub fn json(report: &Report) -> String {
    text(&Document::of(report))
}

/// Indented, with its last newline.
pub(crate) fn text(document: &impl Serialize) -> String {
    // A tree of plain values with text keys always has a text.
    let document = serde_json::to_string_pretty(document).unwrap_or_default();
    codec::escaped_json(&document) + "\n"
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    /// The version of this program.
    linerate: &'static str,
    /// RFC 3339, UTC.
    started: Option<String>,
    peer: PeerDocument<'a>,
    hosts: Hosts<'a>,
    tests: Vec<TestDocument<'a>>,
    /// Somebody ended the run before its time.
    interrupted: bool,
    /// Tests that did not take place for that, or because they would have failed as one before them did.
    not_run: &'a [String],
    /// Why the run failed, or else the first test that did; missing when none failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

#[derive(Serialize)]
pub(crate) struct PeerDocument<'a> {
    pub(crate) host: &'a str,
    pub(crate) control_port: u32,
    /// It was a server in this process.
    pub(crate) embedded: bool,
    /// `linerate`, `netserver` or `uperf`; `null` when no test was answered.
    pub(crate) kind: Option<&'static str>,
    /// With its version, of a linerate.
    pub(crate) program: Option<&'a str>,
}

#[derive(Serialize)]
pub(crate) struct Hosts<'a> {
    pub(crate) here: Option<&'a HostFacts>,
    pub(crate) there: Option<&'a HostFacts>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pace: Option<PaceDocument<'a>>,
    /// The lowest and the highest rate (transactions or bits a second) of several runs.
    rate_range: Option<[f64; 2]>,
    /// How well the mean of several runs is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<ConfidenceDocument>,
    /// Each doubt of any run once, and those of all of them together.
    warnings: Vec<WarningDocument>,
    runs: Vec<RunDocument<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
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
    /// Connections that ran side by side; the figures are of all of them.
    flows: u32,
    /// As many more ran the other way.
    bidirectional: bool,
    /// What each of several did.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    each_flow: &'a [FlowShare],
    ended: &'a Ended,
    figures: Figures,
    here: SideDocument<'a>,
    there: Option<SideDocument<'a>>,
    warnings: Vec<WarningDocument>,
}

#[derive(Serialize)]
struct SideDocument<'a> {
    counts: &'a Counts,
    elapsed_ns: Option<u64>,
    socket: &'a SocketFacts,
    buffers: &'a BuffersUsed,
    cpu: Option<&'a CpuUse>,
    interface: Option<&'a Interface>,
    clock: Option<&'a ClockFacts>,
    latency: Option<Summary>,
    send_times: Option<Summary>,
    receive_times: Option<Summary>,
    /// The rate that was reached and how evenly, of a test at a pace.
    paced: Option<&'a Paced>,
    send_gaps: Option<Summary>,
}

#[derive(Serialize)]
struct WarningDocument {
    #[serde(flatten)]
    warning: Warning,
    text: String,
}

impl<'a> Document<'a> {
    fn of(report: &'a Report) -> Self {
        let answered = report.tests.iter().any(|test| !test.runs.is_empty());
        let program = report.first_of(|run| run.there.as_ref(), |side| side.program.as_deref());
        let kind = if program.is_some() {
            "linerate"
        } else {
            "netserver"
        };
        Self {
            schema: SCHEMA,
            linerate: report.version,
            started: rfc3339(report.started),
            peer: PeerDocument {
                host: &report.peer.host,
                control_port: report.peer.port,
                embedded: report.peer.embedded,
                kind: answered.then_some(kind),
                program,
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
        Self {
            started: rfc3339(run.started),
            flows: run.plan.flows(),
            bidirectional: run.plan.is_bidirectional(),
            each_flow: &run.flows,
            ended: &run.ended,
            figures: Figures::of(run),
            here: SideDocument::of(&run.here),
            there: run.there.as_ref().map(SideDocument::of),
            warnings: run.warnings.iter().map(WarningDocument::of).collect(),
        }
    }
}

impl<'a> SideDocument<'a> {
    fn of(side: &'a Side) -> Self {
        let summary = |times: &Option<Histogram>| times.as_ref().and_then(Histogram::summary);
        Self {
            counts: &side.counts,
            elapsed_ns: side.elapsed.map(nanoseconds),
            socket: &side.socket,
            buffers: &side.buffers,
            cpu: side.cpu.as_ref(),
            interface: side.interface.as_ref(),
            clock: side.clock.as_ref(),
            latency: summary(&side.latency),
            send_times: summary(&side.send_times),
            receive_times: summary(&side.receive_times),
            paced: side.paced.as_ref(),
            send_gaps: summary(&side.send_gaps),
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
pub(crate) fn rfc3339(time: SystemTime) -> Option<String> {
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
