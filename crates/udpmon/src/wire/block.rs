//! The message block: the 208 bytes at the start of each request and of each test datagram.

use std::fmt;

use codec::{Endian, Record};

/// The command of a message block. Stock responders silently drop unknown codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Command {
    /// Starts a test, and sets the responder's time to zero.
    ZeroStats = 0x01,
    /// Requests the counts, and ends the responder's measurement of its host.
    GetStats = 0x02,
    /// A datagram of a test.
    Data = 0x04,
    /// Requests a [`Self::Response`] of a given length.
    Request = 0x08,
    /// Answers [`Self::Request`].
    Response = 0x09,
    /// Requests a part of a histogram.
    GetHistogram = 0x10,
    /// Confirms a request.
    Ok = 0x20,
    /// Refuses a test: another host runs one, or the responder lacks resources.
    InUse = 0x21,
    /// Ends a test.
    TestEnd = 0x22,
    /// Requests a part of the records.
    GetRecords = 0x40,
    /// Requests a part of the host's counters.
    GetCounters = 0x43,
    /// Requests a part of the host's CPU load.
    GetCpuLoad = 0x44,
    /// Requests the counters of the network interface card.
    GetNic = 0x45,
    /// Extension of linerate: requests a part of a [`ResultObject`](super::ResultObject).
    Fetch = 0x60,
    /// Answers [`Self::Fetch`].
    Fetched = 0x61,
    /// Extension of linerate: reports that the responder has ended a test. [`MessageBlock::length`]
    /// is the number of an [`EndReason`].
    Ended = 0x62,
    /// Clears the counts after the clock exchanges.
    Start = 0x80,
}

impl Command {
    /// The commands and their names in the protocol.
    const NAMES: [(Self, &str); 17] = [
        (Self::ZeroStats, "ZEROSTATS"),
        (Self::GetStats, "GETSTATS"),
        (Self::Data, "DATA"),
        (Self::Request, "REQ_RESP"),
        (Self::Response, "RESPONSE"),
        (Self::GetHistogram, "GETHIST0"),
        (Self::Ok, "OK"),
        (Self::InUse, "INUSE"),
        (Self::TestEnd, "TESTEND"),
        (Self::GetRecords, "GETINFO1"),
        (Self::GetCounters, "GETNETSNMP"),
        (Self::GetCpuLoad, "GETCPULOAD"),
        (Self::GetNic, "GETNICSTATS"),
        (Self::Fetch, "FETCH"),
        (Self::Fetched, "FETCHED"),
        (Self::Ended, "ENDED"),
        (Self::Start, "START"),
    ];

    /// Returns the command with this code.
    pub fn from_code(code: u32) -> Option<Self> {
        let mut commands = Self::NAMES.into_iter().map(|(command, _)| command);
        commands.find(|command| *command as u32 == code)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(command, _)| command == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

/// The reason why a responder ended a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndReason {
    /// An unknown reason.
    #[default]
    Unknown,
    /// The responder was stopped, or the test reached a limit.
    Stopped,
    /// Another test from the same host started.
    Replaced,
    /// No datagram arrived before the timeout.
    Timeout,
}

impl EndReason {
    const ALL: [Self; 4] = [Self::Unknown, Self::Stopped, Self::Replaced, Self::Timeout];

    /// Returns the reason with this number.
    pub fn from_number(number: u32) -> Self {
        Self::ALL.get(number as usize).copied().unwrap_or_default()
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "the responder ended the test",
            Self::Stopped => "the responder stopped, or the test reached one of its limits",
            Self::Replaced => "another test from the same host started",
            Self::Timeout => "the responder received no datagram before its timeout",
        })
    }
}

codec::record! {
    /// The message block. The command decides which fields have a meaning; the others may hold any
    /// value.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MessageBlock: 208 bytes {
        /// The code of a [`Command`].
        [0] command: u32,
        /// [`VERSION`](super::VERSION) in replies; 0 in [`Command::ZeroStats`].
        [4] version: u32,
        /// The number of a datagram; the first one is 0.
        [8] number: i64,
        /// The send time, relative to the requester's time zero, in 0.1 µs; in
        /// [`Command::Request`], in µs.
        [16] sent: i64,
        /// The send time of a response, relative to the responder's time zero, in µs.
        [24] responded: i64,
        /// The requested length in bytes, or the bytes of memory for records.
        [32] length: u32,
        /// Stock: request an acknowledgement per datagram. Stock responders send none, so linerate
        /// writes 0.
        [36] acknowledge: u32,
        /// The low edge of histogram 0 in 0.1 µs; the number of the histogram in
        /// [`Command::GetHistogram`].
        [40] low: i32,
        /// The width of histogram 0's bins in 0.1 µs.
        [44] width: i32,
        /// The offset of the requested part in bytes; in [`Command::GetRecords`], in words of 8
        /// bytes.
        [48] offset: u32,
        /// 1: record lost packets only.
        [52] lost_only: u32,
        /// The number of datagrams without a record at the start of a test.
        [56] skip: u32,
        /// In the statistics: the number of received datagrams, including late and repeated ones.
        [60] received: u32,
        /// In the statistics: the number of skipped numbers.
        [64] lost: u32,
        /// In the statistics: the number of datagrams with a number not above all earlier ones.
        [68] bad_order: u32,
        /// In the statistics: the time from the first arrival of a test to the last, in 0.1 µs.
        [72] first_to_last: i64,
        /// 1: record time stamps of the kernel and of the network interface.
        [80] stamps: u32,
    }
}

impl MessageBlock {
    /// Creates a block with this command and the protocol's version. All other fields are zero.
    pub fn with_command(command: Command) -> Self {
        Self {
            command: command as u32,
            version: super::VERSION,
            ..Self::default()
        }
    }

    /// Reads the block of a datagram. Missing fields of a short datagram are zero. Returns `None`
    /// if the command is missing.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::LEN];
        let length = datagram.len().min(Self::LEN);
        bytes[..length].copy_from_slice(&datagram[..length]);
        (length >= 4).then(|| Self::from_bytes(&bytes, Endian::Little))
    }

    /// Overwrites the start of a datagram with the fields that fit. Other bytes remain unchanged.
    pub fn write(&self, datagram: &mut [u8]) {
        let mut bytes = [0; Self::LEN];
        let length = datagram.len().min(Self::LEN);
        bytes[..length].copy_from_slice(&datagram[..length]);
        self.write_to(&mut bytes, Endian::Little);
        datagram[..length].copy_from_slice(&bytes[..length]);
    }

    /// Encodes the block.
    pub fn encode(&self) -> [u8; Self::LEN] {
        self.to_bytes(Endian::Little)
    }

    /// Returns the command; `None` for an unknown code.
    pub fn command(&self) -> Option<Command> {
        Command::from_code(self.command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_fields_of_short_datagrams_are_zero() {
        let mut datagram = [0xff; 14];
        let data = MessageBlock {
            number: 0x0102_0304_0506,
            ..MessageBlock::with_command(Command::Data)
        };
        data.write(&mut datagram);
        assert_eq!(datagram, [4, 0, 0, 0, 7, 0, 0, 0, 6, 5, 4, 3, 2, 1]);
        assert_eq!(MessageBlock::read(&datagram), Some(data));
        assert_eq!(MessageBlock::read(&datagram[..3]), None);
        assert_eq!(
            MessageBlock::read(&[0x11, 0, 0, 0]).unwrap().command(),
            None
        );
    }
}
