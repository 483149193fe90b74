//! Selectors for any percentile of the latency.

use std::borrow::Cow;

/// Any percentile of the latency, by a number from 0 to 100: `P95_LATENCY`, `P99.99_LATENCY`.
///
/// It keeps the name as requested, for the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Percentile {
    /// The name in upper case.
    name: String,
}

impl Percentile {
    /// Returns the examples for the list of all selectors.
    pub(super) fn listed() -> impl Iterator<Item = Self> {
        ["P95_LATENCY", "P99.9_LATENCY", "P99.99_LATENCY"]
            .into_iter()
            .filter_map(Self::by_name)
    }

    /// Returns the percentile with this name, in upper or lower case.
    pub fn by_name(name: &str) -> Option<Self> {
        let percentile = Self {
            name: name.to_ascii_uppercase(),
        };
        let number = percentile
            .name
            .strip_prefix('P')?
            .strip_suffix("_LATENCY")?;
        is_percentage(number).then_some(percentile)
    }

    /// Returns the requested name in upper case.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the percentage.
    pub fn percent(&self) -> f64 {
        self.number().parse().expect("the name was checked")
    }

    /// Returns the lines of the column header, in the form of the stock tool's percentiles.
    pub fn header(&self) -> Vec<Cow<'static, str>> {
        vec![
            ordinal(self.number()).into(),
            "Percentile".into(),
            "Latency".into(),
            "Microseconds".into(),
        ]
    }

    fn number(&self) -> &str {
        &self.name["P".len()..self.name.len() - "_LATENCY".len()]
    }
}

/// Whether `text` is a number from 0 to 100: digits with at most one point and no exponent.
fn is_percentage(text: &str) -> bool {
    text.len() <= MAX_NUMBER_LEN
        && text.starts_with(|first: char| first.is_ascii_digit())
        && text.ends_with(|last: char| last.is_ascii_digit())
        && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.'))
        && text
            .parse()
            .is_ok_and(|percent| (0.0..=100.0).contains(&percent))
}

/// The maximum length of the number, including its point. It is enough for an `f64`; a longer word
/// in a selection file is not a selector.
const MAX_NUMBER_LEN: usize = 20;

fn ordinal(number: &str) -> String {
    let suffix = match number.as_bytes() {
        _ if number.contains('.') => "th",
        [.., b'1', b'1' | b'2' | b'3'] => "th",
        [.., b'1'] => "st",
        [.., b'2'] => "nd",
        [.., b'3'] => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_names_give_percentage_and_header() {
        for (name, percent, header) in [
            ("P99.9_LATENCY", 99.9, "99.9th"),
            ("p0.1_latency", 0.1, "0.1th"),
            ("P0_LATENCY", 0.0, "0th"),
            ("P100_LATENCY", 100.0, "100th"),
            ("P1_LATENCY", 1.0, "1st"),
            ("P11_LATENCY", 11.0, "11th"),
            ("P22_LATENCY", 22.0, "22nd"),
            ("P93_LATENCY", 93.0, "93rd"),
            ("P50.0_LATENCY", 50.0, "50.0th"),
            ("P99.999999_LATENCY", 99.999_999, "99.999999th"),
        ] {
            let percentile = Percentile::by_name(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(percentile.name(), name.to_ascii_uppercase());
            assert_eq!(
                percentile.percent().to_bits(),
                f64::to_bits(percent),
                "{name}"
            );
            assert_eq!(percentile.header()[0], header);
        }
    }

    #[test]
    fn invalid_percentile_names_are_refused() {
        for name in [
            "P_LATENCY",
            "P100.1_LATENCY",
            "P101_LATENCY",
            "P-1_LATENCY",
            "P+1_LATENCY",
            "P.5_LATENCY",
            "P5._LATENCY",
            "P1.2.3_LATENCY",
            "P1E1_LATENCY",
            "PINF_LATENCY",
            "PNAN_LATENCY",
            "P99_LATENCY_",
            "99_LATENCY",
            "P0.0000000000000000000001_LATENCY",
            "P9\u{e9}_LATENCY",
        ] {
            assert_eq!(Percentile::by_name(name), None, "{name}");
        }
    }
}
