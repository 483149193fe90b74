//! The tables of tests, in the layout of Debian's netperf.
//!
//! Trailing blanks are part of the layout: scripts count words and sometimes columns.

mod headers;
pub(super) mod headers_first;
mod request_response;
mod stream;
mod udp_stream;

use std::fmt::{self, Display, Formatter};

use super::figures::{CpuFigures, Figures};
use crate::options::{Settings, Test};

/// The table and the extra block of a test, with all line ends.
pub(super) struct Table<'a>(pub(super) &'a Figures<'a>);

impl Display for Table<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.0.settings.test {
            test if headers_first::has_headers_before_test(test) => {
                headers_first::write(out, self.0)
            }
            test if test.is_non_inet_transaction() => request_response::write(out, self.0),
            Test::TcpRr | Test::UdpRr | Test::TcpCrr | Test::TcpCc => {
                request_response::write(out, self.0)
            }
            Test::UdpStream => udp_stream::write(out, self.0),
            Test::TcpMss => write_max_segment(out, self.0),
            // OMNI prints selectors; the others have separate texts.
            Test::Omni | Test::Uuid | Test::LocCpu | Test::RemCpu => Ok(()),
            _ => stream::write(out, self.0),
        }
    }
}

fn write_max_segment(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    let settings = figures.settings;
    let part = TablePart::for_settings(settings);
    if part == TablePart::Nothing {
        return Ok(());
    }
    if settings.print.headers && matches!(part, TablePart::WithoutCpu | TablePart::WithCpu) {
        out.write_str("Maximum\nSegment\nSize (bytes)\n\n")?;
    }
    writeln!(out, "{} {}", figures.max_segment(), brand(settings))
}

/// The part of a table that the verbosity, `-c` and `-C` select. From verbosity 2 on, an extra
/// block follows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TablePart {
    /// Verbosity 0: only the throughput.
    Throughput,
    /// Verbosity 0 with CPU time measured: only the service demand.
    Demand,
    /// The table without CPU time.
    WithoutCpu,
    /// The table with columns for CPU time and service demand.
    WithCpu,
    /// Verbosity 3 and higher: nothing.
    Nothing,
}

impl TablePart {
    fn for_settings(settings: &Settings) -> Self {
        let cpu = settings.flow.local.measure_cpu || settings.flow.remote.measure_cpu;
        match (settings.print.verbosity, cpu) {
            (..=0, false) => Self::Throughput,
            (..=0, true) => Self::Demand,
            (1 | 2, false) => Self::WithoutCpu,
            (1 | 2, true) => Self::WithCpu,
            (3.., _) => Self::Nothing,
        }
    }
}

fn has_extra(settings: &Settings) -> bool {
    settings.print.verbosity > 1
}

/// Returns the brand (`-B`), which the stock tool prints only if headers are disabled.
fn brand(settings: &Settings) -> &str {
    match &settings.print.brand {
        Some(brand) if !settings.print.headers => brand,
        _ => "",
    }
}

/// Returns the host whose service demand is the single figure of verbosity 0.
fn reported_cpu<'a>(figures: &'a Figures<'_>) -> &'a CpuFigures {
    if figures.settings.flow.local.measure_cpu {
        &figures.local
    } else {
        &figures.remote
    }
}
