//! A link that is cut while tests run over it: both ends report it, and a server serves others.

use std::process::Command;
use std::time::Duration;

use testkit::Requirement::Namespaces;
use testkit::{Namespace, Server, TestCase, TestProcess, add_link, test_case, wait_until};

use super::{AT_ONCE, ours2, ours3};

/// The longest deadline of either dialect is 70 s: [`eventually`] waits four times as long as this.
const DEADLINE: Duration = Duration::from_secs(25);

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("iperf3::a_link_is_cut", &[Namespaces], iperf3).allow_many(),
        test_case("iperf::a_link_is_cut", &[Namespaces], iperf).allow_many(),
    ]
}

fn iperf3() {
    // A sender of datagrams learns nothing of it: the server's rule for the length of a test ends it.
    let kinds = [
        "",
        "-R",
        "--bidir",
        "-P 3",
        "-u -b 1M -l 1000",
        "-u -b 1M -l 1000 -R",
    ];
    let lines = kinds.map(|kind| {
        let receives = kind.contains("-R") || kind.contains("--bidir");
        let limit = if receives { "--rcv-timeout 2000" } else { "" };
        format!("-t 3 -i 0.1 {limit} {kind}")
    });
    cut(
        ours3,
        "--rcv-timeout 2000",
        &lines,
        "Bytes",
        &["-n 1M", "-u -b 8M -l 1000 -n 10K"],
    );
}

fn iperf() {
    let kinds = ["", "-R", "--full-duplex", "-P 3", "--bounceback"];
    let lines = kinds.map(|kind| format!("-t 3 -i 0.1 {kind}"));
    cut(ours2, "", &lines, "/sec", &["-n 1M"]);
}

/// Runs clients on another host, and cuts the link when all of them show that their data flows.
fn cut(make: fn(&str) -> Command, options: &str, lines: &[String], shows: &str, tests: &[&str]) {
    let (here, there) = (Namespace::new(), Namespace::new());
    add_link(
        (&here, "near", "198.51.100.1/24"),
        (&there, "far", "198.51.100.2/24"),
    );
    let start = || {
        Server::try_start_with(|port| make(&format!("-s -p {port} {options}"))).expect("it starts")
    };
    let server = here.enter(start);
    let is_alive = || {
        for kind in tests {
            let line = format!("-c 127.0.0.1 -p {} {kind}", server.port);
            let client = here.enter(|| testkit::run(make(&line), AT_ONCE));
            client.expect("it ends").assert_success();
        }
    };
    is_alive();
    let rest = server.settled_usage();
    let start = |line: &String| {
        TestProcess::start(&mut make(&format!(
            "-c 198.51.100.1 -p {} {line}",
            server.port
        )))
    };
    let clients: Vec<TestProcess> = there.enter(|| lines.iter().map(start).collect());
    for client in &clients {
        let flows = wait_until(AT_ONCE, || client.stdout().contains(shows));
        assert!(flows, "{} {}", client.stdout(), client.stderr());
    }
    here.ip("link del near");
    for client in clients {
        let client = client.finish(DEADLINE);
        // One of each flow.
        let is_said = (1..=3).contains(&client.stderr.lines().count());
        assert!(client.code == Some(1) && is_said, "{client:#?}");
    }
    server.assert_usage_returns_to(rest, DEADLINE, "the link's end");
    is_alive();
}
