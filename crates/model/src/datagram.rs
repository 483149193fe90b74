//! Layout of numbered and stamped datagrams, and the counts of their receiver.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::outcome::optional_nanos;

/// The fields of a flow's datagrams, in words of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatagramFormat {
    /// Offset of the number, or of its low word.
    #[serde(rename = "number_at_bytes")]
    pub number_at: u32,
    /// Offset of the number's high word; `None` for a 32-bit number.
    #[serde(rename = "high_word_at_bytes")]
    pub high_word_at: Option<u32>,
    /// The number of a flow's first datagram.
    pub first: u32,
    /// The send time; `None` without stamps.
    pub stamp: Option<Stamp>,
    /// Whether numbers are signed: a negative one marks the flow's last datagram, and its magnitude is the number.
    pub ends_negative: bool,
    /// The byte order of each word, and the order of a stamp's words.
    #[serde(default, skip_serializing_if = "ByteOrder::is_big_endian")]
    pub order: ByteOrder,
}

/// The order of a field's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ByteOrder {
    /// The most significant byte first.
    #[default]
    BigEndian,
    /// The least significant byte first.
    LittleEndian,
}

impl ByteOrder {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_big_endian(&self) -> bool {
        *self == Self::BigEndian
    }

    /// Converts between words of this order and big-endian words. Both words share one branch, because this runs for
    /// each datagram.
    #[inline]
    fn words(self, words: [u32; 2]) -> [u32; 2] {
        match self {
            Self::BigEndian => words,
            Self::LittleEndian => words.map(u32::swap_bytes),
        }
    }

    /// Does the same for a 64-bit number.
    #[inline]
    fn long(self, number: u64) -> u64 {
        match self {
            Self::BigEndian => number,
            Self::LittleEndian => number.swap_bytes(),
        }
    }
}

/// A time in a datagram, as two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Offset of its first word.
    #[serde(rename = "at_bytes")]
    pub at: u32,
    /// The clock of the time.
    pub clock: StampClock,
    /// The meaning of the words.
    #[serde(default, skip_serializing_if = "StampUnit::is_seconds_and_micros")]
    pub unit: StampUnit,
}

/// The meaning of a stamp's two words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StampUnit {
    /// Seconds and microseconds.
    #[default]
    SecondsAndMicros,
    /// One signed 64-bit number: tenths of a microsecond since a moment chosen by the sender.
    TenthsOfMicros,
}

impl StampUnit {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_seconds_and_micros(&self) -> bool {
        *self == Self::SecondsAndMicros
    }
}

/// The clock of a stamp. The receiver reads the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StampClock {
    /// `CLOCK_MONOTONIC`: only differences of two delays are meaningful.
    Monotonic,
    /// `CLOCK_REALTIME`: a delay is as accurate as the two hosts' clocks agree.
    Wall,
}

impl DatagramFormat {
    /// Returns the length of the shortest datagram with all fields.
    pub fn bytes(&self) -> u32 {
        let words = [
            Some(self.number_at),
            self.high_word_at,
            self.stamp.map(|stamp| stamp.at + 4),
        ];
        words.into_iter().flatten().max().unwrap_or(0) + 4
    }

    /// Writes a number. It omits a word that does not fit into the datagram.
    #[inline]
    pub fn write_number(&self, datagram: &mut [u8], number: i64) {
        let [low, high] = self.order.words([number as u32, (number >> 32) as u32]);
        put(datagram, self.number_at, low);
        if let Some(at) = self.high_word_at {
            put(datagram, at, high);
        }
    }

    /// Writes the send time, in nanoseconds of the stamp's clock.
    #[inline]
    pub fn write_stamp(&self, datagram: &mut [u8], now_ns: u64) {
        let Some(Stamp { at, unit, .. }) = self.stamp else {
            return;
        };
        let [first, second] = match unit {
            StampUnit::SecondsAndMicros => self.order.words([
                (now_ns / 1_000_000_000) as u32,
                (now_ns % 1_000_000_000 / 1_000) as u32,
            ]),
            StampUnit::TenthsOfMicros => {
                let tenths = self.order.long((now_ns as i64 / 100) as u64);
                [(tenths >> 32) as u32, tenths as u32]
            }
        };
        put(datagram, at, first);
        put(datagram, at + 4, second);
    }

    /// Reads the number; `None` if the datagram is too short. Without its high word, the number has 32 bits: it
    /// continues from `near`, or is signed if numbers may be negative.
    #[inline]
    pub fn number(&self, datagram: &[u8], near: i64) -> Option<i64> {
        let low = get(datagram, self.number_at)?;
        let high = self.high_word_at.and_then(|at| get(datagram, at));
        let [low, high_word] = self.order.words([low, high.unwrap_or(0)]);
        Some(match high {
            Some(_) => ((u64::from(high_word) << 32) | u64::from(low)) as i64,
            None if self.ends_negative => i64::from(low as i32),
            None => near.wrapping_add(i64::from(low.wrapping_sub(near as u32) as i32)),
        })
    }

    /// Reads the send time, in nanoseconds; `None` without a stamp. A negative time is returned as its two's
    /// complement.
    #[inline]
    pub fn sent_ns(&self, datagram: &[u8]) -> Option<u64> {
        let Stamp { at, unit, .. } = self.stamp?;
        let words = [get(datagram, at)?, get(datagram, at + 4)?];
        Some(match unit {
            StampUnit::SecondsAndMicros => {
                let [seconds, micros] = self.order.words(words);
                u64::from(seconds) * 1_000_000_000 + u64::from(micros) * 1_000
            }
            StampUnit::TenthsOfMicros => {
                let [high, low] = words.map(u64::from);
                self.order.long((high << 32) | low).wrapping_mul(100)
            }
        })
    }
}

/// Writes a word, the most significant byte first.
#[inline]
fn put(datagram: &mut [u8], at: u32, word: u32) {
    if let Some(place) = datagram
        .get_mut(at as usize..)
        .and_then(<[u8]>::first_chunk_mut)
    {
        *place = word.to_be_bytes();
    }
}

#[inline]
fn get(datagram: &[u8], at: u32) -> Option<u32> {
    let word = datagram.get(at as usize..)?.first_chunk()?;
    Some(u32::from_be_bytes(*word))
}

/// Counts of a receiver of numbered datagrams: RFC 4737, RFC 5560, RFC 7680.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatagramCounts {
    /// Received numbers, without repeats.
    pub received: u64,
    /// Numbers that were passed over and have not arrived.
    pub lost: u64,
    /// Datagrams that arrived after one with a higher number.
    pub reordered: u64,
    /// Repeated datagrams.
    pub duplicated: u64,
    /// Delay variation by RFC 3550, section 6.4.1; `None` without stamps.
    #[serde(rename = "jitter_ns", with = "optional_nanos")]
    pub jitter: Option<Duration>,
    /// The counts by the rules of common tools.
    #[serde(skip)]
    pub by_order: OrderCounts,
    /// Delays from the stamp to the arrival, each by its own host's clock.
    #[serde(skip)]
    pub delays: DelaySums,
}

/// Counts of a receiver that remembers only the highest number, and so counts repeats as out of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderCounts {
    /// The highest number; equals the datagrams sent up to it.
    pub highest: u64,
    /// Numbers that were passed over, whether or not they arrived later.
    pub passed_over: u64,
    /// Datagrams whose number is not above the highest.
    pub out_of_order: u64,
    /// Numbers passed over, minus one for each later datagram out of order: iperf3's "lost".
    pub missing: u64,
}

/// Sums of delays, for an interval's mean and deviation. Delays may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DelaySums {
    /// Datagrams with a stamp.
    pub count: u64,
    /// Sum of the delays, in nanoseconds.
    pub sum_ns: i64,
    /// Sum of the squares, in square microseconds.
    pub squares_us2: f64,
    /// Least and largest delay, in nanoseconds; in a sample, those since the previous sample.
    pub extremes_ns: Option<(i64, i64)>,
}

impl DatagramCounts {
    /// Returns the counts added after `earlier`. Jitter is a moving mean and is not subtracted. The highest number and
    /// the least and largest delays are not subtracted either. A loss that was made up for after `earlier` does not
    /// count as lost before it.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (now, then) = (&self.by_order, &earlier.by_order);
        Self {
            received: self.received.saturating_sub(earlier.received),
            lost: self.lost.saturating_sub(earlier.lost),
            reordered: self.reordered.saturating_sub(earlier.reordered),
            duplicated: self.duplicated.saturating_sub(earlier.duplicated),
            jitter: self.jitter,
            by_order: OrderCounts {
                highest: now.highest,
                passed_over: now.passed_over.saturating_sub(then.passed_over),
                out_of_order: now.out_of_order.saturating_sub(then.out_of_order),
                missing: now.missing.saturating_sub(then.missing),
            },
            delays: DelaySums {
                count: self.delays.count.saturating_sub(earlier.delays.count),
                sum_ns: self.delays.sum_ns.wrapping_sub(earlier.delays.sum_ns),
                squares_us2: self.delays.squares_us2 - earlier.delays.squares_us2,
                extremes_ns: self.delays.extremes_ns,
            },
        }
    }

    /// Adds another flow's counts. The jitter of several flows is their largest.
    pub fn add(&mut self, other: &Self) {
        self.received = self.received.saturating_add(other.received);
        self.lost = self.lost.saturating_add(other.lost);
        self.reordered = self.reordered.saturating_add(other.reordered);
        self.duplicated = self.duplicated.saturating_add(other.duplicated);
        self.jitter = self.jitter.max(other.jitter);
        let (sum, other) = (&mut self.by_order, &other.by_order);
        sum.highest = sum.highest.saturating_add(other.highest);
        sum.passed_over = sum.passed_over.saturating_add(other.passed_over);
        sum.out_of_order = sum.out_of_order.saturating_add(other.out_of_order);
        sum.missing = sum.missing.saturating_add(other.missing);
    }
}

impl DelaySums {
    /// Returns the mean and the standard deviation in nanoseconds; `None` without delays.
    pub fn mean_and_deviation_ns(&self) -> Option<(f64, f64)> {
        let count = self.count as f64;
        let mean_ns = self.sum_ns as f64 / count;
        let variance_ns2 = self.squares_us2 * 1e6 / count - mean_ns * mean_ns;
        (self.count > 0).then(|| (mean_ns, variance_ns2.max(0.0).sqrt()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPLIT: DatagramFormat = DatagramFormat {
        number_at: 0,
        high_word_at: Some(12),
        first: 1,
        stamp: Some(Stamp {
            at: 4,
            clock: StampClock::Wall,
            unit: StampUnit::SecondsAndMicros,
        }),
        ends_negative: true,
        order: ByteOrder::BigEndian,
    };
    const WHOLE: DatagramFormat = DatagramFormat {
        number_at: 8,
        high_word_at: None,
        first: 1,
        stamp: Some(Stamp {
            at: 0,
            clock: StampClock::Monotonic,
            unit: StampUnit::SecondsAndMicros,
        }),
        ends_negative: false,
        order: ByteOrder::BigEndian,
    };
    const LITTLE: DatagramFormat = DatagramFormat {
        number_at: 0,
        high_word_at: Some(4),
        first: 0,
        stamp: Some(Stamp {
            at: 8,
            clock: StampClock::Monotonic,
            unit: StampUnit::TenthsOfMicros,
        }),
        ends_negative: false,
        order: ByteOrder::LittleEndian,
    };

    #[test]
    fn fields_are_where_the_format_has_them() {
        assert_eq!((SPLIT.bytes(), WHOLE.bytes()), (16, 12));
        let mut datagram = [0xee; 17];
        SPLIT.write_number(&mut datagram, -5);
        SPLIT.write_stamp(&mut datagram, 7_000_008_999);
        assert_eq!(
            datagram,
            *b"\xff\xff\xff\xfb\0\0\0\x07\0\0\0\x08\xff\xff\xff\xff\xee"
        );
        assert_eq!(SPLIT.number(&datagram, 0), Some(-5));
        assert_eq!(SPLIT.sent_ns(&datagram), Some(7_000_008_000));
        let mut datagram = [0; 12];
        WHOLE.write_number(&mut datagram, 0x1_0000_0002);
        assert_eq!(datagram[8..], [0, 0, 0, 2]);
    }

    #[test]
    fn bytes_may_be_in_either_order() {
        let mut datagram = [0xee; 17];
        LITTLE.write_number(&mut datagram, 0x0102_0304_0506_0708);
        LITTLE.write_stamp(&mut datagram, 0x1_0000_0002 * 100 + 99);
        assert_eq!(
            datagram,
            *b"\x08\x07\x06\x05\x04\x03\x02\x01\x02\0\0\0\x01\0\0\0\xee"
        );
        assert_eq!(LITTLE.number(&datagram, 0), Some(0x0102_0304_0506_0708));
        assert_eq!(LITTLE.sent_ns(&datagram), Some(0x1_0000_0002 * 100));
        // A number without its high word continues from the low word.
        assert_eq!(LITTLE.number(&[9, 0, 0, 0, 7], 8), Some(9));
        // A time before the zero point of the stamps.
        LITTLE.write_stamp(&mut datagram, -700_i64 as u64);
        assert_eq!(datagram[8..16], (-7_i64).to_le_bytes());
        assert_eq!(LITTLE.sent_ns(&datagram), Some(-700_i64 as u64));
        let big = DatagramFormat {
            order: ByteOrder::BigEndian,
            ..LITTLE
        };
        big.write_stamp(&mut datagram, 0x1_0000_0002 * 100);
        assert_eq!(datagram[8..16], 0x1_0000_0002_u64.to_be_bytes());
        assert_eq!(big.sent_ns(&datagram), Some(0x1_0000_0002 * 100));
    }

    #[test]
    fn a_number_of_32_bits_counts_on() {
        for (near, word, number) in [
            (0, 1, 1),
            (0xffff_fffe, 0xffff_ffff, 0xffff_ffff),
            (0xffff_ffff, 0, 0x1_0000_0000),
            (0x1_0000_0001, 0xffff_ffff, 0xffff_ffff),
        ] {
            let mut datagram = [0; 12];
            WHOLE.write_number(&mut datagram, word);
            assert_eq!(WHOLE.number(&datagram, near), Some(number), "{near:x}");
        }
    }

    #[test]
    fn what_is_cut_off_is_not_there() {
        let mut datagram = [0; 12];
        SPLIT.write_number(&mut datagram, -1);
        assert_eq!(SPLIT.number(&datagram, 77), Some(-1));
        assert_eq!(SPLIT.number(&datagram[..3], 77), None);
        assert_eq!(SPLIT.sent_ns(&datagram[..11]), None);
        SPLIT.write_number(&mut [], 1);
    }

    #[test]
    fn delays_of_an_interval() {
        let of = |delays_us: &[i64]| DelaySums {
            count: delays_us.len() as u64,
            sum_ns: delays_us.iter().sum::<i64>() * 1000,
            squares_us2: delays_us.iter().map(|us| (us * us) as f64).sum(),
            extremes_ns: None,
        };
        let counts = |delays| DatagramCounts {
            delays,
            ..DatagramCounts::default()
        };
        assert_eq!(of(&[]).mean_and_deviation_ns(), None);
        let later = counts(of(&[-9, 100, 1, 5])).since(&counts(of(&[-9, 100])));
        let figures = later.delays.mean_and_deviation_ns();
        assert_eq!(figures, Some((3000.0, 2000.0)));
    }
}
