//! Omni output: chosen figures as columns, comma-separated values, or name and value.

use super::figures::Figures;
use super::selectors::{SELECTORS, Selector};
use crate::options::{Form, Selection, Settings};

/// Every selector's name, as the selection `?` asks for it.
pub fn selector_list(form: &Form) -> String {
    let separator = if matches!(form, Form::Human(_)) {
        "\n"
    } else {
        ","
    };
    let names: Vec<_> = SELECTORS.iter().map(|selector| selector.name).collect();
    names.join(separator) + "\n"
}

/// Blocks of left-justified columns under four header lines, an empty line between blocks.
pub(super) fn human(figures: &Figures<'_>, selection: &Selection) -> String {
    let mut text = String::new();
    for (number, block) in blocks(figures.settings, selection).iter().enumerate() {
        if block.is_empty() {
            continue;
        }
        if number > 0 {
            text.push('\n');
        }
        let columns: Vec<_> = block
            .iter()
            .map(|selector| Column::new(selector, figures))
            .collect();
        if figures.settings.print.headers {
            for line in 0..4 {
                text.extend(
                    columns
                        .iter()
                        .map(|column| column.padded(column.header[line])),
                );
                text.push('\n');
            }
        }
        text.extend(columns.iter().map(|column| column.padded(&column.value)));
        text.push('\n');
    }
    text
}

struct Column {
    header: [&'static str; 4],
    value: String,
    width: usize,
}

impl Column {
    fn new(selector: &Selector, figures: &Figures<'_>) -> Self {
        let value = (selector.value)(figures);
        let value_width = value.as_ref().map_or(0, |value| value.chars().count() + 1);
        let header_width = selector
            .header
            .iter()
            .map(|line| line.len())
            .max()
            .unwrap_or(0);
        Self {
            header: selector.header,
            value: value.unwrap_or_default(),
            // A blank at least between any two columns, and at the end of the line.
            width: header_width.max(value_width) + 1,
        }
    }

    fn padded(&self, cell: &str) -> String {
        format!("{cell:<0$}", self.width)
    }
}

/// One line of headers and one of values for all blocks together.
pub(super) fn csv(figures: &Figures<'_>, selection: &Selection) -> String {
    let blocks = blocks(figures.settings, selection);
    // The stock tool's list of values ends before it begins when the first block is empty.
    if blocks.first().is_none_or(Vec::is_empty) {
        return String::new();
    }
    let selectors: Vec<_> = blocks.concat();
    let mut text = String::new();
    if figures.settings.print.headers {
        let headers: Vec<_> = selectors
            .iter()
            .map(|selector| one_line(selector))
            .collect();
        text += &headers.join(",");
        text.push('\n');
    }
    let mut values = String::new();
    for selector in selectors {
        match (selector.value)(figures) {
            Some(value) => values = values + &value + ",",
            // What has no value leaves a blank, which the next field then begins with.
            None => values += ", ",
        }
    }
    values.pop();
    text + &values + "\n"
}

/// The header lines that are there, joined by blanks.
fn one_line(selector: &Selector) -> String {
    let lines: Vec<_> = selector
        .header
        .into_iter()
        .filter(|line| !line.is_empty())
        .collect();
    lines.join(" ")
}

/// "NAME=value" lines of what has a value.
pub(super) fn key_value(figures: &Figures<'_>, selection: &Selection) -> String {
    blocks(figures.settings, selection)
        .concat()
        .iter()
        .filter_map(|selector| {
            Some(format!(
                "{}={}\n",
                selector.name,
                (selector.value)(figures)?
            ))
        })
        .collect()
}

fn blocks(settings: &Settings, selection: &Selection) -> Vec<Vec<&'static Selector>> {
    match selection {
        Selection::Blocks(blocks) => blocks
            .iter()
            .map(|block| {
                block
                    .iter()
                    .filter_map(|&index| SELECTORS.get(index))
                    .take_while(|selector| selector.name != "OUTPUT_END")
                    .collect()
            })
            .collect(),
        Selection::Default | Selection::List => vec![by_default(settings)],
    }
}

/// The columns of a test whose user chose none.
fn by_default(settings: &Settings) -> Vec<&'static Selector> {
    const TRANSACTIONAL: [&str; 6] = [
        "LSS_SIZE_END",
        "LSR_SIZE_END",
        "RSR_SIZE_END",
        "RSS_SIZE_END",
        "REQUEST_SIZE",
        "RESPONSE_SIZE",
    ];
    const TRANSMIT: [&str; 3] = ["LSS_SIZE_END", "RSR_SIZE_END", "LOCAL_SEND_SIZE"];
    const RECEIVE: [&str; 3] = ["RSS_SIZE_END", "LSR_SIZE_END", "REMOTE_SEND_SIZE"];
    const RESULT: [&str; 3] = ["ELAPSED_TIME", "THROUGHPUT", "THROUGHPUT_UNITS"];
    const CPU: [&str; 17] = [
        "LOCAL_CPU_UTIL",
        "LOCAL_CPU_PERCENT_USER",
        "LOCAL_CPU_PERCENT_SYSTEM",
        "LOCAL_CPU_PERCENT_IOWAIT",
        "LOCAL_CPU_PERCENT_IRQ",
        "LOCAL_CPU_PERCENT_SWINTR",
        "LOCAL_CPU_METHOD",
        "REMOTE_CPU_UTIL",
        "REMOTE_CPU_PERCENT_USER",
        "REMOTE_CPU_PERCENT_SYSTEM",
        "REMOTE_CPU_PERCENT_IOWAIT",
        "REMOTE_CPU_PERCENT_IRQ",
        "REMOTE_CPU_PERCENT_SWINTR",
        "REMOTE_CPU_METHOD",
        "LOCAL_SD",
        "REMOTE_SD",
        "SD_UNITS",
    ];
    let direction = settings.print.direction;
    let sizes: &[&str] = match direction {
        direction if direction.is_transactional() => &TRANSACTIONAL,
        direction if direction.transmit => &TRANSMIT,
        _ => &RECEIVE,
    };
    let measures_cpu = settings.plan.here.measure_cpu || settings.plan.there.measure_cpu;
    let cpu: &[&str] = if measures_cpu { &CPU } else { &[] };
    [sizes, &RESULT, cpu]
        .concat()
        .into_iter()
        .filter_map(by_name)
        .collect()
}

fn by_name(name: &str) -> Option<&'static Selector> {
    SELECTORS.iter().find(|selector| selector.name == name)
}
