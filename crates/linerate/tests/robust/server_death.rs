//! Servers that die in each phase: the client reports the loss in one line and ends.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use netperf::wire::{MESSAGE_BYTES, OMNI, TestResponse};
use rustix::process::Signal;
use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, ProcessOutput, Receive, STOCK_NETPERF, Server, TestCase, TestProcess,
    has_unread_bytes, linerate_with_args, listener_count, wait_until, with_prefix,
};

use super::raw::TestKind;

/// Timeout for a client to detect the end of a connection. The kernel reports it at once, so no
/// deadline of the client matters.
const SHORT_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        needing &[Namespaces];
        reports_lost_server_of_ours,
    ];
    test_cases.extend(testkit::test_cases![
        needing &[STOCK_NETPERF, Namespaces];
        reports_lost_server_of_stock,
    ]);
    test_cases.extend(testkit::test_cases![reports_server_lost_before_results]);
    with_prefix("server_death", test_cases).collect()
}

fn reports_lost_server_of_ours() {
    assert_reports_lost_server(|| Server::start(""));
}

fn reports_lost_server_of_stock() {
    assert_reports_lost_server(Server::start_stock);
}

fn assert_reports_lost_server(start: fn() -> Server) {
    Namespace::new().enter(|| {
        let server = start();
        server.signal(Signal::STOP);
        let client = start_client(&server, TestKind::TcpStream, "-l 10");
        assert!(
            wait_until(SHORT_TIMEOUT, || has_unread_bytes(server.port)),
            "the client sends no request"
        );
        server.kill_all();
        assert_reports_loss(client, "a death before the response");

        let server = start();
        let listeners_before = listener_count();
        // With -s, the client waits for 20 s between the response and the data.
        let client = start_client(&server, TestKind::TcpStream, "-s 20 -l 10");
        assert!(
            wait_until(SHORT_TIMEOUT, || listener_count() > listeners_before),
            "the server opens no data socket"
        );
        server.kill_all();
        assert_reports_loss(client, "a death before the data");

        for kind in TestKind::ALL {
            let server = start();
            let mut client = start_client(&server, kind, "-l 20");
            client.wait_for_data_phase();
            server.kill_all();
            assert_reports_loss(client, &format!("a death in the data, {}", kind.name()));
        }
    });
}

/// The server accepts a test, receives its data and dies.
fn reports_server_lost_before_results() {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let port = |listener: &TcpListener| listener.local_addr().expect("the socket is bound").port();
    let (control, data) = (listen(), listen());
    let options = format!(
        "netperf -H 127.0.0.1 -p {} -t TCP_STREAM -l 1 -P 0",
        port(&control)
    );
    let client = TestProcess::start(&mut linerate_with_args(&options));
    let (mut control, _) = control.accept().expect("the client connects");
    control
        .read_exact(&mut [0; MESSAGE_BYTES])
        .expect("the client sends a request");
    let response = TestResponse {
        receive_size: 65_536,
        data_port: port(&data).into(),
        ..TestResponse::default()
    };
    control
        .write_all(&OMNI.encode_response(&response))
        .expect("the client reads");
    let (data, _) = data.accept().expect("the client sends");
    let mut discarded = vec![0; 65_536];
    while data.receive(&mut discarded).is_ok_and(|length| length > 0) {}
    drop((control, data));
    assert_reports_loss(client, "a death before the results");
}

fn start_client(server: &Server, kind: TestKind, options: &str) -> TestProcess {
    let options = format!(
        "netperf -H 127.0.0.1 -p {} -t {} -P 0 {options}",
        server.port,
        kind.name()
    );
    TestProcess::start(&mut linerate_with_args(&options))
}

#[track_caller]
fn assert_reports_loss(client: TestProcess, event: &str) {
    let client: ProcessOutput = client.finish(SHORT_TIMEOUT);
    assert!(
        client.code.is_some_and(|code| code != 0),
        "{event}: {client:#?}"
    );
    let lines = client.stderr.lines().filter(|line| !line.trim().is_empty());
    assert_eq!(lines.count(), 1, "{event}: {client:#?}");
}
