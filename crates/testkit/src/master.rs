//! Masters of linerate's uperf.

use std::io::Write;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::NamedTempFile;

use crate::peer::linerate_with_args;
use crate::process::{ProcessOutput, TestProcess};
use crate::server::Server;
use crate::test_case::wait_until;

/// Addresses of this host, for the variables `$h`, `$h1`, `$h2` and so on of profiles.
pub const LOOPBACK_HOSTS: [&str; 4] = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"];

/// Timeout of a short run.
const RUN_TIMEOUT: Duration = Duration::from_secs(40);

/// Timeout for expected output.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(10);

/// A running master. Dropping it kills the process.
#[derive(Debug)]
pub struct UperfMaster {
    process: TestProcess,
    _profile: NamedTempFile,
}

impl UperfMaster {
    /// Starts a run of a profile with slaves that listen on `port`. A port in `options` takes
    /// precedence. `$h` and `$h1` are the first of `hosts`, and `$h2` is the second.
    pub fn start(port: u16, options: &str, hosts: &[impl AsRef<str>], profile: &str) -> Self {
        let mut file = NamedTempFile::new().expect("a temporary file");
        file.write_all(profile.as_bytes())
            .expect("the file is writable");
        let path = file.path().display();
        let mut command = linerate_with_args(&format!("uperf -P {port} {options} -m {path}"));
        command.envs(profile_variables(hosts));
        Self {
            process: TestProcess::start(&mut command),
            _profile: file,
        }
    }

    /// Waits until `is_expected` returns true for standard output. Fails the test on a timeout.
    #[track_caller]
    pub fn wait_for_stdout(&self, is_expected: impl Fn(&str) -> bool) {
        let is_printed = wait_until(OUTPUT_TIMEOUT, || is_expected(&self.stdout()));
        let (stdout, stderr) = (self.stdout(), self.process.stderr());
        assert!(is_printed, "unexpected output: {stdout:?}, {stderr:?}");
    }

    /// Does the same as `wait_for_stdout` for standard output followed by standard error.
    #[track_caller]
    pub fn wait_for_output(&self, is_expected: impl Fn(&str) -> bool) {
        let output = || self.stdout() + &self.process.stderr();
        assert!(
            wait_until(OUTPUT_TIMEOUT, || is_expected(&output())),
            "{}",
            output()
        );
    }

    /// Waits for the end of the process. Fails the test on a timeout.
    #[track_caller]
    pub fn finish_within(self, timeout: Duration) -> ProcessOutput {
        self.process.finish(timeout)
    }

    /// Returns the standard output up to now.
    pub fn stdout(&self) -> String {
        self.process.stdout()
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns whether the process is running.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }
}

impl Server {
    /// Runs a profile in which this slave is every host, at the addresses in [`LOOPBACK_HOSTS`].
    #[track_caller]
    pub fn run_profile(&self, options: &str, profile: &str) -> ProcessOutput {
        UperfMaster::start(self.port, options, &LOOPBACK_HOSTS, profile).finish_within(RUN_TIMEOUT)
    }
}

impl ProcessOutput {
    /// Returns the words of a line in the Run Statistics of a master. The line starts with `label`,
    /// such as a host or `master`.
    #[track_caller]
    pub fn statistics(&self, label: &str) -> Vec<String> {
        let report = self.stdout.split_once("Run Statistics");
        let (_, report) = report.unwrap_or_else(|| panic!("no statistics: {self:#?}"));
        let line = report.lines().find(|line| line.starts_with(label));
        let line = line.unwrap_or_else(|| panic!("no line of {label}: {self:#?}"));
        line.split_whitespace().map(str::to_owned).collect()
    }
}

/// Returns the environment variables of profiles: the hosts, and defaults for the other variables
/// in uperf's own profiles.
fn profile_variables(hosts: &[impl AsRef<str>]) -> Vec<(String, String)> {
    let first = hosts.iter().take(1).map(|host| ("h".to_owned(), host));
    let numbered = (1..)
        .zip(hosts)
        .map(|(number, host)| (format!("h{number}"), host));
    let hosts = first.chain(numbered);
    let defaults = [("proto", "tcp"), ("nthr", "4"), ("iter", "50")];
    let defaults = defaults.map(|(name, value)| (name.to_owned(), value.to_owned()));
    hosts
        .map(|(name, host)| (name, host.as_ref().to_owned()))
        .chain(defaults)
        .collect()
}
