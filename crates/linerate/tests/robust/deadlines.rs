//! Every state of a session has a configurable deadline.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use netperf::wire::Request;
use testkit::{Server, TestCase, TestProcess, linerate_with_args, with_prefix};

use super::raw::{RawClient, TestKind, data_connection, datagram_socket};

/// Deadline that the tests configure, in seconds.
const DEADLINE_SECONDS: &str = "2";

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![
        closes_silent_control_connection,
        closes_slow_control_connection,
        ends_test_without_data,
        ends_test_whose_data_stops,
        client_ends_when_peer_falls_silent,
        client_waits_for_slow_reader,
        ends_test_with_unread_data,
        closes_idle_connection_after_results,
        requires_passphrase,
        passphrase_wait_is_configurable,
    ];
    with_prefix("deadlines", test_cases)
        .map(TestCase::allow_many_at_once)
        .collect()
}

fn closes_silent_control_connection() {
    let server = Server::start(&format!("--control-idle {DEADLINE_SECONDS}"));
    let idle_usage = server.idle_usage();
    let elapsed = RawClient::connect(server.port).time_until_closed(Duration::from_secs(10));
    assert_at_deadline(elapsed, "a silent client");
    server.assert_usage_returns_to(idle_usage, Duration::from_secs(2), "a silent client");
}

/// A client that sends single bytes (Slowloris) does not extend the deadline.
fn closes_slow_control_connection() {
    let server = Server::start(&format!("--control-idle {DEADLINE_SECONDS}"));
    let idle_usage = server.idle_usage();
    let mut raw = RawClient::connect(server.port);
    let mut sender = raw
        .control
        .try_clone()
        .expect("the process has descriptors left");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while sender.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let elapsed = raw.time_until_closed(Duration::from_secs(10));
        assert_at_deadline(elapsed, "a message byte by byte");
    });
    drop(raw);
    server.assert_usage_returns_to(idle_usage, Duration::from_secs(2), "a message byte by byte");
}

fn ends_test_without_data() {
    let server = Server::start(&format!("--data-wait {DEADLINE_SECONDS}"));
    let idle_usage = server.idle_usage();
    for_each_kind(TestKind::ALL, |kind| {
        let mut raw = RawClient::connect(server.port);
        raw.request_test(&kind.request(1));
        let start = Instant::now();
        let refusal = raw.receive_refusal();
        assert!(
            matches!(refusal, Ok(errno) if errno > 0),
            "{}: {refusal:?}",
            kind.name()
        );
        assert_at_deadline(Some(start.elapsed()), kind.name());
        assert!(
            raw.time_until_closed(Duration::from_secs(1)).is_some(),
            "{}: the session continues",
            kind.name()
        );
    });
    server.assert_usage_returns_to(idle_usage, Duration::from_secs(2), "requests without data");
}

/// The tests have a count, so no length ends them.
fn ends_test_whose_data_stops() {
    let server = Server::start(&format!("--data-idle {DEADLINE_SECONDS} --control-idle 30"));
    let idle_usage = server.idle_usage();
    let kinds = TestKind::ALL
        .into_iter()
        .filter(|kind| *kind != TestKind::TcpMaerts);
    for_each_kind(kinds, |kind| {
        let mut raw = RawClient::connect(server.port);
        let port = raw.request_test(&kind.request(-1_000_000));
        if matches!(kind, TestKind::UdpStream | TestKind::UdpRr) {
            let data = datagram_socket(port);
            data.send(&[0]).expect("the test receives");
            assert_results_at_deadline(&mut raw, kind);
        } else {
            let mut data = data_connection(port);
            data.write_all(&[0]).expect("the test receives");
            if kind != TestKind::TcpStream {
                data.read_exact(&mut [0]).expect("the test answers");
            }
            // A connection test needs a next connection, which stays silent.
            let _next_connection = (kind == TestKind::TcpCrr).then(|| data_connection(port));
            assert_results_at_deadline(&mut raw, kind);
        }
    });
    server.assert_usage_returns_to(idle_usage, Duration::from_secs(2), "data that stopped");
}

/// The peer's sockets receive data but never send any.
fn client_ends_when_peer_falls_silent() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let address = |kind| match kind {
        TestKind::UdpStream | TestKind::UdpRr => socket.local_addr(),
        _ => listener.local_addr(),
    };
    let kinds = TestKind::ALL
        .into_iter()
        .filter(|kind| !matches!(kind, TestKind::UdpStream | TestKind::TcpMaerts));
    for_each_kind(kinds, |kind| {
        let (test, port) = (
            kind.name(),
            address(kind).expect("the socket is bound").port(),
        );
        let mut client = linerate_with_args(&format!(
            "netperf -N -H 127.0.0.1 -t {test} -l -100000000 --data-idle {DEADLINE_SECONDS} -- -P ,{port}"
        ));
        let start = Instant::now();
        let output = TestProcess::start(&mut client).finish(Duration::from_secs(20));
        assert_at_deadline(Some(start.elapsed()), kind.name());
        let stderr = output.stderr.trim_end();
        let expected = "netperf: no data has moved for 2 s (--data-idle)";
        assert_eq!(
            (output.code, stderr),
            (Some(1), expected),
            "{}",
            kind.name()
        );
    });
}

/// The client has sent all data. `--data-idle` does not limit the time that the peer takes to read
/// it.
fn client_waits_for_slow_reader() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let port = listener.local_addr().expect("the socket is bound").port();
    let mut client = linerate_with_args(&format!(
        "netperf -N -H 127.0.0.1 -t TCP_STREAM -l -10000 --data-idle 1 -- -m 1000 -P ,{port}"
    ));
    let client = TestProcess::start(&mut client);
    let (mut data, _) = listener.accept().expect("the client connects");
    std::thread::sleep(Duration::from_secs(3));
    let mut received = Vec::new();
    data.read_to_end(&mut received).expect("the client sends");
    drop(data);
    client.finish(Duration::from_secs(20)).assert_success();
    assert_eq!(received.len(), 10_000);
}

fn ends_test_with_unread_data() {
    let server = Server::start(&format!("--data-idle {DEADLINE_SECONDS} --control-idle 30"));
    let idle_usage = server.idle_usage();
    let mut raw = RawClient::connect(server.port);
    let port = raw.request_test(&TestKind::TcpMaerts.request(-2_000_000_000));
    let data = data_connection(port);
    assert_results_at_deadline(&mut raw, TestKind::TcpMaerts);
    drop((raw, data));
    server.assert_usage_returns_to(idle_usage, Duration::from_secs(2), "unread data");
}

fn closes_idle_connection_after_results() {
    let server = Server::start(&format!("--control-idle {DEADLINE_SECONDS}"));
    let idle_usage = server.idle_usage();
    let mut raw = RawClient::connect(server.port);
    let port = raw.request_test(&TestKind::TcpStream.request(10));
    let mut data = data_connection(port);
    data.write_all(&[0; 10_000]).expect("the test receives");
    drop(data);
    assert_at_deadline(
        raw.time_until_closed(Duration::from_secs(10)),
        "unread results",
    );
    server.assert_usage_returns_to(idle_usage, Duration::from_secs(2), "unread results");
}

/// The default deadline is 20 s.
fn requires_passphrase() {
    let server = Server::start("-Z secret");
    let mut wrong = RawClient::connect(server.port);
    wrong.send(&Request::Passphrase(b"guessed".to_vec()));
    assert!(
        wrong.time_until_closed(Duration::from_secs(2)).is_some(),
        "the server accepts a wrong passphrase"
    );
    let mut none = RawClient::connect(server.port);
    none.send(&Request::Omni(TestKind::TcpRr.request(1)));
    assert!(
        none.time_until_closed(Duration::from_secs(2)).is_some(),
        "the server requires no passphrase"
    );

    let mut right = RawClient::connect(server.port);
    right.send(&Request::Passphrase(b"secret".to_vec()));
    right.request_test(&TestKind::TcpRr.request(1));
    let elapsed = RawClient::connect(server.port).time_until_closed(Duration::from_secs(30));
    let elapsed = elapsed
        .expect("the server closes the connection")
        .as_secs_f64();
    assert!(
        (19.0..24.0).contains(&elapsed),
        "the session ended after {elapsed:.1} s"
    );
}

fn passphrase_wait_is_configurable() {
    let server = Server::start(&format!("-Z secret --passphrase-wait {DEADLINE_SECONDS}"));
    let elapsed = RawClient::connect(server.port).time_until_closed(Duration::from_secs(10));
    assert_at_deadline(elapsed, "the wait for a passphrase");
}

fn assert_results_at_deadline(raw: &mut RawClient, kind: TestKind) {
    let start = Instant::now();
    let answer = raw.receive();
    assert!(
        answer.is_ok(),
        "{}: {answer:?} instead of results",
        kind.name()
    );
    assert_at_deadline(Some(start.elapsed()), kind.name());
}

/// Fails the test unless the time is within -0.2 s and +2 s of the deadline. A busy machine may
/// need the two seconds.
#[track_caller]
fn assert_at_deadline(elapsed: Option<Duration>, case: &str) {
    let elapsed = elapsed
        .unwrap_or_else(|| panic!("{case}: no end"))
        .as_secs_f64();
    assert!(
        (1.8..4.0).contains(&elapsed),
        "{case}: ended after {elapsed:.2} s instead of {DEADLINE_SECONDS} s"
    );
}

/// Runs a check for each kind of test. The checks run concurrently because they only wait.
fn for_each_kind(kinds: impl IntoIterator<Item = TestKind>, check: impl Fn(TestKind) + Sync) {
    let check = &check;
    std::thread::scope(|scope| {
        let threads: Vec<_> = kinds
            .into_iter()
            .map(|kind| scope.spawn(move || check(kind)))
            .collect();
        for thread in threads {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}
