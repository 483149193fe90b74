//! Comma-separated values, `-y C`.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use sys::Address;

use super::Facts;
use super::connection::shown;
use crate::event::{Event, Figures, FlowId};

/// When each flow's last interval ended.
pub(super) type Stamps = HashMap<(u32, bool), SystemTime>;

pub(super) fn text(facts: &Facts, event: &Event<'_>, stamps: &mut Stamps) -> String {
    let key = |id: &FlowId| (id.number, id.is_opposite);
    match event {
        Event::Interval(id, figures) => {
            let now = SystemTime::now();
            stamps.insert(key(id), now);
            line(facts, id, figures, now, false)
        }
        // The last interval's, as stock has it; without one that is 1970.
        Event::Final(id, figures) => {
            let stamp = stamps.remove(&key(id)).unwrap_or(UNIX_EPOCH);
            line(facts, id, figures, stamp, true)
        }
        _ => String::new(),
    }
}

fn line(
    facts: &Facts,
    id: &FlowId,
    figures: &Figures,
    stamp: SystemTime,
    is_final: bool,
) -> String {
    let end = |address: &Address| format!("{},{}", shown(facts, address), address.port());
    let ends = figures.ends.as_ref().map_or_else(
        || "0.0.0.0,0,0.0.0.0,0".to_owned(),
        |(sender, receiver)| format!("{},{}", end(sender), end(receiver)),
    );
    let mut text = format!(
        "{},{ends},{},{:.1}-{:.1},{},{:.0}",
        self::stamp(facts, stamp),
        id.number,
        figures.from.as_secs_f64(),
        figures.to.as_secs_f64(),
        figures.bytes,
        figures.bits_per_second().floor(),
    );
    if figures.is_udp {
        let jitter = figures.datagrams.and_then(|counts| counts.jitter);
        let jitter_ms = jitter.map_or(0.0, |jitter| jitter.as_secs_f64() * 1e3);
        let total = match figures.sends {
            true if is_final => "-1".to_owned(),
            true => figures.calls.to_string(),
            false => figures.due.to_string(),
        };
        let percent = match (figures.sends && is_final, figures.due) {
            (true, _) => "-0.000".to_owned(),
            (_, 0) => "0.000".to_owned(),
            (_, due) => format!("{:.3}", 100.0 * figures.lost() as f64 / due as f64),
        };
        let (lost, out_of_order) = (figures.lost(), figures.out_of_order());
        let _ = write!(
            text,
            ",{jitter_ms:.3},{lost},{total},{percent},{out_of_order}"
        );
    }
    text + "\n"
}

/// `YYYYMMDDhhmmss`, in enhanced reports with milliseconds.
fn stamp(facts: &Facts, moment: SystemTime) -> String {
    let time = sys::clock::local_time(c"%Y%m%d%H%M%S", moment);
    let millis = moment
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .subsec_millis();
    if facts.print.enhanced {
        format!("{time}.{millis:03}")
    } else {
        time
    }
}
