//! The records of a workorder but its flowops, and those that tell ports.

use codec::{Field, Order, Record, Text, part, record};

use super::header::{PROBE, order_of_probe};
use super::{Refusal, protocol};
use crate::Protocol;

record! {
    /// What a workorder begins with.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct GroupRecord: 24 bytes {
        /// 4 for threads, 2 for processes, 6 where the profile has both words.
        [4] strand_kind: u32,
        /// How many strands.
        [8] strands: u32,
        /// How many transactions follow.
        [12] transactions: u32,
        /// 0.
        [20] number: u32,
    }
}

impl GroupRecord {
    /// Fails with [`Refusal::Magic`] where the order of the header is not that of the group.
    pub fn decode(bytes: &[u8; Self::LEN], order: Order) -> Result<Self, Refusal> {
        if order_of_probe(part(bytes, 0)) != Some(order) {
            return Err(Refusal::Magic);
        }
        Ok(Self::of_bytes(bytes, order))
    }

    /// As it travels.
    pub fn encode(&self, order: Order) -> [u8; Self::LEN] {
        let mut bytes = self.to_bytes(order);
        PROBE.write(&mut bytes, 0, order);
        bytes
    }
}

record! {
    /// What each transaction begins with.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct TransactionRecord: 168 bytes {
        /// How many flowops follow.
        [0] flowops: u32,
        /// From 0.
        [4] number: u32,
        /// Executions a second and strand, 0 for as fast as it goes.
        [16] rate: u32,
        /// How often.
        [24] iterations: u64,
        /// How long, ns; where this is 0 the iterations are in force.
        [32] duration_ns: u64,
        /// The rate as it was written.
        [40] rate_text: Text<128>,
    }
}

impl TransactionRecord {
    /// Never fails: every number is as it was sent.
    pub fn decode(bytes: &[u8; Self::LEN], order: Order) -> Self {
        Self::of_bytes(bytes, order)
    }

    /// As it travels.
    pub fn encode(&self, order: Order) -> [u8; Self::LEN] {
        self.to_bytes(order)
    }
}

record! {
    /// Where one strand listens. The host that is meant to stand here is never said: each side takes
    /// the other's address.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct SlaveInfo: 288 bytes {
        /// A port for each protocol; 0 is none. See [`Self::port`].
        [256] ports: [u32; 8],
    }
}

impl SlaveInfo {
    /// Never fails: every number is as it was sent.
    pub fn decode(bytes: &[u8; Self::LEN], order: Order) -> Self {
        Self::of_bytes(bytes, order)
    }

    /// As it travels.
    pub fn encode(&self, order: Order) -> [u8; Self::LEN] {
        self.to_bytes(order)
    }

    /// The port of the protocol; `None` if there is none, or a number that no port has.
    pub fn port(&self, protocol: Protocol) -> Option<u32> {
        let port = self.ports[protocol::slot(protocol)];
        let most = match protocol {
            Protocol::Vsock | Protocol::Unix => u32::MAX,
            _ => u16::MAX.into(),
        };
        (1..=most).contains(&port).then_some(port)
    }

    /// Sets what [`Self::port`] reads.
    pub fn set_port(&mut self, protocol: Protocol, port: u32) {
        self.ports[protocol::slot(protocol)] = port;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        let group = GroupRecord {
            strand_kind: 6,
            strands: 258,
            transactions: 3,
            number: 1,
        };
        let transaction = TransactionRecord {
            flowops: 2,
            number: 1,
            rate: 2048,
            iterations: u64::MAX - 1,
            duration_ns: 30_000_001_024,
            rate_text: Text::cut("2k"),
        };
        let mut ports = SlaveInfo::default();
        ports.set_port(Protocol::Udp, 5001);
        for order in [Order::Little, Order::Big] {
            let decoded = GroupRecord::decode(&group.encode(order), order);
            assert_eq!(decoded, Ok(group.clone()));
            let decoded = TransactionRecord::decode(&transaction.encode(order), order);
            assert_eq!(decoded, transaction);
            let decoded = SlaveInfo::decode(&ports.encode(order), order);
            assert_eq!(decoded, ports);
            assert_eq!(decoded.port(Protocol::Udp), Some(5001));
            assert_eq!(decoded.port(Protocol::Tcp), None);
        }
    }

    #[test]
    fn a_group_in_another_order_is_none() {
        let bytes = GroupRecord::default().encode(Order::Big);
        let decoded = GroupRecord::decode(&bytes, Order::Little);
        assert_eq!(decoded, Err(Refusal::Magic));
    }

    #[test]
    fn a_port_has_sixteen_bits() {
        let mut info = SlaveInfo::default();
        for (number, port) in [(0, None), (65_535, Some(65_535)), (65_536, None)] {
            info.ports[1] = number;
            assert_eq!(info.port(Protocol::Tcp), port);
        }
    }
}
