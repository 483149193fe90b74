//! The table of UDP_STREAM: sent datagrams, and below them received datagrams.

use std::fmt::{self, Formatter};

use super::{TablePart, headers, reported_cpu};
use crate::output::figures::{CpuFigures, Figures};

pub(super) fn write(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    match TablePart::for_settings(figures.settings) {
        TablePart::Throughput => writeln!(out, "{:>7.2}", sent_rate(figures)),
        // Stock prints the letter of the local CPU method, even if the service demand is the peer's.
        TablePart::Demand => {
            writeln!(
                out,
                "{:>6.2} {}",
                reported_cpu(figures).demand,
                figures.local.method
            )
        }
        TablePart::WithoutCpu => write_table(out, figures, false),
        TablePart::WithCpu => write_table(out, figures, true),
        TablePart::Nothing => Ok(()),
    }
}

#[rustfmt::skip]
fn cpu_headers(figures: &Figures<'_>) -> String {
    let (unit, local, remote) = (figures.unit.name(), figures.local.method, figures.remote.method);
    format!("\
Socket  Message  Elapsed      Messages                   CPU      Service
Size    Size     Time         Okay Errors   Throughput   Util     Demand
bytes   bytes    secs            #      #   {unit}/sec % {local}{remote}     us/KB

")
}

fn write_table(out: &mut Formatter<'_>, figures: &Figures<'_>, with_cpu: bool) -> fmt::Result {
    if figures.settings.print.headers && with_cpu {
        out.write_str(&cpu_headers(figures))?;
    } else if figures.settings.print.headers {
        out.write_str(&headers::datagrams(figures.unit.name()))?;
    }
    let decimals = if with_cpu { 1 } else { 2 };
    let cpu_columns = |end: &CpuFigures| {
        let columns = format!("     {:<6.2}   {:<6.3}", end.busy, end.demand);
        if with_cpu { columns } else { String::new() }
    };
    writeln!(
        out,
        "{:>6}  {:>6}   {:<7.2}   {:>7} {:>6}    {:>7.decimals$}{}",
        figures.send_buffer(),
        figures.send_size(),
        figures.elapsed,
        sent_calls(figures),
        figures.counts().failed_sends,
        sent_rate(figures),
        cpu_columns(&figures.local),
    )?;
    writeln!(
        out,
        "{:>6}           {:<7.2}   {:>7}           {:>7.decimals$}{}\n",
        figures.peer_response().receive_buffer,
        figures.elapsed,
        received_calls(figures),
        received_rate(figures),
        cpu_columns(&figures.remote),
    )
}

fn sent_rate(figures: &Figures<'_>) -> f64 {
    let (local, remote) = (figures.counts(), figures.peer_counts());
    figures.rate_of(sum_directions(figures, local.sent.0, remote.sent.0))
}

fn received_rate(figures: &Figures<'_>) -> f64 {
    let (local, remote) = (figures.counts(), figures.peer_counts());
    figures.rate_of(sum_directions(figures, remote.received.0, local.received.0))
}

fn sent_calls(figures: &Figures<'_>) -> u64 {
    let (local, remote) = (figures.counts(), figures.peer_counts());
    sum_directions(figures, local.send_calls, remote.send_calls)
}

fn received_calls(figures: &Figures<'_>) -> u64 {
    let (local, remote) = (figures.counts(), figures.peer_counts());
    sum_directions(figures, remote.receive_calls, local.receive_calls)
}

/// Returns the figure of the forward direction; with `--bidirectional`, the sum of both directions.
fn sum_directions(figures: &Figures<'_>, forward: u64, reverse: u64) -> u64 {
    match figures.settings.reverse {
        Some(_) => forward + reverse,
        None => forward,
    }
}
