//! SIGTERM while ten tests of all dialects run.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::Requirement::Namespaces;
use testkit::{ProcessOutput, TestCase, test_case};

use super::clients::Client;
use super::{PATIENCE, Serving, lines};

pub(super) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("a_stop_ends_ten_tests_at_once", &[Namespaces], at_once),
        test_case("a_drain_lets_ten_tests_end", &[Namespaces], drained),
        test_case(
            "a_drain_that_is_too_short_ends_ten_tests",
            &[Namespaces],
            cut,
        ),
    ]
}

/// How long the tests are of which a stop is to be the end.
const LONG: u32 = 20;

/// Starts ten clients, stops the server while all their tests run, and waits for all.
fn stopped(options: &str, seconds: u32) -> (Vec<(&'static Client, ProcessOutput)>, Vec<Value>) {
    let serving = Serving::start(options);
    let clients: Vec<_> = Serving::clients()
        .into_iter()
        .filter(|client| client.name != "UDP")
        .collect();
    assert!(clients.len() >= 6, "too few programs are here");
    let running: Vec<_> = clients
        .iter()
        .map(|client| (*client, serving.begin(client, seconds)))
        .collect();
    serving.await_tests(clients.len());
    serving.server.signal(Signal::TERM);
    let limit = PATIENCE
        + Duration::from_secs(if options.is_empty() {
            0
        } else {
            seconds.into()
        });
    let ended = running
        .into_iter()
        .map(|(client, process)| (client, process.finish(limit)))
        .collect();
    let server = serving.server.wait(PATIENCE);
    assert_eq!(server.code, Some(0), "{server:#?}");
    (ended, lines(&server.stdout))
}

fn at_once() {
    let (ended, log) = stopped("", LONG);
    are_cut(&ended, &log);
}

fn cut() {
    let (ended, log) = stopped("--drain-on-exit 1", LONG);
    are_cut(&ended, &log);
}

/// No line and no client of ours reports a complete test, and ours give the reason.
fn are_cut(ended: &[(&Client, ProcessOutput)], log: &[Value]) {
    assert_eq!(log.len(), ended.len(), "{log:#?}");
    for line in log {
        let why = line["end"].as_str().unwrap_or_default();
        assert!(line["is_complete"] == false && !why.is_empty(), "{line:#}");
    }
    for (client, finished) in ended.iter().filter(|(client, _)| client.stock.is_none()) {
        let at = format!("{} {}: {finished:#?}", client.dialect, client.name);
        assert!(finished.code.is_some_and(|code| code != 0), "{at}");
        assert!(
            !finished.stderr.trim().is_empty() || is_told(&finished.stdout),
            "{at}"
        );
    }
}

fn drained() {
    let seconds = 5;
    let (ended, log) = stopped("--drain-on-exit 60", seconds);
    super::all_are_right(ended, seconds, log);
}

/// In a document of iperf3, or in uperf's words.
fn is_told(stdout: &str) -> bool {
    stdout.contains("\"error\":") || stdout.contains("Slave aborted!")
}
