//! One-way datagrams in batches, at both ends: --io mmsg.

use testkit::{STOCK_NETPERF, Server, TestCase, linerate_with_args, run, test_case};

use super::trace::{Call, STRACE, both};
use super::{PATIENCE, finish, values};

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("calls", &[STRACE], calls),
        test_case("counts", &[], counts),
        test_case("a_stock_peer", &[STOCK_NETPERF], a_stock_peer),
        test_case("refused", &[], refused),
    ]
}

/// 70 datagrams per interval are a batch of 64 and one of 6. The other end receives in batches, too.
fn calls() {
    let ran = both(
        "-e trace=network",
        "",
        "-t UDP_STREAM -l 1 -b 70 -w 50 --io mmsg -- -m 100 -R 1",
    );
    let batches: Vec<&str> = results(&ran.client, "sendmmsg");
    assert!(batches.len() >= 4, "{batches:?}");
    for (at, batch) in batches.iter().enumerate() {
        assert_eq!(*batch, ["64", "6"][at % 2], "{batches:?}");
    }
    assert!(!results(&ran.server, "recvmmsg").is_empty());
    let plain = both(
        "-e trace=network",
        "",
        "-t UDP_STREAM -l 1 -b 70 -w 50 -- -m 100 -R 1",
    );
    assert!(results(&plain.client, "sendmmsg").is_empty());
    assert!(results(&plain.server, "recvmmsg").is_empty());
}

fn results<'a>(calls: &'a [Call], name: &str) -> Vec<&'a str> {
    let named = calls.iter().filter(|call| call.name == name);
    named.map(|call| call.result.as_str()).collect()
}

/// Each datagram is counted once, whichever end sends, and however the batches fall.
fn counts() {
    let server = Server::start("");
    for (test, specific, sender, receiver) in [
        ("UDP_STREAM -b 100 -w 10", "", "LOCAL", "REMOTE"),
        ("OMNI -b 100 -w 10", "-T udplite -d send", "LOCAL", "REMOTE"),
        ("OMNI -b ,100 -w ,10", "-T udp -d recv", "REMOTE", "LOCAL"),
        // As fast as they go, so that many are lost.
        ("UDP_STREAM", "-S 1,1", "LOCAL", "REMOTE"),
    ] {
        let [bytes_sent, sent, bytes, received, batch, of_receiver] = [
            format!("{sender}_BYTES_SENT"),
            format!("{sender}_SEND_CALLS"),
            format!("{receiver}_BYTES_RECVD"),
            format!("{receiver}_RECV_CALLS"),
            format!("{sender}_DATAGRAMS_PER_CALL"),
            format!("{receiver}_DATAGRAMS_PER_CALL"),
        ];
        let names = [&bytes_sent, &sent, &bytes, &received, &batch, &of_receiver];
        let names = names.map(String::as_str);
        let own = format!("-m 100,100 -R 1 {specific} -k LATE_DATAGRAMS,LOST_DATAGRAMS");
        let line = format!("-t {test} -l 1 --io mmsg -P 0 -- {own},{}", names.join(","));
        let finished = finish(&server, &line);
        let seen = values(&finished, names);
        let [bytes_sent, sent, bytes, received, batch, of_receiver] =
            seen.each_ref().map(|value| value.parse::<f64>().unwrap());
        assert_eq!(
            bytes_sent.to_bits(),
            (100.0 * sent).to_bits(),
            "{finished:#?}"
        );
        assert_eq!(
            bytes.to_bits(),
            (100.0 * received).to_bits(),
            "{finished:#?}"
        );
        // 64 and 36 per interval; without a pace, 64 in each call but those that a stop cut short.
        let least = if test.contains("-b") { 49.0 } else { 60.0 };
        assert!((least..=64.0).contains(&batch), "{finished:#?}");
        assert!((1.0..=64.0).contains(&of_receiver), "{finished:#?}");
        if sender == "LOCAL" {
            let [late, lost] = values(&finished, ["LATE_DATAGRAMS", "LOST_DATAGRAMS"])
                .map(|count| count.parse::<f64>().unwrap());
            let all = received + late + lost;
            assert_eq!(sent.to_bits(), all.to_bits(), "{finished:#?}");
        }
    }
    let said = finish(&server, "-t UDP_STREAM -l -1000 --io mmsg -- -m 100 -R 1");
    let banner = said.stdout.lines().next().unwrap_or_default();
    assert!(banner.ends_with(" : mmsg : demo"), "{banner}");
}

/// The wire is the same, so the peer need not know of batches.
fn a_stock_peer() {
    let server = Server::start_stock();
    let names = ["LOCAL_DATAGRAMS_PER_CALL", "REMOTE_DATAGRAMS_PER_CALL"];
    let own = format!("-m 100 -R 1 -k {}", names.join(","));
    let line = format!("-t UDP_STREAM -l 1 -b 64 --io mmsg -P 0 -- {own}");
    let finished = finish(&server, &line);
    assert_eq!(values(&finished, names), ["64.00", "-1.00"]);
}

/// What has no batches is refused with the reason.
fn refused() {
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
        let ended = run(linerate_with_args(line), PATIENCE).expect("it runs");
        assert_ne!(ended.code, Some(0), "{line}: {ended:?}");
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(said.contains(reason), "{line}: {said}");
    }
}
