//! The tables of TCP_RR, UDP_RR, TCP_CRR and TCP_CC. SCTP_RR and SCTP_RR_MANY have the lines of
//! TCP_RR. Request/response tests that print their headers before the test (Unix domain, DLPI) have
//! the lines of TCP_CRR.

use std::fmt::{self, Formatter};

use super::headers_first::has_headers_before_test;
use super::{TablePart, brand, has_extra, headers, reported_cpu};
use crate::options::{Test, ThroughputUnit};
use crate::output::figures::Figures;

pub(super) fn write(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    match TablePart::for_settings(figures.settings) {
        TablePart::Throughput => writeln!(out, "{:>7.2}{}", rate(figures), brand_suffix(figures))?,
        TablePart::Demand if has_connection_layout(figures) => {
            writeln!(out, "{:>6.3}", reported_cpu(figures).demand)?;
        }
        TablePart::Demand => {
            let end = reported_cpu(figures);
            writeln!(
                out,
                "{:>6.3} {}{}",
                end.demand,
                end.method,
                brand_suffix(figures)
            )?;
        }
        TablePart::WithoutCpu => write_without_cpu(out, figures)?,
        TablePart::WithCpu => write_with_cpu(out, figures)?,
        TablePart::Nothing => {}
    }
    match figures.settings.test {
        _ if !has_extra(figures.settings) => Ok(()),
        Test::UdpRr => Ok(()),
        _ if is_like_tcp_rr(figures) => write_latency_extra(out, figures),
        _ => write_connection_extra(out, figures),
    }
}

pub(super) fn write_without_cpu(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    if has_headers_after_test(figures) {
        write_headers_without_cpu(out, figures)?;
    }
    writeln!(
        out,
        "{:<6} {:<6} {:<6}   {:<6}  {:<6.2}   {:>7.2}  {:<1}",
        figures.send_buffer_or_window(),
        figures.receive_buffer_or_window(),
        figures.request_size(),
        figures.response_size(),
        figures.elapsed,
        rate(figures),
        brand_suffix(figures),
    )?;
    write_remote_buffers(out, figures)
}

#[rustfmt::skip]
fn write_headers_without_cpu(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    if has_transaction_headers(figures) {
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

pub(super) fn write_with_cpu(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    if has_headers_after_test(figures) {
        write_headers_with_cpu(out, figures)?;
    }
    writeln!(
        out,
        "{:<6} {:<6} {:<6}  {:<6} {:<6.2}  {:<6.2}  {}{:<6.2} {:<6.2} {:<6.3}  {:<6.3}{}",
        figures.send_buffer_or_window(),
        figures.receive_buffer_or_window(),
        figures.request_size(),
        figures.response_size(),
        figures.elapsed,
        rate(figures),
        if is_like_tcp_rr(figures) { "" } else { " " },
        figures.local.busy,
        figures.remote.busy,
        figures.local.demand,
        figures.remote.demand,
        brand_suffix(figures),
    )?;
    write_remote_buffers(out, figures)
}

#[rustfmt::skip]
fn write_headers_with_cpu(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    let (local, remote) = (figures.local.method, figures.remote.method);
    writeln!(out, "Local /Remote")?;
    if has_transaction_headers(figures) {
        writeln!(out, "Socket Size   Request Resp.  Elapsed Trans.   CPU    CPU    S.dem   S.dem")?;
        writeln!(out, "Send   Recv   Size    Size   Time    Rate     local  remote local   remote")?;
        if has_connection_layout(figures) {
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

fn write_remote_buffers(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    let response = figures.peer_response();
    writeln!(
        out,
        "{:<6} {:<6}",
        response.send_buffer, response.receive_buffer
    )
}

/// Formats the headers of TCP_RR's extra block, the only one without a preceding empty line.
#[rustfmt::skip]
fn latency_headers(unit: &str) -> String {
    format!("\
Alignment      Offset         RoundTrip  Trans    Throughput
Local  Remote  Local  Remote  Latency    Rate     {unit:<8.8}/s
Send   Recv    Send   Recv    usec/Tran  per sec  Outbound   Inbound
")
}

fn write_latency_extra(out: &mut Formatter<'_>, figures: &Figures<'_>) -> fmt::Result {
    out.write_str(&latency_headers(figures.rate_unit().name()))?;
    writeln!(
        out,
        "{:>5}  {:>5}   {:>5}  {:>5}   {:<6.3}   {:<6.3} {:<6.3}    {:<6.3}",
        figures.local_plan().send.alignment,
        // As in the stock tool, this is the offset, although the header is "Alignment".
        figures.requested_or_unknown(figures.remote_plan().receive.offset),
        figures.local_plan().send.offset,
        figures.requested_or_unknown(figures.remote_plan().receive.offset),
        figures.round_trip_us,
        figures.transaction_rate,
        figures.rate_of(figures.counts().sent.0),
        figures.rate_of(figures.counts().received.0),
    )
}

pub(super) fn write_connection_extra(
    out: &mut Formatter<'_>,
    figures: &Figures<'_>,
) -> fmt::Result {
    let remote = &figures.remote_plan().receive;
    out.write_str("\nAlignment      Offset\nLocal  Remote  Local  Remote\n")?;
    writeln!(out, "Send   Recv    Send   Recv")?;
    writeln!(
        out,
        "{:>5}  {:>5}   {:>5}  {:>5}",
        figures.local_plan().send.alignment,
        // TCP_CC, like TCP_RR, prints the offset in place of the alignment.
        figures.requested_or_unknown(if is_connect_close(figures) {
            remote.offset
        } else {
            remote.alignment
        }),
        figures.local_plan().send.offset,
        figures.requested_or_unknown(remote.offset),
    )
}

fn is_connect_close(figures: &Figures<'_>) -> bool {
    figures.settings.test == Test::TcpCc
}

/// Whether the lines have the layout of the connection tests.
fn has_connection_layout(figures: &Figures<'_>) -> bool {
    is_connect_close(figures)
        || figures.settings.test == Test::TcpCrr
        || has_headers_before_test(figures.settings.test)
}

/// Returns the brand (`-B`) after a blank. Connection tests do not print it.
fn brand_suffix(figures: &Figures<'_>) -> String {
    if has_connection_layout(figures) {
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

fn has_headers_after_test(figures: &Figures<'_>) -> bool {
    figures.settings.print.headers && !has_headers_before_test(figures.settings.test)
}

/// Whether the headers are those of a transaction rate. Connection tests always have these,
/// whatever unit `-f` selects.
fn has_transaction_headers(figures: &Figures<'_>) -> bool {
    figures.unit == ThroughputUnit::TRANSACTIONS || has_connection_layout(figures)
}

/// Returns the throughput. The unit of TCP_CC is always connections per second.
fn rate(figures: &Figures<'_>) -> f64 {
    if is_connect_close(figures) {
        figures.transaction_rate
    } else {
        figures.throughput
    }
}
