//! The tables of Unix domain and DLPI tests, which print their headers with the title before the
//! test.
//!
//! The lines are those of the stock tool, except at verbosity 2. There, the stock tool omits the
//! result of some tests, and prints a format string in place of another test's extra block.
//! linerate prints the result at every verbosity.

use std::fmt::{self, Formatter};

use super::{has_extra, headers, reported_cpu, request_response};
use crate::options::{Settings, Test, TestFamily};
use crate::output::figures::{Figures, effective_unit};
use crate::output::number::format_general;

/// Whether the headers of a test are printed before the test.
pub(in crate::output) fn has_headers_before_test(test: Test) -> bool {
    matches!(test.family(), TestFamily::Unix | TestFamily::Dlpi)
}

/// Formats the column headers, which are the same at every verbosity.
#[rustfmt::skip]
pub(in crate::output) fn headers_before_test(settings: &Settings) -> String {
    let unit = effective_unit(settings).name();
    // Only connections of the logical link control (LLC) have windows, in frames.
    let has_windows = matches!(settings.test, Test::DlcoStream | Test::DlcoRr);
    let (buffer, first_unit, second_unit) = if has_windows {
        ("Window", "frames", "frames")
    } else {
        ("Socket", "bytes ", "Bytes ")
    };
    match (TableLayout::for_test(settings.test), measures_cpu(settings)) {
        (TableLayout::Stream, false) => headers::stream(buffer, first_unit, unit),
        (TableLayout::Stream, true) => format!("\
Recv   Send    Send                          Utilization    Service Demand
{buffer} {buffer}  Message  Elapsed              Send   Recv    Send    Recv
Size   Size    Size     Time     Throughput  local  remote  local   remote
{first_unit} {}  bytes    secs.    {unit:<8.8}/s  %      %       us/KB   us/KB

", second_unit.to_lowercase()),
        (TableLayout::Datagrams, false) => headers::datagrams(unit),
        (TableLayout::Datagrams, true) => format!("\
Socket  Message  Elapsed      Messages                   CPU     Service
Size    Size     Time         Okay Errors   Throughput   Util    Demand
bytes   bytes    secs            #      #   {unit}/sec   %       us/KB

"),
        (TableLayout::Transactions, false) => headers::transactions(buffer, [first_unit, second_unit]),
        (TableLayout::Transactions, true) => format!("\
Local /Remote
{buffer} Size   Request Resp.  Elapsed Trans.   CPU    CPU    S.dem   S.dem
Send   Recv   Size    Size   Time    Rate     local  remote local   remote
{first_unit} {} bytes   bytes  secs.   per sec  %      %      us/Tr   us/Tr

", second_unit.to_lowercase()),
    }
}

/// Writes the lines after the test.
pub(super) fn write(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    let settings = figures.settings;
    match (settings.print.verbosity, measures_cpu(settings)) {
        (..=0, false) => writeln!(out, "{:>7.2}", figures.verbosity_0_rate())?,
        (..=0, true) if TableLayout::for_test(settings.test) == TableLayout::Datagrams => {
            writeln!(out, "{:>6.2}", reported_cpu(figures).demand)?;
        }
        (..=0, true) => writeln!(out, "{:>6.3}", reported_cpu(figures).demand)?,
        (_, with_cpu) => match TableLayout::for_test(settings.test) {
            TableLayout::Stream => write_stream(out, figures, with_cpu)?,
            TableLayout::Datagrams => write_datagrams(out, figures, with_cpu)?,
            TableLayout::Transactions if with_cpu => {
                request_response::write_with_cpu(out, figures)?;
            }
            TableLayout::Transactions => request_response::write_without_cpu(out, figures)?,
        },
    }
    if !has_extra(settings) {
        return Ok(());
    }
    match (TableLayout::for_test(settings.test), settings.test) {
        (TableLayout::Stream, _) => write_stream_extra(out, figures),
        (TableLayout::Datagrams, _) => Ok(()),
        (TableLayout::Transactions, Test::DgRr | Test::DlclRr) => {
            writeln!(
                out,
                "Average response time {:.0} usecs",
                figures.round_trip_us
            )
        }
        (TableLayout::Transactions, _) => request_response::write_connection_extra(out, figures),
    }
}

/// The layout of the table of a test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TableLayout {
    Stream,
    Datagrams,
    Transactions,
}

impl TableLayout {
    fn for_test(test: Test) -> Self {
        match test {
            Test::StreamStream | Test::DlcoStream => Self::Stream,
            Test::DgStream | Test::DlclStream => Self::Datagrams,
            _ => Self::Transactions,
        }
    }
}

fn measures_cpu(settings: &Settings) -> bool {
    settings.flow.local.measure_cpu || settings.flow.remote.measure_cpu
}

fn write_stream(out: &mut Formatter<'_>, figures: &Figures<'_>, with_cpu: bool) -> fmt::Result {
    write!(
        out,
        "{:>5}  {:>5}  {:>6}    {:<6.2}",
        figures.peer_response().receive_buffer,
        figures.send_buffer_or_window(),
        figures.send_size(),
        figures.elapsed,
    )?;
    if !with_cpu {
        return writeln!(out, "   {:>7.2}   ", figures.throughput);
    }
    writeln!(
        out,
        "     {:>7.2}   {:<6.2} {:<6.2}  {:<6.3}  {:<6.3}",
        figures.throughput,
        figures.local.busy,
        figures.remote.busy,
        figures.local.demand,
        figures.remote.demand,
    )
}

fn write_stream_extra(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    out.write_str(&headers::extra("Send", "Recv"))?;
    writeln!(
        out,
        "{:>5}   {:>5}  {:>5}   {:>5} {:>6}  {:>6.2}     {:>6} {:>6.2}   {:>6}",
        figures.local_plan().send.alignment,
        figures.remote_plan().receive.alignment,
        figures.local_plan().send.offset,
        figures.remote_plan().receive.offset,
        format_general(figures.counts().sent.0 as f64, 4),
        figures.bytes_per_send(),
        figures.counts().send_calls,
        figures.bytes_per_remote_receive(),
        figures.peer_counts().receive_calls,
    )
}

fn write_datagrams(out: &mut Formatter<'_>, figures: &Figures<'_>, with_cpu: bool) -> fmt::Result {
    write!(
        out,
        "{:>5}   {:>5}    {:<7.2}   {:>7} {:>6}    ",
        figures.send_buffer(),
        figures.send_size(),
        figures.elapsed,
        figures.counts().send_calls,
        figures.counts().failed_sends,
    )?;
    write_rate(out, figures.counts().sent.0, figures, with_cpu)?;
    if with_cpu {
        write!(
            out,
            "      {:<6.2}  {:<6.3}",
            figures.local.busy, figures.local.demand
        )?;
    }
    write!(
        out,
        "\n{:>5}            {:<7.2}   {:>7}           ",
        figures.peer_response().receive_buffer,
        figures.elapsed,
        figures.peer_counts().receive_calls,
    )?;
    write_rate(out, figures.peer_counts().received.0, figures, with_cpu)?;
    if with_cpu {
        write!(
            out,
            "      {:<6.2}  {:<6.3}",
            figures.remote.busy, figures.remote.demand
        )?;
    }
    writeln!(out, "\n")
}

fn write_rate(
    out: &mut Formatter<'_>,
    bytes: u64,
    figures: &Figures<'_>,
    with_cpu: bool,
) -> fmt::Result {
    let decimals = if with_cpu { 1 } else { 2 };
    write!(out, "{:>7.decimals$}", figures.rate_of(bytes))
}
