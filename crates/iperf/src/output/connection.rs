//! The lines about connections.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use sys::Address;

use super::{PrintSettings, name};
use crate::event::{ConnectionInfo, FlowId};
use crate::wire::flags::upper;

pub(super) fn text(settings: &PrintSettings, connection: &ConnectionInfo) -> String {
    let output = &settings.output;
    if output.exclude.connections || output.sum_only {
        return String::new();
    }
    // The line about the failure contains all that is known.
    if connection.local.is_none() && settings.layout().details_connect_errors {
        return String::new();
    }
    let space = if connection.id.number == 0 { "" } else { " " };
    let mut text = format!(
        "{}{space}{}",
        name(&connection.id),
        format_endpoints(settings, connection, "connected")
    );
    for note in notes(settings, connection) {
        let _ = write!(text, " ({note})");
    }
    if let Some(started) = connection
        .started
        .filter(|_| is_enhanced(settings, connection) || settings.connects_only)
    {
        let _ = write!(text, " on {}", format_date(settings, started));
    }
    text + "\n"
}

/// Returns whether a line has the long form.
///
/// A server also uses the long form for tests with trip times, bursts or a congestion control.
fn is_enhanced(settings: &PrintSettings, connection: &ConnectionInfo) -> bool {
    let has_times = connection.is_detailed() || connection.burst_period.is_some();
    settings.output.enhanced || (settings.is_server && has_times)
}

/// Returns the line about connect times.
///
/// As in stock, the deviation is in microseconds, although the line labels it as milliseconds.
pub(super) fn connect_times(times: &[Option<Duration>]) -> String {
    let millis: Vec<f64> = times
        .iter()
        .flatten()
        .map(|time| time.as_secs_f64() * 1e3)
        .collect();
    let count = millis.len() as f64;
    let min = millis.iter().copied().fold(f64::INFINITY, f64::min);
    let max = millis.iter().copied().fold(0.0, f64::max);
    let mean = millis.iter().sum::<f64>() / count;
    let squares: f64 = millis.iter().map(|time| (time - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0).max(1.0)).sqrt() * 1e3;
    if millis.is_empty() {
        return String::new();
    }
    format!(
        "[ CT] final connect times (min/avg/max/stdev) = {min:.3}/{mean:.3}/{max:.3}/{deviation:.3} ms (tot/err) = {}/{}\n",
        times.len(),
        times.len() - millis.len()
    )
}

/// Returns the lines about a failed connect call.
pub(super) fn connect_failed(
    settings: &PrintSettings,
    id: &FlowId,
    peer: &Address,
    reason: &str,
    has_expired: bool,
) -> String {
    let layout = settings.layout();
    if !layout.details_connect_errors {
        return format!("tcp connect failed: {reason}");
    }
    let now = SystemTime::now();
    let date = if settings.output.enhanced {
        format_date(settings, now)
    } else {
        settings.format_time(c"%Y-%m-%d %H:%M:%S (%Z)", now)
    };
    let (name, host, port) = (name(id), format_host(settings, peer), peer.port());
    let mut text = format!("{name} tcp connect to {host} port {port} failed ({reason}) on {date}");
    if has_expired {
        let _ = write!(text, "\n{name} tcp connect attempt timer expired on {date}");
    }
    text
}

/// Returns the line about a connection that the server dropped.
pub(super) fn dropped(settings: &PrintSettings, connection: &ConnectionInfo) -> String {
    let mut text = format!(
        "[drop] {}",
        format_endpoints(settings, connection, "connection")
    );
    if let Some([window, segment, rtt]) = connection.initial_tcp_state {
        let _ = write!(text, " (icwnd/mss/irtt={window}/{segment}/{rtt})");
    }
    text + " (permit key fail)\n"
}

fn format_endpoints(settings: &PrintSettings, connection: &ConnectionInfo, verb: &str) -> String {
    let (local, port) = match &connection.local {
        Some(local) => (format_host(settings, local), local.port()),
        None => ("0.0.0.0".to_owned(), 0),
    };
    let shows_device = is_enhanced(settings, connection);
    let device = connection.device.as_ref().filter(|_| shows_device);
    let device = device.map_or(String::new(), |device| format!("%{device}"));
    let peer = &connection.peer;
    format!(
        "local {local}{device} port {port} {verb} with {} port {}",
        format_host(settings, peer),
        peer.port()
    )
}

/// Formats an IP address. If the settings hide addresses, shows only the last number.
pub(super) fn format_host(settings: &PrintSettings, address: &Address) -> String {
    let Some(ip) = address.ip() else {
        return address.to_string();
    };
    let text = ip.to_string();
    if !settings.output.hide_ips {
        return text;
    }
    match text.rsplit_once('.') {
        Some((_, last)) => format!("*.*.*.{last}"),
        None => format!("*:*:*:{}", text.rsplit(':').next().unwrap_or_default()),
    }
}

fn notes(settings: &PrintSettings, connection: &ConnectionInfo) -> Vec<String> {
    let (layout, is_enhanced) = (settings.layout(), is_enhanced(settings, connection));
    let is_requested = |bit| connection.upper_flags & bit != 0;
    let mut notes = Vec::new();
    let mut add_note = |is_present: bool, text: &str| {
        if is_present {
            notes.push(text.to_owned());
        }
    };
    add_note(is_requested(upper::ISOCHRONOUS), "isoch");
    if let Some(period) = connection.burst_period {
        add_note(true, &format!("burst-period={:.4}s", period.as_secs_f64()));
    }
    let prefetch = connection.prefetch;
    let prefetch = prefetch.map_or(String::new(), |bytes| format!("prefetch={bytes}"));
    add_note(layout.has_early_prefetch && !prefetch.is_empty(), &prefetch);
    add_note(connection.is_full_duplex, "full-duplex");
    add_note(connection.is_reverse, "reverse");
    if let Some(bounceback) = connection.bounceback {
        let quick = if bounceback.has_quick_ack {
            "w/quickack "
        } else {
            ""
        };
        let (request, reply) = (bounceback.request_bytes, bounceback.reply_bytes);
        let hold = bounceback.hold.as_micros();
        let sizes = if layout.has_reply_size {
            format!("req/reply/hold={request}/{reply}/{hold}")
        } else {
            format!("len/hold={request}/{hold}")
        };
        add_note(true, &format!("bb {quick}{sizes}"));
    }
    add_note(connection.has_trip_times, "trip-times");
    let is_scheduled = is_requested(upper::EPOCH_START) && !connection.has_trip_times;
    add_note(is_scheduled, "epoch-start");
    add_note(connection.no_udp_fin, "no-udp-fin");
    add_note(is_requested(upper::L2_LENGTH), "l2mode");
    add_note(
        !layout.has_early_prefetch && !prefetch.is_empty(),
        &prefetch,
    );
    if let Some(bytes) = settings
        .socket
        .window_clamp_bytes
        .filter(|_| settings.is_server)
    {
        add_note(true, &format!("clamp={bytes}"));
    }
    let shows_socket = is_enhanced && layout.names_sockets;
    add_note(shows_socket, &format!("sock={}", connection.socket_fd));
    if let Some(name) = &connection.congestion_control {
        add_note(is_enhanced, name);
    }
    if let Some(tos) = connection.type_of_service.filter(|tos| *tos > 0) {
        add_note(true, &tos_note(settings, connection, tos));
    }
    if let Some(version) = connection.peer_version.as_ref().filter(|_| is_enhanced) {
        add_note(true, &format!("peer {version}"));
    }
    add_note(is_requested(upper::QUICK_ACK), "qack");
    let shows_initial_state = is_enhanced || layout.always_has_initial_state;
    if let Some([window, segment, rtt]) = connection.initial_tcp_state {
        let note = format!("icwnd/mss/irtt={window}/{segment}/{rtt}");
        add_note(shows_initial_state, &note);
    }
    let shows_connect_time = is_enhanced || settings.connects_only;
    if let Some(time) = connection.connect_time.filter(|_| shows_connect_time) {
        add_note(true, &format!("ct={:.2} ms", time.as_secs_f64() * 1e3));
    }
    notes
}

/// Returns the note about the type of service. Stock names the direction, in its own way.
fn tos_note(settings: &PrintSettings, connection: &ConnectionInfo, tos: u8) -> String {
    let has_dscp = settings.layout().has_dscp;
    let value = if has_dscp {
        format!("0x{tos:x},dscp={},ecn={}", tos >> 2, tos & 3)
    } else {
        format!("0x{tos:x}")
    };
    if connection.is_full_duplex || connection.bounceback.is_some() {
        return format!("tos rx/tx={value}/{value}");
    }
    let is_reversed_at_client = connection.is_reverse && !settings.is_server;
    let direction = if is_reversed_at_client == has_dscp {
        "rx"
    } else {
        "tx"
    };
    format!("tos {direction}={value}")
}

/// Returns the line about the scheduled start of a flow's traffic.
pub(super) fn start_time(
    settings: &PrintSettings,
    id: &FlowId,
    at: SystemTime,
    now: SystemTime,
) -> String {
    let seconds = |moment: SystemTime| {
        let since = moment.duration_since(SystemTime::UNIX_EPOCH);
        since.unwrap_or_default().as_secs()
    };
    let (name, now_text) = (name(id), format_date(settings, now));
    let moment = settings.format_time(c"%Y-%m-%d %H:%M:%S", at);
    if at < now {
        let since = at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let start = format!("{}.{}", since.as_secs(), since.subsec_micros());
        return format!(
            "{name} WARNING: --txstart-time ({start}) {moment} is before now {now_text}\n"
        );
    }
    let remaining = seconds(at) - seconds(now);
    if settings.is_server {
        let at = format_date(settings, at);
        return format!("{name} Server receiving to start in {remaining} seconds at {at}\n");
    }
    format!(
        "{name} Client traffic to start in {remaining} seconds at {moment} current time is {now_text}\n"
    )
}

/// Formats a time as `2026-11-21 00:37:06.123 (UTC)`, or without milliseconds.
fn format_date(settings: &PrintSettings, moment: SystemTime) -> String {
    if !settings.layout().has_millis {
        return settings.format_time(c"%Y-%m-%d %H:%M:%S (%Z)", moment);
    }
    let since = moment.duration_since(SystemTime::UNIX_EPOCH);
    let millis = since.unwrap_or_default().subsec_millis();
    let seconds = settings.format_time(c"%Y-%m-%d %H:%M:%S", moment);
    let zone = settings.format_time(c"(%Z)", moment);
    format!("{seconds}.{millis:03} {zone}")
}
