//! The table: a row a test.

use comfy_table::{CellAlignment, LineStyle, Row, Table, TableStyle};
use model::Outcome;
use stats::Summary;
use units::BitRate;

use crate::number::{significant, thousands};
use crate::{Datagrams, Figures, Tested};

/// No borders; a line below the header.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));

/// What stands where a figure was not told.
const UNKNOWN: &str = "–";

/// The first column is the test's name, the last one what was lost; the rest are numbers.
const HEADER: [[&str; 2]; 12] = [
    ["", ""],
    ["", "rate"],
    ["latency", "p50"],
    ["in µs", "p90"],
    ["", "p99"],
    ["", "max"],
    ["CPU %", "here"],
    ["", "peer"],
    ["service", "here"],
    ["demand", "peer"],
    ["", ""],
    ["", "loss"],
];

/// The table of the tests that have a result, a line at a time without trailing blanks.
pub(crate) fn table(tests: &[Tested]) -> String {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(HEADER.map(|lines| lines.join("\n")));
    for test in tests {
        if let Some(run) = test.median() {
            table.add_row(row(test, &test.runs[run]));
        }
    }
    let last = HEADER.len() - 1;
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if at == last { 0 } else { 2 }));
        if (1..last - 1).contains(&at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

fn row(test: &Tested, run: &Outcome) -> Row {
    let figures = Figures::of(run);
    let [p50, p90, p99, max] = latency(
        figures.latency.as_ref(),
        run.plan.workload.is_transactional(),
    );
    let busy = |cpu: Option<f64>| cpu.map_or(UNKNOWN.to_owned(), |percent| format!("{percent:.1}"));
    let demand = |demand: Option<f64>| demand.map_or(UNKNOWN.to_owned(), significant);
    let (here, there) = figures.service_demand.both();
    let cells = [
        test.plan.name.clone(),
        rate(test, &figures),
        p50,
        p90,
        p99,
        max,
        busy(run.here.cpu.as_ref().map(|cpu| cpu.busy_percent)),
        busy(
            run.there
                .as_ref()
                .and_then(|there| there.cpu.as_ref())
                .map(|cpu| cpu.busy_percent),
        ),
        demand(here),
        demand(there),
        figures.service_demand.unit().to_owned(),
        loss(&figures),
    ];
    Row::from(cells)
}

/// The median run's rate and, below it, the range of all of them.
fn rate(test: &Tested, figures: &Figures) -> String {
    let write = |rate: f64| match figures.transactions_per_s {
        Some(_) => format!("{} tran/s", thousands(rate)),
        None => BitRate(rate).to_string(),
    };
    let Some(rate) = figures.rate().map(write) else {
        return UNKNOWN.to_owned();
    };
    let Some((low, high)) = test.spread() else {
        return rate;
    };
    let (low, high) = (write(low), write(high));
    let unit = rate.rsplit(' ').next().unwrap_or_default();
    match (low.strip_suffix(unit), high.strip_suffix(unit)) {
        (Some(low), Some(high)) => format!("{rate}\n{}–{}", low.trim_end(), high.trim_end()),
        _ => format!("{rate}\n{low} –\n{high}"),
    }
}

fn latency(summary: Option<&Summary>, transactional: bool) -> [String; 4] {
    match summary {
        Some(times) => [times.p50_ns, times.p90_ns, times.p99_ns, times.max_ns]
            .map(|ns| significant(ns as f64 / 1e3)),
        None if transactional => std::array::from_fn(|_| UNKNOWN.to_owned()),
        None => Default::default(),
    }
}

fn loss(figures: &Figures) -> String {
    match (figures.datagrams, figures.retransmits) {
        (
            Some(Datagrams {
                lost_percent,
                received_late,
                ..
            }),
            _,
        ) => {
            let lost = lost_percent.map_or(UNKNOWN.to_owned(), significant);
            let late = received_late.map_or(UNKNOWN.to_owned(), |late| thousands(late as f64));
            format!("{lost} % lost\n{late} late")
        }
        (None, Some(segments)) => format!("{} resent", thousands(segments as f64)),
        (None, None) => String::new(),
    }
}
