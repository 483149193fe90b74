//! `linerate serve` by its options: the log, limits, secrets, signals and the status.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testkit::Requirement::Namespaces;
use testkit::{
    ProcessOutput, Server, TestCase, TestProcess, free_port, linerate_with_args, run, test_case,
    wait_until,
};

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        each_test_has_its_line,
        an_address_has_limits,
        limits_are_read_again,
        secrets_are_asked_for,
        a_stop_ends_tests_or_lets_them_end,
        the_status_shows_what_runs,
        only_a_stale_status_is_replaced,
        nobody_is_sent_more_than_three_times_as_much,
    ];
    // To become another user is root's, as namespaces are.
    test_cases.push(test_case("another_user", &[Namespaces], another_user));
    test_cases
}

/// A server of all dialects, each at a free port.
struct Serving {
    server: Server,
    ports: [u16; 4],
    directory: TempDir,
}

impl Serving {
    fn start(options: &str) -> Self {
        let directory = testkit::short_directory();
        let status = directory.path().join("status");
        let ports = [(); 4].map(|()| free_port());
        let [uperf, iperf, iperf3, udpmon] = ports;
        let server = Server::start_with(|netperf| {
            format!(
                "serve --log json --status {} --netperf-port {netperf} --uperf-port {uperf} --iperf-port {iperf} --iperf3-port {iperf3} --udpmon-port {udpmon} {options}",
                status.display()
            )
        });
        Self {
            server,
            ports,
            directory,
        }
    }

    /// Starts a client, in whose line PORT is replaced.
    fn begin(&self, line: &str) -> TestProcess {
        let [uperf, iperf, iperf3, udpmon] = self.ports;
        let port = match line.split(' ').next() {
            Some("uperf") => uperf,
            Some("iperf") => iperf,
            Some("iperf3") => iperf3,
            Some("udpmon_bw_mon") => udpmon,
            _ => self.server.port,
        };
        TestProcess::start(&mut linerate_with_args(
            &line.replace("PORT", &port.to_string()),
        ))
    }

    fn client(&self, line: &str) -> ProcessOutput {
        self.begin(line).finish(PATIENCE)
    }

    /// The log, as soon as it has so many lines.
    #[track_caller]
    fn log(&self, count: usize) -> Vec<Value> {
        let lines = || -> Vec<Value> {
            let lines = self.server.stdout();
            let lines = lines.lines().map(serde_json::from_str);
            lines.filter_map(Result::ok).collect()
        };
        let is_whole = wait_until(PATIENCE, || lines().len() == count);
        assert!(is_whole, "{count} lines: {:#?}", lines());
        lines()
    }

    fn status(&self, options: &str) -> ProcessOutput {
        let path = self.directory.path().join("status");
        let line = format!("status --status {} {options}", path.display());
        run(linerate_with_args(&line), PATIENCE).expect("it ends")
    }

    /// Waits until so many tests run.
    #[track_caller]
    fn await_tests(&self, count: usize) {
        let runs = wait_until(PATIENCE, || self.tests().len() == count);
        assert!(runs, "{}", self.server.stderr());
    }

    fn tests(&self) -> Vec<Value> {
        let status = self.status("--json").stdout;
        let document: Value = serde_json::from_str(&status).expect("a document");
        document["tests"].as_array().expect("a list").clone()
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.directory.path().join(name);
        write(&path, text, mode);
        path
    }
}

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).expect("a directory of our own");
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("our own file");
}

fn end(line: &Value) -> &str {
    line["end"].as_str().expect("a reason")
}

fn each_test_has_its_line() {
    const PROFILE: &str = r#"<profile name="p"><group nthreads="2">
<transaction iterations="1"><flowop type="connect" options="remotehost=127.0.0.1 protocol=tcp"/></transaction>
<transaction iterations="5"><flowop type="write" options="size=100"/></transaction>
<transaction iterations="1"><flowop type="disconnect"/></transaction></group></profile>"#;
    let serving = Serving::start("");
    let profile = serving.file("p.xml", PROFILE, 0o600);
    let uperf = format!("uperf -P PORT -m {}", profile.display());
    let lines = [
        (
            "netperf -p PORT -H 127.0.0.1 -l -1000 -P 0",
            "TCP_STREAM",
            None,
        ),
        (
            "netperf -p PORT -H 127.0.0.1 -l 1 -t UDP_RR",
            "UDP_RR",
            None,
        ),
        (&uperf, "strands: 2", Some(1000)),
        ("iperf -c 127.0.0.1 -p PORT -n 2000 -l 1000", "TCP", None),
        ("iperf -c 127.0.0.1 -p PORT -u -n 2000 -l 1000", "UDP", None),
        (
            "iperf3 -c 127.0.0.1 -p PORT -n 3000 -l 1000 -P 2",
            "TCP, streams: 2",
            None,
        ),
        (
            "iperf3 -c 127.0.0.1 -p PORT -n 3000 -l 1000 -R",
            "TCP reverse, streams: 1",
            None,
        ),
        (
            "udpmon_bw_mon -d 127.0.0.1 -u PORT -p 1000 -l 10 -w 100",
            "throughput",
            None,
        ),
    ];
    for (at, (line, test, bytes)) in lines.iter().enumerate() {
        serving.client(line).assert_success();
        let log = serving.log(at + 1);
        let entry = &log[at];
        let dialect = entry["dialect"].as_str().expect("a name");
        assert!(line.starts_with(dialect), "{entry:#}");
        assert_eq!(entry["test"], *test, "{entry:#}");
        assert_eq!(
            (end(entry), &entry["is_complete"]),
            ("complete", &true.into())
        );
        let moved = |field: &str| entry[field].as_u64().expect("a count");
        let moved = moved("received_bytes") + moved("sent_bytes");
        assert!(bytes.map_or(moved > 0, |bytes| moved == bytes), "{entry:#}");
    }
    let finished = serving.server.terminate();
    assert_eq!(
        (finished.code, finished.stdout.lines().count()),
        (Some(0), lines.len())
    );
}

fn an_address_has_limits() {
    let serving = Serving::start("--max-tests 1 --max-seconds 60 --max-rate 100mbit");
    for (line, why) in [
        ("netperf -p PORT -H 127.0.0.1 -l 61", "quota"),
        (
            "iperf3 -c 127.0.0.1 -p PORT -t 61",
            "exceeds the server's maximum",
        ),
    ] {
        let refused = serving.client(line);
        assert!(refused.code != Some(0), "{refused:#?}");
        let said = refused.stderr + &refused.stdout;
        assert!(said.contains(why), "{said}");
    }
    let paced = serving.begin("iperf3 -c 127.0.0.1 -p PORT -b 20M -t 3");
    serving.await_tests(1);
    let second = serving.client("iperf3 -c 127.0.0.1 -p PORT -t 1");
    assert!(second.stderr.contains("server is busy"), "{second:#?}");
    paced.finish(PATIENCE).assert_success();
    let fast = serving.client("iperf3 -c 127.0.0.1 -p PORT -t 10");
    assert!(fast.code != Some(0), "{fast:#?}");
    let log = serving.log(2);
    assert_eq!(end(&log[0]), "complete");
    assert_eq!(end(&log[1]), "limit of 100000000 bit/s per address");
}

fn limits_are_read_again() {
    let directory = testkit::short_directory();
    let file = directory.path().join("limits");
    write(&file, "max-seconds 1\n", 0o644);
    let serving = Serving::start(&format!("--limits-file {}", file.display()));
    let test = "netperf -p PORT -H 127.0.0.1 -l 2";
    assert!(serving.client(test).code != Some(0));
    let reload = |text: &str, note: &str| {
        write(&file, text, 0o644);
        serving.server.signal(Signal::HUP);
        let is_noted = wait_until(PATIENCE, || serving.server.stderr().contains(note));
        assert!(is_noted, "{}", serving.server.stderr());
    };
    reload("max-second 9\n", "limits stay as they are: ");
    assert!(serving.client(test).code != Some(0));
    reload("allow-peers 127.0.0.0/8\n", "limits were read again");
    serving.client(test).assert_success();
}

fn secrets_are_asked_for() {
    let directory = testkit::short_directory();
    let file = directory.path().join("auth");
    let options = format!("--auth {}", file.display());
    write(&file, "netperf-passphrase sesame\n", 0o640);
    let refused = |what: &str| {
        let server =
            run(linerate_with_args(&format!("serve {options}")), PATIENCE).expect("it ends");
        assert!(
            server.code == Some(1) && server.stderr.contains(what),
            "{server:#?}"
        );
    };
    refused("other users may read it");
    write(&file, "iperf3-rsa-private-key /x\n", 0o600);
    refused("--iperf3-authorized-users");
    write(
        &file,
        "netperf-passphrase sesame\niperf-permit-key word\n",
        0o600,
    );
    let serving = Serving::start(&options);
    for (line, is_served) in [
        ("netperf -p PORT -H 127.0.0.1 -l -1 -Z sesame", true),
        ("netperf -p PORT -H 127.0.0.1 -l -1 -Z wrong", false),
        ("iperf -c 127.0.0.1 -p PORT -n 1000", false),
        ("iperf -c 127.0.0.1 -p PORT -n 1000 -u", false),
        ("iperf -c 127.0.0.1 -p PORT -n 1000 --permit-key=word", true),
    ] {
        let complete = || serving.server.stdout().matches("\"complete\"").count();
        let before = complete();
        let client = serving.client(line);
        let is_logged = || complete() > before;
        assert_eq!(
            is_served,
            is_served && wait_until(PATIENCE, is_logged) || is_logged(),
            "{client:#?} {}",
            serving.server.stderr()
        );
    }
}

fn a_stop_ends_tests_or_lets_them_end() {
    const TESTS: [&str; 3] = [
        "netperf -p PORT -H 127.0.0.1 -t TCP_RR -l 3",
        "iperf3 -c 127.0.0.1 -p PORT -t 3",
        "iperf -c 127.0.0.1 -p PORT -u -t 3",
    ];
    for (options, is_drained) in [("", false), ("--drain-on-exit 20", true)] {
        let serving = Serving::start(options);
        let clients = TESTS.map(|line| serving.begin(line));
        serving.await_tests(TESTS.len());
        let Serving { server, .. } = serving;
        server.signal(Signal::TERM);
        let finished = server.wait(PATIENCE);
        assert_eq!(finished.code, Some(0));
        let ends: Vec<Value> = (finished.stdout.lines())
            .map(|line| serde_json::from_str(line).expect("a line"))
            .collect();
        assert_eq!(ends.len(), TESTS.len());
        let expected = if is_drained {
            "complete"
        } else {
            "the server was stopped"
        };
        for test in ends {
            assert_eq!(end(&test), expected, "{test:#}");
        }
        // The protocol of iperf 2 has no word for it.
        for client in clients.into_iter().take(2) {
            let client = client.finish(PATIENCE);
            assert_eq!(client.code == Some(0), is_drained, "{client:#?}");
        }
    }
}

fn the_status_shows_what_runs() {
    let serving = Serving::start("");
    let idle = serving.status("");
    assert!(idle.stdout.ends_with(": 0 tests\n"), "{idle:#?}");
    let first = serving.begin("netperf -p PORT -H 127.0.0.1 -l 30");
    let second = serving.begin("iperf3 -c 127.0.0.1 -p PORT -t 30");
    serving.await_tests(2);
    let measured = wait_until(PATIENCE, || {
        let tests = serving.tests();
        let rates = tests
            .iter()
            .filter(|test| test["bits_per_second"].as_f64() > Some(1e6));
        rates.count() == 2
    });
    assert!(measured, "{:#?}", serving.tests());
    assert!(
        serving
            .tests()
            .iter()
            .all(|test| test["overlapping_tests"] == 1)
    );
    let table = serving.status("").stdout;
    assert!(
        table.contains("TCP_STREAM") && table.contains("received"),
        "{table}"
    );
    drop((first, second));
    serving.await_tests(0);
    let named = &serving.log(2)[0]["overlapped_with"][0];
    let named = named.as_str().unwrap_or_default();
    assert!(named.contains(" 127.0.0.1:"), "{named}");
    let Serving {
        server, directory, ..
    } = serving;
    server.terminate().assert_success();
    assert!(!directory.path().join("status").exists());
}

/// The socket of a server that is gone is replaced, and nothing else.
fn only_a_stale_status_is_replaced() {
    let start = |path: &Path| {
        let line = |port| {
            format!(
                "serve --only netperf --netperf-port {port} --status {}",
                path.display()
            )
        };
        Server::try_start_with(|port| linerate_with_args(&line(port)))
    };
    let directory = testkit::short_directory();
    let path = directory.path().join("status");
    let refused = |why: &str| {
        let error = start(&path).expect_err("it ends").to_string();
        assert!(error.contains(why), "{error}");
    };
    let first = start(&path).expect("it listens");
    let mode = std::fs::metadata(&path)
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0);
    refused("another server listens on it");
    first.signal(Signal::KILL);
    first.wait(PATIENCE);
    assert!(path.exists());
    start(&path)
        .expect("it listens")
        .terminate()
        .assert_success();
    write(&path, "a file", 0o600);
    refused("it is not a socket");
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).expect("our own");
    refused("other users can write to its directory");
}

fn nobody_is_sent_more_than_three_times_as_much() {
    let test = "iperf -c 127.0.0.1 -p PORT -u -R -t 1";
    let closed = Serving::start("");
    // Ours proves its address, as it receives the server's nonce there.
    closed.client(test).assert_success();
    let log = closed.log(1);
    assert!(log[0]["sent_bytes"].as_u64() > Some(10_000), "{log:#?}");
    // A short datagram has no room for it.
    let unproven = closed.client(&format!("{test} -l 100"));
    assert!(unproven.code != Some(0), "{unproven:#?}");
    let note = closed.server.stderr();
    assert!(note.contains("(--allow-third-party accepts it)"), "{note}");
    closed.log(1);
    let open = Serving::start("--allow-third-party 127.0.0.0/8");
    open.client(&format!("{test} -l 100")).assert_success();
    let log = open.log(1);
    assert!(log[0]["sent_bytes"].as_u64() > Some(10_000), "{log:#?}");
}

fn another_user() {
    let serving = Serving::start("--user nobody");
    serving
        .client("iperf3 -c 127.0.0.1 -p PORT -n 1000")
        .assert_success();
    let status = std::fs::read_to_string(format!("/proc/{}/status", serving.server.pid()));
    let status = status.expect("it runs");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    assert!(!field("Uid:").starts_with("0\t"), "{status}");
    assert_eq!(field("CapEff:").trim_start_matches('0'), "", "{status}");
    assert_eq!(serving.tests().len(), 0);
}
