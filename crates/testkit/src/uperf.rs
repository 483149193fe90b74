//! Programs of stock uperf. No distribution packages them.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Environment variable with the directory of `uperf-head`, `uperf-1.0.8` and `uperf-1.0.7`.
const DIRECTORY_VARIABLE: &str = "LINERATE_STOCK_UPERF";

/// Directory of the programs, in the checkout or in a directory above it.
const PEERS_DIRECTORY: &str = "shared/peers";

/// A version of stock uperf. The versions are not compatible with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StockUperf {
    /// The development head. It reports version 1.0.8.
    Head,
    /// Release 1.0.8.
    V1_0_8,
    /// Release 1.0.7.
    V1_0_7,
}

impl fmt::Display for StockUperf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Head => "head",
            Self::V1_0_8 => "1.0.8",
            Self::V1_0_7 => "1.0.7",
        })
    }
}

impl StockUperf {
    /// Returns the path of the program, or the reason if it is missing or does not run. The
    /// function searches the directory in `LINERATE_STOCK_UPERF`, `shared/peers` in the checkout or
    /// above it, and the PATH.
    pub fn program(self) -> Result<PathBuf, String> {
        let name = format!("uperf-{self}");
        let mut directories = search_directories();
        let directory = directories
            .find(|directory| directory.join(&name).exists())
            .ok_or_else(|| {
                format!(
                    "no {name} in ${DIRECTORY_VARIABLE}, in {PEERS_DIRECTORY} above the checkout, \
                     or in the PATH; no package has it"
                )
            })?;
        let program = directory.join(name);
        check_runs(&program).map(|()| program)
    }
}

fn search_directories() -> impl Iterator<Item = PathBuf> {
    let from_variable = env::var_os(DIRECTORY_VARIABLE).map(PathBuf::from);
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(2);
    let above_checkout = checkout.map(|directory| directory.join(PEERS_DIRECTORY));
    let path = env::var_os("PATH").unwrap_or_default();
    let path: Vec<_> = env::split_paths(&path).collect();
    from_variable.into_iter().chain(above_checkout).chain(path)
}

/// Checks that the program runs. A library may be missing: libssl3 or libsctp1.
fn check_runs(program: &Path) -> Result<(), String> {
    let path = program.display();
    let output = Command::new(program).arg("-V").output();
    let output = output.map_err(|error| format!("{path}: {error}"))?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    if stdout.starts_with("Uperf Version ") {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{path} does not run: {}", stderr.trim()))
}
