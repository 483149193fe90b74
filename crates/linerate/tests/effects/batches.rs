//! Batches of one-way datagrams, at both ends: --io mmsg.

use testkit::{STOCK_NETPERF, Server, TestCase, linerate_with_args, run, test_case};

use super::trace::{Call, STRACE, trace_netperf};
use super::{TIMEOUT, run_client, selector_values};

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case(
            "sends_and_receives_batches",
            &[STRACE],
            sends_and_receives_batches,
        ),
        test_case("counts_each_datagram_once", &[], counts_each_datagram_once),
        test_case(
            "batches_with_stock_peer",
            &[STOCK_NETPERF],
            batches_with_stock_peer,
        ),
        test_case("rejects_other_tests", &[], rejects_other_tests),
    ]
}

/// 70 datagrams per interval make a batch of 64 and a batch of 6. The receiver uses batches, too.
fn sends_and_receives_batches() {
    let traces = trace_netperf(
        "-e trace=network",
        "",
        "-t UDP_STREAM -l 1 -b 70 -w 50 --io mmsg -- -m 100 -R 1",
    );
    let batches: Vec<&str> = results(&traces.client, "sendmmsg");
    assert!(batches.len() >= 4, "{batches:?}");
    for (index, batch) in batches.iter().enumerate() {
        assert_eq!(*batch, ["64", "6"][index % 2], "{batches:?}");
    }
    assert!(!results(&traces.server, "recvmmsg").is_empty());
    let plain = trace_netperf(
        "-e trace=network",
        "",
        "-t UDP_STREAM -l 1 -b 70 -w 50 -- -m 100 -R 1",
    );
    assert!(results(&plain.client, "sendmmsg").is_empty());
    assert!(results(&plain.server, "recvmmsg").is_empty());
}

/// Returns the results of the calls with this name.
fn results<'a>(calls: &'a [Call], name: &str) -> Vec<&'a str> {
    let named = calls.iter().filter(|call| call.name == name);
    named.map(|call| call.result.as_str()).collect()
}

fn counts_each_datagram_once() {
    let server = Server::start("");
    for (test, specific, sender, receiver) in [
        ("UDP_STREAM -b 100 -w 10", "", "LOCAL", "REMOTE"),
        ("OMNI -b 100 -w 10", "-T udplite -d send", "LOCAL", "REMOTE"),
        ("OMNI -b ,100 -w ,10", "-T udp -d recv", "REMOTE", "LOCAL"),
        // Full speed, so that many datagrams are lost.
        ("UDP_STREAM", "-S 1,1", "LOCAL", "REMOTE"),
    ] {
        let [
            bytes_sent,
            sent,
            bytes_received,
            received,
            sent_per_call,
            received_per_call,
        ] = [
            format!("{sender}_BYTES_SENT"),
            format!("{sender}_SEND_CALLS"),
            format!("{receiver}_BYTES_RECVD"),
            format!("{receiver}_RECV_CALLS"),
            format!("{sender}_DATAGRAMS_PER_CALL"),
            format!("{receiver}_DATAGRAMS_PER_CALL"),
        ];
        let names = [
            &bytes_sent,
            &sent,
            &bytes_received,
            &received,
            &sent_per_call,
            &received_per_call,
        ];
        let names = names.map(String::as_str);
        let test_options = format!("-m 100,100 -R 1 {specific} -k LATE_DATAGRAMS,LOST_DATAGRAMS");
        let line = format!(
            "-t {test} -l 1 --io mmsg -P 0 -- {test_options},{}",
            names.join(",")
        );
        let output = run_client(&server, &line);
        let values = selector_values(&output, names);
        let [
            bytes_sent,
            sent,
            bytes_received,
            received,
            sent_per_call,
            received_per_call,
        ] = values.each_ref().map(|value| value.parse::<f64>().unwrap());
        assert_eq!(
            bytes_sent.to_bits(),
            (100.0 * sent).to_bits(),
            "{output:#?}"
        );
        assert_eq!(
            bytes_received.to_bits(),
            (100.0 * received).to_bits(),
            "{output:#?}"
        );
        // A paced interval has batches of 64 and 36. Otherwise each batch is 64, unless a stop cuts
        // it short.
        let min_batch = if test.contains("-b") { 49.0 } else { 60.0 };
        assert!((min_batch..=64.0).contains(&sent_per_call), "{output:#?}");
        assert!((1.0..=64.0).contains(&received_per_call), "{output:#?}");
        if sender == "LOCAL" {
            let [late, lost] = selector_values(&output, ["LATE_DATAGRAMS", "LOST_DATAGRAMS"])
                .map(|count| count.parse::<f64>().unwrap());
            let accounted = received + late + lost;
            assert_eq!(sent.to_bits(), accounted.to_bits(), "{output:#?}");
        }
    }
    let output = run_client(&server, "-t UDP_STREAM -l -1000 --io mmsg -- -m 100 -R 1");
    let banner = output.stdout.lines().next().unwrap_or_default();
    assert!(banner.ends_with(" : mmsg : demo"), "{banner}");
}

/// Batches do not change the wire format, so the peer needs no support for them.
fn batches_with_stock_peer() {
    let server = Server::start_stock();
    let names = ["LOCAL_DATAGRAMS_PER_CALL", "REMOTE_DATAGRAMS_PER_CALL"];
    let test_options = format!("-m 100 -R 1 -k {}", names.join(","));
    let line = format!("-t UDP_STREAM -l 1 -b 64 --io mmsg -P 0 -- {test_options}");
    let output = run_client(&server, &line);
    assert_eq!(selector_values(&output, names), ["64.00", "-1.00"]);
}

/// --io mmsg is refused with a reason for tests without batches.
fn rejects_other_tests() {
    for (line, reason) in [
        ("netperf --io tcp", "a method is plain or mmsg"),
        (
            "netperf --io mmsg -t TCP_STREAM",
            "--io mmsg contradicts TCP_STREAM: it is for one-way datagrams over UDP or UDP-Lite",
        ),
        (
            "netperf --io mmsg -t UDP_RR",
            "--io mmsg contradicts UDP_RR",
        ),
        (
            "netperf --io mmsg -t UDP_STREAM -j",
            "--io mmsg contradicts -j, -v 2, --histogram and latency selectors",
        ),
        (
            "netperf --io mmsg -t UDP_STREAM -- -I",
            "--io mmsg contradicts test option -I",
        ),
        (
            "run --io mmsg -t TCP_RR",
            "--io mmsg: no test sends one-way datagrams",
        ),
        (
            "run --io mmsg -t UDP_STREAM --histogram /dev/null",
            "--io mmsg contradicts --histogram",
        ),
    ] {
        let output = run(linerate_with_args(line), TIMEOUT).expect("linerate exits in time");
        assert_ne!(output.code, Some(0), "{line}: {output:?}");
        let text = format!("{}{}", output.stdout, output.stderr);
        assert!(text.contains(reason), "{line}: {text}");
    }
}
