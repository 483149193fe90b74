//! The tables of the tests that have one of their own, in Debian's layout.
//!
//! Trailing blanks are part of the layout: scripts count words, and some count columns.

pub(super) mod early;
mod headers;
mod request_response;
mod stream;
mod udp_stream;

use std::fmt::{self, Display, Formatter};

use super::figures::{Figures, Processor};
use crate::options::{Settings, Test};

/// The table and the extra block of a test, each line with its end.
pub(super) struct Table<'a>(pub(super) &'a Figures<'a>);

impl Display for Table<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.0.settings.test {
            test if early::has_early_headers(test) => early::write(out, self.0),
            test if test.is_family_transaction() => request_response::write(out, self.0),
            Test::TcpRr | Test::UdpRr | Test::TcpCrr | Test::TcpCc => {
                request_response::write(out, self.0)
            }
            Test::UdpStream => udp_stream::write(out, self.0),
            Test::TcpMss => max_segment(out, self.0),
            // OMNI prints selectors, and the others have texts of their own.
            Test::Omni | Test::Uuid | Test::LocCpu | Test::RemCpu => Ok(()),
            _ => stream::write(out, self.0),
        }
    }
}

fn max_segment(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    let settings = figures.settings;
    let part = Part::of(settings);
    if part == Part::Nothing {
        return Ok(());
    }
    if settings.print.headers && matches!(part, Part::Plain | Part::Cpu) {
        out.write_str("Maximum\nSegment\nSize (bytes)\n\n")?;
    }
    writeln!(out, "{} {}", figures.max_segment(), brand(settings))
}

/// What the verbosity, `-c` and `-C` leave of a table; from verbosity 2 on an extra block follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Verbosity 0: the throughput.
    Throughput,
    /// Verbosity 0 where CPU time was measured: the service demand.
    Demand,
    /// The table without CPU time.
    Plain,
    /// The table with columns for CPU time and service demand.
    Cpu,
    /// Verbosity 3 and more.
    Nothing,
}

impl Part {
    fn of(settings: &Settings) -> Self {
        let cpu = settings.flow.here.measure_cpu || settings.flow.there.measure_cpu;
        match (settings.print.verbosity, cpu) {
            (..=0, false) => Self::Throughput,
            (..=0, true) => Self::Demand,
            (1 | 2, false) => Self::Plain,
            (1 | 2, true) => Self::Cpu,
            (3.., _) => Self::Nothing,
        }
    }
}

fn has_extra(settings: &Settings) -> bool {
    settings.print.verbosity > 1
}

/// `-B`, which the stock tool prints only where no headers are.
fn brand(settings: &Settings) -> &str {
    match &settings.print.brand {
        Some(brand) if !settings.print.headers => brand,
        _ => "",
    }
}

/// The end whose service demand is the one figure of verbosity 0.
fn charged<'a>(figures: &'a Figures<'_>) -> &'a Processor {
    if figures.settings.flow.here.measure_cpu {
        &figures.local
    } else {
        &figures.remote
    }
}
