//! The Unix domain and DLPI tests: their headers come with the title, before the test.
//!
//! The stock tool's lines, but with verbosity 2 it leaves out the result of some and prints a format
//! in place of another's extra block; here the result is there at every verbosity.

use std::fmt::{self, Formatter};

use super::{charged, has_extra, headers, request_response};
use crate::options::{Settings, Test, TestFamily};
use crate::output::figures::{Figures, unit_in_force};
use crate::output::number::general;

/// Whether a test's headers come before it.
pub(in crate::output) fn has_early_headers(test: Test) -> bool {
    matches!(test.family(), TestFamily::Unix | TestFamily::Dlpi)
}

/// The column headers, at every verbosity.
#[rustfmt::skip]
pub(in crate::output) fn early_headers(settings: &Settings) -> String {
    let unit = unit_in_force(settings).name();
    // Only a connection of the logical link control has windows, in frames.
    let has_windows = matches!(settings.test, Test::DlcoStream | Test::DlcoRr);
    let (room, first, second) = if has_windows {
        ("Window", "frames", "frames")
    } else {
        ("Socket", "bytes ", "Bytes ")
    };
    match (Shape::of(settings.test), measures_cpu(settings)) {
        (Shape::Stream, false) => headers::stream(room, first, unit),
        (Shape::Stream, true) => format!("\
Recv   Send    Send                          Utilization    Service Demand
{room} {room}  Message  Elapsed              Send   Recv    Send    Recv
Size   Size    Size     Time     Throughput  local  remote  local   remote
{first} {}  bytes    secs.    {unit:<8.8}/s  %      %       us/KB   us/KB

", second.to_lowercase()),
        (Shape::Datagrams, false) => headers::datagrams(unit),
        (Shape::Datagrams, true) => format!("\
Socket  Message  Elapsed      Messages                   CPU     Service
Size    Size     Time         Okay Errors   Throughput   Util    Demand
bytes   bytes    secs            #      #   {unit}/sec   %       us/KB

"),
        (Shape::Transactions, false) => headers::transactions(room, [first, second]),
        (Shape::Transactions, true) => format!("\
Local /Remote
{room} Size   Request Resp.  Elapsed Trans.   CPU    CPU    S.dem   S.dem
Send   Recv   Size    Size   Time    Rate     local  remote local   remote
{first} {} bytes   bytes  secs.   per sec  %      %      us/Tr   us/Tr

", second.to_lowercase()),
    }
}

/// The lines after the test.
pub(super) fn write(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    let settings = figures.settings;
    match (settings.print.verbosity, measures_cpu(settings)) {
        (..=0, false) => writeln!(out, "{:>7.2}", figures.one_way_rate())?,
        (..=0, true) if Shape::of(settings.test) == Shape::Datagrams => {
            writeln!(out, "{:>6.2}", charged(figures).demand)?;
        }
        (..=0, true) => writeln!(out, "{:>6.3}", charged(figures).demand)?,
        (_, cpu) => match Shape::of(settings.test) {
            Shape::Stream => stream(out, figures, cpu)?,
            Shape::Datagrams => datagrams(out, figures, cpu)?,
            Shape::Transactions if cpu => request_response::cpu(out, figures)?,
            Shape::Transactions => request_response::plain(out, figures)?,
        },
    }
    if !has_extra(settings) {
        return Ok(());
    }
    match (Shape::of(settings.test), settings.test) {
        (Shape::Stream, _) => stream_extra(out, figures),
        (Shape::Datagrams, _) => Ok(()),
        (Shape::Transactions, Test::DgRr | Test::DlclRr) => {
            writeln!(
                out,
                "Average response time {:.0} usecs",
                figures.round_trip_us
            )
        }
        (Shape::Transactions, _) => request_response::connection_extra(out, figures),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Stream,
    Datagrams,
    Transactions,
}

impl Shape {
    fn of(test: Test) -> Self {
        match test {
            Test::StreamStream | Test::DlcoStream => Self::Stream,
            Test::DgStream | Test::DlclStream => Self::Datagrams,
            _ => Self::Transactions,
        }
    }
}

fn measures_cpu(settings: &Settings) -> bool {
    settings.flow.here.measure_cpu || settings.flow.there.measure_cpu
}

fn stream(out: &mut Formatter<'_>, figures: &Figures<'_>, cpu: bool) -> fmt::Result {
    write!(
        out,
        "{:>5}  {:>5}  {:>6}    {:<6.2}",
        figures.peer().receive_buffer,
        figures.send_room(),
        figures.send_size(),
        figures.elapsed,
    )?;
    if !cpu {
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

fn stream_extra(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    out.write_str(&headers::extra("Send", "Recv"))?;
    writeln!(
        out,
        "{:>5}   {:>5}  {:>5}   {:>5} {:>6}  {:>6.2}     {:>6} {:>6.2}   {:>6}",
        figures.here().send.alignment,
        figures.there().receive.alignment,
        figures.here().send.offset,
        figures.there().receive.offset,
        general(figures.counts().sent.0 as f64, 4),
        figures.bytes_a_send(),
        figures.counts().send_calls,
        figures.bytes_a_remote_receive(),
        figures.peer_counts().receive_calls,
    )
}

fn datagrams(out: &mut Formatter<'_>, figures: &Figures<'_>, cpu: bool) -> fmt::Result {
    write!(
        out,
        "{:>5}   {:>5}    {:<7.2}   {:>7} {:>6}    ",
        figures.send_buffer(),
        figures.send_size(),
        figures.elapsed,
        figures.counts().send_calls,
        figures.counts().failed_sends,
    )?;
    rate(out, figures.counts().sent.0, figures, cpu)?;
    if cpu {
        write!(
            out,
            "      {:<6.2}  {:<6.3}",
            figures.local.busy, figures.local.demand
        )?;
    }
    write!(
        out,
        "\n{:>5}            {:<7.2}   {:>7}           ",
        figures.peer().receive_buffer,
        figures.elapsed,
        figures.peer_counts().receive_calls,
    )?;
    rate(out, figures.peer_counts().received.0, figures, cpu)?;
    if cpu {
        write!(
            out,
            "      {:<6.2}  {:<6.3}",
            figures.remote.busy, figures.remote.demand
        )?;
    }
    writeln!(out, "\n")
}

fn rate(out: &mut Formatter<'_>, bytes: u64, figures: &Figures<'_>, cpu: bool) -> fmt::Result {
    let decimals = if cpu { 1 } else { 2 };
    write!(out, "{:>7.decimals$}", figures.rate_of(bytes))
}
