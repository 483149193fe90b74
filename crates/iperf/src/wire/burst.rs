//! What a burst of a TCP stream begins with, in tests with trip times.

use super::{WallTime, word};

/// The head of a burst. It lies over a buffer that begins with the [`Hello`](super::Hello): words that it does not set
/// are the hello's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstRecord {
    /// When the test started.
    pub started: WallTime,
    /// When the burst was written.
    pub written: WallTime,
    /// Its number, from 1.
    pub number: u32,
    /// Its length in bytes, this record included.
    pub size: u32,
}

impl BurstRecord {
    /// Length in bytes.
    pub const LEN: usize = 92;

    /// Reads it from the first bytes of a burst.
    pub fn read(bytes: &[u8; Self::LEN]) -> Self {
        Self {
            started: WallTime::read(bytes, 12),
            written: WallTime::read(bytes, 20),
            number: word(bytes, 44),
            size: word(bytes, 48),
        }
    }
}
