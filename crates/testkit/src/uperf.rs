//! Stock uperf, which no distribution packages.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory of `uperf-head`, `uperf-1.0.8` and `uperf-1.0.7`.
const DIRECTORY: &str = "LINERATE_STOCK_UPERF";

/// Where they are beside a checkout, or beside a directory above it.
const BESIDE: &str = "shared/peers";

/// A version of stock uperf. Those of different versions do not understand each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uperf {
    /// The development head, which calls itself 1.0.8.
    Head,
    /// The release.
    V1_0_8,
    /// The release before it.
    V1_0_7,
}

impl fmt::Display for Uperf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Head => "head",
            Self::V1_0_8 => "1.0.8",
            Self::V1_0_7 => "1.0.7",
        })
    }
}

impl Uperf {
    /// Its program: in the directory that `LINERATE_STOCK_UPERF` names, in `shared/peers` beside the checkout or
    /// above it, or in the PATH. The error says why there is none.
    pub fn program(self) -> Result<PathBuf, String> {
        let name = format!("uperf-{self}");
        let mut directories = directories();
        let found = directories
            .find(|directory| directory.join(&name).exists())
            .ok_or_else(|| {
                format!("no {name} in ${DIRECTORY}, in {BESIDE} above the checkout, or in the PATH; no package has it")
            })?;
        let program = found.join(name);
        runs(&program).map(|()| program)
    }
}

fn directories() -> impl Iterator<Item = PathBuf> {
    let named = env::var_os(DIRECTORY).map(PathBuf::from);
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().skip(2);
    let beside = checkout.map(|above| above.join(BESIDE));
    let path = env::var_os("PATH").unwrap_or_default();
    let path: Vec<_> = env::split_paths(&path).collect();
    named.into_iter().chain(beside).chain(path)
}

/// It may lack a library: libssl3 and libsctp1.
fn runs(program: &Path) -> Result<(), String> {
    let shown = program.display();
    let output = Command::new(program).arg("-V").output();
    let output = output.map_err(|error| format!("{shown}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if said.starts_with("Uperf Version ") {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    Err(format!("{shown} does not run: {}", why.trim()))
}
