//! The plots of tests with spaced datagrams, and of packet records.

use std::collections::BTreeMap;

use model::{FlowPlan, Outcome, SizeRule};
use stats::Packet;

use super::scale::format_with_unit;
use super::{Axis, Curve, Plot, Style, Unit, axis};
use crate::{Report, TestFigures};

/// The maximum number of curves in a plot, and of tests with packet plots.
const MAX_CURVES: usize = 8;

/// The sent rate is drawn up to this multiple of the highest received rate.
const MAX_OFFERED_FACTOR: f64 = 1.6;

/// The maximum number of losses without a packet record that are drawn.
const MAX_UNRECORDED_LOSSES: usize = 1_000_000;

/// Bins of a histogram of delays.
const HISTOGRAM_BINS: f64 = 120.0;

/// A test at one size and spacing.
struct SpacedTest {
    bytes: u32,
    gap_ns: u64,
    sent_bps: Option<f64>,
    received_bps: Option<f64>,
    lost_percent: Option<f64>,
}

/// One quantity of a test, with the name and the style of its curve.
type Quantity = (&'static str, Style, fn(&SpacedTest) -> Option<f64>);

const RATE_CURVES: [Quantity; 2] = [
    (" received", Style::Solid, |test| test.received_bps),
    (" sent", Style::Dashed, |test| test.sent_bps),
];
const LOSS_CURVES: [Quantity; 1] = [("", Style::Solid, |test| test.lost_percent)];

const SPACING: Axis = axis("spacing", Unit::Time);
const SIZE: Axis = axis("payload of a packet", Unit::Plain("B"));
const THROUGHPUT: Axis = axis("throughput", Unit::Rate("bit/s"));
const LOSS_AXIS: Axis = axis("packets lost", Unit::Plain("%"));

/// Returns the plots of a report; empty without spaced datagrams and packet records.
pub(crate) fn plots(report: &Report) -> Vec<Plot> {
    let median_runs = report
        .tests
        .iter()
        .filter_map(|test| test.runs.get(test.median_run_index()?));
    let runs: Vec<&Outcome> = median_runs.collect();
    let tests: Vec<SpacedTest> = runs.iter().filter_map(|run| spaced_test(run)).collect();
    // Without this limit, the sent rate of tests without a gap would flatten all other curves.
    let received = tests.iter().filter_map(|test| test.received_bps);
    let max_rate = received
        .reduce(f64::max)
        .map(|rate| rate * MAX_OFFERED_FACTOR);
    let sizes = group_tests(&tests, |test| (u64::from(test.bytes), test.gap_ns));
    let gaps = group_tests(&tests, |test| (test.gap_ns, u64::from(test.bytes)));
    let mut plots = Vec::new();
    for (x, title, groups, unit) in [
        (SPACING, "spacing", sizes, SIZE.unit),
        (SIZE, "packet size", gaps, SPACING.unit),
    ] {
        for (y, quantity, quantities, limit) in [
            (THROUGHPUT, "Throughput", &RATE_CURVES[..], max_rate),
            (LOSS_AXIS, "Packet loss", &LOSS_CURVES, None),
        ] {
            plots.push(Plot {
                title: format!("{quantity} against {title}"),
                x,
                y,
                limit,
                curves: curves(&groups, unit, quantities),
            });
        }
    }
    // A single point does not make a curve.
    plots.retain(|plot| plot.curves.iter().any(|curve| curve.points.len() > 1));
    let recorded: Vec<&Outcome> =
        (runs.into_iter().filter(|run| !run.packets.is_empty())).collect();
    plots.extend(packet_plots(&select_evenly(recorded)));
    plots
}

fn spaced_test(run: &Outcome) -> Option<SpacedTest> {
    let flow = run.plan.flow()?;
    let figures = TestFigures::from_outcome(run);
    Some(SpacedTest {
        bytes: packet_bytes(flow)?,
        gap_ns: u64::try_from(flow.local.spacing?.gap.as_nanos()).ok()?,
        sent_bps: figures.offered_bps.map(|rate| rate.0),
        received_bps: figures.throughput_bps.map(|rate| rate.0),
        lost_percent: figures
            .datagrams
            .and_then(|datagrams| datagrams.lost_percent),
    })
}

fn packet_bytes(flow: &FlowPlan) -> Option<u32> {
    match flow.local.send.size {
        SizeRule::Bytes(bytes) => Some(bytes),
        SizeRule::SocketBuffer => None,
    }
}

/// Groups of tests by a key; in a group, tests by x. Of tests with the same x, only the last one is
/// kept.
type Groups<'a> = BTreeMap<u64, BTreeMap<u64, &'a SpacedTest>>;

fn group_tests(tests: &[SpacedTest], key: fn(&SpacedTest) -> (u64, u64)) -> Groups<'_> {
    let mut groups = Groups::new();
    for test in tests {
        let (group, x) = key(test);
        groups.entry(group).or_default().insert(x, test);
    }
    groups
}

fn curves(groups: &Groups, unit: Unit, quantities: &[Quantity]) -> Vec<Curve> {
    let mut curves = Vec::new();
    for (colour, (group, tests)) in select_evenly(groups.iter().collect())
        .into_iter()
        .enumerate()
    {
        for (suffix, style, value_of) in quantities {
            let points = tests.iter();
            let points = points.filter_map(|(x, test)| Some((*x as f64, value_of(test)?)));
            curves.push(Curve {
                name: format_with_unit(*group as f64, unit) + suffix,
                points: points.collect(),
                style: *style,
                colour: Some(colour),
            });
        }
    }
    curves.retain(|curve| !curve.points.is_empty());
    curves
}

/// Selects at most [`MAX_CURVES`] items. They are evenly spaced and include the first and the last.
fn select_evenly<T>(items: Vec<T>) -> Vec<T> {
    let last = items.len().saturating_sub(1);
    let steps = last.clamp(1, MAX_CURVES - 1);
    let selected: Vec<usize> = (0..=steps).map(|step| step * last / steps).collect();
    let indexed = items.into_iter().enumerate();
    indexed
        .filter(|(index, _)| selected.contains(index))
        .map(|(_, item)| item)
        .collect()
}

/// Computes the points of a curve, from one-way delays if the flag is set, otherwise from delays
/// above the minimum.
type PointsOf = fn(&[Packet], bool) -> Vec<(f64, f64)>;

fn packet_plots(runs: &[&Outcome]) -> Vec<Plot> {
    let packets: Vec<(String, Vec<Packet>)> = (runs.iter())
        .map(|run| {
            (
                curve_name(run),
                run.packets.iter().map(Packet::from).collect(),
            )
        })
        .collect();
    let has_clock_fit = runs.iter().all(|run| run.clock_fit.is_some());
    let names = ["delay above the minimum", "one-way delay"];
    let delay_axis = axis(names[usize::from(has_clock_fit)], Unit::Time);
    let curves_of = |points: PointsOf, style| {
        let lines = packets.iter().enumerate();
        let curves = lines.map(|(colour, (name, packets))| Curve {
            name: name.clone(),
            points: points(packets, has_clock_fit),
            style,
            colour: Some(colour),
        });
        curves.collect::<Vec<Curve>>()
    };
    let count_axis = Axis {
        is_log: true,
        ..axis("packets", Unit::Plain(""))
    };
    let mut plots = vec![
        Plot {
            title: "Delay histogram".to_owned(),
            x: delay_axis,
            y: count_axis,
            limit: None,
            curves: curves_of(delay_histogram, Style::Steps),
        },
        Plot {
            title: "Delay over time".to_owned(),
            x: axis("departure", Unit::Time),
            y: delay_axis,
            limit: None,
            curves: curves_of(delays_over_time, Style::Dots),
        },
    ];
    plots.retain(|plot| plot.curves.iter().any(|curve| !curve.points.is_empty()));
    let arrival_plots = packets
        .iter()
        .map(|(name, packets)| arrival_plot(name, packets));
    plots.extend(arrival_plots);
    plots
}

fn curve_name(run: &Outcome) -> String {
    let Some(test) = spaced_test(run) else {
        return run.plan.name.clone();
    };
    let bytes = format_with_unit(f64::from(test.bytes), SIZE.unit);
    bytes + " every " + &format_with_unit(test.gap_ns as f64, SPACING.unit)
}

/// Returns the departure and the delay of each packet: the one-way delay if the clocks are fitted,
/// otherwise the delay above the minimum.
fn delays_over_time(packets: &[Packet], has_clock_fit: bool) -> Vec<(f64, f64)> {
    let departure_and_delay =
        |packet: &Packet| Some((packet.sent_ns?, packet.relative_delay_ns()?));
    let timed: Vec<(i64, i64)> = packets.iter().filter_map(departure_and_delay).collect();
    let min_delay = timed.iter().map(|(_, delay)| *delay).min().unwrap_or(0);
    let zero = if has_clock_fit { 0 } else { min_delay };
    let point = |(sent, delay): (i64, i64)| (sent as f64, delay.saturating_sub(zero) as f64);
    timed.into_iter().map(point).collect()
}

/// Counts delays in bins of equal width. Empty bins have the value 0.5, because a logarithmic axis
/// has no 0.
fn delay_histogram(packets: &[Packet], has_clock_fit: bool) -> Vec<(f64, f64)> {
    let delays = delays_over_time(packets, has_clock_fit)
        .into_iter()
        .map(|(_, delay)| delay);
    let mut delays: Vec<f64> = delays.collect();
    delays.sort_by(f64::total_cmp);
    let (Some(min), Some(max)) = (delays.first().copied(), delays.last()) else {
        return Vec::new();
    };
    let width = ((max - min) / HISTOGRAM_BINS).max(1.0);
    let bin = |delay: f64| ((delay - min) / width).floor();
    let mut steps = vec![(min, 0.5)];
    let mut end = 0.0;
    for delays_of_bin in delays.chunk_by(|a, b| bin(*a).to_bits() == bin(*b).to_bits()) {
        let index = bin(delays_of_bin[0]);
        if index > end {
            steps.push((min + index * width, 0.5));
        }
        end = index + 1.0;
        steps.push((min + end * width, delays_of_bin.len() as f64));
    }
    steps.push((min + end * width, 0.5));
    steps
}

/// Returns a plot of arrival times against sequence numbers, as in the DataTAG project. A full
/// queue appears as a bend, after which packets are lost.
fn arrival_plot(name: &str, packets: &[Packet]) -> Plot {
    let first_ns = packets.iter().filter_map(|packet| packet.received_ns).min();
    let arrived = packets.iter().filter_map(|packet| {
        let ns_after_first = packet.received_ns?.saturating_sub(first_ns?);
        Some((packet.number as f64, ns_after_first as f64))
    });
    let mut arrived_numbers: Vec<u64> = (packets.iter())
        .filter(|packet| packet.received_ns.is_some())
        .map(|packet| packet.number)
        .collect();
    arrived_numbers.sort_unstable();
    let is_lost = |packet: &&Packet| arrived_numbers.binary_search(&packet.number).is_err();
    let lost = packets.iter().filter(is_lost).map(|packet| packet.number);
    let unrecorded = arrived_numbers
        .windows(2)
        .flat_map(|pair| pair[0] + 1..pair[1]);
    let unrecorded = unrecorded.take(MAX_UNRECORDED_LOSSES);
    let lost: Vec<(f64, f64)> = lost
        .chain(unrecorded)
        .map(|number| (number as f64, 0.0))
        .collect();
    let dots = |name: &str, points: Vec<(f64, f64)>, colour| Curve {
        name: name.to_owned(),
        points,
        style: Style::Dots,
        colour,
    };
    let mut curves = vec![dots("arrived", arrived.collect(), Some(0))];
    if !lost.is_empty() {
        curves.push(dots("lost, at zero", lost, None));
    }
    Plot {
        title: format!("Arrival against sequence number: {name}"),
        x: axis("sequence number", Unit::Plain("")),
        y: axis("arrival since the first one", Unit::Time),
        limit: None,
        curves,
    }
}
