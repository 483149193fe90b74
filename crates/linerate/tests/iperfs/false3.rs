//! An iperf3 whose peer lies, and the documents of tests that fail.

use std::io::Read;
use std::time::Duration;

use iperf3::wire::{ControlState, add_length_prefix};
use serde_json::{Deserializer, Value};
use testkit::{ProcessOutput, Server, TestCase, TestProcess, test_cases};

use super::ours3;
use super::script::{self, RESULTS};

/// How long a test of a few bytes may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn test_cases() -> Vec<TestCase> {
    test_cases![
        a_client_reports_false_results,
        no_control_character_of_a_server_reaches_the_terminal,
        a_server_ends_a_test_with_false_results,
        each_failure_has_one_document,
        a_place_is_free_again_at_once,
    ]
}

/// A client's test of 64 KiB at a server that reports this.
fn told(results: &str, options: &str) -> ProcessOutput {
    let server = script::Server::listen();
    let line = format!("-c 127.0.0.1 -p {} -n 64K -l 8K {options}", server.port);
    let client = TestProcess::start(&mut ours3(&line));
    let mut session = server.accept();
    session.control.state(ControlState::ParamExchange);
    session.control.json();
    let mut stream = server.stream(&mut session);
    session.run();
    stream.read_exact(&mut vec![0; 64 << 10]).unwrap();
    session.control.await_state(ControlState::TestEnd);
    session.control.state(ControlState::ExchangeResults);
    session.control.json();
    session.control.say(&add_length_prefix(results));
    session.control.state(ControlState::DisplayResults);
    client.finish(PATIENCE)
}

fn a_client_reports_false_results() {
    const WHAT: &str = "unable to receive results";
    for (from, to, why) in [
        (
            "\"bytes\":0",
            "\"bytes\":9e15",
            "unable to receive results: stream 1 has more data than was sent",
        ),
        ("\"id\":1", "\"id\":7", "stream ID does not exist"),
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
        assert!(results != RESULTS && (why.starts_with(WHAT) || why.starts_with("stream")));
        let text = told(&results, "");
        assert_eq!(text.stderr, format!("iperf3: error - {why}\n"));
        assert_eq!(text.code, Some(1));
        let json = told(&results, "-J");
        let document: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!(
            (&document["error"], json.code),
            (&Value::from(why), Some(1))
        );
    }
}

fn no_control_character_of_a_server_reaches_the_terminal() {
    let text = r#""congestion_used":"\u001b[2J\u009b","server_output_text":"a\u001b]0;x\u0007\u009b31m\tb\n","streams":["#;
    let results = RESULTS.replace("\"streams\":[", text);
    for form in ["-V --get-server-output", "-J", "--json-stream"] {
        let client = told(&results, form);
        client.assert_success();
        let is_plain = |c: char| !c.is_control() || c == '\n' || c == '\t';
        assert!(client.stdout.chars().all(is_plain), "{:?}", client.stdout);
    }
}

fn a_server_ends_a_test_with_false_results() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    let mut client = script::Client::connect(server.port);
    client.introduce();
    client.ask(r#"{"tcp":true,"reverse":true,"len":1000,"time":1}"#);
    let mut stream = client.stream();
    client.await_running();
    stream.read_exact(&mut [0; 1000]).unwrap();
    client.control.state(ControlState::TestEnd);
    // It sends until it has read that.
    std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    client.control.await_state(ControlState::ExchangeResults);
    let results = RESULTS.replace("\"bytes\":0", "\"bytes\":9e17");
    client.control.say(&add_length_prefix(&results));
    client.control.json();
    client.control.await_state(ControlState::ServerError);
    let line = "iperf3: error - unable to receive results: stream 1 has more data than was sent\n";
    assert!(
        testkit::wait_until(PATIENCE, || server.stderr() == line),
        "{}",
        server.stderr()
    );
    server.terminate();
}

/// Failures before and in a test, of a server that prints documents: as many as there were tests, each valid.
fn each_failure_has_one_document() {
    let server = Server::start_with(|port| format!("iperf3 -s -J -p {port}"));
    let mut wrong = script::Client::connect(server.port);
    wrong.introduce();
    wrong
        .control
        .say(&add_length_prefix(r#"{"parallel":1000}"#));
    wrong.control.await_state(ControlState::ServerError);
    let mut gone = script::Client::connect(server.port);
    gone.introduce();
    gone.ask(r#"{"tcp":true}"#);
    let stream = gone.stream();
    gone.await_running();
    drop((gone, stream));
    let documents = || -> Vec<Value> {
        let text = server.stdout();
        Deserializer::from_str(&text)
            .into_iter()
            .flatten()
            .collect()
    };
    assert!(
        testkit::wait_until(PATIENCE, || documents().len() == 2),
        "{}",
        server.stdout()
    );
    let mut errors: Vec<_> = documents()
        .iter()
        .map(|document| document["error"].to_string())
        .collect();
    errors.sort();
    assert_eq!(
        errors,
        [
            "\"error - control socket has closed unexpectedly\"",
            "\"error - number of parallel streams too large (maximum = 128)\"",
        ]
    );
    server.terminate();
}

/// Tests one after the other, of a server that serves one at a time.
fn a_place_is_free_again_at_once() {
    let server = Server::start_with(|port| format!("iperf3 -s --max-tests 1 -p {port}"));
    for _ in 0..20 {
        let line = format!("-c 127.0.0.1 -p {} -n 10K", server.port);
        testkit::run(ours3(&line), PATIENCE)
            .unwrap()
            .assert_success();
    }
    server.terminate();
}
