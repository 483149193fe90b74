//! A server behind a firewall that lets the control connection through and drops all else.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{
    Implementation, Namespace, NetperfPrograms, ProcessOutput, Requirement, Role, STOCK_NETPERF,
    Server, TestCase, TestProcess, add_link, linerate_with_args, run, wait_until,
};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let ours = testkit::test_cases![
        needing &[Requirement::Namespaces];
        a_run_ends_with_the_first_data_connection_that_gets_no_answer,
        a_data_port_that_is_open_is_enough,
        datagrams_that_are_dropped_end_their_own_tests_alone,
        a_netperf_reports_it_and_waits,
        a_uperf_master_reports_it,
        an_open_path_is_not_reported,
    ];
    let stock = testkit::test_cases![
        needing &[Requirement::Namespaces, STOCK_NETPERF];
        a_result_of_nothing_is_a_data_connection_without_an_answer,
    ];
    let all = ours.into_iter().chain(stock);
    all.map(TestCase::allow_many).collect()
}

/// Far longer than any of these runs, on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

const SERVER: &str = "198.51.100.2";
const CONTROL_PORT: u16 = 12865;
/// The one data port that the firewall may let through.
const DATA_PORT: u16 = 5001;

/// Two hosts, and a netserver on one of them.
struct Ground {
    client: Namespace,
    server: Namespace,
    _netserver: Server,
}

impl Ground {
    fn new() -> Self {
        Self::with(linerate_with_args(&format!(
            "netserver -D -p {CONTROL_PORT}"
        )))
    }

    fn with(netserver: Command) -> Self {
        let (client, server) = (
            Namespace::with_loopback_only(),
            Namespace::with_loopback_only(),
        );
        add_link(
            (&client, "here", "198.51.100.1/24"),
            (&server, "there", &format!("{SERVER}/24")),
        );
        let netserver = server.enter(|| Server::start_at(CONTROL_PORT, netserver));
        Self {
            client,
            server,
            _netserver: netserver,
        }
    }

    /// Drops what comes in, but for the control connection and these (`tcp dport 5001`): routes that
    /// are looked up before the local ones.
    fn block(&self, allowed: &[&str]) {
        let control = format!("tcp dport {CONTROL_PORT}");
        for allowed in allowed.iter().chain([&control.as_str()]) {
            let rule = format!("rule add pref 1 iif there ipproto {allowed} lookup local");
            self.server.ip(&rule);
        }
        for protocol in ["tcp", "udp"] {
            let rule = format!("rule add pref 2 iif there ipproto {protocol} blackhole");
            self.server.ip(&rule);
        }
        self.server.ip("rule add pref 3 lookup local");
        self.server.ip("rule del pref 0");
    }

    fn run(&self, line: &str) -> (ProcessOutput, Duration) {
        let begun = Instant::now();
        let mut ended = run(self.client.command(&linerate_with_args(line)), LIMIT).unwrap();
        // A table's notes are broken into lines.
        if !line.contains("--json") {
            ended.stdout = ended
                .stdout
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
        }
        (ended, begun.elapsed())
    }
}

/// One failure ends the run, and costs its ten seconds once.
fn a_run_ends_with_the_first_data_connection_that_gets_no_answer() {
    let ground = Ground::new();
    ground.block(&[]);
    let (ended, took) = ground.run(&format!("run {SERVER} -l 1 --json"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let error = document["error"].as_str().unwrap();
    let says = format!(
        "the control connection to {SERVER} is up, but the data connection to {SERVER} port "
    );
    assert!(error.starts_with(&says), "{error}");
    assert!(
        error.contains("firewall") && error.contains("--data-port"),
        "{error}"
    );
    assert_eq!(document["tests"].as_array().unwrap().len(), 1);
    assert_eq!(document["not_run"].as_array().unwrap().len(), 5);
    // Two tests would take more than this.
    assert!(took < Duration::from_secs(20), "{took:?}");
}

fn a_data_port_that_is_open_is_enough() {
    let ground = Ground::new();
    let allowed = ["tcp", "udp"].map(|protocol| format!("{protocol} dport {DATA_PORT}"));
    ground.block(&allowed.each_ref().map(String::as_str));
    let line = format!("run {SERVER} -l 1 --data-port {DATA_PORT}");
    let (ended, _) = ground.run(&line);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// What TCP has measured stays, and a second test over UDP is not tried.
fn datagrams_that_are_dropped_end_their_own_tests_alone() {
    let ground = Ground::new();
    let tcp = format!("tcp dport {DATA_PORT}");
    ground.block(&[&tcp]);
    let tests = "-t TCP_STREAM,UDP_STREAM,UDP_RR,TCP_RR";
    let line = format!("run {SERVER} -l 1 --data-port {DATA_PORT} {tests} --json");
    let (ended, _) = ground.run(&line);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap();
    let error = document["error"].as_str().unwrap();
    let says = format!("it reports no datagrams received on port {DATA_PORT}");
    assert!(error.contains(&says), "{error}");
    assert_eq!(document["not_run"], serde_json::json!(["UDP_RR"]));
    for (at, is_measured) in [(0, true), (1, false), (2, true)] {
        let figures = &document["tests"][at]["figures"];
        assert_eq!(figures.is_object(), is_measured, "{at}: {document}");
    }
}

/// A stock server ends the test by its own clock, with a result of nothing.
fn a_result_of_nothing_is_a_data_connection_without_an_answer() {
    let mut stock = NetperfPrograms::new().command(Implementation::Stock, Role::Server);
    stock.args(["-D", "-p", &CONTROL_PORT.to_string()]);
    let ground = Ground::with(stock);
    ground.block(&[]);
    let cases = [
        ("run @ -l 1 -t TCP_STREAM", 1, "gets no answer"),
        (
            "run @ -l 1 -t UDP_STREAM --udp-rate 10mbit",
            1,
            "reports no datagrams received",
        ),
        ("netperf -H @ -l 1 -t TCP_RR", 0, "gets no answer"),
        (
            "netperf -H @ -l 1 -t UDP_STREAM -- -R 1",
            0,
            "reports no datagrams received",
        ),
    ];
    std::thread::scope(|scope| {
        for (line, code, word) in cases {
            let ground = &ground;
            scope.spawn(move || {
                let (ended, _) = ground.run(&line.replace('@', SERVER));
                let said = format!("{}{}", ended.stdout, ended.stderr);
                assert_eq!(ended.code, Some(code), "{ended:?}");
                assert_eq!(said.matches(word).count(), 1, "{line}: {ended:?}");
            });
        }
    });
}

/// The dialect says so after five seconds and waits on; the user ends it here.
fn a_netperf_reports_it_and_waits() {
    let ground = Ground::new();
    ground.block(&[]);
    let says = format!("netperf: the control connection to {SERVER} is up, but ");
    let tests = [
        ("-t TCP_STREAM", "gets no answer"),
        ("-t TCP_MAERTS", "gets no answer"),
        ("-t TCP_RR", "gets no answer"),
        ("-t TCP_CRR", "gets no answer"),
        ("-t TCP_CC", "gets no answer"),
        ("-t TCP_SENDFILE", "gets no answer"),
        ("-t UDP_RR", "gets no answer"),
        ("--parallel 3 -t TCP_STREAM", "gets no answer"),
        ("-t UDP_STREAM -l 1 --", "reports no datagrams received"),
    ];
    let begun = Instant::now();
    let clients = tests.map(|(test, word)| {
        let routed = if test.ends_with("--") { "-R 1" } else { "" };
        let line = format!("netperf -H {SERVER} -l 60 {test} {routed}");
        let client = TestProcess::start(&mut ground.client.command(&linerate_with_args(&line)));
        (client, word)
    });
    for (mut client, word) in clients {
        let reports = || client.stderr().contains(&says);
        assert!(wait_until(LIMIT, reports), "{word}: {}", client.stderr());
        assert!(begun.elapsed() >= Duration::from_secs(5));
        let stderr = client.stderr();
        let line = stderr.lines().next().unwrap();
        assert!(line.contains(word) && line.contains("firewall"), "{stderr}");
        assert!(line.contains("-P"), "{stderr}");
        assert!(client.is_running(), "{stderr}");
        client.signal(rustix::process::Signal::INT);
        let ended = client.finish(LIMIT);
        // Once, of however many flows.
        let times = ended.stderr.matches("the control connection").count();
        assert_eq!(times, 1, "{ended:?}");
    }
}

/// uperf's master says so after five seconds, before its slave gives up.
#[cfg(feature = "uperf")]
fn a_uperf_master_reports_it() {
    use testkit::{Profile, UperfMaster};

    const SLAVE_PORT: u16 = 20_000;
    let ground = Ground::new();
    let slave = linerate_with_args(&format!("uperf -s -P {SLAVE_PORT}"));
    let _slave = ground.server.enter(|| Server::start_at(SLAVE_PORT, slave));
    ground.block(&[&format!("tcp dport {SLAVE_PORT}")]);
    let profile = Profile::new("p")
        .group("nthreads=2")
        .single_flowop("connect remotehost=$h protocol=tcp")
        .transaction("duration=1s", &["write size=8k"])
        .text();
    let master = || UperfMaster::start(SLAVE_PORT, "", &[SERVER], &profile);
    let ended = ground.client.enter(master).finish_within(LIMIT);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    let says = format!(
        "uperf: the control connection to {SERVER} is up, but no data connection gets an answer; \
         does a firewall drop them?"
    );
    assert_eq!(ended.stderr.matches(&says).count(), 1, "{ended:?}");
}

/// Nothing is said about a path that works, or about a peer that is slow.
fn an_open_path_is_not_reported() {
    let ground = Ground::new();
    let tests = ["TCP_STREAM", "TCP_CRR", "UDP_STREAM", "UDP_RR"].map(|test| {
        let line = format!("netperf -H {SERVER} -t {test} -l 6 -- -R 1");
        TestProcess::start(&mut ground.client.command(&linerate_with_args(&line)))
    });
    for test in tests {
        let ended = test.finish(LIMIT);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    }
}
