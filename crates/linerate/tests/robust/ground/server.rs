use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use super::process::{Process, linerate, stock};
use super::{Finished, eventually, is_listening};

/// How long a server may take to give back what a test took, beyond any deadline.
const SOON: Duration = Duration::from_secs(5);

/// A netserver in the foreground.
#[derive(Debug)]
pub(crate) struct Server {
    process: Process,
    pub(crate) port: u16,
}

/// What a process has of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
}

impl Server {
    /// Ours, on a free port.
    pub(crate) fn start(options: &str) -> Self {
        let port = free_port();
        Self::ready(
            Process::start(&mut linerate(&format!(
                "netserver -D -d -p {port} {options}"
            ))),
            port,
        )
    }

    /// The stock one, on a free port.
    pub(crate) fn start_stock() -> Self {
        let port = free_port();
        Self::ready(
            Process::start(&mut stock("netserver", &format!("-D -p {port}"))),
            port,
        )
    }

    fn ready(mut process: Process, port: u16) -> Self {
        let listening = eventually(SOON, || is_listening(port) || !process.is_running());
        assert!(
            listening && process.is_running(),
            "netserver: {}",
            process.stderr()
        );
        Self { process, port }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// The end of what it has to say (`-d`).
    pub(crate) fn log(&self) -> String {
        let log = self.process.stderr();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }

    /// Whether one of its threads has panicked.
    pub(crate) fn panicked(&self) -> bool {
        self.process.stderr().contains("panicked")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// SIGKILL for it and for the processes that a stock server has a client in each of.
    pub(crate) fn kill_all(&self) {
        let pid = self.pid();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        self.signal(Signal::KILL);
        for child in children.unwrap_or_default().split_whitespace() {
            if let Some(child) = child.parse().ok().and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(child, Signal::KILL);
            }
        }
    }

    /// SIGTERM, and what became of it.
    pub(crate) fn terminate(self) -> Finished {
        self.process.signal(Signal::TERM);
        self.process.finish(SOON)
    }

    /// Descriptors and threads right now.
    pub(crate) fn usage(&self) -> Usage {
        let tasks = format!("/proc/{}/task", self.pid());
        // Threads have tables of their own.
        let threads = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
        Usage {
            descriptors: threads
                .map(|thread| entries(thread.path().join("fd")))
                .sum(),
            threads: entries(tasks.into()),
        }
    }

    /// Descriptors and threads when nobody is served; the first test has started what stays.
    pub(crate) fn usage_at_rest(&self) -> Usage {
        let options = format!("-H 127.0.0.1 -p {} -t TCP_RR -l -10 -P 0", self.port);
        let test = Process::start(&mut linerate(&format!("netperf {options}")));
        test.finish(Duration::from_secs(20)).succeeded();
        // The session ends just after its client.
        let mut last = self.usage();
        eventually(SOON, || {
            std::thread::sleep(Duration::from_millis(100));
            std::mem::replace(&mut last, self.usage()) == last
        });
        last
    }

    /// Fails the test unless all is given back within `patience`.
    #[track_caller]
    pub(crate) fn is_back_at(&self, rest: Usage, patience: Duration, after: &str) {
        let back = eventually(patience, || self.usage() == rest);
        assert!(
            back,
            "{:.1} s after {after} there are {:?}, at rest there were {rest:?}; log: {}",
            patience.as_secs_f64(),
            self.usage(),
            self.log()
        );
    }

    /// Fails the test unless a plain test is served.
    #[track_caller]
    pub(crate) fn serves(&self) {
        let options = format!("-H 127.0.0.1 -p {} -t TCP_RR -l 1 -P 0", self.port);
        let test = Process::start(&mut linerate(&format!("netperf {options}")));
        let test = test.finish(Duration::from_secs(20));
        assert_eq!(test.code, Some(0), "{test:#?}; log: {}", self.log());
    }

    /// Resident memory, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
    }
}

/// A TCP port that nobody listens on; within a namespace of one's own it stays so.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind(("0.0.0.0", 0)).expect("there is a free port");
    listener
        .local_addr()
        .expect("a bound socket has an address")
        .port()
}

fn entries(directory: PathBuf) -> usize {
    std::fs::read_dir(directory).map_or(0, Iterator::count)
}
