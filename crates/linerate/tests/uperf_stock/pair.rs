//! One run of a master with a slave.

use std::fmt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use testkit::{ProcessOutput, Server, StockUperf, TestProcess, linerate_with_args};

/// Timeout of a run on a busy machine.
const RUN_TIMEOUT: Duration = Duration::from_secs(40);

/// A certificate and its key. Stock's masters and slaves read them from different files.
const PEM: &str = include_str!("../../../uperf/tests/data/tls/server.pem");

/// The program of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Ours,
    Stock(StockUperf),
}

/// A master and a slave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pairing {
    master: Program,
    slave: Program,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours => f.write_str("ours"),
            Self::Stock(version) => version.fmt(f),
        }
    }
}

impl fmt::Display for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {}", self.master, self.slave)
    }
}

impl Program {
    fn command(self) -> Command {
        match self {
            Self::Ours => linerate_with_args("uperf"),
            Self::Stock(version) => Command::new(version.program().expect("an installed program")),
        }
    }
}

impl Pairing {
    pub(crate) fn new(master: Program, slave: Program) -> Self {
        Self { master, slave }
    }

    /// Whether at least one end is stock's.
    pub(crate) fn has_stock(self) -> bool {
        self.has_stock_master() || self.slave != Program::Ours
    }

    pub(crate) fn has_stock_master(self) -> bool {
        self.master != Program::Ours
    }

    /// Runs a profile in a temporary directory, with a slave if `has_slave`.
    pub(crate) fn run(self, options: &str, profile: &str, has_slave: bool) -> ProcessOutput {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path();
        for (name, text) in [("p.xml", profile), ("server.pem", PEM), ("client.pem", PEM)] {
            std::fs::write(path.join(name), text).expect("a writable directory");
        }
        // One file of 65,536 bytes, the length that a slave of a stock master reads.
        std::fs::create_dir(path.join("files")).expect("a writable directory");
        std::fs::write(path.join("files/a"), vec![7; 65_536]).expect("a writable directory");
        let slave = has_slave.then(|| self.start_slave(path));
        let port = slave.as_ref().map_or(1, |slave| slave.port);
        let mut master = self.master.command();
        master.args(options.split_whitespace());
        master.args(["-P", &port.to_string(), "-m", "p.xml"]);
        let variables = [
            ("h", "127.0.0.1"),
            ("h1", "127.0.0.1"),
            ("h2", "127.0.0.2"),
            ("h3", "127.0.0.3"),
            ("h4", "127.0.0.4"),
            ("proto", "tcp"),
            ("nthr", "2"),
            ("iter", "20"),
        ];
        master.current_dir(path).envs(variables).process_group(0);
        let process = TestProcess::start(&mut master);
        // A failing master leaves its processes running.
        let _group = ProcessGroup(process.pid());
        process.finish(RUN_TIMEOUT)
    }

    fn start_slave(self, directory: &Path) -> Server {
        let command = |port: u16| {
            let mut command = self.slave.command();
            command.args(["-s", "-P", &port.to_string()]);
            command.current_dir(directory);
            command
        };
        Server::try_start_with(command).unwrap_or_else(|error| panic!("{}: {error}", self.slave))
    }
}

/// The process group of a process. Dropping this kills the group.
struct ProcessGroup(u32);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let group = i32::try_from(self.0).ok().and_then(Pid::from_raw);
        // All processes may have ended already.
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
    }
}
