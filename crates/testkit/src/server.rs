//! A server in the foreground, from the moment that it listens until it is dropped.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::peer::{Make, Peers, Role, linerate};
use crate::process::{Finished, Process};
use crate::sockets::{descriptors, free_port, listens, receives};
use crate::trial::eventually;

/// How long a server may take to listen, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a server may take to give back what a test took, beyond any deadline.
const SOON: Duration = Duration::from_secs(5);

/// A running server, killed with all its processes when dropped.
#[derive(Debug)]
pub struct Server {
    process: Process,
    /// The port that it listens on.
    pub port: u16,
}

/// What a process has of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Open descriptors, those of each thread's table.
    pub descriptors: usize,
    /// Threads, the first included.
    pub threads: usize,
}

impl Usage {
    /// Whether it is no more than at rest. On a busy machine the usage at rest may still have something of a session
    /// that is about to end.
    pub fn is_within(self, rest: Self) -> bool {
        self.descriptors <= rest.descriptors && self.threads <= rest.threads
    }
}

impl Server {
    /// Our netserver on a free port, with a line of options besides; it keeps a log (`-d`).
    #[track_caller]
    pub fn start(options: &str) -> Self {
        Self::with(|port| format!("netserver -D -d -p {port} {options}"))
    }

    /// The stock netserver on a free port.
    #[track_caller]
    pub fn start_stock() -> Self {
        let stock = |port: u16| {
            let mut command = Peers::new().command(Make::Stock, Role::Server);
            command.args(["-D", "-p", &port.to_string()]);
            command
        };
        Self::of(stock).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A server of ours on a free port, from which `line` makes its whole command line.
    #[track_caller]
    pub fn with(line: impl Fn(u16) -> String) -> Self {
        Self::of(|port| linerate(&line(port))).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Our slave of uperf on a free port, with a line of options besides.
    #[track_caller]
    pub fn slave(options: &str) -> Self {
        Self::with(|port| format!("uperf -s -P {port} {options}"))
    }

    /// Starts what `program` makes of a free port, and returns when it listens there or takes datagrams.
    ///
    /// Another process can take the port before the server does; then another port is tried.
    pub fn of(program: impl Fn(u16) -> Command) -> io::Result<Self> {
        let mut last = None;
        for _ in 0..3 {
            let port = free_port();
            match Self::try_at(port, program(port)) {
                Ok(server) => return Ok(server),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("three tries leave an error"))
    }

    /// Starts `program`, and returns when it listens on this port.
    #[track_caller]
    pub fn at(port: u16, program: Command) -> Self {
        Self::try_at(port, program).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_at(port: u16, mut program: Command) -> io::Result<Self> {
        let process = Process::try_start(program.process_group(0), Stdio::null())?;
        let mut server = Self { process, port };
        server.wait_until_listening()?;
        Ok(server)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// What it has written to standard output up to now.
    pub fn stdout(&self) -> String {
        self.process.stdout()
    }

    /// What it has written to standard error up to now.
    pub fn stderr(&self) -> String {
        self.process.stderr()
    }

    /// The end of what it has to say (`-d`).
    pub fn log(&self) -> String {
        let log = self.stderr();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    /// Whether one of its threads has panicked.
    pub fn panicked(&self) -> bool {
        self.stderr().contains("panicked")
    }

    /// Sends it a signal, but not the processes that it has started.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// SIGKILL for it and for all that it has started: the original has a process a client, and some
    /// outlive their client.
    pub fn kill_all(&self) {
        let group = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        // All may have ended by themselves.
        let _ = kill_process_group(group.expect("a process has a number"), Signal::KILL);
    }

    /// SIGTERM, and what became of it.
    #[track_caller]
    pub fn terminate(self) -> Finished {
        self.signal(Signal::TERM);
        self.ended(SOON)
    }

    /// Waits for its end; one that takes longer than `patience` fails the test.
    #[track_caller]
    pub fn ended(mut self, patience: Duration) -> Finished {
        match self.process.wait(patience) {
            Ok(finished) => finished,
            Err(error) => panic!("{error}"),
        }
    }

    /// By the kernel's table: a connection would be one more client.
    fn wait_until_listening(&mut self) -> io::Result<()> {
        let (pid, port) = (self.pid().to_string(), self.port);
        let mut is_running = true;
        let listening = eventually(PATIENCE, || {
            is_running = self.process.is_running();
            !is_running || listens(&pid, port) || receives(&pid, port)
        });
        if listening && is_running {
            return Ok(());
        }
        let why = if is_running {
            format!("nothing listens on port {port} after {PATIENCE:?}")
        } else {
            "it ended".to_owned()
        };
        Err(io::Error::other(format!(
            "the server: {why}: {}",
            self.stderr()
        )))
    }
}

/// What a server takes, and whether it gives it back.
impl Server {
    /// Descriptors and threads right now.
    pub fn usage(&self) -> Usage {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid()));
        Usage {
            descriptors: descriptors(self.pid()).count(),
            threads: threads.map_or(0, Iterator::count),
        }
    }

    /// Descriptors and threads when nobody is served; the first test has started what stays.
    #[track_caller]
    pub fn usage_at_rest(&self) -> Usage {
        self.test("-l -10").succeeded();
        self.settled_usage()
    }

    /// Descriptors and threads once they stay the same: a session ends just after its client, one of iperf by UDP
    /// when no copy of the client's last datagram comes any more.
    pub fn settled_usage(&self) -> Usage {
        let mut last = self.usage();
        eventually(SOON, || {
            std::thread::sleep(Duration::from_millis(400));
            std::mem::replace(&mut last, self.usage()) == last
        });
        last
    }

    /// Fails the test unless all is given back within `patience`.
    #[track_caller]
    pub fn is_back_at(&self, rest: Usage, patience: Duration, after: &str) {
        let back = eventually(patience, || self.usage().is_within(rest));
        assert!(
            back,
            "{:.1} s after {after} there are {:?}, at rest there were {rest:?}; log: {}",
            patience.as_secs_f64(),
            self.usage(),
            self.log()
        );
    }

    /// Fails the test unless a plain test of one of our clients is served.
    #[track_caller]
    pub fn serves(&self) {
        let test = self.test("-l 1");
        assert_eq!(test.code, Some(0), "{test:#?}; log: {}", self.log());
    }

    fn test(&self, length: &str) -> Finished {
        let at = format!("-H 127.0.0.1 -p {}", self.port);
        let line = format!("netperf {at} -t TCP_RR {length} -P 0");
        Process::start(&mut linerate(&line)).finish(Duration::from_secs(20))
    }

    /// Resident memory, in KiB.
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
    fn a_command_that_ends_is_no_server() {
        let started = Server::of(|_| Command::new("true"));
        assert!(started.is_err());
    }
}
