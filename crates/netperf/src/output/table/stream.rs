//! The tables of TCP_STREAM, TCP_MAERTS, TCP_SENDFILE, SCTP_STREAM and SCTP_STREAM_MANY.

use std::fmt::{self, Formatter};

use super::{TablePart, brand, has_extra, headers, reported_cpu};
use crate::options::Test;
use crate::output::figures::Figures;
use crate::output::number::format_general;

pub(super) fn write(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    let brand = brand(figures.settings);
    match TablePart::for_settings(figures.settings) {
        TablePart::Throughput => writeln!(out, "{:>7.2} {brand}", figures.throughput)?,
        TablePart::Demand => {
            let end = reported_cpu(figures);
            writeln!(out, "{:>6.3} {} {brand}", end.demand, end.method)?;
        }
        TablePart::WithoutCpu => write_without_cpu(out, figures)?,
        TablePart::WithCpu => write_with_cpu(out, figures)?,
        TablePart::Nothing => {}
    }
    if !has_extra(figures.settings) {
        return Ok(());
    }
    if is_maerts(figures) {
        write_maerts_extra(out, figures)?;
    } else {
        write_extra(out, figures)?;
    }
    writeln!(
        out,
        "\nMaximum\nSegment\nSize (bytes)\n{:>6}",
        figures.max_segment()
    )
}

fn write_without_cpu(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    if figures.settings.print.headers {
        let unit = figures.unit.name();
        out.write_str(&headers::stream("Socket", "bytes ", unit))?;
    }
    let (receive_buffer, send_buffer) = if is_maerts(figures) {
        (
            figures.receive_buffer(),
            figures.peer_response().send_buffer.into(),
        )
    } else {
        (
            figures.peer_response().receive_buffer.into(),
            figures.send_buffer(),
        )
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
fn write_with_cpu(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    if figures.settings.print.headers {
        let (unit, local, remote) =
            (figures.unit.name(), figures.local.method, figures.remote.method);
        let (local_role, remote_role) = if is_maerts(figures) { ("Recv", "Send") } else { ("Send", "Recv") };
        writeln!(out, "Recv   Send    Send                          Utilization       Service Demand")?;
        writeln!(out, "Socket Socket  Message  Elapsed              {local_role}     {remote_role}     {local_role}    {remote_role}")?;
        writeln!(out, "Size   Size    Size     Time     Throughput  local    remote   local   remote")?;
        writeln!(out, "bytes  bytes   bytes    secs.    {unit:<8.8}/s  % {local}      % {remote}      us/KB   us/KB\n")?;
    }
    writeln!(
        out,
        "{:>6} {:>6} {:>6}    {:<6.2}     {:>7.2}   {:<6.2}   {:<6.2}   {:<6.3}  {:<6.3} {}",
        // TCP_MAERTS has the same order, although its table without CPU time swaps the hosts.
        figures.peer_response().receive_buffer,
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

fn write_extra(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    let sent = figures.counts().sent.0;
    let sent = match figures.settings.test {
        Test::TcpSendfile => format_general(sent as f64, 4),
        _ => sent.to_string(),
    };
    out.write_str(&headers::extra("Send", "Recv"))?;
    writeln!(
        out,
        "{:>5}   {:>5}  {:>5}   {:>5} {sent:>6}  {:>6.2}    {:>6}   {:>6.2} {:>6}",
        figures.local_plan().send.alignment,
        figures.requested_or_unknown(figures.remote_plan().receive.alignment),
        figures.local_plan().send.offset,
        figures.requested_or_unknown(figures.remote_plan().receive.offset),
        figures.bytes_per_send(),
        figures.counts().send_calls,
        figures.sent_bytes_per_remote_receive(),
        figures.peer_counts().receive_calls,
    )
}

fn write_maerts_extra(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    out.write_str(&headers::extra("Recv", "Send"))?;
    writeln!(
        out,
        "{:>5}   {:>5}  {:>5}   {:>5} {:>6}  {:>6.2}    {:>6}   {:>6.2} {:>6}",
        figures.local_plan().receive.alignment,
        // As in the stock tool, this is the receive alignment, although the header is "Send".
        figures.requested_or_unknown(figures.remote_plan().receive.alignment),
        figures.local_plan().receive.offset,
        figures.requested_or_unknown(figures.remote_plan().receive.offset),
        figures.counts().received.0,
        figures.bytes_per_receive(),
        figures.counts().receive_calls,
        figures.bytes_per_remote_send(),
        figures.peer_counts().send_calls,
    )
}

fn is_maerts(figures: &Figures<'_>) -> bool {
    figures.settings.test == Test::TcpMaerts
}

/// Returns the bytes per send call of the sender.
fn send_size(figures: &Figures<'_>) -> i64 {
    if is_maerts(figures) {
        figures.peer_response().send_size.into()
    } else {
        figures.send_size()
    }
}
