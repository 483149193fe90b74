//! The figures of the documents: they are those of the test that ran.

use std::time::Duration;

use serde_json::Value;
use testkit::{
    Profile, Requirement, STOCK_NETPERF, Server, TestCase, TestProcess, TwoHosts, UperfMaster,
    free_port, linerate_with_args, test_case, wait_until,
};

use super::{TIMEOUT, first_run, parse_valid, run_document};

pub(super) fn test_cases() -> Vec<TestCase> {
    let shaped = &[Requirement::Program("tc"), Requirement::Namespaces];
    vec![
        test_case(
            "uploads_have_the_rate_of_the_path",
            shaped,
            uploads_have_the_rate_of_the_path,
        ),
        test_case(
            "datagrams_after_the_last_arrival_are_lost",
            &[Requirement::Namespaces],
            datagrams_after_the_last_arrival_are_lost,
        ),
        test_case(
            "directions_have_the_rate_of_their_time",
            &[],
            directions_have_the_rate_of_their_time,
        ),
        test_case(
            "a_pause_is_not_part_of_the_servers_time",
            &[STOCK_NETPERF],
            a_pause_is_not_part_of_the_servers_time,
        ),
        test_case(
            "documents_contain_no_secrets",
            &[],
            documents_contain_no_secrets,
        ),
    ]
}

/// The server's address on the first link of [`TwoHosts`].
const SERVER: &str = "198.18.0.2";

/// A queue on the path holds data of seconds, which arrives after the end of the sender.
fn uploads_have_the_rate_of_the_path() {
    // 1,448 bytes of payload per 1,514.
    const RATE: f64 = 9.57e6;
    let hosts = TwoHosts::new();
    let tc = "tc qdisc add dev eth0 root tbf rate 10mbit burst 16kb limit 3mb";
    hosts.client.run(tc).expect("tc sets the queue");
    let (iperf3, slave) = hosts.server.enter(|| {
        let iperf3 = Server::start_with(|port| format!("iperf3 -s -p {port}"));
        (iperf3, Server::start_slave(""))
    });
    let line = format!(
        "iperf3 -c {SERVER} -p {} -t 1 -P 4 -w 1M --linerate-json -",
        iperf3.port
    );
    let document = hosts.client.enter(|| run_document(&line, 0));
    let run = first_run(&document);
    assert_near(&run["figures"]["throughput_bps"], RATE, run);
    let profile = Profile::new("upload")
        .group("nthreads=1")
        .single_flowop("connect remotehost=$h protocol=tcp")
        .transaction("duration=1s", &["write size=64k"])
        .single_flowop("disconnect")
        .text();
    let output = hosts.client.enter(|| {
        UperfMaster::start(slave.port, "--json", &[SERVER], &profile).finish_within(TIMEOUT)
    });
    let document = parse_valid("uperf", &output.stdout);
    let group = &first_run(&document)["groups"][0];
    assert_near(
        &group["transactions"][1]["figures"]["throughput_bps"],
        RATE,
        group,
    );
}

/// The path fails in the measured phase. No later number shows the loss.
fn datagrams_after_the_last_arrival_are_lost() {
    let hosts = TwoHosts::new();
    hosts.server.ip("rule add pref 3 lookup local");
    hosts.server.ip("rule del pref 0");
    let server = hosts
        .server
        .enter(|| Server::start_with(|port| format!("iperf3 -s -p {port}")));
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    // On a busy machine, the test may end before the path fails.
    for _ in 0..10 {
        let line = format!(
            "iperf3 -c {SERVER} -p {} -u -b 1m -l 1000 -O 1 -t 4 --forceflush --linerate-json {}",
            server.port,
            file.path().display()
        );
        let start = || TestProcess::start(&mut linerate_with_args(&line));
        let client = hosts.client.enter(start);
        let measured_intervals = || {
            let output = client.stdout();
            let lines = output.lines().filter(|line| line.contains(" sec "));
            lines.filter(|line| !line.contains("omitted")).count()
        };
        let is_measuring = || measured_intervals() > 0;
        assert!(wait_until(TIMEOUT, is_measuring), "{}", client.stdout());
        hosts.server.ip("rule add pref 1 ipproto udp blackhole");
        let intervals_before = measured_intervals();
        let has_lost = || measured_intervals() > intervals_before + 1;
        wait_until(Duration::from_secs(10), has_lost);
        let is_in_time = has_lost() && intervals_before < 3;
        let output = client.finish(TIMEOUT);
        hosts.server.ip("rule del pref 1");
        if is_in_time {
            assert_eq!(output.code, Some(0), "{output:?}");
            let text = std::fs::read_to_string(file.path()).expect("the document exists");
            let document = parse_valid(&line, &text);
            let datagrams = &first_run(&document)["remote"]["datagrams"];
            // At least the datagrams of one interval.
            assert!(datagrams["lost"].as_u64() > Some(100), "{datagrams:#}");
            return;
        }
    }
    panic!("every test ended before the path failed");
}

/// With -r, the directions run one after the other.
fn directions_have_the_rate_of_their_time() {
    const RATE: f64 = 8e6;
    let server = Server::start_with(|port| format!("iperf -s -p {port}"));
    let (port, reverse_port) = (server.port, free_port());
    let line =
        format!("iperf -c 127.0.0.1 -p {port} -L {reverse_port} -t 1 -r -b 8m -l 10000 --json");
    let document = run_document(&line, 0);
    let spread = &first_run(&document)["figures"]["flow_spread"];
    for rate in ["outbound_bps", "inbound_bps"] {
        assert_near(&spread[rate], RATE, spread);
    }
}

/// The clock of a stock server starts with its response, before the pause of -s.
fn a_pause_is_not_part_of_the_servers_time() {
    // A stock server ends about 5 s after its response.
    const PAUSE: Duration = Duration::from_secs(2);
    let server = Server::start_stock();
    let port = server.port;
    let line = format!(
        "netperf -H 127.0.0.1 -p {port} -s {} -l 1 --json",
        PAUSE.as_secs()
    );
    let document = run_document(&line, 0);
    let run = first_run(&document);
    let elapsed =
        |side: &str| Duration::from_nanos(run[side]["elapsed_ns"].as_u64().expect("a time"));
    let difference = elapsed("remote").saturating_sub(elapsed("local"));
    assert!(difference < PAUSE * 3 / 4, "{run:#}");
}

/// The documents contain the command line.
fn documents_contain_no_secrets() {
    let secret = "open-sesame";
    let netserver = Server::start(&format!("-Z {secret}"));
    let iperf = Server::start_with(|port| format!("iperf -s -p {port} --permit-key={secret}"));
    let page = tempfile::NamedTempFile::new().expect("a temporary file");
    let (port, path) = (netserver.port, page.path().display());
    for line in [
        format!("netperf -H 127.0.0.1 -p {port} -l 1 -Z {secret} --json --html {path}"),
        format!("netperf -H 127.0.0.1 -p {port} -l 1 -Z{secret} --json --html {path}"),
        format!(
            "iperf -c 127.0.0.1 -p {} -n 10K --permit-key={secret} --json --html {path}",
            iperf.port
        ),
    ] {
        let document = run_document(&line, 0);
        let command_line = document["command_line"].as_str().unwrap_or_default();
        assert!(
            command_line.contains("127.0.0.1") && command_line.contains("***"),
            "{document}"
        );
        let page = std::fs::read_to_string(page.path()).expect("the page exists");
        for text in [document.to_string(), page] {
            assert!(!text.contains(secret), "{line}: {text}");
        }
    }
}

#[track_caller]
fn assert_near(rate: &Value, expected: f64, context: &Value) {
    let rate = rate
        .as_f64()
        .unwrap_or_else(|| panic!("no rate: {context:#}"));
    let bounds = expected * 0.7..expected * 1.05;
    assert!(bounds.contains(&rate), "{rate} of {expected}: {context:#}");
}
