//! The record of a frame in the datagrams of an isochronous test.

use std::time::Duration;

use super::{WallTime, put, word};

/// The frame of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRecord {
    /// From one frame to the next.
    pub period: Duration,
    /// When the frames started.
    pub started: WallTime,
    /// The number of the frame before.
    pub before: u32,
    /// Its number, from 1; the first datagram of a test belongs to none.
    pub number: u32,
    /// Its length in bytes.
    pub size: u32,
    /// Bytes of it that have not been sent, this datagram included.
    pub left: u32,
}

impl FrameRecord {
    /// Where it begins in a datagram.
    const AT: usize = 76;

    /// Where it ends.
    pub const END: usize = 104;

    /// Reads it; `None` of a datagram that is too short, or of no frame.
    pub fn read(datagram: &[u8]) -> Option<Self> {
        let at = |index: usize| word(datagram, Self::AT + 4 * index);
        (datagram.len() >= Self::END && at(4) > 0).then(|| Self {
            period: Duration::from_micros(at(0).into()),
            started: WallTime::read(datagram, Self::AT + 4),
            before: at(3),
            number: at(4),
            size: at(5),
            left: at(6),
        })
    }

    /// Writes it, if there is room.
    pub fn write(&self, datagram: &mut [u8]) {
        if datagram.len() < Self::END {
            return;
        }
        self.started.write(datagram, Self::AT + 4);
        let period = self.period.as_micros() as u32;
        for (index, value) in [
            (0, period),
            (3, self.before),
            (4, self.number),
            (5, self.size),
            (6, self.left),
        ] {
            put(datagram, Self::AT + 4 * index, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        let record = FrameRecord {
            period: Duration::from_millis(100),
            started: WallTime {
                seconds: 7,
                micros: 8,
            },
            before: 4,
            number: 5,
            size: 6249,
            left: 4779,
        };
        let mut datagram = [0; 1470];
        assert_eq!(FrameRecord::read(&datagram), None);
        record.write(&mut datagram);
        assert_eq!(FrameRecord::read(&datagram), Some(record));
        // As in a recorded datagram of stock's.
        assert_eq!(datagram[96..104], [0, 0, 0x18, 0x69, 0, 0, 0x12, 0xab]);
        assert_eq!(FrameRecord::read(&datagram[..100]), None);
    }
}
