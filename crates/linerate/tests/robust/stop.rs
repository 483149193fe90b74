//! A stopped server: its tests end without results, or finish first.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::TestCase;

use super::raw::Raw;
use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, ProcessOutput, STOCK_NETPERF, Server, TestProcess, is_listening, linerate_with_args,
    stock_with_args, test_case, wait_until,
};

/// What needs no waiting for.
const AT_ONCE: Duration = Duration::from_secs(4);

/// Every kind of test that both makes have.
const TESTS: [&str; 8] = [
    "TCP_STREAM",
    "TCP_MAERTS",
    "TCP_RR",
    "TCP_CRR",
    "TCP_CC",
    "TCP_SENDFILE",
    "UDP_STREAM",
    "UDP_RR",
];

/// What else ours can be asked for.
const OURS: [&str; 14] = [
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
    let (namespaces, both): (&[_], &[_]) = (&[Namespaces], &[STOCK_NETPERF, Namespaces]);
    vec![
        test_case("stop::ends_tests_of_ours", namespaces, ends_tests_of_ours),
        test_case("stop::ends_tests_of_stock", both, ends_tests_of_stock),
        test_case(
            "stop::ends_tests_that_count",
            namespaces,
            ends_tests_that_count,
        ),
        test_case("stop::drains", both, drains),
        test_case("stop::drains_for_so_long", namespaces, drains_for_so_long),
        test_case("stop::a_second_signal", namespaces, a_second_signal),
    ]
}

fn ours(line: &str) -> Command {
    linerate_with_args(&format!("netperf {line}"))
}

fn theirs(line: &str) -> Command {
    stock_with_args("netperf", line)
}

fn start(make: fn(&str) -> Command, server: &Server, length: &str, test: &str) -> TestProcess {
    let (test, rest) = test.split_once(' ').unwrap_or((test, ""));
    let line = format!(
        "-H 127.0.0.1 -p {} -P 0 -l {length} -t {test} {rest}",
        server.port
    );
    TestProcess::start(&mut make(&line))
}

fn ends_tests_of_ours() {
    let tests: Vec<_> = TESTS.into_iter().chain(OURS).collect();
    ends_tests(ours, "20", &tests, AT_ONCE);
}

/// Its UDP_RR waits until its time is up, also when a stock server is stopped.
fn ends_tests_of_stock() {
    ends_tests(theirs, "8", &TESTS, Duration::from_secs(20));
}

/// No time ends them, and they take longer than this test.
fn ends_tests_that_count() {
    let tests = [
        "TCP_STREAM -- -m 10",
        "TCP_MAERTS -- -m ,10",
        "TCP_RR",
        "TCP_CRR",
        "TCP_CC",
        "UDP_STREAM -- -m 10 -R 1",
        "UDP_RR",
    ];
    ends_tests(ours, "-2000000000", &tests, AT_ONCE);
}

fn ends_tests(make: fn(&str) -> Command, length: &str, tests: &[&str], patience: Duration) {
    Namespace::new().enter(|| {
        // A few at a time, so that each gets to its data on any machine.
        for tests in tests.chunks(4) {
            for signal in [Signal::TERM, Signal::INT] {
                let server = Server::start("");
                let mut clients: Vec<_> = tests
                    .iter()
                    .map(|test| start(make, &server, length, test))
                    .collect();
                clients
                    .iter_mut()
                    .for_each(TestProcess::wait_for_data_phase);
                let port = server.port;
                server.signal(signal);
                let ended = server.wait(AT_ONCE);
                ended.assert_success();
                assert!(!is_listening(port));
                for client in clients {
                    has_no_result(&client.finish(patience));
                }
            }
        }
    });
}

#[track_caller]
fn has_no_result(client: &ProcessOutput) {
    // Stock's end so when they write to a connection that is closed, and say nothing.
    if client.signal == Some(Signal::PIPE.as_raw()) {
        assert_eq!(client.stdout.trim(), "", "{client:#?}");
        return;
    }
    assert_eq!(client.code, Some(1), "{client:#?}");
    let figures = client.figures();
    assert!(figures.is_empty(), "{figures:?}: {client:#?}");
    let said = format!("{}{}", client.stdout, client.stderr);
    assert!(!said.trim().is_empty(), "{client:#?}");
}

/// What runs comes to its end, with everything that belongs to a result; nothing else begins.
fn drains() {
    Namespace::new().enter(|| {
        let server = Server::start("--drain-on-exit 20");
        let mut idle = Raw::connect(server.port);
        let plain = [ours as fn(&str) -> Command, theirs]
            .into_iter()
            .flat_map(|make| TESTS.map(|test| start(make, &server, "10", test)));
        let mut clients: Vec<_> = plain.collect();
        // Late datagrams are among what is asked for after the results.
        clients.push(start(
            ours,
            &server,
            "10",
            "UDP_STREAM -- -R 1 -k LATE_DATAGRAMS",
        ));
        // The second iteration is another test.
        clients.push(start(ours, &server, "10", "TCP_RR -i 3,3"));
        clients
            .iter_mut()
            .for_each(TestProcess::wait_for_data_phase);
        assert!(
            clients.iter_mut().all(TestProcess::is_running),
            "they are over"
        );
        let again = clients.pop().expect("the last one");
        let details = clients.pop().expect("the one before");
        let port = server.port;
        server.signal(Signal::TERM);
        assert!(wait_until(AT_ONCE, || !is_listening(port)));
        assert!(
            idle.time_to_end(AT_ONCE).is_some(),
            "an idle client is waited for"
        );
        for client in clients.drain(..) {
            let client = client.finish(Duration::from_secs(20));
            client.assert_success();
            assert!(!client.figures().is_empty(), "{client:#?}");
        }
        let details = details.finish(AT_ONCE);
        details.assert_success();
        assert!(
            !details.stdout.contains("LATE_DATAGRAMS=-1"),
            "{details:#?}"
        );
        has_no_result(&again.finish(AT_ONCE));
        server.wait(AT_ONCE).assert_success();
    });
}

fn drains_for_so_long() {
    Namespace::new().enter(|| {
        let server = Server::start("--drain-on-exit 1");
        let mut clients = ["TCP_STREAM", "UDP_RR"].map(|test| start(ours, &server, "30", test));
        clients
            .iter_mut()
            .for_each(TestProcess::wait_for_data_phase);
        let begun = Instant::now();
        server.signal(Signal::TERM);
        server.wait(AT_ONCE).assert_success();
        assert!(begun.elapsed() >= Duration::from_secs(1));
        for client in clients {
            has_no_result(&client.finish(AT_ONCE));
        }
    });
}

fn a_second_signal() {
    Namespace::new().enter(|| {
        let server = Server::start("--drain-on-exit 30");
        let mut client = start(ours, &server, "30", "TCP_STREAM");
        client.wait_for_data_phase();
        let port = server.port;
        server.signal(Signal::TERM);
        assert!(wait_until(AT_ONCE, || !is_listening(port)));
        server.signal(Signal::TERM);
        server.wait(AT_ONCE);
        has_no_result(&client.finish(AT_ONCE));
    });
}
