//! The messages of a bounceback test, in both directions.

use std::time::Duration;

use super::{WallTime, fill_with_digits, flags, put, word};

/// Length of the shortest message that a stock server understands.
pub const SHORTEST_BOUNCE: u32 = 64;

/// A message of a bounceback test: what goes out, or its echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounce {
    /// The whole message's length.
    pub size: u32,
    /// Which burst, from 1; without a period which message.
    pub number: u32,
    /// The receiver acknowledges at once.
    pub quick_ack: bool,
    /// The clocks are synchronised.
    pub synchronised: bool,
    /// The type of service of the echo.
    pub type_of_service: Option<u8>,
    /// The client is done.
    pub stop: bool,
    /// When it went out, by the client's clock.
    pub sent: WallTime,
    /// When the server had received it, and when it sends it back; `None` on the way out.
    pub served: Option<[WallTime; 2]>,
    /// How long the server keeps it.
    pub hold: Duration,
}

/// What stands in unused words.
const FILLER: u8 = 0x5a;
/// What stands in the server's times on the way out.
const UNSET: u8 = 0xff;

const QUICK_ACK: u16 = 0x8000;
const SYNCHRONISED: u16 = 0x4000;
const HAS_SERVICE: u16 = 0x2000;
const STOP: u16 = 0x1000;

impl Bounce {
    /// Where the digits begin.
    const HEAD: usize = 60;

    /// Whether a stream that begins with this word has such messages.
    pub fn is_begun_by(word: u32) -> bool {
        word & flags::BOUNCE != 0
    }

    /// The announced size of the message that begins with these 8 bytes.
    pub fn size_of(bytes: &[u8; 8]) -> u32 {
        word(bytes, 4)
    }

    /// Writes the message into the first [`Self::size`] bytes.
    pub fn write(&self, bytes: &mut [u8]) {
        let (head, digits) = bytes.split_at_mut(Self::HEAD);
        head[28..44].fill(UNSET);
        head[48..Self::HEAD].fill(FILLER);
        put(head, 0, flags::BOUNCE);
        put(head, 4, self.size);
        put(head, 8, self.number);
        let mut bits = 0;
        for (is_set, bit) in [
            (self.quick_ack, QUICK_ACK),
            (self.synchronised, SYNCHRONISED),
            (self.type_of_service.is_some(), HAS_SERVICE),
            (self.stop, STOP),
        ] {
            bits |= if is_set { bit } else { 0 };
        }
        let service = self.type_of_service.map_or(0x5a5a, u16::from);
        put(head, 12, u32::from(bits) << 16 | u32::from(service));
        put(head, 16, 0);
        self.sent.write(head, 20);
        for (index, time) in self.served.into_iter().flatten().enumerate() {
            time.write(head, 28 + 8 * index);
        }
        put(head, 44, self.hold.as_micros() as u32);
        fill_with_digits(digits);
    }

    /// Puts the server's two times into a message that goes back otherwise as it came.
    pub fn stamp(bytes: &mut [u8], received: WallTime, sent: WallTime) {
        received.write(bytes, 28);
        sent.write(bytes, 36);
    }

    /// Reads a message; `None` if it is too short or none.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < Self::HEAD || !Self::is_begun_by(word(bytes, 0)) {
            return None;
        }
        let bits = (word(bytes, 12) >> 16) as u16;
        let has_times = bytes[28..44] != [UNSET; 16];
        Some(Self {
            size: word(bytes, 4),
            number: word(bytes, 8),
            quick_ack: bits & QUICK_ACK != 0,
            synchronised: bits & SYNCHRONISED != 0,
            type_of_service: (bits & HAS_SERVICE != 0).then_some(bytes[15]),
            stop: bits & STOP != 0,
            sent: WallTime::read(bytes, 20),
            served: has_times.then(|| [WallTime::read(bytes, 28), WallTime::read(bytes, 36)]),
            hold: Duration::from_micros(word(bytes, 44).into()),
        })
    }
}
