//! The log of `linerate serve`: a line per test, and its rate.

use std::io::{Read, Write};
use std::net::TcpStream;

use iperf::wire::BounceMessage;
use testkit::{TestCase, free_port, wait_until};

use super::{PROFILE, Serving, TIMEOUT, end_reason};

pub(super) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        logs_each_test,
        log_has_the_time_of_all_directions,
        log_has_the_end_of_bounceback,
        log_has_a_rate,
    ]
}

fn logs_each_test() {
    let serving = Serving::start("");
    let profile = serving.write_file("p.xml", PROFILE, 0o600);
    let uperf = format!("uperf -P PORT -m {}", profile.display());
    let clients = [
        (
            "netperf -p PORT -H 127.0.0.1 -l -1000 -P 0",
            "TCP_STREAM",
            None,
        ),
        (
            "netperf -p PORT -H 127.0.0.1 -l 1 -t UDP_RR",
            "UDP_RR",
            None,
        ),
        (&uperf, "strands: 2", Some(1000)),
        ("iperf -c 127.0.0.1 -p PORT -n 2000 -l 1000", "TCP", None),
        ("iperf -c 127.0.0.1 -p PORT -u -n 2000 -l 1000", "UDP", None),
        (
            "iperf3 -c 127.0.0.1 -p PORT -n 3000 -l 1000 -P 2",
            "TCP, streams: 2",
            None,
        ),
        (
            "iperf3 -c 127.0.0.1 -p PORT -n 3000 -l 1000 -R",
            "TCP reverse, streams: 1",
            None,
        ),
        (
            "udpmon_bw_mon -d 127.0.0.1 -u PORT -p 1000 -l 10 -w 100",
            "throughput",
            None,
        ),
    ];
    for (index, (line, test, bytes)) in clients.iter().enumerate() {
        serving.run_client(line).assert_success();
        let log = serving.log(index + 1);
        let entry = &log[index];
        let dialect = entry["dialect"].as_str().expect("a name");
        assert!(line.starts_with(dialect), "{entry:#}");
        assert_eq!(entry["test"], *test, "{entry:#}");
        assert_eq!(
            (end_reason(entry), &entry["is_complete"]),
            ("complete", &true.into())
        );
        let count = |field: &str| entry[field].as_u64().expect("a count");
        let total = count("received_bytes") + count("sent_bytes");
        assert!(bytes.map_or(total > 0, |bytes| total == bytes), "{entry:#}");
    }
    let output = serving.server.terminate();
    assert_eq!(
        (output.code, output.stdout.lines().count()),
        (Some(0), clients.len())
    );
}

/// With `-r`, the server sends after it has received.
fn log_has_the_time_of_all_directions() {
    let serving = Serving::start("");
    for (index, options) in ["", "-u"].into_iter().enumerate() {
        let back = free_port();
        let line = format!("iperf -c 127.0.0.1 -p PORT {options} -t 1 -r -b 8m -l 1000 -L {back}");
        serving.run_client(&line).assert_success();
        let entry = &serving.log(index + 1)[index];
        assert_eq!(end_reason(entry), "complete", "{entry:#}");
        let number = |field: &str| entry[field].as_f64().expect("a number");
        assert!(number("seconds") > 1.8, "{entry:#}");
        for field in ["received_bytes", "sent_bytes"] {
            assert!(number(field) > 500_000.0, "{entry:#}");
        }
    }
}

/// A client that ends between two messages has completed its test.
fn log_has_the_end_of_bounceback() {
    let serving = Serving::start("");
    for (index, (part, end)) in [
        (0, "complete"),
        (10, "the client closed the connection within a message"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut message = [0; 100];
        let request = BounceMessage {
            size: 100,
            ..BounceMessage::default()
        };
        request.write(&mut message);
        let mut client = TcpStream::connect(("127.0.0.1", serving.ports[1])).expect("it listens");
        client.write_all(&message).expect("the server reads");
        client.read_exact(&mut [0; 100]).expect("the server echoes");
        client.write_all(&message[..part]).expect("it is connected");
        drop(client);
        let entry = &serving.log(index + 1)[index];
        assert_eq!(end_reason(entry), end, "{entry:#}");
        assert_eq!(entry["is_complete"], part == 0, "{entry:#}");
    }
}

/// Tests without data share the limit of the other log lines. A test with data is always logged.
fn log_has_a_rate() {
    const CONNECTIONS: usize = 1200;
    let serving = Serving::start("");
    let [_, iperf, _, _] = serving.ports;
    for _ in 0..CONNECTIONS {
        // The server begins a test at the first bytes, and the client sends no more.
        let stream = std::net::TcpStream::connect(("127.0.0.1", iperf)).expect("a server");
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
    serving
        .run_client("iperf -c 127.0.0.1 -p PORT -n 2000 -l 1000")
        .assert_success();
    let is_logged = || serving.server.stdout().contains("\"received_bytes\":2000");
    assert!(
        wait_until(TIMEOUT, is_logged),
        "{}",
        serving.server.stdout()
    );
    let output = serving.server.terminate();
    let lines = output.stdout.lines().count() + output.stderr.lines().count();
    assert!(lines <= 1100, "{lines}");
    assert!(
        output.stderr.contains(" log lines left out"),
        "{}",
        output.stderr
    );
}
