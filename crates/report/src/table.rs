//! The table: a row per test, and as many columns as there is room for.

use model::Outcome;
use stats::Summary;
use units::BitRate;

use crate::number::{significant, thousands};
use crate::{Datagrams, Figures, Tested};

/// What stands where a figure is not known.
const UNKNOWN: &str = "–";

/// A column; those of one group stand together under one title.
struct Column {
    group: &'static Group,
    name: &'static str,
    /// Columns are taken in the order of these numbers as long as there is room, all of one number
    /// together; those of 0 always are.
    priority: u8,
}

struct Group {
    /// The longest that fits is taken.
    titles: &'static [&'static str],
    is_text: bool,
}

static TEST: Group = Group::of_text(&[""]);
static RATE: Group = Group::of_numbers(&[""]);
static LATENCY: Group = Group::of_numbers(&["latency in µs", "µs"]);
static CPU: Group = Group::of_numbers(&["CPU %"]);
static DEMAND: Group = Group::of_numbers(&["service demand", "demand"]);
static LOSS: Group = Group::of_text(&[""]);

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
const LAST: u8 = 6;

impl Group {
    const fn of_text(titles: &'static [&'static str]) -> Self {
        Self {
            titles,
            is_text: true,
        }
    }

    const fn of_numbers(titles: &'static [&'static str]) -> Self {
        Self {
            titles,
            is_text: false,
        }
    }
}

impl Column {
    const fn new(group: &'static Group, name: &'static str, priority: u8) -> Self {
        Self {
            group,
            name,
            priority,
        }
    }

    /// As a sentence names it.
    fn full_name(&self) -> String {
        match self.group.titles[0] {
            "" => self.name.to_owned(),
            "latency in µs" => format!("latency {}", self.name),
            title => title.to_owned(),
        }
    }
}

/// A table that fits.
pub(crate) struct Fitted {
    /// Without trailing blanks.
    pub(crate) lines: Vec<String>,
    /// What there was no room for.
    pub(crate) left_out: Vec<String>,
}

/// A column that is shown.
struct Shown {
    column: &'static Column,
    /// Each test's cell, which may have several lines.
    cells: Vec<Vec<String>>,
    width: usize,
}

/// The table of the tests that have a result, in at most so many columns of the terminal, unless the
/// columns that are never left out need more.
pub(crate) fn table(tests: &[Tested], room: usize) -> Fitted {
    let rows: Vec<[String; 11]> = tests
        .iter()
        .filter_map(|test| Some(row(test, &test.runs[test.median()?])))
        .collect();
    let column = |(at, column): (usize, &'static Column)| {
        let cells = rows.iter().map(|row| lines_of(&row[at]));
        Shown::of(column, cells.collect())
    };
    // Without streams there is no loss, and without transactions no latency.
    let columns: Vec<Shown> = COLUMNS
        .iter()
        .enumerate()
        .map(column)
        .filter(|shown| !shown.is_empty())
        .collect();
    // What does not fit leaves its room to what comes after it.
    let mut taken: Vec<u8> = Vec::new();
    for priority in 0..=LAST {
        let with = |shown: &&Shown| {
            taken.contains(&shown.column.priority) || shown.column.priority == priority
        };
        let with: Vec<&Shown> = columns.iter().filter(with).collect();
        if priority == 0 || width(&with) <= room {
            taken.push(priority);
        }
    }
    let (shown, left_out): (Vec<&Shown>, Vec<&Shown>) = columns
        .iter()
        .partition(|shown| taken.contains(&shown.column.priority));
    let mut left_out: Vec<String> = (left_out.iter())
        .map(|shown| shown.column.full_name())
        .collect();
    left_out.dedup();
    Fitted {
        lines: lines(&shown, rows.len()),
        left_out,
    }
}

fn lines_of(cell: &str) -> Vec<String> {
    cell.split('\n').map(str::to_owned).collect()
}

impl Shown {
    fn of(column: &'static Column, cells: Vec<Vec<String>>) -> Self {
        let widths = cells.iter().flatten().map(|line| length(line));
        let width = widths.chain([length(column.name)]).max().unwrap_or(0);
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
        let blanks = " ".repeat(self.width.saturating_sub(length(text)));
        if self.column.group.is_text {
            format!("{text}{blanks}")
        } else {
            format!("{blanks}{text}")
        }
    }
}

/// Two blanks between groups, one within them.
fn gap(before: &Shown, shown: &Shown) -> usize {
    if std::ptr::eq(before.column.group, shown.column.group) {
        1
    } else {
        2
    }
}

fn width(shown: &[&Shown]) -> usize {
    let gaps: usize = shown.windows(2).map(|pair| gap(pair[0], pair[1])).sum();
    shown.iter().map(|shown| shown.width).sum::<usize>() + gaps
}

fn lines(shown: &[&Shown], rows: usize) -> Vec<String> {
    let mut lines = vec![titles(shown)];
    lines.push(joined(shown, |shown| shown.pad(shown.column.name)));
    lines.push("─".repeat(width(shown)));
    for row in 0..rows {
        let height = shown.iter().map(|shown| shown.cells[row].len()).max();
        for line in 0..height.unwrap_or(0) {
            lines.push(joined(shown, |shown| {
                shown.pad(shown.cells[row].get(line).map_or("", String::as_str))
            }));
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

fn joined(shown: &[&Shown], cell: impl Fn(&Shown) -> String) -> String {
    let mut line = String::new();
    for (at, one) in shown.iter().enumerate() {
        if let Some(before) = at.checked_sub(1) {
            line += &" ".repeat(gap(shown[before], one));
        }
        line += &cell(one);
    }
    line.trim_end().to_owned()
}

/// Each group's title, above its last column.
fn titles(shown: &[&Shown]) -> String {
    let groups = shown.chunk_by(|a, b| std::ptr::eq(a.column.group, b.column.group));
    let titles: Vec<String> = groups
        .map(|group| {
            let room = width(group);
            let titles = group[0].column.group.titles;
            let fitting = titles.iter().find(|title| length(title) <= room);
            let title = fitting.or(titles.last()).unwrap_or(&"");
            format!("{title:>room$}")
        })
        .collect();
    titles.join("  ").trim_end().to_owned()
}

/// In columns of a terminal.
fn length(text: &str) -> usize {
    text.chars().count()
}

fn row(test: &Tested, run: &Outcome) -> [String; 11] {
    let figures = Figures::of(run);
    let [p50, p90, p99, max] = latency(figures.latency.as_ref(), run.plan.is_transactional());
    let there = run.there.as_ref();
    let busy = |cpu: Option<f64>| cpu.map_or(UNKNOWN.to_owned(), percent);
    let demand = |demand: Option<f64>| demand.map_or(UNKNOWN.to_owned(), significant);
    let (here_demand, there_demand) = figures.service_demand.both();
    [
        test.plan.name.clone(),
        rate(test, &figures),
        p50,
        p90,
        p99,
        max,
        busy(run.here.cpu.as_ref().map(|cpu| cpu.busy_percent)),
        busy(there.and_then(|there| Some(there.cpu.as_ref()?.busy_percent))),
        demand(here_demand),
        demand(there_demand),
        loss(&figures),
    ]
}

/// The one rate, and below it how well it stands for the test: with a confidence interval it is the
/// mean of the runs, else the median run's.
fn rate(test: &Tested, figures: &Figures) -> String {
    let write = |rate: f64| match figures.transactions_per_s {
        Some(_) => format!("{} tran/s", thousands(rate)),
        None => BitRate(rate).to_string(),
    };
    let confidence = test.confidence().filter(|_| test.goal.is_some());
    let central = match confidence {
        Some(_) => test.mean_rate(),
        None => figures.rate(),
    };
    let Some(central) = central.map(write) else {
        return UNKNOWN.to_owned();
    };
    let mut lines = vec![central];
    match (
        confidence.map(|found| found.throughput_width_percent),
        test.spread(),
    ) {
        (Some(width), _) => {
            lines.extend(width.map(|width| format!("± {} %", significant(width / 2.0))));
        }
        (None, Some((low, high))) => lines.push(range(&write(low), &write(high))),
        (None, None) => {}
    }
    lines.extend(groups(test, figures, &write));
    lines.join("\n")
}

/// Two rates in the place of one: of the runs, or within the run.
fn groups(test: &Tested, figures: &Figures, write: &impl Fn(f64) -> String) -> Vec<String> {
    let bare = |rate: f64| write(rate).trim_end_matches(" tran/s").to_owned();
    if let Some(modes) = test.modes() {
        return vec![
            format!("{}× {}", modes.low_samples, bare(modes.low)),
            format!("{}× {}", modes.high_samples, bare(modes.high)),
        ];
    }
    let Some(levels) = figures.levels else {
        return Vec::new();
    };
    let low_percent = 100.0 * levels.low_share;
    vec![
        format!("{low_percent:.0} % {}", bare(levels.low)),
        format!("{:.0} % {}", 100.0 - low_percent, bare(levels.high)),
    ]
}

/// Without the unit where both have the same.
fn range(low: &str, high: &str) -> String {
    let unit = low.rsplit(' ').next().unwrap_or_default();
    match (low.strip_suffix(unit), high.strip_suffix(unit)) {
        (Some(low), Some(high)) => format!("{}–{}", low.trim_end(), high.trim_end()),
        _ => format!("{low} –\n{high}"),
    }
}

/// A share of CPU time is right to about a percent.
fn percent(percent: f64) -> String {
    let decimals = usize::from(percent < 9.95);
    format!("{percent:.decimals$}")
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
        (Some(datagrams), _) => datagrams_lost(&datagrams),
        (None, Some(segments)) => format!("{} resent", thousands(segments as f64)),
        (None, None) => String::new(),
    }
}

/// Where they were lost, as far as it is known.
fn datagrams_lost(datagrams: &Datagrams) -> String {
    let share = |count: u64| match (count, datagrams.sent) {
        (0, _) => "0".to_owned(),
        (count, sent) => significant(100.0 * count as f64 / sent.max(1) as f64),
    };
    let known = datagrams.dropped_by_receiver.filter(|_| datagrams.lost > 0);
    let places = match known {
        Some(dropped) => vec![(datagrams.lost - dropped, "path"), (dropped, "socket")],
        None => vec![(datagrams.lost, "lost")],
    };
    let mut lines: Vec<String> = places
        .into_iter()
        .filter(|(count, _)| *count > 0 || known.is_none())
        .map(|(count, place)| format!("{} % {place}", share(count)))
        .collect();
    let late = datagrams.received_late.filter(|late| *late > 0);
    lines.extend(late.map(|late| format!("{} late", thousands(late as f64))));
    lines.join("\n")
}
