//! Frame record in the datagrams of an isochronous test.

use std::time::Duration;

use super::{WallTime, read_word, write_word};

/// The frame that a datagram belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRecord {
    /// The time from one frame to the next.
    pub period: Duration,
    /// The start time of the frames.
    pub started: WallTime,
    /// The number of the previous frame.
    pub previous: u32,
    /// The number of the frame, from 1. The first datagram of a test belongs to no frame.
    pub number: u32,
    /// The length of the frame in bytes.
    pub size: u32,
    /// The unsent bytes of the frame, including this datagram.
    pub remaining: u32,
}

impl FrameRecord {
    /// The offset of the record in a datagram.
    const OFFSET: usize = 76;

    /// The end of the record in a datagram.
    pub const END: usize = 104;

    /// Reads the record; `None` if the datagram is too short or belongs to no frame.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let word = |index: usize| read_word(datagram, Self::OFFSET + 4 * index);
        (datagram.len() >= Self::END && word(4) > 0).then(|| Self {
            period: Duration::from_micros(word(0).into()),
            started: WallTime::read(datagram, Self::OFFSET + 4),
            previous: word(3),
            number: word(4),
            size: word(5),
            remaining: word(6),
        })
    }

    /// Writes the record; a datagram that is too short stays unchanged.
    pub fn write(&self, datagram: &mut [u8]) {
        if datagram.len() < Self::END {
            return;
        }
        self.started.write(datagram, Self::OFFSET + 4);
        let period = self.period.as_micros() as u32;
        for (index, value) in [
            (0, period),
            (3, self.previous),
            (4, self.number),
            (5, self.size),
            (6, self.remaining),
        ] {
            write_word(datagram, Self::OFFSET + 4 * index, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_a_round_trip() {
        let record = FrameRecord {
            period: Duration::from_millis(100),
            started: WallTime {
                seconds: 7,
                micros: 8,
            },
            previous: 4,
            number: 5,
            size: 6249,
            remaining: 4779,
        };
        let mut datagram = [0; 1470];
        assert_eq!(FrameRecord::read(&datagram), None);
        record.write(&mut datagram);
        assert_eq!(FrameRecord::read(&datagram), Some(record));
        // A recorded datagram of stock has the same bytes.
        assert_eq!(datagram[96..104], [0, 0, 0x18, 0x69, 0, 0, 0x12, 0xab]);
        assert_eq!(FrameRecord::read(&datagram[..100]), None);
    }
}
