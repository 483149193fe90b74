//! Axes: conversion of values to positions in a picture, with round ticks.

use std::ops::RangeInclusive;

use crate::number::format_thousands;

/// One axis of a plot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    /// The quantity.
    pub label: &'static str,
    /// The unit of its values.
    pub unit: Unit,
    /// Whether the axis is logarithmic.
    pub is_log: bool,
}

/// The unit of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A quantity per second, with decimal prefixes.
    Rate(&'static str),
    /// Nanoseconds.
    Time,
    /// A count, or an amount without a prefix.
    Plain(&'static str),
    /// A percentile scale. A value n means that one of n values is larger: 100 is 99 %.
    Rarity,
}

/// Returns a linear axis.
pub(crate) const fn axis(label: &'static str, unit: Unit) -> Axis {
    Axis {
        label,
        unit,
        is_log: false,
    }
}

/// Prefixes in steps of a factor 1000.
const RATE_PREFIXES: [&str; 6] = ["", "k", "M", "G", "T", "P"];
const TIME_UNITS: [&str; 4] = ["ns", "µs", "ms", "s"];

/// The mean width of a label character, in pixels.
pub(super) const CHARACTER_WIDTH: f64 = 6.7;

/// An axis with the range of its values and of its pixels.
pub(super) struct Scale {
    axis: Axis,
    low: f64,
    high: f64,
    /// The distance between two ticks; a factor if the axis is logarithmic.
    step: f64,
    pixels: (f64, f64),
}

impl Scale {
    /// Creates a scale that contains all of the values, with at most `max_steps` steps between
    /// ticks. [`Self::with_pixels`] sets its position.
    pub(super) fn new(axis: Axis, values: impl Iterator<Item = f64>, max_steps: f64) -> Self {
        let is_valid = |value: &f64| value.is_finite() && (!axis.is_log || *value > 0.0);
        let range = values
            .filter(is_valid)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            });
        let (low, high) = if range.0 > range.1 { (1.0, 1.0) } else { range };
        let (begin, high, step) = if axis.is_log {
            decade_range(low, high, max_steps)
        } else {
            let includes_zero = matches!(axis.unit, Unit::Rate(_) | Unit::Plain("%"));
            round_range(
                if includes_zero { low.min(0.0) } else { low },
                high,
                max_steps,
            )
        };
        // The axis of a histogram starts at its lowest value, not at a power of ten. The caller
        // passes a value below 1, so that a single count is visible.
        let has_counts = axis.is_log && matches!(axis.unit, Unit::Plain(_));
        let low = if has_counts { low } else { begin };
        Self {
            axis,
            low,
            high,
            step,
            pixels: (0.0, 1.0),
        }
    }

    pub(super) fn with_pixels(mut self, from: f64, to: f64) -> Self {
        self.pixels = (from, to);
        self
    }

    /// Returns the pixel of a value.
    pub(super) fn pixel(&self, value: f64) -> f64 {
        let share = if self.axis.is_log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }

    /// Returns the values with a tick, and their labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let tick = |index: i32| {
            if self.axis.is_log {
                10_f64.powf((self.low.log10() - 1e-9).ceil()) * self.step.powi(index)
            } else {
                self.low + self.step * f64::from(index)
            }
        };
        let end = self.high + (self.high - self.low) * 1e-9;
        let values = (0..).map(tick).take_while(|value| *value <= end);
        values
            .map(|value| (value, self.tick_label(value)))
            .collect()
    }

    /// Returns the axis label: the quantity with the unit of the ticks' labels.
    pub(super) fn label(&self) -> String {
        let label = self.axis.label;
        match self.label_unit() {
            unit if unit.is_empty() => label.to_owned(),
            unit => format!("{label} ({unit})"),
        }
    }

    /// Returns the length of the longest tick label, in characters.
    pub(super) fn max_label_length(&self) -> usize {
        let lengths = self
            .ticks()
            .into_iter()
            .map(|(_, text)| text.chars().count());
        lengths.max().unwrap_or(0)
    }

    fn tick_label(&self, value: f64) -> String {
        if self.axis.is_log {
            return format_with_unit(value, self.axis.unit);
        }
        let (divisor, _) = self.label_prefix();
        let step = self.step / divisor;
        let decimals = (-(step * 1.000_001).log10().floor()).clamp(0.0, 12.0) as usize;
        let value = value / divisor;
        if decimals == 0 {
            return format_thousands(value);
        }
        // Avoids -0.0.
        format!("{:.decimals$}", value + 0.0)
    }

    fn label_unit(&self) -> String {
        match self.axis.unit {
            Unit::Plain(unit) => unit.to_owned(),
            _ if self.axis.is_log => String::new(),
            Unit::Rate(unit) => format!("{}{unit}", RATE_PREFIXES[self.label_prefix().1]),
            Unit::Time => TIME_UNITS[self.label_prefix().1].to_owned(),
            Unit::Rarity => String::new(),
        }
    }

    /// Returns the divisor of the values for the labels, and the index of its prefix.
    fn label_prefix(&self) -> (f64, usize) {
        let prefix_count = match self.axis.unit {
            Unit::Rate(_) => RATE_PREFIXES.len(),
            Unit::Time => TIME_UNITS.len(),
            _ => 1,
        };
        let largest = self.high.abs().max(self.low.abs());
        // A largest value of 1,000 keeps the smaller prefix.
        select_prefix(largest * 0.999, prefix_count)
    }
}

/// Selects the largest of the first `count` prefixes whose factor does not exceed the value, or the
/// first one. Returns the factor, by which labels divide the value, and the index of the prefix.
fn select_prefix(value: f64, count: usize) -> (f64, usize) {
    let index = (0..count)
        .rev()
        .find(|index| value >= 1000_f64.powi(*index as i32) * 0.999_999)
        .unwrap_or(0);
    (1000_f64.powi(index as i32), index)
}

/// Formats a value with its unit.
pub(super) fn format_with_unit(value: f64, unit: Unit) -> String {
    let scaled = |units: &[&str], unit: &str| {
        let (divisor, index) = select_prefix(value, units.len());
        let text = format!(
            "{} {}{unit}",
            (value / divisor * 1e6).round() / 1e6,
            units[index]
        );
        text.trim_end().to_owned()
    };
    match unit {
        Unit::Rate(unit) => scaled(&RATE_PREFIXES, unit),
        Unit::Time => scaled(&TIME_UNITS, ""),
        Unit::Plain(unit) => format!("{} {unit}", format_thousands(value))
            .trim_end()
            .to_owned(),
        Unit::Rarity => format!("{} %", ((100.0 - 100.0 / value) * 1e8).round() / 1e8),
    }
}

/// Returns a range with a tick at both ends, and the distance between ticks: 1, 2 or 5 times a power
/// of ten. The range starts at 0 unless more than half of it would be empty.
fn round_range(low: f64, high: f64, max_steps: f64) -> (f64, f64, f64) {
    let is_far_from_zero = low > high / 2.0 && low < high;
    let low = if low < 0.0 || is_far_from_zero {
        low
    } else {
        0.0
    };
    let width = if high > low {
        high - low
    } else {
        high.abs().max(1.0)
    };
    let min_step = width / max_steps.max(1.0);
    let power = 10_f64.powf(min_step.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = (step.into_iter().find(|step| *step >= min_step * 0.999_999)).unwrap_or(min_step);
    let begin = (low / step + 1e-9).floor() * step;
    let end = (high / step - 1e-9).ceil() * step;
    (begin, end.max(begin + step), step)
}

/// Returns a range that starts and ends at powers of ten, and the factor between ticks.
fn decade_range(low: f64, high: f64, max_steps: f64) -> (f64, f64, f64) {
    let range: RangeInclusive<f64> = (low.log10() + 1e-9).floor()..=(high.log10() - 1e-9).ceil();
    let (begin, end) = (*range.start(), range.end().max(range.start() + 1.0));
    let decades_per_tick = ((end - begin) / max_steps.max(1.0)).ceil().max(1.0);
    (
        10_f64.powf(begin),
        10_f64.powf(end),
        10_f64.powf(decades_per_tick),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(unit: Unit, is_log: bool, values: &[f64]) -> (String, Vec<String>) {
        let axis = Axis {
            label: "q",
            unit,
            is_log,
        };
        let scale = Scale::new(axis, values.iter().copied(), 5.0).with_pixels(0.0, 100.0);
        let ticks = scale.ticks().into_iter().map(|(_, text)| text).collect();
        (scale.label(), ticks)
    }

    #[test]
    fn ticks_are_round_and_have_one_unit() {
        for (unit, is_log, values, label, ticks) in [
            (
                Unit::Time,
                false,
                &[0.0, 40_000.0][..],
                "q (µs)",
                "0 10 20 30 40",
            ),
            (
                Unit::Rate("bit/s"),
                false,
                &[3e6, 957e6],
                "q (Mbit/s)",
                "0 200 400 600 800 1,000",
            ),
            (
                Unit::Rate("bit/s"),
                false,
                &[0.3e9, 9.6e9],
                "q (Gbit/s)",
                "0 2 4 6 8 10",
            ),
            (
                Unit::Plain("%"),
                false,
                &[0.0, 0.42],
                "q (%)",
                "0.0 0.1 0.2 0.3 0.4 0.5",
            ),
            (
                Unit::Plain("B"),
                false,
                &[50.0, 1472.0],
                "q (B)",
                "0 500 1,000 1,500",
            ),
            (
                Unit::Time,
                false,
                &[5_000_100.0, 5_000_900.0],
                "q (ms)",
                "5.0000 5.0002 5.0004 5.0006 5.0008 5.0010",
            ),
            (
                Unit::Time,
                false,
                &[-1500.0, 900.0],
                "q (µs)",
                "-1.5 -1.0 -0.5 0.0 0.5 1.0",
            ),
            (Unit::Plain(""), false, &[], "q", "0.0 0.2 0.4 0.6 0.8 1.0"),
            (
                Unit::Plain(""),
                false,
                &[f64::NAN, 7.0, f64::INFINITY],
                "q",
                "0 2 4 6 8",
            ),
            (
                Unit::Time,
                true,
                &[700.0, 2e6],
                "q",
                "100 ns|1 µs|10 µs|100 µs|1 ms|10 ms",
            ),
            (
                Unit::Rarity,
                true,
                &[1.0, 1000.0],
                "q",
                "0 %|90 %|99 %|99.9 %",
            ),
            (
                Unit::Plain(""),
                true,
                &[0.5, 1.0, 0.0, 70.0],
                "q",
                "1|10|100",
            ),
        ] {
            let (found_label, found_ticks) = labels(unit, is_log, values);
            let separator = if is_log { "|" } else { " " };
            assert_eq!(
                (&*found_label, found_ticks.join(separator)),
                (label, ticks.to_owned())
            );
        }
    }

    #[test]
    fn values_are_mapped_to_pixels() {
        let axis = Axis {
            label: "",
            unit: Unit::Time,
            is_log: true,
        };
        let scale = Scale::new(axis, [1.0, 100.0].into_iter(), 5.0).with_pixels(300.0, 100.0);
        let pixels = [1.0, 10.0, 100.0, 0.0].map(|value| scale.pixel(value).round());
        assert_eq!(pixels.map(|pixel| pixel as i32), [300, 200, 100, 300]);
    }
}
