//! A client's header: in the first bytes of a stream, and in each datagram.

use std::time::Duration;

use super::flags::{self, upper};
use super::{VERSION, WallTime, put, word};

/// The longest permit key, in bytes.
pub const MOST_KEY: usize = 128;

/// What a client asks of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The first word, see [`flags`]; its length is set on encoding.
    pub flags: u32,
    /// `-P`.
    pub flows: u32,
    /// The port that a test back goes to, or else the server's.
    pub port: u32,
    /// `-l`, or 0.
    pub length: u32,
    /// `-w` of iperf 2.0.5 and older, or 0.
    pub window: u32,
    /// `-t` or `-n`.
    pub amount: Amount,
    /// What iperf 2.0.5 and older do not have.
    pub extension: Option<Extension>,
    /// When the test starts, or how the kernel paces it.
    pub start: Option<Start>,
    /// Bursts or frames.
    pub bursts: Option<Bursts>,
    /// The permit key. It is sent in clear text.
    pub key: Option<Vec<u8>>,
}

/// How much the sender sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A time, in hundredths of a second on the wire.
    Time(Duration),
    /// So many bytes.
    Bytes(u32),
}

/// The rest of the ordinary header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// See [`upper`].
    pub upper: u16,
    /// The client's version.
    pub version: [u32; 2],
    /// `-S`.
    pub type_of_service: u8,
    /// `-b` in bits per second; of datagrams per second sometimes these. 0 is none.
    pub rate: u64,
    /// `--tcp-write-prefetch`.
    pub prefetch: u32,
}

/// The start of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// The moment.
    pub at: WallTime,
    /// `--fq-rate` in bytes per second.
    pub fq_rate: u64,
}

/// What bursts or frames are like. Fractions are millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bursts {
    /// A second, whole and fraction.
    pub rate: [u32; 2],
    /// Their mean size, whole and fraction: bits per second, or bytes of a burst.
    pub mean: [u32; 2],
    /// Its variance, whole and fraction.
    pub variance: [u32; 2],
    /// The gap inside a burst, whole and fraction.
    pub gap: [u32; 2],
}

/// What a [`Hello`] travels in: some of its parts lie elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The first bytes of a stream.
    Stream,
    /// A datagram, behind its number and stamp.
    Datagram,
}

/// Why bytes are no [`Hello`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The stream or the datagram ended before.
    #[error("the client's header ends after {0} bytes")]
    Short(usize),
    /// A key of no byte, or of more than [`MOST_KEY`].
    #[error("a permit key of {0} bytes")]
    Key(usize),
}

/// The header of iperf 2.0.5 and older.
const BASE: usize = 24;
/// The end of the ordinary header.
const EXTENDED: usize = 60;
/// Bytes of [`Start`] with a reserved word before it.
const START: usize = 20;
/// Bytes of [`Bursts`].
const BURSTS: usize = 32;
/// The frame record of a datagram, between the ordinary header and the start.
const FRAME: usize = 32;
/// The permit key's length.
const KEY_LENGTH: usize = 2;

impl Default for Amount {
    fn default() -> Self {
        Self::Time(Duration::from_secs(10))
    }
}

impl Amount {
    fn of_word(word: u32) -> Self {
        match word.cast_signed() {
            bytes @ 0.. => Self::Bytes(bytes.unsigned_abs()),
            time => Self::Time(Duration::from_millis(10) * time.unsigned_abs()),
        }
    }

    fn word(self) -> u32 {
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
            version: VERSION,
            type_of_service: 0,
            rate: 0,
            prefetch: 0,
        }
    }
}

impl Over {
    /// Where [`Start`] begins, with its reserved word.
    fn start(self) -> usize {
        match self {
            Self::Stream => EXTENDED,
            Self::Datagram => EXTENDED + FRAME,
        }
    }

    fn bursts(self) -> usize {
        self.start() + START
    }
}

impl Hello {
    /// How many bytes of a stream belong to a hello that begins with this word, a permit key not included; `None` if
    /// the stream has none: all of it is data.
    pub fn length(word: u32) -> Option<usize> {
        if word & (flags::VERSION1 | flags::VERSION2 | flags::EXTEND) == 0 {
            return None;
        }
        if word & flags::HAS_LENGTH != 0 {
            // What is announced may be less than the flags imply.
            return Some(((word & flags::LENGTH) >> 1).max(BASE as u32) as usize);
        }
        let is_extended = word & (flags::EXTEND | flags::VERSION2) != 0;
        Some(if is_extended { EXTENDED } else { BASE })
    }

    /// The length of the permit key that follows the first bytes of a stream.
    pub fn key_length(bytes: &[u8]) -> Result<usize, Unreadable> {
        if word(bytes, 0) & flags::KEY == 0 {
            return Ok(0);
        }
        let Some(length) = bytes.last_chunk().map(|length| u16::from_be_bytes(*length)) else {
            return Err(Unreadable::Short(bytes.len()));
        };
        let length = usize::from(length);
        if (1..=MOST_KEY).contains(&length) {
            Ok(length)
        } else {
            Err(Unreadable::Key(length))
        }
    }

    /// Reads the first bytes of a stream, as many as [`Self::length`] and [`Self::key_length`] say, or the bytes of a
    /// datagram behind its number and stamp, which may be cut.
    pub fn decode(bytes: &[u8], over: Over) -> Result<Self, Unreadable> {
        let first = word(bytes, 0);
        let announced = Self::length(first).unwrap_or(BASE);
        let least = match over {
            Over::Stream => announced,
            Over::Datagram => BASE,
        };
        if bytes.len() < least {
            return Err(Unreadable::Short(bytes.len()));
        }
        let has = |end: usize| bytes.len() >= end && announced >= end.min(EXTENDED);
        let extension =
            (first & (flags::EXTEND | flags::VERSION2) != 0 && has(EXTENDED)).then(|| Extension {
                upper: (word(bytes, 32) >> 16) as u16,
                version: [word(bytes, 36), word(bytes, 40)],
                type_of_service: bytes[47],
                rate: u64::from(word(bytes, 52) >> 8) << 32 | u64::from(word(bytes, 48)),
                prefetch: word(bytes, 56),
            });
        let bits = extension.map_or(0, |extension| extension.upper);
        // A key's length stands behind what else is announced.
        let keyed = if first & flags::KEY != 0 {
            KEY_LENGTH
        } else {
            0
        };
        let end = match over {
            Over::Stream => announced - keyed.min(announced),
            Over::Datagram => bytes.len(),
        };
        let is_started = bits
            & (upper::TRIP_TIMES | upper::FQ_RATE | upper::ISOCHRONOUS | upper::EPOCH_START)
            != 0;
        let start = over.start();
        let start = (is_started && end >= start + START).then(|| Start {
            at: WallTime::read(bytes, start + 4),
            fq_rate: u64::from(word(bytes, start + 16)) << 32 | u64::from(word(bytes, start + 12)),
        });
        let bursts = over.bursts();
        let pair = |index: usize| {
            [
                word(bytes, bursts + 8 * index),
                word(bytes, bursts + 8 * index + 4),
            ]
        };
        let has_bursts = match over {
            Over::Stream => bits & (upper::BURSTS | upper::ISOCHRONOUS) != 0 && end > bursts,
            Over::Datagram => bits & upper::SETTINGS != 0 && end >= bursts + BURSTS,
        };
        let bursts = has_bursts.then(|| Bursts {
            rate: pair(0),
            mean: pair(1),
            variance: pair(2),
            gap: pair(3),
        });
        let key = match over {
            Over::Stream => bytes
                .get(announced..)
                .filter(|key| !key.is_empty() && keyed > 0),
            Over::Datagram => None,
        };
        Ok(Self {
            flags: first,
            flows: word(bytes, 4),
            port: word(bytes, 8),
            length: word(bytes, 12),
            window: word(bytes, 16),
            amount: Amount::of_word(word(bytes, 20)),
            extension,
            start,
            bursts,
            key: key.map(<[u8]>::to_vec),
        })
    }

    /// The bytes, as a stream begins with them or as they stand behind a datagram's number and stamp.
    pub fn encode(&self, over: Over) -> Vec<u8> {
        let mut bytes = vec![0; self.announced(over).max(self.written(over))];
        let announced = self.announced(over) + if over == Over::Datagram { 16 } else { 0 };
        let mut first = self.flags & !(flags::HAS_LENGTH | flags::LENGTH);
        if self.extension.is_some() {
            first |= flags::HAS_LENGTH | (announced as u32) << 1 & flags::LENGTH;
        }
        for (at, value) in [
            (0, first),
            (4, self.flows),
            (8, self.port),
            (12, self.length),
            (16, self.window),
            (20, self.amount.word()),
        ] {
            put(&mut bytes, at, value);
        }
        if let Some(extension) = &self.extension {
            put(&mut bytes, 32, u32::from(extension.upper) << 16);
            put(&mut bytes, 36, extension.version[0]);
            put(&mut bytes, 40, extension.version[1]);
            put(&mut bytes, 44, extension.type_of_service.into());
            put(&mut bytes, 48, extension.rate as u32);
            put(&mut bytes, 52, ((extension.rate >> 32) as u32) << 8);
            put(&mut bytes, 56, extension.prefetch);
        }
        if let Some(start) = &self.start {
            let at = over.start();
            start.at.write(&mut bytes, at + 4);
            put(&mut bytes, at + 12, start.fq_rate as u32);
            put(&mut bytes, at + 16, (start.fq_rate >> 32) as u32);
        }
        if let Some(bursts) = &self.bursts {
            let words = [bursts.rate, bursts.mean, bursts.variance, bursts.gap];
            for (index, value) in words.as_flattened().iter().enumerate() {
                put(&mut bytes, over.bursts() + 4 * index, *value);
            }
        }
        let announced = self.announced(over);
        bytes.truncate(announced.max(if over == Over::Datagram {
            self.written(over)
        } else {
            0
        }));
        if let Some(key) = &self.key {
            let length = (key.len() as u16).to_be_bytes();
            bytes[announced - KEY_LENGTH..].copy_from_slice(&length);
            bytes.extend(key);
        }
        bytes
    }

    /// Whether one of these upper flags is set.
    pub fn has(&self, bits: u16) -> bool {
        self.extension
            .is_some_and(|extension| extension.upper & bits != 0)
    }

    /// The length field, without the number and the stamp of a datagram.
    fn announced(&self, over: Over) -> usize {
        let bits = self.extension.map_or(0, |extension| extension.upper);
        let keyed = if self.key.is_some() { KEY_LENGTH } else { 0 };
        let length = match (self.extension, over) {
            (None, _) => BASE,
            (_, Over::Datagram) if self.bursts.is_some() => EXTENDED + 2 * FRAME,
            (_, Over::Datagram) if self.start.is_some() && bits & upper::EPOCH_START == 0 => {
                EXTENDED + FRAME
            }
            // Stock counts the bursts without the start before them, and cuts them so.
            (_, Over::Stream) if self.bursts.is_some() && self.start.is_none() => EXTENDED + BURSTS,
            (_, Over::Stream) if self.bursts.is_some() => EXTENDED + START + BURSTS,
            (_, Over::Stream) if self.start.is_some() => EXTENDED + START,
            _ => EXTENDED,
        };
        length + keyed
    }

    /// Where the last part ends.
    fn written(&self, over: Over) -> usize {
        match self {
            Self {
                bursts: Some(_), ..
            } => over.bursts() + BURSTS,
            Self { start: Some(_), .. } => over.start() + START,
            Self {
                extension: Some(_), ..
            } => EXTENDED,
            _ => BASE,
        }
    }
}
