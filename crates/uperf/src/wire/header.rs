//! Header of a master at the start of both phases of the handshake.

use codec::{Endian, Field, Record, Text, array_at, record};

use super::protocol::{header_index, protocols_at_index};
use super::{FlowopLayout, SHORT_HEADER_LEN, WorkRefusal};
use crate::DataProtocol;

/// Data version of a master. A header contains no other information about the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataVersion {
    /// `0.3`: uperf 1.0.6 and 1.0.7.
    V0_3,
    /// `0.3.1`: uperf 1.0.8 and later.
    V0_3_1,
}

impl DataVersion {
    /// Returns the text in a header.
    pub fn text(self) -> &'static str {
        match self {
            Self::V0_3 => "0.3",
            Self::V0_3_1 => "0.3.1",
        }
    }

    /// Length of a header in bytes. Before `0.3.1`, the version field had 128 bytes instead of 16.
    pub fn header_len(self) -> usize {
        match self {
            Self::V0_3 => 464,
            Self::V0_3_1 => SHORT_HEADER_LEN,
        }
    }

    /// Length of the shortest flowop record of this version, in bytes.
    pub(super) fn shortest_flowop(self) -> usize {
        match self {
            Self::V0_3 => FlowopLayout::V1_0_7.record_len(),
            Self::V0_3_1 => FlowopLayout::V1_0_8.record_len(),
        }
    }
}

record! {
    /// Start of phase 1 or 2.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Header: 352 bytes {
        /// 1 or 2.
        [36] phase: u32,
        /// Phase 2: number of [`SlaveInfo`](super::SlaveInfo) records after the workorder.
        [40] slave_infos: u32,
        /// Phase 1: nonzero for each protocol of the group's connections.
        [48] protocols: [u32; 8],
        /// Data version.
        [80] version: Text<16>,
    }
}

const _: () = assert!(Header::LEN == SHORT_HEADER_LEN);

impl Header {
    /// Returns a header of phase 1 for a group with connections of these protocols.
    pub fn for_phase_1(
        version: DataVersion,
        protocols: impl IntoIterator<Item = DataProtocol>,
    ) -> Self {
        let mut announcement = [0; 8];
        for protocol in protocols {
            announcement[header_index(protocol)] = 1;
        }
        Self {
            phase: 1,
            slave_infos: 0,
            protocols: announcement,
            version: Text::truncated(version.text()),
        }
    }

    /// Returns a header of phase 2, with this number of [`SlaveInfo`](super::SlaveInfo) records
    /// after the workorder.
    pub fn for_phase_2(version: DataVersion, slave_infos: u32) -> Self {
        Self {
            phase: 2,
            slave_infos,
            protocols: [0; 8],
            version: Text::truncated(version.text()),
        }
    }

    /// Decodes a header. Returns it with the byte order of all the master's messages.
    ///
    /// If [`DataVersion::header_len`] is longer than these bytes, the caller must read the rest.
    /// The rest contains no information.
    ///
    /// Fails with [`WorkRefusal::Magic`].
    pub fn decode(bytes: &[u8; SHORT_HEADER_LEN]) -> Result<(Self, Endian), WorkRefusal> {
        let order = byte_order_from_mark(array_at(bytes, BYTE_ORDER_MARK_OFFSET))
            .ok_or(WorkRefusal::Magic)?;
        if Text::<32>::read(bytes, 0, order) != *MAGIC {
            return Err(WorkRefusal::Magic);
        }
        Ok((Self::from_bytes(bytes, order), order))
    }

    /// Returns the message, with the header length of its version.
    pub fn encode(&self, order: Endian) -> Vec<u8> {
        let mut bytes = self.to_bytes::<{ Self::LEN }>(order).to_vec();
        Text::<32>::truncated(MAGIC).write(&mut bytes, 0, order);
        BYTE_ORDER_MARK.write(&mut bytes, BYTE_ORDER_MARK_OFFSET, order);
        let len = self
            .version()
            .map_or(SHORT_HEADER_LEN, DataVersion::header_len);
        bytes.resize(len, 0);
        bytes
    }

    /// Returns the data version.
    ///
    /// Fails with [`WorkRefusal::Version`] if it is unknown.
    pub fn version(&self) -> Result<DataVersion, WorkRefusal> {
        [DataVersion::V0_3, DataVersion::V0_3_1]
            .into_iter()
            .find(|version| self.version == *version.text())
            .ok_or(WorkRefusal::Version(self.version))
    }

    /// Checks that all requested protocols are `supported`.
    ///
    /// Fails with [`WorkRefusal::Protocol`].
    pub fn check_protocols(
        &self,
        supported: impl Fn(DataProtocol) -> bool,
    ) -> Result<(), WorkRefusal> {
        for (index, &requested) in self.protocols.iter().enumerate() {
            if requested != 0 && !protocols_at_index(index).any(&supported) {
                return Err(WorkRefusal::Protocol(index as u32));
            }
        }
        Ok(())
    }
}

const MAGIC: &str = "0xbadcafedeadbeef";
const BYTE_ORDER_MARK_OFFSET: usize = 32;

/// Returns the byte order in which these bytes are the [`BYTE_ORDER_MARK`].
pub(super) fn byte_order_from_mark(word: [u8; 4]) -> Option<Endian> {
    [Endian::Little, Endian::Big]
        .into_iter()
        .find(|order| u32::read(&word, 0, *order) == BYTE_ORDER_MARK)
}

/// Number by which a slave recognises the master's byte order.
pub(super) const BYTE_ORDER_MARK: u32 = 0xBADC;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        for order in [Endian::Little, Endian::Big] {
            for version in [DataVersion::V0_3, DataVersion::V0_3_1] {
                for header in [
                    Header::for_phase_1(version, [DataProtocol::Tcp, DataProtocol::Vsock]),
                    Header::for_phase_2(version, 7),
                ] {
                    let bytes = header.encode(order);
                    assert_eq!(bytes.len(), version.header_len());
                    let start = bytes.first_chunk().expect("a header");
                    assert_eq!(Header::decode(start), Ok((header.clone(), order)));
                    assert_eq!(header.version(), Ok(version));
                }
            }
        }
    }

    #[test]
    fn headers_without_magic_are_refused() {
        let good = Header::for_phase_1(DataVersion::V0_3_1, []).encode(Endian::Big);
        for at in [0, 16, 17, 32, 35] {
            let mut bytes: [u8; SHORT_HEADER_LEN] = *good.first_chunk().expect("a header");
            bytes[at] ^= 1;
            assert_eq!(Header::decode(&bytes), Err(WorkRefusal::Magic), "byte {at}");
        }
    }

    #[test]
    fn unknown_versions_are_refused() {
        for text in ["", "0.2", "0.3.2", "0.3.1.0"] {
            let header = Header {
                version: Text::truncated(text),
                ..Header::default()
            };
            assert_eq!(
                header.version(),
                Err(WorkRefusal::Version(Text::truncated(text)))
            );
            assert_eq!(header.encode(Endian::Little).len(), SHORT_HEADER_LEN);
        }
    }

    #[test]
    fn unsupported_protocols_are_refused_by_index() {
        let tcp_only = |protocol| protocol == DataProtocol::Tcp;
        let header = |protocols: &[DataProtocol]| {
            Header::for_phase_1(DataVersion::V0_3_1, protocols.iter().copied())
        };
        assert_eq!(header(&[]).check_protocols(tcp_only), Ok(()));
        assert_eq!(
            header(&[DataProtocol::Tcp]).check_protocols(tcp_only),
            Ok(())
        );
        for (protocol, number) in [
            (DataProtocol::Ssl, 5),
            (DataProtocol::Mptcp, 2),
            (DataProtocol::Unix, 2),
        ] {
            let refused = header(&[protocol]).check_protocols(tcp_only);
            assert_eq!(refused, Err(WorkRefusal::Protocol(number)));
            let accepted = header(&[protocol]).check_protocols(|other| other == protocol);
            assert_eq!(accepted, Ok(()));
        }
        let mut unassigned = Header::default();
        unassigned.protocols[0] = 1;
        assert_eq!(
            unassigned.check_protocols(|_| true),
            Err(WorkRefusal::Protocol(0))
        );
    }

    #[test]
    fn the_mark_gives_the_byte_order() {
        for (word, order) in [
            ([0xDC, 0xBA, 0, 0], Some(Endian::Little)),
            ([0, 0, 0xBA, 0xDC], Some(Endian::Big)),
            ([0xBA, 0xDC, 0, 0], None),
            ([0; 4], None),
        ] {
            assert_eq!(byte_order_from_mark(word), order, "{word:?}");
        }
    }
}
