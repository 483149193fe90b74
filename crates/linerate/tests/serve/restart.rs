//! SIGTERM during ten tests of all dialects.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::Requirement::Namespaces;
use testkit::{ProcessOutput, TestCase, test_case};

use super::clients::Client;
use super::{Serving, TIMEOUT, parse_lines};

pub(super) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case(
            "sigterm_ends_ten_tests",
            &[Namespaces],
            sigterm_ends_ten_tests,
        ),
        test_case(
            "drain_completes_ten_tests",
            &[Namespaces],
            drain_completes_ten_tests,
        ),
        test_case(
            "short_drain_ends_ten_tests",
            &[Namespaces],
            short_drain_ends_ten_tests,
        ),
    ]
}

/// Duration of tests that the server ends, in seconds.
const LONG_TEST_SECONDS: u32 = 60;

/// Starts ten clients, and stops the server while all their tests are running. Returns the clients'
/// results and the log.
fn run_stopped_server(
    options: &str,
    seconds: u32,
) -> (Vec<(&'static Client, ProcessOutput)>, Vec<Value>) {
    let serving = Serving::start(options);
    let clients: Vec<_> = Serving::available_clients()
        .into_iter()
        .filter(|client| client.name != "UDP")
        .collect();
    assert!(clients.len() >= 6, "too few programs are installed");
    let processes: Vec<_> = clients
        .iter()
        .map(|client| (*client, serving.start_client(client, seconds)))
        .collect();
    serving.await_tests(clients.len());
    serving.server.signal(Signal::TERM);
    let timeout = TIMEOUT
        + Duration::from_secs(if options.is_empty() {
            0
        } else {
            seconds.into()
        });
    let results = processes
        .into_iter()
        .map(|(client, process)| (client, process.finish(timeout)))
        .collect();
    let server = serving.server.wait(TIMEOUT);
    assert_eq!(server.code, Some(0), "{server:#?}");
    (results, parse_lines(&server.stdout))
}

fn sigterm_ends_ten_tests() {
    let (results, log) = run_stopped_server("", LONG_TEST_SECONDS);
    assert_incomplete(&results, &log);
}

fn short_drain_ends_ten_tests() {
    let (results, log) = run_stopped_server("--drain-on-exit 1", LONG_TEST_SECONDS);
    assert_incomplete(&results, &log);
}

/// Checks that no log line and no linerate client reports a complete test. Both must give a reason.
fn assert_incomplete(results: &[(&Client, ProcessOutput)], log: &[Value]) {
    assert_eq!(log.len(), results.len(), "{log:#?}");
    for line in log {
        let reason = line["end"].as_str().unwrap_or_default();
        let is_incomplete = line["is_complete"] == false;
        assert!(is_incomplete && !reason.is_empty(), "{line:#}");
    }
    let ours = results.iter().filter(|(client, _)| client.stock.is_none());
    for (client, output) in ours {
        let context = format!("{} {}: {output:#?}", client.dialect, client.name);
        assert!(output.code.is_some_and(|code| code != 0), "{context}");
        let has_stderr = !output.stderr.trim().is_empty();
        assert!(has_stderr || has_error(&output.stdout), "{context}");
    }
}

fn drain_completes_ten_tests() {
    let seconds = 5;
    let (results, log) = run_stopped_server("--drain-on-exit 60", seconds);
    super::assert_log_matches(results, seconds, log);
}

/// Returns whether the output contains an error in a document of iperf3, or an error of uperf.
fn has_error(stdout: &str) -> bool {
    stdout.contains("\"error\":") || stdout.contains("Slave aborted!")
}
