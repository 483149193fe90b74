//! What a master begins both phases of the handshake with.

use codec::{Field, Order, Record, Text, part, record};

use super::protocol::{announced, announcing};
use super::{Layout, Refusal, SHORT_HEADER};
use crate::Protocol;

/// Which data version a master has; nothing else in a header tells programs apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// `0.3`: uperf 1.0.6 and 1.0.7.
    V0_3,
    /// `0.3.1`: uperf 1.0.8 and all that came after it.
    V0_3_1,
}

impl Version {
    /// As it is written in a header.
    pub fn text(self) -> &'static str {
        match self {
            Self::V0_3 => "0.3",
            Self::V0_3_1 => "0.3.1",
        }
    }

    /// Length of a header in bytes: before `0.3.1` the version had 128 bytes instead of 16.
    pub fn header_len(self) -> usize {
        match self {
            Self::V0_3 => 464,
            Self::V0_3_1 => SHORT_HEADER,
        }
    }

    /// Length of the shortest flowop of such a master, in bytes.
    pub(super) fn shortest_flowop(self) -> usize {
        match self {
            Self::V0_3 => Layout::V1_0_7.record_len(),
            Self::V0_3_1 => Layout::V1_0_8.record_len(),
        }
    }
}

record! {
    /// The beginning of phase 1 or 2.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Header: 352 bytes {
        /// 1 or 2.
        [36] phase: u32,
        /// Phase 2: how many [`SlaveInfo`](super::SlaveInfo) follow the workorder.
        [40] slave_infos: u32,
        /// Phase 1: not 0 for each protocol that the group opens connections of.
        [48] protocols: [u32; 8],
        /// The data version.
        [80] version: Text<16>,
    }
}

const _: () = assert!(Header::LEN == SHORT_HEADER);

impl Header {
    /// Phase 1 of a group that opens connections of these protocols.
    pub fn of_phase_1(version: Version, protocols: impl IntoIterator<Item = Protocol>) -> Self {
        let mut announcement = [0; 8];
        for protocol in protocols {
            announcement[announced(protocol)] = 1;
        }
        Self {
            phase: 1,
            slave_infos: 0,
            protocols: announcement,
            version: Text::cut(version.text()),
        }
    }

    /// Phase 2, with so many [`SlaveInfo`](super::SlaveInfo) behind the workorder.
    pub fn of_phase_2(version: Version, slave_infos: u32) -> Self {
        Self {
            phase: 2,
            slave_infos,
            protocols: [0; 8],
            version: Text::cut(version.text()),
        }
    }

    /// The header that begins with these bytes, and the order of all that its sender sends. Of a
    /// longer header, as [`Version::header_len`] of its version has it, the rest is still to be
    /// read, and says nothing.
    ///
    /// Fails with [`Refusal::Magic`].
    pub fn decode(bytes: &[u8; SHORT_HEADER]) -> Result<(Self, Order), Refusal> {
        let order = order_of_probe(part(bytes, PROBE_AT)).ok_or(Refusal::Magic)?;
        if Text::<32>::read(bytes, 0, order) != *MAGIC {
            return Err(Refusal::Magic);
        }
        Ok((Self::of_bytes(bytes, order), order))
    }

    /// As it travels, as long as its version has it.
    pub fn encode(&self, order: Order) -> Vec<u8> {
        let mut bytes = self.to_bytes::<{ Self::LEN }>(order).to_vec();
        Text::<32>::cut(MAGIC).write(&mut bytes, 0, order);
        PROBE.write(&mut bytes, PROBE_AT, order);
        let len = self.version().map_or(SHORT_HEADER, Version::header_len);
        bytes.resize(len, 0);
        bytes
    }

    /// The data version, if it is one of those that are known.
    ///
    /// Fails with [`Refusal::Version`].
    pub fn version(&self) -> Result<Version, Refusal> {
        [Version::V0_3, Version::V0_3_1]
            .into_iter()
            .find(|version| self.version == *version.text())
            .ok_or(Refusal::Version(self.version))
    }

    /// Whether all protocols that are announced are among `supported`.
    ///
    /// Fails with [`Refusal::Protocol`].
    pub fn check_protocols(&self, supported: impl Fn(Protocol) -> bool) -> Result<(), Refusal> {
        for (index, &word) in self.protocols.iter().enumerate() {
            if word != 0 && !announcing(index).any(&supported) {
                return Err(Refusal::Protocol(index as u32));
            }
        }
        Ok(())
    }
}

const MAGIC: &str = "0xbadcafedeadbeef";
const PROBE_AT: usize = 32;

/// The order in which these bytes are the probe word.
pub(super) fn order_of_probe(word: [u8; 4]) -> Option<Order> {
    [Order::Little, Order::Big]
        .into_iter()
        .find(|order| u32::read(&word, 0, *order) == PROBE)
}

/// What a master writes so that a slave sees in which order it writes.
pub(super) const PROBE: u32 = 0xBADC;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back() {
        for order in [Order::Little, Order::Big] {
            for version in [Version::V0_3, Version::V0_3_1] {
                for header in [
                    Header::of_phase_1(version, [Protocol::Tcp, Protocol::Vsock]),
                    Header::of_phase_2(version, 7),
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
    fn what_is_no_header() {
        let good = Header::of_phase_1(Version::V0_3_1, []).encode(Order::Big);
        for at in [0, 16, 17, 32, 35] {
            let mut bytes: [u8; SHORT_HEADER] = *good.first_chunk().expect("a header");
            bytes[at] ^= 1;
            assert_eq!(Header::decode(&bytes), Err(Refusal::Magic), "byte {at}");
        }
    }

    #[test]
    fn versions_that_are_not_known() {
        for text in ["", "0.2", "0.3.2", "0.3.1.0"] {
            let header = Header {
                version: Text::cut(text),
                ..Header::default()
            };
            assert_eq!(header.version(), Err(Refusal::Version(Text::cut(text))));
            assert_eq!(header.encode(Order::Little).len(), SHORT_HEADER);
        }
    }

    #[test]
    fn protocols_are_refused_by_name() {
        let tcp_only = |protocol| protocol == Protocol::Tcp;
        let header =
            |protocols: &[Protocol]| Header::of_phase_1(Version::V0_3_1, protocols.iter().copied());
        assert_eq!(header(&[]).check_protocols(tcp_only), Ok(()));
        assert_eq!(header(&[Protocol::Tcp]).check_protocols(tcp_only), Ok(()));
        for (protocol, number) in [
            (Protocol::Ssl, 5),
            (Protocol::Mptcp, 2),
            (Protocol::Unix, 2),
        ] {
            let refused = header(&[protocol]).check_protocols(tcp_only);
            assert_eq!(refused, Err(Refusal::Protocol(number)));
            let taken = header(&[protocol]).check_protocols(|other| other == protocol);
            assert_eq!(taken, Ok(()));
        }
        let mut none = Header::default();
        none.protocols[0] = 1;
        assert_eq!(none.check_protocols(|_| true), Err(Refusal::Protocol(0)));
    }

    #[test]
    fn the_probe_shows_the_order() {
        for (word, order) in [
            ([0xDC, 0xBA, 0, 0], Some(Order::Little)),
            ([0, 0, 0xBA, 0xDC], Some(Order::Big)),
            ([0xBA, 0xDC, 0, 0], None),
            ([0; 4], None),
        ] {
            assert_eq!(order_of_probe(word), order, "{word:?}");
        }
    }
}
