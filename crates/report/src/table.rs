//! The result table: one row per test, and as many columns as fit.

use model::Outcome;
use stats::HistogramSummary;
use units::BitRate;

use crate::number::{format_significant, format_thousands};
use crate::{DatagramFigures, TestFigures, TestReport};

/// The text of unavailable figures.
const UNKNOWN: &str = "–";

/// A column of the table. Adjacent columns of one group share a title.
struct Column {
    group: &'static ColumnGroup,
    name: &'static str,
    /// The order in which columns are added while they fit. Columns of one priority are added
    /// together; columns of priority 0 are always shown.
    priority: u8,
}

struct ColumnGroup {
    /// Alternative titles, longest first. The first one that fits is shown.
    titles: &'static [&'static str],
    is_text: bool,
}

static TEST: ColumnGroup = ColumnGroup::for_text(&[""]);
static RATE: ColumnGroup = ColumnGroup::for_numbers(&[""]);
static LATENCY: ColumnGroup = ColumnGroup::for_numbers(&["latency in µs", "µs"]);
static CPU: ColumnGroup = ColumnGroup::for_numbers(&["CPU %"]);
static DEMAND: ColumnGroup = ColumnGroup::for_numbers(&["service demand", "demand"]);
static LOSS: ColumnGroup = ColumnGroup::for_text(&[""]);

static COLUMNS: [Column; 11] = [
    Column::new(&TEST, "", 0),
    Column::new(&RATE, "rate", 0),
    Column::new(&LATENCY, "p50", 1),
    Column::new(&LATENCY, "p90", 6),
    Column::new(&LATENCY, "p99", 2),
    Column::new(&LATENCY, "max", 3),
    Column::new(&CPU, "here", 4),
    Column::new(&CPU, "peer", 4),
    Column::new(&DEMAND, "here", 5),
    Column::new(&DEMAND, "peer", 5),
    Column::new(&LOSS, "loss", 0),
];

/// The largest priority.
const MAX_PRIORITY: u8 = 6;

impl ColumnGroup {
    const fn for_text(titles: &'static [&'static str]) -> Self {
        Self {
            titles,
            is_text: true,
        }
    }

    const fn for_numbers(titles: &'static [&'static str]) -> Self {
        Self {
            titles,
            is_text: false,
        }
    }
}

impl Column {
    const fn new(group: &'static ColumnGroup, name: &'static str, priority: u8) -> Self {
        Self {
            group,
            name,
            priority,
        }
    }

    /// Returns the name of the column for use in a sentence.
    fn full_name(&self) -> String {
        match self.group.titles[0] {
            "" => self.name.to_owned(),
            "latency in µs" => format!("latency {}", self.name),
            title => title.to_owned(),
        }
    }
}

/// A table that fits into the terminal.
pub(crate) struct FittedTable {
    /// The lines, without trailing spaces.
    pub(crate) lines: Vec<String>,
    /// The names of columns that did not fit.
    pub(crate) omitted_columns: Vec<String>,
}

/// A column with its cells.
struct ColumnCells {
    column: &'static Column,
    /// The lines of each test's cell.
    cells: Vec<Vec<String>>,
    width: usize,
}

/// Returns the table of the tests that have a result. It is at most `max_width` characters wide,
/// unless the columns of priority 0 need more.
pub(crate) fn table(tests: &[TestReport], max_width: usize) -> FittedTable {
    let rows: Vec<[String; 11]> = tests
        .iter()
        .filter_map(|test| Some(row(test, &test.runs[test.median_run_index()?])))
        .collect();
    let column_cells = |(index, column): (usize, &'static Column)| {
        let cells = rows.iter().map(|row| split_lines(&row[index]));
        ColumnCells::new(column, cells.collect())
    };
    // Empty columns are omitted, such as loss without stream tests or latency without transactions.
    let columns: Vec<ColumnCells> = COLUMNS
        .iter()
        .enumerate()
        .map(column_cells)
        .filter(|column| !column.is_empty())
        .collect();
    // If the columns of one priority do not fit, those of later priorities may still fit.
    let mut priorities: Vec<u8> = Vec::new();
    for priority in 0..=MAX_PRIORITY {
        let is_included = |cells: &&ColumnCells| {
            priorities.contains(&cells.column.priority) || cells.column.priority == priority
        };
        let included: Vec<&ColumnCells> = columns.iter().filter(is_included).collect();
        if priority == 0 || total_width(&included) <= max_width {
            priorities.push(priority);
        }
    }
    let (shown, omitted): (Vec<&ColumnCells>, Vec<&ColumnCells>) = columns
        .iter()
        .partition(|cells| priorities.contains(&cells.column.priority));
    let mut omitted_columns: Vec<String> = (omitted.iter())
        .map(|cells| cells.column.full_name())
        .collect();
    omitted_columns.dedup();
    FittedTable {
        lines: table_lines(&shown, rows.len()),
        omitted_columns,
    }
}

fn split_lines(cell: &str) -> Vec<String> {
    cell.split('\n').map(str::to_owned).collect()
}

impl ColumnCells {
    fn new(column: &'static Column, cells: Vec<Vec<String>>) -> Self {
        let widths = cells.iter().flatten().map(|line| display_width(line));
        let width = widths
            .chain([display_width(column.name)])
            .max()
            .unwrap_or(0);
        Self {
            column,
            cells,
            width,
        }
    }

    fn is_empty(&self) -> bool {
        self.cells.iter().flatten().all(String::is_empty)
    }

    fn pad(&self, text: &str) -> String {
        let blanks = " ".repeat(self.width.saturating_sub(display_width(text)));
        if self.column.group.is_text {
            format!("{text}{blanks}")
        } else {
            format!("{blanks}{text}")
        }
    }
}

/// Returns the number of spaces between two columns: two between groups, one within a group.
fn gap_width(before: &ColumnCells, after: &ColumnCells) -> usize {
    if std::ptr::eq(before.column.group, after.column.group) {
        1
    } else {
        2
    }
}

fn total_width(shown: &[&ColumnCells]) -> usize {
    let gaps: usize = shown
        .windows(2)
        .map(|pair| gap_width(pair[0], pair[1]))
        .sum();
    shown.iter().map(|cells| cells.width).sum::<usize>() + gaps
}

fn table_lines(shown: &[&ColumnCells], rows: usize) -> Vec<String> {
    let mut lines = vec![title_line(shown)];
    lines.push(join_cells(shown, |cells| cells.pad(cells.column.name)));
    lines.push("─".repeat(total_width(shown)));
    for row in 0..rows {
        let height = shown.iter().map(|column| column.cells[row].len()).max();
        for line in 0..height.unwrap_or(0) {
            lines.push(join_cells(shown, |column| {
                column.pad(column.cells[row].get(line).map_or("", String::as_str))
            }));
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

fn join_cells(shown: &[&ColumnCells], cell: impl Fn(&ColumnCells) -> String) -> String {
    let mut line = String::new();
    for (index, column_cells) in shown.iter().enumerate() {
        if let Some(before) = index.checked_sub(1) {
            line += &" ".repeat(gap_width(shown[before], column_cells));
        }
        line += &cell(column_cells);
    }
    line.trim_end().to_owned()
}

/// Returns the line of group titles, each right-aligned above its group.
fn title_line(shown: &[&ColumnCells]) -> String {
    let groups = shown.chunk_by(|a, b| std::ptr::eq(a.column.group, b.column.group));
    let group_titles: Vec<String> = groups
        .map(|group| {
            let width = total_width(group);
            let titles = group[0].column.group.titles;
            let fitting_title = titles.iter().find(|title| display_width(title) <= width);
            let title = fitting_title.or(titles.last()).unwrap_or(&"");
            format!("{title:>width$}")
        })
        .collect();
    group_titles.join("  ").trim_end().to_owned()
}

/// Returns the width of a text in terminal columns.
fn display_width(text: &str) -> usize {
    text.chars().count()
}

fn row(test: &TestReport, run: &Outcome) -> [String; 11] {
    let figures = TestFigures::from_outcome(run);
    let [p50, p90, p99, max] = latency_cells(figures.latency.as_ref(), run.plan.is_transactional());
    let remote = run.remote.as_ref();
    let busy = |cpu: Option<f64>| cpu.map_or(UNKNOWN.to_owned(), format_percent);
    let demand = |demand: Option<f64>| demand.map_or(UNKNOWN.to_owned(), format_significant);
    let (local_demand, remote_demand) = figures.service_demand.local_and_remote();
    [
        test.plan.name.clone(),
        rate_cell(test, &figures),
        p50,
        p90,
        p99,
        max,
        busy(run.local.cpu.as_ref().map(|cpu| cpu.busy_percent)),
        busy(remote.and_then(|remote| Some(remote.cpu.as_ref()?.busy_percent))),
        demand(local_demand),
        demand(remote_demand),
        loss_cell(&figures),
    ]
}

/// Returns the rate, with its confidence interval or range below it. With a goal, the rate is the
/// mean of the runs; otherwise it is that of the median run.
fn rate_cell(test: &TestReport, figures: &TestFigures) -> String {
    let format_rate = |rate: f64| match figures.transactions_per_s {
        Some(_) => format!("{} tran/s", format_thousands(rate)),
        None => BitRate(rate).to_string(),
    };
    let confidence = test.confidence().filter(|_| test.goal.is_some());
    let rate = match confidence {
        Some(_) => test.mean_rate(),
        None => figures.rate(),
    };
    let Some(rate) = rate.map(format_rate) else {
        return UNKNOWN.to_owned();
    };
    let mut lines = vec![rate];
    match (
        confidence.map(|confidence| confidence.throughput_width_percent),
        test.rate_range(),
    ) {
        (Some(width), _) => {
            lines.extend(width.map(|width| format!("± {} %", format_significant(width / 2.0))));
        }
        (None, Some((low, high))) => {
            lines.push(format_range(&format_rate(low), &format_rate(high)));
        }
        (None, None) => {}
    }
    lines.extend(two_rates(test, figures, &format_rate));
    lines.join("\n")
}

/// Returns two lines if the rates of the runs are bimodal, or if the rate had two levels in the
/// run.
fn two_rates(
    test: &TestReport,
    figures: &TestFigures,
    format_rate: &impl Fn(f64) -> String,
) -> Vec<String> {
    let without_unit = |rate: f64| format_rate(rate).trim_end_matches(" tran/s").to_owned();
    if let Some(modes) = test.rate_modes() {
        return vec![
            format!("{}× {}", modes.low_samples, without_unit(modes.low)),
            format!("{}× {}", modes.high_samples, without_unit(modes.high)),
        ];
    }
    let Some(levels) = figures.levels else {
        return Vec::new();
    };
    let low_percent = 100.0 * levels.low_share;
    vec![
        format!("{low_percent:.0} % {}", without_unit(levels.low)),
        format!("{:.0} % {}", 100.0 - low_percent, without_unit(levels.high)),
    ]
}

/// Formats a range, without the unit if both values have the same unit.
fn format_range(low: &str, high: &str) -> String {
    let unit = low.rsplit(' ').next().unwrap_or_default();
    match (low.strip_suffix(unit), high.strip_suffix(unit)) {
        (Some(low), Some(high)) => format!("{}–{}", low.trim_end(), high.trim_end()),
        _ => format!("{low} –\n{high}"),
    }
}

/// Formats a share of CPU time, which is accurate to about 1 %.
fn format_percent(percent: f64) -> String {
    let decimals = usize::from(percent < 9.95);
    format!("{percent:.decimals$}")
}

fn latency_cells(summary: Option<&HistogramSummary>, is_transactional: bool) -> [String; 4] {
    match summary {
        Some(times) => [times.p50_ns, times.p90_ns, times.p99_ns, times.max_ns]
            .map(|ns| format_significant(ns as f64 / 1e3)),
        None if is_transactional => std::array::from_fn(|_| UNKNOWN.to_owned()),
        None => Default::default(),
    }
}

fn loss_cell(figures: &TestFigures) -> String {
    match (figures.datagrams, figures.retransmits) {
        (Some(datagrams), _) => lost_datagrams_cell(&datagrams),
        (None, Some(segments)) => format!("{} resent", format_thousands(segments as f64)),
        (None, None) => String::new(),
    }
}

/// Returns the loss, divided into path and socket if known.
fn lost_datagrams_cell(datagrams: &DatagramFigures) -> String {
    let percent = |count: u64| match (count, datagrams.sent) {
        (0, _) => "0".to_owned(),
        (count, sent) => format_significant(100.0 * count as f64 / sent.max(1) as f64),
    };
    let dropped_by_socket = datagrams.dropped_by_receiver.filter(|_| datagrams.lost > 0);
    let loss_places = match dropped_by_socket {
        Some(dropped) => vec![(datagrams.lost - dropped, "path"), (dropped, "socket")],
        None => vec![(datagrams.lost, "lost")],
    };
    let mut lines: Vec<String> = loss_places
        .into_iter()
        .filter(|(count, _)| *count > 0 || dropped_by_socket.is_none())
        .map(|(count, place)| format!("{} % {place}", percent(count)))
        .collect();
    let late = datagrams.received_late.filter(|late| *late > 0);
    lines.extend(late.map(|late| format!("{} late", format_thousands(late as f64))));
    lines.join("\n")
}
