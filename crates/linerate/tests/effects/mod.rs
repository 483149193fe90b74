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

use testkit::{Finished, Process, Server, Trial, linerate, within};

pub(crate) fn trials() -> Vec<Trial> {
    [
        ("batches", batches::trials()),
        ("binding", binding::trials()),
        ("buffers", buffers::trials()),
        ("calls", calls::trials()),
        ("iperfs", iperfs::trials()),
        ("pacing", pacing::trials()),
        ("sockets", sockets::trials()),
        ("words", words::trials()),
    ]
    .into_iter()
    .flat_map(|(part, trials)| within(part, trials))
    .collect()
}

/// No client here runs for longer, on a busy machine either.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts a client of `server` with a line of options.
fn start(server: &Server, options: &str) -> Process {
    let line = format!("netperf -H 127.0.0.1 -p {} {options}", server.port);
    Process::start(&mut linerate(&line))
}

/// What became of a client of `server` with a line of options, which is to succeed.
#[track_caller]
fn finish(server: &Server, options: &str) -> Finished {
    let finished = start(server, options).finish(PATIENCE);
    finished.succeeded();
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
fn values<const N: usize>(finished: &Finished, names: [&str; N]) -> [String; N] {
    names.map(|name| {
        let line = finished
            .stdout
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {name} in {finished:#?}"))
            .to_owned()
    })
}
