//! The text of each of netperf's selectors.

use std::path::Path;

use model::{Confidence, Half, HostFacts};
use stats::Summary;

use super::{DEPRECATED, UNKNOWN, Value, count, fixed, int, interface, security, text, values};
use crate::output::figures::{Figures, NONE, Processor};
use crate::selector::stock_selectors;
use crate::wire::{Flags, SysInfo};

/// The texts of the stock tool's selectors.
pub(super) static VALUES: &[Value] = stock_selectors!(values);

/// The width of a confidence interval, −1 when none was asked for. What was not measured has 0, as in
/// the stock tool.
fn width(figures: &Figures<'_>, of: fn(&Confidence) -> Option<f64>) -> Option<String> {
    let confidence = figures.confidence();
    fixed(3, confidence.map_or(NONE, |known| of(known).unwrap_or(0.0)))
}

/// "0x%.2x".
fn hex(value: i32) -> Option<String> {
    Some(format!("{value:#04x}"))
}

/// "%c".
fn letter(value: char) -> Option<String> {
    Some(value.to_string())
}

/// "\"%s\"".
fn quoted(value: &str) -> Option<String> {
    Some(format!("\"{value}\""))
}

fn flag(value: bool) -> Option<String> {
    int(i32::from(value))
}

/// −1 when nothing was asked for.
fn asked(value: Option<u32>) -> Option<String> {
    int(value.map_or(-1, i64::from))
}

/// 0 without pacing.
fn interval_us(half: &Half) -> Option<String> {
    let interval = half.pacing.map(|pacing| pacing.interval);
    count(interval.map_or(0, |interval| interval.as_micros() as u64))
}

/// 0 without pacing.
fn burst(half: &Half) -> Option<String> {
    count(half.pacing.map_or(0, |pacing| pacing.burst))
}

fn path(value: Option<&Path>) -> Option<String> {
    text(&value.unwrap_or(Path::new("")).to_string_lossy())
}

/// A word of uname(2). A stock peer's is "Deprecated".
fn system(system: Option<SysInfo>, word: fn(SysInfo) -> String) -> Option<String> {
    system
        .map(word)
        .filter(|word| !word.is_empty())
        .or_else(deprecated)
}

/// What is known of a host. A stock peer tells nothing.
fn fact(host: Option<&HostFacts>, fact: fn(&HostFacts) -> Option<String>) -> Option<String> {
    match host {
        Some(host) => fact(host).or_else(|| text(UNKNOWN)),
        None => deprecated(),
    }
}

/// CPUs online; 0 of a stock peer that did not measure.
fn cpus(measured: &Processor, host: Option<&HostFacts>) -> u32 {
    match (measured.cpus, host) {
        (0, Some(host)) => host.cpus.unwrap_or(0),
        (cpus, _) => cpus,
    }
}

fn deprecated() -> Option<String> {
    text(DEPRECATED)
}

/// Whole microseconds of a latency in nanoseconds, −1 when none were recorded.
fn micros(figures: &Figures<'_>, figure: fn(&Summary) -> u64) -> Option<String> {
    let times = figures.summary.as_ref();
    int(times.map_or(-1, |times| (figure(times) / 1000) as i64))
}

/// Microseconds of a latency in nanoseconds, −1.00 when none were recorded.
fn precise_micros(figures: &Figures<'_>, figure: fn(&Summary) -> f64) -> Option<String> {
    let times = figures.summary.as_ref();
    fixed(2, times.map_or(NONE, |times| figure(times) / 1000.0))
}
