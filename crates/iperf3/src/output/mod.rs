//! Formats results as text and as JSON documents.

mod figures;
pub(crate) mod json;
pub(crate) mod text;

use std::time::SystemTime;

use sys::Address;

use crate::result::TestRun;
use crate::wire::{Direction, Protocol};

/// Formats a date as `Fri, 20 Nov 2026 21:28:14 GMT`.
fn gmt_date(time: SystemTime) -> String {
    sys::clock::utc_time(c"%a, %d %b %Y %H:%M:%S GMT", time)
}

/// Splits an address into host and port. Shows an IPv4-mapped IPv6 address as IPv4.
pub(crate) fn host_and_port(address: &Address) -> (String, u32) {
    let ip = address.ip().map(|ip| ip.to_canonical().to_string());
    (ip.unwrap_or_else(|| address.to_string()), address.port())
}

/// Replaces control and format characters other than tabs in a peer's text by `?`.
pub(crate) fn replace_control_characters(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' => c,
            c if codec::needs_escape(c) => '?',
            c => c,
        })
        .collect()
}

/// Returns, for each direction in the order of the streams, whether this end sends.
fn directions(run: &TestRun) -> &'static [bool] {
    match (run.parameters.direction, run.is_server) {
        (Direction::Forward, false) | (Direction::Reverse, true) => &[true],
        (Direction::Forward, true) | (Direction::Reverse, false) => &[false],
        (Direction::Both, false) => &[true, false],
        (Direction::Both, true) => &[false, true],
    }
}

/// Returns the congestion control algorithms of a direction's sender and receiver, if known.
///
/// `sends` is whether this end sends in that direction.
fn congestion_names(run: &TestRun, sends: bool) -> [(&'static str, Option<&str>); 2] {
    let local = run
        .congestion
        .as_deref()
        .filter(|_| run.parameters.protocol == Protocol::Tcp);
    let results = run.results.as_ref().filter(|_| !run.is_server);
    let remote = results.and_then(|results| results.congestion.as_deref());
    let (sender, receiver) = if sends {
        (local, remote)
    } else {
        (remote, local)
    };
    [("snd", sender), ("rcv", receiver)]
}
