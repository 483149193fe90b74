//! The values of netperf's selectors.

use std::path::Path;

use model::{Confidence, EndpointPlan, HostFacts};
use stats::HistogramSummary;

use super::{
    DEPRECATED, FormatValue, UNKNOWN, count, fixed, int, interface, security, text, values,
};
use crate::output::figures::{CpuFigures, Figures, NOT_MEASURED};
use crate::selector::stock_selectors;
use crate::wire::{Flags, SysInfo};

/// The formatting functions, in the order of the table in `selector/stock.rs`.
pub(super) static VALUES: &[FormatValue] = stock_selectors!(values);

/// Formats the width of a confidence interval; −1 if none was requested. As in the stock tool, it
/// is 0 for figures that were not measured.
fn confidence_width(
    figures: &Figures<'_>,
    width: fn(&Confidence) -> Option<f64>,
) -> Option<String> {
    let confidence = figures.confidence();
    fixed(
        3,
        confidence.map_or(NOT_MEASURED, |known| width(known).unwrap_or(0.0)),
    )
}

/// Formats "0x%.2x".
fn hex(value: i32) -> Option<String> {
    Some(format!("{value:#04x}"))
}

/// Formats "%c".
fn letter(value: char) -> Option<String> {
    Some(value.to_string())
}

/// Formats "\"%s\"".
fn quoted(value: &str) -> Option<String> {
    Some(format!("\"{value}\""))
}

fn flag(value: bool) -> Option<String> {
    int(i32::from(value))
}

/// Formats a requested value; −1 if none was requested.
fn requested_or_minus_one(value: Option<u32>) -> Option<String> {
    int(value.map_or(-1, i64::from))
}

/// Formats the length of a pacing interval in microseconds; 0 without pacing.
fn interval_us(plan: &EndpointPlan) -> Option<String> {
    let interval = plan.pacing.map(|pacing| pacing.interval);
    count(interval.map_or(0, |interval| interval.as_micros() as u64))
}

/// Formats the number of sends per pacing interval; 0 without pacing.
fn interval_burst(plan: &EndpointPlan) -> Option<String> {
    count(plan.pacing.map_or(0, |pacing| pacing.burst))
}

fn path(value: Option<&Path>) -> Option<String> {
    text(&value.unwrap_or(Path::new("")).to_string_lossy())
}

/// Formats a field of uname(2). For a stock peer, it is "Deprecated".
fn system_name(system: Option<SysInfo>, field: fn(SysInfo) -> String) -> Option<String> {
    system
        .map(field)
        .filter(|text| !text.is_empty())
        .or_else(deprecated)
}

/// Formats a fact about a host: "Unknown" if unavailable, "Deprecated" for a stock peer.
fn host_fact(host: Option<&HostFacts>, fact: fn(&HostFacts) -> Option<String>) -> Option<String> {
    match host {
        Some(host) => fact(host).or_else(|| text(UNKNOWN)),
        None => deprecated(),
    }
}

/// Returns the number of online CPUs; 0 for a stock peer that did not measure CPU time.
fn cpus(figures: &CpuFigures, host: Option<&HostFacts>) -> u32 {
    match (figures.cpus, host) {
        (0, Some(host)) => host.cpus.unwrap_or(0),
        (cpus, _) => cpus,
    }
}

fn deprecated() -> Option<String> {
    text(DEPRECATED)
}

/// Formats a latency figure in whole microseconds; −1 if no latencies were recorded.
fn whole_latency_us(figures: &Figures<'_>, figure: fn(&HistogramSummary) -> u64) -> Option<String> {
    let times = figures.summary.as_ref();
    int(times.map_or(-1, |times| (figure(times) / 1000) as i64))
}

/// Formats a latency figure in microseconds with two decimals; −1.00 if no latencies were recorded.
fn latency_us(figures: &Figures<'_>, figure: fn(&HistogramSummary) -> f64) -> Option<String> {
    let times = figures.summary.as_ref();
    fixed(
        2,
        times.map_or(NOT_MEASURED, |times| figure(times) / 1000.0),
    )
}
