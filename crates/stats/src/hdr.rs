//! HdrHistogram's V2 encoding of a [`Histogram`].
//!
//! At two significant digits from 1 on HdrHistogram has the very buckets that ours has, so what is
//! written is exactly the counts. Histograms of other tools, with other precisions, are read too:
//! each of their buckets counts at its middle. Times are nanoseconds, as is the field's custom.
//!
//! The format is public: a header of 40 bytes (cookie, payload length, normalizing offset, digits,
//! lowest and highest trackable value, conversion ratio), all big-endian, and the counts as LEB128 of
//! ZigZag numbers, of which a negative one is so many empty buckets. Its compressed form is another
//! cookie, a length, and the same as a zlib stream.

use std::io::{BufReader, Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Histogram;
use crate::histogram::{BUCKETS, MAX_BITS};

const COOKIE: u32 = 0x1c84_9313;
const COMPRESSED_COOKIE: u32 = 0x1c84_9314;

/// Two digits: 256 buckets of width 1, then 128 an octave.
const DIGITS: u32 = 2;
const LOWEST: u64 = 1;
const HIGHEST: u64 = (1 << MAX_BITS) - 1;
const RATIO: f64 = 1.0;

const HEADER_LEN: usize = 40;

/// The longest encoded histogram that a reader takes, in bytes: one of five digits with every bucket
/// in use has fewer.
const MAX_LEN: u64 = 64 << 20;

/// Why bytes are no histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HdrError {
    /// They end too early.
    #[error("the histogram is cut off")]
    Cut,
    /// Neither V2 nor compressed V2.
    #[error("not a histogram in HdrHistogram's V2 encoding")]
    OtherEncoding,
    /// A header that makes no sense.
    #[error("the histogram's header is damaged")]
    BadHeader,
    /// Values that were shifted or scaled, which no tool does to times.
    #[error("the histogram is of scaled values, not of times")]
    Scaled,
    /// More buckets than the header has room for, or no number.
    #[error("the histogram's counts are damaged")]
    BadCounts,
    /// Not a zlib stream.
    #[error("the compressed histogram is damaged")]
    BadCompression,
    /// Not Base64.
    #[error("the histogram's Base64 is damaged")]
    BadBase64,
}

impl Histogram {
    /// The V2 encoding: the counts, exactly, and nothing else.
    pub fn to_v2(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        let used = self.counts().iter().rposition(|count| *count > 0);
        let mut empty = 0_i64;
        for &count in &self.counts()[..used.map_or(0, |last| last + 1)] {
            if count == 0 {
                empty += 1;
                continue;
            }
            if empty > 0 {
                put_number(&mut payload, -empty);
                empty = 0;
            }
            put_number(&mut payload, count.into());
        }
        let mut bytes = Vec::with_capacity(HEADER_LEN + payload.len());
        bytes.extend(COOKIE.to_be_bytes());
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(0_u32.to_be_bytes());
        bytes.extend(DIGITS.to_be_bytes());
        bytes.extend(LOWEST.to_be_bytes());
        bytes.extend(HIGHEST.to_be_bytes());
        bytes.extend(RATIO.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    /// The compressed V2 encoding, which histogram logs hold.
    pub fn to_compressed_v2(&self) -> Vec<u8> {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        // Writing to memory does not fail.
        let _ = zlib.write_all(&self.to_v2());
        let stream = zlib.finish().unwrap_or_default();
        let mut bytes = Vec::with_capacity(8 + stream.len());
        bytes.extend(COMPRESSED_COOKIE.to_be_bytes());
        bytes.extend((stream.len() as u32).to_be_bytes());
        bytes.extend(stream);
        bytes
    }

    /// Reads the V2 encoding. Nothing is allocated but the histogram itself.
    pub fn from_v2(bytes: &[u8]) -> Result<Self, HdrError> {
        read(bytes)
    }

    /// Reads the V2 encoding or its compressed form.
    pub fn from_any_v2(bytes: &[u8]) -> Result<Self, HdrError> {
        match bytes.split_first_chunk() {
            Some((cookie, rest)) if *cookie == COMPRESSED_COOKIE.to_be_bytes() => {
                let (length, stream) = rest.split_first_chunk().ok_or(HdrError::Cut)?;
                let length = u32::from_be_bytes(*length) as usize;
                let stream = stream.get(..length).ok_or(HdrError::Cut)?;
                read(ZlibDecoder::new(stream).take(MAX_LEN))
            }
            _ => read(bytes),
        }
    }

    pub(crate) fn to_base64(&self) -> String {
        STANDARD.encode(self.to_compressed_v2())
    }

    pub(crate) fn from_base64(text: &str) -> Result<Self, HdrError> {
        let bytes = STANDARD
            .decode(text.trim())
            .map_err(|_| HdrError::BadBase64)?;
        Self::from_any_v2(&bytes)
    }
}

/// What the encoding has no place for, beside it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Exact {
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
    pub(crate) sum_ns: u64,
    pub(crate) squares_ns2: f64,
}

/// A histogram in a document: uncompressed, as a few hundred bytes need no compression and a peer's
/// need not be inflated.
#[derive(Serialize, Deserialize)]
struct Document {
    hdr_v2: String,
    #[serde(flatten)]
    exact: Option<Exact>,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Document {
            hdr_v2: STANDARD.encode(self.to_v2()),
            exact: self.exact(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let document = Document::deserialize(deserializer)?;
        let bytes = STANDARD.decode(document.hdr_v2).map_err(D::Error::custom)?;
        let mut times = Self::from_v2(&bytes).map_err(D::Error::custom)?;
        if let Some(exact) = document.exact {
            times.believe(exact);
        }
        Ok(times)
    }
}

fn read(bytes: impl Read) -> Result<Histogram, HdrError> {
    let mut bytes = BufReader::new(bytes);
    let mut header = [0; HEADER_LEN];
    bytes.read_exact(&mut header).map_err(|error| cut(&error))?;
    let layout = Layout::of(&header)?;
    let length = u64::from(word(&header, 4));
    // The bytes after the payload are not the histogram's.
    let mut rest = bytes.take(length);
    let mut payload = rest.by_ref().bytes();
    let mut times = Histogram::default();
    let mut bucket = 0_u64;
    while let Some(first) = payload.next() {
        let number = number(first.map_err(|error| cut(&error))?, &mut payload)?;
        if number < 0 {
            bucket = bucket
                .checked_add(number.unsigned_abs())
                .ok_or(HdrError::BadCounts)?;
            continue;
        }
        let (low, high) = layout.bucket(bucket).ok_or(HdrError::BadCounts)?;
        times.record_bucket(low, high, number.unsigned_abs());
        bucket += 1;
    }
    if rest.limit() > 0 {
        return Err(HdrError::Cut);
    }
    Ok(times)
}

/// What of a header says where its buckets lie.
struct Layout {
    /// Values below this power of two are not told apart.
    unit_bits: u32,
    /// Half of the buckets that an octave and all octaves below it share.
    half_bits: u32,
    buckets: u64,
}

impl Layout {
    fn of(header: &[u8; HEADER_LEN]) -> Result<Self, HdrError> {
        if word(header, 0) != COOKIE {
            return Err(HdrError::OtherEncoding);
        }
        let (offset, digits) = (word(header, 8), word(header, 12));
        let (lowest, highest) = (long(header, 16), long(header, 24));
        let ratio = f64::from_bits(long(header, 32));
        if digits > 5 || lowest == 0 || highest / 2 < lowest {
            return Err(HdrError::BadHeader);
        }
        if offset != 0 || (ratio - RATIO).abs() > f64::EPSILON {
            return Err(HdrError::Scaled);
        }
        let unit_bits = lowest.ilog2();
        let single_units = 2 * 10_u64.pow(digits);
        let sub_bits = single_units.next_power_of_two().ilog2();
        if unit_bits + sub_bits > 62 {
            return Err(HdrError::BadHeader);
        }
        // Octaves above the first, which has the whole of the sub-buckets.
        let octaves = (highest >> (unit_bits + sub_bits))
            .checked_ilog2()
            .map_or(0, |top| u64::from(top) + 1);
        Ok(Self {
            unit_bits,
            half_bits: sub_bits - 1,
            buckets: (octaves + 2) << (sub_bits - 1),
        })
    }

    /// The lowest and the highest value of a bucket.
    fn bucket(&self, index: u64) -> Option<(u64, u64)> {
        if index >= self.buckets {
            return None;
        }
        let half = 1 << self.half_bits;
        let shift = (index >> self.half_bits).saturating_sub(1) as u32;
        let sub = index - (u64::from(shift) << self.half_bits);
        debug_assert!(sub < 2 * half);
        let bits = shift + self.unit_bits;
        let low = sub.checked_shl(bits).filter(|low| low >> bits == sub)?;
        Some((low, low + ((1 << bits) - 1)))
    }
}

/// LEB128 of a ZigZag number; the ninth byte has eight bits of it.
fn put_number(bytes: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    for _ in 0..8 {
        if rest < 0x80 {
            bytes.push(rest as u8);
            return;
        }
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

fn number(
    first: u8,
    rest: &mut impl Iterator<Item = std::io::Result<u8>>,
) -> Result<i64, HdrError> {
    let mut value = u64::from(first & 0x7f);
    let mut byte = first;
    let mut shift = 7;
    while byte & 0x80 != 0 && shift < 63 {
        byte = rest
            .next()
            .ok_or(HdrError::Cut)?
            .map_err(|error| cut(&error))?;
        let bits = if shift == 56 { byte } else { byte & 0x7f };
        value |= u64::from(bits) << shift;
        shift += 7;
    }
    Ok((value >> 1) as i64 ^ -((value & 1) as i64))
}

fn cut(error: &std::io::Error) -> HdrError {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => HdrError::Cut,
        _ => HdrError::BadCompression,
    }
}

fn word(bytes: &[u8; HEADER_LEN], at: usize) -> u32 {
    (0..4).fold(0, |value, byte| value << 8 | u32::from(bytes[at + byte]))
}

fn long(bytes: &[u8; HEADER_LEN], at: usize) -> u64 {
    u64::from(word(bytes, at)) << 32 | u64::from(word(bytes, at + 4))
}

const _: () = assert!(BUCKETS == (MAX_BITS as usize - 7 + 1) << 7);

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram as Reference;
    use hdrhistogram::serialization::{
        Deserializer, Serializer, V2DeflateSerializer, V2Serializer,
    };

    use super::*;

    fn sample(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut times = Histogram::default();
        values.into_iter().for_each(|value| times.record(value));
        times
    }

    #[test]
    fn the_reference_reads_what_we_write() {
        let values: Vec<u64> = (0..5000_u64).map(|n| n * n * 37 % 90_000_000).collect();
        let ours = sample(values.iter().copied());
        for bytes in [ours.to_v2(), ours.to_compressed_v2()] {
            let read: Reference<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
            assert_eq!(read.len(), 5000);
            for (low, high, count) in ours.buckets() {
                assert_eq!(read.count_between(low, high), u64::from(count), "{low}");
            }
        }
    }

    #[test]
    fn we_read_what_the_reference_writes() {
        for (digits, lowest, highest) in [
            (2, 1, HIGHEST),
            (3, 1, 3_600_000_000_000),
            (1, 1000, 1 << 40),
            (0, 1, 100),
            (5, 1, u64::MAX),
        ] {
            let mut reference = Reference::<u64>::new_with_bounds(lowest, highest, digits).unwrap();
            for value in [1, 99, 1000, 4711, 123_456, 99_999_999, 20_000_000_000_u64] {
                if value <= highest {
                    reference.record_n(value, 3).unwrap();
                }
            }
            let (mut plain, mut deflated) = (Vec::new(), Vec::new());
            V2Serializer::new()
                .serialize(&reference, &mut plain)
                .unwrap();
            V2DeflateSerializer::new()
                .serialize(&reference, &mut deflated)
                .unwrap();
            for bytes in [plain, deflated] {
                let read = Histogram::from_any_v2(&bytes).unwrap();
                assert_eq!(read.len(), reference.len());
                for percent in [10.0, 50.0, 90.0, 99.9] {
                    let expected = reference.value_at_percentile(percent) as f64;
                    let got = read.percentile(percent).unwrap().as_nanos() as f64;
                    let width = reference.equivalent_range(expected as u64) as f64;
                    assert!(
                        (got - expected).abs() <= expected * 0.01 + width,
                        "{digits}: {got} {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn nothing_is_a_histogram_too() {
        let none = Histogram::default();
        assert!(Histogram::from_v2(&none.to_v2()).unwrap().is_empty());
        let text = serde_json::to_string(&none).unwrap();
        assert!(serde_json::from_str::<Histogram>(&text).unwrap().is_empty());
    }

    #[test]
    fn a_document_keeps_every_figure() {
        let times = sample((1..4000).map(|n| n * 1013));
        let text = serde_json::to_string(&times).unwrap();
        let read: Histogram = serde_json::from_str(&text).unwrap();
        assert_eq!(read.summary(), times.summary());
    }

    #[test]
    fn exact_figures_that_contradict_the_counts_are_not_believed() {
        let times = sample([1000, 2000, 3000]);
        let text = serde_json::to_string(&times).unwrap();
        for (from, to) in [
            ("\"min_ns\":1000", "\"min_ns\":1"),
            ("\"max_ns\":3000", "\"max_ns\":900000"),
            ("\"sum_ns\":6000", "\"sum_ns\":18446744073709551615"),
        ] {
            let forged = text.replace(from, to);
            assert_ne!(forged, text);
            let read: Histogram = serde_json::from_str(&forged).unwrap();
            let summary = read.summary().unwrap();
            assert!((990..=1010).contains(&summary.min_ns), "{summary:?}");
            assert!((2990..=3020).contains(&summary.max_ns), "{summary:?}");
            assert!((1980.0..2020.0).contains(&summary.mean_ns), "{summary:?}");
        }
    }

    #[test]
    fn damage_is_named() {
        let good = sample([5, 500, 50_000]).to_v2();
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        for (bytes, error) in [
            (Vec::new(), HdrError::Cut),
            (good[..39].to_vec(), HdrError::Cut),
            (good[..good.len() - 1].to_vec(), HdrError::Cut),
            (with(3, 0x12), HdrError::OtherEncoding),
            (with(11, 1), HdrError::Scaled),
            (with(15, 6), HdrError::BadHeader),
            (with(32, 0), HdrError::Scaled),
        ] {
            assert_eq!(Histogram::from_any_v2(&bytes).unwrap_err(), error);
        }
        let mut far = good.clone();
        far[4..8].copy_from_slice(&10_u32.to_be_bytes());
        far.truncate(HEADER_LEN);
        put_number(&mut far, -5000);
        put_number(&mut far, 1);
        assert_eq!(Histogram::from_v2(&far).unwrap_err(), HdrError::BadCounts);
        let mut bomb = COMPRESSED_COOKIE.to_be_bytes().to_vec();
        bomb.extend([0, 0, 0, 4, 1, 2, 3, 4]);
        assert_eq!(
            Histogram::from_any_v2(&bomb).unwrap_err(),
            HdrError::BadCompression
        );
    }
}
