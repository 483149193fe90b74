//! The extension of the protocol between two linerates: numbered parts of objects, and exact figures.

use codec::{Order, Record};

use super::Command;

/// An object that [`Command::Fetch`] requests by the number in [`Block::low`](super::Block::low).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// A [`Histogram`](super::Histogram): 0–4.
    Histogram(u32),
    /// A [`CounterImage`](super::CounterImage): 5.
    Counters,
    /// [`NicCounters`](super::NicCounters): 6.
    Nic,
    /// [`CpuLoad`](super::CpuLoad)s: 7.
    CpuLoad,
    /// [`PacketRecord`](super::PacketRecord)s whose arrival times are in ns: 8.
    ExactRecords,
    /// [`LostRecord`](super::LostRecord)s: 9.
    LostRecords,
    /// [`Details`]: 10.
    Details,
}

impl Object {
    /// Returns the object with this number.
    pub fn of_number(number: i32) -> Option<Self> {
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

    /// Its number.
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
    /// The head of a [`Command::Fetched`]; the bytes of the object follow.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Part: 32 bytes {
        /// [`Command::Fetched`].
        [0] command: u32,
        /// [`VERSION`](super::VERSION).
        [4] version: u32,
        /// The number of the request.
        [8] request: u64,
        /// The number of the object.
        [16] object: u32,
        /// The offset of the bytes in the object.
        [20] offset: u32,
        /// The length of the object.
        [24] total: u32,
        /// The number of bytes that follow.
        [28] length: u32,
    }
}

impl Part {
    /// The head and the bytes of a part of an object, which has `total` bytes.
    pub fn encode(
        request: u64,
        object: Object,
        offset: u32,
        total: usize,
        bytes: &[u8],
    ) -> Vec<u8> {
        let head = Self {
            command: Command::Fetched as u32,
            version: super::VERSION,
            request,
            object: object.number() as u32,
            offset,
            total: u32::try_from(total).unwrap_or(u32::MAX),
            length: bytes.len() as u32,
        };
        let head: [u8; Self::LEN] = head.to_bytes(Order::Little);
        [&head[..], bytes].concat()
    }

    /// Reads a part; `None` for any other datagram.
    pub fn decode(datagram: &[u8]) -> Option<(Self, &[u8])> {
        let (head, bytes) = datagram.split_at_checked(Self::LEN)?;
        let head = Self::of_bytes(head, Order::Little);
        let is_part = head.command == Command::Fetched as u32
            && head.version == super::VERSION
            && head.length as usize == bytes.len()
            && u64::from(head.offset) + u64::from(head.length) <= u64::from(head.total);
        is_part.then_some((head, bytes))
    }
}

codec::record! {
    /// A responder's exact figures of a test.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Details: 208 bytes {
        /// Different packets that arrived.
        [0] received: u64,
        /// Numbers up to the highest that have not arrived.
        [8] lost: u64,
        /// Packets that arrived after one with a higher number.
        [16] late: u64,
        /// Packets that arrived again.
        [24] repeated: u64,
        /// The highest number plus 1; 0 if there is none.
        [32] end: u64,
        /// The payload of all packets that arrived.
        [40] bytes: u64,
        /// Packets that the kernel dropped because the socket's receive buffer was full.
        [48] socket_drops: u64,
        /// The arrival time of the first packet, relative to the responder's time zero, in ns.
        [56] first_ns: u64,
        /// The arrival time of the last packet.
        [64] last_ns: u64,
        /// The clock of arrival times: 0 for this program's, 1 for the kernel's, 2 for the network interface's.
        [72] clock: u32,
        /// The capacity of the record memory in bytes.
        [76] record_bytes: u32,
        /// Gaps between arrivals.
        [80] gaps: u64,
        /// Their sum in ns.
        [88] gap_sum_ns: u64,
        /// The minimum, percentiles 1, 10, 50, 90, 99 and 99.9, and the maximum, in ns.
        [96] gap_points_ns: [u64; 8],
        /// Other tests of the same responder during this one.
        [160] others: u32,
        /// The change of the responder's wall clock during the test, in µs.
        [164] clock_step_us: i32,
        /// Packets that are too short for a number, or whose number is not of this test.
        [168] strange: u64,
        /// Packets without a kernel time stamp. Their arrival times are by this program's clock.
        [176] unstamped: u64,
    }
}

impl Details {
    /// The percentiles of [`Self::gap_points_ns`].
    pub const PERCENTILES: [f64; 8] = [0.0, 1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 100.0];

    /// Reads them.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.first_chunk()?;
        Some(Self::of_bytes(bytes, Order::Little))
    }

    /// The bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        self.to_bytes(Order::Little)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back() {
        let part = Part::encode(7, Object::Counters, 90, 100, &[5; 10]);
        let (head, bytes) = Part::decode(&part).unwrap();
        assert_eq!((head.request, head.object, head.total), (7, 5, 100));
        assert_eq!(bytes, [5; 10]);
        assert_eq!(Part::decode(&part[..part.len() - 1]), None);
        let beyond = Part::encode(7, Object::Nic, 91, 100, &[5; 10]);
        assert_eq!(Part::decode(&beyond), None);
        assert!(Part::decode(&Part::encode(7, Object::Nic, 100, 100, &[])).is_some());
        for number in 0..11 {
            assert_eq!(Object::of_number(number).map(Object::number), Some(number));
        }
        assert_eq!((Object::of_number(-1), Object::of_number(11)), (None, None));
    }
}
