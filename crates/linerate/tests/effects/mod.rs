//! Options, tested by their effect on the running system: system calls, the kernel's state of
//! sockets and threads, and received data. Both ends are linerate.

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

/// Time limit of each client. No client reaches it, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Starts a netperf client of `server` with these options.
fn start_client(server: &Server, options: &str) -> TestProcess {
    let line = format!("netperf -H 127.0.0.1 -p {} {options}", server.port);
    TestProcess::start(&mut linerate_with_args(&line))
}

/// Runs a netperf client of `server` with these options. The client must succeed.
#[track_caller]
fn run_client(server: &Server, options: &str) -> ProcessOutput {
    let output = start_client(server, options).finish(TIMEOUT);
    output.assert_success();
    output
}

/// Runs `ip` in the network namespace of this thread.
#[track_caller]
fn run_ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.expect("ip is installed");
    assert!(output.status.success(), "ip {arguments}: {output:?}");
}

/// Returns the values of these selectors of `-k`.
#[track_caller]
fn selector_values<const N: usize>(output: &ProcessOutput, names: [&str; N]) -> [String; N] {
    names.map(|name| {
        let line = output
            .stdout
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {name} in {output:#?}"))
            .to_owned()
    })
}
