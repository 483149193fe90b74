//! Every state of a session has a deadline, each settable.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use netperf::wire::Request;
use testkit::{Server, TestCase, TestProcess, linerate_with_args, with_prefix};

use super::raw::{Kind, Raw, data_connection, datagram_socket};

/// What the servers here are told to wait, in seconds.
const WAIT: &str = "2";

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![
        a_silent_client,
        a_message_byte_by_byte,
        a_request_without_data,
        data_that_stops,
        a_peer_that_falls_silent,
        a_peer_that_reads_late,
        data_that_nobody_reads,
        results_that_nobody_fetches,
        a_passphrase_that_never_comes,
        the_wait_for_a_passphrase,
    ];
    with_prefix("deadlines", test_cases)
        .map(TestCase::allow_many)
        .collect()
}

fn a_silent_client() {
    let server = Server::start(&format!("--control-idle {WAIT}"));
    let rest = server.idle_usage();
    let took = Raw::connect(server.port).time_to_end(Duration::from_secs(10));
    assert_at_deadline(took, "a silent client");
    server.assert_usage_returns_to(rest, Duration::from_secs(2), "a silent client");
}

/// Slow-loris: a byte now and then makes no message.
fn a_message_byte_by_byte() {
    let server = Server::start(&format!("--control-idle {WAIT}"));
    let rest = server.idle_usage();
    let mut raw = Raw::connect(server.port);
    let mut feeder = raw.control.try_clone().expect("there are descriptors left");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while feeder.write_all(&[0]).is_ok() {
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let took = raw.time_to_end(Duration::from_secs(10));
        assert_at_deadline(took, "a message byte by byte");
    });
    drop(raw);
    server.assert_usage_returns_to(rest, Duration::from_secs(2), "a message byte by byte");
}

fn a_request_without_data() {
    let server = Server::start(&format!("--data-wait {WAIT}"));
    let rest = server.idle_usage();
    of_each_kind(|kind| {
        let mut raw = Raw::connect(server.port);
        raw.ask(&kind.request(1));
        let start = Instant::now();
        let refusal = raw.refusal();
        assert!(
            matches!(refusal, Ok(errno) if errno > 0),
            "{}: {refusal:?}",
            kind.name()
        );
        assert_at_deadline(Some(start.elapsed()), kind.name());
        assert!(
            raw.time_to_end(Duration::from_secs(1)).is_some(),
            "{}: the session goes on",
            kind.name()
        );
    });
    server.assert_usage_returns_to(rest, Duration::from_secs(2), "requests without data");
}

/// Tests that end by count, so that no length of theirs ends them.
fn data_that_stops() {
    let server = Server::start(&format!("--data-idle {WAIT} --control-idle 30"));
    let rest = server.idle_usage();
    let kinds = Kind::ALL
        .into_iter()
        .filter(|kind| *kind != Kind::TcpMaerts);
    each(kinds, |kind| {
        let mut raw = Raw::connect(server.port);
        let port = raw.ask(&kind.request(-1_000_000));
        if matches!(kind, Kind::UdpStream | Kind::UdpRr) {
            let data = datagram_socket(port);
            data.send(&[0]).expect("the test receives");
            results_come_at_deadline(&mut raw, kind);
        } else {
            let mut data = data_connection(port);
            data.write_all(&[0]).expect("the test receives");
            if kind != Kind::TcpStream {
                data.read_exact(&mut [0]).expect("the test answers");
            }
            // The one connection of a connection test has been served; the next stays silent.
            let _next = (kind == Kind::TcpCrr).then(|| data_connection(port));
            results_come_at_deadline(&mut raw, kind);
        }
    });
    server.assert_usage_returns_to(rest, Duration::from_secs(2), "data that stopped");
}

/// Services that take what comes into their sockets, and say nothing.
fn a_peer_that_falls_silent() {
    let connections = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let datagrams = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port_of = |kind| match kind {
        Kind::UdpStream | Kind::UdpRr => datagrams.local_addr(),
        _ => connections.local_addr(),
    };
    let kinds = Kind::ALL
        .into_iter()
        .filter(|kind| !matches!(kind, Kind::UdpStream | Kind::TcpMaerts));
    each(kinds, |kind| {
        let (test, port) = (kind.name(), port_of(kind).expect("it is bound").port());
        let mut client = linerate_with_args(&format!(
            "netperf -N -H 127.0.0.1 -t {test} -l -100000000 --data-idle {WAIT} -- -P ,{port}"
        ));
        let start = Instant::now();
        let ended = TestProcess::start(&mut client).finish(Duration::from_secs(20));
        assert_at_deadline(Some(start.elapsed()), kind.name());
        let said = ended.stderr.trim_end();
        let expected = "netperf: no data has moved for 2 s (--data-idle)";
        assert_eq!((ended.code, said), (Some(1), expected), "{}", kind.name());
    });
}

/// All that was to be sent has left: how long the peer takes to read it is no silence.
fn a_peer_that_reads_late() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let mut client = linerate_with_args(&format!(
        "netperf -N -H 127.0.0.1 -t TCP_STREAM -l -10000 --data-idle 1 -- -m 1000 -P ,{port}"
    ));
    let client = TestProcess::start(&mut client);
    let (mut data, _) = listener.accept().expect("the client comes");
    std::thread::sleep(Duration::from_secs(3));
    let mut seen = Vec::new();
    data.read_to_end(&mut seen).expect("the client sends");
    drop(data);
    client.finish(Duration::from_secs(20)).assert_success();
    assert_eq!(seen.len(), 10_000);
}

fn data_that_nobody_reads() {
    let server = Server::start(&format!("--data-idle {WAIT} --control-idle 30"));
    let rest = server.idle_usage();
    let mut raw = Raw::connect(server.port);
    let port = raw.ask(&Kind::TcpMaerts.request(-2_000_000_000));
    let data = data_connection(port);
    results_come_at_deadline(&mut raw, Kind::TcpMaerts);
    drop((raw, data));
    server.assert_usage_returns_to(rest, Duration::from_secs(2), "data that nobody reads");
}

fn results_that_nobody_fetches() {
    let server = Server::start(&format!("--control-idle {WAIT}"));
    let rest = server.idle_usage();
    let mut raw = Raw::connect(server.port);
    let port = raw.ask(&Kind::TcpStream.request(10));
    let mut data = data_connection(port);
    data.write_all(&[0; 10_000]).expect("the test receives");
    drop(data);
    assert_at_deadline(
        raw.time_to_end(Duration::from_secs(10)),
        "results that nobody fetches",
    );
    server.assert_usage_returns_to(rest, Duration::from_secs(2), "results that nobody fetches");
}

/// By default 20 s.
fn a_passphrase_that_never_comes() {
    let server = Server::start("-Z secret");
    let mut wrong = Raw::connect(server.port);
    wrong.send(&Request::Passphrase(b"guessed".to_vec()));
    assert!(
        wrong.time_to_end(Duration::from_secs(2)).is_some(),
        "a wrong passphrase was taken"
    );
    let mut none = Raw::connect(server.port);
    none.send(&Request::Omni(Kind::TcpRr.request(1)));
    assert!(
        none.time_to_end(Duration::from_secs(2)).is_some(),
        "no passphrase was needed"
    );

    let mut right = Raw::connect(server.port);
    right.send(&Request::Passphrase(b"secret".to_vec()));
    right.ask(&Kind::TcpRr.request(1));
    let took = Raw::connect(server.port).time_to_end(Duration::from_secs(30));
    let took = took.expect("the server waits for ever").as_secs_f64();
    assert!(
        (19.0..24.0).contains(&took),
        "the session ended after {took:.1} s"
    );
}

fn the_wait_for_a_passphrase() {
    let server = Server::start(&format!("-Z secret --passphrase-wait {WAIT}"));
    let took = Raw::connect(server.port).time_to_end(Duration::from_secs(10));
    assert_at_deadline(took, "the wait for a passphrase");
}

fn results_come_at_deadline(raw: &mut Raw, kind: Kind) {
    let start = Instant::now();
    let answer = raw.receive();
    assert!(
        answer.is_ok(),
        "{}: {answer:?} in place of results",
        kind.name()
    );
    assert_at_deadline(Some(start.elapsed()), kind.name());
}

/// Not before its time, and not long after it: two seconds are for a busy machine.
#[track_caller]
fn assert_at_deadline(took: Option<Duration>, what: &str) {
    let took = took
        .unwrap_or_else(|| panic!("{what}: no end"))
        .as_secs_f64();
    assert!(
        (1.8..4.0).contains(&took),
        "{what}: over after {took:.2} s in place of {WAIT} s"
    );
}

fn of_each_kind(check: impl Fn(Kind) + Sync) {
    each(Kind::ALL, check);
}

/// All at once: they only wait.
fn each(kinds: impl IntoIterator<Item = Kind>, check: impl Fn(Kind) + Sync) {
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
