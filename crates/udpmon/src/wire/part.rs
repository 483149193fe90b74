//! The messages that only two linerates exchange: parts of objects with a header, and exact
//! figures.

use codec::{Endian, Record};

use super::Command;

/// An object that [`Command::Fetch`] requests. Its number is in
/// [`MessageBlock::low`](super::MessageBlock::low).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResultObject {
    /// Numbers 0–4: a [`LinearHistogram`](super::LinearHistogram).
    Histogram(u32),
    /// Number 5: a [`CountersObject`](super::CountersObject).
    Counters,
    /// Number 6: [`NicCounters`](super::NicCounters).
    Nic,
    /// Number 7: [`CpuLoad`](super::CpuLoad)s.
    CpuLoad,
    /// Number 8: [`ArrivalRecord`](super::ArrivalRecord)s with arrival times in ns.
    ExactRecords,
    /// Number 9: [`LostRecord`](super::LostRecord)s.
    LostRecords,
    /// Number 10: [`ResponderDetails`].
    Details,
}

impl ResultObject {
    /// Returns the object with this number.
    pub fn from_number(number: i32) -> Option<Self> {
        Some(match number {
            0..=4 => Self::Histogram(number as u32),
            5 => Self::Counters,
            6 => Self::Nic,
            7 => Self::CpuLoad,
            8 => Self::ExactRecords,
            9 => Self::LostRecords,
            10 => Self::Details,
            _ => return None,
        })
    }

    /// Returns the number of the object.
    pub fn number(self) -> i32 {
        match self {
            Self::Histogram(number) => number as i32,
            Self::Counters => 5,
            Self::Nic => 6,
            Self::CpuLoad => 7,
            Self::ExactRecords => 8,
            Self::LostRecords => 9,
            Self::Details => 10,
        }
    }
}

codec::record! {
    /// The header of a [`Command::Fetched`] message. The bytes of the part follow.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PartHeader: 32 bytes {
        /// [`Command::Fetched`].
        [0] command: u32,
        /// [`VERSION`](super::VERSION).
        [4] version: u32,
        /// The number of the request.
        [8] request: u64,
        /// The number of the object.
        [16] object: u32,
        /// The offset of the part in the object.
        [20] offset: u32,
        /// The length of the object.
        [24] total: u32,
        /// The number of bytes that follow.
        [28] length: u32,
    }
}

impl PartHeader {
    /// Encodes the header and the bytes of a part. The object has `total` bytes.
    pub fn encode(
        request: u64,
        object: ResultObject,
        offset: u32,
        total: usize,
        bytes: &[u8],
    ) -> Vec<u8> {
        let header = Self {
            command: Command::Fetched as u32,
            version: super::VERSION,
            request,
            object: object.number() as u32,
            offset,
            total: u32::try_from(total).unwrap_or(u32::MAX),
            length: bytes.len() as u32,
        };
        let header: [u8; Self::LEN] = header.to_bytes(Endian::Little);
        [&header[..], bytes].concat()
    }

    /// Decodes a part into its header and its bytes; `None` for any other datagram.
    pub fn decode(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (header, bytes) = datagram.split_at_checked(Self::LEN)?;
        let header = Self::from_bytes(header, Endian::Little);
        let is_part = header.command == Command::Fetched as u32
            && header.version == super::VERSION
            && header.length as usize == bytes.len()
            && u64::from(header.offset) + u64::from(header.length) <= u64::from(header.total);
        is_part.then_some((header, bytes))
    }
}

codec::record! {
    /// A responder's exact figures of a test.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ResponderDetails: 208 bytes {
        /// Packets that arrived, each counted once.
        [0] received: u64,
        /// Missing numbers below the highest received number.
        [8] lost: u64,
        /// Packets that arrived after one with a higher number.
        [16] late: u64,
        /// Packets that arrived again.
        [24] repeated: u64,
        /// The highest number plus 1; 0 if there is none.
        [32] end: u64,
        /// The payload of all packets that arrived, in bytes.
        [40] bytes: u64,
        /// Packets that the kernel dropped because the socket's receive buffer was full; all ones if
        /// unavailable. See [`Self::socket_drops`].
        [48] socket_drops: u64,
        /// The arrival time of the first packet, relative to the responder's time zero, in ns.
        [56] first_ns: u64,
        /// The arrival time of the last packet, likewise.
        [64] last_ns: u64,
        /// The clock of arrival times: 0 for the responder program, 1 for its kernel, 2 for the
        /// network interface.
        [72] clock: u32,
        /// The capacity of the record memory in bytes.
        [76] record_bytes: u32,
        /// The number of gaps between arrivals.
        [80] gaps: u64,
        /// The sum of these gaps in ns.
        [88] gap_sum_ns: u64,
        /// Percentiles of these gaps in ns: minimum, 1, 10, 50, 90, 99, 99.9 and maximum.
        [96] gap_percentiles_ns: [u64; 8],
        /// The number of other tests of the same responder during this one.
        [160] overlapping_tests: u32,
        /// The change of the responder's wall clock during the test, in µs.
        [164] clock_step_us: i32,
        /// Packets without a number, or with a number that is invalid in this test.
        [168] invalid: u64,
        /// Packets without a kernel time stamp. Their arrival times are clock reads of the
        /// responder program.
        [176] unstamped: u64,
    }
}

impl ResponderDetails {
    /// The percentiles of [`Self::gap_percentiles_ns`].
    pub const PERCENTILES: [f64; 8] = [0.0, 1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 100.0];

    /// The value of [`Self::socket_drops`] without a counter.
    pub const UNKNOWN_DROPS: u64 = u64::MAX;

    /// Decodes the figures.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.first_chunk()?;
        Some(Self::from_bytes(bytes, Endian::Little))
    }

    /// Returns the packets that the kernel dropped; `None` if unavailable.
    pub fn socket_drops(&self) -> Option<u64> {
        Some(self.socket_drops).filter(|drops| *drops != Self::UNKNOWN_DROPS)
    }

    /// Encodes the figures.
    pub fn encode(&self) -> [u8; Self::LEN] {
        self.to_bytes(Endian::Little)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_round_trip() {
        let part = PartHeader::encode(7, ResultObject::Counters, 90, 100, &[5; 10]);
        let (header, bytes) = PartHeader::decode(&part).unwrap();
        assert_eq!((header.request, header.object, header.total), (7, 5, 100));
        assert_eq!(bytes, [5; 10]);
        assert_eq!(PartHeader::decode(&part[..part.len() - 1]), None);
        let beyond = PartHeader::encode(7, ResultObject::Nic, 91, 100, &[5; 10]);
        assert_eq!(PartHeader::decode(&beyond), None);
        assert!(
            PartHeader::decode(&PartHeader::encode(7, ResultObject::Nic, 100, 100, &[])).is_some()
        );
        for number in 0..11 {
            assert_eq!(
                ResultObject::from_number(number).map(ResultObject::number),
                Some(number)
            );
        }
        assert_eq!(
            (ResultObject::from_number(-1), ResultObject::from_number(11)),
            (None, None)
        );
    }
}
