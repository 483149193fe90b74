//! Warnings about a doubtful result, which `--strict` prints and turns into a failure.

use std::mem::replace;
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, ProcessOutput, Server, TestCase, TestProcess, kernel_counter, linerate_with_args,
    wait_until, with_prefix,
};

/// The exit code of a doubtful result under `--strict`.
const DOUBTFUL: Option<i32> = Some(3);

/// Timeout of each step.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        needing &[Namespaces];
        reports_warnings_on_request,
        warns_about_clipped_buffer,
        warns_about_reused_ports,
    ];
    let exclusive_tests = testkit::test_cases![needing &[Namespaces]; warns_about_lost_datagram];
    test_cases.extend(exclusive_tests.into_iter().map(TestCase::run_alone));
    with_prefix("doubts", test_cases).collect()
}

fn reports_warnings_on_request() {
    Namespace::new().enter(|| {
        let server = Server::start("");
        let default = run_netperf(&server, "-t TCP_RR -l -100");
        assert_eq!((default.code, default.stderr.as_str()), (Some(0), ""));
        let selected = run_netperf(&server, "-t TCP_RR -l -100 -P 0 -- -k WARNINGS");
        assert!(
            selected.stdout.starts_with("WARNINGS=same_host"),
            "{selected:?}"
        );
        let strict = run_netperf(&server, "-t TCP_RR -l -100 --strict");
        assert_eq!(strict.code, DOUBTFUL, "{strict:?}");
        assert_warning(&strict, "netperf: both ends run on one machine");
        assert!(
            !strict.stdout.is_empty(),
            "the client does not print the result"
        );
    });
}

fn warns_about_clipped_buffer() {
    Namespace::new().enter(|| {
        let server = Server::start("");
        let clipped = run_netperf(&server, "-l -100000 --strict -- -s 1G,8K -S ,1G");
        assert_warning(&clipped, "this host has a send buffer of");
        assert_warning(&clipped, "the peer has a receive buffer of");
        assert!(!clipped.stderr.contains("this host has a receive buffer"));
    });
}

fn warns_about_reused_ports() {
    Namespace::new().enter(|| {
        let server = Server::start("");
        let unique = run_netperf(&server, "-t TCP_CRR -l -50 --strict -- -p 20000,20100");
        assert!(!unique.stderr.contains("TIME_WAIT"), "{unique:?}");
        let reused = run_netperf(&server, "-t TCP_CRR -l -150 --strict -- -p 20000,20100");
        assert_warning(&reused, "opened more connections than its 100 ports");
        assert_warning(&reused, "(150 connections)");
    });
}

/// The interface goes down for a moment and loses a datagram. The control connection survives.
fn warns_about_lost_datagram() {
    const LENGTH: f64 = 2.0;
    Namespace::new().enter(|| {
        let server = Server::start("");
        let start = Instant::now();
        let options = format!("-t UDP_RR -l {LENGTH} -j --strict");
        let client = TestProcess::start(&mut linerate_with_args(&arguments(&server, &options)));
        let received = || kernel_counter("Udp", "InDatagrams");
        assert!(
            wait_until(TIMEOUT, || received() > 1000),
            "the test does not start"
        );
        set_link("down");
        let down_after = start.elapsed().as_secs_f64();
        let mut last_count = received();
        let has_stopped = wait_until(TIMEOUT, || {
            replace(&mut last_count, received()) == last_count
        });
        assert!(has_stopped, "the host still receives datagrams");
        set_link("up");
        let stalled = client.finish(TIMEOUT);
        let client_time = start.elapsed().as_secs_f64();
        assert_warning(&stalled, "the last request was never answered");
        let stall = stalled
            .stderr
            .split_once("resends it) (")
            .and_then(|(_, figure)| figure.split_once(" s)")?.0.parse::<f64>().ok())
            .unwrap_or_else(|| panic!("the warning has no time: {stalled:?}"));
        // The stall starts at this time at the latest. It lasts until the end of the test, which
        // starts after its client. The reported time has two decimals.
        let min_stall = LENGTH - down_after - 0.005;
        assert!(
            (min_stall..=client_time).contains(&stall),
            "{stall} s, down after {down_after} s"
        );
    });
}

fn set_link(state: &str) {
    let status = Command::new("ip")
        .args(["link", "set", "lo", state])
        .status();
    assert!(status.is_ok_and(|status| status.success()), "lo {state}");
}

fn run_netperf(server: &Server, options: &str) -> ProcessOutput {
    TestProcess::start(&mut linerate_with_args(&arguments(server, options))).finish(TIMEOUT)
}

fn arguments(server: &Server, options: &str) -> String {
    format!("netperf -H 127.0.0.1 -p {} {options}", server.port)
}

fn assert_warning(output: &ProcessOutput, text: &str) {
    assert!(output.stderr.contains(text), "no '{text}' in {output:?}");
}
