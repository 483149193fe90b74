//! Test cases with their requirements, and helpers that wait for a condition.

use std::any::Any;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Interval between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Factor for all timeouts, because a busy machine takes longer.
pub(crate) const BUSY_MACHINE_FACTOR: u32 = 4;

/// Requirement of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// A program in the PATH or in /usr/sbin.
    Program(&'static str),
    /// The permission to create network namespaces.
    Namespaces,
    /// A file, such as a device.
    Path(&'static str),
    /// Minimum number of processors available to this process.
    Processors(usize),
}

impl Requirement {
    /// Returns the reason if the requirement is not met.
    pub fn missing_reason(self) -> Option<String> {
        match self {
            Self::Program(name) => {
                (!is_installed(name)).then(|| format!("{name} is not installed"))
            }
            Self::Path(path) => {
                (!Path::new(path).exists()).then(|| format!("{path} does not exist"))
            }
            Self::Processors(min) => {
                let available = std::thread::available_parallelism().map_or(1, usize::from);
                (available < min).then(|| format!("{available} of {min} processors"))
            }
            Self::Namespaces if !rustix::process::geteuid().is_root() => {
                Some("network namespaces need root".to_owned())
            }
            Self::Namespaces => Self::Program("ip").missing_reason(),
        }
    }
}

/// A test case.
pub struct TestCase {
    pub(crate) name: String,
    /// Reason if a requirement is not met.
    pub(crate) missing_reason: Option<String>,
    /// Whether an unmet requirement always skips the test case; see [`requirements_are_mandatory`].
    pub(crate) is_optional: bool,
    pub(crate) concurrency: Concurrency,
    pub(crate) run: Box<dyn Fn() -> Result<(), String> + Send>,
}

/// Permitted concurrency of a test case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// The test case uses the CPU. By default, one per processor runs at a time, but at most 4.
    Busy,
    /// The test case mostly waits. Many such test cases run at a time.
    Waiting,
    /// The test case compares rates, CPU time or durations. No other test case runs meanwhile.
    Alone,
}

impl TestCase {
    /// Allows many test cases at a time, because this one mostly waits.
    #[must_use]
    pub fn allow_many_at_once(self) -> Self {
        self.with_concurrency(Concurrency::Waiting)
    }

    /// Makes the test case run alone, after those that run in parallel.
    #[must_use]
    pub fn run_alone(self) -> Self {
        self.with_concurrency(Concurrency::Alone)
    }

    /// Sets the concurrency. The default is [`Concurrency::Busy`].
    #[must_use]
    pub fn with_concurrency(mut self, concurrency: Concurrency) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Returns whether the runner skips the test case because of an unmet requirement.
    pub(crate) fn is_skipped(&self) -> bool {
        self.missing_reason.is_some() && (self.is_optional || !requirements_are_mandatory())
    }
}

/// Creates a test case with requirements; see [`test_case_unless`].
pub fn test_case(name: &str, needs: &[Requirement], run: fn()) -> TestCase {
    let missing_reason = needs.iter().find_map(|need| need.missing_reason());
    test_case_unless(missing_reason, name, move || {
        run();
        Ok(())
    })
}

/// Creates test cases with the names of their functions, optionally with requirements (`needing`).
#[macro_export]
macro_rules! test_cases {
    (needing $needs:expr; $($run:ident),* $(,)?) => {
        vec![$($crate::test_case(stringify!($run), $needs, $run)),*]
    };
    ($($run:ident),* $(,)?) => {
        vec![$($crate::test_case(stringify!($run), &[], $run)),*]
    };
}

/// Prefixes the names of the test cases with `prefix` and `::`.
pub fn with_prefix(prefix: &str, test_cases: Vec<TestCase>) -> impl Iterator<Item = TestCase> {
    test_cases.into_iter().map(move |test_case| TestCase {
        name: format!("{prefix}::{}", test_case.name),
        ..test_case
    })
}

/// Creates a test case. If there is a `missing_reason`, the runner skips the test case and prints
/// the reason. If [`requirements_are_mandatory`] returns true, the test case fails instead.
pub fn test_case_unless(
    missing_reason: Option<String>,
    name: impl Into<String>,
    run: impl Fn() -> Result<(), String> + Send + 'static,
) -> TestCase {
    TestCase {
        name: name.into(),
        missing_reason,
        is_optional: false,
        concurrency: Concurrency::Busy,
        run: Box::new(run),
    }
}

/// Creates a test case that is always skipped, and never fails, if there is a `missing_reason`. Use
/// it for requirements that no package provides.
pub fn optional_test_case(
    missing_reason: Option<String>,
    name: impl Into<String>,
    run: impl Fn() -> Result<(), String> + Send + 'static,
) -> TestCase {
    TestCase {
        is_optional: true,
        ..test_case_unless(missing_reason, name, run)
    }
}

/// Returns whether `LINERATE_REQUIRE_PEERS=1` is set: unmet requirements then fail a test case.
pub fn requirements_are_mandatory() -> bool {
    std::env::var_os("LINERATE_REQUIRE_PEERS").is_some_and(|value| value == "1")
}

/// Waits until `condition` returns true. Returns false on a timeout. `timeout` is the time that an
/// idle machine needs; the function waits 4 times as long, because the machine may be busy.
pub fn wait_until(timeout: Duration, condition: impl FnMut() -> bool) -> bool {
    poll_until(timeout * BUSY_MACHINE_FACTOR, POLL_INTERVAL, condition)
}

/// Checks `condition` every `interval` until it returns true. Returns false on a timeout.
pub(crate) fn poll_until(
    timeout: Duration,
    interval: Duration,
    mut condition: impl FnMut() -> bool,
) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(interval);
    }
}

/// Runs each task on a separate thread, and waits for all of them.
///
/// # Panics
///
/// If any task panics, with the messages of all panics.
#[track_caller]
pub fn run_in_parallel<W: FnOnce() + Send>(tasks: impl IntoIterator<Item = W>) {
    let panics: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = tasks.into_iter().map(|task| scope.spawn(task)).collect();
        let panics = threads.into_iter().filter_map(|thread| thread.join().err());
        panics.map(|panic| panic_message(&*panic)).collect()
    });
    assert!(panics.is_empty(), "{}", panics.join("\n"));
}

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}

/// Creates a directory in /tmp with a short name in lower case. Some requests carry at most 31
/// bytes of a path, and uperf converts the words of a profile to lower case.
pub fn short_path_dir() -> TempDir {
    static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);
    let create = || {
        let number = NEXT_NUMBER.fetch_add(1, Relaxed);
        let name = format!("f{}-{number}", std::process::id());
        let mut directory = tempfile::Builder::new();
        directory.prefix(&name).rand_bytes(0).tempdir_in("/tmp")
    };
    // An earlier process with the same id may have left directories.
    let mut directories = (0..1000).filter_map(|_| create().ok());
    directories.next().expect("/tmp is writable")
}

/// A feature of a dialect: its name, options of the server, options of the client.
pub type Feature = (&'static str, &'static str, &'static str);

/// Returns each pair of features, except the `excluded` ones. Names in a pair are in the order of the
/// features.
pub fn feature_pairs(
    features: &'static [Feature],
    excluded: &'static [[&'static str; 2]],
) -> impl Iterator<Item = [&'static Feature; 2]> {
    let one_with_later = |(at, one)| features[at + 1..].iter().map(move |later| [one, later]);
    let pairs = features.iter().enumerate().flat_map(one_with_later);
    pairs.filter(|[one, later]| !excluded.contains(&[one.0, later.0]))
}

/// Returns whether a program is in the PATH or in /usr/sbin.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).exists())
        || Path::new("/usr/sbin").join(program).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_panics_of_threads_are_reported() {
        let tasks = [0, 1, 2].map(|number| move || assert!(number == 1, "number {number}"));
        let panic = std::panic::catch_unwind(|| run_in_parallel(tasks)).unwrap_err();
        assert_eq!(panic_message(&*panic), "number 0\nnumber 2");
    }
}
