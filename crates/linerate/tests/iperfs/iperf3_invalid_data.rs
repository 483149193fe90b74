//! iperf3 with peers that send invalid data, and the documents of failed tests.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::{Duration, Instant};

use iperf3::wire::{ControlState, add_length_prefix};
use rustix::process::Signal;
use serde_json::{Deserializer, Value};
use testkit::{ProcessOutput, Server, TestCase, TestProcess, test_cases};

use super::iperf3_script::{self, RESULTS};
use super::our_iperf3;

/// Timeout of a short test on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn test_cases() -> Vec<TestCase> {
    test_cases![
        client_rejects_invalid_results,
        client_rejects_datagrams_without_bytes,
        client_reports_error_without_number,
        client_prints_no_control_characters_of_server,
        server_rejects_invalid_results,
        server_ends_with_the_last_datagram,
        server_logs_streams_of_other_addresses,
        server_answers_incomplete_cookies,
        server_prints_one_document_per_failure,
        server_accepts_next_test_without_pause,
    ]
}

/// Runs a client that sends 64 KiB to a scripted server, which then sends `results`.
fn run_client_with_results(results: &str, options: &str) -> ProcessOutput {
    run_client_with_message(&add_length_prefix(results), options)
}

/// As [`run_client_with_results`], with the bytes of the message of results.
pub(super) fn run_client_with_message(message: &[u8], options: &str) -> ProcessOutput {
    let server = iperf3_script::Server::listen();
    let line = format!("-c 127.0.0.1 -p {} -n 64K -l 8K {options}", server.port);
    let client = TestProcess::start(&mut our_iperf3(&line));
    let mut session = server.accept();
    session.control.send_state(ControlState::ParamExchange);
    session.control.read_json();
    let mut stream = server.accept_tcp_stream(&mut session);
    session.start_test();
    stream.read_exact(&mut vec![0; 64 << 10]).unwrap();
    finish_with_message(&mut session, client, message)
}

/// Sends this message of results at the end of the client's test.
fn finish_with_message(
    session: &mut iperf3_script::Session,
    client: TestProcess,
    message: &[u8],
) -> ProcessOutput {
    session.control.await_state(ControlState::TestEnd);
    session.control.send_state(ControlState::ExchangeResults);
    session.control.read_json();
    session.control.send(message);
    session.control.send_state(ControlState::DisplayResults);
    client.finish(TIMEOUT)
}

fn client_rejects_invalid_results() {
    const ERROR: &str = "unable to receive results";
    for (from, to, error) in [
        (
            "\"bytes\":0",
            "\"bytes\":9e15",
            "unable to receive results: stream 1 has more data than was sent",
        ),
        ("\"id\":1", "\"id\":7", "stream ID does not exist"),
        (
            "\"streams\":[",
            "\"streams\":[{\"id\":1,\"bytes\":0,\"retransmits\":0,\"jitter\":0,\"errors\":0,\"packets\":0},",
            "stream ID does not exist",
        ),
        (
            "\"bytes\":0",
            "\"bytes\":18446744073709551615",
            "unable to receive results: bytes is impossible: 18446744073709552000",
        ),
        (
            "\"bytes\":0",
            "\"bytes\":-1",
            "unable to receive results: bytes is impossible: -1",
        ),
        (
            "\"bytes\":0",
            "\"bytes\":0.5",
            "unable to receive results: bytes is impossible: 0.5",
        ),
        (
            "\"errors\":0",
            "\"errors\":3",
            "unable to receive results: stream 1 has more lost than sent datagrams",
        ),
        (
            "\"end_time\":1",
            "\"end_time\":-1",
            "unable to receive results: end_time is impossible: -1",
        ),
        (
            "\"end_time\":1",
            "\"end_time\":1e6",
            "unable to receive results: stream 1 has a time longer than the test",
        ),
        (
            "\"bytes\":0,\"retransmits\":0,\"jitter\":0,\"errors\":0,\"packets\":0,\"start_time\":0,\"end_time\":1",
            "\"bytes\":9000,\"retransmits\":0,\"jitter\":0,\"errors\":0,\"packets\":0,\"start_time\":0,\"end_time\":1e-12",
            "unable to receive results: stream 1 has a rate that no network has",
        ),
        (
            "\"bytes\":0",
            "\"bytes\":\"0\"",
            "unable to receive results: bytes is missing or not a number",
        ),
        (
            "\"jitter\":0",
            "\"jitter\":NaN",
            "unable to receive results: not JSON",
        ),
        (
            "\"jitter\":0",
            "\"jitter\":1e999",
            "unable to receive results: not JSON",
        ),
        (
            "\"streams\":[",
            "\"streams\":1,\"x\":[",
            "unable to receive results: streams is missing",
        ),
        (
            "{\"cpu",
            "[[[[{\"cpu",
            "unable to receive results: not JSON",
        ),
    ] {
        let results = RESULTS.replace(from, to);
        assert!(results != RESULTS && (error.starts_with(ERROR) || error.starts_with("stream")));
        let client = run_client_with_results(&results, "");
        assert_eq!(client.stderr, format!("iperf3: error - {error}\n"));
        assert_eq!(client.code, Some(1));
        let client = run_client_with_results(&results, "-J");
        let document: Value = serde_json::from_str(&client.stdout).unwrap();
        assert_eq!(
            (&document["error"], client.code),
            (&Value::from(error), Some(1))
        );
    }
}

/// A server sends SERVER_ERROR with none, or with a part, of its numbers.
/// The server of a reverse UDP test claims more datagrams than its bytes can be.
fn client_rejects_datagrams_without_bytes() {
    for (packets, stderr) in [
        (8, ""),
        (
            1_000_000,
            "iperf3: error - unable to receive results: stream 1 has more datagrams than its bytes\n",
        ),
    ] {
        let server = iperf3_script::Server::listen();
        let line = format!("-c 127.0.0.1 -p {} -u -R -t 1 -l 1000", server.port);
        let client = TestProcess::start(&mut our_iperf3(&line));
        let mut session = server.accept();
        session.control.send_state(ControlState::ParamExchange);
        session.control.read_json();
        let (stream, _) = server.accept_udp_stream(&mut session);
        session.start_test();
        for number in 1..=8_u32 {
            let mut datagram = [0; 1000];
            datagram[8..12].copy_from_slice(&number.to_be_bytes());
            stream.send(&datagram).unwrap();
        }
        let results = RESULTS.replace("\"bytes\":0", "\"bytes\":8000");
        let results = results.replace("\"packets\":0", &format!("\"packets\":{packets}"));
        let client = finish_with_message(&mut session, client, &add_length_prefix(&results));
        assert_eq!(client.stderr, stderr, "{}", client.stdout);
        assert_eq!(client.code, Some(i32::from(!stderr.is_empty())));
    }
}

fn client_reports_error_without_number() {
    for (numbers, error) in [
        (
            &[][..],
            "unable to read from the control socket: the server reported an error without its number",
        ),
        (&[0, 0, 0, 142], "test authorization failed"),
    ] {
        for closes in [true, false] {
            let server = iperf3_script::Server::listen();
            let line = format!("-c 127.0.0.1 -p {}", server.port);
            let client = TestProcess::start(&mut our_iperf3(&line));
            let mut session = server.accept();
            session.control.send_state(ControlState::ServerError);
            session.control.send(numbers);
            let open_session = (!closes).then_some(session);
            let client = client.finish(TIMEOUT);
            let mut expected = format!("iperf3: error - {error}\n");
            if !numbers.is_empty() {
                expected.insert_str(0, &format!("iperf3: SERVER ERROR - {error}\n"));
            }
            assert_eq!(client.stderr, expected);
            assert_eq!(client.code, Some(1));
            drop(open_session);
        }
    }
}

fn client_prints_no_control_characters_of_server() {
    let members = r#""congestion_used":"\u001b[2J\u009b","server_output_text":"a\u001b]0;x\u0007\u009b31m\tb\n","streams":["#;
    let results = RESULTS.replace("\"streams\":[", members);
    for options in ["-V --get-server-output", "-J", "--json-stream"] {
        let client = run_client_with_results(&results, options);
        client.assert_success();
        let is_printable = |c: char| !c.is_control() || c == '\n' || c == '\t';
        assert!(
            client.stdout.chars().all(is_printable),
            "{:?}",
            client.stdout
        );
    }
}

fn server_rejects_invalid_results() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    let impossible = RESULTS.replace("\"bytes\":0", "\"bytes\":9e17");
    let mut too_long = add_length_prefix(&impossible);
    too_long[..4].copy_from_slice(&5121_u32.to_be_bytes());
    let mut log = String::new();
    for (results, is_answered, reason) in [
        (
            add_length_prefix(&impossible),
            true,
            "stream 1 has more data than was sent",
        ),
        // A client has no output to send.
        (too_long, false, "5121 bytes exceed the limit of 5120"),
    ] {
        let mut client = iperf3_script::Client::connect(server.port);
        client.send_cookie();
        client.send_parameters(r#"{"tcp":true,"reverse":true,"len":1000,"time":1}"#);
        let mut stream = client.open_tcp_stream();
        client.await_running();
        stream.read_exact(&mut [0; 1000]).unwrap();
        client.control.send_state(ControlState::TestEnd);
        // The server sends until it has read the state.
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
        client.control.await_state(ControlState::ExchangeResults);
        client.control.send(&results);
        if is_answered {
            client.control.read_json();
        }
        client.control.await_state(ControlState::ServerError);
        log.extend(["iperf3: error - unable to receive results: ", reason, "\n"]);
        assert!(
            testkit::wait_until(TIMEOUT, || server.stderr() == log),
            "{}",
            server.stderr()
        );
    }
    server.terminate();
}

/// The server waits for the last datagrams, which may be lost. The wait is not part of the test.
fn server_ends_with_the_last_datagram() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    let mut client = iperf3_script::Client::connect(server.port);
    client.send_cookie();
    client.send_parameters(r#"{"udp":true,"len":1000,"num":10000}"#);
    let begun = Instant::now();
    let stream = client.open_udp_stream();
    client.await_running();
    for number in 1..=9_u32 {
        let mut datagram = [0; 1000];
        datagram[8..12].copy_from_slice(&number.to_be_bytes());
        stream.send(&datagram).unwrap();
    }
    client.control.send_state(ControlState::TestEnd);
    client.control.await_state(ControlState::ExchangeResults);
    let ended = begun.elapsed();
    let results = RESULTS.replace("\"bytes\":0", "\"bytes\":10000");
    let results = results.replace("\"packets\":0", "\"packets\":10");
    client.control.send(&add_length_prefix(&results));
    let results: Value = serde_json::from_str(&client.control.read_json()).unwrap();
    let end_time = results["streams"][0]["end_time"].as_f64().unwrap();
    // It reads the last datagrams a little later. The wait lasts 1 s.
    assert!(end_time < ended.as_secs_f64() + 0.9, "{end_time} {ended:?}");
    server.terminate();
}

/// The right cookie is enough for a stream, as in stock.
fn server_logs_streams_of_other_addresses() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    let mut client = iperf3_script::Client::connect(server.port);
    client.send_cookie();
    client.send_parameters(r#"{"tcp":true,"parallel":2,"time":1}"#);
    let own = client.open_tcp_stream();
    let other = client.open_tcp_stream_from(Ipv4Addr::new(127, 0, 0, 2));
    client.await_running();
    let line = ": a stream of the test comes from another address, 127.0.0.2:";
    let log = server.stderr();
    assert_eq!(log.matches(line).count(), 1, "{log}");
    drop((client, own, other));
    server.terminate();
}

/// The answer is that of version 3.22.
fn server_answers_incomplete_cookies() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).unwrap();
    connection.write_all(b"abc").unwrap();
    connection.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    // The server may reset the connection after its answer.
    let _ = connection.read_to_end(&mut answer);
    assert_eq!(answer, [0xfe, 0, 0, 0, 106, 0, 0, 0, 0]);
    server.terminate();
}

/// A server prints one valid document per failed test, whether the test fails before its start, while
/// data flows, or in the exchange of results.
fn server_prints_one_document_per_failure() {
    let server = Server::start_with(|port| format!("iperf3 -s -J -p {port}"));
    let mut invalid = iperf3_script::Client::connect(server.port);
    invalid.send_cookie();
    invalid
        .control
        .send(&add_length_prefix(r#"{"parallel":1000}"#));
    invalid.control.await_state(ControlState::ServerError);
    let mut client = iperf3_script::Client::connect(server.port);
    client.send_cookie();
    client.send_parameters(r#"{"tcp":true}"#);
    let stream = client.open_tcp_stream();
    client.await_running();
    drop((client, stream));
    let mut client = iperf3_script::Client::connect(server.port);
    client.send_cookie();
    client.send_parameters(r#"{"tcp":true}"#);
    let _stream = client.open_tcp_stream();
    client.await_running();
    client.control.send_state(ControlState::TestEnd);
    client.control.await_state(ControlState::ExchangeResults);
    client.control.send(&add_length_prefix("{}"));
    client.control.await_state(ControlState::ServerError);
    let documents = |text: &str| -> Vec<Value> {
        let documents = Deserializer::from_str(text).into_iter();
        documents.flatten().collect()
    };
    let has_ended = || documents(&server.stdout()).len() >= 3;
    assert!(
        testkit::wait_until(TIMEOUT, has_ended),
        "{}",
        server.stdout()
    );
    server.signal(Signal::TERM);
    let output = server.wait(TIMEOUT).stdout;
    let mut errors: Vec<_> = documents(&output)
        .iter()
        .map(|document| document["error"].as_str().unwrap_or_default().to_owned())
        .collect();
    errors.sort();
    assert_eq!(
        errors,
        [
            "error - invalid number of parallel streams (min = 1, max = 128)",
            "error - unable to receive results: streams is missing",
            "interrupt - the server has terminated by signal Terminated(15)",
            "the client has unexpectedly closed the connection",
        ]
    );
}

/// A server with a limit of one test accepts consecutive tests without a pause.
fn server_accepts_next_test_without_pause() {
    let server = Server::start_with(|port| format!("iperf3 -s --max-tests 1 -p {port}"));
    for _ in 0..20 {
        let line = format!("-c 127.0.0.1 -p {} -n 10K", server.port);
        testkit::run(our_iperf3(&line), TIMEOUT)
            .unwrap()
            .assert_success();
    }
    server.terminate();
}
