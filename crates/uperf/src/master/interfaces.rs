//! The kernel's counters of the network interfaces: /proc/net/dev.

use std::fs;
use std::time::Instant;

use model::{InterfaceTraffic, Interfaces, Traffic};

/// All interfaces at one moment.
#[derive(Debug)]
pub(super) struct InterfaceCounters {
    at: Instant,
    each: Vec<InterfaceTraffic>,
}

impl InterfaceCounters {
    pub(super) fn now() -> Self {
        // Without the file there is nothing to tell.
        let text = fs::read_to_string("/proc/net/dev").unwrap_or_default();
        Self {
            at: Instant::now(),
            each: text.lines().filter_map(interface).collect(),
        }
    }

    /// What came and went since then.
    pub(super) fn since(&self) -> Interfaces {
        let now = Self::now();
        let each = now.each.into_iter().map(|mut interface| {
            let before = self.each.iter().find(|other| other.name == interface.name);
            let Some(InterfaceTraffic {
                traffic: before, ..
            }) = before
            else {
                interface.came_online = true;
                return interface;
            };
            let since = |now: &mut u64, then: u64| *now = now.saturating_sub(then);
            let traffic = &mut interface.traffic;
            since(&mut traffic.sent_packets, before.sent_packets);
            since(&mut traffic.received_packets, before.received_packets);
            since(&mut traffic.sent_bytes, before.sent_bytes);
            since(&mut traffic.received_bytes, before.received_bytes);
            interface
        });
        Interfaces {
            elapsed: now.at - self.at,
            each: each.collect(),
        }
    }
}

/// A line of it; the two of the header are none.
fn interface(line: &str) -> Option<InterfaceTraffic> {
    let (name, counters) = line.split_once(':')?;
    let counters: Vec<u64> = counters
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let traffic = Traffic {
        received_bytes: *counters.first()?,
        received_packets: *counters.get(1)?,
        sent_bytes: *counters.get(8)?,
        sent_packets: *counters.get(9)?,
    };
    Some(InterfaceTraffic {
        name: name.trim().to_owned(),
        traffic,
        came_online: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel() {
        let line = "  eth0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0";
        let read = interface(line).unwrap();
        let InterfaceTraffic { name, traffic, .. } = read;
        let figures = (
            traffic.received_bytes,
            traffic.received_packets,
            traffic.sent_bytes,
            traffic.sent_packets,
        );
        assert_eq!((name.as_str(), figures), ("eth0", (1000, 10, 2000, 20)));
        assert_eq!(interface("Inter-|   Receive  |  Transmit"), None);
        assert_eq!(interface(" face |bytes    packets errs"), None);
    }

    #[test]
    fn this_host_has_one() {
        assert!(
            InterfaceCounters::now()
                .each
                .iter()
                .any(|each| each.name == "lo")
        );
    }
}
