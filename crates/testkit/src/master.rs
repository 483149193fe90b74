//! Masters of our uperf.

use std::io::Write;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::NamedTempFile;

use crate::peer::linerate;
use crate::process::{Finished, Process};
use crate::server::Server;
use crate::trial::eventually;

/// Hosts of this host, for `$h`, `$h1` and so on.
pub const LOOPBACK: [&str; 4] = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"];

/// Longer than any short run on a busy machine.
const A_RUN: Duration = Duration::from_secs(40);

/// Time for output that needs no deadline.
const SOON: Duration = Duration::from_secs(10);

/// A running master, killed when dropped.
#[derive(Debug)]
pub struct Master {
    process: Process,
    _profile: NamedTempFile,
}

impl Master {
    /// Runs a profile with the slaves at this port, unless the options name another. `$h` and `$h1` is the first
    /// of `hosts`, `$h2` the second.
    pub fn start(port: u16, options: &str, hosts: &[impl AsRef<str>], profile: &str) -> Self {
        let mut file = NamedTempFile::new().expect("a temporary file");
        file.write_all(profile.as_bytes()).expect("it is ours");
        let path = file.path().display();
        let mut command = linerate(&format!("uperf -P {port} {options} -m {path}"));
        command.envs(variables(hosts));
        Self {
            process: Process::start(&mut command),
            _profile: file,
        }
    }

    /// Waits until standard output is as `is_it` wants it.
    #[track_caller]
    pub fn says(&self, is_it: impl Fn(&str) -> bool) {
        let said = eventually(SOON, || is_it(&self.stdout()));
        let (stdout, stderr) = (self.stdout(), self.process.stderr());
        assert!(said, "it does not say so: {stdout:?}, {stderr:?}");
    }

    /// The same of standard output and standard error.
    #[track_caller]
    pub fn says_anywhere(&self, is_it: impl Fn(&str) -> bool) {
        let all = || self.stdout() + &self.process.stderr();
        assert!(eventually(SOON, || is_it(&all())), "{}", all());
    }

    /// Waits for its end; a master that takes longer fails the test.
    #[track_caller]
    pub fn ends_within(self, patience: Duration) -> Finished {
        self.process.finish(patience)
    }

    /// Its standard output up to now.
    pub fn stdout(&self) -> String {
        self.process.stdout()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }
}

impl Server {
    /// Runs a profile with this slave, which is all of [`LOOPBACK`].
    #[track_caller]
    pub fn run_profile(&self, options: &str, profile: &str) -> Finished {
        Master::start(self.port, options, &LOOPBACK, profile).ends_within(A_RUN)
    }
}

impl Finished {
    /// The words of the line of a master's Run Statistics that begins with this word: a host, `master`.
    #[track_caller]
    pub fn statistics(&self, first: &str) -> Vec<String> {
        let report = self.stdout.split_once("Run Statistics");
        let (_, report) = report.unwrap_or_else(|| panic!("no statistics: {self:#?}"));
        let line = report.lines().find(|line| line.starts_with(first));
        let line = line.unwrap_or_else(|| panic!("no line of {first}: {self:#?}"));
        line.split_whitespace().map(str::to_owned).collect()
    }
}

/// The variables of profiles: hosts, and what uperf's own profiles leave open besides.
fn variables(hosts: &[impl AsRef<str>]) -> Vec<(String, String)> {
    let first = hosts.iter().take(1).map(|host| ("h".to_owned(), host));
    let numbered = (1..)
        .zip(hosts)
        .map(|(number, host)| (format!("h{number}"), host));
    let hosts = first.chain(numbered);
    let open = [("proto", "tcp"), ("nthr", "4"), ("iter", "50")];
    let open = open.map(|(name, value)| (name.to_owned(), value.to_owned()));
    hosts
        .map(|(name, host)| (name, host.as_ref().to_owned()))
        .chain(open)
        .collect()
}
