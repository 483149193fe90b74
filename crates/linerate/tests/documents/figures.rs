//! The figures of the documents: they are those of the test that ran.

use serde_json::Value;
use testkit::{
    Profile, Requirement, Server, TestCase, TwoHosts, UperfMaster, free_port, test_case,
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
            "directions_have_the_rate_of_their_time",
            &[],
            directions_have_the_rate_of_their_time,
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

/// With -r, the directions run one after the other.
fn directions_have_the_rate_of_their_time() {
    const RATE: f64 = 8e6;
    let server = Server::start_with(|port| format!("iperf -s -p {port}"));
    let (port, reverse_port) = (server.port, free_port());
    let line =
        format!("iperf -c 127.0.0.1 -p {port} -L {reverse_port} -t 1 -r -b 8m -l 10000 --json");
    let document = run_document(&line, 0);
    let spread = &first_run(&document)["figures"]["spread"];
    for rate in ["outbound_bps", "inbound_bps"] {
        assert_near(&spread[rate], RATE, spread);
    }
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
