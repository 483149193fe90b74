//! Wire format of iperf 2: conversion between bytes and messages. All numbers are big-endian.
//!
//! The protocol has no control connection. A [`Hello`] begins each TCP stream. In each UDP
//! datagram, a [`Hello`] follows the [`DatagramHeader`].
//!
//! A server answers a stream with an [`Acknowledgement`], which clients may ignore. It answers the
//! last datagram of a UDP test with a [`ServerReport`]. A bounceback test consists of
//! [`BounceMessage`]s only.
//!
//! No function does input or output; [`WallTime::now`] reads the clock.

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
pub use bounce::{BounceMessage, MIN_BOUNCE_BYTES};
pub use burst::BurstRecord;
pub use datagram::DatagramHeader;
pub use frame::FrameRecord;
pub use hello::{
    BurstParameters, Extension, Hello, HelloError, HelloTransport, MAX_CONGESTION_CONTROL_BYTES,
    MAX_KEY_BYTES, MAX_TRANSFER_ID, SendAmount, TestStart,
};
pub use report::{LatencyReport, ServerReport};

use std::time::Duration;

/// The default port, for TCP and UDP.
pub const DEFAULT_PORT: u16 = 5001;

/// A time of the wall clock since 1970, in two 32-bit words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime {
    /// Whole seconds.
    pub seconds: u32,
    /// Microseconds of the second.
    pub micros: u32,
}

impl WallTime {
    /// Returns the time since 1970.
    pub fn since_epoch(self) -> Duration {
        Duration::from_secs(self.seconds.into()) + Duration::from_micros(self.micros.into())
    }

    /// Returns the current time.
    pub fn now() -> Self {
        Self::after_epoch(Duration::from_nanos(sys::clock::wall_ns()))
    }

    /// Converts a time since 1970.
    pub fn after_epoch(time: Duration) -> Self {
        Self {
            seconds: time.as_secs() as u32,
            micros: time.subsec_micros(),
        }
    }

    fn read(bytes: &[u8], at: usize) -> Self {
        Self {
            seconds: read_word(bytes, at),
            micros: read_word(bytes, at + 4),
        }
    }

    fn write(self, bytes: &mut [u8], at: usize) {
        write_word(bytes, at, self.seconds);
        write_word(bytes, at + 4, self.micros);
    }
}

/// Returns the name of a version for connection lines, such as `2.1.8` or `2.2.1-rc`; `None` if the
/// version is 0.
pub fn version_name([upper, lower]: [u32; 2]) -> Option<String> {
    /// The names of the release stages.
    const STAGES: [&str; 6] = ["-dev", "-rc", "-rc2", "", "-private", "-master"];
    let stage = STAGES.get((lower & 0xffff) as usize).unwrap_or(&"");
    (upper != 0).then(|| {
        let (major, minor) = (upper >> 16, upper & 0xffff);
        format!("{major}.{minor}.{}{stage}", lower >> 16)
    })
}

/// Fills `bytes` with the digits 0 to 9, repeated, as iperf 2 fills sent data.
pub fn fill_with_digits(bytes: &mut [u8]) {
    const DIGITS: [u8; 10] = *b"0123456789";
    let (rounds, rest) = bytes.as_chunks_mut();
    rounds.fill(DIGITS);
    rest.copy_from_slice(&DIGITS[..rest.len()]);
}

/// Reads the 32-bit word at offset `at`; 0 if the bytes end before its end.
pub(crate) fn read_word(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(|word| word.try_into().ok())
        .map_or(0, u32::from_be_bytes)
}

/// Writes a 32-bit word at offset `at`.
pub(crate) fn write_word(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_repeat_to_the_end() {
        for (length, expected) in [
            (0, ""),
            (3, "012"),
            (10, "0123456789"),
            (12, "012345678901"),
        ] {
            let mut bytes = vec![0; length];
            fill_with_digits(&mut bytes);
            assert_eq!(bytes, expected.as_bytes());
        }
    }

    #[test]
    fn version_names_have_three_parts() {
        for (version, name) in [
            ([0x0002_0000, 0x000d_0003], Some("2.0.13")),
            ([0x0002_0002, 0x0001_0002], Some("2.2.1-rc2")),
            ([0x0002_0002, 0x0001_0009], Some("2.2.1")),
            ([0, 0], None),
        ] {
            assert_eq!(version_name(version).as_deref(), name);
        }
    }
}
