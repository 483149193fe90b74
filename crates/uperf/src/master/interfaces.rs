//! The traffic of this host's network interfaces during a run.

use std::time::Instant;

use model::{InterfaceTraffic, Interfaces};
use sys::interface::{self, Traffic};

/// Counters of all interfaces at one moment.
#[derive(Debug)]
pub(super) struct InterfaceCounters {
    read_at: Instant,
    /// Name and traffic of each interface.
    traffic: Option<Vec<(String, Traffic)>>,
}

impl InterfaceCounters {
    pub(super) fn read() -> Self {
        Self {
            read_at: Instant::now(),
            traffic: interface::all_traffic().ok(),
        }
    }

    /// Returns the traffic since `earlier`; `None` if the counters are unavailable, or if none of
    /// them moved although the run sent packets (`has_sent_packets`). Leaves out an interface whose
    /// counters ran backwards.
    pub(super) fn since(&self, earlier: &Self, has_sent_packets: bool) -> Option<Interfaces> {
        let before = earlier.traffic.as_ref()?;
        let interfaces = self.traffic.as_ref()?.iter().filter_map(|(name, traffic)| {
            let before = before.iter().find(|(other, _)| other == name);
            let traffic = match before {
                Some((_, before)) => traffic.since(before)?,
                None => *traffic,
            };
            Some(InterfaceTraffic {
                name: name.clone(),
                traffic: traffic.into(),
                was_missing_at_start: before.is_none(),
            })
        });
        let interfaces: Vec<_> = interfaces.collect();
        let have_moved = (interfaces.iter()).any(|interface| {
            interface.traffic.sent_packets + interface.traffic.received_packets > 0
        });
        (have_moved || !has_sent_packets).then(|| Interfaces {
            elapsed: self.read_at - earlier.read_at,
            interfaces,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns counters of interfaces, each with a number of sent packets.
    fn counters(read_at: Instant, sent_packets: &[(&str, u64)]) -> InterfaceCounters {
        let traffic = sent_packets.iter().map(|(name, sent_packets)| {
            let traffic = Traffic {
                sent_packets: *sent_packets,
                ..Traffic::default()
            };
            ((*name).to_owned(), traffic)
        });
        InterfaceCounters {
            read_at,
            traffic: Some(traffic.collect()),
        }
    }

    #[test]
    fn traffic_is_that_between_two_readings() {
        let start = Instant::now();
        let before = counters(start, &[("eth1", 10), ("eth2", 20), ("eth3", 30)]);
        let end = start + Duration::from_secs(2);
        let after = counters(end, &[("eth1", 15), ("eth2", 19), ("eth4", 40)]);
        let traffic = after.since(&before, true).unwrap();
        assert_eq!(traffic.elapsed, Duration::from_secs(2));
        let found: Vec<_> = (traffic.interfaces.iter())
            .map(|interface| {
                let sent = interface.traffic.sent_packets;
                (
                    interface.name.as_str(),
                    sent,
                    interface.was_missing_at_start,
                )
            })
            .collect();
        // The counters of eth2 ran backwards.
        assert_eq!(found, [("eth1", 5, false), ("eth4", 40, true)]);
    }

    #[test]
    fn frozen_and_missing_counters_are_unavailable() {
        let start = Instant::now();
        let before = counters(start, &[("eth1", 10)]);
        assert_eq!(before.since(&before, true), None);
        assert!(before.since(&before, false).is_some());
        let missing = InterfaceCounters {
            read_at: start,
            traffic: None,
        };
        assert_eq!(before.since(&missing, false), None);
        assert_eq!(missing.since(&before, false), None);
    }

    #[test]
    fn the_loopback_interface_is_read() {
        let traffic = InterfaceCounters::read().traffic.unwrap();
        assert!(traffic.iter().any(|(name, _)| name == "lo"));
    }
}
