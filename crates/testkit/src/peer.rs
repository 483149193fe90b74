//! The two implementations of netperf: linerate and stock.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::stock_peer::{Release, StockPeer};
use crate::test_case::Requirement;

/// Requirement for stock netperf and netserver. One package contains both.
pub const STOCK_NETPERF: Requirement = Requirement::Program("netperf");

/// Implementation of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Implementation {
    /// The `linerate` under test.
    Ours,
    /// The stock program of a Debian release.
    Stock,
}

impl Implementation {
    /// Returns the name for use in test names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Stock => "stock",
        }
    }
}

/// Role of a netperf program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `netperf`.
    Client,
    /// `netserver`.
    Server,
}

impl Role {
    /// Returns the name of the program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Client => "netperf",
            Self::Server => "netserver",
        }
    }
}

/// Locations of both implementations.
#[derive(Clone, Debug)]
pub struct NetperfPrograms {
    /// Path of the `linerate` binary.
    pub linerate_path: PathBuf,
    /// Release of the stock programs. linerate has their version's options and texts.
    pub release: Release,
}

/// Returns a command of the `linerate` under test with these arguments.
pub fn linerate_with_args(arguments: &str) -> Command {
    let mut command = Command::new(linerate_path());
    command.args(arguments.split_whitespace());
    command
}

/// Whether [`linerate_path`] returns the shipped program.
static USES_SHIPPED_PROGRAM: AtomicBool = AtomicBool::new(false);

/// Returns the path of the binary under test.
///
/// Cargo builds it for the tests, without optimisation and with all checks. Cargo 1.94 and later
/// set its path in an environment variable; earlier versions put it above the directory of the
/// tests. Test cases that run alone use the shipped program in `LINERATE_SHIPPED`, if the variable
/// is set.
pub fn linerate_path() -> PathBuf {
    let shipped_path =
        env::var_os("LINERATE_SHIPPED").filter(|_| USES_SHIPPED_PROGRAM.load(Relaxed));
    let from_cargo = || env::var_os("CARGO_BIN_EXE_linerate");
    let in_build_directory = || {
        let test = env::current_exe().expect("/proc is mounted");
        let directory = test
            .ancestors()
            .nth(2)
            .expect("tests are in DIRECTORY/deps");
        directory.join("linerate")
    };
    shipped_path
        .or_else(from_cargo)
        .map_or_else(in_build_directory, PathBuf::from)
}

/// Copies [`linerate_path`] to a place where other users can execute it.
///
/// A separate process copies the file. Otherwise a child forked by another thread could inherit the
/// descriptor, and the kernel executes no file that is open for writing.
pub fn copy_linerate(to: &Path) {
    let status = Command::new("cp").arg(linerate_path()).arg(to).status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "cannot copy linerate to {}",
        to.display()
    );
}

/// Makes [`linerate_path`] return the shipped program from now on, and returns its path.
pub(crate) fn use_shipped_program() -> PathBuf {
    USES_SHIPPED_PROGRAM.store(true, Relaxed);
    linerate_path()
}

/// Returns a command of a stock program with these arguments.
pub fn stock_with_args(program: &str, arguments: &str) -> Command {
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace());
    command
}

impl NetperfPrograms {
    /// Returns the `linerate` under test, and the stock programs of this host's release.
    #[expect(
        clippy::new_without_default,
        reason = "the programs of a machine are not a default value"
    )]
    pub fn new() -> Self {
        Self::of_release(Release::Debian12)
    }

    /// Returns the `linerate` under test, and the stock programs of a release.
    pub fn of_release(release: Release) -> Self {
        Self {
            linerate_path: linerate_path(),
            release,
        }
    }

    /// Returns the reason if a stock program is missing or has the wrong version.
    pub fn missing_reason(&self) -> Option<String> {
        [Role::Client, Role::Server]
            .into_iter()
            .find_map(|role| version_problem(&self.stock(role)))
    }

    fn stock(&self, role: Role) -> StockPeer {
        StockPeer {
            program: role.program(),
            release: self.release,
            version: match self.release {
                Release::Debian12 => "2.7.0",
                Release::Debian13 | Release::Unstable => "2.7.1",
            },
        }
    }

    /// Returns a command of one program under its usual name.
    pub fn command(&self, implementation: Implementation, role: Role) -> Command {
        match implementation {
            Implementation::Ours => {
                let mut command = Command::new(&self.linerate_path);
                let version = self.stock(role).version;
                command.env("LINERATE_STOCK_VERSION", format!("netperf={version}"));
                command.arg(role.program());
                command
            }
            Implementation::Stock => {
                // The program prints its name in errors and in its command line, so the name has
                // no path. `Namespace::command` passes the search path on.
                let mut command = Command::new(role.program());
                command.env("PATH", self.search_path());
                command
            }
        }
    }

    /// Returns the search path with the directory of the stock programs first.
    fn search_path(&self) -> OsString {
        let path = self.stock(Role::Client).path();
        let directory = path.ok().and_then(|path| path.parent().map(Path::to_owned));
        let directory = directory.unwrap_or_default();
        let inherited = env::var_os("PATH").unwrap_or_default();
        let directories = env::split_paths(&inherited);
        let directories = [directory].into_iter().chain(directories);
        env::join_paths(directories.filter(|directory| directory.has_root()))
            .expect("no directory contains a colon")
    }
}

fn version_problem(stock: &StockPeer) -> Option<String> {
    let path = match stock.path() {
        Ok(path) => path,
        Err(reason) => return Some(reason),
    };
    let output = match Command::new(&path).arg("-V").output() {
        Ok(output) => output,
        Err(error) => return Some(format!("cannot run stock {}: {error}", path.display())),
    };
    let output = String::from_utf8_lossy(&output.stdout);
    let first_line = output.lines().next().unwrap_or_default();
    let version = first_line.trim().trim_start_matches("Netperf version ");
    (version != stock.version)
        .then(|| format!("{} is {version:?}, not {}", path.display(), stock.version))
}
