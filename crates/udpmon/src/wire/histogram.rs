//! The object of a histogram. A responder fills it, and a requester prints it.

use codec::{Endian, Record, Text};

codec::record! {
    /// A histogram with bins of equal width.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LinearHistogram: 8064 bytes {
        /// The ID of the histogram.
        [0] id: u32,
        /// The low edge of the first bin.
        [4] low: i32,
        /// The width of each bin.
        [8] width: i32,
        /// The number of bins in use.
        [12] bins: u32,
        /// The sum of the values in bins.
        [16] sum: i64,
        /// The number of values: first below all bins, then in each bin; the last element counts
        /// values above all bins.
        [32] counts: [u64; 1000],
        /// The title of the histogram.
        [8032] title: Text<32>,
    }
}

/// The bins of a histogram: in 0.1 µs for a responder's histogram 0, in µs for `udpmon_req`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binning {
    /// The low edge of the first bin.
    pub low: i32,
    /// The width of a bin, at least 1.
    pub width: i32,
}

impl Default for Binning {
    fn default() -> Self {
        Self { low: 0, width: 1 }
    }
}

const OVERFLOW_INDEX: usize = 999;
const MAX_BINS: u32 = 998;

/// The scale of histograms 3 and 4, as in stock: their bins in ns are the requested bins (in 0.1
/// µs) times 250.
const STOCK_SCALE: i32 = 250;

impl LinearHistogram {
    /// The number of histograms of a responder.
    pub const COUNT: u32 = 5;

    /// Creates an empty histogram.
    pub fn new(id: u32, title: &str, low: i32, width: i32, bins: u32) -> Self {
        Self {
            id,
            low,
            width: width.max(1),
            bins: bins.min(MAX_BINS),
            sum: 0,
            counts: [0; 1000],
            title: Text::truncated(title),
        }
    }

    /// Returns the five empty histograms of a responder, in the order of their IDs.
    pub fn all_for_responder(binning: Binning) -> Vec<Self> {
        let (low, width) = (binning.low, binning.width);
        let scale = |value: i32| value.saturating_mul(STOCK_SCALE);
        let times = |id, title, low, width| Self::new(id, title, low, width, 150);
        vec![
            times(0, "Time between frames 0.1us", low, width),
            Self::new(1, "Lost-frame sequence", 0, 1, 10),
            Self::new(2, "Out-of-order", 0, 1, 10),
            times(
                3,
                "hwsystem Time between frames ns",
                scale(low),
                scale(width),
            ),
            times(4, "hwraw Time between frames ns", scale(low), scale(width)),
        ]
    }

    /// Adds a value.
    pub fn record(&mut self, value: i64) {
        let offset = value.saturating_sub(self.low.into());
        // Round down. Stock rounds towards zero, and so counts values slightly below the low edge
        // in the first bin.
        let bin = offset.div_euclid(self.width.into());
        let index = match u32::try_from(bin) {
            Ok(bin) if bin < self.bins => {
                self.sum = self.sum.saturating_add(value);
                bin as usize + 1
            }
            Err(_) if bin < 0 => 0,
            _ => OVERFLOW_INDEX,
        };
        self.counts[index] = self.counts[index].saturating_add(1);
    }

    /// Decodes the object. Limits the number of bins to those that fit. A bin width below 1 becomes
    /// 1.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.first_chunk()?;
        let mut histogram = Self::from_bytes(bytes, Endian::Little);
        histogram.bins = histogram.bins.min(MAX_BINS);
        histogram.width = histogram.width.max(1);
        Some(histogram)
    }

    /// Encodes the object.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::LEN];
        self.write_to(&mut bytes, Endian::Little);
        bytes
    }

    /// Returns the counts of the bins in use.
    pub fn bin_counts(&self) -> &[u64] {
        &self.counts[1..=self.bins.min(MAX_BINS) as usize]
    }

    /// Returns the low edge of a bin. The first bin has index 0.
    pub fn low_edge(&self, bin: usize) -> i64 {
        i64::from(self.low) + bin as i64 * i64::from(self.width)
    }

    /// Returns the number of values in all bins together.
    pub fn binned_count(&self) -> u64 {
        self.bin_counts()
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the number of values below the first bin.
    pub fn underflow(&self) -> u64 {
        self.counts[0]
    }

    /// Returns the number of values above the last bin.
    pub fn overflow(&self) -> u64 {
        self.counts[OVERFLOW_INDEX]
    }

    /// Returns the mean of the values in bins; 0 without such values.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.binned_count().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_into_their_bins() {
        let mut histogram = LinearHistogram::new(0, "times", 10, 5, 3);
        for value in [i64::MIN, 9, 10, 14, 15, 24, 25, i64::MAX] {
            histogram.record(value);
        }
        assert_eq!((histogram.underflow(), histogram.overflow()), (2, 2));
        assert_eq!(histogram.bin_counts(), [2, 1, 1]);
        assert_eq!((histogram.low_edge(2), histogram.sum), (20, 63));
        assert!((histogram.mean() - 15.75).abs() < 1e-9);
        assert_eq!(
            LinearHistogram::decode(&histogram.encode()),
            Some(histogram)
        );
        assert_eq!(LinearHistogram::decode(&[0; 8063]), None);
    }

    #[test]
    fn invalid_images_are_decoded_without_overflow() {
        let saturated = LinearHistogram::decode(&[0xff; LinearHistogram::LEN]).unwrap();
        assert_eq!(
            (saturated.bin_counts().len(), saturated.binned_count()),
            (998, u64::MAX)
        );
        let invalid_bins = Binning {
            low: i32::MIN,
            width: 0,
        };
        for mut histogram in LinearHistogram::all_for_responder(invalid_bins) {
            histogram.record(i64::MAX);
            histogram.record(-1);
            assert!(histogram.width > 0);
        }
    }
}
