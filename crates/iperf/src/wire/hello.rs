//! Header of a client, in the first bytes of a TCP stream and in each UDP datagram.

use std::time::Duration;

use super::flags::{self, upper};
use super::{WallTime, read_word, write_word};
use crate::version::Version;

/// The longest permit key, in bytes.
pub const MAX_KEY_BYTES: usize = 128;
/// The largest [`Hello::transfer_id`].
pub const MAX_TRANSFER_ID: u32 = 0x7ff;
/// The bit of the word with the number of flows that marks a transfer id in its upper bits.
const HAS_TRANSFER_ID: u32 = 0x8000_0000;
const TRANSFER_ID_SHIFT: u32 = 20;
/// The longest name of a congestion control, in bytes: TCP_CA_NAME_MAX of linux/tcp.h, less a NUL.
pub const MAX_CONGESTION_CONTROL_BYTES: usize = 15;

/// A client's header: the parameters of the test that it requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The first word, see [`flags`]. [`Self::encode`] sets the length in it.
    pub flags: u32,
    /// `-P`.
    pub flows: u32,
    /// The number of this flow at the client, up to [`MAX_TRANSFER_ID`] (`--sync-transfer-id`).
    pub transfer_id: Option<u32>,
    /// The client's port for a connection back; in other tests the server's port.
    pub port: u32,
    /// `-l`, or 0.
    pub length: u32,
    /// `-w` of iperf 2.0.5 and older, or 0.
    pub window: u32,
    /// `-t` or `-n`.
    pub amount: SendAmount,
    /// The extension, which iperf 2.0.5 and older lack.
    pub extension: Option<Extension>,
    /// The start time of the test and the kernel's pacing rate.
    pub start: Option<TestStart>,
    /// The parameters of bursts or frames.
    pub bursts: Option<BurstParameters>,
    /// TCP's congestion control for both ends (`-Z`); only in a stream.
    pub congestion_control: Option<String>,
    /// The permit key. It is sent in clear text.
    pub key: Option<Vec<u8>>,
}

/// The amount of data that the sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendAmount {
    /// A time, in hundredths of a second on the wire.
    Time(Duration),
    /// A number of bytes.
    Bytes(u32),
}

/// The extension of the base header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// The upper flags, see [`upper`].
    pub upper: u16,
    /// The client's version.
    pub version: [u32; 2],
    /// `-S`.
    pub type_of_service: u8,
    /// `-b` in bits per second, or the N of `-b Npps` if only the client sends, or with
    /// [`upper::RATE_IN_DATAGRAMS`]; 0 is no limit.
    pub rate: u64,
    /// `--tcp-write-prefetch`.
    pub prefetch: u32,
}

/// The start time and the pacing rate of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestStart {
    /// The start time.
    pub at: WallTime,
    /// `--fq-rate` in bytes per second.
    pub fq_rate: u64,
}

/// The parameters of bursts or frames. Each has an integer part and a fraction in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurstParameters {
    /// Bursts or frames per second.
    pub rate: [u32; 2],
    /// The mean size: bits per second of frames, or bytes per burst.
    pub mean: [u32; 2],
    /// The variance of the size.
    pub variance: [u32; 2],
    /// The gap between the datagrams of a frame.
    pub gap: [u32; 2],
}

/// The carrier of a [`Hello`]. The offsets of some parts depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloTransport {
    /// The first bytes of a stream.
    Stream,
    /// A datagram, after its number and timestamp.
    Datagram,
}

/// An error in the bytes of a [`Hello`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// The stream or the datagram ends before the end of the header.
    #[error("the client's header ends after {0} bytes")]
    Truncated(usize),
    /// The permit key is empty or longer than [`MAX_KEY_BYTES`].
    #[error("a permit key of invalid length: {0} bytes")]
    KeyLength(usize),
    /// The name of the congestion control is empty, too long or no text.
    #[error("the client's header has an invalid name of a congestion control")]
    CongestionControl,
}

/// The length in bytes of the base header, which is the whole header of iperf 2.0.5 and older.
const BASE_LEN: usize = 24;
/// The length in bytes of the base header with the extension.
const EXTENDED_LEN: usize = 60;
/// The length in bytes of [`TestStart`], including a reserved word before it.
const START_LEN: usize = 20;
/// The length in bytes of [`BurstParameters`].
const BURSTS_LEN: usize = 32;
/// The length in bytes of a datagram's frame record, between the extension and the start.
const FRAME_LEN: usize = 32;
/// The length in bytes of the field with the length of the permit key.
const KEY_FIELD_LEN: usize = 2;

/// The offset of the congestion control in a stream: its length in two bytes, and its name.
const CONGESTION_CONTROL_OFFSET: usize = EXTENDED_LEN + START_LEN + BURSTS_LEN;

/// Decodes the start of the test from a hello without its key.
///
/// 2.2.1 sends the time of `--txstart-time` without a flag. The parameters of bursts may have its
/// place.
fn decode_start(
    hello: &[u8],
    flags_word: u32,
    upper_flags: u16,
    is_extended: bool,
    transport: HelloTransport,
) -> Option<TestStart> {
    let offset = transport.start_offset();
    if hello.len() < offset + START_LEN {
        return None;
    }
    let start = TestStart {
        at: WallTime::read(hello, offset + 4),
        fq_rate: u64::from(read_word(hello, offset + 16)) << 32
            | u64::from(read_word(hello, offset + 12)),
    };
    let is_flagged = upper_flags
        & (upper::TRIP_TIMES | upper::FQ_RATE | upper::ISOCHRONOUS | upper::EPOCH_START)
        != 0;
    let may_be_unflagged = match transport {
        HelloTransport::Stream => is_extended && upper_flags & upper::BURSTS == 0,
        HelloTransport::Datagram => upper_flags == 0 && flags_word & flags::UDP_TESTS != 0,
    };
    (is_flagged || (may_be_unflagged && start.at != WallTime::default())).then_some(start)
}

/// Decodes the name of a congestion control, with its length before it.
fn decode_congestion_control(bytes: &[u8]) -> Result<String, HelloError> {
    let (length, name) = bytes
        .split_first_chunk()
        .ok_or(HelloError::CongestionControl)?;
    let length = usize::from(u16::from_be_bytes(*length));
    let is_valid = (1..=MAX_CONGESTION_CONTROL_BYTES).contains(&length);
    let name = name.get(..length).filter(|_| is_valid);
    let name = name.and_then(|name| std::str::from_utf8(name).ok());
    let name = name.filter(|name| name.bytes().all(|byte| byte.is_ascii_graphic()));
    name.map(str::to_owned).ok_or(HelloError::CongestionControl)
}

impl Default for SendAmount {
    fn default() -> Self {
        Self::Time(Duration::from_secs(10))
    }
}

impl SendAmount {
    fn from_word(word: u32) -> Self {
        match word.cast_signed() {
            bytes @ 0.. => Self::Bytes(bytes.unsigned_abs()),
            time => Self::Time(Duration::from_millis(10) * time.unsigned_abs()),
        }
    }

    fn to_word(self) -> u32 {
        match self {
            Self::Bytes(bytes) => bytes.min(i32::MAX as u32),
            Self::Time(time) => {
                let hundredths = time.as_millis() / 10;
                let hundredths = i32::try_from(hundredths).unwrap_or(i32::MAX);
                (-hundredths).cast_unsigned()
            }
        }
    }
}

impl Default for Extension {
    fn default() -> Self {
        Self {
            upper: 0,
            version: Version::default().wire_version(),
            type_of_service: 0,
            rate: 0,
            prefetch: 0,
        }
    }
}

impl Extension {
    /// Returns the rate in bits per second that the client requests of a server with datagrams of
    /// `length` bytes; `None` without a limit.
    pub fn requested_rate(&self, length: u32) -> Option<f64> {
        let bits = if self.upper & upper::RATE_IN_DATAGRAMS == 0 {
            1.0
        } else {
            8.0 * f64::from(length)
        };
        (self.rate > 0).then_some(self.rate as f64 * bits)
    }
}

impl HelloTransport {
    /// Returns the offset of [`TestStart`] with its reserved word.
    fn start_offset(self) -> usize {
        match self {
            Self::Stream => EXTENDED_LEN,
            Self::Datagram => EXTENDED_LEN + FRAME_LEN,
        }
    }

    fn bursts_offset(self) -> usize {
        self.start_offset() + START_LEN
    }
}

impl Hello {
    /// Returns the length in bytes of a hello, without a permit key, from its first word.
    ///
    /// Returns `None` if the stream has no hello, only data.
    pub fn length(word: u32) -> Option<usize> {
        if word & (flags::VERSION1 | flags::VERSION2 | flags::EXTEND) == 0 {
            return None;
        }
        if word & flags::HAS_LENGTH != 0 {
            // The announced length may be shorter than the flags imply.
            return Some(((word & flags::LENGTH) >> 1).max(BASE_LEN as u32) as usize);
        }
        let is_extended = word & (flags::EXTEND | flags::VERSION2) != 0;
        Some(if is_extended { EXTENDED_LEN } else { BASE_LEN })
    }

    /// Returns the length in bytes of the permit key, from the hello before it; 0 without a key.
    pub fn key_length(bytes: &[u8]) -> Result<usize, HelloError> {
        if read_word(bytes, 0) & flags::KEY == 0 {
            return Ok(0);
        }
        let Some(length) = bytes.last_chunk().map(|length| u16::from_be_bytes(*length)) else {
            return Err(HelloError::Truncated(bytes.len()));
        };
        let length = usize::from(length);
        if (1..=MAX_KEY_BYTES).contains(&length) {
            Ok(length)
        } else {
            Err(HelloError::KeyLength(length))
        }
    }

    /// Decodes a hello.
    ///
    /// On a stream, `bytes` is as long as [`Self::length`] and [`Self::key_length`] return. In a
    /// datagram, `bytes` starts after number and timestamp, and may be truncated.
    pub fn decode(bytes: &[u8], transport: HelloTransport) -> Result<Self, HelloError> {
        let flags_word = read_word(bytes, 0);
        let announced_len = Self::length(flags_word).unwrap_or(BASE_LEN);
        let min_len = match transport {
            HelloTransport::Stream => announced_len,
            HelloTransport::Datagram => BASE_LEN,
        };
        if bytes.len() < min_len {
            return Err(HelloError::Truncated(bytes.len()));
        }
        let has_extension = bytes.len().min(announced_len) >= EXTENDED_LEN;
        let extension = (flags_word & (flags::EXTEND | flags::VERSION2) != 0 && has_extension)
            .then(|| Extension {
                upper: (read_word(bytes, 32) >> 16) as u16,
                version: [read_word(bytes, 36), read_word(bytes, 40)],
                type_of_service: bytes[47],
                rate: u64::from(read_word(bytes, 52) >> 8) << 32 | u64::from(read_word(bytes, 48)),
                prefetch: read_word(bytes, 56),
            });
        let bits = extension.map_or(0, |extension| extension.upper);
        // The announced length includes the field with the length of the key, at its end.
        let key_field_len = if flags_word & flags::KEY != 0 {
            KEY_FIELD_LEN
        } else {
            0
        };
        let end = match transport {
            HelloTransport::Stream => announced_len - key_field_len.min(announced_len),
            HelloTransport::Datagram => bytes.len(),
        };
        let start = decode_start(
            &bytes[..end],
            flags_word,
            bits,
            extension.is_some(),
            transport,
        );
        let bursts_offset = transport.bursts_offset();
        let pair = |index: usize| {
            [
                read_word(bytes, bursts_offset + 8 * index),
                read_word(bytes, bursts_offset + 8 * index + 4),
            ]
        };
        let has_bursts = match transport {
            HelloTransport::Stream => {
                bits & (upper::BURSTS | upper::ISOCHRONOUS) != 0 && end > bursts_offset
            }
            HelloTransport::Datagram => {
                bits & upper::SETTINGS != 0 && end >= bursts_offset + BURSTS_LEN
            }
        };
        let bursts = has_bursts.then(|| BurstParameters {
            rate: pair(0),
            mean: pair(1),
            variance: pair(2),
            gap: pair(3),
        });
        let has_congestion_control = transport == HelloTransport::Stream
            && has_extension
            && read_word(bytes, 32) & flags::CONGESTION_CONTROL != 0;
        let congestion_control = if has_congestion_control {
            let name = bytes.get(CONGESTION_CONTROL_OFFSET..end);
            Some(decode_congestion_control(name.unwrap_or_default())?)
        } else {
            None
        };
        let key = match transport {
            HelloTransport::Stream => bytes
                .get(announced_len..)
                .filter(|key| !key.is_empty() && key_field_len > 0),
            HelloTransport::Datagram => None,
        };
        let flows = read_word(bytes, 4);
        let has_id = flows & HAS_TRANSFER_ID != 0 && extension.is_some();
        let transfer_id = has_id.then_some(flows >> TRANSFER_ID_SHIFT & MAX_TRANSFER_ID);
        let transfer_id = transfer_id.filter(|id| *id > 0);
        // With a transfer id, a stream has the flag of -d and -r, too. With -d it also has another.
        let is_marker = has_id && flags_word & flags::RUN_NOW == 0;
        let marker = if is_marker && transport == HelloTransport::Stream {
            flags::VERSION1
        } else {
            0
        };
        Ok(Self {
            flags: flags_word & !marker,
            flows: if has_id { flows & 0xffff } else { flows },
            transfer_id,
            port: read_word(bytes, 8),
            length: read_word(bytes, 12),
            window: read_word(bytes, 16),
            amount: SendAmount::from_word(read_word(bytes, 20)),
            extension,
            start,
            bursts,
            congestion_control,
            key: key.map(<[u8]>::to_vec),
        })
    }

    /// Encodes the hello for a stream, or for a datagram after its number and timestamp.
    pub fn encode(&self, transport: HelloTransport) -> Vec<u8> {
        let mut bytes = vec![
            0;
            self.announced_len(transport)
                .max(self.written_len(transport))
        ];
        let total_len = self.announced_len(transport)
            + if transport == HelloTransport::Datagram {
                16
            } else {
                0
            };
        let mut flags_word = self.flags & !(flags::HAS_LENGTH | flags::LENGTH);
        let mut flows = self.flows;
        if let Some(id) = self.transfer_id {
            flows |= HAS_TRANSFER_ID | id << TRANSFER_ID_SHIFT;
            if transport == HelloTransport::Stream {
                flags_word |= flags::VERSION1;
            }
        }
        if self.extension.is_some() {
            flags_word |= flags::HAS_LENGTH | (total_len as u32) << 1 & flags::LENGTH;
        }
        for (at, value) in [
            (0, flags_word),
            (4, flows),
            (8, self.port),
            (12, self.length),
            (16, self.window),
            (20, self.amount.to_word()),
        ] {
            write_word(&mut bytes, at, value);
        }
        if let Some(extension) = &self.extension {
            let lower = match self.congestion_control {
                Some(_) if transport == HelloTransport::Stream => flags::CONGESTION_CONTROL,
                _ => 0,
            };
            write_word(&mut bytes, 32, u32::from(extension.upper) << 16 | lower);
            write_word(&mut bytes, 36, extension.version[0]);
            write_word(&mut bytes, 40, extension.version[1]);
            write_word(&mut bytes, 44, extension.type_of_service.into());
            write_word(&mut bytes, 48, extension.rate as u32);
            write_word(&mut bytes, 52, ((extension.rate >> 32) as u32) << 8);
            write_word(&mut bytes, 56, extension.prefetch);
        }
        if let Some(start) = &self.start {
            let at = transport.start_offset();
            start.at.write(&mut bytes, at + 4);
            write_word(&mut bytes, at + 12, start.fq_rate as u32);
            write_word(&mut bytes, at + 16, (start.fq_rate >> 32) as u32);
        }
        if let Some(bursts) = &self.bursts {
            let words = [bursts.rate, bursts.mean, bursts.variance, bursts.gap];
            for (index, value) in words.as_flattened().iter().enumerate() {
                write_word(&mut bytes, transport.bursts_offset() + 4 * index, *value);
            }
        }
        let announced_len = self.announced_len(transport);
        bytes.truncate(announced_len.max(if transport == HelloTransport::Datagram {
            self.written_len(transport)
        } else {
            0
        }));
        if let Some(name) = &self.congestion_control
            && transport == HelloTransport::Stream
        {
            let (at, length) = (CONGESTION_CONTROL_OFFSET, (name.len() as u16).to_be_bytes());
            bytes[at..at + 2].copy_from_slice(&length);
            bytes[at + 2..at + 2 + name.len()].copy_from_slice(name.as_bytes());
        }
        if let Some(key) = &self.key {
            let length = (key.len() as u16).to_be_bytes();
            bytes[announced_len - KEY_FIELD_LEN..].copy_from_slice(&length);
            bytes.extend(key);
        }
        bytes
    }

    /// Whether any of these upper flags is set.
    pub fn has_any_flag(&self, bits: u16) -> bool {
        self.extension
            .is_some_and(|extension| extension.upper & bits != 0)
    }

    /// Returns the announced length, without the number and timestamp of a datagram.
    fn announced_len(&self, transport: HelloTransport) -> usize {
        let bits = self.extension.map_or(0, |extension| extension.upper);
        let key_field_len = if self.key.is_some() { KEY_FIELD_LEN } else { 0 };
        let length = match (self.extension, transport) {
            (None, _) => BASE_LEN,
            (_, HelloTransport::Stream) if self.congestion_control.is_some() => {
                let name = self.congestion_control.as_ref().map_or(0, String::len);
                CONGESTION_CONTROL_OFFSET + 2 + name
            }
            (_, HelloTransport::Datagram) if self.bursts.is_some() => EXTENDED_LEN + 2 * FRAME_LEN,
            (_, HelloTransport::Datagram)
                if self.start.is_some() && bits & upper::EPOCH_START == 0 =>
            {
                EXTENDED_LEN + FRAME_LEN
            }
            // Without a start, stock announces too few bytes and so cuts the bursts off.
            (_, HelloTransport::Stream) if self.bursts.is_some() && self.start.is_none() => {
                EXTENDED_LEN + BURSTS_LEN
            }
            (_, HelloTransport::Stream) if self.bursts.is_some() => {
                EXTENDED_LEN + START_LEN + BURSTS_LEN
            }
            (_, HelloTransport::Stream) if self.start.is_some() => EXTENDED_LEN + START_LEN,
            _ => EXTENDED_LEN,
        };
        length + key_field_len
    }

    /// Returns the offset of the end of the last part, without a permit key.
    fn written_len(&self, transport: HelloTransport) -> usize {
        match self {
            Self {
                bursts: Some(_), ..
            } => transport.bursts_offset() + BURSTS_LEN,
            Self { start: Some(_), .. } => transport.start_offset() + START_LEN,
            Self {
                extension: Some(_), ..
            } => EXTENDED_LEN,
            _ => BASE_LEN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            flags: flags::EXTEND,
            flows: 3,
            transfer_id: Some(MAX_TRANSFER_ID),
            extension: Some(Extension::default()),
            start: Some(TestStart::default()),
            ..Hello::default()
        }
    }

    #[test]
    fn a_stream_has_transfer_id_congestion_control_and_key() {
        for name in ["x", "cubic", "123456789012345"] {
            let hello = Hello {
                flags: flags::EXTEND | flags::KEY,
                congestion_control: Some(name.to_owned()),
                key: Some(b"a key".to_vec()),
                ..hello()
            };
            let bytes = hello.encode(HelloTransport::Stream);
            let decoded = Hello::decode(&bytes, HelloTransport::Stream).unwrap();
            let expected = Hello {
                flags: decoded.flags,
                start: None,
                ..hello
            };
            assert_eq!(decoded, expected);
            let own_flags = decoded.flags & !(flags::HAS_LENGTH | flags::LENGTH);
            assert_eq!(own_flags, flags::EXTEND | flags::KEY);
        }
    }

    /// With -d, the flag of a connection back remains.
    #[test]
    fn a_transfer_id_keeps_the_connection_back() {
        for (own_flags, expected) in [
            (0, 0),
            (
                flags::VERSION1 | flags::RUN_NOW,
                flags::VERSION1 | flags::RUN_NOW,
            ),
        ] {
            let hello = Hello {
                flags: flags::EXTEND | own_flags,
                ..hello()
            };
            let bytes = hello.encode(HelloTransport::Stream);
            let decoded = Hello::decode(&bytes, HelloTransport::Stream).unwrap();
            let kept = decoded.flags & (flags::VERSION1 | flags::RUN_NOW);
            assert_eq!((decoded.transfer_id, kept), (hello.transfer_id, expected));
        }
        let bytes = hello().encode(HelloTransport::Datagram);
        let decoded = Hello::decode(&bytes, HelloTransport::Datagram).unwrap();
        assert_eq!((decoded.flows, decoded.transfer_id), (3, Some(0x7ff)));
    }

    #[test]
    fn invalid_names_of_a_congestion_control_are_errors() {
        for name in [
            &b""[..],
            b"\0\0",
            b"\0\x10",
            b"\0\x05cub",
            b"\0\x03a b",
            b"\0\x01\xff",
        ] {
            let decoded = decode_congestion_control(name);
            assert_eq!(decoded, Err(HelloError::CongestionControl), "{name:?}");
        }
        let longest = b"\0\x0f123456789012345";
        assert_eq!(decode_congestion_control(longest).unwrap().len(), 15);
    }
}
