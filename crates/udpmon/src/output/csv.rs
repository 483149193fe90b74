//! Comma-separated values: a line of names, and one line per test. Times are in seconds, rates in bits of payload per
//! second.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::{Outcome, Spaced};

use crate::options::Load;
use crate::result::{Latency, Sending, Snapshot, Throughput};
use crate::steps::Evidence;

/// The names and values of one line.
pub type Row = Vec<(&'static str, String)>;

/// The line of names.
pub fn titles(row: &Row) -> String {
    let names: Vec<_> = row.iter().map(|(name, _)| *name).collect();
    names.join(",") + "\n"
}

/// The line of values.
pub fn values(row: &Row) -> String {
    let values: Vec<_> = row.iter().map(|(_, value)| value.as_str()).collect();
    values.join(",") + "\n"
}

/// A test of `udpmon_bw_mon`. Unknown values are empty.
pub fn throughput(test: &Throughput) -> Row {
    let evidence = Evidence::of(test);
    let fate = test.fate();
    let of_fate = |of: fn(&crate::result::Fate) -> u64| optional(fate.as_ref().map(of));
    let mut row = sent(test.outcome.started, &test.load, test.sent, test.send_time);
    row.extend([
        ("num_recv", test.received.received.to_string()),
        ("num_lost", test.received.lost.to_string()),
        ("num_badorder", test.received.bad_order.to_string()),
        ("receive_time", seconds(test.received.elapsed)),
        ("received", of_fate(|fate| fate.received)),
        ("lost", of_fate(|fate| fate.lost)),
        ("lost_at_end", of_fate(|fate| fate.lost_at_end)),
        ("late", of_fate(|fate| fate.late)),
        ("repeated", of_fate(|fate| fate.repeated)),
        ("offered_bps", format!("{:.0}", evidence.offered())),
        ("received_bps", format!("{:.0}", evidence.received())),
        ("timeouts", test.timeouts.to_string()),
    ]);
    row.extend(spacing(test.outcome.here.spaced.as_ref()));
    row
}

/// A test of `udpmon_send`.
pub fn sending(test: &Sending) -> Row {
    let mut row = sent(test.outcome.started, &test.load, test.sent, test.send_time);
    row.extend(spacing(test.outcome.here.spaced.as_ref()));
    row
}

/// The requests of `udpmon_req` for one response length.
pub fn latency(test: &Latency) -> Row {
    let summary = test
        .outcome
        .here
        .latency
        .as_ref()
        .and_then(stats::Histogram::summary);
    let of = |of: fn(&stats::Summary) -> f64| {
        optional(
            summary
                .as_ref()
                .map(|summary| format!("{:.9}", of(summary) / 1e9)),
        )
    };
    vec![
        ("started", unix(test.outcome.started)),
        ("response_bytes", test.response_bytes.to_string()),
        ("request_bytes", test.request_bytes.to_string()),
        ("requests", test.requests.to_string()),
        ("timeouts", test.timeouts.to_string()),
        ("elapsed", seconds(test.elapsed)),
        ("min", of(|times| times.min_ns as f64)),
        ("mean", of(|times| times.mean_ns)),
        ("deviation", of(|times| times.deviation_ns)),
        ("p50", of(|times| times.p50_ns as f64)),
        ("p90", of(|times| times.p90_ns as f64)),
        ("p99", of(|times| times.p99_ns as f64)),
        ("max", of(|times| times.max_ns as f64)),
    ]
}

/// The counts of `udpmon_recv` since the previous line.
pub fn snapshot(look: &Snapshot) -> Row {
    let interval = &look.delta;
    vec![
        ("at", unix(look.at)),
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

/// The names of the values of [`packets`].
pub const PACKETS: &str = "test,number,bytes,sent_ns,received_ns,one_way_delay_ns\n";

/// Formats the records of the test with this `number`. Unknown times are empty.
pub fn packets(number: usize, outcome: &Outcome) -> String {
    let mut text = String::new();
    let ns = |time: Option<Duration>| optional(time.map(|time| time.as_nanos()));
    for packet in &outcome.packets {
        let (sent, received) = (ns(packet.sent), ns(packet.received));
        let delay = optional(packet.one_way_delay_ns);
        let (at, bytes) = (packet.number, packet.bytes);
        let _ = writeln!(text, "{number},{at},{bytes},{sent},{received},{delay}");
    }
    text
}

fn sent(started: SystemTime, load: &Load, sent: u64, send_time: Duration) -> Row {
    vec![
        ("started", unix(started)),
        ("bytes", load.bytes.to_string()),
        ("gap", seconds(load.spacing.gap)),
        ("num_sent", sent.to_string()),
        ("send_time", seconds(send_time)),
    ]
}

fn spacing(spaced: Option<&Spaced>) -> Row {
    let mean = spaced.and_then(|spaced| spaced.gaps.mean_ns());
    let of = |of: fn(&Spaced) -> Option<Duration>| optional(spaced.and_then(of).map(seconds));
    vec![
        (
            "gap_mean",
            optional(mean.map(|mean| format!("{:.12}", mean / 1e9))),
        ),
        ("gap_p50", of(|spaced| spaced.gaps.percentile(50.0))),
        ("gap_p99", of(|spaced| spaced.gaps.percentile(99.0))),
        ("gap_max", of(|spaced| spaced.gaps.percentile(100.0))),
        ("late_p50", of(|spaced| spaced.lateness.percentile(50.0))),
        ("late_p99", of(|spaced| spaced.lateness.percentile(99.0))),
        ("late_max", of(|spaced| spaced.lateness.percentile(100.0))),
    ]
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn seconds(time: Duration) -> String {
    format!("{:.9}", time.as_secs_f64())
}

fn unix(moment: SystemTime) -> String {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:.6}", since.as_secs_f64())
}
