//! The result lines of the programs, and their titles.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::histogram::HistogramFigures;
use super::{blocks, format_g, micros, percent, wire_overhead_bytes};
use crate::result::{
    EndpointInfo, HostActivity, IntervalCounts, LatencyResult, SendResult, Snapshot, StockCounts,
    ThroughputResult,
};

/// Returns the titles of `udpmon_bw_mon`; if both hosts are given, those of `-x`.
pub fn bw_mon_titles(hosts: Option<(&HostActivity, &HostActivity)>) -> String {
    let Some((local, remote)) = hosts else {
        return "  pkt len; num_sent; inter-pkt_time us; send_user_data_rate Mbit; num_recv; num_lost; num_badorder; \
                %lost; num_lost_innet; %lost_innet; recv_user_data_rate Mbit; recv_wire_rate Mbit;\n"
            .to_owned();
    };
    let cpus = |label, host: &HostActivity| match blocks::cpu_titles(label, host.cpus.len()) {
        titles if titles.is_empty() => titles,
        titles => titles + "; ",
    };
    format!(
        "  pkt len; num_sent; num_ACKs recv; num_timeout; Time/frame us; inter-pkt_time us; Send time; \
         send_user_data_rate Mbit; num_recv; num_lost; num_badorder; %lost; num_lost_innet; %lost_innet; Recv time; \
         time/recv pkt; recv_user_data_rate Mbit; recv_wire_rate Mbit; num_in_hist; mean; sigma; skew; kurtosis; \
         median; iq25; iq75; {}{}{}; {}; {}\n",
        cpus('L', local),
        cpus('R', remote),
        blocks::counter_titles('L', local.counters.is_v6),
        blocks::counter_titles('R', remote.counters.is_v6),
        blocks::nic_titles('R'),
    )
}

/// Formats a result line of `udpmon_bw_mon`; with `is_extended`, the long one.
pub fn bw_mon_line(test: &ThroughputResult, is_extended: bool) -> String {
    let bytes = f64::from(test.load.bytes);
    let sent = test.sent as f64;
    let received = test.receiver_counts.received as f64;
    let (send_us, receive_us) = (micros(test.send_time), micros(test.receiver_counts.elapsed));
    let is_v6 = test.local_host.counters.is_v6;
    let rate = |bytes: f64, datagrams: f64, us: f64| match datagrams {
        0.0 => "0".to_owned(),
        _ => format_g(8.0 * bytes * datagrams / us),
    };
    let mut line = format!(" {}; {}; ", test.load.bytes, test.sent);
    if is_extended {
        let per_datagram = if test.sent > 0 { send_us / sent } else { 0.0 };
        let _ = write!(line, "0; {}; {}; ", test.timeouts, format_g(per_datagram));
    }
    let _ = write!(line, " {}; ", format_g(micros(test.load.spacing.gap)));
    if is_extended {
        let _ = write!(line, " {}; ", format_g(send_us));
    }
    let blank = if is_extended { "" } else { " " };
    let network_loss = lost_in_network(&test.receiver_counts, &test.remote_host, is_v6);
    let _ = write!(
        line,
        "{blank}{}; {}; {}; {}; {}; {}; {}; ",
        rate(bytes, sent, send_us),
        test.receiver_counts.received,
        test.receiver_counts.lost,
        test.receiver_counts.bad_order,
        percent(sent - received, sent),
        format_loss(network_loss),
        format_loss(network_loss.map(|lost| percent(lost as f64, sent))),
    );
    if is_extended {
        let per_datagram = if received > 0.0 {
            receive_us / received
        } else {
            0.0
        };
        let _ = write!(
            line,
            " {};  {}; ",
            format_g(receive_us),
            format_g(per_datagram)
        );
    }
    let wire_bytes = bytes + f64::from(wire_overhead_bytes(is_v6));
    let _ = write!(
        line,
        " {};  {}; ",
        rate(bytes, received, receive_us),
        rate(wire_bytes, received, receive_us)
    );
    if is_extended {
        line += &arrival_columns(test);
        line += &blocks::cpu_block('L', &test.local_host.cpus);
        line += &blocks::cpu_block('R', &test.remote_host.cpus);
        line += &blocks::counter_block('L', &test.local_host.counters);
        line += ";";
        line += &blocks::counter_block('R', &test.remote_host.counters);
        line += ";";
        line += &blocks::nic_block('R', &test.remote_host.nic);
    }
    line + " \n"
}

/// Formats the figures of the arrival histogram.
fn arrival_columns(test: &ThroughputResult) -> String {
    let Some(histogram) = test.histograms.first() else {
        return " 0; 0; 0; 0; 0; 0; 0; 0;".to_owned();
    };
    let figures = HistogramFigures::from_histogram(histogram);
    format!(
        " {}; {}; {}; {}; {}; {}; {}; {};",
        histogram.binned_count(),
        format_g(figures.mean),
        format_g(figures.sigma),
        format_g(figures.skew),
        format_g(figures.kurtosis),
        figures.median,
        figures.lower_quartile,
        figures.upper_quartile
    )
}

/// Returns stock's estimate of the loss on the path: skipped numbers, minus the drops of the
/// receiving host. The drops include those of other sockets. `None` if they are unavailable.
fn lost_in_network(received: &StockCounts, host: &HostActivity, is_v6: bool) -> Option<u64> {
    let errors = host.counters.udp_in_errors(is_v6)?;
    let out_of_buffer = host.nic.values().nth(8).flatten().unwrap_or(0);
    let dropped = errors.saturating_add(out_of_buffer.max(0) as u64);
    Some(received.lost.saturating_sub(dropped))
}

fn format_loss(loss: Option<impl ToString>) -> String {
    loss.map_or_else(|| "-".to_owned(), |loss| loss.to_string())
}

/// Returns the prefix of each line with `-q`.
pub fn quiet_prefix(started: SystemTime, endpoint: &EndpointInfo) -> String {
    format!(
        " {} ; {} ; {} ; {} ; {} ;",
        since_epoch(started).as_secs(),
        endpoint.local_address,
        endpoint.node,
        endpoint.peer_address,
        endpoint.peer_name
    )
}

/// Formats the titles of `udpmon_send`.
pub fn send_titles(cpus: usize, is_v6: bool) -> String {
    format!(
        "  pkt len; num_sent; Time/frame us; wait_time; Send time; send_data_rate Mbit; {}; {};\n",
        blocks::cpu_titles('L', cpus),
        blocks::counter_titles('L', is_v6)
    )
}

/// Formats a result line of `udpmon_send`.
pub fn send_line(test: &SendResult) -> String {
    let send_us = micros(test.send_time);
    let sent = test.sent.max(1) as f64;
    format!(
        " {}; {};   {};   {};   {};   {}; {}{};  \n",
        test.load.bytes,
        test.sent,
        format_g(send_us / sent),
        format_g(micros(test.load.spacing.gap)),
        format_g(send_us),
        format_g(8.0 * f64::from(test.load.bytes) * test.sent as f64 / send_us),
        blocks::cpu_block('L', &test.local_host.cpus),
        blocks::counter_block('L', &test.local_host.counters)
    )
}

/// Returns the titles of `udpmon_req`.
pub fn req_titles() -> &'static str {
    "response len bytes; Req len;  loop_count;  num_bad; time/frame (tod); ave time us; min time; max time; num timeouts; \n"
}

/// Formats a result line of `udpmon_req`.
pub fn req_line(test: &LatencyResult) -> String {
    let times = test.outcome.local.latency.as_ref();
    let mean = times.and_then(stats::Histogram::mean_ns).unwrap_or(0.0) / 1e3;
    let extremes = times.and_then(stats::Histogram::extremes);
    let (min, max) = extremes.unwrap_or_default();
    format!(
        " {};  {};  {};   {};  {}; {mean:8.3}; {:7.2}; {:8.3}; {} \n",
        test.response_bytes,
        test.request_bytes,
        test.requests,
        test.timeouts,
        format_g(micros(test.elapsed) / f64::from(test.requests.max(1))),
        micros(min),
        micros(max),
        test.timeouts
    )
}

/// Formats the titles of `udpmon_recv`.
pub fn recv_titles(cpus: usize, is_v6: bool) -> String {
    format!(
        "num; linux time; excel time; hour; num_recv; num_lost; num_badorder; %lost; num_lost_innet; %lost_innet; Bytes \
         Recv; Bytes/frame; elapsed time us; time/recv pkt; recv_user_data_rate Mbit; recv_wire_rate Mbit; {}; {}; {} \n",
        blocks::cpu_titles('L', cpus),
        blocks::counter_titles('L', is_v6),
        blocks::nic_titles('L')
    )
}

/// Formats line `number` of `udpmon_recv`. `since_first` is the time since the first line.
pub fn recv_line(number: u64, since_first: Duration, snapshot: &Snapshot) -> String {
    /// The number of days from the epoch of spreadsheets (1900) to 1970.
    const DAYS_TO_1970: f64 = 25_569.0;
    let taken_at = since_epoch(snapshot.taken_at);
    let columns = IntervalColumns::from_interval(&snapshot.delta);
    format!(
        " {number}; {}; {:.6}; {}; {}; {}; {}; {}; {}; {}; {}; {}; {}; {}; {}; {};{}{};{}\n",
        taken_at.as_secs(),
        taken_at.as_secs() as f64 / 86_400.0 + DAYS_TO_1970,
        format_g(since_first.as_secs_f64() / 3600.0),
        snapshot.delta.received.received,
        snapshot.delta.received.lost,
        snapshot.delta.received.bad_order,
        columns.lost_percent,
        columns.lost_in_network,
        columns.lost_in_network_percent,
        snapshot.delta.bytes,
        format_g(columns.bytes_per_datagram),
        format_g(columns.elapsed_us),
        format_g(columns.us_per_datagram),
        format_g(columns.user_megabits),
        format_g(columns.wire_megabits),
        blocks::cpu_block('L', &snapshot.delta.host.cpus),
        blocks::counter_block('L', &snapshot.delta.host.counters),
        blocks::nic_block('L', &snapshot.delta.host.nic)
    )
}

/// Formats the table that `udpmon_recv` prints at an interrupt: the counts since the start and in
/// the last interval.
pub fn recv_table(snapshot: &Snapshot) -> String {
    let (total, delta) = (
        IntervalColumns::from_interval(&snapshot.total),
        IntervalColumns::from_interval(&snapshot.delta),
    );
    let counts = |field: fn(&StockCounts) -> u64| {
        [
            field(&snapshot.total.received),
            field(&snapshot.delta.received),
        ]
        .map(|count| count.to_string())
    };
    let texts =
        |field: fn(&IntervalColumns) -> &str| [field(&total), field(&delta)].map(str::to_owned);
    let numbers = |field: fn(&IntervalColumns) -> f64| [field(&total), field(&delta)].map(format_g);
    let rows = [
        ("Frames recv", counts(|r| r.received)),
        ("Frames lost", counts(|r| r.lost)),
        ("Frames out of order", counts(|r| r.bad_order)),
        ("% lost", texts(|r| &r.lost_percent)),
        ("Frames lost in net", texts(|r| &r.lost_in_network)),
        ("% lost in net", texts(|r| &r.lost_in_network_percent)),
        (
            "Bytes received",
            [snapshot.total.bytes, snapshot.delta.bytes].map(|n| n.to_string()),
        ),
        ("Bytes/Frame", numbers(|r| r.bytes_per_datagram)),
        ("Elapsed_time us", numbers(|r| r.elapsed_us)),
        ("Recv time/pkt us", numbers(|r| r.us_per_datagram)),
        ("User data rate Mbit/s", numbers(|r| r.user_megabits)),
        ("Wire rate Mbit/s", numbers(|r| r.wire_megabits)),
    ];
    let mut text = format!("{:22}; {:>14}; {:>14};\n", "", "total", "delta");
    for (title, [total, delta]) in rows {
        let _ = writeln!(text, "{title:22}; {total:>14}; {delta:>14};");
    }
    text
}

/// The columns of an interval that are computed from its counts.
struct IntervalColumns {
    lost_percent: String,
    lost_in_network: String,
    lost_in_network_percent: String,
    bytes_per_datagram: f64,
    elapsed_us: f64,
    us_per_datagram: f64,
    user_megabits: f64,
    wire_megabits: f64,
}

impl IntervalColumns {
    fn from_interval(interval: &IntervalCounts) -> Self {
        let received = interval.received.received as f64;
        let bytes = interval.bytes as f64;
        let elapsed_us = micros(interval.received.elapsed);
        let ratio = |number: f64, divisor: f64| if divisor > 0.0 { number / divisor } else { 0.0 };
        let lost_in_network = lost_in_network(
            &interval.received,
            &interval.host,
            interval.host.counters.is_v6,
        );
        let wire_bytes =
            bytes + received * f64::from(wire_overhead_bytes(interval.host.counters.is_v6));
        Self {
            lost_percent: percent(interval.received.lost as f64, received),
            lost_in_network: format_loss(lost_in_network),
            lost_in_network_percent: format_loss(
                lost_in_network.map(|lost| percent(lost as f64, received)),
            ),
            bytes_per_datagram: ratio(bytes, received),
            elapsed_us,
            us_per_datagram: ratio(elapsed_us, received),
            user_megabits: ratio(8.0 * bytes, elapsed_us),
            wire_megabits: ratio(8.0 * wire_bytes, elapsed_us),
        }
    }
}

fn since_epoch(moment: SystemTime) -> Duration {
    moment.duration_since(UNIX_EPOCH).unwrap_or_default()
}
