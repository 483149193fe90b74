//! Plots that a script in the page draws with zoom. Without scripts, the page shows pictures.

use model::{Outcome, Sample};
use serde::Serialize;
use stats::Histogram;
use units::Bytes;

use super::text::escape_html;
use crate::plot::{Axis, Curve, Plot, Style, Unit, axis, picture};
use crate::{TestFigures, TestReport};

/// The maximum number of runs in a plot.
const MAX_RUNS: usize = 8;

/// The minimum length of an interval, as a share of the total time. A shorter interval is merged
/// with the next one, because its extreme rate would dominate the scale.
const MIN_INTERVAL_SHARE: f64 = 0.001;

/// Points of a percentile curve per factor of 10 in rarity.
const POINTS_PER_DECADE: u32 = 16;

const THROUGHPUT: Axis = axis("throughput", Unit::Rate("bit/s"));

/// The data of a [`Plot`] that the script reads.
#[derive(Serialize)]
struct PlotData<'a> {
    kind: &'static str,
    label: &'a str,
    unit: &'a str,
    lines: Vec<CurveData<'a>>,
}

#[derive(Serialize)]
struct CurveData<'a> {
    name: &'a str,
    x: Vec<f64>,
    y: Vec<f64>,
}

/// Returns plots of rates over time, with one curve per run, per series or per direction.
pub(super) fn rate_plots(test: &TestReport) -> String {
    let Some(run) = test.median_run_index().map(|median| &test.runs[median]) else {
        return String::new();
    };
    let figures = TestFigures::from_outcome(run);
    if figures.operations_per_s.is_some() {
        let data = rate_plot(throughput_title(run), THROUGHPUT, series_curves(run, bits));
        let steps = axis("steps per second", Unit::Rate(""));
        return data + &rate_plot("Steps over time", steps, series_curves(run, operations));
    }
    if figures.transactions_per_s.is_some() {
        let rate = axis("transactions per second", Unit::Rate(""));
        return rate_plot(
            "Transaction rate over time",
            rate,
            run_curves(test, operations),
        );
    }
    let is_bidirectional = figures
        .flow_spread
        .is_some_and(|flows| flows.outbound_bps.is_some());
    let curves = if is_bidirectional {
        direction_curves(run)
    } else {
        run_curves(test, bits)
    };
    rate_plot(throughput_title(run), THROUGHPUT, curves)
}

/// Returns the title of the plot: whether the sent data counts when the peer has acknowledged it or
/// when this end's socket has accepted it.
fn throughput_title(run: &Outcome) -> &'static str {
    let mut samples = run.series.iter().flat_map(|series| &series.samples);
    if samples.any(|sample| sample.sent > Bytes(0) && sample.acknowledged.is_none()) {
        "Throughput over time (data counted when sent)"
    } else {
        "Throughput over time"
    }
}

fn bits(sample: &Sample) -> f64 {
    (sample.arrived_at_peer() + sample.received).0 as f64 * 8.0
}

fn operations(sample: &Sample) -> f64 {
    sample.operations as f64
}

/// Returns one curve per series of a run, on the time axis of the run.
fn series_curves(run: &Outcome, amount: fn(&Sample) -> f64) -> Vec<Curve> {
    let series = run.series.iter();
    let curves = series.map(|series| {
        let start_s = series.started_after.as_secs_f64();
        rate_curve(series.name.clone(), start_s, &series.samples, amount)
    });
    with_colours(curves.flatten())
}

fn run_curves(test: &TestReport, amount: fn(&Sample) -> f64) -> Vec<Curve> {
    let runs = test.runs.iter().take(MAX_RUNS).enumerate();
    let curves = runs.map(|(index, run)| {
        let name = match test.runs.len() {
            1 => test.plan.name.clone(),
            _ => format!("run {}", index + 1),
        };
        rate_curve(name, 0.0, &run.series.first()?.samples, amount)
    });
    with_colours(curves.flatten())
}

/// Returns one curve per direction of a run.
fn direction_curves(run: &Outcome) -> Vec<Curve> {
    let Some(series) = run.series.first() else {
        return Vec::new();
    };
    let sent = rate_curve("out".to_owned(), 0.0, &series.samples, |sample| {
        sample.arrived_at_peer().0 as f64 * 8.0
    });
    let received = rate_curve("in".to_owned(), 0.0, &series.samples, |sample| {
        sample.received.0 as f64 * 8.0
    });
    with_colours(sent.into_iter().chain(received))
}

/// Returns the rate of each interval, placed at the end of the interval; `None` for too few
/// samples.
fn rate_curve(
    name: String,
    start_s: f64,
    samples: &[Sample],
    amount: fn(&Sample) -> f64,
) -> Option<Curve> {
    let (first, last) = (samples.first()?, samples.last()?);
    let min_interval_s = last.at.saturating_sub(first.at).as_secs_f64() * MIN_INTERVAL_SHARE;
    let mut points = Vec::new();
    let mut previous = first;
    for sample in &samples[1..] {
        let interval_s = sample.at.saturating_sub(previous.at).as_secs_f64();
        if interval_s <= 0.0 || interval_s < min_interval_s {
            continue;
        }
        let rate = (amount(sample) - amount(previous)) / interval_s;
        points.push(((start_s + sample.at.as_secs_f64()) * 1e9, rate));
        previous = sample;
    }
    let first_ns = (start_s + first.at.as_secs_f64()) * 1e9;
    points.insert(0, (first_ns, points.first()?.1));
    Some(Curve {
        name,
        points,
        style: Style::Steps,
        colour: None,
    })
}

/// Assigns a different colour to each curve.
fn with_colours(curves: impl Iterator<Item = Curve>) -> Vec<Curve> {
    let curves = curves.enumerate().map(|(index, curve)| Curve {
        colour: Some(index),
        ..curve
    });
    curves.collect()
}

fn rate_plot(title: &str, y: Axis, curves: Vec<Curve>) -> String {
    let mut points = curves.iter().flat_map(|curve| &curve.points);
    if !points.any(|(_, rate)| *rate > 0.0) {
        return String::new();
    }
    zoomable_plot(&Plot {
        title: title.to_owned(),
        x: axis("time", Unit::Time),
        y,
        limit: None,
        curves,
    })
}

/// Returns the nonempty histograms of a run with their names.
pub(super) fn histograms(run: &Outcome) -> Vec<(String, &Histogram)> {
    let sides = [
        Some(("", &run.local)),
        run.remote.as_ref().map(|side| (" at the peer", side)),
    ];
    let mut named_histograms = Vec::new();
    for (end, side) in sides.into_iter().flatten() {
        for (name, times) in [
            ("transactions", &side.latency),
            ("send calls", &side.send_times),
            ("receive calls", &side.receive_times),
            ("intervals", &side.send_gaps),
            ("smoothed round trips", &side.smoothed_rtt),
        ] {
            named_histograms.extend(times.as_ref().map(|times| (format!("{name}{end}"), times)));
        }
    }
    let has_several_groups = run.groups.len() > 1;
    for group in &run.groups {
        for transaction in &group.transactions {
            let name = if has_several_groups {
                format!("{} of {}", transaction.name, group.name)
            } else {
                transaction.name.clone()
            };
            named_histograms.extend(transaction.latency.as_ref().map(|times| (name, times)));
        }
    }
    named_histograms.retain(|(_, times)| !times.is_empty());
    named_histograms
}

/// Returns a plot of the distribution of times; rarer times are further to the right.
pub(super) fn latency_plot(run: &Outcome) -> String {
    let curves = with_colours(histograms(run).into_iter().map(percentile_curve));
    if curves.is_empty() {
        return String::new();
    }
    zoomable_plot(&Plot {
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
        curves,
    })
}

fn percentile_curve((name, times): (String, &Histogram)) -> Curve {
    let mut points = Vec::new();
    for step in 0.. {
        // One in `rarity` times is longer.
        let rarity = 10_f64.powf(f64::from(step) / f64::from(POINTS_PER_DECADE));
        let percent = 100.0 - 100.0 / rarity;
        let Some(time) = times
            .percentile(percent)
            .filter(|_| rarity <= times.len() as f64)
        else {
            break;
        };
        // A logarithmic scale cannot show 0.
        points.push((rarity, time.as_nanos().max(1) as f64));
    }
    if let Some((_, longest)) = times.extremes().filter(|_| points.len() > 1) {
        let last_rarity = times.len() as f64 * 1.0001;
        points.push((last_rarity, longest.as_nanos().max(1) as f64));
    }
    Curve {
        name,
        points,
        style: Style::Solid,
        colour: None,
    }
}

fn zoomable_plot(plot: &Plot) -> String {
    let (kind, unit, divisor) = match plot.y.unit {
        Unit::Rate(unit) => ("rate", unit, 1e9),
        _ => ("latency", "s", 1.0),
    };
    let curves = plot.curves.iter().map(|curve| CurveData {
        name: &curve.name,
        x: curve.points.iter().map(|point| point.0 / divisor).collect(),
        y: curve.points.iter().map(|point| point.1).collect(),
    });
    let data = PlotData {
        kind,
        label: plot.y.label,
        unit,
        lines: curves.collect(),
    };
    // In a script element, only `<` is special.
    let data = serde_json::to_string(&data).unwrap_or_default();
    let data = codec::escaped_json(&data).replace('<', "\\u003c");
    format!(
        "<h3>{}</h3>\n<div class=\"plot\"><script type=\"application/json\">{data}</script>\
         <noscript>{}</noscript></div>\n\
         <small>Drag over a span of the plot to zoom in; double-click to zoom out.</small>\n",
        escape_html(&plot.title),
        picture(plot)
    )
}
