//! The messages of a bounceback test, in both directions.

use std::time::Duration;

use super::{WallTime, fill_with_digits, flags, read_word, write_word};

/// The length in bytes of the shortest message that a stock server understands.
pub const MIN_BOUNCE_BYTES: u32 = 64;

/// A message of a bounceback test: a request or its echo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BounceMessage {
    /// The length of the message in bytes.
    pub size: u32,
    /// The number of the burst, from 1. Stock without a period sends the number of the message.
    pub number: u32,
    /// Whether the receiver acknowledges without delay.
    pub quick_ack: bool,
    /// Whether the clocks of both ends are synchronised.
    pub synchronised: bool,
    /// The type of service of the echo.
    pub type_of_service: Option<u8>,
    /// Whether the client ends the test.
    pub stop: bool,
    /// The send time, by the client's clock.
    pub sent: WallTime,
    /// The server's receive time and send time; `None` in a request.
    pub served: Option<[WallTime; 2]>,
    /// The time that the server delays the echo.
    pub hold: Duration,
    /// The length of the reply in bytes, if it differs from that of the request.
    pub reply_bytes: Option<u32>,
}

/// The byte that fills unused words.
const FILLER: u8 = 0x5a;
/// The byte that fills the server's times in a request.
const UNSET: u8 = 0xff;

const QUICK_ACK: u16 = 0x8000;
const SYNCHRONISED: u16 = 0x4000;
const HAS_SERVICE: u16 = 0x2000;
const STOP: u16 = 0x1000;
const HAS_REPLY_SIZE: u16 = 0x0800;

impl BounceMessage {
    /// The length of the fields in bytes. Digits fill the rest of the message.
    const HEADER_LEN: usize = 60;
    /// The offset of the length of the reply, in messages that have it.
    const REPLY_OFFSET: usize = 60;

    /// Whether a stream that begins with this word carries bounceback messages.
    pub fn begins_with(word: u32) -> bool {
        word & flags::BOUNCE != 0
    }

    /// Returns the size of a message from its first 8 bytes.
    pub fn announced_size(bytes: &[u8; 8]) -> u32 {
        read_word(bytes, 4)
    }

    /// Writes the message into the first [`Self::size`] bytes.
    pub fn write(&self, bytes: &mut [u8]) {
        let (head, digits) = bytes.split_at_mut(Self::HEADER_LEN);
        head[28..44].fill(UNSET);
        head[48..Self::HEADER_LEN].fill(FILLER);
        write_word(head, 0, flags::BOUNCE);
        write_word(head, 4, self.size);
        write_word(head, 8, self.number);
        let mut bits = 0;
        for (is_set, bit) in [
            (self.quick_ack, QUICK_ACK),
            (self.synchronised, SYNCHRONISED),
            (self.type_of_service.is_some(), HAS_SERVICE),
            (self.stop, STOP),
            (self.reply_bytes.is_some(), HAS_REPLY_SIZE),
        ] {
            bits |= if is_set { bit } else { 0 };
        }
        let service = self.type_of_service.map_or(0x5a5a, u16::from);
        write_word(head, 12, u32::from(bits) << 16 | u32::from(service));
        write_word(head, 16, 0);
        self.sent.write(head, 20);
        for (index, time) in self.served.into_iter().flatten().enumerate() {
            time.write(head, 28 + 8 * index);
        }
        write_word(head, 44, self.hold.as_micros() as u32);
        fill_with_digits(digits);
        if let Some(reply_bytes) = self.reply_bytes {
            write_word(bytes, Self::REPLY_OFFSET, reply_bytes);
        }
    }

    /// Writes the server's two times into a message. The echo keeps all other bytes.
    pub fn stamp(bytes: &mut [u8], received: WallTime, sent: WallTime) {
        received.write(bytes, 28);
        sent.write(bytes, 36);
    }

    /// Returns whether a message is the echo of a request. An echo differs in the server's times,
    /// and in its length if the request has that of the reply.
    pub fn is_echo(request: &[u8], message: &[u8]) -> bool {
        let fields = |bytes: &[u8]| Some([bytes.get(..28)?.to_vec(), bytes.get(44..48)?.to_vec()]);
        fields(request) == fields(message)
    }

    /// Reads a message; `None` for other or too few bytes.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < Self::HEADER_LEN || !Self::begins_with(read_word(bytes, 0)) {
            return None;
        }
        let bits = (read_word(bytes, 12) >> 16) as u16;
        let has_times = [28, 36].iter().all(|at| bytes[*at..at + 8] != [UNSET; 8]);
        Some(Self {
            size: read_word(bytes, 4),
            number: read_word(bytes, 8),
            quick_ack: bits & QUICK_ACK != 0,
            synchronised: bits & SYNCHRONISED != 0,
            type_of_service: (bits & HAS_SERVICE != 0).then_some(bytes[15]),
            stop: bits & STOP != 0,
            sent: WallTime::read(bytes, 20),
            served: has_times.then(|| [WallTime::read(bytes, 28), WallTime::read(bytes, 36)]),
            hold: Duration::from_micros(read_word(bytes, 44).into()),
            reply_bytes: (bits & HAS_REPLY_SIZE != 0).then(|| read_word(bytes, Self::REPLY_OFFSET)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_time_of_the_server_is_unavailable() {
        let time = |seconds| WallTime { seconds, micros: 5 };
        let message = BounceMessage {
            size: 100,
            number: 1,
            quick_ack: true,
            synchronised: false,
            type_of_service: None,
            stop: false,
            sent: time(1),
            served: Some([time(2), time(3)]),
            hold: Duration::ZERO,
            reply_bytes: Some(70),
        };
        let mut bytes = [0; 100];
        message.write(&mut bytes);
        assert_eq!(BounceMessage::read(&bytes), Some(message));
        for missing in [28..36, 36..44, 28..44] {
            let mut bytes = bytes;
            bytes[missing].fill(UNSET);
            let served = BounceMessage::read(&bytes).map(|message| message.served);
            assert_eq!(served, Some(None));
        }
    }
}
