//! A server behind a firewall that accepts only the control connection.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use testkit::{
    Implementation, Namespace, NetperfPrograms, ProcessOutput, Requirement, Role, STOCK_NETPERF,
    Server, TestCase, TestProcess, add_link, linerate_with_args, run, wait_until,
};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![
        needing &[Requirement::Namespaces];
        run_ends_at_first_unanswered_data_connection,
        open_data_port_is_enough,
        dropped_datagrams_end_only_udp_tests,
        netperf_reports_firewall_and_waits,
        uperf_master_reports_firewall,
        open_path_gets_no_report,
    ];
    let stock_test_cases = testkit::test_cases![
        needing &[Requirement::Namespaces, STOCK_NETPERF];
        reports_empty_result_as_unanswered,
    ];
    test_cases
        .into_iter()
        .chain(stock_test_cases)
        .map(TestCase::allow_many_at_once)
        .collect()
}

/// Time limit of each run, ample for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

const SERVER: &str = "198.51.100.2";
const CONTROL_PORT: u16 = 12865;
/// The only data port that the firewall may accept.
const DATA_PORT: u16 = 5001;

/// Two hosts. The server runs a netserver.
struct Hosts {
    client: Namespace,
    server: Namespace,
    _netserver: Server,
}

impl Hosts {
    fn new() -> Self {
        Self::with_netserver(linerate_with_args(&format!(
            "netserver -D -p {CONTROL_PORT}"
        )))
    }

    fn with_netserver(netserver: Command) -> Self {
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

    /// Drops incoming packets except those of the control connection and of `allowed` rules such as
    /// `tcp dport 5001`. The rules precede the lookup of local routes.
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
        let start = Instant::now();
        let mut output = run(self.client.command(&linerate_with_args(line)), TIMEOUT).unwrap();
        // A table's notes are wrapped.
        if !line.contains("--json") {
            output.stdout = output
                .stdout
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
        }
        (output, start.elapsed())
    }
}

/// One failure ends the run, so its timeout of 10 s applies once.
fn run_ends_at_first_unanswered_data_connection() {
    let hosts = Hosts::new();
    hosts.block(&[]);
    let (output, elapsed) = hosts.run(&format!("run {SERVER} -l 1 --json"));
    assert_eq!(output.code, Some(1), "{output:?}");
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    let error = document["error"].as_str().unwrap();
    let expected = format!(
        "the control connection to {SERVER} is up, but the data connection to {SERVER} port "
    );
    assert!(error.starts_with(&expected), "{error}");
    assert!(
        error.contains("firewall") && error.contains("--data-port"),
        "{error}"
    );
    assert_eq!(document["tests"].as_array().unwrap().len(), 1);
    assert_eq!(document["not_run"].as_array().unwrap().len(), 5);
    // Two tests would take longer.
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
}

fn open_data_port_is_enough() {
    let hosts = Hosts::new();
    let allowed = ["tcp", "udp"].map(|protocol| format!("{protocol} dport {DATA_PORT}"));
    hosts.block(&allowed.each_ref().map(String::as_str));
    let line = format!("run {SERVER} -l 1 --data-port {DATA_PORT}");
    let (output, _) = hosts.run(&line);
    assert_eq!(output.code, Some(0), "{output:?}");
}

/// The results over TCP remain. After the first failed UDP test, no further one runs.
fn dropped_datagrams_end_only_udp_tests() {
    let hosts = Hosts::new();
    let tcp = format!("tcp dport {DATA_PORT}");
    hosts.block(&[&tcp]);
    let tests = "-t TCP_STREAM,UDP_STREAM,UDP_RR,TCP_RR";
    let line = format!("run {SERVER} -l 1 --data-port {DATA_PORT} {tests} --json");
    let (output, _) = hosts.run(&line);
    assert_eq!(output.code, Some(1), "{output:?}");
    let document: Value = serde_json::from_str(&output.stdout).unwrap();
    let error = document["error"].as_str().unwrap();
    let expected = format!("{SERVER} reports no datagrams received on port {DATA_PORT}");
    assert!(error.contains(&expected), "{error}");
    assert_eq!(document["not_run"], serde_json::json!(["UDP_RR"]));
    for (index, is_measured) in [(0, true), (1, false), (2, true)] {
        let figures = &document["tests"][index]["figures"];
        assert_eq!(figures.is_object(), is_measured, "{index}: {document}");
    }
}

/// A stock server ends the test by its own clock, with an empty result.
fn reports_empty_result_as_unanswered() {
    let mut stock = NetperfPrograms::new().command(Implementation::Stock, Role::Server);
    stock.args(["-D", "-p", &CONTROL_PORT.to_string()]);
    let hosts = Hosts::with_netserver(stock);
    hosts.block(&[]);
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
        for (line, code, expected_part) in cases {
            let hosts = &hosts;
            scope.spawn(move || {
                let (output, _) = hosts.run(&line.replace('@', SERVER));
                let text = format!("{}{}", output.stdout, output.stderr);
                assert_eq!(output.code, Some(code), "{output:?}");
                assert_eq!(text.matches(expected_part).count(), 1, "{line}: {output:?}");
            });
        }
    });
}

/// netperf reports the firewall after 5 s and keeps waiting, until the user interrupts it.
fn netperf_reports_firewall_and_waits() {
    let hosts = Hosts::new();
    hosts.block(&[]);
    let expected = format!("netperf: the control connection to {SERVER} is up, but ");
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
    let start = Instant::now();
    let clients = tests.map(|(test, expected_part)| {
        let test_options = if test.ends_with("--") { "-R 1" } else { "" };
        let line = format!("netperf -H {SERVER} -l 60 {test} {test_options}");
        let client = TestProcess::start(&mut hosts.client.command(&linerate_with_args(&line)));
        (client, expected_part)
    });
    for (mut client, expected_part) in clients {
        let is_reported = || client.stderr().contains(&expected);
        assert!(
            wait_until(TIMEOUT, is_reported),
            "{expected_part}: {}",
            client.stderr()
        );
        assert!(start.elapsed() >= Duration::from_secs(5));
        let stderr = client.stderr();
        let line = stderr.lines().next().unwrap();
        assert!(
            line.contains(expected_part) && line.contains("firewall"),
            "{stderr}"
        );
        assert!(line.contains("-P"), "{stderr}");
        assert!(client.is_running(), "{stderr}");
        client.signal(rustix::process::Signal::INT);
        let output = client.finish(TIMEOUT);
        // All flows share one report.
        let reports = output.stderr.matches("the control connection").count();
        assert_eq!(reports, 1, "{output:?}");
    }
}

/// uperf's master reports the firewall after 5 s, before its slave times out.
#[cfg(feature = "uperf")]
fn uperf_master_reports_firewall() {
    use testkit::{Profile, UperfMaster};

    const SLAVE_PORT: u16 = 20_000;
    let hosts = Hosts::new();
    let slave = linerate_with_args(&format!("uperf -s -P {SLAVE_PORT}"));
    let _slave = hosts.server.enter(|| Server::start_at(SLAVE_PORT, slave));
    hosts.block(&[&format!("tcp dport {SLAVE_PORT}")]);
    let profile = Profile::new("p")
        .group("nthreads=2")
        .single_flowop("connect remotehost=$h protocol=tcp")
        .transaction("duration=1s", &["write size=8k"])
        .text();
    let start_master = || UperfMaster::start(SLAVE_PORT, "", &[SERVER], &profile);
    let output = hosts.client.enter(start_master).finish_within(TIMEOUT);
    assert_ne!(output.code, Some(0), "{output:?}");
    let expected = format!(
        "uperf: the control connection to {SERVER} is up, but no data connection gets an answer; \
         does a firewall drop them?"
    );
    assert_eq!(output.stderr.matches(&expected).count(), 1, "{output:?}");
}

/// linerate reports nothing about an open path or a slow peer.
fn open_path_gets_no_report() {
    let hosts = Hosts::new();
    let tests = ["TCP_STREAM", "TCP_CRR", "UDP_STREAM", "UDP_RR"].map(|test| {
        let line = format!("netperf -H {SERVER} -t {test} -l 6 -- -R 1");
        TestProcess::start(&mut hosts.client.command(&linerate_with_args(&line)))
    });
    for test in tests {
        let output = test.finish(TIMEOUT);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    }
}
