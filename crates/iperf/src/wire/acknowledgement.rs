//! What a server answers the first bytes of a stream.

use super::{VERSION, WallTime, put, word};

/// The server's answer, which only a client with `-X` waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The server's version.
    pub version: [u32; 2],
    /// Three moments, for a test with trip times: when the client sent, by its clock; when the server accepted, and
    /// when it answers.
    pub times: Option<[WallTime; 3]>,
}

/// The type of this message.
const TYPE: u32 = 2;

impl Acknowledgement {
    /// Length in bytes without times.
    pub const SHORT: usize = 28;
    /// Length with times.
    pub const LONG: usize = 52;

    /// Ours.
    pub fn new(times: Option<[WallTime; 3]>) -> Self {
        let version = VERSION;
        Self { version, times }
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let len = if self.times.is_some() {
            Self::LONG
        } else {
            Self::SHORT
        };
        let mut bytes = vec![0; len];
        for (at, value) in [
            (0, TYPE),
            (4, len as u32),
            (12, self.version[0]),
            (16, self.version[1]),
        ] {
            put(&mut bytes, at, value);
        }
        for (index, time) in self.times.into_iter().flatten().enumerate() {
            time.write(&mut bytes, Self::SHORT + 8 * index);
        }
        bytes
    }

    /// How long the message is that begins with these 8 bytes; `None` if they begin none.
    pub fn length(bytes: &[u8; 8]) -> Option<usize> {
        let len = word(bytes, 4) as usize;
        let is_one = word(bytes, 0) == TYPE && (len == Self::SHORT || len == Self::LONG);
        is_one.then_some(len)
    }

    /// Reads a whole message.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let len = Self::length(bytes.get(..8)?.try_into().ok()?)?;
        let bytes = bytes.get(..len)?;
        let time = |index| WallTime::read(bytes, Self::SHORT + 8 * index);
        Some(Self {
            version: [word(bytes, 12), word(bytes, 16)],
            times: (len == Self::LONG).then(|| std::array::from_fn(time)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_back() {
        let time = |seconds| WallTime { seconds, micros: 5 };
        for times in [None, Some([time(1), time(2), time(3)])] {
            let sent = Acknowledgement::new(times);
            let bytes = sent.encode();
            assert_eq!(Acknowledgement::decode(&bytes), Some(sent));
            assert_eq!(Acknowledgement::decode(&bytes[..27]), None);
        }
        assert_eq!(Acknowledgement::decode(&[0; 52]), None);
    }
}
