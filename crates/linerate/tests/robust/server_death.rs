//! Servers that die, in each phase: the client says so in one line, and ends.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use netperf::wire::{MESSAGE_BYTES, OMNI, TestResponse};
use rustix::process::Signal;
use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, ProcessOutput, STOCK_NETPERF, Server, TestCase, TestProcess, has_connection_to,
    linerate_with_args, listener_count, test_case, wait_until,
};

use super::raw::Kind;

/// The end of a connection needs no deadline.
const AT_ONCE: Duration = Duration::from_secs(3);

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case(
            "server_death::of_ours_in_each_phase",
            &[Namespaces],
            of_ours_in_each_phase,
        ),
        test_case(
            "server_death::of_stock_in_each_phase",
            &[STOCK_NETPERF, Namespaces],
            of_stock_in_each_phase,
        ),
        test_case("server_death::before_the_results", &[], before_the_results),
    ]
}

fn of_ours_in_each_phase() {
    in_each_phase(|| Server::start(""));
}

fn of_stock_in_each_phase() {
    in_each_phase(Server::start_stock);
}

fn in_each_phase(start: fn() -> Server) {
    Namespace::new().enter(|| {
        let server = start();
        server.signal(Signal::STOP);
        let client = start_client(&server, Kind::TcpStream, "-l 10");
        assert!(
            wait_until(AT_ONCE, || has_connection_to(server.port)),
            "the kernel does not accept"
        );
        server.kill_all();
        assert_says_so(client, "a death before the response");

        let server = start();
        let before = listener_count();
        // The client waits for so long between the response and the data.
        let client = start_client(&server, Kind::TcpStream, "-s 20 -l 10");
        assert!(
            wait_until(AT_ONCE, || listener_count() > before),
            "the server makes no data socket"
        );
        server.kill_all();
        assert_says_so(client, "a death before the data");

        for kind in Kind::ALL {
            let server = start();
            let mut client = start_client(&server, kind, "-l 20");
            client.wait_for_data_phase();
            server.kill_all();
            assert_says_so(client, &format!("a death in the data, {}", kind.name()));
        }
    });
}

/// This server accepts a test, takes its data and goes.
fn before_the_results() {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let port = |listener: &TcpListener| listener.local_addr().expect("it is bound").port();
    let (control, data) = (listen(), listen());
    let options = format!(
        "netperf -H 127.0.0.1 -p {} -t TCP_STREAM -l 1 -P 0",
        port(&control)
    );
    let client = TestProcess::start(&mut linerate_with_args(&options));
    let (mut control, _) = control.accept().expect("the client connects");
    control
        .read_exact(&mut [0; MESSAGE_BYTES])
        .expect("the client asks");
    let response = TestResponse {
        receive_size: 65_536,
        data_port: port(&data).into(),
        ..TestResponse::default()
    };
    control
        .write_all(&OMNI.encode_response(&response))
        .expect("the client reads");
    let (mut data, _) = data.accept().expect("the client sends");
    let mut scrap = vec![0; 65_536];
    while data.read(&mut scrap).is_ok_and(|taken| taken > 0) {}
    drop((control, data));
    assert_says_so(client, "a death before the results");
}

fn start_client(server: &Server, kind: Kind, options: &str) -> TestProcess {
    let options = format!(
        "netperf -H 127.0.0.1 -p {} -t {} -P 0 {options}",
        server.port,
        kind.name()
    );
    TestProcess::start(&mut linerate_with_args(&options))
}

#[track_caller]
fn assert_says_so(client: TestProcess, what: &str) {
    let client: ProcessOutput = client.finish(AT_ONCE);
    assert!(
        client.code.is_some_and(|code| code != 0),
        "{what}: {client:#?}"
    );
    let lines = client.stderr.lines().filter(|line| !line.trim().is_empty());
    assert_eq!(lines.count(), 1, "{what}: {client:#?}");
}
