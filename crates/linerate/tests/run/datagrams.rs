//! One-way datagrams: what they are paced to, and where they are lost.

use std::time::Duration;

use serde_json::Value;
use testkit::{
    Namespace, ProcessOutput, Requirement, Server, TestCase, add_link, key_values,
    linerate_with_args, run, test_case,
};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let link = &[Requirement::Namespaces];
    let losses = what_the_socket_drops_is_told_from_what_the_path_loses;
    vec![
        test_case("what_the_socket_drops", &[], losses).run_alone(),
        test_case(
            "paced_to_a_stream",
            link,
            datagrams_are_paced_to_what_a_stream_gets_through,
        )
        .run_alone(),
        test_case(
            "paced_as_asked",
            link,
            the_user_may_ask_for_another_rate_or_for_none,
        )
        .run_alone(),
    ]
}

const LIMIT: Duration = Duration::from_secs(60);

const SERVER: &str = "198.51.100.2";

/// On loopback nothing but the receiver's socket loses any: its buffer has room for a few.
fn what_the_socket_drops_is_told_from_what_the_path_loses() {
    let server = Server::start("");
    let at = format!("-H 127.0.0.1 -p {} -P 0 -l 1", server.port);
    let own = "-R 1 -m 1000 -S 1,1 -k LOST_DATAGRAMS,DROPPED_DATAGRAMS";
    let ended = run(
        linerate_with_args(&format!("netperf {at} -t UDP_STREAM -- {own}")),
        LIMIT,
    )
    .unwrap();
    let figures = key_values(&ended.stdout);
    let [("LOST_DATAGRAMS", lost), ("DROPPED_DATAGRAMS", dropped)] = figures[..] else {
        panic!("{ended:?}");
    };
    assert_eq!(lost, dropped, "{ended:?}");
    assert!(dropped.parse::<u64>().unwrap() > 0, "{ended:?}");
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
        client.run(shape).expect("tbf is in every kernel of ours");
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
        let ended = run(self.client.command(&linerate_with_args(&line)), LIMIT).unwrap();
        let document = serde_json::from_str(&ended.stdout).unwrap();
        (ended, document)
    }
}

/// A first look is no flood: after TCP_STREAM, and by itself.
fn datagrams_are_paced_to_what_a_stream_gets_through() {
    let link = Link::new();
    for (tests, stream) in [("TCP_STREAM,UDP_STREAM", Some(0)), ("UDP_STREAM", None)] {
        let (ended, document) = link.run(&format!("-t {tests}"));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let tests = document["tests"].as_array().unwrap();
        let datagrams = tests.last().unwrap();
        let rate = |test: &Value, name: &str| test["figures"][name].as_f64().unwrap();
        let offered = rate(datagrams, "offered_bps");
        // A burst of a millisecond may be begun just before the end.
        let most = stream.map_or(20e6, |at: usize| rate(&tests[at], "throughput_bps"));
        assert!(offered <= 1.05 * most, "{offered} of {most}: {ended:?}");
        assert!(offered >= 0.5 * most, "{offered} of {most}: {ended:?}");
        let pacing = &datagrams["plan"]["groups"][0]["body"]["loop"]["here"]["pacing"];
        assert!(pacing["burst"].as_u64().unwrap() > 0, "{pacing}");
        assert_eq!(datagrams["pace"]["of"], "TCP_STREAM");
    }
}

fn the_user_may_ask_for_another_rate_or_for_none() {
    let link = Link::new();
    for (rate, least, most) in [("5mbit", 1e6, 5.3e6), ("unlimited", 10e6, 100e6)] {
        let (ended, document) = link.run(&format!("-t UDP_STREAM --udp-rate {rate}"));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let test = &document["tests"][0];
        let offered = test["figures"]["offered_bps"].as_f64().unwrap();
        assert!((least..=most).contains(&offered), "{rate}: {offered}");
        let pacing = &test["plan"]["groups"][0]["body"]["loop"]["here"]["pacing"];
        assert_eq!(pacing.is_null(), rate == "unlimited", "{pacing}");
        assert_eq!(test["figures"]["datagrams"]["dropped_by_receiver"], 0);
    }
}
