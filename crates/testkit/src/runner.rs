//! Runs suites of trials: most of them side by side, each worker on a host of its own, and those that
//! measure alone at the end.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::namespace::Namespace;
use crate::peer::measure_shipped_program;
use crate::trial::{Load, Trial, message};

/// Workers for trials that mostly wait.
const WAITING_WORKERS: usize = 24;

/// More workers would share what the machine has one of: the memory of its sockets, the disk.
const MOST_BUSY_WORKERS: usize = 4;

/// How many of the slowest trials the summary names.
const SLOWEST: usize = 10;

/// The exit code of a test runner whose tests failed.
const TESTS_FAILED: u8 = 101;

const USAGE: &str = "\
usage: [FILTER...] [--exact] [--skip FILTER]... [--quiet | --no-quiet] [--test-threads N] [--list]

  FILTER             run the trials whose names contain one of these
  --skip FILTER      leave out the trials whose names contain it
  --exact            filters are whole names
  --quiet            run only the trials that run alone, --no-quiet only the others
  --test-threads N   run N busy trials at a time (default: one per processor, at most 4)
  --list             print the names of the trials
";

/// The trials of a suite, by its name.
pub type Suite = (&'static str, Vec<Trial>);

/// Runs what the command line selects of the suites and prints a sum as cargo's test runner does.
///
/// The full name of a trial is `SUITE::NAME`. Each worker is a thread in a network namespace of its
/// own. A machine that cannot make namespaces runs one trial at a time.
pub fn run_suites(suites: Vec<Suite>) -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(complaint) => {
            eprint!("{complaint}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let jobs = jobs(suites);
    let total = jobs.len();
    let chosen: Vec<Job> = jobs
        .into_iter()
        .filter(|job| options.selects(job))
        .collect();
    if options.list {
        for job in &chosen {
            println!("{}: test", job.name);
        }
        return ExitCode::SUCCESS;
    }
    let filtered_out = total - chosen.len();
    run(chosen, &options).print(filtered_out)
}

/// The full names of the trials.
pub fn names(suites: &[Suite]) -> Vec<String> {
    let of_suite = |(suite, trials): &Suite| -> Vec<String> {
        let names = trials.iter();
        names
            .map(|trial| format!("{suite}::{}", trial.name))
            .collect()
    };
    suites.iter().flat_map(of_suite).collect()
}

/// A trial with its suite and its full name.
struct Job {
    suite: &'static str,
    name: String,
    trial: Trial,
}

fn jobs(suites: Vec<Suite>) -> Vec<Job> {
    let of_suite = |(suite, trials): Suite| {
        trials.into_iter().map(move |trial| Job {
            suite,
            name: format!("{suite}::{}", trial.name),
            trial,
        })
    };
    suites.into_iter().flat_map(of_suite).collect()
}

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    filters: Vec<String>,
    skips: Vec<String>,
    exact: bool,
    list: bool,
    /// Whether only trials that run alone, or only the others.
    quiet: Option<bool>,
    threads: Option<usize>,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--exact" => options.exact = true,
                "--list" => options.list = true,
                "--quiet" => options.quiet = Some(true),
                "--no-quiet" => options.quiet = Some(false),
                // Nothing is captured.
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

    fn selects(&self, job: &Job) -> bool {
        let is_quiet = job.trial.load == Load::Quiet;
        self.quiet.is_none_or(|quiet| quiet == is_quiet) && self.names(&job.name)
    }

    fn names(&self, name: &str) -> bool {
        let matches = |filter: &String| {
            if self.exact {
                name == filter
            } else {
                name.contains(filter)
            }
        };
        let wanted = self.filters.is_empty() || self.filters.iter().any(matches);
        wanted && !self.skips.iter().any(matches)
    }

    fn busy_workers(&self, has_hosts: bool) -> usize {
        if !has_hosts {
            return 1;
        }
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let default = processors.min(MOST_BUSY_WORKERS);
        self.threads.unwrap_or(default).max(1)
    }
}

/// Runs the jobs and returns how they ended, in that order.
fn run(jobs: Vec<Job>, options: &Options) -> Results {
    let results = Mutex::new(Results {
        ended: Vec::new(),
        begun: Instant::now(),
    });
    let has_hosts = Namespace::missing().is_none();
    let (skipped, jobs) = split(jobs, Trial::is_skipped);
    for job in skipped {
        println!(
            "SKIPPED {}: {}",
            job.name,
            job.trial.missing.unwrap_or_default()
        );
        record(
            &results,
            job.suite,
            job.name,
            Verdict::Skipped,
            Duration::ZERO,
        );
    }
    let (alone, others) = split(jobs, |trial| trial.load == Load::Quiet);
    let (waiting, busy) = split(others, |trial| trial.load == Load::Waits && has_hosts);
    let workers = options.busy_workers(has_hosts);
    println!(
        "running {} tests: {} by {workers} workers, {} that wait, then {} alone",
        busy.len() + waiting.len() + alone.len(),
        busy.len(),
        waiting.len(),
        alone.len(),
    );
    let work_off = |jobs: Vec<Job>, workers: usize| {
        let queue = Mutex::new(jobs.into_iter());
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| work(&queue, &results, has_hosts));
            }
        });
    };
    thread::scope(|scope| {
        scope.spawn(|| work_off(busy, workers));
        scope.spawn(|| work_off(waiting, WAITING_WORKERS));
    });
    if !alone.is_empty() {
        let program = measure_shipped_program();
        println!("one at a time, with {}", program.display());
        work_off(alone, 1);
    }
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// The jobs whose trials are like this, and the others.
fn split(jobs: Vec<Job>, is_like_this: impl Fn(&Trial) -> bool) -> (Vec<Job>, Vec<Job>) {
    jobs.into_iter().partition(|job| is_like_this(&job.trial))
}

/// Takes jobs from the queue until it is empty, on a host of this thread's own.
fn work(queue: &Mutex<impl Iterator<Item = Job>>, results: &Mutex<Results>, has_hosts: bool) {
    let mut host = None;
    // The lock is not held while the job runs.
    let next = || lock(queue).next();
    while let Some(job) = next() {
        if has_hosts {
            host.get_or_insert_with(Namespace::of_this_thread);
        }
        let begun = Instant::now();
        let verdict = attempt(job.trial);
        record(results, job.suite, job.name, verdict, begun.elapsed());
    }
}

/// Runs a trial to its end, by panic or otherwise.
fn attempt(trial: Trial) -> Verdict {
    if let Some(why) = trial.missing {
        return Verdict::Failed(why);
    }
    match catch_unwind(AssertUnwindSafe(trial.run)) {
        Ok(Ok(())) => Verdict::Passed,
        Ok(Err(why)) => Verdict::Failed(why),
        Err(panic) => Verdict::Failed(message(&*panic)),
    }
}

/// How trials ended, in this order.
struct Results {
    ended: Vec<Ended>,
    begun: Instant,
}

struct Ended {
    suite: &'static str,
    name: String,
    verdict: Verdict,
    took: Duration,
}

enum Verdict {
    Passed,
    Failed(String),
    Skipped,
}

fn record(
    results: &Mutex<Results>,
    suite: &'static str,
    name: String,
    verdict: Verdict,
    took: Duration,
) {
    let mut results = lock(results);
    let word = match verdict {
        Verdict::Passed => "ok",
        Verdict::Failed(_) => "FAILED",
        Verdict::Skipped => "ignored",
    };
    println!("test {name} ... {word}, {:.1} s", took.as_secs_f64());
    results.ended.push(Ended {
        suite,
        name,
        verdict,
        took,
    });
}

impl Results {
    /// What failed and why, what each suite took, the slowest trials, and the sum.
    fn print(&self, filtered_out: usize) -> ExitCode {
        let mut counts = [0; 3];
        for ended in &self.ended {
            match &ended.verdict {
                Verdict::Passed => counts[0] += 1,
                Verdict::Failed(why) => {
                    println!("\n---- {} ----\n{why}", ended.name);
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
            self.begun.elapsed().as_secs_f64()
        );
        ExitCode::from(if failed == 0 { 0 } else { TESTS_FAILED })
    }

    fn print_times(&self) {
        let mut suites: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
        for ended in &self.ended {
            let (count, took) = suites.entry(ended.suite).or_default();
            *count += 1;
            *took += ended.took;
        }
        println!("\nseconds  tests  suite");
        for (suite, (count, took)) in suites {
            println!("{:7.1}  {count:5}  {suite}", took.as_secs_f64());
        }
        let mut slowest: Vec<&Ended> = self.ended.iter().collect();
        slowest.sort_by_key(|ended| std::cmp::Reverse(ended.took));
        println!("\nseconds  slowest tests");
        for ended in slowest.iter().take(SLOWEST) {
            println!("{:7.1}  {}", ended.took.as_secs_f64(), ended.name);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Options {
        Options::parse(line.split_whitespace().map(str::to_owned)).expect("a good line")
    }

    #[test]
    fn what_a_line_selects() {
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
            assert_eq!(options(line).names(name), selected, "{line}");
        }
        assert_eq!(options("--test-threads 3").threads, Some(3));
        assert_eq!(options("--no-quiet").quiet, Some(false));
        let refused = Options::parse(["--what".to_owned()].into_iter());
        assert!(refused.is_err());
    }

    #[test]
    fn how_a_trial_ends() {
        let trial = |missing: Option<&str>, run: fn() -> Result<(), String>| {
            attempt(crate::unless(missing.map(str::to_owned), "name", run))
        };
        assert!(matches!(trial(None, || Ok(())), Verdict::Passed));
        for (verdict, expected) in [
            (trial(None, || Err("wrong".to_owned())), "wrong"),
            (trial(None, || panic!("worse {}", 1)), "worse 1"),
            (trial(Some("no peer"), || Ok(())), "no peer"),
        ] {
            assert!(matches!(verdict, Verdict::Failed(why) if why == expected));
        }
    }
}
