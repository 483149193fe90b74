//! HdrHistogram's V2 encoding of a [`Histogram`].
//!
//! With two significant digits and a lowest value of 1, HdrHistogram has the same buckets as
//! [`Histogram`], so the encoding keeps the counts exactly. Histograms of other tools may have
//! other precisions. For these, each bucket counts as its middle value. Times are in nanoseconds,
//! as usual in these tools.
//!
//! The format is public. It has a big-endian header of 40 bytes: cookie, payload length,
//! normalizing offset, digits, lowest and highest trackable value, conversion ratio. The counts
//! follow as ZigZag numbers in LEB128; a negative number −n stands for n empty buckets. The
//! compressed form is another cookie, a length, and all this as a zlib stream.

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

/// Two digits: 256 buckets of width 1, then 128 per octave.
const SIGNIFICANT_DIGITS: u32 = 2;
const LOWEST_NS: u64 = 1;
const HIGHEST_NS: u64 = (1 << MAX_BITS) - 1;
const CONVERSION_RATIO: f64 = 1.0;

const HEADER_BYTES: usize = 40;

/// Maximum size of an encoded histogram, in bytes. A histogram of five digits with all buckets in
/// use is smaller.
const MAX_ENCODED_BYTES: u64 = 64 << 20;

/// Error in an encoded histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HdrError {
    /// The bytes end too early.
    #[error("the histogram is truncated")]
    Truncated,
    /// The encoding is neither V2 nor compressed V2.
    #[error("not a histogram in HdrHistogram's V2 encoding")]
    OtherEncoding,
    /// The header has invalid values.
    #[error("the histogram's header is damaged")]
    BadHeader,
    /// The values are shifted or scaled, which no tool does to times.
    #[error("the histogram has scaled values, not times")]
    Scaled,
    /// The payload has more buckets than the header allows, or invalid numbers.
    #[error("the histogram's counts are damaged")]
    BadCounts,
    /// The compressed data is not a zlib stream.
    #[error("the compressed histogram is damaged")]
    BadCompression,
    /// The text is not Base64.
    #[error("the histogram's Base64 is damaged")]
    BadBase64,
}

impl Histogram {
    /// Returns the V2 encoding. It keeps the counts, but not the exact extremes and sums.
    pub fn to_v2(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        let last_used = self.counts().iter().rposition(|count| *count > 0);
        let mut empty_run = 0_i64;
        for &count in &self.counts()[..last_used.map_or(0, |last| last + 1)] {
            if count == 0 {
                empty_run += 1;
                continue;
            }
            if empty_run > 0 {
                write_number(&mut payload, -empty_run);
                empty_run = 0;
            }
            write_number(&mut payload, count.into());
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
        bytes.extend(COOKIE.to_be_bytes());
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(0_u32.to_be_bytes());
        bytes.extend(SIGNIFICANT_DIGITS.to_be_bytes());
        bytes.extend(LOWEST_NS.to_be_bytes());
        bytes.extend(HIGHEST_NS.to_be_bytes());
        bytes.extend(CONVERSION_RATIO.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    /// Returns the compressed V2 encoding, as used in histogram logs.
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

    /// Decodes the V2 encoding. Allocates only the histogram.
    pub fn from_v2(bytes: &[u8]) -> Result<Self, HdrError> {
        read_v2(bytes)
    }

    /// Decodes the V2 encoding or its compressed form.
    pub fn from_any_v2(bytes: &[u8]) -> Result<Self, HdrError> {
        match bytes.split_first_chunk() {
            Some((cookie, rest)) if *cookie == COMPRESSED_COOKIE.to_be_bytes() => {
                let (length, stream) = rest.split_first_chunk().ok_or(HdrError::Truncated)?;
                let length = u32::from_be_bytes(*length) as usize;
                let stream = stream.get(..length).ok_or(HdrError::Truncated)?;
                read_v2(ZlibDecoder::new(stream).take(MAX_ENCODED_BYTES))
            }
            _ => read_v2(bytes),
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

/// Exact figures that the encoding does not include.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExactFigures {
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
    pub(crate) sum_ns: u64,
    pub(crate) squares_ns2: f64,
}

/// A histogram in a JSON document. It is uncompressed: it has only a few hundred bytes, and
/// linerate need not inflate data from a peer.
#[derive(Serialize, Deserialize)]
struct HistogramDocument {
    hdr_v2: String,
    #[serde(flatten)]
    exact: Option<ExactFigures>,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        HistogramDocument {
            hdr_v2: STANDARD.encode(self.to_v2()),
            exact: self.exact_figures(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let document = HistogramDocument::deserialize(deserializer)?;
        let bytes = STANDARD.decode(document.hdr_v2).map_err(D::Error::custom)?;
        let mut times = Self::from_v2(&bytes).map_err(D::Error::custom)?;
        if let Some(exact) = document.exact {
            times.restore_exact(exact);
        }
        Ok(times)
    }
}

fn read_v2(bytes: impl Read) -> Result<Histogram, HdrError> {
    let mut bytes = BufReader::new(bytes);
    let mut header = [0; HEADER_BYTES];
    bytes
        .read_exact(&mut header)
        .map_err(|error| read_error(&error))?;
    let layout = BucketLayout::parse(&header)?;
    let length = u64::from(read_u32(&header, 4));
    // Bytes after the payload are ignored.
    let mut limited = bytes.take(length);
    let mut payload = limited.by_ref().bytes();
    let mut times = Histogram::default();
    let mut bucket = 0_u64;
    while let Some(first) = payload.next() {
        let number = read_number(first.map_err(|error| read_error(&error))?, &mut payload)?;
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
    if limited.limit() > 0 {
        return Err(HdrError::Truncated);
    }
    Ok(times)
}

/// Bucket layout, from the fields of a header.
struct BucketLayout {
    /// Log2 of the width of the smallest bucket.
    unit_bits: u32,
    /// Log2 of the number of buckets per octave above the first.
    half_bits: u32,
    buckets: u64,
}

impl BucketLayout {
    fn parse(header: &[u8; HEADER_BYTES]) -> Result<Self, HdrError> {
        if read_u32(header, 0) != COOKIE {
            return Err(HdrError::OtherEncoding);
        }
        let (offset, digits) = (read_u32(header, 8), read_u32(header, 12));
        let (lowest, highest) = (read_u64(header, 16), read_u64(header, 24));
        let ratio = f64::from_bits(read_u64(header, 32));
        if digits > 5 || lowest == 0 || highest / 2 < lowest {
            return Err(HdrError::BadHeader);
        }
        if offset != 0 || (ratio - CONVERSION_RATIO).abs() > f64::EPSILON {
            return Err(HdrError::Scaled);
        }
        let unit_bits = lowest.ilog2();
        let single_units = 2 * 10_u64.pow(digits);
        let sub_bits = single_units.next_power_of_two().ilog2();
        if unit_bits + sub_bits > 62 {
            return Err(HdrError::BadHeader);
        }
        // Octaves above the first, which has twice the buckets of the others.
        let octaves = (highest >> (unit_bits + sub_bits))
            .checked_ilog2()
            .map_or(0, |top| u64::from(top) + 1);
        Ok(Self {
            unit_bits,
            half_bits: sub_bits - 1,
            buckets: (octaves + 2) << (sub_bits - 1),
        })
    }

    /// Returns the lowest and the highest value of a bucket; `None` if it does not exist.
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

/// Appends a ZigZag number in LEB128; the ninth byte has eight data bits.
fn write_number(bytes: &mut Vec<u8>, number: i64) {
    let mut remaining_bits = ((number << 1) ^ (number >> 63)) as u64;
    for _ in 0..8 {
        if remaining_bits < 0x80 {
            bytes.push(remaining_bits as u8);
            return;
        }
        bytes.push(remaining_bits as u8 | 0x80);
        remaining_bits >>= 7;
    }
    bytes.push(remaining_bits as u8);
}

fn read_number(
    first: u8,
    rest: &mut impl Iterator<Item = std::io::Result<u8>>,
) -> Result<i64, HdrError> {
    let mut value = u64::from(first & 0x7f);
    let mut byte = first;
    let mut shift = 7;
    while byte & 0x80 != 0 && shift < 63 {
        byte = rest
            .next()
            .ok_or(HdrError::Truncated)?
            .map_err(|error| read_error(&error))?;
        let bits = if shift == 56 { byte } else { byte & 0x7f };
        value |= u64::from(bits) << shift;
        shift += 7;
    }
    Ok((value >> 1) as i64 ^ -((value & 1) as i64))
}

fn read_error(error: &std::io::Error) -> HdrError {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => HdrError::Truncated,
        _ => HdrError::BadCompression,
    }
}

fn read_u32(bytes: &[u8; HEADER_BYTES], offset: usize) -> u32 {
    (0..4).fold(0, |value, byte| {
        value << 8 | u32::from(bytes[offset + byte])
    })
}

fn read_u64(bytes: &[u8; HEADER_BYTES], offset: usize) -> u64 {
    u64::from(read_u32(bytes, offset)) << 32 | u64::from(read_u32(bytes, offset + 4))
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
            (2, 1, HIGHEST_NS),
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
    fn an_empty_histogram_survives_encoding() {
        let none = Histogram::default();
        assert!(Histogram::from_v2(&none.to_v2()).unwrap().is_empty());
        let text = serde_json::to_string(&none).unwrap();
        assert!(serde_json::from_str::<Histogram>(&text).unwrap().is_empty());
    }

    #[test]
    fn a_document_keeps_the_summary() {
        let times = sample((1..4000).map(|n| n * 1013));
        let text = serde_json::to_string(&times).unwrap();
        let read: Histogram = serde_json::from_str(&text).unwrap();
        assert_eq!(read.summary(), times.summary());
    }

    #[test]
    fn exact_figures_that_contradict_the_counts_are_ignored() {
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
    fn each_damage_has_its_error() {
        let good = sample([5, 500, 50_000]).to_v2();
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        for (bytes, error) in [
            (Vec::new(), HdrError::Truncated),
            (good[..39].to_vec(), HdrError::Truncated),
            (good[..good.len() - 1].to_vec(), HdrError::Truncated),
            (with(3, 0x12), HdrError::OtherEncoding),
            (with(11, 1), HdrError::Scaled),
            (with(15, 6), HdrError::BadHeader),
            (with(32, 0), HdrError::Scaled),
        ] {
            assert_eq!(Histogram::from_any_v2(&bytes).unwrap_err(), error);
        }
        let mut too_far = good.clone();
        too_far[4..8].copy_from_slice(&10_u32.to_be_bytes());
        too_far.truncate(HEADER_BYTES);
        write_number(&mut too_far, -5000);
        write_number(&mut too_far, 1);
        assert_eq!(
            Histogram::from_v2(&too_far).unwrap_err(),
            HdrError::BadCounts
        );
        let mut bad_stream = COMPRESSED_COOKIE.to_be_bytes().to_vec();
        bad_stream.extend([0, 0, 0, 4, 1, 2, 3, 4]);
        assert_eq!(
            Histogram::from_any_v2(&bad_stream).unwrap_err(),
            HdrError::BadCompression
        );
    }
}
