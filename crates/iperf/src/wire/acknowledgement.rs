//! Acknowledgement: the server's answer to the client's header on a TCP stream.

use super::{WallTime, read_word, write_word};

/// The server's answer. Only a client with `-X` waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The server's version.
    pub version: [u32; 2],
    /// The client's send time by its own clock, and the server's accept time and answer time by the
    /// server's clock; `None` without `--trip-times`.
    pub times: Option<[WallTime; 3]>,
}

/// The message type of an acknowledgement.
const TYPE: u32 = 2;

impl Acknowledgement {
    /// The length in bytes, without times.
    pub const SHORT_LEN: usize = 28;
    /// The length in bytes, with times.
    pub const LONG_LEN: usize = 52;
    /// The maximum length in bytes of a later version's acknowledgement.
    pub const MAX_LEN: usize = 1024;

    /// Encodes the acknowledgement.
    pub fn encode(&self) -> Vec<u8> {
        let len = if self.times.is_some() {
            Self::LONG_LEN
        } else {
            Self::SHORT_LEN
        };
        let mut bytes = vec![0; len];
        for (at, value) in [
            (0, TYPE),
            (4, len as u32),
            (12, self.version[0]),
            (16, self.version[1]),
        ] {
            write_word(&mut bytes, at, value);
        }
        for (index, time) in self.times.into_iter().flatten().enumerate() {
            time.write(&mut bytes, Self::SHORT_LEN + 8 * index);
        }
        bytes
    }

    /// Returns the length of an acknowledgement from its first 8 bytes; `None` for other data. A
    /// later version may append fields.
    pub fn length(bytes: &[u8; 8]) -> Option<usize> {
        let len = read_word(bytes, 4) as usize;
        let has_valid_len = (Self::SHORT_LEN..=Self::MAX_LEN).contains(&len);
        (read_word(bytes, 0) == TYPE && has_valid_len).then_some(len)
    }

    /// Decodes an acknowledgement; `None` for other or truncated data.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let len = Self::length(bytes.get(..8)?.try_into().ok()?)?;
        let bytes = bytes.get(..len)?;
        let time = |index| WallTime::read(bytes, Self::SHORT_LEN + 8 * index);
        Some(Self {
            version: [read_word(bytes, 12), read_word(bytes, 16)],
            times: (len >= Self::LONG_LEN).then(|| std::array::from_fn(time)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledgement(times: Option<[WallTime; 3]>) -> Acknowledgement {
        let version = [0x0002_0001, 0x0008_0003];
        Acknowledgement { version, times }
    }

    #[test]
    fn acknowledgements_survive_a_round_trip() {
        let time = |seconds| WallTime { seconds, micros: 5 };
        for times in [None, Some([time(1), time(2), time(3)])] {
            let sent = acknowledgement(times);
            let bytes = sent.encode();
            assert_eq!(Acknowledgement::decode(&bytes), Some(sent));
            assert_eq!(Acknowledgement::decode(&bytes[..27]), None);
        }
        assert_eq!(Acknowledgement::decode(&[0; 52]), None);
    }

    #[test]
    fn longer_acknowledgements_are_accepted() {
        let times = [7; 3].map(|seconds| WallTime { seconds, micros: 5 });
        let sent = acknowledgement(Some(times));
        for (len, expected) in [
            (27, None),
            (40, Some(acknowledgement(None))),
            (60, Some(sent)),
            (1024, Some(sent)),
            (1025, None),
        ] {
            let mut bytes = sent.encode();
            bytes.resize(len.max(Acknowledgement::LONG_LEN), 9);
            write_word(&mut bytes, 4, len as u32);
            assert_eq!(Acknowledgement::decode(&bytes), expected, "{len} bytes");
        }
    }
}
