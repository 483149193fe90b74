//! Statistics of the flows of a test, and their table.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use model::FlowOutcome;
use stats::jain_index;

use super::figures::{Figures, NOT_MEASURED};
use super::number::format_six_digits;
use crate::options::{Test, ThroughputUnit};

/// Selects the flows of one direction or all flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowDirection {
    Outbound,
    Inbound,
    Both,
}

/// Statistics over some of a test's flows. Rates are in the unit of throughput; −1 is unavailable.
pub(super) struct FlowStatistics {
    pub(super) flows: usize,
    /// The throughput of all flows together, over the duration of the test.
    pub(super) throughput: f64,
    /// The throughput of the slowest flow, over the duration of that flow.
    pub(super) slowest: f64,
    /// The throughput of the fastest flow, over the duration of that flow.
    pub(super) fastest: f64,
    /// Jain's fairness index.
    pub(super) jain: f64,
}

impl FlowStatistics {
    /// Computes the statistics of the selected flows.
    pub(super) fn from_figures(figures: &Figures<'_>, direction: FlowDirection) -> Self {
        let flows = &figures.run.outcome.flows;
        if flows.is_empty() && direction == FlowDirection::Both {
            return Self {
                flows: 1,
                throughput: figures.throughput,
                slowest: figures.throughput,
                fastest: figures.throughput,
                jain: 1.0,
            };
        }
        let selected: Vec<&FlowOutcome> = flows
            .iter()
            .filter(|flow| {
                direction == FlowDirection::Both
                    || flow.inbound == (direction == FlowDirection::Inbound)
            })
            .collect();
        let rates = selected.iter().map(|flow| flow_rate(figures, flow));
        let rates = rates.collect::<Option<Vec<f64>>>().unwrap_or_default();
        let extreme = |pick: fn(f64, f64) -> f64| rates.iter().copied().reduce(pick);
        Self {
            flows: selected.len(),
            throughput: throughput(figures, &selected, direction).unwrap_or(NOT_MEASURED),
            slowest: extreme(f64::min).unwrap_or(NOT_MEASURED),
            fastest: extreme(f64::max).unwrap_or(NOT_MEASURED),
            jain: jain_index(&rates).unwrap_or(NOT_MEASURED),
        }
    }
}

fn flow_rate(figures: &Figures<'_>, flow: &FlowOutcome) -> Option<f64> {
    if figures.unit == ThroughputUnit::TRANSACTIONS {
        flow.transactions_per_second()
    } else {
        Some(figures.unit.scale(flow.bytes_per_second()?))
    }
}

fn throughput(
    figures: &Figures<'_>,
    flows: &[&FlowOutcome],
    direction: FlowDirection,
) -> Option<f64> {
    if direction == FlowDirection::Both {
        return Some(figures.throughput);
    }
    let received: Option<u64> = flows
        .iter()
        .map(|flow| Some(flow.arrived?.0))
        .sum::<Option<u64>>()
        .filter(|_| !flows.is_empty());
    Some(figures.rate_of(received?))
}

/// The table of flows, printed below the table of the test.
pub(super) struct FlowTable<'a>(pub(super) &'a Figures<'a>);

impl Display for FlowTable<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let figures = self.0;
        if figures.settings.print.headers {
            out.write_str(&headers(figures.unit.name()))?;
        }
        let directions: &[(FlowDirection, &str)] = if figures.settings.reverse.is_some() {
            &[
                (FlowDirection::Outbound, "out"),
                (FlowDirection::Inbound, "in"),
                (FlowDirection::Both, "both"),
            ]
        } else {
            &[(FlowDirection::Both, "sum")]
        };
        for (direction, name) in directions {
            let statistics = FlowStatistics::from_figures(figures, *direction);
            writeln!(
                out,
                "{name:<6}  {:<5}  {:<10.2}  {:<10.2}  {:<10.2}  {:<6.4}  {:.3}",
                statistics.flows,
                statistics.throughput,
                statistics.slowest,
                statistics.fastest,
                statistics.jain,
                start_spread_us(figures) / 1000.0,
            )?;
        }
        Ok(())
    }
}

#[rustfmt::skip]
fn headers(unit: &str) -> String {
    let unit = format!("{unit}/s");
    format!("
        Flows  Throughput  Slowest     Fastest     Jain's  Start
               of all      flow        flow        index   spread
               {unit:<10}  {unit:<10}  {unit:<10}          ms

")
}

/// Returns the time from the start of the first flow to that of the last, in microseconds.
pub(super) fn start_spread_us(figures: &Figures<'_>) -> f64 {
    let spread = figures.run.outcome.start_spread();
    spread.unwrap_or(Duration::ZERO).as_nanos() as f64 / 1000.0
}

/// Formats the throughput of all flows as one line. For datagrams, it counts received data.
pub(super) fn format_total(figures: &Figures<'_>) -> String {
    let rate = if figures.settings.test == Test::TcpCc {
        figures.transaction_rate
    } else {
        figures.throughput
    };
    format_six_digits(rate) + "\n"
}
