//! One-way datagrams: their pace, and where they are lost.

use std::time::Duration;

use serde_json::Value;
use testkit::{
    Namespace, ProcessOutput, Requirement, Server, TestCase, add_link, key_values,
    linerate_with_args, run, test_case,
};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let link = &[Requirement::Namespaces];
    vec![
        test_case("reports_socket_drops", &[], reports_socket_drops).run_alone(),
        test_case("paces_to_stream_rate", link, paces_to_stream_rate).run_alone(),
        test_case("paces_to_requested_rate", link, paces_to_requested_rate).run_alone(),
    ]
}

const TIMEOUT: Duration = Duration::from_secs(60);

const SERVER: &str = "198.51.100.2";

/// On loopback, only the receiver's socket drops datagrams, because its buffer is small.
fn reports_socket_drops() {
    let server = Server::start("");
    let global_options = format!("-H 127.0.0.1 -p {} -P 0 -l 1", server.port);
    let test_options = "-R 1 -m 1000 -S 1,1 -k LOST_DATAGRAMS,DROPPED_DATAGRAMS";
    let line = format!("netperf {global_options} -t UDP_STREAM -- {test_options}");
    let output = run(linerate_with_args(&line), TIMEOUT).unwrap();
    let figures = key_values(&output.stdout);
    let [("LOST_DATAGRAMS", lost), ("DROPPED_DATAGRAMS", dropped)] = figures[..] else {
        panic!("{output:?}");
    };
    assert_eq!(lost, dropped, "{output:?}");
    assert!(dropped.parse::<u64>().unwrap() > 0, "{output:?}");
}

/// A link of 20 Mbit/s with a short queue.
struct Link {
    client: Namespace,
    _server: Namespace,
    _netserver: Server,
}

impl Link {
    fn new() -> Self {
        let (client, server) = (
            Namespace::with_loopback_only(),
            Namespace::with_loopback_only(),
        );
        add_link(
            (&client, "here", "198.51.100.1/24"),
            (&server, "there", &format!("{SERVER}/24")),
        );
        let shape = "tc qdisc add dev here root tbf rate 20mbit burst 20kb latency 20ms";
        client.run(shape).expect("the kernel has tbf");
        let netserver = linerate_with_args("netserver -D -p 12865");
        let netserver = server.enter(|| Server::start_at(12_865, netserver));
        Self {
            client,
            _server: server,
            _netserver: netserver,
        }
    }

    fn run(&self, line: &str) -> (ProcessOutput, Value) {
        let line = format!("run {SERVER} -l 1 --json {line}");
        let output = run(self.client.command(&linerate_with_args(&line)), TIMEOUT).unwrap();
        let document = serde_json::from_str(&output.stdout).unwrap();
        (output, document)
    }
}

/// UDP_STREAM sends at most at TCP_STREAM's rate, with and without a preceding TCP_STREAM.
fn paces_to_stream_rate() {
    let link = Link::new();
    for (tests, stream_index) in [("TCP_STREAM,UDP_STREAM", Some(0)), ("UDP_STREAM", None)] {
        let (output, document) = link.run(&format!("-t {tests}"));
        assert_eq!(output.code, Some(0), "{output:?}");
        let tests = document["tests"].as_array().unwrap();
        let datagrams = tests.last().unwrap();
        let rate = |test: &Value, name: &str| test["figures"][name].as_f64().unwrap();
        let offered = rate(datagrams, "offered_bps");
        // A burst of 1 ms may start just before the end.
        let max_rate =
            stream_index.map_or(20e6, |index: usize| rate(&tests[index], "throughput_bps"));
        assert!(
            offered <= 1.05 * max_rate,
            "{offered} of {max_rate}: {output:?}"
        );
        assert!(
            offered >= 0.5 * max_rate,
            "{offered} of {max_rate}: {output:?}"
        );
        let pacing = &datagrams["plan"]["groups"][0]["body"]["loop"]["local"]["pacing"];
        assert!(pacing["burst"].as_u64().unwrap() > 0, "{pacing}");
        assert_eq!(datagrams["pace"]["of"], "TCP_STREAM");
    }
}

fn paces_to_requested_rate() {
    let link = Link::new();
    for (rate, min_rate, max_rate) in [("5mbit", 1e6, 5.3e6), ("unlimited", 10e6, 100e6)] {
        let (output, document) = link.run(&format!("-t UDP_STREAM --udp-rate {rate}"));
        assert_eq!(output.code, Some(0), "{output:?}");
        let test = &document["tests"][0];
        let offered = test["figures"]["offered_bps"].as_f64().unwrap();
        assert!(
            (min_rate..=max_rate).contains(&offered),
            "{rate}: {offered}"
        );
        let pacing = &test["plan"]["groups"][0]["body"]["loop"]["local"]["pacing"];
        assert_eq!(pacing.is_null(), rate == "unlimited", "{pacing}");
        assert_eq!(test["figures"]["datagrams"]["dropped_by_receiver"], 0);
    }
}
