//! Plots that a script in the page draws with zoom. Without scripts, the page shows pictures.

use model::{Outcome, Sample, Series};
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

/// Returns the cumulative amount of a sample.
type Amount = fn(&Sample) -> f64;

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
fn series_curves(run: &Outcome, amount: Amount) -> Vec<Curve> {
    let series = run.series.iter();
    let curves = series.map(|series| rate_curve(series.name.clone(), &progress(series, amount)));
    with_colours(curves.flatten())
}

fn run_curves(test: &TestReport, amount: Amount) -> Vec<Curve> {
    let runs = test.runs.iter().take(MAX_RUNS).enumerate();
    let curves = runs.map(|(index, run)| {
        let name = match test.runs.len() {
            1 => test.plan.name.clone(),
            _ => format!("run {}", index + 1),
        };
        rate_curve(name, &total_progress(&run.series, amount))
    });
    with_colours(curves.flatten())
}

/// Returns one curve per direction of a run.
fn direction_curves(run: &Outcome) -> Vec<Curve> {
    let directions: [(&str, Amount); 2] = [
        ("out", |sample| sample.arrived_at_peer().0 as f64 * 8.0),
        ("in", |sample| sample.received.0 as f64 * 8.0),
    ];
    let curves = directions
        .map(|(name, amount)| rate_curve(name.to_owned(), &total_progress(&run.series, amount)));
    with_colours(curves.into_iter().flatten())
}

/// Returns the time in seconds of each sample since the start of the run, and its amount.
fn progress(series: &Series, amount: Amount) -> Vec<(f64, f64)> {
    let time = |sample: &Sample| series.started_after.as_secs_f64() + sample.at.as_secs_f64();
    let samples = series.samples.iter();
    samples
        .map(|sample| (time(sample), amount(sample)))
        .collect()
}

/// Returns the sum of the progress of several series, at each time that one of them has.
fn total_progress(series: &[Series], amount: Amount) -> Vec<(f64, f64)> {
    let lines: Vec<_> = series
        .iter()
        .map(|series| progress(series, amount))
        .collect();
    let mut times: Vec<f64> = lines.iter().flatten().map(|point| point.0).collect();
    times.sort_by(f64::total_cmp);
    // Thousands of flows have far more times than the curve has points.
    let span_s = times
        .last()
        .zip(times.first())
        .map_or(0.0, |(last, first)| last - first);
    times.dedup_by(|next, kept| *next - *kept <= span_s * MIN_INTERVAL_SHARE);
    let total = |time| lines.iter().map(|line| amount_at(line, time)).sum();
    times.into_iter().map(|time| (time, total(time))).collect()
}

/// Returns the amount of one series at a time, which may be between two samples.
fn amount_at(line: &[(f64, f64)], time: f64) -> f64 {
    match line.split_at(line.partition_point(|point| point.0 <= time)) {
        ([], _) => 0.0,
        ([.., last], []) => last.1,
        ([.., before], [after, ..]) => {
            let share = (time - before.0) / (after.0 - before.0);
            before.1 + share * (after.1 - before.1)
        }
    }
}

/// Returns the rate of each interval, placed at the end of the interval; `None` for too few
/// samples. The progress is a list of times in seconds and amounts.
fn rate_curve(name: String, progress: &[(f64, f64)]) -> Option<Curve> {
    let (first, last) = (progress.first()?, progress.last()?);
    let min_interval_s = (last.0 - first.0) * MIN_INTERVAL_SHARE;
    let mut points = Vec::new();
    let mut previous = first;
    for sample in &progress[1..] {
        let interval_s = sample.0 - previous.0;
        if interval_s <= 0.0 || interval_s < min_interval_s {
            continue;
        }
        points.push((sample.0 * 1e9, (sample.1 - previous.1) / interval_s));
        previous = sample;
    }
    points.insert(0, (first.0 * 1e9, points.first()?.1));
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use model::{EndCause, Plan, Side};

    use super::*;

    /// Returns a flow of 2 s that sends or receives this many bytes per second.
    fn flow(started_after_s: u64, sent: u64, received: u64) -> Series {
        let samples = (0..3).map(|second| Sample {
            at: Duration::from_secs(second),
            sent: Bytes(sent * second),
            received: Bytes(received * second),
            ..Sample::default()
        });
        Series {
            name: String::new(),
            started_after: Duration::from_secs(started_after_s),
            samples: samples.collect(),
        }
    }

    fn rates(curve: &Curve) -> Vec<f64> {
        curve.points.iter().map(|point| point.1).collect()
    }

    #[test]
    fn curves_have_the_sum_of_all_flows() {
        let (local, ended) = (Side::default(), EndCause::Deadline);
        let mut run =
            Outcome::for_flow(Plan::default(), SystemTime::UNIX_EPOCH, local, None, ended);
        run.series = vec![flow(0, 1, 0), flow(0, 2, 0), flow(1, 0, 4)];
        let [out, inward] = &direction_curves(&run)[..] else {
            panic!("not two directions");
        };
        assert_eq!(rates(out), [24.0, 24.0, 24.0, 0.0]);
        assert_eq!(rates(inward), [0.0, 0.0, 32.0, 32.0]);
        run.series.pop();
        let [sum] = &run_curves(&TestReport::from_run(run), bits)[..] else {
            panic!("not one run");
        };
        assert_eq!(rates(sum), [24.0, 24.0, 24.0]);
    }
}
