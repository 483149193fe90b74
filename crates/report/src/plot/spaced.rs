//! The plots of tests with spaced datagrams, and of packet records.

use std::collections::BTreeMap;

use model::{FlowPlan, Outcome, SizeRule};
use stats::Packet;

use super::scale::with_unit;
use super::{Axis, Line, Plot, Style, Unit, axis};
use crate::{Figures, Report};

/// The maximum number of curves in a plot, and of tests with packet plots.
const MOST_CURVES: usize = 8;

/// The offered rate is drawn up to this multiple of the highest received one.
const ABOVE_RECEIVED: f64 = 1.6;

/// The maximum number of lost numbers without a record to draw.
const MOST_UNRECORDED: usize = 1_000_000;

/// Bins of a histogram of delays.
const BINS: f64 = 120.0;

/// A test at one size and spacing.
struct Test {
    bytes: u32,
    gap_ns: u64,
    sent_bps: Option<f64>,
    received_bps: Option<f64>,
    lost_percent: Option<f64>,
}

/// One quantity of a test, with the name and the style of its curve.
type Quantity = (&'static str, Style, fn(&Test) -> Option<f64>);

const RATES: [Quantity; 2] = [
    (" received", Style::Solid, |test| test.received_bps),
    (" sent", Style::Dashed, |test| test.sent_bps),
];
const LOSS: [Quantity; 1] = [("", Style::Solid, |test| test.lost_percent)];

const SPACING: Axis = axis("spacing", Unit::Time);
const SIZE: Axis = axis("payload of a packet", Unit::Plain("B"));
const THROUGHPUT: Axis = axis("throughput", Unit::Rate("bit/s"));
const LOST: Axis = axis("packets lost", Unit::Plain("%"));

/// Returns the plots of a report; empty without spaced datagrams and packet records.
pub(crate) fn plots(report: &Report) -> Vec<Plot> {
    let median = report
        .tests
        .iter()
        .filter_map(|tested| tested.runs.get(tested.median()?));
    let runs: Vec<&Outcome> = median.collect();
    let tests: Vec<Test> = runs.iter().filter_map(|run| test(run)).collect();
    // The rate of tests without a gap would hide the rest.
    let received = tests.iter().filter_map(|test| test.received_bps);
    let highest = received.reduce(f64::max).map(|rate| rate * ABOVE_RECEIVED);
    let sizes = grouped(&tests, |test| (u64::from(test.bytes), test.gap_ns));
    let gaps = grouped(&tests, |test| (test.gap_ns, u64::from(test.bytes)));
    let mut plots = Vec::new();
    for (x, title, groups, unit) in [
        (SPACING, "spacing", sizes, SIZE.unit),
        (SIZE, "packet size", gaps, SPACING.unit),
    ] {
        for (y, quantity, quantities, limit) in [
            (THROUGHPUT, "Throughput", &RATES[..], highest),
            (LOST, "Packet loss", &LOSS, None),
        ] {
            plots.push(Plot {
                title: format!("{quantity} against {title}"),
                x,
                y,
                limit,
                lines: curves(&groups, unit, quantities),
            });
        }
    }
    // A single point does not make a curve.
    plots.retain(|plot| plot.lines.iter().any(|line| line.points.len() > 1));
    let recorded: Vec<&Outcome> =
        (runs.into_iter().filter(|run| !run.packets.is_empty())).collect();
    plots.extend(packet_plots(&spread(recorded)));
    plots
}

fn test(run: &Outcome) -> Option<Test> {
    let flow = run.plan.flow()?;
    let figures = Figures::of(run);
    Some(Test {
        bytes: bytes(flow)?,
        gap_ns: u64::try_from(flow.here.spacing?.gap.as_nanos()).ok()?,
        sent_bps: figures.offered_bps.map(|rate| rate.0),
        received_bps: figures.throughput_bps.map(|rate| rate.0),
        lost_percent: figures
            .datagrams
            .and_then(|datagrams| datagrams.lost_percent),
    })
}

fn bytes(flow: &FlowPlan) -> Option<u32> {
    match flow.here.send.size {
        SizeRule::Bytes(bytes) => Some(bytes),
        SizeRule::SocketBuffer => None,
    }
}

/// Groups of tests by a key; in a group, tests by x. If tests have the same x, the last one counts.
type Groups<'a> = BTreeMap<u64, BTreeMap<u64, &'a Test>>;

fn grouped(tests: &[Test], key: fn(&Test) -> (u64, u64)) -> Groups<'_> {
    let mut groups = Groups::new();
    for test in tests {
        let (group, x) = key(test);
        groups.entry(group).or_default().insert(x, test);
    }
    groups
}

fn curves(groups: &Groups, unit: Unit, quantities: &[Quantity]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (colour, (group, tests)) in spread(groups.iter().collect()).into_iter().enumerate() {
        for (what, style, of) in quantities {
            let points = tests.iter();
            let points = points.filter_map(|(x, test)| Some((*x as f64, of(test)?)));
            lines.push(Line {
                name: with_unit(*group as f64, unit) + what,
                points: points.collect(),
                style: *style,
                colour: Some(colour),
            });
        }
    }
    lines.retain(|line| !line.points.is_empty());
    lines
}

/// Selects at most as many items as fit into one plot. They are evenly spaced and include the first and the last.
fn spread<T>(all: Vec<T>) -> Vec<T> {
    let last = all.len().saturating_sub(1);
    let steps = last.clamp(1, MOST_CURVES - 1);
    let chosen: Vec<usize> = (0..=steps).map(|step| step * last / steps).collect();
    let places = all.into_iter().enumerate();
    places
        .filter(|(at, _)| chosen.contains(at))
        .map(|(_, one)| one)
        .collect()
}

/// The points of a curve of one-way delays, or of delays above the minimum.
type Points = fn(&[Packet], bool) -> Vec<(f64, f64)>;

fn packet_plots(runs: &[&Outcome]) -> Vec<Plot> {
    let packets: Vec<(String, Vec<Packet>)> = (runs.iter())
        .map(|run| (name(run), run.packets.iter().map(Packet::from).collect()))
        .collect();
    let is_fitted = runs.iter().all(|run| run.clock_fit.is_some());
    let names = ["delay above the least one", "one-way delay"];
    let delay = axis(names[usize::from(is_fitted)], Unit::Time);
    let each = |points: Points, style| {
        let lines = packets.iter().enumerate();
        let lines = lines.map(|(colour, (name, packets))| Line {
            name: name.clone(),
            points: points(packets, is_fitted),
            style,
            colour: Some(colour),
        });
        lines.collect::<Vec<Line>>()
    };
    let count = Axis {
        is_log: true,
        ..axis("packets", Unit::Plain(""))
    };
    let mut plots = vec![
        Plot {
            title: "Delay histogram".to_owned(),
            x: delay,
            y: count,
            limit: None,
            lines: each(histogram, Style::Steps),
        },
        Plot {
            title: "Delay over time".to_owned(),
            x: axis("departure", Unit::Time),
            y: delay,
            limit: None,
            lines: each(over_time, Style::Dots),
        },
    ];
    plots.retain(|plot| plot.lines.iter().any(|line| !line.points.is_empty()));
    let arrivals = packets.iter().map(|(name, of)| arrivals(name, of));
    plots.extend(arrivals);
    plots
}

fn name(run: &Outcome) -> String {
    let Some(test) = test(run) else {
        return run.plan.name.clone();
    };
    let bytes = with_unit(f64::from(test.bytes), SIZE.unit);
    bytes + " every " + &with_unit(test.gap_ns as f64, SPACING.unit)
}

/// Returns departures with one-way delays, or with delays above the minimum.
fn over_time(packets: &[Packet], is_fitted: bool) -> Vec<(f64, f64)> {
    let timed = |packet: &Packet| Some((packet.sent_ns?, packet.relative_delay_ns()?));
    let timed: Vec<(i64, i64)> = packets.iter().filter_map(timed).collect();
    let least = timed.iter().map(|(_, delay)| *delay).min().unwrap_or(0);
    let zero = if is_fitted { 0 } else { least };
    let point = |(sent, delay): (i64, i64)| (sent as f64, delay.saturating_sub(zero) as f64);
    timed.into_iter().map(point).collect()
}

/// Counts delays in bins of equal width. Empty bins are placed below 1, because a logarithmic axis has no 0.
fn histogram(packets: &[Packet], is_fitted: bool) -> Vec<(f64, f64)> {
    let delays = over_time(packets, is_fitted)
        .into_iter()
        .map(|(_, delay)| delay);
    let mut delays: Vec<f64> = delays.collect();
    delays.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (delays.first().copied(), delays.last()) else {
        return Vec::new();
    };
    let width = ((most - least) / BINS).max(1.0);
    let bin = |delay: f64| ((delay - least) / width).floor();
    let mut steps = vec![(least, 0.5)];
    let mut end = 0.0;
    for values in delays.chunk_by(|a, b| bin(*a).to_bits() == bin(*b).to_bits()) {
        let at = bin(values[0]);
        if at > end {
            steps.push((least + at * width, 0.5));
        }
        end = at + 1.0;
        steps.push((least + end * width, values.len() as f64));
    }
    steps.push((least + end * width, 0.5));
    steps
}

/// The plot of the DataTAG project. A full queue appears as a bend, after which packets are lost.
fn arrivals(name: &str, packets: &[Packet]) -> Plot {
    let first = packets.iter().filter_map(|packet| packet.received_ns).min();
    let arrived = packets.iter().filter_map(|packet| {
        let since = packet.received_ns?.saturating_sub(first?);
        Some((packet.number as f64, since as f64))
    });
    let mut numbers: Vec<u64> = (packets.iter())
        .filter(|packet| packet.received_ns.is_some())
        .map(|packet| packet.number)
        .collect();
    numbers.sort_unstable();
    let is_lost = |packet: &&Packet| numbers.binary_search(&packet.number).is_err();
    let lost = packets.iter().filter(is_lost).map(|packet| packet.number);
    let between = numbers.windows(2).flat_map(|pair| pair[0] + 1..pair[1]);
    let between = between.take(MOST_UNRECORDED);
    let lost: Vec<(f64, f64)> = lost
        .chain(between)
        .map(|number| (number as f64, 0.0))
        .collect();
    let line = |name: &str, points: Vec<(f64, f64)>, colour| Line {
        name: name.to_owned(),
        points,
        style: Style::Dots,
        colour,
    };
    let mut lines = vec![line("arrived", arrived.collect(), Some(0))];
    if !lost.is_empty() {
        lines.push(line("lost, at zero", lost, None));
    }
    Plot {
        title: format!("Arrival against sequence number: {name}"),
        x: axis("sequence number", Unit::Plain("")),
        y: axis("arrival since the first one", Unit::Time),
        limit: None,
        lines,
    }
}
