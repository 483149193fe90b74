//! The text of results, identical to that of the stock tool.

mod banner;
mod confidence_warning;
mod figures;
mod flows;
mod histogram;
mod interim;
mod number;
mod selection;
mod table;
mod unit;
mod values;

pub use banner::format_banner;
pub(crate) use interim::InterimFormatter;
pub use selection::selector_list;

use crate::options::{OutputForm, Settings};
use crate::result::{FinishedTest, MainFigures};
use figures::Figures;
use table::Table;

/// Formats the result of a finished test, which follows the banner.
pub fn format_result(settings: &Settings, finished: &FinishedTest) -> String {
    let figures = Figures::new(settings, finished);
    let mut text = match &settings.print.form {
        OutputForm::Table => {
            confidence_warning::format_warning(settings, finished) + &format_table(&figures)
        }
        // Only the number, at every verbosity.
        OutputForm::Total => return flows::format_total(&figures),
        OutputForm::Human(selection) => selection::format_human(&figures, selection),
        OutputForm::Csv(selection) => selection::format_csv(&figures, selection),
        OutputForm::KeyVal(selection) => selection::format_key_value(&figures, selection),
    };
    if settings.print.verbosity > 1 {
        text += &histogram::format_blocks(settings, finished);
    }
    text
}

/// Formats the table of the test, followed by the table of flows if there are several.
fn format_table(figures: &Figures<'_>) -> String {
    let mut text = Table(figures).to_string();
    let has_several_flows = !figures.run.outcome.flows.is_empty();
    if has_several_flows && figures.settings.print.verbosity > 0 {
        text += &flows::FlowTable(figures).to_string();
    }
    text
}

/// Returns the main figures of the last iteration. The caller averages those of all iterations.
pub(crate) fn main_figures(settings: &Settings, run: &FinishedTest) -> MainFigures {
    Figures::for_last_iteration(settings, run).main_figures()
}

/// Formats the result of a UUID test, which has no line end.
pub fn format_uuid(settings: &Settings) -> String {
    settings.print.uuid.clone()
}

/// Formats the result of LOC_CPU or REM_CPU: the calibration value and the number of CPUs.
/// `host` is "local" or "remote".
pub fn format_calibration(settings: &Settings, host: &str, rate: f32, cpus: u32) -> String {
    let rate = number::format_general(rate.into(), 6);
    if settings.print.verbosity < 2 {
        return rate;
    }
    let (verb, plural) = if cpus == 1 { ("is", "") } else { ("are", "s") };
    format!("{rate}\nThere {verb} {cpus} {host} cpu{plural}\n")
}
