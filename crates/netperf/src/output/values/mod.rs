//! The values of all selectors, formatted.

#![expect(
    clippy::unnecessary_wraps,
    reason = "each helper formats a selector's value, which may be absent"
)]

pub(super) mod interface;
mod linerate;
mod security;
mod stock;

use super::figures::{Figures, NOT_MEASURED};
use crate::selector::{Percentile, Selector};

/// The stock tool's text for facts that it no longer determines. linerate prints it for facts about
/// a stock peer.
const DEPRECATED: &str = "Deprecated";

/// The text for a fact that exists but is unavailable on the host.
const UNKNOWN: &str = "Unknown";

/// The text for a fact that does not exist.
const ABSENT: &str = "None";

/// Formats the value of a selector; `None` if the run has no value for it.
type FormatValue = fn(&Figures<'_>) -> Option<String>;

/// Expands a table of selectors to the functions in its last column.
macro_rules! values {
    ($($name:literal [$($line:literal),+] $value:expr,)+) => {
        &[$($value,)+]
    };
}

use values;

/// Formats the value of a selector. Returns `None` if the run has no value for it.
pub(super) fn format_value(selector: &Selector, figures: &Figures<'_>) -> Option<String> {
    let value = format_unescaped_value(selector, figures)?;
    // The peer supplies this text, so characters that control a terminal are escaped.
    if selector.name().starts_with("REMOTE_") {
        return Some(codec::escaped(&value).to_string());
    }
    Some(value)
}

fn format_unescaped_value(selector: &Selector, figures: &Figures<'_>) -> Option<String> {
    match selector {
        Selector::Stock(selector) => stock::VALUES[selector.0](figures),
        Selector::Linerate(selector) => linerate::VALUES[selector.0](figures),
        Selector::Percentile(percentile) => percentile_us(figures, percentile),
    }
}

/// Formats a percentile in microseconds with two decimals, while the stock tool prints whole
/// microseconds; −1.00 if no times were recorded.
fn percentile_us(figures: &Figures<'_>, percentile: &Percentile) -> Option<String> {
    let time = figures
        .times
        .and_then(|times| times.percentile(percentile.percent()));
    fixed(
        2,
        time.map_or(NOT_MEASURED, |time| time.as_nanos() as f64 / 1000.0),
    )
}

/// Formats "%s".
pub(super) fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// Formats "%d".
pub(super) fn int(value: impl Into<i64>) -> Option<String> {
    Some(value.into().to_string())
}

/// Formats "%llu".
pub(super) fn count(value: u64) -> Option<String> {
    Some(value.to_string())
}

/// Formats "%.2f", with `places` decimals.
pub(super) fn fixed(places: usize, value: f64) -> Option<String> {
    Some(format!("{value:.places$}"))
}
