//! Results as text and as documents.

mod figures;
pub(crate) mod json;
pub(crate) mod text;

use std::time::SystemTime;

use sys::Address;

use crate::result::TestRun;
use crate::wire::Protocol;

/// A date as `Fri, 20 Nov 2026 21:28:14 GMT`.
fn gmt(time: SystemTime) -> String {
    sys::clock::utc(c"%a, %d %b %Y %H:%M:%S GMT", time)
}

/// An address without its port, and the port. An IPv4 address in IPv6's form is shown as what it is.
pub(crate) fn host_and_port(address: &Address) -> (String, u32) {
    let ip = address.ip().map(|ip| ip.to_canonical().to_string());
    (ip.unwrap_or_else(|| address.to_string()), address.port())
}

/// A peer's text without control characters, but for tabs.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() && c != '\t' { '?' } else { c })
        .collect()
}

/// The congestion control algorithms of the sender and of the receiver of a direction, as far as they are known.
fn congestion(run: &TestRun, sends: bool) -> [(&'static str, Option<&str>); 2] {
    let here = run
        .congestion
        .as_deref()
        .filter(|_| run.parameters.protocol == Protocol::Tcp);
    let results = run.results.as_ref().filter(|_| !run.is_server);
    let there = results.and_then(|results| results.congestion.as_deref());
    let (sender, receiver) = if sends { (here, there) } else { (there, here) };
    [("snd", sender), ("rcv", receiver)]
}
