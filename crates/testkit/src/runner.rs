//! Runner of test suites. Most test cases run in parallel, and each worker has its own network
//! namespace. Test cases that compare rates or durations run alone at the end.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::namespace::Namespace;
use crate::peer::use_shipped_program;
use crate::standstill::Standstills;
use crate::test_case::{Concurrency, TestCase, panic_message};

/// Number of workers for test cases that mostly wait.
const WAITING_WORKERS: usize = 24;

/// Maximum default number of workers for busy test cases. More workers would compete for the socket
/// memory and the disk.
const MAX_BUSY_WORKERS: usize = 4;

/// Maximum number of runs of a test case that fails while the machine stands still.
const MAX_RUNS: usize = 3;

/// Number of slowest test cases in the summary.
const SLOWEST_COUNT: usize = 10;

/// Exit code if tests failed, the same as of cargo's test runner.
const TESTS_FAILED_EXIT_CODE: u8 = 101;

const USAGE: &str = "\
usage: [FILTER...] [--exact] [--skip FILTER]... [--alone | --not-alone] [--test-threads N] [--list]

  FILTER             run the tests whose names contain one of the filters
  --skip FILTER      skip the tests whose names contain FILTER
  --exact            filters are complete names
  --alone            run only the tests that run alone; --not-alone runs only the others
  --test-threads N   run N busy tests in parallel (default: three per two processors, at most 4)
  --list             print the names of the tests
";

/// A suite: its name and its test cases.
pub type Suite = (&'static str, Vec<TestCase>);

/// Runs the test cases that the command line selects, and prints a summary as cargo's test runner
/// does.
///
/// The full name of a test case is `SUITE::NAME`. Each worker is a thread in its own network
/// namespace. If this machine cannot create namespaces, test cases run one after the other.
pub fn run_suites(suites: Vec<Suite>) -> ExitCode {
    let options = match RunnerOptions::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprint!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let tests = queue_tests(suites);
    let total = tests.len();
    let selected: Vec<QueuedTest> = tests
        .into_iter()
        .filter(|test| options.selects(test))
        .collect();
    if options.list {
        for test in &selected {
            println!("{}: test", test.name);
        }
        return ExitCode::SUCCESS;
    }
    let filtered_out = total - selected.len();
    run(selected, &options).print(filtered_out)
}

/// Returns the full names of the test cases.
pub fn full_names(suites: &[Suite]) -> Vec<String> {
    let suite_names = |(suite, test_cases): &Suite| -> Vec<String> {
        test_cases
            .iter()
            .map(|test_case| format!("{suite}::{}", test_case.name))
            .collect()
    };
    suites.iter().flat_map(suite_names).collect()
}

/// A test case with its suite and its full name.
struct QueuedTest {
    suite: &'static str,
    name: String,
    test_case: TestCase,
}

fn queue_tests(suites: Vec<Suite>) -> Vec<QueuedTest> {
    let queue_suite = |(suite, test_cases): Suite| {
        test_cases.into_iter().map(move |test_case| QueuedTest {
            suite,
            name: format!("{suite}::{}", test_case.name),
            test_case,
        })
    };
    suites.into_iter().flat_map(queue_suite).collect()
}

/// The options of the command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct RunnerOptions {
    filters: Vec<String>,
    skips: Vec<String>,
    exact: bool,
    list: bool,
    /// `Some(true)`: only test cases that run alone. `Some(false)`: only the others.
    alone: Option<bool>,
    threads: Option<usize>,
}

impl RunnerOptions {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--exact" => options.exact = true,
                "--list" => options.list = true,
                "--alone" => options.alone = Some(true),
                "--not-alone" => options.alone = Some(false),
                // The runner never captures output.
                "--nocapture" | "--no-capture" | "--show-output" => {}
                "--skip" => options.skips.extend(words.next()),
                "--test-threads" => {
                    let number = words.next().and_then(|word| word.parse().ok());
                    options.threads = Some(number.ok_or("--test-threads needs a number")?);
                }
                word if word.starts_with('-') => return Err(format!("unknown option {word}")),
                _ => options.filters.push(word),
            }
        }
        Ok(options)
    }

    fn selects(&self, test: &QueuedTest) -> bool {
        let runs_alone = test.test_case.concurrency == Concurrency::Alone;
        self.alone.is_none_or(|alone| alone == runs_alone) && self.matches_name(&test.name)
    }

    fn matches_name(&self, name: &str) -> bool {
        let is_match = |filter: &String| {
            if self.exact {
                name == filter
            } else {
                name.contains(filter)
            }
        };
        let is_included = self.filters.is_empty() || self.filters.iter().any(is_match);
        is_included && !self.skips.iter().any(is_match)
    }

    fn busy_workers(&self, has_namespaces: bool) -> usize {
        if !has_namespaces {
            return 1;
        }
        let processors = thread::available_parallelism().map_or(1, usize::from);
        // Busy tests also wait, for a third of their time.
        let default = (processors + processors.div_ceil(2)).min(MAX_BUSY_WORKERS);
        self.threads.unwrap_or(default).max(1)
    }
}

/// The standstills of this machine while the tests run.
static STANDSTILLS: Standstills = Standstills::new();

/// Runs the tests and returns their results, in the order in which they ended.
fn run(tests: Vec<QueuedTest>, options: &RunnerOptions) -> SuiteResults {
    STANDSTILLS.watch();
    let results = Mutex::new(SuiteResults {
        results: Vec::new(),
        started: Instant::now(),
    });
    let has_namespaces = Namespace::missing_reason().is_none();
    let (skipped, tests) = split(tests, TestCase::is_skipped);
    for test in skipped {
        println!(
            "SKIPPED {}: {}",
            test.name,
            test.test_case.missing_reason.unwrap_or_default()
        );
        record_result(
            &results,
            test.suite,
            test.name,
            Verdict::Skipped,
            Duration::ZERO,
        );
    }
    let (alone, others) = split(tests, |test_case| {
        test_case.concurrency == Concurrency::Alone
    });
    let (waiting, busy) = split(others, |test_case| {
        test_case.concurrency == Concurrency::Waiting && has_namespaces
    });
    let workers = options.busy_workers(has_namespaces);
    println!(
        "running {} tests: {} busy by {workers} workers, {} waiting, then {} alone",
        busy.len() + waiting.len() + alone.len(),
        busy.len(),
        waiting.len(),
        alone.len(),
    );
    let run_with_workers = |tests: Vec<QueuedTest>, workers: usize| {
        let queue = Mutex::new(tests.into_iter());
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| run_queue(&queue, &results, has_namespaces));
            }
        });
    };
    thread::scope(|scope| {
        scope.spawn(|| run_with_workers(busy, workers));
        scope.spawn(|| run_with_workers(waiting, WAITING_WORKERS));
    });
    if !alone.is_empty() {
        let program = use_shipped_program();
        println!(
            "running the tests that run alone, with {}",
            program.display()
        );
        run_with_workers(alone, 1);
    }
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Splits the tests into those for which `is_match` returns true, and the others.
fn split(
    tests: Vec<QueuedTest>,
    is_match: impl Fn(&TestCase) -> bool,
) -> (Vec<QueuedTest>, Vec<QueuedTest>) {
    tests
        .into_iter()
        .partition(|test| is_match(&test.test_case))
}

/// Runs tests from the queue until it is empty, in a network namespace of this thread.
fn run_queue(
    queue: &Mutex<impl Iterator<Item = QueuedTest>>,
    results: &Mutex<SuiteResults>,
    has_namespaces: bool,
) {
    let mut namespace = None;
    // The lock is released before the test runs.
    let next_test = || lock(queue).next();
    while let Some(test) = next_test() {
        if has_namespaces {
            namespace.get_or_insert_with(Namespace::enter_new);
        }
        let started = Instant::now();
        let verdict = run_despite_standstills(&test, &STANDSTILLS);
        record_result(results, test.suite, test.name, verdict, started.elapsed());
    }
}

/// Runs a test. Repeats it if it fails and the machine stood still meanwhile, because then its
/// deadlines passed.
fn run_despite_standstills(test: &QueuedTest, standstills: &Standstills) -> Verdict {
    for _ in 1..MAX_RUNS {
        let started = Instant::now();
        let verdict = run_test_case(&test.test_case);
        let Verdict::Failed(reason) = &verdict else {
            return verdict;
        };
        let Some(standstill) = standstills.since(started) else {
            return verdict;
        };
        println!(
            "test {} is repeated, because the machine stood still for {:.1} s: {reason}",
            test.name,
            standstill.as_secs_f64()
        );
    }
    run_test_case(&test.test_case)
}

/// Runs a test case. A panic is a failure.
fn run_test_case(test_case: &TestCase) -> Verdict {
    if let Some(reason) = &test_case.missing_reason {
        return Verdict::Failed(reason.clone());
    }
    match catch_unwind(AssertUnwindSafe(&test_case.run)) {
        Ok(Ok(())) => Verdict::Passed,
        Ok(Err(reason)) => Verdict::Failed(reason),
        Err(panic) => Verdict::Failed(panic_message(&*panic)),
    }
}

/// The results of the tests, in the order in which they ended.
struct SuiteResults {
    results: Vec<TestResult>,
    started: Instant,
}

struct TestResult {
    suite: &'static str,
    name: String,
    verdict: Verdict,
    duration: Duration,
}

enum Verdict {
    Passed,
    Failed(String),
    Skipped,
}

fn record_result(
    results: &Mutex<SuiteResults>,
    suite: &'static str,
    name: String,
    verdict: Verdict,
    duration: Duration,
) {
    let mut results = lock(results);
    let status = match verdict {
        Verdict::Passed => "ok",
        Verdict::Failed(_) => "FAILED",
        Verdict::Skipped => "ignored",
    };
    println!("test {name} ... {status}, {:.1} s", duration.as_secs_f64());
    results.results.push(TestResult {
        suite,
        name,
        verdict,
        duration,
    });
}

impl SuiteResults {
    /// Prints the failures, the time per suite, the slowest tests, and the totals. Returns the exit
    /// code.
    fn print(&self, filtered_out: usize) -> ExitCode {
        let mut counts = [0; 3];
        for result in &self.results {
            match &result.verdict {
                Verdict::Passed => counts[0] += 1,
                Verdict::Failed(reason) => {
                    println!("\n---- {} ----\n{reason}", result.name);
                    counts[1] += 1;
                }
                Verdict::Skipped => counts[2] += 1,
            }
        }
        self.print_times();
        let [passed, failed, skipped] = counts;
        let verdict = if failed == 0 { "ok" } else { "FAILED" };
        println!(
            "\ntest result: {verdict}. {passed} passed; {failed} failed; {skipped} ignored; 0 measured; \
             {filtered_out} filtered out; finished in {:.2}s",
            self.started.elapsed().as_secs_f64()
        );
        ExitCode::from(if failed == 0 {
            0
        } else {
            TESTS_FAILED_EXIT_CODE
        })
    }

    fn print_times(&self) {
        let mut suites: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
        for result in &self.results {
            let (count, duration) = suites.entry(result.suite).or_default();
            *count += 1;
            *duration += result.duration;
        }
        println!("\nseconds  tests  suite");
        for (suite, (count, duration)) in suites {
            println!("{:7.1}  {count:5}  {suite}", duration.as_secs_f64());
        }
        let mut slowest: Vec<&TestResult> = self.results.iter().collect();
        slowest.sort_by_key(|result| std::cmp::Reverse(result.duration));
        println!("\nseconds  slowest tests");
        for result in slowest.iter().take(SLOWEST_COUNT) {
            println!("{:7.1}  {}", result.duration.as_secs_f64(), result.name);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    fn options(line: &str) -> RunnerOptions {
        RunnerOptions::parse(line.split_whitespace().map(str::to_owned)).expect("valid arguments")
    }

    #[test]
    fn arguments_select_tests() {
        for (line, name, selected) in [
            ("", "a::b", true),
            ("a::", "a::b", true),
            ("c b", "a::b", true),
            ("c", "a::b", false),
            ("--exact a::", "a::b", false),
            ("--exact a::b", "a::b", true),
            ("--skip b", "a::b", false),
            ("a --skip c --nocapture", "a::b", true),
        ] {
            assert_eq!(options(line).matches_name(name), selected, "{line}");
        }
        assert_eq!(options("--test-threads 3").threads, Some(3));
        assert_eq!(options("--not-alone").alone, Some(false));
        let error = RunnerOptions::parse(["--what".to_owned()].into_iter());
        assert!(error.is_err());
    }

    #[test]
    fn a_test_that_fails_in_a_standstill_runs_again() {
        static STANDSTILLS: Standstills = Standstills::new();
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let cpu = STANDSTILLS.add(Instant::now());
        let run = move || {
            if RUNS.fetch_add(1, Relaxed) > 0 {
                return Ok(());
            }
            STANDSTILLS.look(cpu, Instant::now() + Duration::from_secs(60));
            Err("a deadline has passed".to_owned())
        };
        let test = QueuedTest {
            suite: "suite",
            name: "suite::name".to_owned(),
            test_case: crate::test_case_unless(None, "name", run),
        };
        let verdict = run_despite_standstills(&test, &STANDSTILLS);
        assert!(matches!(verdict, Verdict::Passed));
        assert_eq!(RUNS.load(Relaxed), 2);
    }

    #[test]
    fn unmet_requirements_errors_and_panics_fail() {
        let verdict_of = |missing_reason: Option<&str>, run: fn() -> Result<(), String>| {
            run_test_case(&crate::test_case_unless(
                missing_reason.map(str::to_owned),
                "name",
                run,
            ))
        };
        assert!(matches!(verdict_of(None, || Ok(())), Verdict::Passed));
        for (verdict, expected) in [
            (verdict_of(None, || Err("wrong".to_owned())), "wrong"),
            (verdict_of(None, || panic!("worse {}", 1)), "worse 1"),
            (verdict_of(Some("no peer"), || Ok(())), "no peer"),
        ] {
            assert!(matches!(verdict, Verdict::Failed(reason) if reason == expected));
        }
    }
}
