//! Omni output: the selected figures as columns, as comma-separated values, or as names and values.

use std::borrow::Cow;

use super::figures::Figures;
use super::values::format_value;
use crate::options::{OutputForm, Selection, Settings};
use crate::selector::{HEADER_LINES, Selector};

/// Formats the list of all selectors, requested with the selection `?`.
pub fn selector_list(form: &OutputForm) -> String {
    let separator = if matches!(form, OutputForm::Human(_)) {
        "\n"
    } else {
        ","
    };
    let selectors: Vec<_> = Selector::list().collect();
    let names: Vec<_> = selectors.iter().map(Selector::name).collect();
    names.join(separator) + "\n"
}

/// Formats blocks of left-justified columns under four header lines. An empty line separates
/// blocks.
pub(super) fn format_human(figures: &Figures<'_>, selection: &Selection) -> String {
    let mut text = String::new();
    for (index, block) in blocks(figures.settings, selection).iter().enumerate() {
        if block.is_empty() {
            continue;
        }
        if index > 0 {
            text.push('\n');
        }
        let columns: Vec<_> = block
            .iter()
            .map(|selector| Column::new(selector, figures))
            .collect();
        if figures.settings.print.headers {
            for line in 0..HEADER_LINES {
                text.extend(columns.iter().map(|column| column.header_line(line)));
                text.push('\n');
            }
        }
        text.extend(columns.iter().map(|column| column.pad(&column.value)));
        text.push('\n');
    }
    text
}

struct Column {
    header: Vec<Cow<'static, str>>,
    value: String,
    width: usize,
}

impl Column {
    fn new(selector: &Selector, figures: &Figures<'_>) -> Self {
        let header = selector.header();
        let value = format_value(selector, figures);
        let value_width = value.as_ref().map_or(0, |value| value.chars().count() + 1);
        let header_width = header.iter().map(|line| line.len()).max().unwrap_or(0);
        Self {
            header,
            value: value.unwrap_or_default(),
            // At least one blank follows each column, including the last.
            width: header_width.max(value_width) + 1,
        }
    }

    fn header_line(&self, line: usize) -> String {
        self.pad(self.header.get(line).map_or("", |line| line))
    }

    fn pad(&self, cell: &str) -> String {
        format!("{cell:<0$}", self.width)
    }
}

/// Formats one line of headers and one line of values for all blocks.
pub(super) fn format_csv(figures: &Figures<'_>, selection: &Selection) -> String {
    let blocks = blocks(figures.settings, selection);
    // As in the stock tool, there is no output if the first block is empty.
    if blocks.first().is_none_or(Vec::is_empty) {
        return String::new();
    }
    let selectors: Vec<_> = blocks.concat();
    let mut text = String::new();
    if figures.settings.print.headers {
        let headers: Vec<_> = selectors.iter().map(Selector::one_line_header).collect();
        text += &headers.join(",");
        text.push('\n');
    }
    let mut values = String::new();
    for selector in &selectors {
        match format_value(selector, figures) {
            // Quoted values stay unchanged. In others, a comma would begin another column.
            Some(value) if value.starts_with('"') => values = values + &value + ",",
            Some(value) => values = values + &value.replace(',', " ") + ",",
            // As in stock, a missing value is an empty field, and the next field starts with a blank.
            None => values += ", ",
        }
    }
    values.pop();
    text + &values + "\n"
}

/// Formats "NAME=value" lines for the selectors that have a value.
pub(super) fn format_key_value(figures: &Figures<'_>, selection: &Selection) -> String {
    blocks(figures.settings, selection)
        .concat()
        .iter()
        .filter_map(|selector| {
            let value = format_value(selector, figures)?;
            Some(format!("{}={value}\n", selector.name()))
        })
        .collect()
}

fn blocks(settings: &Settings, selection: &Selection) -> Vec<Vec<Selector>> {
    let is_output_end = |selector: &&Selector| selector.name() == "OUTPUT_END";
    match selection {
        Selection::Blocks(blocks) => blocks
            .iter()
            .map(|block| {
                let until_end = block.iter().take_while(|selector| !is_output_end(selector));
                until_end.cloned().collect()
            })
            .collect(),
        Selection::Default | Selection::List => vec![default_columns(settings)],
    }
}

/// Returns the columns of a test without a user's selection.
fn default_columns(settings: &Settings) -> Vec<Selector> {
    const TRANSACTIONAL: &str =
        "LSS_SIZE_END LSR_SIZE_END RSR_SIZE_END RSS_SIZE_END REQUEST_SIZE RESPONSE_SIZE";
    const TRANSMIT: &str = "LSS_SIZE_END RSR_SIZE_END LOCAL_SEND_SIZE";
    const RECEIVE: &str = "RSS_SIZE_END LSR_SIZE_END REMOTE_SEND_SIZE";
    const RESULT: &str = "ELAPSED_TIME THROUGHPUT THROUGHPUT_UNITS";
    const CPU: &str = "\
        LOCAL_CPU_UTIL LOCAL_CPU_PERCENT_USER LOCAL_CPU_PERCENT_SYSTEM LOCAL_CPU_PERCENT_IOWAIT \
        LOCAL_CPU_PERCENT_IRQ LOCAL_CPU_PERCENT_SWINTR LOCAL_CPU_METHOD \
        REMOTE_CPU_UTIL REMOTE_CPU_PERCENT_USER REMOTE_CPU_PERCENT_SYSTEM REMOTE_CPU_PERCENT_IOWAIT \
        REMOTE_CPU_PERCENT_IRQ REMOTE_CPU_PERCENT_SWINTR REMOTE_CPU_METHOD \
        LOCAL_SD REMOTE_SD SD_UNITS";
    let direction = settings.direction;
    let sizes = match direction {
        direction if direction.is_transactional() => TRANSACTIONAL,
        direction if direction.transmit => TRANSMIT,
        _ => RECEIVE,
    };
    let measures_cpu = settings.flow.local.measure_cpu || settings.flow.remote.measure_cpu;
    let cpu = if measures_cpu { CPU } else { "" };
    let columns = [sizes, RESULT, cpu]
        .into_iter()
        .flat_map(str::split_whitespace);
    columns.filter_map(Selector::by_name).collect()
}
