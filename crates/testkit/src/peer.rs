//! The two makes of netperf: ours and the original.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::trial::Need;

/// Both programs of the original, as a distribution has them: one package.
pub const STOCK: Need = Need::Program("netperf");

/// The version of the original that ours is measured against.
const STOCK_VERSION: &str = "Netperf version 2.7.0";

/// Whose program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Make {
    /// The `linerate` under test.
    Ours,
    /// The original, as Debian packages it.
    Stock,
}

impl Make {
    /// As it stands in a test's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Stock => "stock",
        }
    }
}

/// Which of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `netperf`.
    Client,
    /// `netserver`.
    Server,
}

impl Role {
    /// The name it is called by.
    pub fn program(self) -> &'static str {
        match self {
            Self::Client => "netperf",
            Self::Server => "netserver",
        }
    }
}

/// Where both makes are.
#[derive(Clone, Debug)]
pub struct Peers {
    /// The `linerate` binary.
    pub linerate: PathBuf,
    /// The directory of the original programs.
    pub stock: PathBuf,
}

/// The `linerate` that is under test, with a line of arguments.
pub fn linerate(arguments: &str) -> Command {
    let mut command = Command::new(program());
    command.args(arguments.split_whitespace());
    command
}

/// Whether [`program`] is the shipped program from now on.
static MEASURES: AtomicBool = AtomicBool::new(false);

/// The binary that is under test.
///
/// Cargo builds it for the tests, without optimisation and with all checks, and names it (since
/// 1.94); older ones have put it above the directory of the tests. Trials that measure run after the
/// others, with the shipped program that `LINERATE_SHIPPED` names, if it does.
pub fn program() -> PathBuf {
    let shipped = env::var_os("LINERATE_SHIPPED").filter(|_| MEASURES.load(Relaxed));
    let of_tests = || env::var_os("CARGO_BIN_EXE_linerate");
    let beside_tests = || {
        let test = env::current_exe().expect("/proc is there");
        let build = test.ancestors().nth(2).expect("it is a file of the build");
        build.join("linerate")
    };
    shipped
        .or_else(of_tests)
        .map_or_else(beside_tests, PathBuf::from)
}

/// Copies [`program`] to where others can execute it. A process of its own does that: a file that is open for writing
/// here would be open in every child that another thread forks meanwhile, and could not be executed.
pub fn copy_program(to: &Path) {
    let copied = Command::new("cp").arg(program()).arg(to).status();
    assert!(
        copied.is_ok_and(|status| status.success()),
        "{}",
        to.display()
    );
}

/// Makes [`program`] the shipped one for the rest of this process.
pub(crate) fn measure_shipped_program() -> PathBuf {
    MEASURES.store(true, Relaxed);
    program()
}

/// A stock program with a line of arguments.
pub fn stock(program: &str, arguments: &str) -> Command {
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace());
    command
}

impl Peers {
    /// The `linerate` that is under test, and the original in `/usr/bin`.
    #[expect(
        clippy::new_without_default,
        reason = "what is found on a machine is no default"
    )]
    pub fn new() -> Self {
        Self {
            linerate: program(),
            stock: PathBuf::from("/usr/bin"),
        }
    }

    /// Why the original cannot be run here; `None` if both its programs are there in the right
    /// version.
    pub fn missing(&self) -> Option<String> {
        [Role::Client, Role::Server]
            .into_iter()
            .find_map(|role| wrong_version(&self.stock.join(role.program())))
    }

    /// The program of one make in one role, called by its usual name.
    pub fn command(&self, make: Make, role: Role) -> Command {
        match make {
            Make::Ours => {
                let mut command = Command::new(&self.linerate);
                command.arg(role.program());
                command
            }
            Make::Stock => {
                // By its bare name, which it complains in and prints as its command line, also
                // from inside a namespace.
                let mut command = Command::new(role.program());
                command.env("PATH", self.search_path());
                command
            }
        }
    }

    /// The search path with the original's directory first.
    fn search_path(&self) -> OsString {
        let mut path = self.stock.clone().into_os_string();
        if let Some(rest) = env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        path
    }
}

fn wrong_version(program: &Path) -> Option<String> {
    let output = match Command::new(program).arg("-V").output() {
        Ok(output) => output,
        Err(error) => return Some(format!("no stock {}: {error}", program.display())),
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let version = said.lines().next().unwrap_or_default().trim();
    (version != STOCK_VERSION).then(|| format!("{} is {version:?}, not 2.7.0", program.display()))
}
