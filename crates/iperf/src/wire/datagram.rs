//! What stands before all else in a datagram.

use super::{WallTime, put, word};

/// The number and the stamp of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    /// From 1; negative in the last one. iperf 2.0.5 and older begin with 0.
    pub number: i64,
    /// When it was sent, by the sender's wall clock.
    pub sent: WallTime,
}

impl DatagramHeader {
    /// Its length, with a number of 64 bits.
    pub const WIDE: usize = 16;
    /// Its length in iperf 2.0.5 and older, with a number of 32 bits.
    pub const NARROW: usize = 12;

    /// Reads it, with a number of 64 bits if `wide` and if the datagram has room for one; `None` of a datagram that is
    /// too short for any.
    pub fn read(bytes: &[u8], wide: bool) -> Option<Self> {
        if bytes.len() < Self::NARROW {
            return None;
        }
        let low = word(bytes, 0);
        let number = if wide && bytes.len() >= Self::WIDE {
            (u64::from(word(bytes, 12)) << 32 | u64::from(low)).cast_signed()
        } else {
            low.cast_signed().into()
        };
        let sent = WallTime::read(bytes, 4);
        Some(Self { number, sent })
    }

    /// Writes it; a datagram of less than 16 bytes has no room for the upper half of the number.
    pub fn write(&self, bytes: &mut [u8], wide: bool) {
        put(bytes, 0, self.number as u32);
        self.sent.write(bytes, 4);
        if wide && bytes.len() >= Self::WIDE {
            put(bytes, 12, (self.number >> 32) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_64_bits_or_32() {
        let sent = WallTime {
            seconds: 7,
            micros: 8,
        };
        for (number, wide, len, read) in [
            (1, true, 16, 1),
            (-38, true, 16, -38),
            (-38, false, 16, -38),
            (-38, true, 12, -38),
            (1 << 33, true, 16, 1 << 33),
            (-(1 << 33), true, 20, -(1 << 33)),
            (1 << 33, false, 16, 0),
        ] {
            let mut bytes = [0; 20];
            let header = DatagramHeader { number, sent };
            header.write(&mut bytes[..len], wide);
            let found = DatagramHeader::read(&bytes[..len], wide).unwrap();
            assert_eq!(
                (found.number, found.sent),
                (read, sent),
                "{number} {wide} {len}"
            );
        }
        assert_eq!(DatagramHeader::read(&[0; 11], false), None);
    }
}
