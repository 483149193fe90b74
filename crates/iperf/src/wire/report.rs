//! Report of a UDP server: its answer to the last datagram of a test.

use std::time::Duration;

use super::{DatagramHeader, WallTime, read_word, write_word};

/// The receiver's counters and timings of a UDP test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerReport {
    /// Bytes of payload, including the last datagram.
    pub bytes: u64,
    /// The time from the first datagram to the last.
    pub elapsed: Duration,
    /// Lost datagrams.
    pub lost: u64,
    /// Datagrams that arrived after one with a higher number.
    pub out_of_order: u64,
    /// The highest datagram number.
    pub datagrams: u64,
    /// The interarrival jitter of RFC 3550.
    pub jitter: Duration,
    /// The latencies; `None` from iperf 2.0.5 and older.
    pub latency: Option<LatencyReport>,
    /// The server uses enhanced reports. Clients then treat its clock as synchronised.
    pub is_enhanced: bool,
}

/// The one-way latencies of datagrams, in microseconds by the clocks of both ends. They are
/// negative if the receiver's clock is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyReport {
    /// The minimum.
    pub min_us: i64,
    /// The maximum.
    pub max_us: i64,
    /// The sum.
    pub sum_us: i64,
    /// The mean.
    pub mean_us: i64,
    /// The sum of squared deviations, in square microseconds: integer part and millionths.
    pub squares: [u32; 2],
    /// A value that stock sends and nothing uses: integer part and millionths.
    pub variance_delta: [u32; 2],
    /// The number of latencies.
    pub count: u32,
    /// Datagrams per second.
    pub packets_per_second: u32,
}

/// Flag: the report is valid.
const VALID: u32 = 0x8000_0000;
/// Flag: the server uses enhanced reports (`-e`). The latencies may be valid without this flag.
const ENHANCED: u32 = 0x4000_0000;
/// Flag: the counters have 64 bits.
const WIDE: u32 = 0x0800_0000;

impl LatencyReport {
    /// Returns the mean in microseconds, without latencies 0. The sum has 32 bits of seconds, which
    /// two latencies exceed if the clocks differ by decades. The mean then comes from its own field.
    pub fn mean_us(&self) -> f64 {
        let largest = self.min_us.unsigned_abs().max(self.max_us.unsigned_abs());
        let largest_sum = u128::from(largest) * u128::from(self.count);
        if largest_sum <= i32::MAX as u128 * 1_000_000 {
            self.sum_us as f64 / f64::from(self.count.max(1))
        } else {
            self.mean_us as f64
        }
    }
}

impl ServerReport {
    /// The length in bytes of the answer to a datagram with a 64-bit number.
    pub const LEN: usize = 128;

    /// The end of the counters in the older form.
    const NARROW_END: usize = DatagramHeader::NARROW_LEN + 40;

    /// Encodes the answer to a client with 64-bit numbers.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        self.write_counts(&mut bytes, DatagramHeader::WIDE_LEN);
        let enhanced = if self.is_enhanced { ENHANCED } else { 0 };
        if let Some(latency) = &self.latency {
            for (at, us) in [
                (56, latency.min_us),
                (64, latency.max_us),
                (72, latency.sum_us),
                (80, latency.mean_us),
            ] {
                write_word(&mut bytes, at, (us / 1_000_000) as u32);
                write_word(&mut bytes, at + 4, (us % 1_000_000) as u32);
            }
            let words = [latency.squares, latency.variance_delta];
            for (index, value) in words.as_flattened().iter().enumerate() {
                write_word(&mut bytes, 88 + 4 * index, *value);
            }
            write_word(&mut bytes, 104, latency.count);
            write_word(&mut bytes, 108, latency.packets_per_second);
        }
        write_word(&mut bytes, 16, VALID | WIDE | enhanced);
        write_word(&mut bytes, 112, 1);
        for (at, count) in [
            (116, self.lost),
            (120, self.out_of_order),
            (124, self.datagrams),
        ] {
            write_word(&mut bytes, at, (count >> 32) as u32);
        }
        bytes
    }

    /// Encodes the answer to a client of iperf 2.0.5 or older.
    ///
    /// The answer is a datagram of the client, with the counters after number and timestamp.
    pub fn encode_narrow(&self, datagram: &[u8]) -> Vec<u8> {
        let mut bytes = datagram.to_vec();
        bytes.resize(datagram.len().max(Self::NARROW_END), 0);
        self.write_counts(&mut bytes, DatagramHeader::NARROW_LEN);
        write_word(&mut bytes, DatagramHeader::NARROW_LEN, VALID);
        bytes
    }

    fn write_counts(&self, bytes: &mut [u8], offset: usize) {
        write_word(bytes, offset + 4, (self.bytes >> 32) as u32);
        write_word(bytes, offset + 8, self.bytes as u32);
        WallTime::after_epoch(self.elapsed).write(bytes, offset + 12);
        write_word(bytes, offset + 20, self.lost as u32);
        write_word(bytes, offset + 24, self.out_of_order as u32);
        write_word(bytes, offset + 28, self.datagrams as u32);
        WallTime::after_epoch(self.jitter).write(bytes, offset + 32);
    }

    /// Decodes an answer in either form; `None` for other data, such as an echoed datagram.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let is_valid = |at: usize| bytes.len() >= at + 40 && read_word(bytes, at) & VALID != 0;
        let offset = [DatagramHeader::WIDE_LEN, DatagramHeader::NARROW_LEN]
            .into_iter()
            .find(|offset| is_valid(*offset))?;
        let bits = read_word(bytes, offset);
        let high = |at: usize| {
            if bits & WIDE != 0 {
                u64::from(read_word(bytes, at)) << 32
            } else {
                0
            }
        };
        let low = |at: usize| u64::from(read_word(bytes, offset + at));
        let time = |at: usize| {
            let time = WallTime::read(bytes, at);
            time.since_epoch()
        };
        // Both words of a negative time are negative.
        let signed_us = |at: usize| {
            let [seconds, micros] = [at, at + 4].map(|at| read_word(bytes, at).cast_signed());
            i64::from(seconds) * 1_000_000 + i64::from(micros)
        };
        let pair = |at: usize| [read_word(bytes, at), read_word(bytes, at + 4)];
        let has_latency = offset == DatagramHeader::WIDE_LEN && bytes.len() >= 112;
        Some(Self {
            bytes: low(4) << 32 | low(8),
            elapsed: time(offset + 12),
            lost: high(116) | low(20),
            out_of_order: high(120) | low(24),
            datagrams: high(124) | low(28),
            jitter: time(offset + 32),
            latency: has_latency.then(|| LatencyReport {
                min_us: signed_us(56),
                max_us: signed_us(64),
                sum_us: signed_us(72),
                mean_us: signed_us(80),
                squares: pair(88),
                variance_delta: pair(96),
                count: read_word(bytes, 104),
                packets_per_second: read_word(bytes, 108),
            }),
            is_enhanced: has_latency && bits & ENHANCED != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> ServerReport {
        ServerReport {
            bytes: 5 << 32 | 7,
            elapsed: Duration::new(1, 58_607_000),
            lost: 3,
            out_of_order: 1,
            datagrams: 38,
            jitter: Duration::from_micros(7),
            latency: None,
            is_enhanced: false,
        }
    }

    fn with_latency() -> ServerReport {
        let latency = LatencyReport {
            min_us: -4_000_004,
            max_us: 53,
            sum_us: 1_001_058,
            mean_us: 27,
            squares: [2717, 52_631],
            variance_delta: [0, 5],
            count: 38,
            packets_per_second: 35,
        };
        ServerReport {
            latency: Some(latency),
            is_enhanced: true,
            ..report()
        }
    }

    #[test]
    fn both_forms_survive_a_round_trip() {
        let wide = with_latency();
        assert_eq!(ServerReport::decode(&wide.encode()), Some(wide));
        let datagram = [b'7'; 100];
        let narrow = report().encode_narrow(&datagram);
        assert_eq!((narrow.len(), &narrow[..12]), (100, &datagram[..12]));
        // An older client reads the report at offset 12. Offset 16, where the newer form has its
        // flags, holds a counter without the flag `VALID`.
        assert_eq!(ServerReport::decode(&narrow), Some(report()));
        assert_eq!(ServerReport::decode(&[b'7'; 128]), None);
        assert_eq!(ServerReport::decode(&[0xff; 51]), None);
    }
}
