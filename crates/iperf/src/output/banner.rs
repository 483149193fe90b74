//! The blocks of settings that a client or server prints at its start.

use std::fmt::Write;

use super::number::format_pacing_rate;
use super::{PrintSettings, RULE};
use crate::event::TestEvent;
use crate::options::{Bounceback, Format, PeriodicBursts};
use crate::timing::HistogramBins;

pub(super) fn text(settings: &PrintSettings, event: &TestEvent<'_>) -> String {
    if settings.output.exclude.settings {
        return String::new();
    }
    let lines = match event {
        TestEvent::Listening {
            ports,
            window,
            congestion_control,
            join_line,
        } => listening(
            settings,
            *ports,
            *window,
            congestion_control.as_deref(),
            join_line.as_deref(),
        ),
        TestEvent::Connecting {
            host,
            port,
            window,
            flows,
            length,
            rate,
            congestion_control,
            is_client,
        } => {
            let mut text = connecting(
                settings,
                host,
                *port,
                *flows,
                (*length, *rate),
                congestion_control.as_deref(),
                *is_client,
            );
            text += &if settings.connects_only {
                "TCP three-way-handshake (3WHS) only\n".to_owned()
            } else {
                window_line(settings, *window)
            };
            if *is_client {
                text += &window_notes(settings);
            }
            text
        }
        _ => return String::new(),
    };
    format!("{RULE}\n{lines}{RULE}\n")
}

/// Returns the lines below the window line of a client.
fn window_notes(settings: &PrintSettings) -> String {
    let mut text = String::new();
    if let Some(bytes) = settings.send_mode.prefetch {
        let _ = writeln!(
            text,
            "Event based writes (pending queue watermark at {bytes} bytes)"
        );
    } else if settings.has_trip_times && settings.layout().timing_is_enhanced && !settings.is_udp {
        text += "Warn: Send side bloat possible per --tcp-write-prefetch not being set\n";
    }
    if let Some(bins) = settings.output.bins {
        let bins = format_bins(bins);
        let _ = writeln!(text, "Enabled write histograms {bins}");
    }
    text
}

fn transport(settings: &PrintSettings) -> &'static str {
    if settings.is_udp { "UDP" } else { "TCP" }
}

fn listening(
    settings: &PrintSettings,
    (first, last): (u16, u16),
    window: u32,
    congestion_control: Option<&str>,
    join_line: Option<&str>,
) -> String {
    let (output, layout) = (&settings.output, settings.layout());
    let is_enhanced = output.enhanced;
    let ports = if first == last {
        format!("port {first}")
    } else {
        format!("ports {first}-{last}")
    };
    let pid = if is_enhanced || first != last {
        format!(" with pid {}", std::process::id())
    } else {
        String::new()
    };
    let family = if is_enhanced && settings.v6 && layout.names_ipv6 {
        " (v6)"
    } else {
        ""
    };
    let mut text = format!(
        "Server listening on {}{family} {ports}{pid}\n",
        transport(settings)
    );
    if let Some(join_line) = join_line.filter(|_| !output.exclude.multicast) {
        let _ = writeln!(text, "{join_line}");
    }
    if is_enhanced && settings.is_udp && layout.has_plain_datagram_size {
        let _ = writeln!(text, "Read buffer size: {} Byte ", settings.length);
    } else if is_enhanced {
        let length = f64::from(settings.length);
        let (buffer, bin) = (
            output.format.size(length),
            output.format.size((length / 8.0).floor()),
        );
        let note = if settings.skips_receive_copy {
            " (skip-rx-copy)"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "Read buffer size: {buffer} (Dist bin width={bin}){note}"
        );
    }
    if let Some(name) =
        congestion_control.filter(|_| is_enhanced && layout.names_congestion_control)
    {
        let _ = writeln!(text, "TCP congestion control default {name}");
    }
    text += &delay_line(settings);
    if output.reports_bursts && settings.is_server {
        text += "Frame or burst interval reporting (feature is experimental)\n";
    }
    if let Some(bins) = output.bins.filter(|_| settings.is_server) {
        let _ = writeln!(
            text,
            "Enabled receive histograms {} (clients should use --trip-times)",
            format_bins(bins)
        );
    }
    if let Some(bins) = output.jitter_bins {
        let micros = bins.width.as_micros();
        let _ = writeln!(text, "Enabled jitter histograms (bin-width={micros} us)");
    }
    if output.single_udp && settings.is_server {
        text += "WARN: Suggested to use lower case -u instead of -U (to avoid serialize & bypass of reporter thread)\n";
    } else if join_line.is_some() {
        text += "Server set to single client traffic mode (per multicast receive)\n";
    } else if settings.is_server && settings.serves_one_at_a_time {
        text += "Server set to single client traffic mode (serialize traffic tests)\n";
    }
    text += &segment_line(settings);
    if let Some(tos) = settings
        .socket
        .type_of_service
        .filter(|_| settings.is_server)
    {
        let _ = writeln!(text, "TOS will be set to {}", format_tos(settings, tos));
    }
    if let Some(tos) = settings.tos_override {
        let tos = format_tos(settings, tos);
        let _ = writeln!(text, "Reflected TOS will be set to {tos}");
    }
    text += &window_line(settings, Some(window));
    if let Some((key, timeout)) = &settings.key {
        let timeout = match timeout {
            Some(time) => format!("(timeout in {:.1} seconds)", time.as_secs_f64()),
            None => "(WARN: no timeout)".to_owned(),
        };
        let _ = writeln!(text, "Permit key is '{key}' {timeout}");
    }
    text
}

fn connecting(
    settings: &PrintSettings,
    host: &str,
    port: u16,
    flows: u32,
    (length, rate): (u32, Option<f64>),
    congestion_control: Option<&str>,
    is_client: bool,
) -> String {
    let (output, layout) = (&settings.output, settings.layout());
    let is_enhanced = output.enhanced;
    let (host, via) = match host.split_once('%') {
        Some((host, device)) if is_client => (host, format!(" via {device}")),
        _ => (host, String::new()),
    };
    let host = if output.hide_ips {
        "(**hidden**)"
    } else {
        host
    };
    let pid = if is_enhanced || !via.is_empty() {
        let flows = if layout.counts_flows {
            format!("{flows}/{} flows/load", settings.load_flows)
        } else {
            format!("{flows} flows")
        };
        format!(" with pid {}{via} ({flows})", std::process::id())
    } else {
        String::new()
    };
    let mut text = format!(
        "Client connecting to {host}, {} port {port}{pid}\n",
        transport(settings)
    );
    let bounceback = settings.bounceback.filter(|_| is_client);
    let bursts = settings.send_mode.periodic_bursts.filter(|_| is_client);
    if is_enhanced && !settings.is_udp && !(bounceback.is_some() && layout.has_reply_size) {
        let size = if bounceback.is_some() {
            output.format.size(length.into())
        } else {
            format!("{length} Byte")
        };
        let write_timer = if settings.send_mode.times_writes {
            layout.write_timer_note
        } else {
            ""
        };
        let burst_size = bursts
            .filter(|bursts| !bursts.is_isochronous && layout.has_burst_size)
            .map_or(String::new(), |bursts| {
                format!("  Burst size: {} Byte", bursts.mean)
            });
        let _ = writeln!(text, "Write buffer size: {size}{burst_size}{write_timer}");
    } else if settings.send_mode.near_congestion.is_some() && is_client {
        let _ = writeln!(text, "Write buffer size: {length} Byte");
    }
    if let Some(bursts) = bursts {
        text += &bursts_line(settings, &bursts);
    }
    if let Some(bounceback) = bounceback {
        text += &bounceback_lines(settings, &bounceback, length);
    }
    if let Some(bytes) = settings
        .socket
        .max_pacing_bytes_per_second
        .filter(|_| is_client)
    {
        let rate = format_pacing_rate(bytes);
        let step = settings.pacing_steps.map_or(String::new(), |steps| {
            format!(" (stepping rate by {})", format_pacing_rate(steps.step))
        });
        let _ = writeln!(text, "fair-queue socket pacing set to {rate}{step}");
    }
    let weight = settings.send_mode.near_congestion.filter(|_| is_client);
    let near_congestion = weight.map_or(String::new(), |weight| {
        format!(
            "TCP near-congestion delay weight set to {weight:.4} (use --near-congestion=<value> to change)\n"
        )
    });
    let (above, below) = if layout.has_late_near_congestion {
        (String::new(), near_congestion)
    } else {
        (near_congestion, String::new())
    };
    text += &above;
    text += &segment_line(settings);
    text += &congestion_line(settings, is_enhanced, congestion_control);
    if let Some(name) = settings
        .load_congestion_control
        .as_ref()
        .filter(|_| is_client)
    {
        let _ = writeln!(text, "TCP working load congestion control set to {name}");
    }
    text += &delay_line(settings);
    if is_enhanced {
        text += &service_line(settings, bounceback.is_some());
    }
    text += &below;
    if output.single_udp && is_client {
        text += "WARN: Client set to bypass reporter thread per -U (suggest use lower case -u instead)\n";
    }
    if settings.is_udp && bursts.is_none() {
        text += &sending_line(settings, length, rate, is_client);
    }
    text
}

/// Returns the line about the type of service and Nagle's algorithm.
fn service_line(settings: &PrintSettings, is_bounceback: bool) -> String {
    let requested = settings.socket.type_of_service;
    let tos = format_tos(settings, requested.unwrap_or(0));
    let verb = match requested {
        None if settings.layout().has_dscp => "defaults",
        _ if settings.output.has_dscp_option => "defaults",
        _ => "set",
    };
    let nagle = if settings.socket.no_delay || is_bounceback {
        "and nodelay (Nagle off)"
    } else {
        "(Nagle on)"
    };
    format!("TOS {verb} to {tos} {nagle}\n")
}

/// Returns the line about the delay of sent data.
fn delay_line(settings: &PrintSettings) -> String {
    settings.tx_delay.map_or(String::new(), |delay| {
        let millis = delay.as_secs_f64() * 1e3;
        format!("Socket option of TCP_TX_DELAY set to {millis:.3} milliseconds\n")
    })
}

/// Returns the line about TCP's congestion control.
fn congestion_line(settings: &PrintSettings, is_enhanced: bool, used: Option<&str>) -> String {
    let layout = settings.layout();
    let requested = settings.socket.congestion_control.as_ref();
    let requested = requested.filter(|_| !settings.is_udp);
    let requested_note = requested.map(|name| format!(" set to {name}"));
    let used_note = used
        .filter(|_| layout.names_congestion_control && (is_enhanced || requested.is_some()))
        .map(|name| format!(" using {name}"));
    if requested_note.is_none() && used_note.is_none() {
        return String::new();
    }
    let notes = [requested_note, used_note].map(Option::unwrap_or_default);
    format!("TCP congestion control{}\n", notes.concat())
}

/// Formats a type of service: `0x20`, with DSCP and ECN in later versions.
fn format_tos(settings: &PrintSettings, tos: u8) -> String {
    if settings.layout().has_dscp {
        format!("0x{tos:x} (dscp={},ecn={})", tos >> 2, tos & 3)
    } else {
        format!("0x{tos:x}")
    }
}

/// Returns the lines about a bounceback test.
fn bounceback_lines(settings: &PrintSettings, bounceback: &Bounceback, length: u32) -> String {
    let size = settings.output.format.size(length.into());
    let (count, period) = (bounceback.burst, bounceback.period.as_secs_f64());
    let quick_ack = if bounceback.quick_ack {
        " & tcp_quickack"
    } else {
        ""
    };
    let hold = bounceback.hold.as_micros();
    let hold = format!("(server hold req={hold} usecs{quick_ack})");
    let has_bursts = !bounceback.period.is_zero();
    if settings.layout().has_reply_size {
        let reply = settings.output.format.size(bounceback.reply_bytes.into());
        let bursts = if has_bursts {
            format!("Bursting request {count} times every {period:.2} second(s)\n")
        } else {
            String::new()
        };
        return format!("Bounceback test (req/reply size ={size}/{reply}) {hold}\n{bursts}");
    }
    let bursts = if has_bursts {
        format!("Bursting: {size} writes {count} times every {period:.2} second(s)\n")
    } else {
        String::new()
    };
    format!("{bursts}Bounce-back test (size={size}) {hold}\n")
}

/// Returns the line about a sender's datagram size and the gap between datagrams.
fn sending_line(
    settings: &PrintSettings,
    length: u32,
    rate: Option<f64>,
    is_client: bool,
) -> String {
    let rate = match settings.send_mode.gap.filter(|_| is_client) {
        // Stock prints milliseconds, although it labels them as microseconds.
        Some(gap) => Some(f64::from(length) * 8e6 / (gap.as_secs_f64() * 1e3)),
        None => rate,
    };
    let gap_note = rate.map_or(String::new(), |rate| {
        let gap = f64::from(length) * 8e6 / rate;
        format!(", IPG target: {gap:.2} us (kalman adjust)")
    });
    format!("Sending {length} byte datagrams{gap_note}\n")
}

/// Returns the line about the bursts or the isochronous frames.
fn bursts_line(settings: &PrintSettings, bursts: &PeriodicBursts) -> String {
    let period = bursts.period.as_secs_f64();
    if !bursts.is_isochronous {
        let size = settings.output.format.size(bursts.mean);
        let decimals = settings.layout().burst_period_decimals;
        return format!("Bursting: {size} every {period:.decimals$} second(s)\n");
    }
    let rate = |bytes: f64| {
        let rate = Format::Adaptive { bytes: false }.rate(bytes * 8.0 / period);
        rate.replace("bits/sec", "bit/s")
    };
    let gap = settings.send_mode.gap.unwrap_or_default().as_secs_f64() * 1e3;
    format!(
        "Isochronous: {:.2} frames/sec mean={}, stddev={}, Period/IPG={:.2}/{gap:.3} ms\n",
        1.0 / period,
        rate(bursts.mean),
        rate(bursts.deviation),
        period * 1e3,
    )
}

/// Formats the bins of a histogram.
fn format_bins(bins: HistogramBins) -> String {
    let HistogramBins { width, count, .. } = bins;
    let width = width.as_secs_f64() * 1e3;
    format!("bin-width={width:.3} ms, bins={count}")
}

fn segment_line(settings: &PrintSettings) -> String {
    match settings.max_segment_bytes {
        _ if settings.is_udp => String::new(),
        Some(bytes) => format!("MSS req size {bytes} bytes (per TCP_MAXSEG)\n"),
        // 536 bytes is the segment size of an unconnected socket.
        None if settings.output.print_mss => "MSS size 536 bytes\n".to_owned(),
        None => String::new(),
    }
}

fn window_line(settings: &PrintSettings, window: Option<u32>) -> String {
    let format = settings.output.format;
    let window_size = match window {
        Some(bytes) => format.size(bytes.into()),
        None => "-1.00 Byte".to_owned(),
    };
    let requested = settings.socket.send_buffer_bytes;
    let note = match requested {
        None => " (default)".to_owned(),
        Some(requested) if Some(requested) != window => {
            format!(" (WARNING: requested {})", format.size(requested.into()))
        }
        Some(_) => String::new(),
    };
    let kind = if settings.is_udp {
        "UDP buffer"
    } else {
        "TCP window"
    };
    format!("{kind} size: {window_size}{note}\n")
}
