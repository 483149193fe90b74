//! Bytes ↔ messages, pure but for the clock. All numbers are big-endian.
//!
//! There is no control connection. A TCP stream begins with a [`Hello`], and so does each UDP datagram behind its
//! [`DatagramHeader`]. A server answers a stream with an [`Acknowledgement`] that no client has to read, and the last
//! datagram of a UDP test with a [`ServerReport`]. A bounceback test has [`Bounce`]s alone.

mod acknowledgement;
mod bounce;
mod burst;
mod datagram;
pub mod flags;
mod frame;
mod hello;
pub mod proof;
mod report;

pub use acknowledgement::Acknowledgement;
pub use bounce::{Bounce, SHORTEST_BOUNCE};
pub use burst::BurstRecord;
pub use datagram::DatagramHeader;
pub use frame::FrameRecord;
pub use hello::{Amount, Bursts, Extension, Hello, MOST_KEY, Over, Start, Unreadable};
pub use report::{LatencyReport, ServerReport};

use std::time::Duration;

/// Where both of iperf's protocols listen by default.
pub const DEFAULT_PORT: u16 = 5001;

/// The version that this dialect announces, 2.1.8, and its stage.
pub const VERSION: [u32; 2] = [0x0002_0001, 0x0008_0003];

/// A moment of the wall clock, since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime {
    /// Whole seconds.
    pub seconds: u32,
    /// Microseconds.
    pub micros: u32,
}

impl WallTime {
    /// The time since 1970.
    pub fn since_epoch(self) -> Duration {
        Duration::from_secs(self.seconds.into()) + Duration::from_micros(self.micros.into())
    }

    /// This moment.
    pub fn now() -> Self {
        Self::after_epoch(Duration::from_nanos(sys::clock::wall_ns()))
    }

    /// The moment so long after 1970.
    pub fn after_epoch(time: Duration) -> Self {
        Self {
            seconds: time.as_secs() as u32,
            micros: time.subsec_micros(),
        }
    }

    fn read(bytes: &[u8], at: usize) -> Self {
        Self {
            seconds: word(bytes, at),
            micros: word(bytes, at + 4),
        }
    }

    fn write(self, bytes: &mut [u8], at: usize) {
        put(bytes, at, self.seconds);
        put(bytes, at + 4, self.micros);
    }
}

/// The name of a version, as connection lines have it: `2.1.8`; `None` of one that is not announced.
pub fn version_name([upper, lower]: [u32; 2]) -> Option<String> {
    (upper != 0).then(|| format!("{}.{}.{}", upper >> 16, upper & 0xffff, lower >> 16))
}

/// The text that fills sent data: digits, over and over.
pub fn fill_with_digits(bytes: &mut [u8]) {
    for (byte, digit) in bytes.iter_mut().zip(b"0123456789".iter().cycle()) {
        *byte = *digit;
    }
}

/// The word at `at`; 0 where the bytes end before.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|word| word.try_into().ok())
        .map_or(0, u32::from_be_bytes)
}

/// Puts a word where [`word`] finds it.
pub(crate) fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_names() {
        for (version, name) in [
            (VERSION, Some("2.1.8")),
            ([0x0002_0000, 0x000d_0003], Some("2.0.13")),
            ([0, 0], None),
        ] {
            assert_eq!(version_name(version).as_deref(), name);
        }
    }
}
