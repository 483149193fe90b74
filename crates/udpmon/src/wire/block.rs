//! The block of 208 bytes at the start of each request and of each test datagram.

use std::fmt;

use codec::{Order, Record};

/// The meaning of a block. Stock responders drop other codes silently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Command {
    /// Starts a test, and sets the responder's time to zero.
    ZeroStats = 0x01,
    /// Requests the counts, and ends the responder's measurement of its host.
    GetStats = 0x02,
    /// A datagram of a test.
    Data = 0x04,
    /// Asks for a [`Self::Response`] of some length.
    Request = 0x08,
    /// Answers [`Self::Request`].
    Response = 0x09,
    /// Asks for a part of a histogram.
    GetHistogram = 0x10,
    /// Agrees.
    Ok = 0x20,
    /// Refuses: another host runs a test.
    InUse = 0x21,
    /// Ends a test.
    TestEnd = 0x22,
    /// Asks for a part of the records.
    GetRecords = 0x40,
    /// Asks for a part of the counters of the host.
    GetCounters = 0x43,
    /// Asks for a part of the host's CPU load.
    GetCpuLoad = 0x44,
    /// Asks for the counters of the network interface card.
    GetNic = 0x45,
    /// From a linerate: requests a numbered part of an [`Object`](super::Object).
    Fetch = 0x60,
    /// Answers [`Self::Fetch`].
    Fetched = 0x61,
    /// From a linerate: reports that the responder has ended a test. [`Block::length`] is the number of an
    /// [`EndReason`].
    Ended = 0x62,
    /// Clears the counts, after the exchanges that fit the clocks.
    Start = 0x80,
}

impl Command {
    const ALL: [Self; 17] = [
        Self::ZeroStats,
        Self::GetStats,
        Self::Data,
        Self::Request,
        Self::Response,
        Self::GetHistogram,
        Self::Ok,
        Self::InUse,
        Self::TestEnd,
        Self::GetRecords,
        Self::GetCounters,
        Self::GetCpuLoad,
        Self::GetNic,
        Self::Fetch,
        Self::Fetched,
        Self::Ended,
        Self::Start,
    ];

    /// The command of a code.
    pub fn of_code(code: u32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|command| *command as u32 == code)
    }
}

/// The reason for a responder's end of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndReason {
    /// Unknown.
    #[default]
    Unknown,
    /// The responder was stopped, or the test reached a limit.
    Stopped,
    /// Another test from the same host started.
    Replaced,
    /// No datagram arrived before the timeout.
    Silence,
}

impl EndReason {
    const ALL: [Self; 4] = [Self::Unknown, Self::Stopped, Self::Replaced, Self::Silence];

    /// Returns the reason with this number.
    pub fn of_number(number: u32) -> Self {
        Self::ALL.get(number as usize).copied().unwrap_or_default()
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "the responder ended the test",
            Self::Stopped => "the responder was stopped, or a limit of its own ended the test",
            Self::Replaced => "another test began from the same host",
            Self::Silence => "nothing came for too long",
        })
    }
}

codec::record! {
    /// The common block. The command decides which fields have a meaning; the others may hold any value.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Block: 208 bytes {
        /// The code of a [`Command`].
        [0] command: u32,
        /// [`VERSION`](super::VERSION) in replies; 0 in [`Command::ZeroStats`].
        [4] version: u32,
        /// The number of a datagram; the first one is 0.
        [8] number: i64,
        /// The send time, relative to the requester's time zero, in 0.1 µs; in [`Command::Request`], in µs.
        [16] sent: i64,
        /// The send time of a response, relative to the responder's time zero, in µs.
        [24] responded: i64,
        /// The requested length in bytes, or the bytes of memory for records.
        [32] length: u32,
        /// Stock: acknowledge each datagram. Stock responders fail to do so, so it is always 0.
        [36] acknowledge: u32,
        /// The low edge of histogram 0 in 0.1 µs; the number of the histogram in [`Command::GetHistogram`].
        [40] low: i32,
        /// The width of histogram 0's bins in 0.1 µs.
        [44] width: i32,
        /// The offset of the requested part in bytes; in [`Command::GetRecords`], in words of 8 bytes.
        [48] offset: u32,
        /// 1: record lost packets only.
        [52] lost_only: u32,
        /// The number of datagrams at the start that are not recorded.
        [56] skip: u32,
        /// Counts of the statistics: received datagrams, including late and repeated ones,
        [60] received: u32,
        /// skipped numbers,
        [64] lost: u32,
        /// and datagrams with a number not above all earlier ones.
        [68] bad_order: u32,
        /// From the first datagram of a test to the last, in 0.1 µs.
        [72] first_to_last: i64,
        /// 1: record time stamps of the kernel and of the network interface.
        [80] stamps: u32,
    }
}

impl Block {
    /// Creates a request of this kind. All other fields are zero.
    pub fn request(command: Command) -> Self {
        Self {
            command: command as u32,
            version: super::VERSION,
            ..Self::default()
        }
    }

    /// Reads the block of a datagram. Fields missing from a shorter datagram are zero; `None` without a command.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::LEN];
        let length = datagram.len().min(Self::LEN);
        bytes[..length].copy_from_slice(&datagram[..length]);
        (length >= 4).then(|| Self::of_bytes(&bytes, Order::Little))
    }

    /// Writes the fields over the start of a datagram, as far as they fit. Other bytes remain unchanged.
    pub fn write(&self, datagram: &mut [u8]) {
        let mut bytes = [0; Self::LEN];
        let length = datagram.len().min(Self::LEN);
        bytes[..length].copy_from_slice(&datagram[..length]);
        self.put(&mut bytes, Order::Little);
        datagram[..length].copy_from_slice(&bytes[..length]);
    }

    /// Returns only the block.
    pub fn encode(&self) -> [u8; Self::LEN] {
        self.to_bytes(Order::Little)
    }

    /// Returns the command; `None` for an unknown code.
    pub fn command(&self) -> Option<Command> {
        Command::of_code(self.command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_datagrams_have_zeros() {
        let mut datagram = [0xff; 14];
        let data = Block {
            number: 0x0102_0304_0506,
            ..Block::request(Command::Data)
        };
        data.write(&mut datagram);
        assert_eq!(datagram, [4, 0, 0, 0, 7, 0, 0, 0, 6, 5, 4, 3, 2, 1]);
        assert_eq!(Block::read(&datagram), Some(data));
        assert_eq!(Block::read(&datagram[..3]), None);
        assert_eq!(Block::read(&[0x11, 0, 0, 0]).unwrap().command(), None);
    }
}
