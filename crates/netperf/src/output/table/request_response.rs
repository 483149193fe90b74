//! TCP_RR, UDP_RR, TCP_CRR and TCP_CC; SCTP_RR and SCTP_RR_MANY have TCP_RR's lines. Those of the
//! request/response tests with early headers are TCP_CRR's.

use std::fmt::{self, Formatter};

use super::early::has_early_headers;
use super::{Part, brand, charged, has_extra, headers};
use crate::options::{Test, Unit};
use crate::output::figures::Figures;

pub(super) fn write(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    match Part::of(figures.settings) {
        Part::Throughput => writeln!(out, "{:>7.2}{}", rate(figures), ending(figures))?,
        Part::Demand if connects(figures) => writeln!(out, "{:>6.3}", charged(figures).demand)?,
        Part::Demand => {
            let end = charged(figures);
            writeln!(out, "{:>6.3} {}{}", end.demand, end.method, ending(figures))?;
        }
        Part::Plain => plain(out, figures)?,
        Part::Cpu => cpu(out, figures)?,
        Part::Nothing => {}
    }
    match figures.settings.test {
        _ if !has_extra(figures.settings) => Ok(()),
        Test::UdpRr => Ok(()),
        _ if is_like_tcp_rr(figures) => latency_extra(out, figures),
        _ => connection_extra(out, figures),
    }
}

pub(super) fn plain(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    if has_late_headers(figures) {
        plain_headers(out, figures)?;
    }
    writeln!(
        out,
        "{:<6} {:<6} {:<6}   {:<6}  {:<6.2}   {:>7.2}  {:<1}",
        figures.send_room(),
        figures.receive_room(),
        figures.request_size(),
        figures.response_size(),
        figures.elapsed,
        rate(figures),
        ending(figures),
    )?;
    remote_buffers(out, figures)
}

#[rustfmt::skip]
fn plain_headers(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    if in_transactions(figures) {
        return out.write_str(&headers::transactions("Socket", ["bytes ", "Bytes "]));
    }
    let unit = figures.unit.name();
    write!(out, "\
Local /Remote
Socket Size   Request  Resp.   Elapsed  
Send   Recv   Size     Size    Time     Throughput 
bytes  Bytes  bytes    bytes   secs.    {unit}/sec   

")
}

pub(super) fn cpu(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    if has_late_headers(figures) {
        cpu_headers(out, figures)?;
    }
    writeln!(
        out,
        "{:<6} {:<6} {:<6}  {:<6} {:<6.2}  {:<6.2}  {}{:<6.2} {:<6.2} {:<6.3}  {:<6.3}{}",
        figures.send_room(),
        figures.receive_room(),
        figures.request_size(),
        figures.response_size(),
        figures.elapsed,
        rate(figures),
        if is_like_tcp_rr(figures) { "" } else { " " },
        figures.local.busy,
        figures.remote.busy,
        figures.local.demand,
        figures.remote.demand,
        ending(figures),
    )?;
    remote_buffers(out, figures)
}

#[rustfmt::skip]
fn cpu_headers(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    let (local, remote) = (figures.local.method, figures.remote.method);
    writeln!(out, "Local /Remote")?;
    if in_transactions(figures) {
        writeln!(out, "Socket Size   Request Resp.  Elapsed Trans.   CPU    CPU    S.dem   S.dem")?;
        writeln!(out, "Send   Recv   Size    Size   Time    Rate     local  remote local   remote")?;
        if connects(figures) {
            writeln!(out, "bytes  bytes  bytes   bytes  secs.   per sec  %      %      us/Tr   us/Tr\n")
        } else {
            writeln!(out, "bytes  bytes  bytes   bytes  secs.   per sec  % {local}    % {remote}    us/Tr   us/Tr\n")
        }
    } else {
        let unit = figures.unit.name();
        writeln!(out, "Socket Size   Request Resp.  Elapsed Tput     CPU    CPU    S.dem   S.dem")?;
        writeln!(out, "Send   Recv   Size    Size   Time    {unit:<8.8} local  remote local   remote")?;
        writeln!(out, "bytes  bytes  bytes   bytes  secs.   per sec  % {local}    % {remote}    us/KB   us/KB\n")
    }
}

fn remote_buffers(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    let told = figures.peer();
    writeln!(out, "{:<6} {:<6}", told.send_buffer, told.receive_buffer)
}

/// TCP_RR's: the only one without an empty line before it.
#[rustfmt::skip]
fn latency_headers(unit: &str) -> String {
    format!("\
Alignment      Offset         RoundTrip  Trans    Throughput
Local  Remote  Local  Remote  Latency    Rate     {unit:<8.8}/s
Send   Recv    Send   Recv    usec/Tran  per sec  Outbound   Inbound
")
}

fn latency_extra(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    out.write_str(&latency_headers(figures.rate_unit().name()))?;
    writeln!(
        out,
        "{:>5}  {:>5}   {:>5}  {:>5}   {:<6.3}   {:<6.3} {:<6.3}    {:<6.3}",
        figures.here().send.alignment,
        // An offset under "Alignment", as in the stock tool.
        figures.asked_there(figures.there().receive.offset),
        figures.here().send.offset,
        figures.asked_there(figures.there().receive.offset),
        figures.round_trip_us,
        figures.transaction_rate,
        figures.rate_of(figures.counts().sent.0),
        figures.rate_of(figures.counts().received.0),
    )
}

pub(super) fn connection_extra(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    let there = &figures.there().receive;
    out.write_str("\nAlignment      Offset\nLocal  Remote  Local  Remote\n")?;
    writeln!(out, "Send   Recv    Send   Recv")?;
    writeln!(
        out,
        "{:>5}  {:>5}   {:>5}  {:>5}",
        figures.here().send.alignment,
        // TCP_CC, like TCP_RR, shows the offset twice.
        figures.asked_there(if is_connect_close(figures) {
            there.offset
        } else {
            there.alignment
        }),
        figures.here().send.offset,
        figures.asked_there(there.offset),
    )
}

fn is_connect_close(figures: &Figures<'_>) -> bool {
    figures.settings.test == Test::TcpCc
}

/// Whether the lines are those of the connection tests.
fn connects(figures: &Figures<'_>) -> bool {
    is_connect_close(figures)
        || figures.settings.test == Test::TcpCrr
        || has_early_headers(figures.settings.test)
}

/// `-B`, which connection tests do not print.
fn ending(figures: &Figures<'_>) -> String {
    if connects(figures) {
        return String::new();
    }
    format!(" {}", brand(figures.settings))
}

fn is_like_tcp_rr(figures: &Figures<'_>) -> bool {
    matches!(
        figures.settings.test,
        Test::TcpRr | Test::SctpRr | Test::SctpRrMany
    )
}

fn has_late_headers(figures: &Figures<'_>) -> bool {
    figures.settings.print.headers && !has_early_headers(figures.settings.test)
}

/// Whether the headers speak of transactions, which those of connection tests do in any unit.
fn in_transactions(figures: &Figures<'_>) -> bool {
    figures.unit == Unit::TRANSACTIONS || connects(figures)
}

/// Connect/close has no unit but connections a second.
fn rate(figures: &Figures<'_>) -> f64 {
    if is_connect_close(figures) {
        figures.transaction_rate
    } else {
        figures.throughput
    }
}
