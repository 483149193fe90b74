//! Format of datagrams with sequence numbers and timestamps, and the counts of their receiver.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::nanos::OptionalNanos;

/// The offsets and the byte order of the fields in a flow's datagrams. Each field consists of
/// 32-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatagramFormat {
    /// Offset of the sequence number, or of its low word, in bytes.
    #[serde(rename = "number_offset_bytes")]
    pub number_offset: u32,
    /// Offset of the sequence number's high word in bytes; `None` for a 32-bit number.
    #[serde(rename = "high_word_offset_bytes")]
    pub high_word_offset: Option<u32>,
    /// Sequence number of a flow's first datagram.
    pub first_number: u32,
    /// The send timestamp; `None` without one.
    pub stamp: Option<Stamp>,
    /// Whether numbers are signed. A negative one marks the flow's last datagram, and its magnitude
    /// is the number.
    pub ends_negative: bool,
    /// The byte order of each word, and the order of a timestamp's words.
    #[serde(
        rename = "order",
        default,
        skip_serializing_if = "ByteOrder::is_big_endian"
    )]
    pub byte_order: ByteOrder,
}

/// The order of a field's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

    /// Converts two words between this order and big-endian. One branch serves both words, because
    /// the conversion runs for each datagram.
    #[inline]
    fn convert_words(self, words: [u32; 2]) -> [u32; 2] {
        match self {
            Self::BigEndian => words,
            Self::LittleEndian => words.map(u32::swap_bytes),
        }
    }

    /// Converts a 64-bit number between this order and big-endian.
    #[inline]
    fn convert_u64(self, number: u64) -> u64 {
        match self {
            Self::BigEndian => number,
            Self::LittleEndian => number.swap_bytes(),
        }
    }
}

/// A timestamp in a datagram: two 32-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stamp {
    /// Offset of the first word in bytes.
    #[serde(rename = "offset_bytes")]
    pub offset: u32,
    /// The clock that the sender reads.
    pub clock: StampClock,
    /// The meaning of the words.
    #[serde(default, skip_serializing_if = "StampUnit::is_seconds_and_micros")]
    pub unit: StampUnit,
}

/// The meaning of a timestamp's two words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StampUnit {
    /// Seconds and microseconds.
    #[default]
    SecondsAndMicros,
    /// One signed 64-bit number: units of 0.1 µs since an epoch chosen by the sender.
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

/// The clock of a timestamp. The receiver reads the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StampClock {
    /// `CLOCK_MONOTONIC`: only differences between two delays are meaningful.
    Monotonic,
    /// `CLOCK_REALTIME`: the error of a delay is the difference between the two hosts' clocks.
    Wall,
}

impl DatagramFormat {
    /// Returns the length of the shortest datagram with all fields.
    pub fn min_datagram_bytes(&self) -> u32 {
        let words = [
            Some(self.number_offset),
            self.high_word_offset,
            self.stamp.map(|stamp| stamp.offset + 4),
        ];
        words.into_iter().flatten().max().unwrap_or(0) + 4
    }

    /// Writes a number. A word that does not fit into the datagram is omitted.
    #[inline]
    pub fn write_number(&self, datagram: &mut [u8], number: i64) {
        let [low, high] = self
            .byte_order
            .convert_words([number as u32, (number >> 32) as u32]);
        write_word(datagram, self.number_offset, low);
        if let Some(offset) = self.high_word_offset {
            write_word(datagram, offset, high);
        }
    }

    /// Writes the send time, in nanoseconds of the timestamp's clock.
    #[inline]
    pub fn write_stamp(&self, datagram: &mut [u8], now_ns: u64) {
        let Some(Stamp { offset, unit, .. }) = self.stamp else {
            return;
        };
        let [first, second] = match unit {
            StampUnit::SecondsAndMicros => self.byte_order.convert_words([
                (now_ns / 1_000_000_000) as u32,
                (now_ns % 1_000_000_000 / 1_000) as u32,
            ]),
            StampUnit::TenthsOfMicros => {
                let tenths = self.byte_order.convert_u64((now_ns as i64 / 100) as u64);
                [(tenths >> 32) as u32, tenths as u32]
            }
        };
        write_word(datagram, offset, first);
        write_word(datagram, offset + 4, second);
    }

    /// Reads the number; `None` if the datagram is too short. Without a high word, the number has
    /// 32 bits. It is extended to the value closest to `near`, or is signed if numbers may be
    /// negative.
    #[inline]
    pub fn read_number(&self, datagram: &[u8], near: i64) -> Option<i64> {
        let low = read_word(datagram, self.number_offset)?;
        let high = (self.high_word_offset).and_then(|offset| read_word(datagram, offset));
        let [low, high_word] = self.byte_order.convert_words([low, high.unwrap_or(0)]);
        Some(match high {
            Some(_) => ((u64::from(high_word) << 32) | u64::from(low)) as i64,
            None if self.ends_negative => i64::from(low as i32),
            None => near.wrapping_add(i64::from(low.wrapping_sub(near as u32) as i32)),
        })
    }

    /// Reads the send time in nanoseconds; `None` without a timestamp. A negative time is returned
    /// as its two's complement.
    #[inline]
    pub fn read_send_time_ns(&self, datagram: &[u8]) -> Option<u64> {
        let Stamp { offset, unit, .. } = self.stamp?;
        let words = [
            read_word(datagram, offset)?,
            read_word(datagram, offset + 4)?,
        ];
        Some(match unit {
            StampUnit::SecondsAndMicros => {
                let [seconds, micros] = self.byte_order.convert_words(words);
                u64::from(seconds) * 1_000_000_000 + u64::from(micros) * 1_000
            }
            StampUnit::TenthsOfMicros => {
                let [high, low] = words.map(u64::from);
                self.byte_order
                    .convert_u64((high << 32) | low)
                    .wrapping_mul(100)
            }
        })
    }
}

/// Writes a big-endian word, if the datagram is long enough.
#[inline]
fn write_word(datagram: &mut [u8], offset: u32, word: u32) {
    if let Some(field) = datagram
        .get_mut(offset as usize..)
        .and_then(<[u8]>::first_chunk_mut)
    {
        *field = word.to_be_bytes();
    }
}

#[inline]
fn read_word(datagram: &[u8], offset: u32) -> Option<u32> {
    let word = datagram.get(offset as usize..)?.first_chunk()?;
    Some(u32::from_be_bytes(*word))
}

/// Counts of a receiver of numbered datagrams: RFC 4737, RFC 5560, RFC 7680.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatagramCounts {
    /// Received datagrams, without duplicates.
    pub received: u64,
    /// Skipped numbers that have not arrived.
    pub lost: u64,
    /// Datagrams that arrived after one with a higher number.
    pub reordered: u64,
    /// Duplicate datagrams.
    pub duplicated: u64,
    /// Delay variation by RFC 3550, section 6.4.1; `None` without timestamps.
    #[serde(rename = "jitter_ns", with = "OptionalNanos")]
    pub jitter: Option<Duration>,
    /// The counts by the rules of common tools, which remember only the highest number.
    #[serde(skip)]
    pub highest_number_counts: HighestNumberCounts,
    /// Delays from send time to arrival, each by the clock of its host.
    #[serde(skip)]
    pub delays: DelaySums,
}

/// Counts of a receiver that remembers only the highest number. It counts duplicates as out of
/// order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HighestNumberCounts {
    /// The highest sequence number. It equals the count of datagrams sent so far.
    pub highest: u64,
    /// Skipped numbers, whether or not they arrived later.
    pub skipped: u64,
    /// Datagrams whose number is not above the highest.
    pub out_of_order: u64,
    /// Skipped numbers, minus the datagrams out of order: iperf3's "lost".
    pub missing: u64,
}

/// Sums of delays, for an interval's mean and deviation. Delays may be negative. They include the
/// difference of two clocks, which may be decades, so that a sum of whole delays would overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DelaySums {
    /// Datagrams with a timestamp.
    pub count: u64,
    /// The first delay of the test, in nanoseconds.
    pub first_ns: i64,
    /// Sum of the differences from the first delay, in nanoseconds.
    pub sum_ns: i64,
    /// Sum of the squares of these differences, in square microseconds.
    pub squares_us2: f64,
    /// Smallest and largest delay in nanoseconds; in a sample, since the previous sample.
    pub extremes_ns: Option<(i64, i64)>,
}

impl DatagramCounts {
    /// Returns the counts added after `earlier`. The jitter (a moving mean), the highest number and
    /// the extreme delays are not subtracted. `lost` is at least 0, even if datagrams that were
    /// lost in `earlier` have arrived.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (current, previous) = (&self.highest_number_counts, &earlier.highest_number_counts);
        Self {
            received: self.received.saturating_sub(earlier.received),
            lost: self.lost.saturating_sub(earlier.lost),
            reordered: self.reordered.saturating_sub(earlier.reordered),
            duplicated: self.duplicated.saturating_sub(earlier.duplicated),
            jitter: self.jitter,
            highest_number_counts: HighestNumberCounts {
                highest: current.highest,
                skipped: current.skipped.saturating_sub(previous.skipped),
                out_of_order: current.out_of_order.saturating_sub(previous.out_of_order),
                missing: current.missing.saturating_sub(previous.missing),
            },
            delays: DelaySums {
                count: self.delays.count.saturating_sub(earlier.delays.count),
                first_ns: self.delays.first_ns,
                sum_ns: self.delays.sum_ns.wrapping_sub(earlier.delays.sum_ns),
                squares_us2: self.delays.squares_us2 - earlier.delays.squares_us2,
                extremes_ns: self.delays.extremes_ns,
            },
        }
    }

    /// Adds another flow's counts, without its delays. The jitter of several flows is the largest
    /// jitter.
    pub fn add(&mut self, other: &Self) {
        self.received = self.received.saturating_add(other.received);
        self.lost = self.lost.saturating_add(other.lost);
        self.reordered = self.reordered.saturating_add(other.reordered);
        self.duplicated = self.duplicated.saturating_add(other.duplicated);
        self.jitter = self.jitter.max(other.jitter);
        let (sum, other) = (
            &mut self.highest_number_counts,
            &other.highest_number_counts,
        );
        sum.highest = sum.highest.saturating_add(other.highest);
        sum.skipped = sum.skipped.saturating_add(other.skipped);
        sum.out_of_order = sum.out_of_order.saturating_add(other.out_of_order);
        sum.missing = sum.missing.saturating_add(other.missing);
    }
}

impl DelaySums {
    /// Returns the mean and the standard deviation in nanoseconds; `None` without delays.
    pub fn mean_and_deviation_ns(&self) -> Option<(f64, f64)> {
        let count = self.count as f64;
        let difference_ns = self.sum_ns as f64 / count;
        let mean_ns = self.first_ns as f64 + difference_ns;
        let variance_ns2 = self.squares_us2 * 1e6 / count - difference_ns * difference_ns;
        (self.count > 0).then(|| (mean_ns, variance_ns2.max(0.0).sqrt()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPLIT_NUMBER: DatagramFormat = DatagramFormat {
        number_offset: 0,
        high_word_offset: Some(12),
        first_number: 1,
        stamp: Some(Stamp {
            offset: 4,
            clock: StampClock::Wall,
            unit: StampUnit::SecondsAndMicros,
        }),
        ends_negative: true,
        byte_order: ByteOrder::BigEndian,
    };
    const SHORT_NUMBER: DatagramFormat = DatagramFormat {
        number_offset: 8,
        high_word_offset: None,
        first_number: 1,
        stamp: Some(Stamp {
            offset: 0,
            clock: StampClock::Monotonic,
            unit: StampUnit::SecondsAndMicros,
        }),
        ends_negative: false,
        byte_order: ByteOrder::BigEndian,
    };
    const LITTLE_ENDIAN: DatagramFormat = DatagramFormat {
        number_offset: 0,
        high_word_offset: Some(4),
        first_number: 0,
        stamp: Some(Stamp {
            offset: 8,
            clock: StampClock::Monotonic,
            unit: StampUnit::TenthsOfMicros,
        }),
        ends_negative: false,
        byte_order: ByteOrder::LittleEndian,
    };

    #[test]
    fn fields_are_at_their_offsets() {
        assert_eq!(
            (
                SPLIT_NUMBER.min_datagram_bytes(),
                SHORT_NUMBER.min_datagram_bytes()
            ),
            (16, 12)
        );
        let mut datagram = [0xee; 17];
        SPLIT_NUMBER.write_number(&mut datagram, -5);
        SPLIT_NUMBER.write_stamp(&mut datagram, 7_000_008_999);
        assert_eq!(
            datagram,
            *b"\xff\xff\xff\xfb\0\0\0\x07\0\0\0\x08\xff\xff\xff\xff\xee"
        );
        assert_eq!(SPLIT_NUMBER.read_number(&datagram, 0), Some(-5));
        assert_eq!(
            SPLIT_NUMBER.read_send_time_ns(&datagram),
            Some(7_000_008_000)
        );
        let mut datagram = [0; 12];
        SHORT_NUMBER.write_number(&mut datagram, 0x1_0000_0002);
        assert_eq!(datagram[8..], [0, 0, 0, 2]);
    }

    #[test]
    fn bytes_may_be_in_either_order() {
        let mut datagram = [0xee; 17];
        LITTLE_ENDIAN.write_number(&mut datagram, 0x0102_0304_0506_0708);
        LITTLE_ENDIAN.write_stamp(&mut datagram, 0x1_0000_0002 * 100 + 99);
        assert_eq!(
            datagram,
            *b"\x08\x07\x06\x05\x04\x03\x02\x01\x02\0\0\0\x01\0\0\0\xee"
        );
        assert_eq!(
            LITTLE_ENDIAN.read_number(&datagram, 0),
            Some(0x0102_0304_0506_0708)
        );
        assert_eq!(
            LITTLE_ENDIAN.read_send_time_ns(&datagram),
            Some(0x1_0000_0002 * 100)
        );
        // Without the high word, the number nearest to the expected one is returned.
        assert_eq!(LITTLE_ENDIAN.read_number(&[9, 0, 0, 0, 7], 8), Some(9));
        // A send time before the sender's epoch is negative.
        LITTLE_ENDIAN.write_stamp(&mut datagram, -700_i64 as u64);
        assert_eq!(datagram[8..16], (-7_i64).to_le_bytes());
        assert_eq!(
            LITTLE_ENDIAN.read_send_time_ns(&datagram),
            Some(-700_i64 as u64)
        );
        let big_endian = DatagramFormat {
            byte_order: ByteOrder::BigEndian,
            ..LITTLE_ENDIAN
        };
        big_endian.write_stamp(&mut datagram, 0x1_0000_0002 * 100);
        assert_eq!(datagram[8..16], 0x1_0000_0002_u64.to_be_bytes());
        assert_eq!(
            big_endian.read_send_time_ns(&datagram),
            Some(0x1_0000_0002 * 100)
        );
    }

    #[test]
    fn a_32_bit_number_continues_past_its_range() {
        for (near, word, number) in [
            (0, 1, 1),
            (0xffff_fffe, 0xffff_ffff, 0xffff_ffff),
            (0xffff_ffff, 0, 0x1_0000_0000),
            (0x1_0000_0001, 0xffff_ffff, 0xffff_ffff),
        ] {
            let mut datagram = [0; 12];
            SHORT_NUMBER.write_number(&mut datagram, word);
            assert_eq!(
                SHORT_NUMBER.read_number(&datagram, near),
                Some(number),
                "{near:x}"
            );
        }
    }

    #[test]
    fn truncated_fields_are_unavailable() {
        let mut datagram = [0; 12];
        SPLIT_NUMBER.write_number(&mut datagram, -1);
        assert_eq!(SPLIT_NUMBER.read_number(&datagram, 77), Some(-1));
        assert_eq!(SPLIT_NUMBER.read_number(&datagram[..3], 77), None);
        assert_eq!(SPLIT_NUMBER.read_send_time_ns(&datagram[..11]), None);
        SPLIT_NUMBER.write_number(&mut [], 1);
    }

    #[test]
    fn interval_delays_are_differences_of_sums() {
        let sums = |delays_us: &[i64]| {
            let first_us = delays_us.first().copied().unwrap_or_default();
            let differences = delays_us.iter().map(|us| us - first_us);
            DelaySums {
                count: delays_us.len() as u64,
                first_ns: first_us * 1000,
                sum_ns: differences.clone().sum::<i64>() * 1000,
                squares_us2: differences.map(|us| (us * us) as f64).sum(),
                extremes_ns: None,
            }
        };
        let counts = |delays| DatagramCounts {
            delays,
            ..DatagramCounts::default()
        };
        assert_eq!(sums(&[]).mean_and_deviation_ns(), None);
        let interval = counts(sums(&[-9, 100, 1, 5])).since(&counts(sums(&[-9, 100])));
        let mean_and_deviation = interval.delays.mean_and_deviation_ns();
        assert_eq!(mean_and_deviation, Some((3000.0, 2000.0)));
    }
}
