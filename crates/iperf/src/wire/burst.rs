//! What a burst of a TCP stream begins with, in tests with trip times.

use std::time::Duration;

use super::{WallTime, put, word};

/// The head of a burst. It lies over a buffer that begins with the [`Hello`](super::Hello): words that it does not set
/// are the hello's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstRecord {
    /// When the test started.
    pub started: WallTime,
    /// When the burst was written.
    pub written: WallTime,
    /// From one burst to the next; without it the hello's word stays.
    pub period: Option<Duration>,
    /// Its number, from 1.
    pub number: u32,
    /// Its length in bytes, this record included.
    pub size: u32,
    /// What stock counts up: bytes of all bursts so far and 2, or the size once more.
    pub cumulative: u64,
}

impl BurstRecord {
    /// Length in bytes.
    pub const LEN: usize = 92;

    /// Reads it from the first bytes of a burst.
    pub fn read(bytes: &[u8; Self::LEN]) -> Self {
        Self {
            started: WallTime::read(bytes, 12),
            written: WallTime::read(bytes, 20),
            period: None,
            number: word(bytes, 44),
            size: word(bytes, 48),
            cumulative: u64::from(word(bytes, 56)) << 32 | u64::from(word(bytes, 52)),
        }
    }

    /// Writes it over the first bytes of a buffer that begins with the hello.
    pub fn write(&self, bytes: &mut [u8]) {
        self.started.write(bytes, 12);
        self.written.write(bytes, 20);
        put(bytes, 28, 0);
        if let Some(period) = self.period {
            put(bytes, 40, period.as_micros() as u32);
        }
        put(bytes, 44, self.number);
        put(bytes, 48, self.size);
        put(bytes, 52, self.cumulative as u32);
        put(bytes, 56, (self.cumulative >> 32) as u32);
    }
}
