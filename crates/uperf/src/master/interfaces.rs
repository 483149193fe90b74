//! The kernel's counters of the network interfaces: /proc/net/dev.

use std::fs;
use std::time::Instant;

use model::InterfaceTraffic;

use crate::output::{Interfaces, Traffic};

/// All interfaces at one moment.
#[derive(Debug)]
pub(super) struct InterfaceCounters {
    at: Instant,
    each: Vec<Traffic>,
}

impl InterfaceCounters {
    pub(super) fn now() -> Self {
        // Without the file there is nothing to tell.
        let text = fs::read_to_string("/proc/net/dev").unwrap_or_default();
        Self {
            at: Instant::now(),
            each: text.lines().filter_map(traffic).collect(),
        }
    }

    /// What came and went since then.
    pub(super) fn since(&self) -> Interfaces {
        let now = Self::now();
        let each = now.each.into_iter().map(|mut traffic| {
            let before = self.each.iter().find(|other| other.name == traffic.name);
            let Some(before) = before else {
                traffic.came_online = true;
                return traffic;
            };
            let since = |now: u64, then: u64| now.saturating_sub(then);
            traffic.packets_out = since(traffic.packets_out, before.packets_out);
            traffic.packets_in = since(traffic.packets_in, before.packets_in);
            traffic.bytes_out = since(traffic.bytes_out, before.bytes_out);
            traffic.bytes_in = since(traffic.bytes_in, before.bytes_in);
            traffic
        });
        Interfaces {
            elapsed: now.at - self.at,
            each: each.collect(),
        }
    }
}

/// As the Outcome has it.
pub(super) fn carried(interfaces: &Interfaces) -> model::Interfaces {
    let one = |traffic: &Traffic| InterfaceTraffic {
        name: traffic.name.clone(),
        traffic: model::Traffic {
            received_packets: traffic.packets_in,
            received_bytes: traffic.bytes_in,
            sent_packets: traffic.packets_out,
            sent_bytes: traffic.bytes_out,
        },
        came_online: traffic.came_online,
    };
    model::Interfaces {
        elapsed: interfaces.elapsed,
        each: interfaces.each.iter().map(one).collect(),
    }
}

/// A line of it; the two of the header are none.
fn traffic(line: &str) -> Option<Traffic> {
    let (name, counters) = line.split_once(':')?;
    let counters: Vec<u64> = counters
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    Some(Traffic {
        name: name.trim().to_owned(),
        bytes_in: *counters.first()?,
        packets_in: *counters.get(1)?,
        bytes_out: *counters.get(8)?,
        packets_out: *counters.get(9)?,
        came_online: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel() {
        let line = "  eth0: 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0";
        let read = traffic(line).unwrap();
        let figures = (
            read.bytes_in,
            read.packets_in,
            read.bytes_out,
            read.packets_out,
        );
        assert_eq!(
            (read.name.as_str(), figures),
            ("eth0", (1000, 10, 2000, 20))
        );
        assert_eq!(traffic("Inter-|   Receive  |  Transmit"), None);
        assert_eq!(traffic(" face |bytes    packets errs"), None);
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
