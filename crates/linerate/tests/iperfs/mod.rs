//! Both iperfs among peers that die, stop, lie, or are many; and what others read in their output.

mod bounds2;
mod consumers;
mod false3;
mod link;
mod lost2;
mod lost3;
mod many;
mod played;
mod reports2;
mod script;
mod strangers;
mod words;

use std::process::Command;

use std::fs;
use std::time::Duration;

use testkit::{Need, Process, Trial, eventually, free_port, linerate, stock, within};

pub(crate) fn trials() -> Vec<Trial> {
    let iperf = [bounds2::trials(), lost2::trials(), reports2::trials()]
        .into_iter()
        .flatten();
    let iperf = within("iperf", iperf.collect());
    let iperf3 = [false3::trials(), lost3::trials(), many::trials()]
        .into_iter()
        .flatten();
    let iperf3 = within("iperf3", iperf3.collect());
    let both = [
        link::trials(),
        strangers::trials(),
        consumers::trials(),
        words::trials(),
    ]
    .into_iter()
    .flatten();
    let both = both.chain(within("played", played::trials()));
    iperf.chain(iperf3).chain(both).collect()
}

fn ours3(line: &str) -> Command {
    linerate(&format!("iperf3 {line}"))
}

fn stock3(line: &str) -> Command {
    stock("iperf3", line)
}

fn stock3_missing() -> Option<String> {
    Need::Program("iperf3").missing()
}

fn ours2(line: &str) -> Command {
    linerate(&format!("iperf {line}"))
}

fn stock2(line: &str) -> Command {
    stock("iperf", line)
}

fn stock2_missing() -> Option<String> {
    Need::Program("iperf").missing()
}

/// A server of datagrams from the moment that it takes them, and its port.
fn datagram_server(make: fn(&str) -> Command, options: &str) -> (Process, u16) {
    datagram_server_of(make(&format!("-s {options}")))
}

/// The same, from its command without a port.
fn datagram_server_of(mut command: Command) -> (Process, u16) {
    let port = free_port();
    let server = Process::start(command.args(["-p", &port.to_string()]));
    let wanted = format!(":{port:04X} ");
    let has = |table: &str| fs::read_to_string(table).is_ok_and(|table| table.contains(&wanted));
    let takes = || has("/proc/thread-self/net/udp") || has("/proc/thread-self/net/udp6");
    let began = eventually(Duration::from_secs(10), takes);
    assert!(began, "{}", server.stderr());
    (server, port)
}
