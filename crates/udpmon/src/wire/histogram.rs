//! The image of a histogram. A responder fills it, and a client prints it.

use codec::{Order, Record, Text};

codec::record! {
    /// A histogram of bins of one width.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Histogram: 8064 bytes {
        /// Its number.
        [0] id: u32,
        /// The low edge of the first bin.
        [4] low: i32,
        /// The width of each bin.
        [8] width: i32,
        /// The bins in use.
        [12] bins: u32,
        /// The sum of all values that are in a bin.
        [16] sum: i64,
        /// Values below the first bin, in each bin, and (last place) above all bins.
        [32] counts: [u64; 1000],
        /// The title of the values.
        [8032] title: Text<32>,
    }
}

/// The bins of a responder's histogram 0, as requested by the client, in 0.1 µs.
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

const OVERFLOW: usize = 999;
const MOST_BINS: u32 = 998;

/// The scale of histograms 3 and 4: nanoseconds per 0.1 µs of a request, as in stock.
const STOCK_SCALE: i32 = 250;

impl Histogram {
    /// The number of histograms of a responder.
    pub const COUNT: u32 = 5;

    /// An empty histogram.
    pub fn new(id: u32, title: &str, low: i32, width: i32, bins: u32) -> Self {
        Self {
            id,
            low,
            width: width.max(1),
            bins: bins.min(MOST_BINS),
            sum: 0,
            counts: [0; 1000],
            title: Text::cut(title),
        }
    }

    /// The five histograms of a responder, in their order.
    pub fn of_responder(binning: Binning) -> Vec<Self> {
        let (low, width) = (binning.low, binning.width);
        let stock = |value: i32| value.saturating_mul(STOCK_SCALE);
        let times = |id, title, low, width| Self::new(id, title, low, width, 150);
        vec![
            times(0, "Time between frames 0.1us", low, width),
            Self::new(1, "Lost-frame sequence", 0, 1, 10),
            Self::new(2, "Out-of-order", 0, 1, 10),
            times(
                3,
                "hwsystem Time between frames ns",
                stock(low),
                stock(width),
            ),
            times(4, "hwraw Time between frames ns", stock(low), stock(width)),
        ]
    }

    /// Adds a value.
    pub fn record(&mut self, value: i64) {
        let offset = value.saturating_sub(self.low.into());
        // Stock divides towards zero, so values slightly below the low edge count in the first bin.
        let bin = offset.div_euclid(self.width.into());
        let place = match u32::try_from(bin) {
            Ok(bin) if bin < self.bins => {
                self.sum = self.sum.saturating_add(value);
                bin as usize + 1
            }
            Err(_) if bin < 0 => 0,
            _ => OVERFLOW,
        };
        self.counts[place] = self.counts[place].saturating_add(1);
    }

    /// Reads an image. Bins that do not fit are left out; a bin width of 0 becomes 1.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.first_chunk()?;
        let mut histogram = Self::of_bytes(bytes, Order::Little);
        histogram.bins = histogram.bins.min(MOST_BINS);
        histogram.width = histogram.width.max(1);
        Some(histogram)
    }

    /// The image.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; Self::LEN];
        self.put(&mut bytes, Order::Little);
        bytes
    }

    /// The counts of the bins in use.
    pub fn in_bins(&self) -> &[u64] {
        &self.counts[1..=self.bins.min(MOST_BINS) as usize]
    }

    /// The low edge of a bin, counted from 0.
    pub fn edge(&self, bin: usize) -> i64 {
        i64::from(self.low) + bin as i64 * i64::from(self.width)
    }

    /// Returns the number of values in a bin.
    pub fn in_range(&self) -> u64 {
        self.in_bins()
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Values below the first bin.
    pub fn underflow(&self) -> u64 {
        self.counts[0]
    }

    /// Values above the last bin.
    pub fn overflow(&self) -> u64 {
        self.counts[OVERFLOW]
    }

    /// Returns the mean of the values in bins; 0 if there are none.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.in_range().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_into_their_bins() {
        let mut histogram = Histogram::new(0, "times", 10, 5, 3);
        for value in [i64::MIN, 9, 10, 14, 15, 24, 25, i64::MAX] {
            histogram.record(value);
        }
        assert_eq!((histogram.underflow(), histogram.overflow()), (2, 2));
        assert_eq!(histogram.in_bins(), [2, 1, 1]);
        assert_eq!((histogram.edge(2), histogram.sum), (20, 63));
        assert!((histogram.mean() - 15.75).abs() < 1e-9);
        assert_eq!(Histogram::decode(&histogram.encode()), Some(histogram));
        assert_eq!(Histogram::decode(&[0; 8063]), None);
    }

    #[test]
    fn absurd_images_are_read() {
        let all = Histogram::decode(&[0xff; Histogram::LEN]).unwrap();
        assert_eq!((all.in_bins().len(), all.in_range()), (998, u64::MAX));
        let absurd = Binning {
            low: i32::MIN,
            width: 0,
        };
        for mut histogram in Histogram::of_responder(absurd) {
            histogram.record(i64::MAX);
            histogram.record(-1);
            assert!(histogram.width > 0);
        }
    }
}
