//! UDP streams of several iperf3 clients with one address, as behind a NAT. Streams of linerate
//! clients carry the cookie of their test. The tests of other clients take turns.

use std::time::Duration;

use iperf3::wire::{ControlState, Cookie, GREETING, add_length_prefix};
use serde_json::Value;
use testkit::Requirement::Program;
use testkit::{Receive, TestCase, TestProcess, test_cases};

use super::iperf3_script::{self, Client, await_reply};
use super::{
    CommandBuilder, SHORT_TIMEOUT, our_iperf3, start_idle_server, start_server, stock_iperf3,
};

/// Timeout of a short test on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Parameters of a client that sends no cookie with its streams.
const WITHOUT_COOKIE: &str = r#"{"udp":true,"len":1000,"time":1}"#;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = test_cases![
        ignores_streams_with_wrong_cookie,
        cookies_identify_streams_without_turn,
        client_sends_cookie_on_request_only,
        reports_stream_that_could_belong_to_several_tests,
    ];
    test_cases.extend(test_cases![
        needing &[Program("iperf3")];
        silent_clients_do_not_hold_up_others,
        clients_of_one_address_get_their_own_streams,
    ]);
    test_cases
        .into_iter()
        .map(TestCase::allow_many_at_once)
        .collect()
}

/// Starts a test with these parameters, up to the request for streams.
fn request_test(port: u16, parameters: &str) -> Client {
    let mut client = Client::connect(port);
    client.send_cookie();
    client.control.send(&add_length_prefix(parameters));
    client
}

/// Starts a UDP test whose streams carry the cookie.
fn request_test_with_cookie(port: u16) -> Client {
    let mut client = request_test(port, r#"{"udp":true,"len":1000,"time":1,"udp_cookie":1}"#);
    client.control.await_state(ControlState::StreamBegin);
    client.control.await_state(ControlState::CreateStreams);
    client
}

fn greeting_with(cookie: &[u8]) -> Vec<u8> {
    [&GREETING, cookie].concat()
}

/// Twenty clients request UDP tests and send no greeting. A stock client gets its turn long before
/// all of them have had theirs, and a linerate client needs none.
fn silent_clients_do_not_hold_up_others() {
    const SILENT_CLIENTS: usize = 20;
    let options = "-u -b 1M -l 1000 -n 10K";
    let (server, idle_usage) = start_idle_server(our_iperf3, "", &[options]);
    let silent_clients: Vec<Client> = (0..SILENT_CLIENTS)
        .map(|_| request_test(server.port, WITHOUT_COOKIE))
        .collect();
    let line = format!("-c 127.0.0.1 -p {} {options}", server.port);
    let clients = [our_iperf3, stock_iperf3].map(|command| TestProcess::start(&mut command(&line)));
    for client in clients {
        client.finish(TIMEOUT).assert_success();
    }
    // All turns together take 40 s.
    let is_waiting = |client: &Client| client.control.is_silent();
    assert!(silent_clients.iter().any(is_waiting));
    drop(silent_clients);
    server.assert_usage_returns_to(idle_usage, SHORT_TIMEOUT, "a disconnect while waiting");
    assert!(!server.has_panicked());
}

/// Two linerate clients and two stock clients start at once. Both ends of each test have the same
/// streams, and each stream has datagrams of its test's length only.
fn clients_of_one_address_get_their_own_streams() {
    const CLIENTS: [(CommandBuilder, u64, &str); 4] = [
        (our_iperf3, 1000, "-P 3"),
        (our_iperf3, 900, "-P 2 --bidir"),
        (stock_iperf3, 800, "-P 3"),
        (stock_iperf3, 700, "-P 2 -R"),
    ];
    let server = start_server(our_iperf3, "-J");
    for _ in 0..5 {
        let clients = CLIENTS.map(|(command, length, options)| {
            let line = format!(
                "-J -c 127.0.0.1 -p {} -u -b 200K -t 1 --get-server-output -l {length} {options}",
                server.port
            );
            (length, TestProcess::start(&mut command(&line)))
        });
        for (length, client) in clients {
            let client = client.finish(TIMEOUT);
            client.assert_success();
            let document: Value = serde_json::from_str(&client.stdout).expect("a document");
            let server_document = &document["server_output_json"];
            let ports = connected_ports(&document, "local_port");
            assert!(!ports.is_empty(), "{document:#}");
            assert_eq!(ports, connected_ports(server_document, "remote_port"));
            for document in [&document, server_document] {
                let intervals = document["intervals"].as_array().expect("intervals");
                let streams = intervals
                    .iter()
                    .filter_map(|interval| interval["streams"].as_array());
                let mut bytes = streams.flatten().map(|stream| &stream["bytes"]);
                let is_multiple =
                    |bytes: &Value| bytes.as_u64().expect("a count").is_multiple_of(length);
                assert!(bytes.all(is_multiple), "{length}: {document:#}");
            }
        }
    }
    server.terminate();
}

/// Returns these ports of a document's streams.
fn connected_ports<'a>(document: &'a Value, key: &str) -> Vec<&'a Value> {
    let streams = document["start"]["connected"].as_array();
    let ports = streams.into_iter().flatten().map(|stream| &stream[key]);
    ports.collect()
}

/// A test whose streams carry the cookie accepts no stream without it.
fn ignores_streams_with_wrong_cookie() {
    let server = start_server(our_iperf3, "");
    let mut client = request_test_with_cookie(server.port);
    let cookie = client.cookie.0;
    let wrong_greetings = [
        GREETING.to_vec(),
        greeting_with(&Cookie::random().0),
        greeting_with(&cookie[1..]),
        cookie.to_vec(),
    ];
    let wrong_streams = wrong_greetings.map(|greeting| client.send_greeting(&greeting));
    let stream = client.send_greeting(&greeting_with(&cookie));
    await_reply(&stream);
    client.await_running();
    for stream in wrong_streams {
        stream.set_nonblocking(true).expect("a valid socket");
        let result = stream.receive(&mut [0; 16]);
        assert!(result.is_err(), "{result:?}");
    }
    assert_eq!(server.stderr(), "");
    assert!(!server.has_panicked());
}

/// While another client of the address has its turn, two tests open their streams in any order.
fn cookies_identify_streams_without_turn() {
    let server = start_server(our_iperf3, "");
    let mut silent = request_test(server.port, WITHOUT_COOKIE);
    silent.control.await_state(ControlState::CreateStreams);
    let mut clients = [(); 2].map(|()| request_test_with_cookie(server.port));
    for client in clients.iter_mut().rev() {
        let stream = client.send_greeting(&greeting_with(&client.cookie.0));
        await_reply(&stream);
        client.await_running();
    }
    silent.open_udp_stream();
    silent.await_running();
    assert!(
        !server.stderr().contains("could belong"),
        "{}",
        server.stderr()
    );
}

/// A stock server ignores the offer, and gets a greeting of 4 bytes.
fn client_sends_cookie_on_request_only() {
    for requests_cookie in [false, true] {
        let server = iperf3_script::Server::listen();
        let line = format!("-c 127.0.0.1 -p {} -u -t 1", server.port);
        let _client = TestProcess::start(&mut our_iperf3(&line));
        let mut session = server.accept();
        session.control.send_state(ControlState::ParamExchange);
        let parameters: Value = serde_json::from_str(&session.control.read_json()).expect("JSON");
        assert_eq!(parameters["udp_cookie"], 1, "{parameters}");
        let cookie = if requests_cookie {
            session.control.send_state(ControlState::StreamBegin);
            &session.cookie[..]
        } else {
            &[]
        };
        let expected = greeting_with(cookie);
        let (_stream, greeting) = server.accept_udp_stream(&mut session);
        assert_eq!(greeting, expected);
    }
}

/// The turn of a silent client has ended, but its stream may still arrive. Then the server stops while
/// that client's test waits.
fn reports_stream_that_could_belong_to_several_tests() {
    let server = start_server(our_iperf3, "");
    let _silent = loop {
        let mut silent = request_test(server.port, WITHOUT_COOKIE);
        silent.control.await_state(ControlState::CreateStreams);
        let mut client = request_test(server.port, WITHOUT_COOKIE);
        client.control.await_state(ControlState::CreateStreams);
        client.open_udp_stream();
        client.await_running();
        // On a busy machine, the silent test may have failed before.
        if silent.control.is_silent() {
            break silent;
        }
    };
    let stderr = || server.stderr();
    let is_reported = || stderr().contains("could belong to any of 2 tests of that address\n");
    assert!(testkit::wait_until(TIMEOUT, is_reported), "{}", stderr());
    let stderr = server.terminate().stderr;
    assert!(!stderr.contains("Operation canceled"), "{stderr}");
}
