//! The text of every selector.

#![expect(
    clippy::unnecessary_wraps,
    reason = "each helper gives a selector's value, and a selector may have none"
)]

pub(super) mod interface;
mod own;
mod security;
mod stock;

use super::figures::{Figures, NONE};
use crate::selector::{Percentile, Selector};

/// What the stock tool prints for facts that it has given up to find out, and we of a stock peer.
const DEPRECATED: &str = "Deprecated";

/// There is such a thing, but the host does not tell.
const UNKNOWN: &str = "Unknown";

/// There is no such thing.
const NONE_THERE: &str = "None";

/// The text of a selector; `None` where the run has no value for it.
type Value = fn(&Figures<'_>) -> Option<String>;

/// The last column of a table of selectors.
macro_rules! values {
    ($($name:literal [$($line:literal),+] $value:expr,)+) => {
        &[$($value,)+]
    };
}

use values;

/// A selector's text; `None` where the run has no value for it.
pub(super) fn value(selector: &Selector, figures: &Figures<'_>) -> Option<String> {
    let value = raw_value(selector, figures)?;
    // A peer's words stay in their line and leave the terminal alone.
    if selector.name().starts_with("REMOTE_") {
        return Some(codec::escaped(&value).to_string());
    }
    Some(value)
}

fn raw_value(selector: &Selector, figures: &Figures<'_>) -> Option<String> {
    match selector {
        Selector::Stock(selector) => stock::VALUES[selector.0](figures),
        Selector::Own(selector) => own::VALUES[selector.0](figures),
        Selector::Percentile(percentile) => percentile_us(figures, percentile),
    }
}

/// Microseconds, which the stock tool's percentiles are whole numbers of; −1.00 when no times were
/// recorded.
fn percentile_us(figures: &Figures<'_>, percentile: &Percentile) -> Option<String> {
    let time = figures
        .times
        .and_then(|times| times.percentile(percentile.percent()));
    fixed(2, time.map_or(NONE, |time| time.as_nanos() as f64 / 1000.0))
}

/// "%s".
pub(super) fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// "%d".
pub(super) fn int(value: impl Into<i64>) -> Option<String> {
    Some(value.into().to_string())
}

/// "%llu".
pub(super) fn count(value: u64) -> Option<String> {
    Some(value.to_string())
}

/// "%.2f" and the like.
pub(super) fn fixed(places: usize, value: f64) -> Option<String> {
    Some(format!("{value:.places$}"))
}
