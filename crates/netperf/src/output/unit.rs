//! The unit of throughput, selected with `-f`.

use crate::options::ThroughputUnit;

impl ThroughputUnit {
    /// Transactions per second, the default of request/response tests.
    pub(super) const TRANSACTIONS: Self = Self('x');
    /// 10⁶ bits per second, the default of all other tests.
    pub(super) const MEGABITS: Self = Self('m');

    /// Returns the name in a column header, where "/s" or "/sec" follows it.
    pub(super) fn name(self) -> &'static str {
        match self.0 {
            'G' => "GBytes",
            'M' => "MBytes",
            'B' => "Bytes",
            'g' => "10^9bits",
            'm' => "10^6bits",
            'k' => "10^3bits",
            'b' => "10^0bits",
            'x' => "Trans",
            'u' => "Usec",
            // 'K' and all undefined letters.
            _ => "KBytes",
        }
    }

    /// Converts a rate in bytes (for [`Self::TRANSACTIONS`]: transactions) per second to this unit.
    pub(super) fn scale(self, per_second: f64) -> f64 {
        match self.0 {
            'G' => per_second / f64::from(1 << 30),
            'M' => per_second / f64::from(1 << 20),
            'g' => per_second * 8.0 / 1e9,
            'm' => per_second * 8.0 / 1e6,
            'k' => per_second * 8.0 / 1e3,
            // The stock tool prints bytes but labels them bits. Scripts correct for this.
            'B' | 'b' | 'x' => per_second,
            // As in the stock tool, the time per byte, not per transaction.
            'u' if per_second > 0.0 => 1e6 / per_second,
            'u' => 0.0,
            _ => per_second / 1024.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_name_and_scale_as_the_stock_tool_does() {
        for (letter, name, expected) in [
            ('G', "GBytes", 1e9 / 1_073_741_824.0),
            ('M', "MBytes", 1e9 / 1_048_576.0),
            ('K', "KBytes", 976_562.5),
            ('B', "Bytes", 1e9),
            ('g', "10^9bits", 8.0),
            ('m', "10^6bits", 8e3),
            ('k', "10^3bits", 8e6),
            ('b', "10^0bits", 1e9),
            ('x', "Trans", 1e9),
            ('u', "Usec", 1e-3),
            ('?', "KBytes", 976_562.5),
        ] {
            let unit = ThroughputUnit(letter);
            assert_eq!(unit.name(), name);
            assert!((unit.scale(1e9) / expected - 1.0).abs() < 1e-12, "{letter}");
        }
        assert!(ThroughputUnit('u').scale(0.0).abs() < f64::EPSILON);
    }
}
