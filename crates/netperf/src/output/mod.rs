//! Outcome → the stock tool's text, to the character.

mod banner;
mod figures;
mod flows;
mod headline;
mod histogram;
mod interim;
mod number;
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

/// The result of LOC_CPU, "local": this host's ticks a second and how many CPUs it has. Of REM_CPU, "remote": the same
/// of the peer.
pub fn calibration(settings: &Settings, end: &str, ticks: f32, cpus: u32) -> String {
    let ticks = number::general(ticks.into(), 6);
    if settings.print.verbosity < 2 {
        return ticks;
    }
    let (verb, plural) = if cpus == 1 { ("is", "") } else { ("are", "s") };
    format!("{ticks}\nThere {verb} {cpus} {end} cpu{plural}\n")
}
