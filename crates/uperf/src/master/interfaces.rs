//! Reads the kernel's counters of network interfaces from /proc/net/dev.

use std::fs;
use std::time::Instant;

use model::{InterfaceTraffic, Interfaces, Traffic};

/// Counters of all interfaces at one moment.
#[derive(Debug)]
pub(super) struct InterfaceCounters {
    read_at: Instant,
    interfaces: Vec<InterfaceTraffic>,
}

impl InterfaceCounters {
    pub(super) fn read() -> Self {
        // Without the file there are no counters.
        let text = fs::read_to_string("/proc/net/dev").unwrap_or_default();
        Self {
            read_at: Instant::now(),
            interfaces: text.lines().filter_map(parse_line).collect(),
        }
    }

    /// Returns the traffic since this reading.
    pub(super) fn delta(&self) -> Interfaces {
        let current = Self::read();
        let interfaces = current.interfaces.into_iter().map(|mut interface| {
            let before = self
                .interfaces
                .iter()
                .find(|other| other.name == interface.name);
            let Some(InterfaceTraffic {
                traffic: before, ..
            }) = before
            else {
                interface.was_missing_at_start = true;
                return interface;
            };
            let subtract = |count: &mut u64, earlier: u64| *count = count.saturating_sub(earlier);
            let traffic = &mut interface.traffic;
            subtract(&mut traffic.sent_packets, before.sent_packets);
            subtract(&mut traffic.received_packets, before.received_packets);
            subtract(&mut traffic.sent_bytes, before.sent_bytes);
            subtract(&mut traffic.received_bytes, before.received_bytes);
            interface
        });
        Interfaces {
            elapsed: current.read_at - self.read_at,
            interfaces: interfaces.collect(),
        }
    }
}

/// Parses a line of the file; `None` for the two header lines.
fn parse_line(line: &str) -> Option<InterfaceTraffic> {
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
        was_missing_at_start: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_parsed_from_a_line() {
        let line = "  eth0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0";
        let interface = parse_line(line).unwrap();
        let InterfaceTraffic { name, traffic, .. } = interface;
        let figures = (
            traffic.received_bytes,
            traffic.received_packets,
            traffic.sent_bytes,
            traffic.sent_packets,
        );
        assert_eq!((name.as_str(), figures), ("eth0", (1000, 10, 2000, 20)));
        assert_eq!(parse_line("Inter-|   Receive  |  Transmit"), None);
        assert_eq!(parse_line(" face |bytes    packets errs"), None);
    }

    #[test]
    fn the_loopback_interface_is_read() {
        assert!(
            InterfaceCounters::read()
                .interfaces
                .iter()
                .any(|interface| interface.name == "lo")
        );
    }
}
