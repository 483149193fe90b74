//! iperf 2 and iperf3 with peers that disconnect, stop, send invalid data, or are numerous. Also
//! programs that parse their output.

mod consumers;
mod invalid_options;
mod iperf2_client_reports;
mod iperf2_extreme_headers;
mod iperf2_impossible_figures;
mod iperf2_lost_clients;
mod iperf3_fifty_clients;
mod iperf3_invalid_data;
mod iperf3_known_faults;
mod iperf3_limits;
mod iperf3_lost_peers;
mod iperf3_parameters;
mod iperf3_script;
mod iperf3_udp_streams;
mod link;
mod numbers;
mod replays;
mod strangers;

use std::any::Any;
use std::process::Command;
use std::time::Duration;

use testkit::{
    ProcessUsage, Requirement, Server, TestCase, linerate_with_args, stock_with_args, with_prefix,
};

/// Builds a command of linerate or of a stock program from a line of arguments.
type CommandBuilder = fn(&str) -> Command;

/// Open connections and sockets of a scripted peer.
type OpenSockets = Vec<Box<dyn Any + Send>>;

/// Timeout for events without a deadline, such as a closed connection.
const SHORT_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let iperf = [
        iperf2_extreme_headers::test_cases(),
        iperf2_lost_clients::test_cases(),
        iperf2_impossible_figures::test_cases(),
        iperf2_client_reports::test_cases(),
    ]
    .into_iter()
    .flatten();
    let iperf = with_prefix("iperf", iperf.collect());
    let iperf3 = [
        iperf3_invalid_data::test_cases(),
        iperf3_known_faults::test_cases(),
        iperf3_limits::test_cases(),
        iperf3_lost_peers::test_cases(),
        iperf3_parameters::test_cases(),
        iperf3_udp_streams::test_cases(),
        iperf3_fifty_clients::test_cases(),
    ]
    .into_iter()
    .flatten();
    let iperf3 = with_prefix("iperf3", iperf3.collect());
    let both = [
        link::test_cases(),
        strangers::test_cases(),
        consumers::test_cases(),
        invalid_options::test_cases(),
        numbers::test_cases(),
    ]
    .into_iter()
    .flatten();
    let both = both.chain(with_prefix("replays", replays::test_cases()));
    iperf.chain(iperf3).chain(both).collect()
}

fn our_iperf3(line: &str) -> Command {
    linerate_with_args(&format!("iperf3 {line}"))
}

fn stock_iperf3(line: &str) -> Command {
    stock_with_args("iperf3", line)
}

fn missing_iperf3_reason() -> Option<String> {
    Requirement::Program("iperf3").missing_reason()
}

fn our_iperf2(line: &str) -> Command {
    linerate_with_args(&format!("iperf {line}"))
}

fn stock_iperf2(line: &str) -> Command {
    stock_with_args("iperf", line)
}

fn missing_iperf2_reason() -> Option<String> {
    Requirement::Program("iperf").missing_reason()
}

/// Starts a server on a free port.
#[track_caller]
fn start_server(command_with: CommandBuilder, options: &str) -> Server {
    let server = Server::try_start_with(|port| command_with(&format!("-s -p {port} {options}")));
    server.unwrap_or_else(|error| panic!("{error}"))
}

/// Starts a server and runs a client with each of these options. Returns the server and its idle
/// usage.
#[track_caller]
fn start_idle_server(
    command_with: CommandBuilder,
    options: &str,
    clients: &[&str],
) -> (Server, ProcessUsage) {
    let server = start_server(command_with, options);
    assert_serves(&server, command_with, clients);
    let idle_usage = server.settled_usage();
    (server, idle_usage)
}

/// Fails the test unless a client with each of these options succeeds.
#[track_caller]
fn assert_serves(server: &Server, command_with: CommandBuilder, clients: &[&str]) {
    for options in clients {
        let line = format!("-c 127.0.0.1 -p {} {options}", server.port);
        let client = testkit::run(command_with(&line), SHORT_TIMEOUT).expect("the client ends");
        assert_eq!(client.code, Some(0), "{client:#?}; {}", server.log());
    }
}
