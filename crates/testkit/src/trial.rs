//! Tests that need something of the machine, and waiting for what a test needs to happen.

use std::any::Any;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// How many times as long as a quiet machine a busy one may take.
pub(crate) const BUSY: u32 = 4;

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

/// A test case.
pub struct Trial {
    pub(crate) name: String,
    /// What this machine lacks for it.
    pub(crate) missing: Option<String>,
    /// Whether it is skipped without that even where peers are [`required`].
    pub(crate) is_optional: bool,
    pub(crate) load: Load,
    pub(crate) run: Box<dyn FnOnce() -> Result<(), String> + Send>,
}

/// What may run beside a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// It works: one per processor runs at a time.
    Works,
    /// It mostly waits: many run at a time.
    Waits,
    /// It compares rates, CPU time or durations: nothing runs beside it.
    Quiet,
}

impl Trial {
    /// The same, which mostly waits.
    #[must_use]
    pub fn waiting(self) -> Self {
        self.with_load(Load::Waits)
    }

    /// The same, which runs with nothing beside it, after the others.
    #[must_use]
    pub fn quiet(self) -> Self {
        self.with_load(Load::Quiet)
    }

    /// The same with another load; without a word it is [`Load::Works`].
    #[must_use]
    pub fn with_load(mut self, load: Load) -> Self {
        self.load = load;
        self
    }

    /// Whether it lacks something that it may lack.
    pub(crate) fn is_skipped(&self) -> bool {
        self.missing.is_some() && (self.is_optional || !required())
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

/// Trials by the names of their functions, which need nothing or `needing` these.
#[macro_export]
macro_rules! trials {
    (needing $needs:expr; $($run:ident),* $(,)?) => {
        vec![$($crate::trial(stringify!($run), $needs, $run)),*]
    };
    ($($run:ident),* $(,)?) => {
        vec![$($crate::trial(stringify!($run), &[], $run)),*]
    };
}

/// The same trials, their names within `part`.
pub fn within(part: &str, trials: Vec<Trial>) -> impl Iterator<Item = Trial> {
    trials.into_iter().map(move |trial| Trial {
        name: format!("{part}::{}", trial.name),
        ..trial
    })
}

/// A test that something of the machine is missing for, if there is a reason: then it is skipped and
/// says why, or fails if that is [`required`].
pub fn unless(
    missing: Option<String>,
    name: impl Into<String>,
    run: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Trial {
    Trial {
        name: name.into(),
        missing,
        is_optional: false,
        load: Load::Works,
        run: Box::new(run),
    }
}

/// The same where what is missing is in no package, so that nobody can be required to have it: the test is skipped
/// in any case.
pub fn unless_absent(
    missing: Option<String>,
    name: impl Into<String>,
    run: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Trial {
    Trial {
        is_optional: true,
        ..unless(missing, name, run)
    }
}

/// Whether what a test cannot do without must be here: `LINERATE_REQUIRE_PEERS=1`.
pub fn required() -> bool {
    std::env::var_os("LINERATE_REQUIRE_PEERS").is_some_and(|value| value == "1")
}

/// Waits until `condition` holds, for as long as a busy machine takes for what a quiet one does in `patience`;
/// whether it does.
pub fn eventually(patience: Duration, condition: impl FnMut() -> bool) -> bool {
    holds_within(patience * BUSY, LOOK, condition)
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

/// Runs each piece of work on a thread of its own, and waits for all of them.
///
/// # Panics
///
/// If any of them panics, with the messages of all that did.
#[track_caller]
pub fn side_by_side<W: FnOnce() + Send>(works: impl IntoIterator<Item = W>) {
    let panics: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = works.into_iter().map(|work| scope.spawn(work)).collect();
        let panics = threads.into_iter().filter_map(|thread| thread.join().err());
        panics.map(|panic| message(&*panic)).collect()
    });
    assert!(panics.is_empty(), "{}", panics.join("\n"));
}

/// The text of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}

/// A new directory in /tmp whose name is short, for requests that have room for 31 bytes of a path, and in
/// lower case, to which uperf folds the words of a profile.
pub fn short_directory() -> TempDir {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let new = || {
        let name = format!("f{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let mut directory = tempfile::Builder::new();
        directory.prefix(&name).rand_bytes(0).tempdir_in("/tmp")
    };
    // An earlier process with the same number may have left some.
    let mut tries = (0..1000).filter_map(|_| new().ok());
    tries.next().expect("/tmp is writable")
}

/// Whether a program is in the PATH.
fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).exists())
        || Path::new("/usr/sbin").join(program).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_panic_of_a_thread_is_shown() {
        let works = [0, 1, 2].map(|number| move || assert!(number == 1, "number {number}"));
        let panic = std::panic::catch_unwind(|| side_by_side(works)).unwrap_err();
        assert_eq!(message(&*panic), "number 0\nnumber 2");
    }
}
