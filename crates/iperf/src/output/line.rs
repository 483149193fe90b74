//! The lines of figures, with their headers.

use std::fmt::Write;

use model::DatagramCounts;
use stats::Histogram;

use super::number::{percent, power};
use super::{Facts, name};
use crate::event::{Event, Figures, FlowId};
use crate::tally::{Bins, Kind, Tally};
use crate::wire::ServerReport;

const PLAIN: &str = "[ ID] Interval       Transfer     Bandwidth\n";
const SUM_ONLY: &str = "[SUM-cnt] Interval       Transfer     Bandwidth\n";
const SUM_ONLY_UDP: &str =
    "[SUM-cnt] Interval     Transfer     Bandwidth       Lost/Total    PPS\n";
const TCP_SENDER: &str = "[ ID] Interval            Transfer    Bandwidth       Write/Err  Rtry     Cwnd/RTT(var)        NetPwr\n";
const TCP_RECEIVER: &str = "[ ID] Interval            Transfer    Bandwidth       Reads=Dist\n";
const UDP_RECEIVER: &str =
    "[ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total Datagrams\n";
const UDP_SENDER_MORE: &str =
    "[ ID] Interval            Transfer     Bandwidth      Write/Err  PPS\n";
const UDP_RECEIVER_MORE: &str = "[ ID] Interval            Transfer     Bandwidth        Jitter   Lost/Total  Latency avg/min/max/stdev PPS  Rx/inP  NetPwr\n";
const BOUNCE: &str = "[ ID] Interval            Transfer    Bandwidth         BB cnt=avg/min/max/stdev         Rtry  Cwnd/RTT    RPS\n";
const BURST_LATENCY: &str = "[ ID] Interval            Transfer    Bandwidth    Burst Latency avg/min/max/stdev (cnt/size) inP NetPwr  Reads=Dist\n";
const FRAME_LATENCY: &str = "[ ID] Interval            Transfer    Bandwidth    Burst Latency avg/min/max/stdev (cnt/size) NetPwr  Reads=Dist\n";
const BURSTS: &str = "[ ID] Burst (start-end)  Transfer     Bandwidth       XferTime  (DC%)     Reads=Dist          NetPwr\n";
const WRITE_TIMES: &str = "[ ID] Interval            Transfer    Bandwidth       Write/Err  Rtry     Cwnd/RTT        NetPwr  write-times avg/min/max/stdev (cnt)\n";
const FRAMES_SENT: &str = "[ ID] Interval            Transfer     Bandwidth      Write/Err  Rtry     Cwnd/RTT     isoch:tx/miss/slip  NetPwr\n";
const UDP_FRAMES_SENT: &str =
    "[ ID] Interval            Transfer     Bandwidth      Write/Err  PPS  isoch:tx/miss/slip\n";
const UDP_FRAMES: &str = "[ ID] Interval            Transfer     Bandwidth        Jitter   Lost/Total Latency avg/min/max/stdev  PPS  Frame:rx/lost  latency  NetPwr\n";
const UDP_BOTH_WAYS: &str = "[ ID] Interval       Transfer     Bandwidth    Datagrams   PPS\n";

/// Returns the lines of an event; `is_new`: no header has been printed yet.
pub(super) fn text(
    facts: &Facts,
    event: &Event<'_>,
    is_new: impl FnMut(&'static str) -> bool,
) -> String {
    if facts.print.exclude.data {
        return String::new();
    }
    match event {
        Event::Interval(id, figures) | Event::Final(id, figures) => {
            let is_final = matches!(event, Event::Final(..));
            flow(facts, id, figures, is_final, is_new)
        }
        Event::Sum {
            flows,
            of_connection,
            both_ways,
            is_final,
            figures,
        } => sum(
            facts,
            (*flows, *of_connection, *both_ways, *is_final),
            figures,
            is_new,
        ),
        Event::Report(id, report) if !facts.print.exclude.server_report => {
            server_report(facts, id, report)
        }
        _ => String::new(),
    }
}

fn flow(
    facts: &Facts,
    id: &FlowId,
    figures: &Figures,
    is_final: bool,
    mut is_new: impl FnMut(&'static str) -> bool,
) -> String {
    if facts.print.sum_only {
        return String::new();
    }
    let is_timed = figures.has_trip_times && (facts.is_server || !figures.sends);
    let is_enhanced = facts.print.enhanced || is_timed;
    let special = figures
        .tally
        .as_ref()
        .and_then(|(kind, tally)| special(facts, *kind, tally, figures, is_final));
    let (header, tail) = match (figures.is_udp, figures.sends, is_enhanced) {
        _ if special.is_some() => special.unwrap_or_default(),
        _ if figures.latency.is_some() && facts.bounce.is_some() => (BOUNCE, bounces(figures)),
        (false, true, true) => (TCP_SENDER, writes(figures)),
        (false, false, true) => (TCP_RECEIVER, reads(figures)),
        (true, true, true) => (UDP_SENDER_MORE, datagrams_sent(figures)),
        (true, false, true) => (UDP_RECEIVER_MORE, datagrams_received(figures)),
        (true, false, false) => (UDP_RECEIVER, jitter_and_loss(figures)),
        (_, _, false) => (PLAIN, String::new()),
    };
    let header = if is_new(header) { header } else { "" };
    let name = name(id);
    let mut text = format!("{header}{}{tail}\n", amounts(facts, &name, figures));
    text += &out_of_order(&name, figures);
    if let (Some((kind, tally)), Some(bins)) = (&figures.tally, facts.print.bins) {
        text += &histogram(&name, figures, (*kind, tally), bins, is_final);
    }
    if let Some(latency) = figures
        .latency
        .as_ref()
        .filter(|_| is_final && facts.bounce.is_some())
    {
        text += &distribution(&name, figures, latency);
    }
    text
}

/// The header and the tail of a line about bursts, frames or calls; `None` if it is an ordinary one.
fn special(
    facts: &Facts,
    kind: Kind,
    tally: &Tally,
    figures: &Figures,
    is_final: bool,
) -> Option<(&'static str, String)> {
    let [mean, least, most, deviation] = tally.milliseconds();
    let times = format!("{mean:.3}/{least:.3}/{most:.3}/{deviation:.3} ms");
    let (count, size) = (
        tally.count,
        tally.bytes.checked_div(tally.count).unwrap_or(0),
    );
    let bytes_per_second = figures.bits_per_second() / 8.0;
    let net_power = power(bytes_per_second, mean / 1e3);
    let frames = format!("{}/{}/{}", tally.frames, tally.missed, tally.slips);
    let path = figures.path.unwrap_or_default();
    let window = path.congestion_window_bytes.unwrap_or(0) / 1024;
    let rtt = path.smoothed_rtt.unwrap_or_default();
    let (calls, failed, retries) = (figures.calls, figures.failed, figures.retransmits);
    let path_power = power(bytes_per_second, rtt.as_secs_f64());
    let rtt_us = rtt.as_micros();
    Some(match (kind, figures.is_udp, figures.sends) {
        (Kind::TripTimes, false, false) => {
            let in_progress = facts.print.format.size(bytes_per_second * mean / 1e3);
            let reads = reads(figures);
            let tail = format!("  {times} ({count}/{size}) {in_progress} {net_power}{reads}");
            (BURST_LATENCY, tail)
        }
        (Kind::Frames, false, false) => {
            let reads = reads(figures);
            (
                FRAME_LATENCY,
                format!("  {times} ({count}/{size}) {net_power}{reads}"),
            )
        }
        (Kind::Bursts { .. }, false, false) if is_final => {
            (BURSTS, format!("  {times}{}", reads(figures)))
        }
        (Kind::Bursts { period }, false, false) => {
            let share = 100.0 * mean / 1e3 / period.as_secs_f64();
            let (share, reads) = (two_digits(share), reads(figures));
            (
                BURSTS,
                format!("  {mean:6.3} ms ({share}%)  {reads}  {net_power}"),
            )
        }
        (Kind::Writes, false, true) => {
            let tail = format!(
                "  {calls}/{failed}{retries:>11}{window:>9}K/{rtt_us} us  {path_power}  {times} ({count})"
            );
            (WRITE_TIMES, tail)
        }
        (Kind::Frames, false, true) => {
            let tail = format!(
                "  {calls}/{failed}{retries:>9}{window:>9}K/{rtt_us} us{frames:>15}{path_power:>11}"
            );
            (FRAMES_SENT, tail)
        }
        (Kind::Frames, true, true) => {
            let rate = per_second(figures, calls);
            let tail = format!("  {calls}/{failed}{rate:>9.0} pps{frames:>9}");
            (UDP_FRAMES_SENT, tail)
        }
        (Kind::Frames, true, false) => {
            let counts = figures.datagrams.unwrap_or_default();
            let delays = Latency::of(&counts);
            let rate = per_second(figures, counts.received);
            let frames = format!("{}/{}", tally.frames, tally.missed);
            let delays = delays.map_or_else(|| "-/-/-/-".to_owned(), |delays| delays.millis());
            let loss = jitter_and_loss(figures);
            let tail = format!("{loss} {delays} ms {rate:.0} pps{frames:>7}  {times} {net_power}");
            (UDP_FRAMES, tail)
        }
        _ => return None,
    })
}

/// Two significant digits, as C's `%.2g`.
fn two_digits(number: f64) -> String {
    let digits = 1 - number.abs().max(1e-9).log10().floor() as i32;
    let text = format!("{number:.*}", digits.clamp(0, 9) as usize);
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// Counts of equal bins.
fn histogram(
    name: &str,
    figures: &Figures,
    (kind, tally): (Kind, &Tally),
    bins: Bins,
    is_final: bool,
) -> String {
    let what = match (kind, figures.sends) {
        (Kind::Writes, true) => "W8",
        (Kind::Datagrams, false) => "T8",
        (Kind::Frames | Kind::Bursts { .. } | Kind::TripTimes, false) => "F8",
        _ => return String::new(),
    };
    let mark = if is_final { "(f)" } else { "" };
    let micros = bins.width.as_micros();
    let width = match micros {
        micros if micros % 1_000_000 == 0 => format!("{}s", micros / 1_000_000),
        micros if micros % 1000 == 0 => format!("{}ms", micros / 1000),
        micros => format!("{micros}us"),
    };
    let inside = || tally.bins.iter().filter(|(bin, _)| **bin <= bins.count);
    let above: u64 =
        tally.bins.values().sum::<u64>() - inside().map(|(_, count)| count).sum::<u64>();
    let listed: Vec<String> = inside()
        .map(|(bin, count)| format!("{bin}:{count}"))
        .collect();
    let equals = if listed.is_empty() { "" } else { "=" };
    let [low, high] = bins.percents;
    let at = |percent: f64| {
        let wanted = (percent / 100.0 * tally.count as f64).ceil() as u64;
        let mut seen = 0;
        let reached = inside().find(|(_, count)| {
            seen += **count;
            seen >= wanted
        });
        reached.map_or(bins.count, |(bin, _)| *bin)
    };
    let longest = if what == "F8" && tally.count > 0 {
        let [_, _, most, _] = tally.milliseconds();
        format!(" ({most:.3} ms/{:.6})", tally.longest_at_ns as f64 / 1e9)
    } else {
        String::new()
    };
    format!(
        "{name} {} sec {what}{mark}-PDF: bin(w={width}):cnt({}){equals}{} ({low:.2}/{high:.2}/99.7%={}/{}/{},Outliers=0,obl/obu=0/{above}){longest}\n",
        times(figures),
        tally.count,
        listed.join(","),
        at(low),
        at(high),
        at(99.7),
    )
}

/// `[  1] 0.0000-1.0000 sec  9.63 MBytes  80.7 Mbits/sec`.
fn amounts(facts: &Facts, name: &str, figures: &Figures) -> String {
    let format = facts.print.format;
    let amount = format.amount(figures.bytes as f64);
    let rate = format.rate(figures.bits_per_second());
    format!("{name} {} sec  {amount}  {rate}", times(figures))
}

fn times(figures: &Figures) -> String {
    format!(
        "{:.4}-{:.4}",
        figures.from.as_secs_f64(),
        figures.to.as_secs_f64()
    )
}

/// Write calls, retransmissions, window, round-trip time, network power.
fn writes(figures: &Figures) -> String {
    let (calls, failed, retries) = (figures.calls, figures.failed, figures.retransmits);
    let path = figures.path.unwrap_or_default();
    let window = path.congestion_window_bytes.unwrap_or(0) / 1024;
    let rtt = path.smoothed_rtt.unwrap_or_default();
    let variation = path.rtt_deviation.unwrap_or_default();
    let power = power(figures.bits_per_second() / 8.0, rtt.as_secs_f64());
    format!(
        "  {calls}/{failed}{retries:>11}{window:>9}K/{}({}) us  {power}",
        rtt.as_micros(),
        variation.as_micros()
    )
}

fn reads(figures: &Figures) -> String {
    let bins = figures.reads.unwrap_or_default();
    let listed = bins.map(|count| count.to_string()).join(":");
    format!("  {}={listed}", bins.iter().sum::<u64>())
}

fn per_second(figures: &Figures, count: u64) -> f64 {
    let seconds = figures.to.saturating_sub(figures.from).as_secs_f64();
    if seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    }
}

fn datagrams_sent(figures: &Figures) -> String {
    let (calls, failed) = (figures.calls, figures.failed);
    let rate = per_second(figures, calls);
    format!("  {calls}/{failed}{rate:>9.0} pps")
}

fn jitter_and_loss(figures: &Figures) -> String {
    let jitter = figures
        .datagrams
        .and_then(|counts| counts.jitter)
        .unwrap_or_default();
    loss(jitter.as_secs_f64() * 1e3, figures.lost(), figures.due)
}

fn loss(jitter_ms: f64, lost: u64, total: u64) -> String {
    format!(
        "  {jitter_ms:6.3} ms {lost}/{total} ({}%)",
        percent(lost, total)
    )
}

fn datagrams_received(figures: &Figures) -> String {
    let counts = figures.datagrams.unwrap_or_default();
    let Some(latency) = Latency::of(&counts) else {
        return jitter_and_loss(figures) + " -/-/-/- ms 0 pps";
    };
    let rate = per_second(figures, counts.received);
    jitter_and_loss(figures) + &latency.text(rate, counts.received, figures.bits_per_second() / 8.0)
}

/// Delays of datagrams.
#[expect(clippy::struct_field_names, reason = "the unit is part of the name")]
struct Latency {
    mean_ms: f64,
    least_ms: f64,
    most_ms: f64,
    deviation_ms: f64,
}

impl Latency {
    /// `None` without a delay.
    fn of(counts: &DatagramCounts) -> Option<Self> {
        let (mean, deviation) = counts.delays.mean_and_deviation_ns()?;
        let (least, most) = counts.delays.extremes_ns.unwrap_or_default();
        Some(Self {
            mean_ms: mean / 1e6,
            least_ms: least as f64 / 1e6,
            most_ms: most as f64 / 1e6,
            deviation_ms: deviation / 1e6,
        })
    }

    fn millis(&self) -> String {
        let Self {
            mean_ms,
            least_ms,
            most_ms,
            deviation_ms,
        } = self;
        format!("{mean_ms:.3}/{least_ms:.3}/{most_ms:.3}/{deviation_ms:.3}")
    }

    fn text(&self, per_second: f64, received: u64, bytes_per_second: f64) -> String {
        let Self {
            mean_ms,
            deviation_ms,
            ..
        } = self;
        // Little's law.
        let in_progress = per_second * mean_ms / 1e3;
        let varying = per_second * deviation_ms / 1e3;
        let power = power(bytes_per_second, mean_ms / 1e3);
        format!(
            " {} ms {per_second:.0} pps {received}/{in_progress:.0}({varying:.0}) pkts {power}",
            self.millis()
        )
    }
}

fn out_of_order(name: &str, figures: &Figures) -> String {
    match figures.out_of_order() {
        0 => String::new(),
        _ if figures.sends => String::new(),
        count => format!(
            "{name} {} sec  {count} datagrams received out-of-order\n",
            times(figures)
        ),
    }
}

fn sum(
    facts: &Facts,
    (flows, of_connection, both_ways, is_final): (usize, Option<u32>, bool, bool),
    figures: &Figures,
    mut is_new: impl FnMut(&'static str) -> bool,
) -> String {
    let is_enhanced = facts.print.enhanced || (facts.is_server && figures.has_trip_times);
    let is_receiver = figures.is_udp && !figures.sends && !both_ways;
    let (name, header) = match of_connection {
        _ if facts.print.sum_only && is_receiver => (format!("[SUM-{flows}]"), SUM_ONLY_UDP),
        _ if facts.print.sum_only => (format!("[SUM-{flows}]"), SUM_ONLY),
        Some(number) if is_enhanced && figures.is_udp => (format!("[FD{number}]"), UDP_BOTH_WAYS),
        Some(number) if is_enhanced => (format!("[FD{number}]"), PLAIN),
        Some(_) if figures.is_udp && both_ways => ("[SUM]".to_owned(), UDP_BOTH_WAYS),
        None if figures.is_udp && both_ways => ("[SUM]".to_owned(), ""),
        _ if figures.is_udp && is_enhanced => ("[SUM]".to_owned(), UDP_SENDER_MORE),
        _ if figures.is_udp => ("[SUM]".to_owned(), PLAIN),
        _ if is_enhanced && both_ways => ("[SUM]".to_owned(), PLAIN),
        _ if is_enhanced && figures.tally.is_some() && figures.sends => {
            ("[SUM]".to_owned(), TCP_SENDER)
        }
        _ if is_enhanced && figures.tally.is_some() => ("[SUM]".to_owned(), TCP_RECEIVER),
        // TCP's sum stands below the header of its flows.
        _ => ("[SUM]".to_owned(), ""),
    };
    let datagrams = |count: u64| format!(" {count}{:>8.0} pps", per_second(figures, count));
    let tail = match (figures.is_udp, is_enhanced, both_ways) {
        (true, _, true) if of_connection.is_some() => datagrams(figures.due + figures.calls),
        (true, _, true) => {
            let (lost, total) = (figures.lost(), figures.due + figures.calls);
            format!("   {lost}/{total} ({}%)", percent(lost, total))
        }
        (true, ..) if is_receiver => {
            let (lost, due) = (figures.lost(), figures.due);
            if facts.print.sum_only || is_enhanced {
                format!("  {lost}/{due}{:>9.0} pps", per_second(figures, due))
            } else {
                format!("   {lost}/{due} ({}%)", percent(lost, due))
            }
        }
        (true, true, false) => datagrams_sent(figures),
        (false, true, false) if figures.sends => {
            format!(
                "  {}/{}{:>10}",
                figures.calls, figures.failed, figures.retransmits
            )
        }
        (false, true, false) => reads(figures),
        _ => String::new(),
    };
    let header = if !header.is_empty() && is_new(header) {
        header
    } else {
        ""
    };
    let mut text = format!("{header}{}{tail}\n", amounts(facts, &name, figures));
    if of_connection.is_some() && is_enhanced && facts.is_server {
        let _ = writeln!(text, "{}{tail}", amounts(facts, "[SUM]", figures));
    }
    let counts_sent = !both_ways && figures.sends || both_ways && !is_enhanced && !facts.is_server;
    if figures.is_udp && counts_sent && is_final {
        let sent = figures.calls + flows as u64;
        let _ = writeln!(text, "[SUM-{flows}] Sent {sent} datagrams");
    }
    if is_receiver {
        text += &out_of_order(&name, figures);
    }
    text
}

/// The server's report, below a header of its own.
fn server_report(facts: &Facts, id: &FlowId, report: &ServerReport) -> String {
    let name = name(id);
    let figures = Figures {
        to: report.elapsed,
        is_udp: true,
        bytes: report.bytes,
        due: report.datagrams,
        ..Figures::default()
    };
    let jitter_ms = report.jitter.as_secs_f64() * 1e3;
    let loss = loss(jitter_ms, report.lost, report.datagrams);
    let latency = report.latency.filter(|_| report.is_enhanced);
    let (header, more) = match latency {
        Some(latency) if latency.count > 0 => {
            let count = f64::from(latency.count);
            let millis = |time: std::time::Duration| time.as_secs_f64() * 1e3;
            let squares = f64::from(latency.squares[0]) + f64::from(latency.squares[1]) / 1e6;
            let shown = Latency {
                mean_ms: millis(latency.sum) / count,
                least_ms: millis(latency.min),
                most_ms: millis(latency.max),
                deviation_ms: (squares / count).sqrt() / 1e3,
            };
            let rate = f64::from(latency.packets_per_second);
            let text = shown.text(
                rate,
                latency.packets_per_second.into(),
                figures.bits_per_second() / 8.0,
            );
            (UDP_RECEIVER_MORE, text)
        }
        _ => (UDP_RECEIVER, String::new()),
    };
    let own = self::name(&FlowId {
        is_opposite: false,
        ..id.clone()
    });
    let mut text = format!(
        "{own} Server Report:\n{header}{}{loss}{more}\n",
        amounts(facts, &name, &figures)
    );
    if report.out_of_order > 0 {
        let (times, count) = (times(&figures), report.out_of_order);
        let _ = writeln!(
            text,
            "{name} {times} sec  {count} datagrams received out-of-order"
        );
    }
    text
}

/// Requests that were answered, and how long that took.
fn bounces(figures: &Figures) -> String {
    let empty = Histogram::default();
    let latency = figures.latency.as_ref().unwrap_or(&empty);
    let (mean_ms, least_ms, most_ms, deviation_ms) = milliseconds(latency);
    let path = figures.path.unwrap_or_default();
    let window = path.congestion_window_bytes.unwrap_or(0) / 1024;
    let rtt = path.smoothed_rtt.unwrap_or_default().as_micros();
    let rate = if mean_ms > 0.0 { 1e3 / mean_ms } else { 0.0 };
    format!(
        "    {}={mean_ms:.3}/{least_ms:.3}/{most_ms:.3}/{deviation_ms:.3} ms{:>5}{window:>5}K/{rtt} us {rate:>8.0} rps",
        latency.len(),
        figures.retransmits
    )
}

fn milliseconds(times: &Histogram) -> (f64, f64, f64, f64) {
    let (least, most) = times.extremes().unwrap_or_default();
    (
        times.mean_ns().unwrap_or(0.0) / 1e6,
        least.as_secs_f64() * 1e3,
        most.as_secs_f64() * 1e3,
        times.deviation_ns().unwrap_or(0.0) / 1e6,
    )
}

/// Counts of bins of 100 µs.
fn distribution(name: &str, figures: &Figures, times: &Histogram) -> String {
    const BIN_NS: u64 = 100_000;
    const BINS: u64 = 10_000;
    let mut bins: Vec<(u64, u64)> = Vec::new();
    let mut above = 0;
    for (low_ns, _, count) in times.buckets() {
        let (bin, count) = (low_ns / BIN_NS + 1, u64::from(count));
        match bins.last_mut() {
            _ if bin > BINS => above += count,
            Some((last, sum)) if *last == bin => *sum += count,
            _ => bins.push((bin, count)),
        }
    }
    let total = times.len();
    let at = |share: f64| {
        let wanted = (share * total as f64).ceil() as u64;
        let mut seen = 0;
        let reached = bins.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        reached.map_or(BINS, |(bin, _)| *bin)
    };
    let (low, high, most) = (at(0.05), at(0.95), at(0.997));
    let listed: Vec<String> = bins
        .iter()
        .map(|(bin, count)| format!("{bin}:{count}"))
        .collect();
    format!(
        "{name} {} sec BB8(f)-PDF: bin(w=100us):cnt({total})={} (5.00/95.00/99.7%={low}/{high}/{most},Outliers=0,obl/obu=0/{above})\n",
        self::times(figures),
        listed.join(",")
    )
}
