//! UDP_STREAM: what was sent, and below it what arrived.

use std::fmt::{self, Formatter};

use super::{Part, charged, headers};
use crate::output::figures::Figures;

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
        Part::Plain => plain(out, figures),
        Part::Cpu => cpu(out, figures),
        Part::Nothing => Ok(()),
    }
}

fn plain(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    if figures.settings.print.headers {
        out.write_str(&headers::datagrams(figures.unit.name()))?;
    }
    writeln!(
        out,
        "{:>6}  {:>6}   {:<7.2}   {:>7} {:>6}    {:>7.2}",
        figures.send_buffer(),
        figures.send_size(),
        figures.elapsed,
        sent_calls(figures),
        figures.counts().failed_sends,
        sent_rate(figures),
    )?;
    writeln!(
        out,
        "{:>6}           {:<7.2}   {:>7}           {:>7.2}\n",
        figures.peer().receive_buffer,
        figures.elapsed,
        received_calls(figures),
        received_rate(figures),
    )
}

#[rustfmt::skip]
fn cpu(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    if figures.settings.print.headers {
        let (unit, local, remote) =
            (figures.unit.name(), figures.local.method, figures.remote.method);
        writeln!(out, "Socket  Message  Elapsed      Messages                   CPU      Service")?;
        writeln!(out, "Size    Size     Time         Okay Errors   Throughput   Util     Demand")?;
        writeln!(out, "bytes   bytes    secs            #      #   {unit}/sec % {local}{remote}     us/KB\n")?;
    }
    writeln!(
        out,
        "{:>6}  {:>6}   {:<7.2}   {:>7} {:>6}    {:>7.1}     {:<6.2}   {:<6.3}",
        figures.send_buffer(),
        figures.send_size(),
        figures.elapsed,
        sent_calls(figures),
        figures.counts().failed_sends,
        sent_rate(figures),
        figures.local.busy,
        figures.local.demand,
    )?;
    writeln!(
        out,
        "{:>6}           {:<7.2}   {:>7}           {:>7.1}     {:<6.2}   {:<6.3}\n",
        figures.peer().receive_buffer,
        figures.elapsed,
        received_calls(figures),
        received_rate(figures),
        figures.remote.busy,
        figures.remote.demand,
    )
}

fn sent_rate(figures: &Figures<'_>) -> f64 {
    figures.rate_of(both_ways(
        figures,
        figures.counts().sent.0,
        figures.peer().bytes_sent,
    ))
}

fn received_rate(figures: &Figures<'_>) -> f64 {
    let (there, here) = (figures.peer().bytes_received, figures.counts().received.0);
    figures.rate_of(both_ways(figures, there, here))
}

fn sent_calls(figures: &Figures<'_>) -> u64 {
    both_ways(
        figures,
        figures.counts().send_calls,
        figures.peer().send_calls,
    )
}

fn received_calls(figures: &Figures<'_>) -> u64 {
    both_ways(
        figures,
        figures.peer().receive_calls,
        figures.counts().receive_calls,
    )
}

/// A figure of this direction, and with `--bidirectional` that of the other one.
fn both_ways(figures: &Figures<'_>, forth: u64, back: u64) -> u64 {
    match figures.settings.reverse {
        Some(_) => forth + back,
        None => forth,
    }
}
