//! UDP_STREAM: what was sent, and below it what arrived.

use std::fmt::{self, Formatter};

use super::{Part, charged, headers};
use crate::output::figures::{Figures, Processor};

pub(super) fn write(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    match Part::of(figures.settings) {
        Part::Throughput => writeln!(out, "{:>7.2}", sent_rate(figures)),
        // The letter is the local one even when the demand is the peer's.
        Part::Demand => {
            writeln!(
                out,
                "{:>6.2} {}",
                charged(figures).demand,
                figures.local.method
            )
        }
        Part::Plain => table(out, figures, false),
        Part::Cpu => table(out, figures, true),
        Part::Nothing => Ok(()),
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

fn table(out: &mut Formatter<'_>, figures: &Figures<'_>, cpu: bool) -> fmt::Result {
    if figures.settings.print.headers && cpu {
        out.write_str(&cpu_headers(figures))?;
    } else if figures.settings.print.headers {
        out.write_str(&headers::datagrams(figures.unit.name()))?;
    }
    let decimals = if cpu { 1 } else { 2 };
    let columns = |end: &Processor| {
        let columns = format!("     {:<6.2}   {:<6.3}", end.busy, end.demand);
        if cpu { columns } else { String::new() }
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
        columns(&figures.local),
    )?;
    writeln!(
        out,
        "{:>6}           {:<7.2}   {:>7}           {:>7.decimals$}{}\n",
        figures.peer().receive_buffer,
        figures.elapsed,
        received_calls(figures),
        received_rate(figures),
        columns(&figures.remote),
    )
}

fn sent_rate(figures: &Figures<'_>) -> f64 {
    let (here, there) = (figures.counts(), figures.peer_counts());
    figures.rate_of(both_ways(figures, here.sent.0, there.sent.0))
}

fn received_rate(figures: &Figures<'_>) -> f64 {
    let (here, there) = (figures.counts(), figures.peer_counts());
    figures.rate_of(both_ways(figures, there.received.0, here.received.0))
}

fn sent_calls(figures: &Figures<'_>) -> u64 {
    let (here, there) = (figures.counts(), figures.peer_counts());
    both_ways(figures, here.send_calls, there.send_calls)
}

fn received_calls(figures: &Figures<'_>) -> u64 {
    let (here, there) = (figures.counts(), figures.peer_counts());
    both_ways(figures, there.receive_calls, here.receive_calls)
}

/// A figure of this direction, and with `--bidirectional` that of the other one.
fn both_ways(figures: &Figures<'_>, forth: u64, back: u64) -> u64 {
    match figures.settings.reverse {
        Some(_) => forth + back,
        None => forth,
    }
}
