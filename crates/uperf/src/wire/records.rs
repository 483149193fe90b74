//! Records of a workorder except flowops, and the record of a strand's ports.

use codec::{Endian, Field, Record, Text, array_at, record};

use super::header::{BYTE_ORDER_MARK, byte_order_from_mark};
use super::{WorkRefusal, protocol};
use crate::DataProtocol;

record! {
    /// First record of a workorder.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct GroupRecord: 24 bytes {
        /// 4 for threads, 2 for processes, 6 if the profile has both `nthreads=` and `nprocs=`.
        [4] strand_kind: u32,
        /// Number of strands.
        [8] strands: u32,
        /// Number of transactions after this record.
        [12] transactions: u32,
        /// Always 0.
        [20] number: u32,
    }
}

impl GroupRecord {
    /// Fails with [`WorkRefusal::Magic`] if the byte order differs from the header's.
    pub fn decode(bytes: &[u8; Self::LEN], order: Endian) -> Result<Self, WorkRefusal> {
        if byte_order_from_mark(array_at(bytes, 0)) != Some(order) {
            return Err(WorkRefusal::Magic);
        }
        Ok(Self::from_bytes(bytes, order))
    }

    /// Encodes the record.
    pub fn encode(&self, order: Endian) -> [u8; Self::LEN] {
        let mut bytes = self.to_bytes(order);
        BYTE_ORDER_MARK.write(&mut bytes, 0, order);
        bytes
    }
}

record! {
    /// First record of a transaction.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct TransactionRecord: 168 bytes {
        /// Number of flowops after this record.
        [0] flowops: u32,
        /// Number of the transaction, from 0.
        [4] number: u32,
        /// Executions per second and strand; 0 for no limit.
        [16] rate: u32,
        /// Number of executions.
        [24] iterations: u64,
        /// Duration in ns; if 0, `iterations` applies.
        [32] duration_ns: u64,
        /// Text of the rate in the profile.
        [40] rate_text: Text<128>,
    }
}

impl TransactionRecord {
    /// Decodes the record. It never fails, because it accepts any value in every field.
    pub fn decode(bytes: &[u8; Self::LEN], order: Endian) -> Self {
        Self::from_bytes(bytes, order)
    }

    /// Encodes the record.
    pub fn encode(&self, order: Endian) -> [u8; Self::LEN] {
        self.to_bytes(order)
    }
}

record! {
    /// Ports of one strand. The host in the first 256 bytes is always empty: each end uses the
    /// other's address.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct SlaveInfo: 288 bytes {
        /// One port per protocol; 0 is none. See [`Self::port`].
        [256] ports: [u32; 8],
    }
}

impl SlaveInfo {
    /// Decodes the record. It never fails, because it accepts any value in every field.
    pub fn decode(bytes: &[u8; Self::LEN], order: Endian) -> Self {
        Self::from_bytes(bytes, order)
    }

    /// Encodes the record.
    pub fn encode(&self, order: Endian) -> [u8; Self::LEN] {
        self.to_bytes(order)
    }

    /// Returns the port of the protocol; `None` for 0 and for invalid ports.
    pub fn port(&self, protocol: DataProtocol) -> Option<u32> {
        let port = self.ports[protocol::slave_info_index(protocol)];
        let max_port = match protocol {
            DataProtocol::Vsock | DataProtocol::Unix => u32::MAX,
            _ => u16::MAX.into(),
        };
        (1..=max_port).contains(&port).then_some(port)
    }

    /// Sets the port of the protocol.
    pub fn set_port(&mut self, protocol: DataProtocol, port: u32) {
        self.ports[protocol::slave_info_index(protocol)] = port;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip() {
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
            rate_text: Text::truncated("2k"),
        };
        let mut ports = SlaveInfo::default();
        ports.set_port(DataProtocol::Udp, 5001);
        for order in [Endian::Little, Endian::Big] {
            let decoded = GroupRecord::decode(&group.encode(order), order);
            assert_eq!(decoded, Ok(group.clone()));
            let decoded = TransactionRecord::decode(&transaction.encode(order), order);
            assert_eq!(decoded, transaction);
            let decoded = SlaveInfo::decode(&ports.encode(order), order);
            assert_eq!(decoded, ports);
            assert_eq!(decoded.port(DataProtocol::Udp), Some(5001));
            assert_eq!(decoded.port(DataProtocol::Tcp), None);
        }
    }

    #[test]
    fn groups_in_another_byte_order_are_refused() {
        let bytes = GroupRecord::default().encode(Endian::Big);
        let decoded = GroupRecord::decode(&bytes, Endian::Little);
        assert_eq!(decoded, Err(WorkRefusal::Magic));
    }

    #[test]
    fn a_port_has_sixteen_bits() {
        let mut info = SlaveInfo::default();
        for (number, port) in [(0, None), (65_535, Some(65_535)), (65_536, None)] {
            info.ports[1] = number;
            assert_eq!(info.port(DataProtocol::Tcp), port);
        }
    }
}
