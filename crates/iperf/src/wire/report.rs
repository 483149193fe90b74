//! What a server answers the last datagram of a UDP test.

use std::time::Duration;

use super::{DatagramHeader, WallTime, put, word};

/// The receiver's figures of a UDP test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerReport {
    /// Payload, the last datagram's included.
    pub bytes: u64,
    /// From the first datagram to the last.
    pub elapsed: Duration,
    /// Datagrams that did not come.
    pub lost: u64,
    /// Datagrams that came after one of a higher number.
    pub out_of_order: u64,
    /// The highest number.
    pub datagrams: u64,
    /// RFC 3550's delay variation.
    pub jitter: Duration,
    /// How long datagrams took; `None` of iperf 2.0.5 and older.
    pub latency: Option<LatencyReport>,
    /// The server reports in the enhanced form, so its clock may be taken for synchronised.
    pub is_enhanced: bool,
}

/// How long datagrams took, by both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyReport {
    /// The shortest.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
    /// All of them together.
    pub sum: Duration,
    /// The mean.
    pub mean: Duration,
    /// The squares of the deviations together, in square microseconds, whole and millionths.
    pub squares: [u32; 2],
    /// A word of stock's that nothing depends on, whole and millionths.
    pub variance_delta: [u32; 2],
    /// How many.
    pub count: u32,
    /// Datagrams per second.
    pub packets_per_second: u32,
}

/// The figures are valid.
const VALID: u32 = 0x8000_0000;
/// What follows the plain figures is meant.
const EXTENDED: u32 = 0x4000_0000;
/// The counts have 64 bits.
const WIDE: u32 = 0x0800_0000;

impl ServerReport {
    /// Length of the answer to a datagram with a number of 64 bits.
    pub const LEN: usize = 128;

    /// Where the figures of the older form end.
    const NARROW_END: usize = DatagramHeader::NARROW + 40;

    /// The answer to a client that has numbers of 64 bits.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        self.put(&mut bytes, DatagramHeader::WIDE);
        let enhanced = if self.is_enhanced { EXTENDED } else { 0 };
        if let Some(latency) = &self.latency {
            for (at, time) in [
                (56, latency.min),
                (64, latency.max),
                (72, latency.sum),
                (80, latency.mean),
            ] {
                WallTime::after_epoch(time).write(&mut bytes, at);
            }
            let words = [latency.squares, latency.variance_delta];
            for (index, value) in words.as_flattened().iter().enumerate() {
                put(&mut bytes, 88 + 4 * index, *value);
            }
            put(&mut bytes, 104, latency.count);
            put(&mut bytes, 108, latency.packets_per_second);
        }
        put(&mut bytes, 16, VALID | WIDE | enhanced);
        put(&mut bytes, 112, 1);
        for (at, count) in [
            (116, self.lost),
            (120, self.out_of_order),
            (124, self.datagrams),
        ] {
            put(&mut bytes, at, (count >> 32) as u32);
        }
        bytes
    }

    /// The answer to a client of iperf 2.0.5 or older: its last datagram with the figures behind number and stamp.
    pub fn encode_narrow(&self, last: &[u8]) -> Vec<u8> {
        let mut bytes = last.to_vec();
        bytes.resize(last.len().max(Self::NARROW_END), 0);
        self.put(&mut bytes, DatagramHeader::NARROW);
        put(&mut bytes, DatagramHeader::NARROW, VALID);
        bytes
    }

    fn put(&self, bytes: &mut [u8], from: usize) {
        put(bytes, from + 4, (self.bytes >> 32) as u32);
        put(bytes, from + 8, self.bytes as u32);
        WallTime::after_epoch(self.elapsed).write(bytes, from + 12);
        put(bytes, from + 20, self.lost as u32);
        put(bytes, from + 24, self.out_of_order as u32);
        put(bytes, from + 28, self.datagrams as u32);
        WallTime::after_epoch(self.jitter).write(bytes, from + 32);
    }

    /// Reads an answer in either form; `None` of anything else, such as an echo of the last datagram.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let is_valid = |at: usize| bytes.len() >= at + 40 && word(bytes, at) & VALID != 0;
        let from = [DatagramHeader::WIDE, DatagramHeader::NARROW]
            .into_iter()
            .find(|from| is_valid(*from))?;
        let bits = word(bytes, from);
        let high = |at: usize| {
            if bits & WIDE != 0 {
                u64::from(word(bytes, at)) << 32
            } else {
                0
            }
        };
        let low = |at: usize| u64::from(word(bytes, from + at));
        let time = |at: usize| {
            let time = WallTime::read(bytes, at);
            time.since_epoch()
        };
        let pair = |at: usize| [word(bytes, at), word(bytes, at + 4)];
        let has_latency = from == DatagramHeader::WIDE && bytes.len() >= 112;
        Some(Self {
            bytes: low(4) << 32 | low(8),
            elapsed: time(from + 12),
            lost: high(116) | low(20),
            out_of_order: high(120) | low(24),
            datagrams: high(124) | low(28),
            jitter: time(from + 32),
            latency: has_latency.then(|| LatencyReport {
                min: time(56),
                max: time(64),
                sum: time(72),
                mean: time(80),
                squares: pair(88),
                variance_delta: pair(96),
                count: word(bytes, 104),
                packets_per_second: word(bytes, 108),
            }),
            is_enhanced: has_latency && bits & EXTENDED != 0,
        })
    }

    /// Whether the figures agree with each other and with the sent data: this number of bytes, in datagrams of these numbers,
    /// the last one included.
    pub fn is_possible(&self, sent_bytes: u64, sent_datagrams: u64) -> bool {
        let most_bytes = sent_bytes.saturating_mul(2);
        self.lost <= self.datagrams
            && self.datagrams <= sent_datagrams
            && self.bytes <= most_bytes
            && self.jitter < Duration::from_secs(3600)
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
        let micros = Duration::from_micros;
        let latency = LatencyReport {
            min: micros(4),
            max: micros(53),
            sum: micros(1058),
            mean: micros(27),
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
    fn both_forms_come_back() {
        let wide = with_latency();
        assert_eq!(ServerReport::decode(&wide.encode()), Some(wide));
        let last = [b'7'; 100];
        let narrow = report().encode_narrow(&last);
        assert_eq!((narrow.len(), &narrow[..12]), (100, &last[..12]));
        // An older client reads it at 12; the digits behind it do not look like a report of the newer form.
        assert_eq!(ServerReport::decode(&narrow), Some(report()));
        assert_eq!(ServerReport::decode(&[b'7'; 128]), None);
        assert_eq!(ServerReport::decode(&[0xff; 51]), None);
    }

    #[test]
    fn false_figures_are_seen() {
        let sent = (10 << 32, 39);
        assert!(report().is_possible(sent.0, sent.1));
        for wrong in [
            ServerReport {
                lost: 39,
                ..report()
            },
            ServerReport {
                datagrams: 40,
                ..report()
            },
            ServerReport {
                bytes: 21 << 32,
                ..report()
            },
            ServerReport {
                jitter: Duration::from_secs(4000),
                ..report()
            },
        ] {
            assert!(!wrong.is_possible(sent.0, sent.1), "{wrong:?}");
        }
    }
}
