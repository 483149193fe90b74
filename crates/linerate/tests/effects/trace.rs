//! The system calls of a client and of its server, by strace.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use testkit::{Requirement, TestProcess, free_port, is_listening, linerate_with_args, wait_until};

use super::PATIENCE;
use crate::iperf::takes_datagrams;

/// What a test with a trace needs.
pub(crate) const STRACE: Requirement = Requirement::Program("strace");

/// One call that has returned.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// When it was made, in seconds.
    pub(crate) at: f64,
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) result: String,
}

/// The calls of a client and of its server.
#[derive(Debug)]
pub(crate) struct Both {
    pub(crate) client: Vec<Call>,
    pub(crate) server: Vec<Call>,
}

/// Runs netperf against netserver, both under `strace` with these options, to their ends.
pub(crate) fn both(strace: &str, server: &str, client: &str) -> Both {
    let server = format!("netserver -D -d {server}");
    both_of(strace, &server, &format!("netperf -H 127.0.0.1 {client}"))
}

/// The same of any client and server, which take their port by `-p`.
pub(crate) fn both_of(strace: &str, server: &str, client: &str) -> Both {
    let place = tempfile::tempdir().expect("the directory for temporary files is writable");
    let (of_client, of_server) = (place.path().join("client"), place.path().join("server"));
    let port = free_port();
    // netperf's words after `--` are of the test.
    let with_port = |line: &str| {
        let (name, words) = line.split_once(' ').unwrap_or((line, ""));
        linerate_with_args(&format!("{name} -p {port} {words}"))
    };
    let server = TestProcess::start(&mut traced(strace, &of_server, &with_port(server)));
    let listens = || is_listening(port) || takes_datagrams(port);
    assert!(wait_until(PATIENCE, listens), "{}", server.stderr());
    let client = TestProcess::start(&mut traced(strace, &of_client, &with_port(client)));
    client.finish(PATIENCE).assert_success();
    server.signal(Signal::TERM);
    server.finish(PATIENCE).assert_success();
    Both {
        client: calls(&of_client),
        server: calls(&of_server),
    }
}

/// `command` as its own process, watched by one on the side, with a file a thread.
fn traced(options: &str, files: &Path, command: &Command) -> Command {
    let mut strace = Command::new("strace");
    strace
        .args(["-D", "-ff", "-ttt", "-e", "signal=none"])
        .args(options.split_whitespace())
        .arg("-o")
        .arg(files)
        .arg(command.get_program())
        .args(command.get_args());
    strace
}

/// The calls of all threads, in order, once the last thread has ended.
fn calls(files: &Path) -> Vec<Call> {
    let mut texts = Vec::new();
    let complete = wait_until(Duration::from_secs(10), || {
        texts = of_threads(files);
        !texts.is_empty() && texts.iter().all(|text| text.contains(" +++ "))
    });
    assert!(complete, "a trace has no end: {texts:?}");
    let mut calls: Vec<_> = texts
        .iter()
        .flat_map(|text| text.lines().filter_map(call))
        .collect();
    calls.sort_by(|one, other| one.at.total_cmp(&other.at));
    calls
}

fn of_threads(files: &Path) -> Vec<String> {
    let (Some(directory), Some(name)) = (files.parent(), files.file_name()) else {
        return Vec::new();
    };
    let name = name.to_string_lossy().into_owned();
    std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&name))
        .filter_map(|entry| std::fs::read_to_string(entry.path()).ok())
        .collect()
}

/// `1700000000.000001 name(argument, argument) = result`; any other line is no call.
fn call(line: &str) -> Option<Call> {
    let (at, line) = line.split_once(' ')?;
    let (name, line) = line.split_once('(')?;
    let (arguments, result) = line.rsplit_once(" = ")?;
    let (arguments, _) = arguments.rsplit_once(')')?;
    Some(Call {
        at: at.parse().ok()?,
        name: name.to_owned(),
        arguments: arguments.split(", ").map(str::to_owned).collect(),
        result: result.to_owned(),
    })
}

impl Call {
    /// The number in an argument that strace was told to show raw (`-e raw=…`).
    pub(crate) fn number(&self, argument: usize) -> Option<u64> {
        let digits = self.arguments.get(argument)?.strip_prefix("0x")?;
        u64::from_str_radix(digits, 16).ok()
    }

    /// The bytes in an argument that strace was told to show in hexadecimal (`-xx`).
    pub(crate) fn bytes(&self, argument: usize) -> Vec<u8> {
        let text = self.arguments.get(argument).map_or("", String::as_str);
        text.trim_matches(['"', '.'])
            .split("\\x")
            .filter_map(|digits| u8::from_str_radix(digits, 16).ok())
            .collect()
    }
}
