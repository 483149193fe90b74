//! Stock programs of several Debian releases.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test_case::{Requirement, TestCase, optional_test_case, test_case_unless};

/// A Debian release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The host's.
    Debian12,
    /// trixie.
    Debian13,
    /// sid. Its versions change.
    Unstable,
}

/// A stock program of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockPeer {
    /// The name of the program.
    pub program: &'static str,
    /// The release.
    pub release: Release,
    /// The version that the tests know.
    pub version: &'static str,
}

impl StockPeer {
    /// Returns the path of the program, or the reason why it is missing.
    ///
    /// `scripts/newer-peers` puts programs of newer releases into the directory in
    /// `LINERATE_NEWER_PEERS`, or into target/newer-peers.
    pub fn path(&self) -> Result<PathBuf, String> {
        let release = match self.release {
            Release::Debian12 => {
                let missing_reason = Requirement::Program(self.program).missing_reason();
                return missing_reason.map_or_else(|| Ok(self.program.into()), Err);
            }
            Release::Debian13 => "trixie",
            Release::Unstable => "sid",
        };
        let directory = env::var_os("LINERATE_NEWER_PEERS").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/newer-peers"),
            PathBuf::from,
        );
        let path = directory.join(release).join(self.program);
        let missing_reason = format!("{} does not exist", path.display());
        path.exists().then_some(path).ok_or(missing_reason)
    }

    /// Returns a command of the program with these arguments.
    pub fn with_args(&self, arguments: &str) -> Command {
        let path = self.path().unwrap_or_else(|reason| panic!("{reason}"));
        let mut command = Command::new(path);
        command.args(arguments.split_whitespace());
        command
    }

    /// Returns the version of the installed program, if it is not the one that the tests know.
    fn other_version(&self) -> Option<String> {
        let version = std::fs::read_to_string(self.path().ok()?.with_extension("version")).ok()?;
        let version = version.trim();
        (version != self.version).then(|| version.to_owned())
    }

    /// Creates a test case with this program.
    ///
    /// The runner skips it if the program is missing. In a run that requires peers, it fails
    /// instead, except for a program of the unstable release. With a version that the tests do not
    /// know, the test case prints its failure and succeeds.
    pub fn test_case(
        self,
        name: impl Into<String>,
        run: impl Fn(StockPeer) -> Result<(), String> + Send + 'static,
    ) -> TestCase {
        let run = move || {
            let result = run(self);
            let Some((failure, version)) = result.as_ref().err().zip(self.other_version()) else {
                return result;
            };
            let (program, known) = (self.program, self.version);
            println!("{program} {version} differs from {known}: {failure}");
            Ok(())
        };
        let missing_reason = self.path().err();
        match self.release {
            Release::Unstable => optional_test_case(missing_reason, name, run),
            _ => test_case_unless(missing_reason, name, run),
        }
    }
}
