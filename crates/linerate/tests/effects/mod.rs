//! Options whose effect is on the running system, seen there: in the calls that a process makes, in
//! what the kernel says of its sockets and threads, in what a peer receives. Both ends are ours.

mod batches;
mod binding;
mod buffers;
mod calls;
mod iperfs;
mod pacing;
mod sockets;
mod trace;
mod words;

use std::process::Command;
use std::time::Duration;

use testkit::{ProcessOutput, Server, TestCase, TestProcess, linerate_with_args, with_prefix};

pub(crate) fn test_cases() -> Vec<TestCase> {
    [
        ("batches", batches::test_cases()),
        ("binding", binding::test_cases()),
        ("buffers", buffers::test_cases()),
        ("calls", calls::test_cases()),
        ("iperfs", iperfs::test_cases()),
        ("pacing", pacing::test_cases()),
        ("sockets", sockets::test_cases()),
        ("words", words::test_cases()),
    ]
    .into_iter()
    .flat_map(|(part, test_cases)| with_prefix(part, test_cases))
    .collect()
}

/// No client here runs for longer, on a busy machine either.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts a client of `server` with a line of options.
fn start(server: &Server, options: &str) -> TestProcess {
    let line = format!("netperf -H 127.0.0.1 -p {} {options}", server.port);
    TestProcess::start(&mut linerate_with_args(&line))
}

/// What became of a client of `server` with a line of options, which is to succeed.
#[track_caller]
fn finish(server: &Server, options: &str) -> ProcessOutput {
    let finished = start(server, options).finish(PATIENCE);
    finished.assert_success();
    finished
}

/// Runs `ip` in the network namespace of this thread.
#[track_caller]
fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).output();
    let done = done.expect("ip can be run");
    assert!(done.status.success(), "ip {arguments}: {done:?}");
}

/// The values that `-k` printed, in the order of the names.
#[track_caller]
fn values<const N: usize>(finished: &ProcessOutput, names: [&str; N]) -> [String; N] {
    names.map(|name| {
        let line = finished
            .stdout
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {name} in {finished:#?}"))
            .to_owned()
    })
}
