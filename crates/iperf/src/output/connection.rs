//! The connection lines.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use sys::Address;

use super::{Facts, name};
use crate::event::{Connection, FlowId};
use crate::wire::flags::upper;

pub(super) fn text(facts: &Facts, connection: &Connection) -> String {
    let print = &facts.print;
    if print.exclude.connections || print.sum_only {
        return String::new();
    }
    let space = if connection.id.number == 0 { "" } else { " " };
    let mut text = format!(
        "{}{space}{}",
        name(&connection.id),
        ends(facts, connection, "connected")
    );
    for note in notes(facts, connection) {
        let _ = write!(text, " ({note})");
    }
    if let Some(started) = connection
        .started
        .filter(|_| is_enhanced(facts, connection) || facts.connects_only)
    {
        let _ = write!(text, " on {}", date(started));
    }
    text + "\n"
}

/// Whether a line has the long form: on a server, the one of a test with times.
fn is_enhanced(facts: &Facts, connection: &Connection) -> bool {
    let has_times = connection.has_trip_times || connection.burst_period.is_some();
    facts.print.enhanced || (facts.is_server && has_times)
}

/// The times of connections. Stock's deviation is in microseconds, although its text has another unit.
pub(super) fn times(times: &[Option<Duration>]) -> String {
    let millis: Vec<f64> = times
        .iter()
        .flatten()
        .map(|time| time.as_secs_f64() * 1e3)
        .collect();
    let count = millis.len() as f64;
    let least = millis.iter().copied().fold(f64::INFINITY, f64::min);
    let most = millis.iter().copied().fold(0.0, f64::max);
    let mean = millis.iter().sum::<f64>() / count;
    let squares: f64 = millis.iter().map(|time| (time - mean).powi(2)).sum();
    let deviation = (squares / (count - 1.0).max(1.0)).sqrt() * 1e3;
    if millis.is_empty() {
        return String::new();
    }
    format!(
        "[ CT] final connect times (min/avg/max/stdev) = {least:.3}/{mean:.3}/{most:.3}/{deviation:.3} ms (tot/err) = {}/{}\n",
        times.len(),
        times.len() - millis.len()
    )
}

/// A connection that was refused.
pub(super) fn dropped(facts: &Facts, connection: &Connection) -> String {
    let mut text = format!("[drop] {}", ends(facts, connection, "connection"));
    if let Some([window, segment, rtt]) = connection.tcp {
        let _ = write!(text, " (icwnd/mss/irtt={window}/{segment}/{rtt})");
    }
    text + " (permit key fail)\n"
}

fn ends(facts: &Facts, connection: &Connection, verb: &str) -> String {
    let (local, port) = match &connection.local {
        Some(local) => (shown(facts, local), local.port()),
        None => ("0.0.0.0".to_owned(), 0),
    };
    let has_device = is_enhanced(facts, connection);
    let device = connection.device.as_ref().filter(|_| has_device);
    let device = device.map_or(String::new(), |device| format!("%{device}"));
    let peer = &connection.peer;
    format!(
        "local {local}{device} port {port} {verb} with {} port {}",
        shown(facts, peer),
        peer.port()
    )
}

/// An address, of which only the last number may be shown.
pub(super) fn shown(facts: &Facts, address: &Address) -> String {
    let Some(ip) = address.ip() else {
        return address.to_string();
    };
    let text = ip.to_string();
    if !facts.print.hide_ips {
        return text;
    }
    match text.rsplit_once('.') {
        Some((_, last)) => format!("*.*.*.{last}"),
        None => format!("*:*:*:{}", text.rsplit(':').next().unwrap_or_default()),
    }
}

fn notes(facts: &Facts, connection: &Connection) -> Vec<String> {
    let is_enhanced = is_enhanced(facts, connection);
    let asks = |bit| connection.upper & bit != 0;
    let mut notes = Vec::new();
    let mut note = |is_there: bool, text: &str| {
        if is_there {
            notes.push(text.to_owned());
        }
    };
    note(asks(upper::ISOCHRONOUS), "isoch");
    if let Some(period) = connection.burst_period {
        note(true, &format!("burst-period={:.4}s", period.as_secs_f64()));
    }
    note(connection.is_full_duplex, "full-duplex");
    note(connection.is_reverse, "reverse");
    if let Some((length, hold, is_quick)) = connection.bounce {
        let quick = if is_quick { "w/quickack " } else { "" };
        note(true, &format!("bb {quick}len/hold={length}/{hold}"));
    }
    note(connection.has_trip_times, "trip-times");
    let is_scheduled = asks(upper::EPOCH_START) && !connection.has_trip_times;
    note(is_scheduled, "epoch-start");
    note(connection.no_udp_fin, "no-udp-fin");
    note(asks(upper::L2_LENGTH), "l2mode");
    if let Some(bytes) = connection.prefetch {
        note(true, &format!("prefetch={bytes}"));
    }
    if let Some(bytes) = facts.socket.window_clamp_bytes.filter(|_| facts.is_server) {
        note(true, &format!("clamp={bytes}"));
    }
    note(is_enhanced, &format!("sock={}", connection.socket));
    if let Some((received, sent)) = connection.service {
        let (rx, tx) = (format!("rx=0x{received:x}"), format!("tx=0x{sent:x}"));
        match (received, sent) {
            (0, 0) => {}
            (_, 0) => note(true, &format!("tos {rx}")),
            (0, _) => note(true, &format!("tos {tx}")),
            _ => note(true, &format!("tos rx/tx=0x{received:x}/0x{sent:x}")),
        }
    }
    if let Some(version) = connection.peer_version.as_ref().filter(|_| is_enhanced) {
        note(true, &format!("peer {version}"));
    }
    note(asks(upper::QUICK_ACK), "qack");
    if let Some([window, segment, rtt]) = connection.tcp {
        note(true, &format!("icwnd/mss/irtt={window}/{segment}/{rtt}"));
    }
    let has_time = is_enhanced || facts.connects_only;
    if let Some(time) = connection.connect_time.filter(|_| has_time) {
        note(true, &format!("ct={:.2} ms", time.as_secs_f64() * 1e3));
    }
    notes
}

/// When a flow's traffic begins.
pub(super) fn begins(id: &FlowId, at: SystemTime, now: SystemTime) -> String {
    let seconds = |moment: SystemTime| {
        let since = moment.duration_since(SystemTime::UNIX_EPOCH);
        since.unwrap_or_default().as_secs()
    };
    let (name, moment) = (name(id), date(at));
    let moment = moment.split(" (").next().unwrap_or_default();
    if at < now {
        let since = at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let start = format!("{}.{}", since.as_secs(), since.subsec_micros());
        return format!(
            "{name} WARNING: --txstart-time ({start}) {moment} is before now {}\n",
            date(now)
        );
    }
    let left = seconds(at) - seconds(now);
    format!(
        "{name} Client traffic to start in {left} seconds at {moment} current time is {}\n",
        date(now)
    )
}

/// A moment, as `2026-11-21 00:37:06 (UTC)`.
fn date(moment: SystemTime) -> String {
    sys::clock::local_time(c"%Y-%m-%d %H:%M:%S (%Z)", moment)
}
