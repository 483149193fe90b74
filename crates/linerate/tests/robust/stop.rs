//! Stopping a server: its tests end without results, or finish first with `--drain-on-exit`.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::TestCase;

use super::raw::RawClient;
use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, ProcessOutput, STOCK_NETPERF, Server, TestProcess, is_listening, linerate_with_args,
    stock_with_args, test_case, wait_until, with_prefix,
};

/// Timeout of an action that needs no wait.
const SHORT_TIMEOUT: Duration = Duration::from_secs(4);

/// Every kind of test that both clients have.
const COMMON_TESTS: [&str; 8] = [
    "TCP_STREAM",
    "TCP_MAERTS",
    "TCP_RR",
    "TCP_CRR",
    "TCP_CC",
    "TCP_SENDFILE",
    "UDP_STREAM",
    "UDP_RR",
];

/// Further tests of our client.
const OUR_TESTS: [&str; 14] = [
    "TCP_STREAM -D 1",
    "TCP_RR -D 1",
    "TCP_STREAM --parallel 3",
    "TCP_RR --parallel 3",
    "UDP_RR --parallel 3",
    "TCP_STREAM --bidirectional",
    "TCP_RR -j",
    "TCP_STREAM -i 3,3",
    "TCP_RR -- -T mptcp",
    "OMNI -- -T udp -d recv -R 1",
    "STREAM_STREAM",
    "STREAM_RR",
    "DG_STREAM",
    "DG_RR",
];

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        needing &[Namespaces];
        ends_tests_of_ours,
        ends_tests_without_time_limit,
        limits_drain_time,
        second_signal_ends_drain,
    ];
    let stock = &[STOCK_NETPERF, Namespaces];
    test_cases.extend([
        test_case("ends_tests_of_stock", stock, ends_tests_of_stock),
        // All clients must start before the first one ends.
        test_case("drains_running_tests", stock, drains_running_tests).run_alone(),
    ]);
    with_prefix("stop", test_cases).collect()
}

fn ours(line: &str) -> Command {
    linerate_with_args(&format!("netperf {line}"))
}

fn stock(line: &str) -> Command {
    stock_with_args("netperf", line)
}

fn start_client(
    command: fn(&str) -> Command,
    server: &Server,
    length: &str,
    test: &str,
) -> TestProcess {
    let (test, options) = test.split_once(' ').unwrap_or((test, ""));
    let line = format!(
        "-H 127.0.0.1 -p {} -P 0 -l {length} -t {test} {options}",
        server.port
    );
    TestProcess::start(&mut command(&line))
}

fn ends_tests_of_ours() {
    let tests: Vec<_> = COMMON_TESTS.into_iter().chain(OUR_TESTS).collect();
    assert_stop_ends_tests(ours, "20", &tests, SHORT_TIMEOUT);
}

/// Stock's UDP_RR waits for the end of its time, also if its server is a stopped stock server.
fn ends_tests_of_stock() {
    assert_stop_ends_tests(stock, "8", &COMMON_TESTS, Duration::from_secs(20));
}

/// These tests end after a count, which they do not reach here.
fn ends_tests_without_time_limit() {
    let tests = [
        "TCP_STREAM -- -m 10",
        "TCP_MAERTS -- -m ,10",
        "TCP_RR",
        "TCP_CRR",
        "TCP_CC",
        "UDP_STREAM -- -m 10 -R 1",
        "UDP_RR",
    ];
    assert_stop_ends_tests(ours, "-2000000000", &tests, SHORT_TIMEOUT);
}

fn assert_stop_ends_tests(
    command: fn(&str) -> Command,
    length: &str,
    tests: &[&str],
    timeout: Duration,
) {
    Namespace::new().enter(|| {
        // Only a few tests run at a time, so that each reaches its data phase on a slow machine.
        for tests in tests.chunks(4) {
            for signal in [Signal::TERM, Signal::INT] {
                let server = Server::start("");
                let mut clients: Vec<_> = tests
                    .iter()
                    .map(|test| start_client(command, &server, length, test))
                    .collect();
                clients
                    .iter_mut()
                    .for_each(TestProcess::wait_for_data_phase);
                let port = server.port;
                server.signal(signal);
                server.wait(SHORT_TIMEOUT).assert_success();
                assert!(!is_listening(port));
                for client in clients {
                    assert_no_result(&client.finish(timeout));
                }
            }
        }
    });
}

#[track_caller]
fn assert_no_result(client: &ProcessOutput) {
    // SIGPIPE ends a stock client that writes to a closed connection. It prints nothing.
    if client.signal == Some(Signal::PIPE.as_raw()) {
        assert_eq!(client.stdout.trim(), "", "{client:#?}");
        return;
    }
    assert_eq!(client.code, Some(1), "{client:#?}");
    let figures = client.figures();
    assert!(figures.is_empty(), "{figures:?}: {client:#?}");
    let output = format!("{}{}", client.stdout, client.stderr);
    assert!(!output.trim().is_empty(), "{client:#?}");
}

/// Running tests finish with complete results. The server starts no further test.
fn drains_running_tests() {
    Namespace::new().enter(|| {
        let server = Server::start("--drain-on-exit 80");
        let mut idle = RawClient::connect(server.port);
        // On a busy machine, a test may end before all others have begun. Then the next ones are
        // longer.
        let running = ["4", "16", "64"]
            .into_iter()
            .find_map(|length| start_running_clients(&server, length));
        let mut clients = running.expect("a client ended too early");
        let iterating = clients.pop().expect("the last client");
        let details = clients.pop().expect("the client before");
        let port = server.port;
        server.signal(Signal::TERM);
        assert!(wait_until(SHORT_TIMEOUT, || !is_listening(port)));
        assert!(
            idle.time_until_closed(SHORT_TIMEOUT).is_some(),
            "the server waits for an idle client"
        );
        for client in clients.drain(..) {
            let client = client.finish(Duration::from_secs(80));
            client.assert_success();
            assert!(!client.figures().is_empty(), "{client:#?}");
        }
        let details = details.finish(SHORT_TIMEOUT);
        details.assert_success();
        assert!(
            !details.stdout.contains("LATE_DATAGRAMS=-1"),
            "{details:#?}"
        );
        assert_no_result(&iterating.finish(SHORT_TIMEOUT));
        server.wait(SHORT_TIMEOUT).assert_success();
    });
}

/// Starts a client of each kind. Returns `None` if one of them has ended before all transfer data.
fn start_running_clients(server: &Server, length: &str) -> Option<Vec<TestProcess>> {
    let common = [ours as fn(&str) -> Command, stock]
        .into_iter()
        .flat_map(|command| COMMON_TESTS.map(|test| start_client(command, server, length, test)));
    let mut clients: Vec<_> = common.collect();
    // The client requests the number of late datagrams after the results.
    clients.push(start_client(
        ours,
        server,
        length,
        "UDP_STREAM -- -R 1 -k LATE_DATAGRAMS",
    ));
    // The second iteration is another test.
    clients.push(start_client(ours, server, length, "TCP_RR -i 3,3"));
    clients
        .iter_mut()
        .for_each(TestProcess::wait_for_data_phase);
    let are_running = clients.iter_mut().all(TestProcess::is_running);
    are_running.then_some(clients)
}

fn limits_drain_time() {
    Namespace::new().enter(|| {
        let server = Server::start("--drain-on-exit 1");
        let mut clients =
            ["TCP_STREAM", "UDP_RR"].map(|test| start_client(ours, &server, "30", test));
        clients
            .iter_mut()
            .for_each(TestProcess::wait_for_data_phase);
        let start = Instant::now();
        server.signal(Signal::TERM);
        server.wait(SHORT_TIMEOUT).assert_success();
        assert!(start.elapsed() >= Duration::from_secs(1));
        for client in clients {
            assert_no_result(&client.finish(SHORT_TIMEOUT));
        }
    });
}

fn second_signal_ends_drain() {
    Namespace::new().enter(|| {
        let server = Server::start("--drain-on-exit 30");
        let mut client = start_client(ours, &server, "30", "TCP_STREAM");
        client.wait_for_data_phase();
        let port = server.port;
        server.signal(Signal::TERM);
        assert!(wait_until(SHORT_TIMEOUT, || !is_listening(port)));
        server.signal(Signal::TERM);
        server.wait(SHORT_TIMEOUT);
        assert_no_result(&client.finish(SHORT_TIMEOUT));
    });
}
