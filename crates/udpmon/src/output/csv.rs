//! Comma-separated values: a title line, and one line per test. Times are in seconds, rates in bits
//! of payload per second.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::{Outcome, SpacingResult};

use crate::options::TestLoad;
use crate::result::{LatencyResult, SendResult, Snapshot, ThroughputResult};
use crate::sequence::PathEvidence;

/// The columns of one line: names and values.
pub type CsvRow = Vec<(&'static str, String)>;

/// Formats the line of names.
pub fn title_line(row: &CsvRow) -> String {
    let names: Vec<_> = row.iter().map(|(name, _)| *name).collect();
    names.join(",") + "\n"
}

/// Formats the line of values.
pub fn value_line(row: &CsvRow) -> String {
    let values: Vec<_> = row.iter().map(|(_, value)| value.as_str()).collect();
    values.join(",") + "\n"
}

/// Returns the columns of a test of `udpmon_bw_mon`. Unknown values are empty.
pub fn throughput_row(test: &ThroughputResult) -> CsvRow {
    let evidence = PathEvidence::from_test(test);
    let delivery = test.delivery_counts();
    let count =
        |field: fn(&crate::result::DeliveryCounts) -> u64| optional(delivery.as_ref().map(field));
    let mut row = send_columns(test.outcome.started, &test.load, test.sent, test.send_time);
    row.extend([
        ("num_recv", test.receiver_counts.received.to_string()),
        ("num_lost", test.receiver_counts.lost.to_string()),
        ("num_badorder", test.receiver_counts.bad_order.to_string()),
        ("receive_time", seconds(test.receiver_counts.elapsed)),
        ("received", count(|counts| counts.received)),
        ("lost", count(|counts| counts.lost)),
        ("lost_at_end", count(|counts| counts.lost_at_end)),
        ("late", count(|counts| counts.late)),
        ("repeated", count(|counts| counts.repeated)),
        ("offered_bps", format!("{:.0}", evidence.offered_rate())),
        ("received_bps", format!("{:.0}", evidence.received_rate())),
        ("timeouts", test.timeouts.to_string()),
    ]);
    row.extend(spacing_columns(test.outcome.local.spacing_result.as_ref()));
    row
}

/// Returns the columns of a test of `udpmon_send`.
pub fn send_row(test: &SendResult) -> CsvRow {
    let mut row = send_columns(test.outcome.started, &test.load, test.sent, test.send_time);
    row.extend(spacing_columns(test.outcome.local.spacing_result.as_ref()));
    row
}

/// Returns the columns of a test of `udpmon_req`.
pub fn latency_row(test: &LatencyResult) -> CsvRow {
    let summary = test
        .outcome
        .local
        .latency
        .as_ref()
        .and_then(stats::Histogram::summary);
    let value = |field: fn(&stats::HistogramSummary) -> f64| {
        optional(
            summary
                .as_ref()
                .map(|summary| format!("{:.9}", field(summary) / 1e9)),
        )
    };
    vec![
        ("started", unix_seconds(test.outcome.started)),
        ("response_bytes", test.response_bytes.to_string()),
        ("request_bytes", test.request_bytes.to_string()),
        ("requests", test.requests.to_string()),
        ("timeouts", test.timeouts.to_string()),
        ("elapsed", seconds(test.elapsed)),
        ("min", value(|times| times.min_ns as f64)),
        ("mean", value(|times| times.mean_ns)),
        ("deviation", value(|times| times.deviation_ns)),
        ("p50", value(|times| times.p50_ns as f64)),
        ("p90", value(|times| times.p90_ns as f64)),
        ("p99", value(|times| times.p99_ns as f64)),
        ("max", value(|times| times.max_ns as f64)),
    ]
}

/// Returns the columns of `udpmon_recv`: the counts since the previous line.
pub fn snapshot_row(snapshot: &Snapshot) -> CsvRow {
    let interval = &snapshot.delta;
    vec![
        ("at", unix_seconds(snapshot.taken_at)),
        ("num_recv", interval.received.received.to_string()),
        ("num_lost", interval.received.lost.to_string()),
        ("num_badorder", interval.received.bad_order.to_string()),
        ("receive_time", seconds(interval.received.elapsed)),
        ("received", interval.counts.received.to_string()),
        ("lost", interval.counts.lost.to_string()),
        ("late", interval.counts.reordered.to_string()),
        ("repeated", interval.counts.duplicated.to_string()),
        ("bytes", interval.bytes.to_string()),
    ]
}

/// The title line of [`packet_rows`].
pub const PACKET_TITLE_LINE: &str = "test,number,bytes,sent_ns,received_ns,one_way_delay_ns\n";

/// Formats the packet records of a test, one per line. Unknown times are empty.
pub fn packet_rows(test_number: usize, outcome: &Outcome) -> String {
    let mut text = String::new();
    let ns = |time: Option<Duration>| optional(time.map(|time| time.as_nanos()));
    for packet in &outcome.packets {
        let (sent, received) = (ns(packet.sent), ns(packet.received));
        let delay = optional(packet.one_way_delay_ns);
        let (packet_number, bytes) = (packet.number, packet.bytes);
        let _ = writeln!(
            text,
            "{test_number},{packet_number},{bytes},{sent},{received},{delay}"
        );
    }
    text
}

fn send_columns(started: SystemTime, load: &TestLoad, sent: u64, send_time: Duration) -> CsvRow {
    vec![
        ("started", unix_seconds(started)),
        ("bytes", load.bytes.to_string()),
        ("gap", seconds(load.spacing.gap)),
        ("num_sent", sent.to_string()),
        ("send_time", seconds(send_time)),
    ]
}

fn spacing_columns(spacing: Option<&SpacingResult>) -> CsvRow {
    let mean = spacing.and_then(|spacing| spacing.gaps.mean_ns());
    let column = |field: fn(&SpacingResult) -> Option<Duration>| {
        optional(spacing.and_then(field).map(seconds))
    };
    vec![
        (
            "gap_mean",
            optional(mean.map(|mean| format!("{:.12}", mean / 1e9))),
        ),
        ("gap_p50", column(|spacing| spacing.gaps.percentile(50.0))),
        ("gap_p99", column(|spacing| spacing.gaps.percentile(99.0))),
        ("gap_max", column(|spacing| spacing.gaps.percentile(100.0))),
        (
            "late_p50",
            column(|spacing| spacing.lateness.percentile(50.0)),
        ),
        (
            "late_p99",
            column(|spacing| spacing.lateness.percentile(99.0)),
        ),
        (
            "late_max",
            column(|spacing| spacing.lateness.percentile(100.0)),
        ),
    ]
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn seconds(time: Duration) -> String {
    format!("{:.9}", time.as_secs_f64())
}

fn unix_seconds(moment: SystemTime) -> String {
    let since_epoch = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:.6}", since_epoch.as_secs_f64())
}
