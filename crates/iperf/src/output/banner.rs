//! The settings blocks.

use std::fmt::Write;

use super::{Facts, RULE};
use crate::event::Event;
use crate::options::{Format, Frames};
use crate::tally::Bins;

pub(super) fn text(facts: &Facts, event: &Event<'_>) -> String {
    if facts.print.exclude.settings {
        return String::new();
    }
    let lines = match event {
        Event::Listening {
            ports,
            window,
            joins,
        } => listening(facts, *ports, *window, joins.as_deref()),
        Event::Connecting {
            host,
            port,
            window,
            flows,
            length,
            rate,
            is_own,
        } => {
            let mut text = connecting(facts, host, *port, *flows, *length, *rate, *is_own);
            text += &if facts.connects_only {
                "TCP three-way-handshake (3WHS) only\n".to_owned()
            } else {
                window_line(facts, *window)
            };
            if *is_own {
                text += &last_lines(facts);
            }
            text
        }
        _ => return String::new(),
    };
    format!("{RULE}\n{lines}{RULE}\n")
}

/// What comes after a client's window.
fn last_lines(facts: &Facts) -> String {
    let mut text = String::new();
    if let Some(bytes) = facts.shape.prefetch {
        let _ = writeln!(
            text,
            "Event based writes (pending queue watermark at {bytes} bytes)"
        );
    }
    if let Some(bins) = facts.print.bins {
        let _ = writeln!(text, "Enabled write histograms {}", enabled(bins));
    }
    text
}

fn transport(facts: &Facts) -> &'static str {
    if facts.is_udp { "UDP" } else { "TCP" }
}

fn listening(facts: &Facts, (first, last): (u16, u16), window: u32, joins: Option<&str>) -> String {
    let print = &facts.print;
    let is_enhanced = print.enhanced && facts.is_server;
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
    let mut text = format!("Server listening on {} {ports}{pid}\n", transport(facts));
    if let Some(joins) = joins.filter(|_| !print.exclude.multicast) {
        let _ = writeln!(text, "{joins}");
    }
    if is_enhanced {
        let length = f64::from(facts.length);
        let (whole, bin) = (
            print.format.size(length),
            print.format.size((length / 8.0).floor()),
        );
        let _ = writeln!(text, "Read buffer size: {whole} (Dist bin width={bin})");
    }
    if print.by_frames && facts.is_server {
        text += "Frame or burst interval reporting (feature is experimental)\n";
    }
    if let Some(bins) = print.bins.filter(|_| facts.is_server) {
        let _ = writeln!(
            text,
            "Enabled receive histograms {} (clients should use --trip-times)",
            enabled(bins)
        );
    }
    if print.single && facts.is_server {
        text += "WARN: Suggested to use lower case -u instead of -U (to avoid serialize & bypass of reporter thread)\n";
    } else if joins.is_some() {
        text += "Server set to single client traffic mode (per multicast receive)\n";
    } else if facts.is_server && facts.serial {
        text += "Server set to single client traffic mode (serialize traffic tests)\n";
    }
    text += &segment_line(facts);
    if let Some(service) = facts.socket.type_of_service.filter(|_| facts.is_server) {
        let _ = writeln!(text, "TOS will be set to 0x{service:x}");
    }
    if let Some(service) = facts.service_of_senders {
        let _ = writeln!(text, "Reflected TOS will be set to 0x{service:x}");
    }
    text += &window_line(facts, Some(window));
    if let Some((key, timeout)) = &facts.key {
        let timeout = match timeout {
            Some(time) => format!("(timeout in {:.1} seconds)", time.as_secs_f64()),
            None => "(WARN: no timeout)".to_owned(),
        };
        let _ = writeln!(text, "Permit key is '{key}' {timeout}");
    }
    text
}

fn connecting(
    facts: &Facts,
    host: &str,
    port: u16,
    flows: u32,
    length: u32,
    rate: Option<f64>,
    is_own: bool,
) -> String {
    let print = &facts.print;
    let is_enhanced = print.enhanced && is_own;
    let (host, via) = match host.split_once('%') {
        Some((host, device)) if is_own => (host, format!(" via {device}")),
        _ => (host, String::new()),
    };
    let host = if print.hide_ips { "(**hidden**)" } else { host };
    let pid = if is_enhanced || !via.is_empty() {
        format!(" with pid {}{via} ({flows} flows)", std::process::id())
    } else {
        String::new()
    };
    let mut text = format!(
        "Client connecting to {host}, {} port {port}{pid}\n",
        transport(facts)
    );
    let bounce = facts.bounce.filter(|_| is_own);
    if is_enhanced && !facts.is_udp {
        let size = if bounce.is_some() {
            print.format.size(length.into())
        } else {
            format!("{length} Byte")
        };
        let timed = if facts.shape.times_writes {
            " (writetimer-enabled)"
        } else {
            ""
        };
        let _ = writeln!(text, "Write buffer size: {size}{timed}");
    } else if facts.shape.near_congestion.is_some() && is_own {
        let _ = writeln!(text, "Write buffer size: {length} Byte");
    }
    let frames = facts.shape.frames.filter(|_| is_own);
    if let Some(frames) = frames {
        text += &frames_line(facts, &frames);
    }
    if let Some(bounce) = bounce {
        let size = print.format.size(length.into());
        if !bounce.period.is_zero() {
            let (count, period) = (bounce.burst, bounce.period.as_secs_f64());
            let _ = writeln!(
                text,
                "Bursting: {size} writes {count} times every {period:.2} second(s)"
            );
        }
        let quick = if bounce.quick_ack {
            " & tcp_quickack"
        } else {
            ""
        };
        let hold = bounce.hold.as_micros();
        let _ = writeln!(
            text,
            "Bounce-back test (size={size}) (server hold req={hold} usecs{quick})"
        );
    }
    if let Some(bytes) = facts.socket.max_pacing_bytes_per_second.filter(|_| is_own) {
        let rate = Format::Adaptive { bytes: false }.rate(bytes as f64 * 8.0);
        let rate = rate.replace("bits/sec", "bit/s");
        let _ = writeln!(text, "fair-queue socket pacing set to {}", rate.trim());
    }
    if let Some(weight) = facts.shape.near_congestion.filter(|_| is_own) {
        let _ = writeln!(
            text,
            "TCP near-congestion delay weight set to {weight:.4} (use --near-congestion=<value> to change)"
        );
    }
    text += &segment_line(facts);
    if let Some(name) = facts
        .socket
        .congestion_control
        .as_ref()
        .filter(|_| !facts.is_udp)
    {
        let _ = writeln!(text, "TCP congestion control set to {name}");
    }
    if is_enhanced {
        let service = facts.socket.type_of_service.unwrap_or(0);
        let nagle = if facts.socket.no_delay || bounce.is_some() {
            "and nodelay (Nagle off)"
        } else {
            "(Nagle on)"
        };
        let _ = writeln!(text, "TOS set to 0x{service:x} {nagle}");
    }
    if print.single && is_own {
        text += "WARN: Client set to bypass reporter thread per -U (suggest use lower case -u instead)\n";
    }
    if facts.is_udp && frames.is_none() {
        text += &sending_line(facts, length, rate, is_own);
    }
    text
}

/// A sender's datagrams and the gap between them.
fn sending_line(facts: &Facts, length: u32, rate: Option<f64>, is_own: bool) -> String {
    let rate = match facts.shape.gap.filter(|_| is_own) {
        // Stock's milliseconds, with this name.
        Some(gap) => Some(f64::from(length) * 8e6 / (gap.as_secs_f64() * 1e3)),
        None => rate,
    };
    let adjust = rate.map_or(String::new(), |rate| {
        let gap = f64::from(length) * 8e6 / rate;
        format!(", IPG target: {gap:.2} us (kalman adjust)")
    });
    format!("Sending {length} byte datagrams{adjust}\n")
}

/// Bursts, or frames and what they carry.
fn frames_line(facts: &Facts, frames: &Frames) -> String {
    let period = frames.period.as_secs_f64();
    if !frames.is_isochronous {
        let size = facts.print.format.size(frames.mean);
        return format!("Bursting: {size} every {period:.2} second(s)\n");
    }
    let rate = |bytes: f64| {
        let rate = Format::Adaptive { bytes: false }.rate(bytes * 8.0 / period);
        rate.replace("bits/sec", "bit/s")
    };
    let gap = facts.shape.gap.unwrap_or_default().as_secs_f64() * 1e3;
    format!(
        "Isochronous: {:.2} frames/sec mean={}, stddev={}, Period/IPG={:.2}/{gap:.3} ms\n",
        1.0 / period,
        rate(frames.mean),
        rate(frames.deviation),
        period * 1e3,
    )
}

/// The bins of a histogram.
fn enabled(bins: Bins) -> String {
    let width = bins.width.as_secs_f64() * 1e3;
    format!("bin-width={width:.3} ms, bins={}", bins.count)
}

fn segment_line(facts: &Facts) -> String {
    match facts.segment {
        _ if facts.is_udp => String::new(),
        Some(bytes) => format!("MSS req size {bytes} bytes (per TCP_MAXSEG)\n"),
        // The values of an unconnected socket.
        None if facts.print.segment => "MSS size 536 bytes\n".to_owned(),
        None => String::new(),
    }
}

fn window_line(facts: &Facts, window: Option<u32>) -> String {
    let format = facts.print.format;
    let given = match window {
        Some(bytes) => format.size(bytes.into()),
        None => "-1.00 Byte".to_owned(),
    };
    let asked = facts.socket.send_buffer_bytes;
    let note = match asked {
        None => " (default)".to_owned(),
        Some(asked) if Some(asked) != window => {
            format!(" (WARNING: requested {})", format.size(asked.into()))
        }
        Some(_) => String::new(),
    };
    let kind = if facts.is_udp {
        "UDP buffer"
    } else {
        "TCP window"
    };
    format!("{kind} size: {given}{note}\n")
}
