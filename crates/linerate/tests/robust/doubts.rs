//! What makes a result doubtful is said, and is a failure for who asked for that.

use std::mem::replace;
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, ProcessOutput, Server, TestCase, TestProcess, kernel_counter, linerate_with_args,
    test_case, wait_until,
};

/// The exit code of a doubtful result under `--strict`.
const DOUBTFUL: Option<i32> = Some(3);

/// How long any of these tests may take.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case(
            "doubts::are_said_on_request",
            &[Namespaces],
            said_on_request,
        ),
        test_case("doubts::clipped_buffer", &[Namespaces], clipped_buffer),
        test_case("doubts::ports_used_again", &[Namespaces], ports_used_again),
        test_case("doubts::lost_datagram", &[Namespaces], lost_datagram).run_alone(),
    ]
}

fn said_on_request() {
    Namespace::new().enter(|| {
        let server = Server::start("");
        let quiet = netperf(&server, "-t TCP_RR -l -100");
        assert_eq!((quiet.code, quiet.stderr.as_str()), (Some(0), ""));
        let named = netperf(&server, "-t TCP_RR -l -100 -P 0 -- -k WARNINGS");
        assert!(named.stdout.starts_with("WARNINGS=same_host"), "{named:?}");
        let strict = netperf(&server, "-t TCP_RR -l -100 --strict");
        assert_eq!(strict.code, DOUBTFUL, "{strict:?}");
        says(&strict, "netperf: both ends run on one machine");
        assert!(
            !strict.stdout.is_empty(),
            "the result is printed all the same"
        );
    });
}

fn clipped_buffer() {
    Namespace::new().enter(|| {
        let server = Server::start("");
        let clipped = netperf(&server, "-l -100000 --strict -- -s 1G,8K -S ,1G");
        says(&clipped, "this host has a send buffer of");
        says(&clipped, "the peer has a receive buffer of");
        assert!(!clipped.stderr.contains("this host has a receive buffer"));
    });
}

fn ports_used_again() {
    Namespace::new().enter(|| {
        let server = Server::start("");
        let enough = netperf(&server, "-t TCP_CRR -l -50 --strict -- -p 20000,20100");
        assert!(!enough.stderr.contains("TIME_WAIT"), "{enough:?}");
        let reused = netperf(&server, "-t TCP_CRR -l -150 --strict -- -p 20000,20100");
        says(&reused, "opened more connections than its 100 ports");
        says(&reused, "(150 connections)");
    });
}

/// The interface goes down for a moment, and takes a datagram with it; the control connection
/// survives that.
fn lost_datagram() {
    const LENGTH: f64 = 2.0;
    Namespace::new().enter(|| {
        let server = Server::start("");
        let begun = Instant::now();
        let options = format!("-t UDP_RR -l {LENGTH} -j --strict");
        let client = TestProcess::start(&mut linerate_with_args(&args(&server, &options)));
        let received = || kernel_counter("Udp", "InDatagrams");
        assert!(wait_until(LIMIT, || received() > 1000), "nothing moves");
        link("down");
        let down = begun.elapsed().as_secs_f64();
        let mut last = received();
        let still = wait_until(LIMIT, || replace(&mut last, received()) == last);
        assert!(still, "something moves");
        link("up");
        let stalled = client.finish(LIMIT);
        let ended = begun.elapsed().as_secs_f64();
        says(&stalled, "the last request was never answered");
        let waited = stalled
            .stderr
            .split_once("resends it) (")
            .and_then(|(_, figure)| figure.split_once(" s)")?.0.parse::<f64>().ok())
            .unwrap_or_else(|| panic!("no figure in {stalled:?}"));
        // It stood from that moment at the latest, to the end of a test that began after its client.
        // The figure has two decimals.
        let stood = LENGTH - down - 0.005;
        assert!(
            (stood..=ended).contains(&waited),
            "{waited} s, down after {down} s"
        );
    });
}

fn link(state: &str) {
    let status = Command::new("ip")
        .args(["link", "set", "lo", state])
        .status();
    assert!(status.is_ok_and(|status| status.success()), "lo {state}");
}

fn netperf(server: &Server, words: &str) -> ProcessOutput {
    TestProcess::start(&mut linerate_with_args(&args(server, words))).finish(LIMIT)
}

fn args(server: &Server, words: &str) -> String {
    format!("netperf -H 127.0.0.1 -p {} {words}", server.port)
}

fn says(ended: &ProcessOutput, text: &str) {
    assert!(ended.stderr.contains(text), "no '{text}' in {ended:?}");
}
