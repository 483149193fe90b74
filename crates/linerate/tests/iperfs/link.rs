//! A link that is cut while tests use it. Clients report the failure, and the server still serves
//! other clients. A short loss of packets causes retransmissions.

use std::time::Duration;

use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, Server, TestCase, TestProcess, add_link, test_case, wait_until,
    without_pace_warnings,
};

use super::{CommandBuilder, SHORT_TIMEOUT, our_iperf2, our_iperf3};

/// The longest deadline of either dialect is 70 s. All waits multiply this timeout by 4.
const DEADLINE: Duration = Duration::from_secs(25);

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("iperf3::reports_cut_link", &[Namespaces], iperf3).allow_many_at_once(),
        test_case("iperf::reports_cut_link", &[Namespaces], iperf).allow_many_at_once(),
        test_case(
            "iperf::bounceback_counts_retransmissions",
            &[Namespaces],
            bounceback_counts_retransmissions,
        )
        .allow_many_at_once(),
    ]
}

fn iperf3() {
    // A UDP sender does not detect the cut. The server's time limit ends its test.
    let clients = [
        "",
        "-R",
        "--bidir",
        "-P 3",
        "-u -b 1M -l 1000",
        "-u -b 1M -l 1000 -R",
    ];
    let lines = clients.map(|options| {
        let is_receiving = options.contains("-R") || options.contains("--bidir");
        let timeout = if is_receiving {
            "--rcv-timeout 2000"
        } else {
            ""
        };
        format!("-t 3 -i 0.1 {timeout} {options}")
    });
    run_with_cut_link(
        our_iperf3,
        "--rcv-timeout 2000",
        &lines,
        "Bytes",
        &["-n 1M", "-u -b 8M -l 1000 -n 10K"],
    );
}

fn iperf() {
    let clients = ["", "-R", "--full-duplex", "-P 3", "--bounceback"];
    let lines = clients.map(|options| format!("-t 3 -i 0.1 {options}"));
    run_with_cut_link(our_iperf2, "", &lines, "/sec", &["-n 1M"]);
}

/// Runs clients on another host, and cuts the link when all of them have printed `unit`.
///
/// Clients with the options `local_clients` run on the server's host before and after that.
fn run_with_cut_link(
    command_with: CommandBuilder,
    options: &str,
    lines: &[String],
    unit: &str,
    local_clients: &[&str],
) {
    let (server_host, client_host) = (Namespace::new(), Namespace::new());
    add_link(
        (&server_host, "near", "198.51.100.1/24"),
        (&client_host, "far", "198.51.100.2/24"),
    );
    let start = || {
        Server::try_start_with(|port| command_with(&format!("-s -p {port} {options}")))
            .expect("a server")
    };
    let server = server_host.enter(start);
    let assert_serves = || {
        for options in local_clients {
            let line = format!("-c 127.0.0.1 -p {} {options}", server.port);
            let client = server_host.enter(|| testkit::run(command_with(&line), SHORT_TIMEOUT));
            client.expect("the client ends").assert_success();
        }
    };
    assert_serves();
    let idle_usage = server.settled_usage();
    let start = |line: &String| {
        TestProcess::start(&mut command_with(&format!(
            "-c 198.51.100.1 -p {} {line}",
            server.port
        )))
    };
    let clients: Vec<TestProcess> = client_host.enter(|| lines.iter().map(start).collect());
    for client in &clients {
        let has_started = wait_until(SHORT_TIMEOUT, || client.stdout().contains(unit));
        assert!(has_started, "{} {}", client.stdout(), client.stderr());
    }
    server_host.ip("link del near");
    for client in clients {
        let client = client.finish(DEADLINE);
        // Each flow may report an error.
        let lines = without_pace_warnings(&client.stderr).lines().count();
        let has_errors = (1..=3).contains(&lines);
        assert!(client.code == Some(1) && has_errors, "{client:#?}");
    }
    server.assert_usage_returns_to(idle_usage, DEADLINE, "the cut of the link");
    assert_serves();
}

fn bounceback_counts_retransmissions() {
    let (server_host, client_host) = (Namespace::new(), Namespace::new());
    add_link(
        (&server_host, "near", "198.51.100.1/24"),
        (&client_host, "far", "198.51.100.2/24"),
    );
    server_host.ip("rule add pref 3 lookup local");
    server_host.ip("rule del pref 0");
    let server = server_host.enter(|| Server::start_with(|port| format!("iperf -s -p {port}")));
    let line = format!(
        "-c 198.51.100.1 -p {} --bounceback -e -t 60 -i 1",
        server.port
    );
    let client = client_host.enter(|| TestProcess::start(&mut our_iperf2(&line)));
    let reports = || client.stdout().matches(" RPS=").count();
    assert!(wait_until(SHORT_TIMEOUT, || reports() > 0), "{client:?}");
    let retransmitted = || {
        client_host.enter(|| {
            let path = "/proc/thread-self/net/snmp";
            let counters = std::fs::read_to_string(path).expect("the kernel has counters");
            let tcp = counters.lines().rfind(|line| line.starts_with("Tcp:"));
            let count = tcp.and_then(|line| line.split(' ').nth(12));
            count.expect("RetransSegs is number 12").parse() != Ok(0)
        })
    };
    server_host.ip("rule add pref 1 ipproto tcp blackhole");
    assert!(wait_until(SHORT_TIMEOUT, retransmitted), "{client:?}");
    server_host.ip("rule del pref 1");
    let reports_before = reports();
    let has_recovered = || reports() > reports_before + 1;
    assert!(wait_until(SHORT_TIMEOUT, has_recovered), "{client:?}");
    client.signal(rustix::process::Signal::INT);
    let output = client.finish(DEADLINE);
    let last = output.stdout.lines().rfind(|line| line.contains(" RPS="));
    let last = last.expect("a last report");
    let after_times = last.split(" ms ").nth(1).expect("times");
    let retransmissions = after_times.split_whitespace().next().map(str::parse::<u32>);
    assert!(
        matches!(retransmissions, Some(Ok(1..))),
        "{last}: {output:?}"
    );
}
