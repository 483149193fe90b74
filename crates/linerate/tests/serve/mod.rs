//! `linerate serve` with clients of all dialects at once. Some clients are killed, some are
//! hostile, and signals end the server.
//!
//! Rounds are short by default. With `LINERATE_LONG=1` in the environment they have full size.

mod budget;
mod clients;
mod hostile;
mod restart;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testkit::Requirement::Namespaces;
use testkit::{
    ProcessOutput, Server, TestCase, TestProcess, linerate_with_args, test_case, wait_until,
};

use clients::{CLIENTS, Client};

/// Timeout of a client, in addition to the time of its test.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout of sessions with killed clients. A UDPmon session ends after 60 s.
const SESSION_TIMEOUT: Duration = Duration::from_secs(70);

/// Permitted growth of the resident memory. The allocator returns memory in parts.
const MAX_GROWTH_KIB: u64 = 8 << 10;

/// The default ports of the dialects.
struct Ports {
    netperf: u16,
    uperf: u16,
    iperf: u16,
    iperf3: u16,
    udpmon: u16,
}

const PORTS: Ports = Ports {
    netperf: 12865,
    uperf: 20000,
    iperf: 5001,
    iperf3: 5201,
    udpmon: 14233,
};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = [
        test_case(
            "serves_five_dialects_at_once",
            &[Namespaces],
            serves_five_dialects_at_once,
        ),
        test_case(
            "serves_many_clients_while_some_are_killed",
            &[Namespaces],
            serves_many_clients_while_some_are_killed,
        ),
    ];
    let test_cases = test_cases
        .into_iter()
        .chain(budget::test_cases())
        .chain(hostile::test_cases())
        .chain(restart::test_cases());
    test_cases.map(TestCase::allow_many_at_once).collect()
}

/// Returns the full size of a round if `LINERATE_LONG=1`, or else the short size.
fn size<T>(full: T, short: T) -> T {
    let is_long = std::env::var_os("LINERATE_LONG").is_some_and(|value| value == "1");
    if is_long { full } else { short }
}

/// A server of all dialects on their default ports.
struct Serving {
    server: Server,
    /// Contains the status socket and the clients' profiles.
    directory: TempDir,
}

impl Serving {
    fn start(options: &str) -> Self {
        Self::start_as(options, linerate_with_args)
    }

    /// Starts the command that `command` returns for the arguments.
    fn start_as(options: &str, command: impl Fn(&str) -> Command) -> Self {
        let directory = testkit::short_path_dir();
        let status = directory.path().join("status");
        let line = format!("serve --log json --status {} {options}", status.display());
        let server = Server::start_at(PORTS.netperf, command(&line));
        let is_listening = || server.stderr().contains("listening");
        assert!(wait_until(TIMEOUT, is_listening), "{}", server.stderr());
        Self { server, directory }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the clients whose program is installed. Prints those that are skipped.
    fn available_clients() -> Vec<&'static Client> {
        let is_available = |client: &&Client| {
            let missing = client.missing_reason();
            if let Some(reason) = &missing {
                assert!(!testkit::requirements_are_mandatory(), "{reason}");
                println!("SKIPPED {} {}: {reason}", client.dialect, client.name);
            }
            missing.is_none()
        };
        CLIENTS.iter().filter(is_available).collect()
    }

    fn start_client(&self, client: &Client, seconds: u32) -> TestProcess {
        TestProcess::start(&mut client.command(seconds, self.path()))
    }

    /// Returns the lines of the log up to now.
    fn log(&self) -> Vec<Value> {
        parse_lines(&self.server.stdout())
    }

    /// Returns the running tests, as `linerate status` reports them.
    fn running_tests(&self) -> Vec<Value> {
        let path = self.path().join("status");
        let line = format!("status --json --status {}", path.display());
        // On a busy machine `linerate status` may time out.
        let mut status =
            testkit::run(linerate_with_args(&line), TIMEOUT).expect("the program ends");
        for _ in 0..3 {
            if status.code != Some(0) {
                status =
                    testkit::run(linerate_with_args(&line), TIMEOUT).expect("the program ends");
            }
        }
        status.assert_success();
        let document: Value = serde_json::from_str(&status.stdout).expect("a document");
        document["tests"]
            .as_array()
            .expect("a list of tests")
            .clone()
    }

    /// Waits until `count` tests of honest clients are running.
    #[track_caller]
    fn await_tests(&self, count: usize) {
        let mut tests = Vec::new();
        let are_running = wait_until(TIMEOUT, || {
            tests = self.running_tests();
            tests.iter().filter(|test| is_honest(test)).count() == count
        });
        let stderr = self.server.stderr();
        assert!(are_running, "expected {count} tests: {tests:#?}; {stderr}");
    }

    /// Waits until no test is running.
    #[track_caller]
    fn await_idle(&self, timeout: Duration) {
        let is_idle = wait_until(timeout, || self.running_tests().is_empty());
        assert!(is_idle, "{:#?}", self.running_tests());
    }

    /// Runs a test of each client, which must succeed.
    fn assert_serves(&self) {
        let clients = Self::available_clients().into_iter();
        let processes: Vec<_> = clients.map(|client| self.start_client(client, 1)).collect();
        for client in processes {
            client.finish(TIMEOUT).assert_success();
        }
    }
}

/// Returns whether it is a test of an honest client. Hostile bytes come from other addresses.
fn is_honest(test: &Value) -> bool {
    test["peer"]
        .as_str()
        .is_some_and(|peer| peer.contains("127.0.0.1"))
}

fn parse_lines(log: &str) -> Vec<Value> {
    let line =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    log.lines().map(line).collect()
}

/// Groups lines by dialect.
fn group_by_dialect(lines: Vec<Value>) -> BTreeMap<String, Vec<Value>> {
    let mut groups = BTreeMap::<String, Vec<Value>>::new();
    for line in lines {
        let dialect = line["dialect"].as_str().expect("a name").to_owned();
        groups.entry(dialect).or_default().push(line);
    }
    groups
}

/// Checks that each client succeeded and has exactly one matching line in the log.
#[track_caller]
fn assert_log_matches(mut results: Vec<(&Client, ProcessOutput)>, seconds: u32, log: Vec<Value>) {
    let mut lines = group_by_dialect(log);
    // Start with clients that report exact counts, because others match more lines.
    results.sort_by_key(|(client, output)| client.received_bytes(output));
    for (client, output) in results {
        let context = format!("{} {}: {output:#?}", client.dialect, client.name);
        assert_eq!(output.code, Some(0), "{context}");
        let candidates = lines.entry(client.dialect.to_owned()).or_default();
        let mismatch = |line: &Value| client.mismatch(&output, seconds, line);
        let index = candidates.iter().position(|line| mismatch(line).is_none());
        let index = index.unwrap_or_else(|| {
            let mismatches: Vec<_> = candidates
                .iter()
                .map(|line| (mismatch(line), line))
                .collect();
            panic!("no line matches {context}\n{mismatches:#?}");
        });
        candidates.remove(index);
    }
    lines.retain(|_, lines| !lines.is_empty());
    assert!(lines.is_empty(), "lines without a client: {lines:#?}");
}

fn serves_five_dialects_at_once() {
    let seconds = size(60, 5);
    let serving = Serving::start("");
    serving.assert_serves();
    let idle_usage = serving.server.settled_usage();
    let (old_lines, idle_kib) = (serving.log().len(), serving.server.resident_kib());
    let clients = Serving::available_clients();
    let processes: Vec<_> = clients
        .iter()
        .map(|client| (*client, serving.start_client(client, seconds)))
        .collect();
    serving.await_tests(clients.len());

    // The status contains all tests until the first test ends.
    let expected = count_dialects(clients.iter().map(|client| client.dialect));
    let mut max_kib = 0;
    loop {
        let has_ended = serving.log().len() > old_lines;
        let tests = serving.running_tests();
        max_kib = max_kib.max(serving.server.resident_kib());
        if has_ended || serving.log().len() > old_lines {
            break;
        }
        assert_eq!(
            count_dialects(tests.iter().filter_map(|test| test["dialect"].as_str())),
            expected,
            "{tests:#?}"
        );
        for test in &tests {
            assert!(is_honest(test), "{test:#}");
            assert_eq!(
                test["overlapping_tests"].as_u64(),
                Some(clients.len() as u64 - 1),
                "{test:#}"
            );
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let timeout = TIMEOUT + Duration::from_secs(seconds.into());
    let results: Vec<_> = processes
        .into_iter()
        .map(|(client, process)| (client, process.finish(timeout)))
        .collect();
    serving.await_idle(TIMEOUT);
    let log = serving.log().split_off(old_lines);
    for line in &log {
        assert!(line["overlapping_tests"].as_u64() > Some(0), "{line:#}");
    }
    assert_log_matches(results, seconds, log);
    serving
        .server
        .assert_usage_returns_to(idle_usage, TIMEOUT, "five dialects");
    assert!(
        max_kib <= idle_kib + MAX_GROWTH_KIB,
        "{max_kib} KiB, idle {idle_kib} KiB"
    );
    serving.server.terminate().assert_success();
}

fn count_dialects<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

fn serves_many_clients_while_some_are_killed() {
    let (count, kill_count) = size((200, 20), (48, 6));
    let serving = Serving::start("");
    let clients = Serving::available_clients();
    // After the first round the allocator keeps memory.
    for _ in 0..2 {
        let processes: Vec<_> = clients
            .iter()
            .cycle()
            .take(count)
            .map(|client| serving.start_client(client, 1))
            .collect();
        for client in processes {
            client.finish(TIMEOUT * 2).assert_success();
        }
    }
    serving.await_idle(TIMEOUT);
    let idle_usage = serving.server.settled_usage();
    let (old_lines, idle_kib) = (serving.log().len(), serving.server.resident_kib());

    let mut rng = SmallRng::seed_from_u64(7);
    let indices: Vec<usize> = (0..count).collect();
    let chosen = indices.choose_multiple(&mut rng, kill_count);
    let mut to_kill: Vec<usize> = chosen.copied().collect();
    // Clients to kill run longer, so that they still run after the start of all others.
    let seconds = |index: usize| if to_kill.contains(&index) { 30 } else { 3 };
    let clients = clients.iter().cycle().zip(0..count);
    let mut processes: Vec<_> = clients
        .map(|(client, index)| (*client, serving.start_client(client, seconds(index))))
        .collect();
    for index in &to_kill {
        // Kill some clients before their test starts, and others in any phase.
        std::thread::sleep(Duration::from_millis(rng.random_range(0..150)));
        processes[*index].1.signal(Signal::KILL);
    }
    to_kill.sort_unstable();
    let outputs: Vec<ProcessOutput> = to_kill
        .iter()
        .rev()
        .map(|index| processes.remove(*index).1.finish(TIMEOUT))
        .collect();
    let killed = outputs.iter().filter(|output| output.signal.is_some());
    let killed = killed.count();
    assert!(killed > kill_count / 2, "{killed}");
    for (client, process) in processes {
        let output = process.finish(TIMEOUT * 2);
        assert_eq!(
            output.code,
            Some(0),
            "{} {}: {output:#?}; {}",
            client.dialect,
            client.name,
            serving.server.stderr()
        );
    }
    serving
        .server
        .assert_usage_returns_to(idle_usage, SESSION_TIMEOUT, "many clients");
    serving.await_idle(TIMEOUT);
    let log = serving.log().split_off(old_lines);
    let (complete, incomplete): (Vec<_>, Vec<_>) =
        (log.into_iter()).partition(|line| line["is_complete"] == true);
    // On a busy machine a server may start a test late. The test is then too short for the server.
    let late = incomplete
        .iter()
        .filter(|line| line["seconds"].as_f64() > Some(2.5))
        .count();
    let expected = count - killed - late..=count;
    assert!(
        expected.contains(&complete.len()),
        "{expected:?}, not {}: {incomplete:#?}",
        complete.len()
    );
    for line in &incomplete {
        assert!(
            line["end"]
                .as_str()
                .is_some_and(|reason| !reason.is_empty()),
            "{line:#}"
        );
    }
    let final_kib = serving.server.resident_kib();
    assert!(
        final_kib <= idle_kib + MAX_GROWTH_KIB,
        "{final_kib} KiB, idle {idle_kib} KiB"
    );
    serving.server.terminate().assert_success();
}
