//! `linerate serve`, with clients of all dialects at once: measuring, killed, hostile, and cut by a signal.
//!
//! In `scripts/test` the rounds are short; with `LINERATE_LONG=1` in the environment they have their whole size.

mod clients;
mod hostile;
mod restart;

use std::collections::BTreeMap;
use std::path::Path;
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

/// How long a client may take beyond its test.
const PATIENCE: Duration = Duration::from_secs(30);

/// A session of UDPmon whose client was killed ends after 60 s.
const IDLE: Duration = Duration::from_secs(70);

/// What a round of clients may leave in the allocator: memory is given back in parts.
const SLACK_KIB: u64 = 8 << 10;

/// The usual ports.
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
            "five_dialects_at_once",
            &[Namespaces],
            five_dialects_at_once,
        ),
        test_case(
            "many_clients_of_which_some_are_killed",
            &[Namespaces],
            many_clients,
        ),
    ];
    let test_cases = test_cases
        .into_iter()
        .chain(hostile::test_cases())
        .chain(restart::test_cases());
    test_cases.map(TestCase::allow_many).collect()
}

/// The whole size of a round, or its short one.
fn size<T>(whole: T, short: T) -> T {
    let is_long = std::env::var_os("LINERATE_LONG").is_some_and(|value| value == "1");
    if is_long { whole } else { short }
}

/// A server of all dialects at their usual ports.
struct Serving {
    server: Server,
    /// Of its status socket, and of the clients' profiles.
    directory: TempDir,
}

impl Serving {
    fn start(options: &str) -> Self {
        let directory = testkit::short_directory();
        let status = directory.path().join("status");
        let line = format!("serve --log json --status {} {options}", status.display());
        let server = Server::start_at(PORTS.netperf, linerate_with_args(&line));
        let listens = |text: &str| text.contains("listening");
        assert!(
            wait_until(PATIENCE, || listens(&server.stderr())),
            "{}",
            server.stderr()
        );
        Self { server, directory }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Those of the clients that can run here; a missing stock program must not go unnoticed.
    fn clients() -> Vec<&'static Client> {
        let present = |client: &&Client| {
            let missing = client.missing();
            if let Some(why) = &missing {
                assert!(!testkit::peers_are_required(), "{why}");
                println!("SKIPPED {} {}: {why}", client.dialect, client.name);
            }
            missing.is_none()
        };
        CLIENTS.iter().filter(present).collect()
    }

    fn begin(&self, client: &Client, seconds: u32) -> TestProcess {
        TestProcess::start(&mut client.command(seconds, self.path()))
    }

    /// The log's lines so far.
    fn log(&self) -> Vec<Value> {
        lines(&self.server.stdout())
    }

    /// The tests that run, by `linerate status`.
    fn status(&self) -> Vec<Value> {
        let path = self.path().join("status");
        let line = format!("status --json --status {}", path.display());
        // On a busy machine it may give up before it has the document.
        let mut status = testkit::run(linerate_with_args(&line), PATIENCE).expect("it ends");
        for _ in 0..3 {
            if status.code != Some(0) {
                status = testkit::run(linerate_with_args(&line), PATIENCE).expect("it ends");
            }
        }
        status.assert_success();
        let document: Value = serde_json::from_str(&status.stdout).expect("a document");
        document["tests"].as_array().expect("tests").clone()
    }

    /// Waits until this many tests of honest clients run.
    #[track_caller]
    fn await_tests(&self, count: usize) {
        let mut seen = Vec::new();
        let run = wait_until(PATIENCE, || {
            seen = self.status();
            seen.iter().filter(|test| is_honest(test)).count() == count
        });
        let errors = self.server.stderr();
        assert!(run, "{count} tests are to run: {seen:#?}; {errors}");
    }

    /// Waits until no test runs.
    #[track_caller]
    fn await_rest(&self, patience: Duration) {
        let rests = wait_until(patience, || self.status().is_empty());
        assert!(rests, "{:#?}", self.status());
    }

    /// A test of each client that is complete.
    fn serves(&self) {
        let clients = Self::clients().into_iter();
        let running: Vec<_> = clients.map(|client| self.begin(client, 1)).collect();
        for client in running {
            client.finish(PATIENCE).assert_success();
        }
    }
}

/// Whether it is a test of this address: hostile bytes come from others.
fn is_honest(test: &Value) -> bool {
    test["peer"]
        .as_str()
        .is_some_and(|peer| peer.contains("127.0.0.1"))
}

fn lines(log: &str) -> Vec<Value> {
    let line =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    log.lines().map(line).collect()
}

/// The lines of each dialect's tests.
fn by_dialect(lines: Vec<Value>) -> BTreeMap<String, Vec<Value>> {
    let mut all = BTreeMap::<String, Vec<Value>>::new();
    for line in lines {
        let dialect = line["dialect"].as_str().expect("a name").to_owned();
        all.entry(dialect).or_default().push(line);
    }
    all
}

/// Compares each client's result with a line of its dialect, and sees that no line is left over.
#[track_caller]
fn all_are_right(mut ended: Vec<(&Client, ProcessOutput)>, seconds: u32, log: Vec<Value>) {
    let mut lines = by_dialect(log);
    // Those with an account of their own leave the others no line of theirs.
    ended.sort_by_key(|(client, finished)| client.account(finished));
    for (client, finished) in ended {
        let at = format!("{} {}: {finished:#?}", client.dialect, client.name);
        assert_eq!(finished.code, Some(0), "{at}");
        let of_dialect = lines.entry(client.dialect.to_owned()).or_default();
        let differs = |line: &Value| client.differs(&finished, seconds, line);
        let place = of_dialect.iter().position(|line| differs(line).is_none());
        let place = place.unwrap_or_else(|| {
            let why: Vec<_> = of_dialect
                .iter()
                .map(|line| (differs(line), line))
                .collect();
            panic!("no line fits {at}\n{why:#?}");
        });
        of_dialect.remove(place);
    }
    lines.retain(|_, lines| !lines.is_empty());
    assert!(lines.is_empty(), "lines without a client: {lines:#?}");
}

fn five_dialects_at_once() {
    let seconds = size(60, 5);
    let serving = Serving::start("");
    serving.serves();
    let rest = serving.server.settled_usage();
    let (before, resident) = (serving.log().len(), serving.server.resident_kib());
    let clients = Serving::clients();
    let running: Vec<_> = clients
        .iter()
        .map(|client| (*client, serving.begin(client, seconds)))
        .collect();
    serving.await_tests(clients.len());

    // Each look shows all of them, until the first one ends.
    let wanted = dialects(clients.iter().map(|client| client.dialect));
    let mut most = 0;
    loop {
        let has_ended = serving.log().len() > before;
        let seen = serving.status();
        most = most.max(serving.server.resident_kib());
        if has_ended || serving.log().len() > before {
            break;
        }
        assert_eq!(
            dialects(seen.iter().filter_map(|test| test["dialect"].as_str())),
            wanted,
            "{seen:#?}"
        );
        for test in &seen {
            assert!(
                test["peer"]
                    .as_str()
                    .is_some_and(|peer| peer.contains("127.0.0.1")),
                "{test:#}"
            );
            assert_eq!(
                test["overlapping_tests"].as_u64(),
                Some(clients.len() as u64 - 1),
                "{test:#}"
            );
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let ended: Vec<_> = running
        .into_iter()
        .map(|(client, process)| {
            (
                client,
                process.finish(PATIENCE + Duration::from_secs(seconds.into())),
            )
        })
        .collect();
    serving.await_rest(PATIENCE);
    let log = serving.log().split_off(before);
    for line in &log {
        assert!(line["overlapping_tests"].as_u64() > Some(0), "{line:#}");
    }
    all_are_right(ended, seconds, log);
    serving
        .server
        .assert_usage_returns_to(rest, PATIENCE, "five dialects");
    assert!(
        most <= resident + SLACK_KIB,
        "{most} KiB, before {resident} KiB"
    );
    let end = serving.server.terminate();
    assert_eq!(end.code, Some(0), "{end:#?}");
}

/// How often each dialect is there.
fn dialects<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut all = BTreeMap::new();
    for name in names {
        *all.entry(name).or_default() += 1;
    }
    all
}

fn many_clients() {
    let (count, killed) = size((200, 20), (48, 6));
    let serving = Serving::start("");
    let clients = Serving::clients();
    // The first round leaves what stays: memory of the allocator.
    for _ in 0..2 {
        let all: Vec<_> = clients
            .iter()
            .cycle()
            .take(count)
            .map(|client| serving.begin(client, 1))
            .collect();
        for client in all {
            client.finish(PATIENCE * 2).assert_success();
        }
    }
    serving.await_rest(PATIENCE);
    let rest = serving.server.settled_usage();
    let (before, resident) = (serving.log().len(), serving.server.resident_kib());

    let mut rng = SmallRng::seed_from_u64(7);
    let places: Vec<usize> = (0..count).collect();
    let mut doomed: Vec<usize> = places.choose_multiple(&mut rng, killed).copied().collect();
    // Those that are to be killed still run then, however long it takes to start the others.
    let seconds = |place: usize| if doomed.contains(&place) { 30 } else { 3 };
    let clients = clients.iter().cycle().zip(0..count);
    let mut all: Vec<_> = clients
        .map(|(client, place)| (*client, serving.begin(client, seconds(place))))
        .collect();
    for place in &doomed {
        // Some before they begin, others in any phase of their test.
        std::thread::sleep(Duration::from_millis(rng.random_range(0..150)));
        all[*place].1.signal(Signal::KILL);
    }
    doomed.sort_unstable();
    let gone: Vec<ProcessOutput> = doomed
        .iter()
        .rev()
        .map(|place| all.remove(*place).1.finish(PATIENCE))
        .collect();
    let was_killed = gone.iter().filter(|client| client.signal.is_some()).count();
    assert!(was_killed > killed / 2, "{was_killed}");
    for (client, process) in all {
        let finished = process.finish(PATIENCE * 2);
        assert_eq!(
            finished.code,
            Some(0),
            "{} {}: {finished:#?}; {}",
            client.dialect,
            client.name,
            serving.server.stderr()
        );
    }
    serving
        .server
        .assert_usage_returns_to(rest, IDLE, "many clients");
    serving.await_rest(PATIENCE);
    let log = serving.log().split_off(before);
    let (complete, early): (Vec<_>, Vec<_>) =
        (log.into_iter()).partition(|line| line["is_complete"] == true);
    // On a busy machine a server may begin a test so late that it looks shorter than asked for.
    let short = early
        .iter()
        .filter(|line| line["seconds"].as_f64() > Some(2.5))
        .count();
    let expected = count - was_killed - short..=count;
    assert!(
        expected.contains(&complete.len()),
        "{expected:?}, not {}: {early:#?}",
        complete.len()
    );
    for line in &early {
        assert!(
            line["end"].as_str().is_some_and(|why| !why.is_empty()),
            "{line:#}"
        );
    }
    let now = serving.server.resident_kib();
    assert!(
        now <= resident + SLACK_KIB,
        "{now} KiB, before {resident} KiB"
    );
    let end = serving.server.terminate();
    assert_eq!(end.code, Some(0), "{end:#?}");
}
