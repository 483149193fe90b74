//! Outcome → the stock tool's text, to the character.

mod banner;
mod figures;
mod flows;
mod headline;
mod histogram;
mod interim;
mod selection;
mod table;
mod unit;
mod values;

pub use banner::banner;
pub(crate) use interim::Interim;
pub use selection::selector_list;

use crate::options::{Form, Settings};
use crate::result::{Headline, TestRun};
use figures::Figures;
use table::Table;

/// What is printed of a finished test, after the banner.
pub fn result(settings: &Settings, run: &TestRun) -> String {
    let figures = Figures::new(settings, run);
    let mut text = match &settings.print.form {
        Form::Table => headline::warning(settings, run) + &table(&figures),
        // The number alone, whatever the verbosity.
        Form::Total => return flows::total(&figures),
        Form::Human(selection) => selection::human(&figures, selection),
        Form::Csv(selection) => selection::csv(&figures, selection),
        Form::KeyVal(selection) => selection::key_value(&figures, selection),
    };
    if settings.print.verbosity > 1 {
        text += &histogram::blocks(settings, run);
    }
    text
}

/// The test's own table; below that of several flows what each did.
fn table(figures: &Figures<'_>) -> String {
    let mut text = Table(figures).to_string();
    let several = !figures.run.outcome.flows.is_empty();
    if several && figures.settings.print.verbosity > 0 {
        text += &flows::Block(figures).to_string();
    }
    text
}

/// The figures of the last iteration that several iterations have a mean of.
pub(crate) fn headline(settings: &Settings, run: &TestRun) -> Headline {
    Figures::of_last(settings, run).headline()
}

/// The result of UUID, which has no line end.
pub fn uuid(settings: &Settings) -> String {
    settings.print.uuid.clone()
}

/// The result of LOC_CPU: this host's ticks a second and how many CPUs it has.
pub fn local_cpu(settings: &Settings, ticks: f32, cpus: u32) -> String {
    calibration(settings, "local", ticks, cpus)
}

/// The result of REM_CPU: the same of the peer.
pub fn remote_cpu(settings: &Settings, ticks: f32, cpus: u32) -> String {
    calibration(settings, "remote", ticks, cpus)
}

fn calibration(settings: &Settings, end: &str, ticks: f32, cpus: u32) -> String {
    let ticks = general(ticks);
    if settings.print.verbosity < 2 {
        return ticks;
    }
    let (verb, plural) = if cpus == 1 { ("is", "") } else { ("are", "s") };
    format!("{ticks}\nThere {verb} {cpus} {end} cpu{plural}\n")
}

/// "%g": six significant digits, with an exponent from a million on.
fn general(value: f32) -> String {
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        let digits = without_zeros(digits);
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    without_zeros(&format!("{value:.*}", (5 - exponent) as usize)).to_owned()
}

fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_printf_has_it() {
        for (value, text) in [
            (100.0, "100"),
            (0.0, "0"),
            (0.5, "0.5"),
            (123_456.0, "123456"),
            (1_234_567.0, "1.23457e+06"),
            (1e9, "1e+09"),
            (0.000_012_3, "1.23e-05"),
            (1234.5678, "1234.57"),
        ] {
            assert_eq!(general(value), text);
        }
    }
}
