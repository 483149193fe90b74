//! Tests that need something of the machine, and waiting for what a test needs to happen.

use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// What a test cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A program in the PATH.
    Program(&'static str),
    /// The right to make network namespaces.
    Namespaces,
    /// A file, such as a device.
    Path(&'static str),
    /// At least so many processors that it may run on.
    Processors(usize),
}

impl Need {
    /// The reason; `None` if it is here.
    pub fn missing(self) -> Option<String> {
        match self {
            Self::Program(name) => (!installed(name)).then(|| format!("{name} is not installed")),
            Self::Path(path) => (!Path::new(path).exists()).then(|| format!("no {path} here")),
            Self::Processors(least) => {
                let here = std::thread::available_parallelism().map_or(1, usize::from);
                (here < least).then(|| format!("{here} of {least} processors"))
            }
            Self::Namespaces if !rustix::process::geteuid().is_root() => {
                Some("network namespaces need root".to_owned())
            }
            Self::Namespaces => Self::Program("ip").missing(),
        }
    }
}

/// A test with its needs, as [`unless`] has it.
pub fn trial(name: &str, needs: &[Need], run: fn()) -> Trial {
    let missing = needs.iter().find_map(|need| need.missing());
    unless(missing, name, move || {
        run();
        Ok(())
    })
}

/// A test that something of the machine is missing for, if there is a reason: then it is skipped and
/// says why, or fails if that is [`required`].
pub fn unless(
    missing: Option<String>,
    name: impl Into<String>,
    run: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Trial {
    skipped_if(!required(), missing, name.into(), run)
}

/// The same where what is missing is in no package, so that nobody can be required to have it: the test is skipped
/// in any case.
pub fn unless_absent(
    missing: Option<String>,
    name: impl Into<String>,
    run: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Trial {
    skipped_if(true, missing, name.into(), run)
}

fn skipped_if(
    may_be_missing: bool,
    missing: Option<String>,
    name: String,
    run: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Trial {
    let skipped = missing.is_some() && may_be_missing;
    if let (Some(why), true) = (&missing, skipped) {
        println!("SKIPPED {name}: {why}");
    }
    let run = move || missing.map_or_else(run, Err).map_err(Failed::from);
    Trial::test(name, run).with_ignored_flag(skipped)
}

/// Whether what a test cannot do without must be here: `LINERATE_REQUIRE_PEERS=1`.
pub fn required() -> bool {
    std::env::var_os("LINERATE_REQUIRE_PEERS").is_some_and(|value| value == "1")
}

/// Waits until `condition` holds, for `patience` at most; whether it does.
pub fn eventually(patience: Duration, condition: impl FnMut() -> bool) -> bool {
    holds_within(patience, LOOK, condition)
}

/// The same with a look at it every `look`.
pub(crate) fn holds_within(
    patience: Duration,
    look: Duration,
    mut condition: impl FnMut() -> bool,
) -> bool {
    let until = Instant::now() + patience;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(look);
    }
}

/// Whether a program is in the PATH.
fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).exists())
        || Path::new("/usr/sbin").join(program).exists()
}
