//! Plots that a script in the page draws, so that a reader can zoom; without scripts they are pictures.

use model::{Outcome, Sample};
use serde::Serialize;
use stats::Histogram;

use super::text::escaped;
use crate::plot::{Axis, Line, Plot, Style, Unit, axis, picture};
use crate::{Figures, Tested};

/// More runs than this make no picture.
const MOST_RUNS: usize = 8;

/// An interval shorter than this share of the whole joins the next: its rate would be a scale that hides all else.
const SHORTEST_SHARE: f64 = 0.001;

/// Points per tenfold rarer times.
const POINTS_PER_DECADE: u32 = 16;

const THROUGHPUT: Axis = axis("throughput", Unit::Rate("bit/s"));

/// What the script reads of a [`Plot`].
#[derive(Serialize)]
struct Data<'a> {
    kind: &'static str,
    label: &'a str,
    unit: &'a str,
    lines: Vec<DataLine<'a>>,
}

#[derive(Serialize)]
struct DataLine<'a> {
    name: &'a str,
    x: Vec<f64>,
    y: Vec<f64>,
}

/// The rates over time of each run, or of each part of one run.
pub(super) fn rates(tested: &Tested) -> String {
    let Some(run) = tested.median().map(|median| &tested.runs[median]) else {
        return String::new();
    };
    let figures = Figures::of(run);
    if figures.operations_per_s.is_some() {
        let data = rate_plot("Throughput over time", THROUGHPUT, of_series(run, bits));
        let steps = axis("steps per second", Unit::Rate(""));
        return data + &rate_plot("Steps over time", steps, of_series(run, operations));
    }
    if figures.transactions_per_s.is_some() {
        let rate = axis("transactions per second", Unit::Rate(""));
        return rate_plot(
            "Transaction rate over time",
            rate,
            of_runs(tested, operations),
        );
    }
    let lines = if figures
        .spread
        .is_some_and(|spread| spread.outbound_bps.is_some())
    {
        directions(run)
    } else {
        of_runs(tested, bits)
    };
    rate_plot("Throughput over time", THROUGHPUT, lines)
}

fn bits(sample: &Sample) -> f64 {
    sample.bytes().0 as f64 * 8.0
}

fn operations(sample: &Sample) -> f64 {
    sample.operations as f64
}

/// Each series of a run, by the run's time.
fn of_series(run: &Outcome, amount: fn(&Sample) -> f64) -> Vec<Line> {
    let series = run.series.iter();
    let lines = series.map(|series| {
        let begun = series.begun.as_secs_f64();
        line(series.name.clone(), begun, &series.samples, amount)
    });
    coloured(lines.flatten())
}

fn of_runs(tested: &Tested, amount: fn(&Sample) -> f64) -> Vec<Line> {
    let runs = tested.runs.iter().take(MOST_RUNS).enumerate();
    let lines = runs.map(|(number, run)| {
        let name = match tested.runs.len() {
            1 => tested.plan.name.clone(),
            _ => format!("run {}", number + 1),
        };
        line(name, 0.0, &run.series.first()?.samples, amount)
    });
    coloured(lines.flatten())
}

/// Both directions of one run.
fn directions(run: &Outcome) -> Vec<Line> {
    let Some(series) = run.series.first() else {
        return Vec::new();
    };
    let sent = line("out".to_owned(), 0.0, &series.samples, |sample| {
        sample.sent.0 as f64 * 8.0
    });
    let received = line("in".to_owned(), 0.0, &series.samples, |sample| {
        sample.received.0 as f64 * 8.0
    });
    coloured(sent.into_iter().chain(received))
}

/// The rate in each interval, at the interval's end; `None` of too few samples.
fn line(name: String, begun: f64, samples: &[Sample], amount: fn(&Sample) -> f64) -> Option<Line> {
    let (first, last) = (samples.first()?, samples.last()?);
    let shortest = last.at.saturating_sub(first.at).as_secs_f64() * SHORTEST_SHARE;
    let mut points = Vec::new();
    let mut before = first;
    for sample in &samples[1..] {
        let took = sample.at.saturating_sub(before.at).as_secs_f64();
        if took <= 0.0 || took < shortest {
            continue;
        }
        let rate = (amount(sample) - amount(before)) / took;
        points.push(((begun + sample.at.as_secs_f64()) * 1e9, rate));
        before = sample;
    }
    let from = (begun + first.at.as_secs_f64()) * 1e9;
    points.insert(0, (from, points.first()?.1));
    Some(Line {
        name,
        points,
        style: Style::Steps,
        colour: None,
    })
}

/// Lines in colours that differ.
fn coloured(lines: impl Iterator<Item = Line>) -> Vec<Line> {
    let coloured = lines.enumerate().map(|(place, line)| Line {
        colour: Some(place),
        ..line
    });
    coloured.collect()
}

fn rate_plot(title: &str, y: Axis, lines: Vec<Line>) -> String {
    let mut points = lines.iter().flat_map(|line| &line.points);
    if !points.any(|(_, rate)| *rate > 0.0) {
        return String::new();
    }
    with_zoom(&Plot {
        title: title.to_owned(),
        x: axis("time", Unit::Time),
        y,
        limit: None,
        lines,
    })
}

/// The times that were kept of a run, by their names.
pub(super) fn histograms(run: &Outcome) -> Vec<(String, &Histogram)> {
    let sides = [
        Some(("", &run.here)),
        run.there.as_ref().map(|side| (" at the peer", side)),
    ];
    let mut kept = Vec::new();
    for (end, side) in sides.into_iter().flatten() {
        for (name, times) in [
            ("transactions", &side.latency),
            ("send calls", &side.send_times),
            ("receive calls", &side.receive_times),
            ("intervals", &side.send_gaps),
            ("smoothed round trips", &side.smoothed_rtt),
        ] {
            kept.extend(times.as_ref().map(|times| (format!("{name}{end}"), times)));
        }
    }
    let has_several = run.groups.len() > 1;
    for group in &run.groups {
        for transaction in &group.transactions {
            let name = if has_several {
                format!("{} of {}", transaction.name, group.name)
            } else {
                transaction.name.clone()
            };
            kept.extend(transaction.latency.as_ref().map(|times| (name, times)));
        }
    }
    kept.retain(|(_, times)| !times.is_empty());
    kept
}

/// The distribution of times: the rarer, the further to the right.
pub(super) fn latencies(run: &Outcome) -> String {
    let lines = coloured(histograms(run).into_iter().map(percentiles));
    if lines.is_empty() {
        return String::new();
    }
    with_zoom(&Plot {
        title: "Latency".to_owned(),
        x: Axis {
            is_log: true,
            ..axis("share of times that are not longer", Unit::Rarity)
        },
        y: Axis {
            is_log: true,
            ..axis("time", Unit::Time)
        },
        limit: None,
        lines,
    })
}

fn percentiles((name, times): (String, &Histogram)) -> Line {
    let mut points = Vec::new();
    for step in 0.. {
        // One time in this many is longer.
        let rarity = 10_f64.powf(f64::from(step) / f64::from(POINTS_PER_DECADE));
        let percent = 100.0 - 100.0 / rarity;
        let Some(time) = times
            .percentile(percent)
            .filter(|_| rarity <= times.len() as f64)
        else {
            break;
        };
        // A logarithmic scale has no 0.
        points.push((rarity, time.as_nanos().max(1) as f64));
    }
    if let Some((_, longest)) = times.extremes().filter(|_| points.len() > 1) {
        let last = times.len() as f64 * 1.0001;
        points.push((last, longest.as_nanos().max(1) as f64));
    }
    Line {
        name,
        points,
        style: Style::Solid,
        colour: None,
    }
}

fn with_zoom(plot: &Plot) -> String {
    let (kind, unit, divisor) = match plot.y.unit {
        Unit::Rate(unit) => ("rate", unit, 1e9),
        _ => ("latency", "s", 1.0),
    };
    let lines = plot.lines.iter().map(|line| DataLine {
        name: &line.name,
        x: line.points.iter().map(|point| point.0 / divisor).collect(),
        y: line.points.iter().map(|point| point.1).collect(),
    });
    let data = Data {
        kind,
        label: plot.y.label,
        unit,
        lines: lines.collect(),
    };
    // In a script's element only `<` has a meaning.
    let data = serde_json::to_string(&data).unwrap_or_default();
    let data = codec::escaped_json(&data).replace('<', "\\u003c");
    format!(
        "<h3>{}</h3>\n<div class=\"plot\"><script type=\"application/json\">{data}</script>\
         <noscript>{}</noscript></div>\n\
         <small>Drag over a span of the plot to zoom in; double-click to zoom out.</small>\n",
        escaped(&plot.title),
        picture(plot)
    )
}
