//! Output as comma-separated values (`-y C`).

use std::collections::HashMap;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use sys::Address;

use super::PrintSettings;
use super::connection::format_host;
use crate::event::{FlowFigures, FlowId, TestEvent};

/// The end of each flow's last interval, by flow number and direction.
pub(super) type LastIntervalEnds = HashMap<(u32, bool), SystemTime>;

pub(super) fn text(
    settings: &PrintSettings,
    event: &TestEvent<'_>,
    interval_ends: &mut LastIntervalEnds,
) -> String {
    let key = |id: &FlowId| (id.number, id.is_starred);
    match event {
        TestEvent::Interval(id, figures) => {
            let now = SystemTime::now();
            interval_ends.insert(key(id), now);
            line(settings, id, figures, now, false)
        }
        // As in stock, the timestamp is that of the last interval; without intervals, 1970.
        TestEvent::Final(id, figures) => {
            let timestamp = interval_ends.remove(&key(id)).unwrap_or(UNIX_EPOCH);
            line(settings, id, figures, timestamp, true)
        }
        _ => String::new(),
    }
}

fn line(
    settings: &PrintSettings,
    id: &FlowId,
    figures: &FlowFigures,
    timestamp: SystemTime,
    is_final: bool,
) -> String {
    let format_address =
        |address: &Address| format!("{},{}", format_host(settings, address), address.port());
    let endpoints = figures.endpoints.as_ref().map_or_else(
        || "0.0.0.0,0,0.0.0.0,0".to_owned(),
        |(sender, receiver)| format!("{},{}", format_address(sender), format_address(receiver)),
    );
    let mut text = format!(
        "{},{endpoints},{},{:.1}-{:.1},{},{:.0}",
        format_timestamp(settings, timestamp),
        id.number,
        figures.start.as_secs_f64(),
        figures.end.as_secs_f64(),
        figures.bytes,
        figures.bits_per_second().floor(),
    );
    if figures.is_udp {
        let jitter = figures.datagrams.and_then(|counts| counts.jitter);
        let jitter_ms = jitter.map_or(0.0, |jitter| jitter.as_secs_f64() * 1e3);
        let total = if figures.sends && is_final {
            "-1".to_owned()
        } else if figures.sends {
            figures.calls.to_string()
        } else {
            figures.expected_datagrams.to_string()
        };
        let percent = match (figures.sends && is_final, figures.expected_datagrams) {
            (true, _) => "-0.000".to_owned(),
            (_, 0) => "0.000".to_owned(),
            (_, expected) => format!("{:.3}", 100.0 * figures.lost() as f64 / expected as f64),
        };
        let (lost, out_of_order) = (figures.lost(), figures.out_of_order());
        let _ = write!(
            text,
            ",{jitter_ms:.3},{lost},{total},{percent},{out_of_order}"
        );
    }
    text + "\n"
}

/// Formats a time as `YYYYMMDDhhmmss`. Enhanced reports add milliseconds.
fn format_timestamp(settings: &PrintSettings, moment: SystemTime) -> String {
    let time = sys::clock::local_time(c"%Y%m%d%H%M%S", moment);
    let millis = moment
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .subsec_millis();
    if settings.output.enhanced {
        format!("{time}.{millis:03}")
    } else {
        time
    }
}
