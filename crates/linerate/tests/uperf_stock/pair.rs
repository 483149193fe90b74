//! One run of a master with a slave.

use std::fmt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use testkit::{ProcessOutput, Server, StockUperf, TestProcess, linerate_with_args};

/// Longer than any of the runs, on a busy machine.
const LIMIT: Duration = Duration::from_secs(40);

/// A certificate and its key, of which stock's masters have one and its slaves another.
const PEM: &str = include_str!("../../../uperf/tests/data/tls/server.pem");

/// Whose program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Make {
    Ours,
    Stock(StockUperf),
}

/// A master and a slave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pairing {
    master: Make,
    slave: Make,
}

impl fmt::Display for Make {
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

impl Make {
    fn command(self) -> Command {
        match self {
            Self::Ours => linerate_with_args("uperf"),
            Self::Stock(version) => Command::new(version.program().expect("it was found")),
        }
    }
}

impl Pairing {
    pub(crate) fn new(master: Make, slave: Make) -> Self {
        Self { master, slave }
    }

    /// Whether one of them is stock's.
    pub(crate) fn has_stock(self) -> bool {
        self.has_stock_master() || self.slave != Make::Ours
    }

    pub(crate) fn has_stock_master(self) -> bool {
        self.master != Make::Ours
    }

    /// Runs a profile in a directory of its own, with a slave unless there is to be none.
    pub(crate) fn run(self, options: &str, profile: &str, has_slave: bool) -> ProcessOutput {
        let directory = tempfile::tempdir().expect("a directory");
        let at = directory.path();
        for (name, text) in [("p.xml", profile), ("server.pem", PEM), ("client.pem", PEM)] {
            std::fs::write(at.join(name), text).expect("it is ours");
        }
        // One file of as many bytes as a slave of stock's masters reads.
        std::fs::create_dir(at.join("files")).expect("it is ours");
        std::fs::write(at.join("files/a"), vec![7; 65_536]).expect("it is ours");
        let slave = has_slave.then(|| self.slave(at));
        let port = slave.as_ref().map_or(1, |slave| slave.port);
        let mut master = self.master.command();
        master.args(options.split_whitespace());
        master.args(["-P", &port.to_string(), "-m", "p.xml"]);
        let hosts = [
            ("h", "127.0.0.1"),
            ("h1", "127.0.0.1"),
            ("h2", "127.0.0.2"),
            ("h3", "127.0.0.3"),
            ("h4", "127.0.0.4"),
            ("proto", "tcp"),
            ("nthr", "2"),
            ("iter", "20"),
        ];
        master.current_dir(at).envs(hosts).process_group(0);
        let process = TestProcess::start(&mut master);
        // A master of processes leaves them behind if it fails.
        let _group = Group(process.pid());
        process.finish(LIMIT)
    }

    fn slave(self, at: &Path) -> Server {
        let command = |port: u16| {
            let mut command = self.slave.command();
            command.args(["-s", "-P", &port.to_string()]);
            command.current_dir(at);
            command
        };
        Server::try_start_with(command).unwrap_or_else(|error| panic!("{}: {error}", self.slave))
    }
}

/// The processes of a process's group, which end with this.
struct Group(u32);

impl Drop for Group {
    fn drop(&mut self) {
        let group = i32::try_from(self.0).ok().and_then(Pid::from_raw);
        // All may have ended by themselves.
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
    }
}
