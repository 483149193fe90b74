//! TCP_STREAM, TCP_MAERTS and TCP_SENDFILE; SCTP_STREAM and SCTP_STREAM_MANY.

use std::fmt::{self, Formatter};

use super::{Part, brand, charged, has_extra, headers};
use crate::options::Test;
use crate::output::figures::Figures;
use crate::output::number::general;

pub(super) fn write(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    let brand = brand(figures.settings);
    match Part::of(figures.settings) {
        Part::Throughput => writeln!(out, "{:>7.2} {brand}", figures.throughput)?,
        Part::Demand => {
            let end = charged(figures);
            writeln!(out, "{:>6.3} {} {brand}", end.demand, end.method)?;
        }
        Part::Plain => plain(out, figures)?,
        Part::Cpu => cpu(out, figures)?,
        Part::Nothing => {}
    }
    if !has_extra(figures.settings) {
        return Ok(());
    }
    if is_maerts(figures) {
        maerts_extra(out, figures)?;
    } else {
        extra(out, figures)?;
    }
    writeln!(
        out,
        "\nMaximum\nSegment\nSize (bytes)\n{:>6}",
        figures.max_segment()
    )
}

fn plain(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    if figures.settings.print.headers {
        let unit = figures.unit.name();
        out.write_str(&headers::stream("Socket", "bytes ", unit))?;
    }
    let (receive_buffer, send_buffer) = if is_maerts(figures) {
        (figures.receive_buffer(), figures.peer().send_buffer.into())
    } else {
        (figures.peer().receive_buffer.into(), figures.send_buffer())
    };
    writeln!(
        out,
        "{receive_buffer:>6} {send_buffer:>6} {:>6}    {:<6.2}   {:>7.2}   {}",
        send_size(figures),
        figures.elapsed,
        figures.throughput,
        brand(figures.settings),
    )
}

#[rustfmt::skip]
fn cpu(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    if figures.settings.print.headers {
        let (unit, local, remote) =
            (figures.unit.name(), figures.local.method, figures.remote.method);
        let (here, there) = if is_maerts(figures) { ("Recv", "Send") } else { ("Send", "Recv") };
        writeln!(out, "Recv   Send    Send                          Utilization       Service Demand")?;
        writeln!(out, "Socket Socket  Message  Elapsed              {here}     {there}     {here}    {there}")?;
        writeln!(out, "Size   Size    Size     Time     Throughput  local    remote   local   remote")?;
        writeln!(out, "bytes  bytes   bytes    secs.    {unit:<8.8}/s  % {local}      % {remote}      us/KB   us/KB\n")?;
    }
    writeln!(
        out,
        "{:>6} {:>6} {:>6}    {:<6.2}     {:>7.2}   {:<6.2}   {:<6.2}   {:<6.3}  {:<6.3} {}",
        // In TCP_MAERTS, too, which the stock tool's plain table turns round.
        figures.peer().receive_buffer,
        figures.send_buffer(),
        send_size(figures),
        figures.elapsed,
        figures.throughput,
        figures.local.busy,
        figures.remote.busy,
        figures.local.demand,
        figures.remote.demand,
        brand(figures.settings),
    )
}

fn extra(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    let sent = figures.counts().sent.0;
    let sent = match figures.settings.test {
        Test::TcpSendfile => general(sent as f64, 4),
        _ => sent.to_string(),
    };
    out.write_str(&headers::extra("Send", "Recv"))?;
    writeln!(
        out,
        "{:>5}   {:>5}  {:>5}   {:>5} {sent:>6}  {:>6.2}    {:>6}   {:>6.2} {:>6}",
        figures.here().send.alignment,
        figures.asked_there(figures.there().receive.alignment),
        figures.here().send.offset,
        figures.asked_there(figures.there().receive.offset),
        figures.bytes_a_send(),
        figures.counts().send_calls,
        figures.sent_a_remote_receive(),
        figures.peer_counts().receive_calls,
    )
}

fn maerts_extra(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    out.write_str(&headers::extra("Recv", "Send"))?;
    writeln!(
        out,
        "{:>5}   {:>5}  {:>5}   {:>5} {:>6}  {:>6.2}    {:>6}   {:>6.2} {:>6}",
        figures.here().receive.alignment,
        // Under "Send", as in the stock tool.
        figures.asked_there(figures.there().receive.alignment),
        figures.here().receive.offset,
        figures.asked_there(figures.there().receive.offset),
        figures.counts().received.0,
        figures.bytes_a_receive(),
        figures.counts().receive_calls,
        figures.bytes_a_remote_send(),
        figures.peer_counts().send_calls,
    )
}

fn is_maerts(figures: &Figures<'_>) -> bool {
    figures.settings.test == Test::TcpMaerts
}

/// The sender's.
fn send_size(figures: &Figures<'_>) -> i64 {
    if is_maerts(figures) {
        figures.peer().send_size.into()
    } else {
        figures.send_size()
    }
}
