//! Counters of an interface, from the kernel's struct and from its table.

/// Traffic of an interface since its creation, as counted by its driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the name of each counter says what it counts")]
pub struct Traffic {
    pub received_packets: u64,
    pub sent_packets: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub receive_errors: u64,
    pub send_errors: u64,
    /// By the kernel, and by the interface for lack of a buffer.
    pub receive_drops: u64,
    pub send_drops: u64,
}

/// Errors that the hardware of an interface counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardwareErrors {
    /// Packets with a wrong checksum of the link.
    pub checksum: u64,
    /// Packets dropped for lack of a buffer.
    pub missed: u64,
}

impl Traffic {
    /// Reads struct rtnl_link_stats64 (linux/if_link.h).
    pub(super) fn from_netlink(counters: &[u8]) -> Option<Self> {
        let counter = |index| counter_at(counters, index);
        Some(Self {
            received_packets: counter(0)?,
            sent_packets: counter(1)?,
            received_bytes: counter(2)?,
            sent_bytes: counter(3)?,
            receive_errors: counter(4)?,
            send_errors: counter(5)?,
            receive_drops: counter(6)?.wrapping_add(counter(MISSED)?),
            send_drops: counter(7)?,
        })
    }

    /// Reads the counters in a line of /proc/net/dev: eight for reception, then eight for sending.
    /// Each group begins with bytes, packets, errors and drops.
    fn from_line(counters: &str) -> Option<Self> {
        let words = counters.split_ascii_whitespace();
        let counters: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let counter = |index: usize| counters.get(index).copied();
        Some(Self {
            received_packets: counter(1)?,
            sent_packets: counter(9)?,
            received_bytes: counter(0)?,
            sent_bytes: counter(8)?,
            receive_errors: counter(2)?,
            send_errors: counter(10)?,
            receive_drops: counter(3)?,
            send_drops: counter(11)?,
        })
    }

    /// Returns the traffic since `earlier`; `None` if a counter ran backwards, as after a restart of
    /// the driver.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let difference = |field: fn(&Self) -> u64| field(self).checked_sub(field(earlier));
        Some(Self {
            received_packets: difference(|traffic| traffic.received_packets)?,
            sent_packets: difference(|traffic| traffic.sent_packets)?,
            received_bytes: difference(|traffic| traffic.received_bytes)?,
            sent_bytes: difference(|traffic| traffic.sent_bytes)?,
            receive_errors: difference(|traffic| traffic.receive_errors)?,
            send_errors: difference(|traffic| traffic.send_errors)?,
            receive_drops: difference(|traffic| traffic.receive_drops)?,
            send_drops: difference(|traffic| traffic.send_drops)?,
        })
    }

    /// Returns whether any packet was counted.
    pub fn has_packets(&self) -> bool {
        self.received_packets != 0 || self.sent_packets != 0
    }
}

impl HardwareErrors {
    pub(super) fn from_netlink(counters: &[u8]) -> Option<Self> {
        Some(Self {
            checksum: counter_at(counters, 12)?,
            missed: counter_at(counters, MISSED)?,
        })
    }
}

/// The position of the missed packets in struct rtnl_link_stats64.
const MISSED: usize = 15;

fn counter_at(counters: &[u8], index: usize) -> Option<u64> {
    let word = counters.get(8 * index..8 * index + 8)?;
    Some(u64::from_ne_bytes(word.try_into().ok()?))
}

/// Parses /proc/net/dev. Its two header lines have no counters.
pub(super) fn parse_table(table: &str) -> Vec<(String, Traffic)> {
    let lines = table.lines().filter_map(|line| {
        let (name, counters) = line.split_once(':')?;
        Some((name.trim().to_owned(), Traffic::from_line(counters)?))
    });
    lines.collect()
}

impl From<Traffic> for model::Traffic {
    fn from(traffic: Traffic) -> Self {
        Self {
            received_packets: traffic.received_packets,
            received_bytes: traffic.received_bytes,
            sent_packets: traffic.sent_packets,
            sent_bytes: traffic.sent_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_in_the_kernels_struct() {
        let words: Vec<u8> = (100..125_u64).flat_map(u64::to_ne_bytes).collect();
        let traffic = Traffic::from_netlink(&words).unwrap();
        let found = [
            traffic.received_packets,
            traffic.sent_bytes,
            traffic.receive_errors,
            traffic.receive_drops,
            traffic.send_drops,
        ];
        assert_eq!(found, [100, 103, 104, 106 + 115, 107]);
        let errors = HardwareErrors::from_netlink(&words).unwrap();
        assert_eq!((errors.checksum, errors.missed), (112, 115));
        assert_eq!(Traffic::from_netlink(&words[..15 * 8]), None);
    }

    #[test]
    fn counters_are_found_in_the_kernels_table() {
        let table = "Inter-|   Receive                |  Transmit\n \
            face |bytes packets errs drop fifo frame compressed multicast|bytes packets\n    \
            lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  \
            eth0: 1 2\n";
        let [(name, traffic)] = &parse_table(table)[..] else {
            panic!("the line of eth0 is incomplete");
        };
        let expected = Traffic {
            received_bytes: 1,
            received_packets: 2,
            receive_errors: 3,
            receive_drops: 4,
            sent_bytes: 9,
            sent_packets: 10,
            send_errors: 11,
            send_drops: 12,
        };
        assert_eq!((name.as_str(), traffic), ("lo", &expected));
        assert_eq!(parse_table("0\n"), []);
    }
}
