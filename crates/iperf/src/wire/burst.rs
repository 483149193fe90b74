//! Record at the beginning of each burst of a TCP stream.

use std::time::Duration;

use super::{WallTime, read_word, write_word};

/// The record at the beginning of a burst.
///
/// The sender writes it over a buffer that begins with the [`Hello`](super::Hello). Words that the
/// record does not set keep the bytes of the hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstRecord {
    /// The start time of the test.
    pub started: WallTime,
    /// The write time of the burst.
    pub written: WallTime,
    /// The time from one burst to the next. `None` keeps the word of the hello.
    pub period: Option<Duration>,
    /// The number of the burst, from 1.
    pub number: u32,
    /// The length of the burst in bytes, including this record.
    pub size: u32,
    /// A counter that stock writes and nothing reads: `size` with `--burst-period`; otherwise the
    /// sum of all sizes so far, plus 2.
    pub cumulative: u64,
}

impl BurstRecord {
    /// The length of the record in bytes.
    pub const LEN: usize = 92;

    /// Reads the record from the first bytes of a burst.
    pub fn read(bytes: &[u8; Self::LEN]) -> Self {
        Self {
            started: WallTime::read(bytes, 12),
            written: WallTime::read(bytes, 20),
            period: None,
            number: read_word(bytes, 44),
            size: read_word(bytes, 48),
            cumulative: u64::from(read_word(bytes, 56)) << 32 | u64::from(read_word(bytes, 52)),
        }
    }

    /// Writes the record over the first bytes of a buffer that begins with the hello.
    pub fn write(&self, bytes: &mut [u8]) {
        self.started.write(bytes, 12);
        self.written.write(bytes, 20);
        write_word(bytes, 28, 0);
        if let Some(period) = self.period {
            write_word(bytes, 40, period.as_micros() as u32);
        }
        write_word(bytes, 44, self.number);
        write_word(bytes, 48, self.size);
        write_word(bytes, 52, self.cumulative as u32);
        write_word(bytes, 56, (self.cumulative >> 32) as u32);
    }
}
