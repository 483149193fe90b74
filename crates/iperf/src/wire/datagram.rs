//! Header at the beginning of each datagram.

use super::{WallTime, read_word, write_word};

/// The number and the timestamp of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramHeader {
    /// The number, from 1; negative in the last datagram. iperf 2.0.5 and older begin with 0.
    pub number: i64,
    /// The send time, by the sender's wall clock.
    pub sent: WallTime,
}

impl DatagramHeader {
    /// The length in bytes, with a 64-bit number.
    pub const WIDE_LEN: usize = 16;
    /// The length in bytes in iperf 2.0.5 and older, with a 32-bit number.
    pub const NARROW_LEN: usize = 12;

    /// Reads the header; `None` if the datagram is shorter than any header.
    ///
    /// The number has 64 bits if `is_wide` is set and the datagram is long enough.
    pub fn read(bytes: &[u8], is_wide: bool) -> Option<Self> {
        if bytes.len() < Self::NARROW_LEN {
            return None;
        }
        let low = read_word(bytes, 0);
        let number = if is_wide && bytes.len() >= Self::WIDE_LEN {
            (u64::from(read_word(bytes, 12)) << 32 | u64::from(low)).cast_signed()
        } else {
            low.cast_signed().into()
        };
        let sent = WallTime::read(bytes, 4);
        Some(Self { number, sent })
    }

    /// Writes the header. A datagram shorter than 16 bytes loses the upper half of the number.
    pub fn write(&self, bytes: &mut [u8], is_wide: bool) {
        write_word(bytes, 0, self.number as u32);
        self.sent.write(bytes, 4);
        if is_wide && bytes.len() >= Self::WIDE_LEN {
            write_word(bytes, 12, (self.number >> 32) as u32);
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
        for (number, wide, len, expected) in [
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
            let decoded = DatagramHeader::read(&bytes[..len], wide).unwrap();
            assert_eq!(
                (decoded.number, decoded.sent),
                (expected, sent),
                "{number} {wide} {len}"
            );
        }
        assert_eq!(DatagramHeader::read(&[0; 11], false), None);
    }
}
