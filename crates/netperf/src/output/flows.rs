//! What several flows of a test did, beside each other.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use model::FlowShare;
use stats::jain_index;

use super::figures::{Figures, NONE};
use super::number::six_digits;
use crate::options::{Test, Unit};

/// Which flows: those of one direction, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Outbound,
    Inbound,
    Both,
}

/// The figures of some of a test's flows.
pub(super) struct Spread {
    pub(super) flows: usize,
    /// Of all of them, over the time of the test.
    pub(super) throughput: f64,
    /// Of the slowest of them, over its own time.
    pub(super) least: f64,
    /// Of the fastest.
    pub(super) most: f64,
    pub(super) jain: f64,
}

impl Spread {
    /// In the unit of throughput; −1 is what is not known.
    pub(super) fn of(figures: &Figures<'_>, way: Way) -> Self {
        let flows = &figures.run.outcome.flows;
        if flows.is_empty() && way == Way::Both {
            return Self {
                flows: 1,
                throughput: figures.throughput,
                least: figures.throughput,
                most: figures.throughput,
                jain: 1.0,
            };
        }
        let chosen: Vec<&FlowShare> = flows
            .iter()
            .filter(|flow| way == Way::Both || flow.inbound == (way == Way::Inbound))
            .collect();
        let rates: Option<Vec<f64>> = chosen.iter().map(|flow| rate(figures, flow)).collect();
        let rates = rates.unwrap_or_default();
        let extreme = |pick: fn(f64, f64) -> f64| rates.iter().copied().reduce(pick);
        Self {
            flows: chosen.len(),
            throughput: throughput(figures, &chosen, way).unwrap_or(NONE),
            least: extreme(f64::min).unwrap_or(NONE),
            most: extreme(f64::max).unwrap_or(NONE),
            jain: jain_index(&rates).unwrap_or(NONE),
        }
    }
}

fn rate(figures: &Figures<'_>, flow: &FlowShare) -> Option<f64> {
    if figures.unit == Unit::TRANSACTIONS {
        flow.transactions_per_second()
    } else {
        Some(figures.unit.of(flow.bytes_per_second()?))
    }
}

fn throughput(figures: &Figures<'_>, flows: &[&FlowShare], way: Way) -> Option<f64> {
    if way == Way::Both {
        return Some(figures.throughput);
    }
    let arrived: Option<u64> = flows
        .iter()
        .map(|flow| Some(flow.arrived?.0))
        .sum::<Option<u64>>()
        .filter(|_| !flows.is_empty());
    Some(figures.rate_of(arrived?))
}

/// The block below the table of the sum.
pub(super) struct Block<'a>(pub(super) &'a Figures<'a>);

impl Display for Block<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let figures = self.0;
        if figures.settings.print.headers {
            out.write_str(&headers(figures.unit.name()))?;
        }
        let ways: &[(Way, &str)] = if figures.settings.reverse.is_some() {
            &[
                (Way::Outbound, "out"),
                (Way::Inbound, "in"),
                (Way::Both, "both"),
            ]
        } else {
            &[(Way::Both, "sum")]
        };
        for (way, name) in ways {
            let spread = Spread::of(figures, *way);
            writeln!(
                out,
                "{name:<6}  {:<5}  {:<10.2}  {:<10.2}  {:<10.2}  {:<6.4}  {:.3}",
                spread.flows,
                spread.throughput,
                spread.least,
                spread.most,
                spread.jain,
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

/// Microseconds from the first flow's beginning to the last one's.
pub(super) fn start_spread_us(figures: &Figures<'_>) -> f64 {
    let spread = figures.run.outcome.start_spread();
    spread.unwrap_or(Duration::ZERO).as_nanos() as f64 / 1000.0
}

/// The throughput of all flows, on a line of its own: of datagrams what arrived.
pub(super) fn total(figures: &Figures<'_>) -> String {
    let rate = if figures.settings.test == Test::TcpCc {
        figures.transaction_rate
    } else {
        figures.throughput
    };
    six_digits(rate) + "\n"
}
