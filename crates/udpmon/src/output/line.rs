//! Result lines and their titles.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::histogram::Derived;
use super::{blocks, g, micros, overhead, percent};
use crate::result::{ByOrder, HostUse, Interval, Latency, Opened, Sending, Snapshot, Throughput};

/// Returns the titles of `udpmon_bw_mon`: those of `-x` if both hosts are given.
pub fn bw_mon_titles(hosts: Option<(&HostUse, &HostUse)>) -> String {
    let Some((here, there)) = hosts else {
        return "  pkt len; num_sent; inter-pkt_time us; send_user_data_rate Mbit; num_recv; num_lost; num_badorder; \
                %lost; num_lost_innet; %lost_innet; recv_user_data_rate Mbit; recv_wire_rate Mbit;\n"
            .to_owned();
    };
    let cpus = |whose, host: &HostUse| match blocks::cpu_titles(whose, host.cpus.len()) {
        titles if titles.is_empty() => titles,
        titles => titles + "; ",
    };
    format!(
        "  pkt len; num_sent; num_ACKs recv; num_timeout; Time/frame us; inter-pkt_time us; Send time; \
         send_user_data_rate Mbit; num_recv; num_lost; num_badorder; %lost; num_lost_innet; %lost_innet; Recv time; \
         time/recv pkt; recv_user_data_rate Mbit; recv_wire_rate Mbit; num_in_hist; mean; sigma; skew; kurtosis; \
         median; iq25; iq75; {}{}{}; {}; {}\n",
        cpus('L', here),
        cpus('R', there),
        blocks::counter_titles('L', here.counters.is_v6),
        blocks::counter_titles('R', there.counters.is_v6),
        blocks::nic_titles('R'),
    )
}

/// A result line of `udpmon_bw_mon`, the long one if `is_extended`.
pub fn bw_mon_line(test: &Throughput, is_extended: bool) -> String {
    let bytes = f64::from(test.load.bytes);
    let sent = test.sent as f64;
    let received = test.received.received as f64;
    let (send_us, receive_us) = (micros(test.send_time), micros(test.received.elapsed));
    let is_v6 = test.here.counters.is_v6;
    let rate = |bytes: f64, datagrams: f64, us: f64| match datagrams {
        0.0 => "0".to_owned(),
        _ => g(8.0 * bytes * datagrams / us),
    };
    let mut line = format!(" {}; {}; ", test.load.bytes, test.sent);
    if is_extended {
        let per_datagram = if test.sent > 0 { send_us / sent } else { 0.0 };
        let _ = write!(line, "0; {}; {}; ", test.timeouts, g(per_datagram));
    }
    let _ = write!(line, " {}; ", g(micros(test.load.spacing.gap)));
    if is_extended {
        let _ = write!(line, " {}; ", g(send_us));
    }
    let gap = if is_extended { "" } else { " " };
    let in_network = lost_in_network(&test.received, &test.there, is_v6);
    let _ = write!(
        line,
        "{gap}{}; {}; {}; {}; {}; {in_network}; {}; ",
        rate(bytes, sent, send_us),
        test.received.received,
        test.received.lost,
        test.received.bad_order,
        percent(sent - received, sent),
        percent(in_network as f64, sent),
    );
    if is_extended {
        let per_datagram = if received > 0.0 {
            receive_us / received
        } else {
            0.0
        };
        let _ = write!(line, " {};  {}; ", g(receive_us), g(per_datagram));
    }
    let wire = bytes + f64::from(overhead(is_v6));
    let _ = write!(
        line,
        " {};  {}; ",
        rate(bytes, received, receive_us),
        rate(wire, received, receive_us)
    );
    if is_extended {
        line += &arrivals(test);
        line += &blocks::cpus('L', &test.here.cpus);
        line += &blocks::cpus('R', &test.there.cpus);
        line += &blocks::counters('L', &test.here.counters);
        line += ";";
        line += &blocks::counters('R', &test.there.counters);
        line += ";";
        line += &blocks::nic('R', &test.there.nic);
    }
    line + " \n"
}

/// Figures of the histogram of arrivals.
fn arrivals(test: &Throughput) -> String {
    let Some(histogram) = test.histograms.first() else {
        return " 0; 0; 0; 0; 0; 0; 0; 0;".to_owned();
    };
    let figures = Derived::of(histogram);
    format!(
        " {}; {}; {}; {}; {}; {}; {}; {};",
        histogram.in_range(),
        g(figures.mean),
        g(figures.sigma),
        g(figures.skew),
        g(figures.kurtosis),
        figures.median,
        figures.lower,
        figures.upper
    )
}

/// Stock's estimate of the loss on the path: skipped numbers, minus the drops of all sockets of the receiving host.
fn lost_in_network(received: &ByOrder, there: &HostUse, is_v6: bool) -> u64 {
    let protocols = &there.counters.protocols;
    let errors = if is_v6 {
        protocols.udp6_in_errors
    } else {
        protocols.udp_in_errors
    };
    let out_of_buffer = there.nic.values().nth(8).flatten().unwrap_or(0);
    let dropped = errors.max(0).saturating_add(out_of_buffer.max(0));
    received.lost.saturating_sub(dropped as u64)
}

/// Returns the prefix of each line under `-q`.
pub fn quiet_prefix(started: SystemTime, opened: &Opened) -> String {
    format!(
        " {} ; {} ; {} ; {} ; {} ;",
        unix(started).as_secs(),
        opened.local_address,
        opened.node,
        opened.peer_address,
        opened.peer_name
    )
}

/// The titles of `udpmon_send`.
pub fn send_titles(cpus: usize, is_v6: bool) -> String {
    format!(
        "  pkt len; num_sent; Time/frame us; wait_time; Send time; send_data_rate Mbit; {}; {};\n",
        blocks::cpu_titles('L', cpus),
        blocks::counter_titles('L', is_v6)
    )
}

/// A result line of `udpmon_send`.
pub fn send_line(test: &Sending) -> String {
    let send_us = micros(test.send_time);
    let sent = test.sent.max(1) as f64;
    format!(
        " {}; {};   {};   {};   {};   {}; {}{};  \n",
        test.load.bytes,
        test.sent,
        g(send_us / sent),
        g(micros(test.load.spacing.gap)),
        g(send_us),
        g(8.0 * f64::from(test.load.bytes) * test.sent as f64 / send_us),
        blocks::cpus('L', &test.here.cpus),
        blocks::counters('L', &test.here.counters)
    )
}

/// The titles of `udpmon_req`.
pub fn req_titles() -> &'static str {
    "response len bytes; Req len;  loop_count;  num_bad; time/frame (tod); ave time us; min time; max time; num timeouts; \n"
}

/// A result line of `udpmon_req`.
pub fn req_line(test: &Latency) -> String {
    let times = test.outcome.here.latency.as_ref();
    let mean = times.and_then(stats::Histogram::mean_ns).unwrap_or(0.0) / 1e3;
    let extremes = times.and_then(stats::Histogram::extremes);
    let (least, most) = extremes.unwrap_or_default();
    format!(
        " {};  {};  {};   {};  {}; {mean:8.3}; {:7.2}; {:8.3}; {} \n",
        test.response_bytes,
        test.request_bytes,
        test.requests,
        test.timeouts,
        g(micros(test.elapsed) / f64::from(test.requests.max(1))),
        micros(least),
        micros(most),
        test.timeouts
    )
}

/// The titles of `udpmon_recv`.
pub fn recv_titles(cpus: usize, is_v6: bool) -> String {
    format!(
        "num; linux time; excel time; hour; num_recv; num_lost; num_badorder; %lost; num_lost_innet; %lost_innet; Bytes \
         Recv; Bytes/frame; elapsed time us; time/recv pkt; recv_user_data_rate Mbit; recv_wire_rate Mbit; {}; {}; {} \n",
        blocks::cpu_titles('L', cpus),
        blocks::counter_titles('L', is_v6),
        blocks::nic_titles('L')
    )
}

/// Formats a line of `udpmon_recv`: the `number`th, `since_first` after the first one.
pub fn recv_line(number: u64, since_first: Duration, look: &Snapshot) -> String {
    /// Days from 1900, the epoch of spreadsheets, to 1970.
    const DAYS_TO_1970: f64 = 25_569.0;
    let at = unix(look.at);
    let figures = Received::of(&look.delta);
    format!(
        " {number}; {}; {:.6}; {}; {}; {}; {}; {}; {}; {}; {}; {}; {}; {}; {}; {};{}{};{}\n",
        at.as_secs(),
        at.as_secs() as f64 / 86_400.0 + DAYS_TO_1970,
        g(since_first.as_secs_f64() / 3600.0),
        look.delta.received.received,
        look.delta.received.lost,
        look.delta.received.bad_order,
        figures.lost_percent,
        figures.lost_in_network,
        figures.lost_in_network_percent,
        look.delta.bytes,
        g(figures.bytes_per_datagram),
        g(figures.elapsed_us),
        g(figures.us_per_datagram),
        g(figures.user_megabits),
        g(figures.wire_megabits),
        blocks::cpus('L', &look.delta.host.cpus),
        blocks::counters('L', &look.delta.host.counters),
        blocks::nic('L', &look.delta.host.nic)
    )
}

/// Formats the table of `udpmon_recv` at an interrupt, for the whole time and for the last interval.
pub fn recv_table(look: &Snapshot) -> String {
    let (total, delta) = (Received::of(&look.total), Received::of(&look.delta));
    let counts = |of: fn(&ByOrder) -> u64| {
        [of(&look.total.received), of(&look.delta.received)].map(|count| count.to_string())
    };
    let texts = |of: fn(&Received) -> &str| [of(&total), of(&delta)].map(str::to_owned);
    let numbers = |of: fn(&Received) -> f64| [of(&total), of(&delta)].map(g);
    let rows = [
        ("Frames recv", counts(|r| r.received)),
        ("Frames lost", counts(|r| r.lost)),
        ("Frames out of order", counts(|r| r.bad_order)),
        ("% lost", texts(|r| &r.lost_percent)),
        (
            "Frames lost in net",
            [total.lost_in_network, delta.lost_in_network].map(|n| n.to_string()),
        ),
        ("% lost in net", texts(|r| &r.lost_in_network_percent)),
        (
            "Bytes received",
            [look.total.bytes, look.delta.bytes].map(|n| n.to_string()),
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

/// The columns of an interval in addition to its counts.
struct Received {
    lost_percent: String,
    lost_in_network: u64,
    lost_in_network_percent: String,
    bytes_per_datagram: f64,
    elapsed_us: f64,
    us_per_datagram: f64,
    user_megabits: f64,
    wire_megabits: f64,
}

impl Received {
    fn of(interval: &Interval) -> Self {
        let received = interval.received.received as f64;
        let bytes = interval.bytes as f64;
        let elapsed_us = micros(interval.received.elapsed);
        let over = |number: f64, by: f64| if by > 0.0 { number / by } else { 0.0 };
        let lost_in_network = lost_in_network(
            &interval.received,
            &interval.host,
            interval.host.counters.is_v6,
        );
        let wire = bytes + received * f64::from(overhead(interval.host.counters.is_v6));
        Self {
            lost_percent: percent(interval.received.lost as f64, received),
            lost_in_network,
            lost_in_network_percent: percent(lost_in_network as f64, received),
            bytes_per_datagram: over(bytes, received),
            elapsed_us,
            us_per_datagram: over(elapsed_us, received),
            user_megabits: over(8.0 * bytes, elapsed_us),
            wire_megabits: over(8.0 * wire, elapsed_us),
        }
    }
}

fn unix(moment: SystemTime) -> Duration {
    moment.duration_since(UNIX_EPOCH).unwrap_or_default()
}
