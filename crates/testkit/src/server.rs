//! Servers for tests. A server runs in the foreground until its [`Server`] is dropped.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::peer::{Implementation, NetperfPrograms, Role, linerate_with_args};
use crate::process::{ProcessOutput, TestProcess};
use crate::sockets::{descriptors, free_port, is_listening_in, receives_datagrams_in};
use crate::test_case::wait_until;

/// Timeout until a server listens.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout until a server ends, or releases the resources of a test.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A running server. Dropping it kills the server and all its child processes.
#[derive(Debug)]
pub struct Server {
    process: TestProcess,
    /// The listening port.
    pub port: u16,
}

/// Resources of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Number of open descriptors, in the descriptor tables of all threads.
    pub descriptors: usize,
    /// Number of threads, including the first.
    pub threads: usize,
}

impl ProcessUsage {
    /// Returns whether the usage is at most `idle`. It may be less, because on a busy machine
    /// `idle` may include a session that is about to end.
    pub fn fits_within(self, idle: Self) -> bool {
        self.descriptors <= idle.descriptors && self.threads <= idle.threads
    }
}

impl Server {
    /// Starts linerate's netserver on a free port with these additional options. The server writes
    /// a log to standard error (`-d`).
    #[track_caller]
    pub fn start(options: &str) -> Self {
        Self::start_with(|port| format!("netserver -D -d -p {port} {options}"))
    }

    /// Starts the stock netserver on a free port.
    #[track_caller]
    pub fn start_stock() -> Self {
        let command_for_port = |port: u16| {
            let mut command = NetperfPrograms::new().command(Implementation::Stock, Role::Server);
            command.args(["-D", "-p", &port.to_string()]);
            command
        };
        Self::try_start_with(command_for_port).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a linerate server on a free port. `arguments` returns the arguments for a port.
    #[track_caller]
    pub fn start_with(arguments: impl Fn(u16) -> String) -> Self {
        Self::try_start_with(|port| linerate_with_args(&arguments(port)))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts linerate's uperf slave on a free port with these additional options.
    #[track_caller]
    pub fn start_slave(options: &str) -> Self {
        Self::start_with(|port| format!("uperf -s -P {port} {options}"))
    }

    /// Starts the server that `command_for_port` returns for a free port. Returns when it listens
    /// on the port or receives datagrams.
    ///
    /// Another process may bind the port first. The function therefore tries up to three ports.
    pub fn try_start_with(command_for_port: impl Fn(u16) -> Command) -> io::Result<Self> {
        let mut last_error = None;
        for _ in 0..3 {
            let port = free_port();
            match Self::try_start_at(port, command_for_port(port)) {
                Ok(server) => return Ok(server),
                Err(error) => last_error = Some(error),
            }
        }
        Err(last_error.expect("three tries leave an error"))
    }

    /// Starts `command`, and returns when it listens on this port or receives datagrams.
    #[track_caller]
    pub fn start_at(port: u16, command: Command) -> Self {
        Self::try_start_at(port, command).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_start_at(port: u16, mut command: Command) -> io::Result<Self> {
        let process = TestProcess::try_start(command.process_group(0), Stdio::null())?;
        let mut server = Self { process, port };
        server.wait_until_listening()?;
        Ok(server)
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns whether the server is running.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Returns the standard output up to now.
    pub fn stdout(&self) -> String {
        self.process.stdout()
    }

    /// Returns the standard error up to now.
    pub fn stderr(&self) -> String {
        self.process.stderr()
    }

    /// Returns the last 8 lines of the server's log (`-d`).
    pub fn log(&self) -> String {
        let log = self.stderr();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    /// Returns whether a thread of the server has panicked.
    pub fn has_panicked(&self) -> bool {
        self.stderr().contains("panicked")
    }

    /// Sends a signal to the server, but not to its child processes.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Sends SIGKILL to the server and its child processes. Stock netserver starts one process per
    /// client, and some outlive their client.
    pub fn kill_all(&self) {
        let group = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        // The processes may have ended already.
        let _ = kill_process_group(group.expect("a process has an id"), Signal::KILL);
    }

    /// Sends SIGTERM and waits for the end of the server.
    #[track_caller]
    pub fn terminate(self) -> ProcessOutput {
        self.signal(Signal::TERM);
        self.wait(END_TIMEOUT)
    }

    /// Waits for the end of the server. Fails the test on a timeout.
    #[track_caller]
    pub fn wait(mut self, timeout: Duration) -> ProcessOutput {
        match self.process.wait(timeout) {
            Ok(output) => output,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until the kernel's tables contain the listening socket. An attempt to connect would be
    /// one more client for the server.
    fn wait_until_listening(&mut self) -> io::Result<()> {
        let (pid, port) = (self.pid().to_string(), self.port);
        let mut is_running = true;
        let is_in_time = wait_until(START_TIMEOUT, || {
            is_running = self.process.is_running();
            !is_running || is_listening_in(&pid, port) || receives_datagrams_in(&pid, port)
        });
        if is_in_time && is_running {
            return Ok(());
        }
        let reason = if is_running {
            format!("nothing listens on port {port} after {START_TIMEOUT:?}")
        } else {
            "the process ended".to_owned()
        };
        Err(io::Error::other(format!(
            "the server did not start: {reason}: {}",
            self.stderr()
        )))
    }
}

/// Resource usage of a server.
impl Server {
    /// Returns the current number of descriptors and threads.
    pub fn usage(&self) -> ProcessUsage {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        ProcessUsage {
            descriptors: descriptors(self.pid()).count(),
            threads: threads.map_or(0, Iterator::count),
        }
    }

    /// Returns the names of the threads. A thread without a name has that of its parent.
    pub fn thread_names(&self) -> Vec<String> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        let names = threads.into_iter().flatten().flatten().map(|thread| {
            // The thread may have ended.
            std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default()
        });
        names.map(|name| name.trim_end().to_owned()).collect()
    }

    /// Returns the number of threads with this name.
    pub fn thread_count(&self, name: &str) -> usize {
        let names = self.thread_names();
        names.iter().filter(|other| *other == name).count()
    }

    /// Returns the usage without clients. Runs a test first, because it starts threads that remain.
    #[track_caller]
    pub fn idle_usage(&self) -> ProcessUsage {
        self.run_netperf_test("-l -10").assert_success();
        self.settled_usage()
    }

    /// Waits until the usage stays the same, and returns it. A session ends shortly after its
    /// client. A UDP session of iperf ends when no copies of the client's last datagram arrive any
    /// more.
    pub fn settled_usage(&self) -> ProcessUsage {
        let mut last = self.usage();
        wait_until(END_TIMEOUT, || {
            std::thread::sleep(Duration::from_millis(400));
            std::mem::replace(&mut last, self.usage()) == last
        });
        last
    }

    /// Fails the test unless the usage returns to `idle` within `timeout`.
    #[track_caller]
    pub fn assert_usage_returns_to(&self, idle: ProcessUsage, timeout: Duration, event: &str) {
        let has_returned = wait_until(timeout, || self.usage().fits_within(idle));
        assert!(
            has_returned,
            "{:.1} s after {event}: {:?}, idle: {idle:?}; log: {}",
            timeout.as_secs_f64(),
            self.usage(),
            self.log()
        );
    }

    /// Fails the test unless a simple test of a linerate client with the server succeeds.
    #[track_caller]
    pub fn assert_serves(&self) {
        let test = self.run_netperf_test("-l 1");
        assert_eq!(test.code, Some(0), "{test:#?}; log: {}", self.log());
    }

    fn run_netperf_test(&self, length: &str) -> ProcessOutput {
        let target = format!("-H 127.0.0.1 -p {}", self.port);
        let line = format!("netperf {target} -t TCP_RR {length} -P 0");
        TestProcess::start(&mut linerate_with_args(&line)).finish(Duration::from_secs(20))
    }

    /// Returns the resident memory in KiB.
    pub fn resident_kib(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_fails_if_the_command_ends() {
        let started = Server::try_start_with(|_| Command::new("true"));
        assert!(started.is_err());
    }
}
