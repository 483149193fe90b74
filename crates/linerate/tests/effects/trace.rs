//! The system calls of a client and its server, traced by strace.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use testkit::{Requirement, TestProcess, free_port, is_listening, linerate_with_args, wait_until};

use super::TIMEOUT;
use crate::iperf::is_bound_to_udp;

/// Requirement of a test with a trace.
pub(crate) const STRACE: Requirement = Requirement::Program("strace");

/// A system call that returned.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Time of the call, in seconds.
    pub(crate) time: f64,
    pub(crate) name: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) result: String,
}

/// The system calls of a client and its server.
#[derive(Debug)]
pub(crate) struct Traces {
    pub(crate) client: Vec<Call>,
    pub(crate) server: Vec<Call>,
}

/// Runs netperf against netserver, both under strace with these options, until both exit.
pub(crate) fn trace_netperf(strace: &str, server: &str, client: &str) -> Traces {
    let server = format!("netserver -D -d {server}");
    trace(strace, &server, &format!("netperf -H 127.0.0.1 {client}"))
}

/// Runs any client and server with an option `-p` for the port, as [`trace_netperf`] does.
pub(crate) fn trace(strace: &str, server: &str, client: &str) -> Traces {
    let directory = tempfile::tempdir().expect("the directory for temporary files is writable");
    let client_trace = directory.path().join("client");
    let server_trace = directory.path().join("server");
    let port = free_port();
    // netperf's options after `--` are test options.
    let with_port = |line: &str| {
        let (name, options) = line.split_once(' ').unwrap_or((line, ""));
        linerate_with_args(&format!("{name} -p {port} {options}"))
    };
    let server = TestProcess::start(&mut strace_command(
        strace,
        &server_trace,
        &with_port(server),
    ));
    let is_ready = || is_listening(port) || is_bound_to_udp(port);
    assert!(wait_until(TIMEOUT, is_ready), "{}", server.stderr());
    let client = TestProcess::start(&mut strace_command(
        strace,
        &client_trace,
        &with_port(client),
    ));
    client.finish(TIMEOUT).assert_success();
    server.signal(Signal::TERM);
    server.finish(TIMEOUT).assert_success();
    Traces {
        client: read_calls(&client_trace),
        server: read_calls(&server_trace),
    }
}

/// Returns `command` under strace, which runs as a detached process. It writes one file per thread,
/// whose name begins with `prefix`.
fn strace_command(options: &str, prefix: &Path, command: &Command) -> Command {
    let mut strace = Command::new("strace");
    strace
        .args(["-D", "-ff", "-ttt", "-e", "signal=none"])
        .args(options.split_whitespace())
        .arg("-o")
        .arg(prefix)
        .arg(command.get_program())
        .args(command.get_args());
    strace
}

/// Waits until the last thread has ended. Returns the calls of all threads by time.
fn read_calls(prefix: &Path) -> Vec<Call> {
    let mut texts = Vec::new();
    let is_complete = wait_until(Duration::from_secs(10), || {
        texts = read_thread_traces(prefix);
        !texts.is_empty() && texts.iter().all(|text| text.contains(" +++ "))
    });
    assert!(is_complete, "a trace is incomplete: {texts:?}");
    let mut calls: Vec<_> = texts
        .iter()
        .flat_map(|text| text.lines().filter_map(parse_call))
        .collect();
    calls.sort_by(|left, right| left.time.total_cmp(&right.time));
    calls
}

fn read_thread_traces(prefix: &Path) -> Vec<String> {
    let (Some(directory), Some(name)) = (prefix.parent(), prefix.file_name()) else {
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

/// Parses `1700000000.000001 name(argument, argument) = result`. Other lines are not calls.
fn parse_call(line: &str) -> Option<Call> {
    let (time, line) = line.split_once(' ')?;
    let (name, line) = line.split_once('(')?;
    let (arguments, result) = line.rsplit_once(" = ")?;
    let (arguments, _) = arguments.rsplit_once(')')?;
    Some(Call {
        time: time.parse().ok()?,
        name: name.to_owned(),
        arguments: arguments.split(", ").map(str::to_owned).collect(),
        result: result.to_owned(),
    })
}

impl Call {
    /// Returns the number in an argument that strace shows raw (`-e raw=…`).
    pub(crate) fn number(&self, argument: usize) -> Option<u64> {
        let digits = self.arguments.get(argument)?.strip_prefix("0x")?;
        u64::from_str_radix(digits, 16).ok()
    }

    /// Returns the bytes in an argument that strace shows in hexadecimal (`-xx`).
    pub(crate) fn bytes(&self, argument: usize) -> Vec<u8> {
        let text = self.arguments.get(argument).map_or("", String::as_str);
        text.trim_matches(['"', '.'])
            .split("\\x")
            .filter_map(|digits| u8::from_str_radix(digits, 16).ok())
            .collect()
    }
}
