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

use std::any::Any;
use std::process::Command;
use std::time::Duration;

use testkit::{
    ProcessUsage, Requirement, Server, TestCase, linerate_with_args, stock_with_args, with_prefix,
};

/// A command of one make's program, from a line of options.
type Make = fn(&str) -> Command;

/// What keeps a peer's connections open.
type Held = Vec<Box<dyn Any + Send>>;

/// What needs no deadline: a connection has ended.
const AT_ONCE: Duration = Duration::from_secs(5);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let iperf = [
        bounds2::test_cases(),
        lost2::test_cases(),
        reports2::test_cases(),
    ]
    .into_iter()
    .flatten();
    let iperf = with_prefix("iperf", iperf.collect());
    let iperf3 = [
        false3::test_cases(),
        lost3::test_cases(),
        many::test_cases(),
    ]
    .into_iter()
    .flatten();
    let iperf3 = with_prefix("iperf3", iperf3.collect());
    let both = [
        link::test_cases(),
        strangers::test_cases(),
        consumers::test_cases(),
        words::test_cases(),
    ]
    .into_iter()
    .flatten();
    let both = both.chain(with_prefix("played", played::test_cases()));
    iperf.chain(iperf3).chain(both).collect()
}

fn ours3(line: &str) -> Command {
    linerate_with_args(&format!("iperf3 {line}"))
}

fn stock3(line: &str) -> Command {
    stock_with_args("iperf3", line)
}

fn stock3_missing() -> Option<String> {
    Requirement::Program("iperf3").missing_reason()
}

fn ours2(line: &str) -> Command {
    linerate_with_args(&format!("iperf {line}"))
}

fn stock2(line: &str) -> Command {
    stock_with_args("iperf", line)
}

fn stock2_missing() -> Option<String> {
    Requirement::Program("iperf").missing_reason()
}

/// A server of one of the makes on a free port, with these options.
#[track_caller]
fn server_of(make: Make, options: &str) -> Server {
    let server = Server::try_start_with(|port| make(&format!("-s -p {port} {options}")));
    server.unwrap_or_else(|error| panic!("{error}"))
}

/// A server of ours that has served clients of these kinds, and its usage at rest.
#[track_caller]
fn server_at_rest(make: Make, options: &str, kinds: &[&str]) -> (Server, ProcessUsage) {
    let server = server_of(make, options);
    serves(&server, make, kinds);
    let rest = server.settled_usage();
    (server, rest)
}

/// A client of each kind is served.
#[track_caller]
fn serves(server: &Server, make: Make, kinds: &[&str]) {
    for kind in kinds {
        let line = format!("-c 127.0.0.1 -p {} {kind}", server.port);
        let client = testkit::run(make(&line), AT_ONCE).expect("it ends");
        assert_eq!(client.code, Some(0), "{client:#?}; {}", server.log());
    }
}
