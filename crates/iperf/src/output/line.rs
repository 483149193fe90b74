//! The lines with the figures of flows, and their headers.

use std::fmt::Write;
use std::time::Duration;

use model::DatagramCounts;
use stats::Histogram;

use super::number::{format_net_power, format_pacing_rate, format_percent};
use super::{PrintSettings, name};
use crate::event::{FlowFigures, FlowId, TestEvent};
use crate::timing::{HistogramBins, TimingKind, TimingStats};
use crate::wire::ServerReport;

pub(super) const BASIC: &str = "[ ID] Interval       Transfer     Bandwidth\n";
pub(super) const TCP_RECEIVER: &str =
    "[ ID] Interval            Transfer    Bandwidth       Reads=Dist\n";
const UDP_RECEIVER: &str =
    "[ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total Datagrams\n";
const BURST_LATENCY: &str = "[ ID] Interval            Transfer    Bandwidth    Burst Latency avg/min/max/stdev (cnt/size) inP NetPwr  Reads=Dist\n";
const FRAME_LATENCY: &str = "[ ID] Interval            Transfer    Bandwidth    Burst Latency avg/min/max/stdev (cnt/size) NetPwr  Reads=Dist\n";
const BURSTS: &str = "[ ID] Burst (start-end)  Transfer     Bandwidth       XferTime  (DC%)     Reads=Dist          NetPwr\n";
const UDP_FRAMES_SENT: &str =
    "[ ID] Interval            Transfer     Bandwidth      Write/Err  PPS  isoch:tx/miss/slip\n";
pub(super) const UDP_BIDIRECTIONAL: &str =
    "[ ID] Interval       Transfer     Bandwidth    Datagrams   PPS\n";

/// Returns the lines for an event.
///
/// `is_new` returns whether a header has not been printed yet, and marks the header as printed.
pub(super) fn text(
    settings: &PrintSettings,
    event: &TestEvent<'_>,
    is_new: impl FnMut(&'static str) -> bool,
) -> String {
    if settings.output.exclude.data {
        return String::new();
    }
    match event {
        TestEvent::Interval(id, figures) | TestEvent::Final(id, figures) => {
            let is_final = matches!(event, TestEvent::Final(..));
            flow_lines(settings, id, figures, is_final, is_new)
        }
        TestEvent::ServerReport(id, report) if !settings.output.exclude.server_report => {
            server_report(settings, id, report)
        }
        _ => String::new(),
    }
}

fn flow_lines(
    settings: &PrintSettings,
    id: &FlowId,
    figures: &FlowFigures,
    is_final: bool,
    mut is_new: impl FnMut(&'static str) -> bool,
) -> String {
    if settings.output.sum_only {
        return String::new();
    }
    let (layout, headers) = (settings.layout(), &settings.layout().headers);
    let is_timed =
        (figures.is_detailed && settings.is_server) || (figures.has_trip_times && !figures.sends);
    let is_enhanced = settings.output.enhanced || is_timed;
    let timing_text = figures
        .timing
        .as_ref()
        .and_then(|(kind, stats)| timing_columns(settings, *kind, stats, figures, is_final));
    let (header, tail) = match (figures.is_udp, figures.sends, is_enhanced) {
        _ if timing_text.is_some() => timing_text.unwrap_or_default(),
        _ if figures.latency.is_some() && settings.bounceback.is_some() => (
            headers.bounceback,
            bounceback_columns(settings, figures, is_final),
        ),
        (false, true, true) if settings.socket.max_pacing_bytes_per_second.is_some() => {
            (headers.tcp_paced_sender, write_columns(settings, figures))
        }
        (false, true, true) => (headers.tcp_sender, write_columns(settings, figures)),
        (false, false, true) => (TCP_RECEIVER, read_columns(figures)),
        (true, true, true) => {
            let timeouts = if layout.counts_timeouts { "/0" } else { "" };
            (headers.udp_sender, datagram_send_columns(figures, timeouts))
        }
        (true, false, true) => {
            let header = if figures.has_trip_times {
                headers.udp_timed_receiver
            } else {
                headers.udp_receiver
            };
            (header, datagram_receive_columns(settings, figures))
        }
        (true, false, false) => (UDP_RECEIVER, jitter_and_loss_columns(figures)),
        (_, _, false) => (BASIC, String::new()),
    };
    let header = if is_new(header) { header } else { "" };
    let name = name(id);
    let mut text = format!(
        "{header}{}{tail}\n",
        interval_and_rate(settings, &name, figures)
    );
    text += &out_of_order_line(&name, figures);
    if let (Some((kind, stats)), Some(bins)) = (&figures.timing, settings.output.bins) {
        text += &histogram_line(settings, &name, figures, (*kind, stats), bins, is_final);
    }
    if let (Some(stats), Some(bins)) = (&figures.jitter_times, settings.output.jitter_bins) {
        let jitter = (TimingKind::Jitter, stats);
        text += &histogram_line(settings, &name, figures, jitter, bins, is_final);
    }
    if let Some(latency) = figures
        .latency
        .as_ref()
        .filter(|_| is_final && settings.bounceback.is_some())
    {
        text += &bounceback_histogram_line(settings, &name, figures, latency);
    }
    text
}

/// Returns the header and the last columns of a line with timings of bursts, frames or calls.
///
/// Returns `None` if the line has no timing columns.
fn timing_columns(
    settings: &PrintSettings,
    kind: TimingKind,
    stats: &TimingStats,
    figures: &FlowFigures,
    is_final: bool,
) -> Option<(&'static str, String)> {
    let [mean, min, max, deviation] = stats.summary_ms();
    let times = format!("{mean:.3}/{min:.3}/{max:.3}/{deviation:.3} ms");
    let (count, size) = (
        stats.count,
        stats.bytes.checked_div(stats.count).unwrap_or(0),
    );
    let bytes_per_second = figures.bits_per_second() / 8.0;
    let net_power = format_net_power(bytes_per_second, mean / 1e3);
    let frames = format!("{}/{}/{}", stats.frames, stats.missed, stats.slips);
    let path = PathColumns::new(figures);
    let PathColumns {
        window,
        rtt_us,
        rtt,
        ..
    } = &path;
    let (calls, failed, retries) = (figures.calls, figures.failed_sends, figures.retransmits);
    let path_power = &path.power;
    let (layout, headers) = (settings.layout(), &settings.layout().headers);
    Some(match (kind, figures.is_udp, figures.sends) {
        (TimingKind::TripTimes, false, false) => {
            let in_progress = settings.output.format.size(bytes_per_second * mean / 1e3);
            let reads = read_columns(figures);
            let tail = format!("  {times} ({count}/{size}) {in_progress} {net_power}{reads}");
            (BURST_LATENCY, tail)
        }
        (TimingKind::Frames, false, false) => {
            let reads = read_columns(figures);
            (
                FRAME_LATENCY,
                format!("  {times} ({count}/{size}) {net_power}{reads}"),
            )
        }
        (TimingKind::Bursts { .. }, false, false) if is_final => {
            (BURSTS, format!("  {times}{}", read_columns(figures)))
        }
        (TimingKind::Bursts { period }, false, false) => {
            let duty_cycle = 100.0 * mean / 1e3 / period.as_secs_f64();
            let (duty_cycle, reads) = (format_two_digits(duty_cycle), read_columns(figures));
            (
                BURSTS,
                format!("  {mean:6.3} ms ({duty_cycle}%)  {reads}  {net_power}"),
            )
        }
        (TimingKind::Writes, false, true) => {
            let tail = if layout.has_segments {
                let (in_flight, window) = (&path.in_flight, &path.window_and_segments);
                format!(
                    "  {calls}/{failed}{retries:>9}{in_flight:>11}/{window}/{rtt} us      {path_power}  {times} ({count})"
                )
            } else {
                format!(
                    "  {calls}/{failed}{retries:>11}{window:>10}/{rtt_us} us  {path_power}  {times} ({count})"
                )
            };
            (headers.write_times, tail)
        }
        (TimingKind::Frames, false, true) => {
            let path_state = if layout.has_segments {
                format!("{:>14}/{rtt}", path.window_and_segments)
            } else {
                format!("{window:>10}/{rtt_us}")
            };
            let tail = format!(
                "  {calls}/{failed}{retries:>9}{path_state} us{frames:>15}{path_power:>11}"
            );
            (headers.frames_sent, tail)
        }
        (TimingKind::Frames, true, true) => {
            let rate = per_second(figures, calls);
            let tail = format!("  {calls}/{failed}{rate:>9.0} pps{frames:>9}");
            (UDP_FRAMES_SENT, tail)
        }
        (TimingKind::Frames, true, false) => {
            let counts = figures.datagrams.unwrap_or_default();
            let delays = DelayStats::from_counts(&counts);
            let rate = per_second(figures, counts.received);
            let frames = format!("{}/{}", stats.frames, stats.missed);
            let delays =
                delays.map_or_else(|| "-/-/-/-".to_owned(), |delays| delays.format_millis());
            let loss = jitter_and_loss_columns(figures);
            let tail = format!("{loss} {delays} ms {rate:.0} pps{frames:>7}  {times} {net_power}");
            (headers.udp_frames, tail)
        }
        _ => return None,
    })
}

/// Returns the line of a sender about the deviations from the schedule of its frames.
pub(super) fn schedule_errors(settings: &PrintSettings, event: &TestEvent<'_>) -> Option<String> {
    let TestEvent::Final(id, figures) = event else {
        return None;
    };
    let (kind, stats) = figures.timing.as_ref()?;
    let is_reported = settings.layout().reports_schedule_errors;
    if *kind != TimingKind::Frames || !figures.sends || !is_reported {
        return None;
    }
    let errors = stats.summary_ms().map(|time| format!("{time:.3}"));
    let (name, errors) = (name(id), errors.join("/"));
    Some(format!(
        "{name} Isoch schedule errors (mean/min/max/stdev) = {errors} ms\n"
    ))
}

/// Formats a number with two significant digits, as C's `%.2g`.
fn format_two_digits(number: f64) -> String {
    let digits = 1 - number.abs().max(1e-9).log10().floor() as i32;
    let text = format!("{number:.*}", digits.clamp(0, 9) as usize);
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// Returns the line with the histogram of the timings.
fn histogram_line(
    settings: &PrintSettings,
    name: &str,
    figures: &FlowFigures,
    (kind, stats): (TimingKind, &TimingStats),
    bins: HistogramBins,
    is_final: bool,
) -> String {
    let label = match (kind, figures.sends) {
        (TimingKind::Writes, true) => "W8",
        (TimingKind::Datagrams, false) => "T8",
        (TimingKind::Jitter, false) => "J8",
        (TimingKind::Frames | TimingKind::Bursts { .. } | TimingKind::TripTimes, false) => "F8",
        _ => return String::new(),
    };
    let final_mark = if is_final { "(f)" } else { "" };
    let micros = bins.width.as_micros();
    let width = match micros {
        micros if kind == TimingKind::Jitter => format!("{micros}us"),
        micros if micros % 1_000_000 == 0 => format!("{}s", micros / 1_000_000),
        micros if micros % 1000 == 0 => format!("{}ms", micros / 1000),
        micros => format!("{micros}us"),
    };
    let listed: Vec<String> = (stats.bins.iter())
        .map(|(bin, count)| format!("{bin}:{count}"))
        .collect();
    let equals = if listed.is_empty() { "" } else { "=" };
    let [low, high] = bins.percents;
    let percentile = |percent: f64| {
        let rank = (percent / 100.0 * stats.count as f64).ceil() as u64;
        let mut seen = 0;
        let reached = stats.bins.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        reached.map_or(bins.count, |(bin, _)| *bin)
    };
    let has_longest = label == "F8" || (label == "T8" && settings.layout().has_longest_datagram);
    let longest = if has_longest && stats.count > 0 {
        let [_, _, max, _] = stats.summary_ms();
        format!(" ({max:.3} ms/{:.6})", stats.longest_at_ns as f64 / 1e9)
    } else {
        String::new()
    };
    format!(
        "{name} {} sec {label}{final_mark}-PDF: bin(w={width}):cnt({}){equals}{} ({low:.2}/{high:.2}/99.7%={}/{}/{},Outliers=0,obl/obu=0/{}){longest}\n",
        format_interval(figures),
        stats.count,
        listed.join(","),
        percentile(low),
        percentile(high),
        percentile(99.7),
        stats.above_bins,
    )
}

/// Returns the first columns: `[  1] 0.0000-1.0000 sec  9.63 MBytes  80.7 Mbits/sec`.
pub(super) fn interval_and_rate(
    settings: &PrintSettings,
    name: &str,
    figures: &FlowFigures,
) -> String {
    let format = settings.output.format;
    let amount = format.amount(figures.bytes as f64);
    let rate = format.rate(figures.bits_per_second());
    format!("{name} {} sec  {amount}  {rate}", format_interval(figures))
}

fn format_interval(figures: &FlowFigures) -> String {
    format!(
        "{:.4}-{:.4}",
        figures.start.as_secs_f64(),
        figures.end.as_secs_f64()
    )
}

/// The state of a TCP connection, as columns print it.
struct PathColumns {
    /// The bytes in flight, and segments: `0K(0)`.
    in_flight: String,
    /// The congestion window: `319K`.
    window: String,
    /// The congestion window, and segments: `319K(10)`.
    window_and_segments: String,
    /// The smoothed round-trip time in microseconds: `26`.
    rtt_us: String,
    /// The smoothed round-trip time and its deviation in microseconds: `26(8)`.
    rtt: String,
    /// The network power.
    power: String,
}

impl PathColumns {
    fn new(figures: &FlowFigures) -> Self {
        let path = figures.path.unwrap_or_default();
        let window_bytes = path.congestion_window_bytes.unwrap_or(0);
        let segments = figures.segments;
        let segment_bytes = segments.map_or(0, |segments| u64::from(segments.bytes));
        let segments_in_flight = segments.map_or(0, |segments| u64::from(segments.in_flight));
        let kbytes = |bytes: u64| format!("{}K", bytes / 1024);
        let window = kbytes(window_bytes);
        let window_segments = window_bytes.checked_div(segment_bytes).unwrap_or(0);
        let in_flight = kbytes(segments_in_flight * segment_bytes);
        let rtt = path.smoothed_rtt.unwrap_or_default();
        let variation = path.rtt_deviation.unwrap_or_default();
        Self {
            in_flight: format!("{in_flight}({segments_in_flight})"),
            window_and_segments: format!("{window}({window_segments})"),
            window,
            rtt_us: rtt.as_micros().to_string(),
            rtt: format!("{}({})", rtt.as_micros(), variation.as_micros()),
            power: format_net_power(figures.bits_per_second() / 8.0, rtt.as_secs_f64()),
        }
    }
}

/// Returns the columns of a TCP sender: write calls, retransmissions, window, round-trip time and
/// network power.
fn write_columns(settings: &PrintSettings, figures: &FlowFigures) -> String {
    let (calls, failed, retries) = (figures.calls, figures.failed_sends, figures.retransmits);
    let path = PathColumns::new(figures);
    let PathColumns {
        in_flight,
        window,
        window_and_segments,
        rtt,
        power,
        ..
    } = &path;
    if !settings.layout().has_segments {
        return format!("  {calls}/{failed}{retries:>11}{window:>10}/{rtt} us  {power}");
    }
    let pacing = match settings.pacing_steps {
        Some(steps) => Some(steps.rate_after(steps_before(figures.end, steps.interval))),
        None => settings.socket.max_pacing_bytes_per_second,
    };
    let pacing = pacing.map_or(String::new(), |bytes| {
        format!(" {}ec", format_pacing_rate(bytes))
    });
    format!(
        "  {calls}/{failed}{retries:>10}{in_flight:>13}/{window_and_segments}/{rtt} us{pacing}  {power}"
    )
}

/// Returns the number of steps before `end`.
fn steps_before(end: Duration, interval: Duration) -> u64 {
    let nanos = end.as_nanos().saturating_sub(1);
    u64::try_from(nanos / interval.as_nanos().max(1)).unwrap_or(u64::MAX)
}

pub(super) fn read_columns(figures: &FlowFigures) -> String {
    let bins = figures.read_sizes.unwrap_or_default();
    let listed = bins.map(|count| count.to_string()).join(":");
    format!("  {}={listed}", bins.iter().sum::<u64>())
}

pub(super) fn per_second(figures: &FlowFigures, count: u64) -> f64 {
    let seconds = figures.end.saturating_sub(figures.start).as_secs_f64();
    if seconds > 0.0 {
        count as f64 / seconds
    } else {
        0.0
    }
}

/// Returns the columns of a UDP sender. linerate's calls have no timeouts to count in `timeouts`.
pub(super) fn datagram_send_columns(figures: &FlowFigures, timeouts: &str) -> String {
    let (calls, failed) = (figures.calls, figures.failed_sends);
    let rate = per_second(figures, calls);
    format!("  {calls}/{failed}{timeouts}{rate:>9.0} pps")
}

fn jitter_and_loss_columns(figures: &FlowFigures) -> String {
    let jitter = figures
        .datagrams
        .and_then(|counts| counts.jitter)
        .unwrap_or_default();
    format_jitter_and_loss(
        jitter.as_secs_f64() * 1e3,
        figures.lost(),
        figures.expected_datagrams,
    )
}

fn format_jitter_and_loss(jitter_ms: f64, lost: u64, total: u64) -> String {
    format!(
        "  {jitter_ms:6.3} ms {lost}/{total} ({}%)",
        format_percent(lost, total)
    )
}

fn datagram_receive_columns(settings: &PrintSettings, figures: &FlowFigures) -> String {
    let counts = figures.datagrams.unwrap_or_default();
    let Some(latency) = DelayStats::from_counts(&counts) else {
        return jitter_and_loss_columns(figures) + " -/-/-/- ms 0 pps";
    };
    let (rate, received) = (per_second(figures, counts.received), counts.received);
    // linerate's calls have no timeouts, and its buffers truncate no datagram.
    let (is_timed, counts_timeouts) = (figures.has_trip_times, settings.layout().counts_timeouts);
    let in_progress = is_timed || !counts_timeouts;
    let columns = LatencyColumns {
        per_second: rate,
        received: in_progress.then_some(received),
        reads: counts_timeouts.then_some(received),
        bytes_per_second: figures.bits_per_second() / 8.0,
    };
    jitter_and_loss_columns(figures) + &latency.columns(&columns)
}

/// The columns beside the latencies of a UDP receiver.
struct LatencyColumns {
    per_second: f64,
    /// The datagrams of the column with those in progress; `None` without the column.
    received: Option<u64>,
    /// The reads of the column with timeouts; `None` without the column.
    reads: Option<u64>,
    bytes_per_second: f64,
}

/// Statistics of the one-way delays of datagrams.
#[expect(clippy::struct_field_names, reason = "the names carry the unit")]
pub(super) struct DelayStats {
    mean_ms: f64,
    min_ms: f64,
    max_ms: f64,
    deviation_ms: f64,
}

impl DelayStats {
    /// Returns the statistics; `None` without delays.
    pub(super) fn from_counts(counts: &DatagramCounts) -> Option<Self> {
        let (mean, deviation) = counts.delays.mean_and_deviation_ns()?;
        let (min, max) = counts.delays.extremes_ns.unwrap_or_default();
        Some(Self {
            mean_ms: mean / 1e6,
            min_ms: min as f64 / 1e6,
            max_ms: max as f64 / 1e6,
            deviation_ms: deviation / 1e6,
        })
    }

    /// Returns mean, minimum, maximum and standard deviation.
    pub(super) fn all_ms(&self) -> [f64; 4] {
        [self.mean_ms, self.min_ms, self.max_ms, self.deviation_ms]
    }

    fn format_millis(&self) -> String {
        self.all_ms().map(|time| format!("{time:.3}")).join("/")
    }

    fn columns(&self, columns: &LatencyColumns) -> String {
        let LatencyColumns {
            per_second,
            received,
            reads,
            bytes_per_second,
        } = columns;
        let Self {
            mean_ms,
            deviation_ms,
            ..
        } = self;
        // The mean number of datagrams in flight and its deviation, by Little's law.
        let in_progress = per_second * mean_ms / 1e3;
        let deviation_in_progress = per_second * deviation_ms / 1e3;
        let in_progress = received.map_or(String::new(), |received| {
            format!(" {received}/{in_progress:.0}({deviation_in_progress:.0}) pkts")
        });
        let reads = reads.map_or(String::new(), |reads| format!(" {reads}/0/0"));
        let power = format_net_power(*bytes_per_second, mean_ms / 1e3);
        format!(
            " {} ms {per_second:.0} pps{in_progress}{reads} {power}",
            self.format_millis()
        )
    }
}

pub(super) fn out_of_order_line(name: &str, figures: &FlowFigures) -> String {
    match figures.out_of_order() {
        0 => String::new(),
        _ if figures.sends => String::new(),
        count => format!(
            "{name} {} sec  {count} datagrams received out-of-order\n",
            format_interval(figures)
        ),
    }
}

/// Returns the report of a UDP server, with its own header.
fn server_report(settings: &PrintSettings, id: &FlowId, report: &ServerReport) -> String {
    let name = name(id);
    let figures = FlowFigures {
        end: report.elapsed,
        is_udp: true,
        bytes: report.bytes,
        expected_datagrams: report.datagrams,
        ..FlowFigures::default()
    };
    let jitter_ms = report.jitter.as_secs_f64() * 1e3;
    let loss = format_jitter_and_loss(jitter_ms, report.lost, report.datagrams);
    let latency = report.latency.filter(|_| report.is_enhanced);
    let (header, latency_columns) = match latency {
        Some(latency) if latency.count > 0 => {
            let count = f64::from(latency.count);
            let millis = |us: i64| us as f64 / 1e3;
            let squares = f64::from(latency.squares[0]) + f64::from(latency.squares[1]) / 1e6;
            let stats = DelayStats {
                mean_ms: latency.mean_us() / 1e3,
                min_ms: millis(latency.min_us),
                max_ms: millis(latency.max_us),
                deviation_ms: (squares / count).sqrt() / 1e3,
            };
            let layout = settings.layout();
            let rate = latency.packets_per_second;
            // The report has no count of reads; stock prints 0.
            let text = stats.columns(&LatencyColumns {
                per_second: f64::from(rate),
                received: Some(rate.into()),
                reads: layout.counts_timeouts.then_some(0),
                bytes_per_second: figures.bits_per_second() / 8.0,
            });
            (layout.headers.udp_timed_receiver, text)
        }
        _ => (UDP_RECEIVER, String::new()),
    };
    let forward_name = self::name(&FlowId {
        is_starred: false,
        ..id.clone()
    });
    let mut text = format!(
        "{forward_name} Server Report:\n{header}{}{loss}{latency_columns}\n",
        interval_and_rate(settings, &name, &figures)
    );
    if report.out_of_order > 0 {
        let (times, count) = (format_interval(&figures), report.out_of_order);
        let _ = writeln!(
            text,
            "{name} {times} sec  {count} datagrams received out-of-order"
        );
    }
    text
}

/// Returns the columns of a bounceback test: replies, their latency, and the reply rate.
fn bounceback_columns(settings: &PrintSettings, figures: &FlowFigures, is_final: bool) -> String {
    let empty = Histogram::default();
    let latency = figures.latency.as_ref().unwrap_or(&empty);
    let (mean_ms, min_ms, max_ms, deviation_ms) = latency_summary_ms(latency);
    let path = PathColumns::new(figures);
    let rate = if mean_ms > 0.0 { 1e3 / mean_ms } else { 0.0 };
    let latency = format!(
        "    {}={mean_ms:.3}/{min_ms:.3}/{max_ms:.3}/{deviation_ms:.3} ms{:>5}",
        latency.len(),
        figures.retransmits
    );
    if !settings.layout().has_segments {
        let (window, rtt) = (&path.window, &path.rtt_us);
        return format!("{latency}{window:>6}/{rtt} us {rate:>8.0} rps");
    }
    let state = if is_final {
        "-(-)/-(-)  ".to_owned()
    } else {
        let (window, segments) = path
            .window_and_segments
            .split_once('(')
            .unwrap_or((&path.window, "0)"));
        format!("{window}/({segments}/{} us", path.rtt)
    };
    let [sent, received] = figures.transaction_bytes.map(|bytes| match bytes {
        0 => "0".to_owned(),
        bytes => settings.output.format.size(bytes as f64),
    });
    let decimals = usize::from(rate == 0.0);
    format!("{latency}   {state}  Tx={sent} Rx={received}  RPS={rate:.decimals$}")
}

pub(super) fn latency_summary_ms(times: &Histogram) -> (f64, f64, f64, f64) {
    let (min, max) = times.extremes().unwrap_or_default();
    (
        times.mean_ns().unwrap_or(0.0) / 1e6,
        min.as_secs_f64() * 1e3,
        max.as_secs_f64() * 1e3,
        times.deviation_ns().unwrap_or(0.0) / 1e6,
    )
}

/// Returns the line with the histogram of a bounceback test, in bins of 100 µs.
fn bounceback_histogram_line(
    settings: &PrintSettings,
    name: &str,
    figures: &FlowFigures,
    times: &Histogram,
) -> String {
    const BIN_NS: u64 = 100_000;
    const BINS: u64 = 10_000;
    let space = settings.layout().bounceback_histogram_space;
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
    let percentile = |share: f64| {
        let rank = (share * total as f64).ceil() as u64;
        let mut seen = 0;
        let reached = bins.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        reached.map_or(BINS, |(bin, _)| *bin)
    };
    let (low, high, highest) = (percentile(0.05), percentile(0.95), percentile(0.997));
    let listed: Vec<String> = bins
        .iter()
        .map(|(bin, count)| format!("{bin}:{count}"))
        .collect();
    format!(
        "{name} {} sec{space}BB8(f)-PDF: bin(w=100us):cnt({total})={} (5.00/95.00/99.7%={low}/{high}/{highest},Outliers=0,obl/obu=0/{above})\n",
        self::format_interval(figures),
        listed.join(",")
    )
}
