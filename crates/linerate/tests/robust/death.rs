//! Clients that die in each phase while another client's test runs.

use std::io::Write;
use std::time::Duration;

use netperf::wire::Request;
use rustix::process::Signal;
use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, Profile, STOCK_NETPERF, Server, TestCase, TestProcess, add_link, linerate_with_args,
    stock_with_args, wait_until, with_prefix,
};

use super::raw::{RawClient, TestKind, data_connection};

/// Timeout for the server to detect the end of a connection. It needs no deadline for that: all
/// deadlines and lengths of tests are longer than four times this, which `wait_until` may wait.
const SHORT_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        needing &[STOCK_NETPERF, Namespaces];
        detects_dead_client_in_each_phase,
        ends_sessions_after_lost_link,
    ];
    let waiting =
        testkit::test_cases![needing &[Namespaces]; releases_threads_behind_closed_windows];
    test_cases.extend(waiting.into_iter().map(TestCase::allow_many_at_once));
    with_prefix("death", test_cases).collect()
}

fn detects_dead_client_in_each_phase() {
    Namespace::new().enter(|| {
        // The server must detect the end of each connection, because no deadline expires in this
        // test.
        let mut server = Server::start("");
        server.idle_usage();
        let target = format!("netperf -H 127.0.0.1 -p {}", server.port);
        let options = "-t TCP_RR -l 1000 -b 1 -w 10 -D 0.1 -P 0";
        let mut bystander =
            TestProcess::start(&mut linerate_with_args(&format!("{target} {options}")));
        // The baseline contains the server's data loop, which starts after the connection.
        let has_started = wait_until(SHORT_TIMEOUT, || bystander.stdout().contains("Interim"));
        assert!(has_started, "{}", bystander.stderr());
        let baseline = server.settled_usage();

        // The kernel closes the connections of a killed process in the same way.
        drop(RawClient::connect(server.port));
        server.assert_usage_returns_to(baseline, SHORT_TIMEOUT, "a death after the connection");
        let mut raw = RawClient::connect(server.port);
        raw.control.write_all(&[0; 300]).expect("the server reads");
        drop(raw);
        server.assert_usage_returns_to(baseline, SHORT_TIMEOUT, "a death within a message");
        for kind in TestKind::ALL {
            let mut raw = RawClient::connect(server.port);
            raw.send(&Request::Omni(kind.request(100)));
            drop(raw);
            server.assert_usage_returns_to(
                baseline,
                SHORT_TIMEOUT,
                &format!("a death before the response, {}", kind.name()),
            );
        }
        for kind in TestKind::ALL {
            let event = format!("a death before the data, {}", kind.name());
            // With -s, the stock client sleeps for 100 s between the response and the data.
            let client = start_client(&server, kind, "-s 100 -l 100");
            let has_request = wait_until(SHORT_TIMEOUT, || {
                server.usage().descriptors >= baseline.descriptors + 2
            });
            assert!(has_request, "{event}: the server received no request");
            client.signal(Signal::KILL);
            server.assert_usage_returns_to(baseline, SHORT_TIMEOUT, &event);
        }
        for kind in TestKind::ALL {
            let mut client = start_client(&server, kind, "-l 100");
            client.wait_for_data_phase();
            client.signal(Signal::KILL);
            server.assert_usage_returns_to(
                baseline,
                SHORT_TIMEOUT,
                &format!("a death in the data, {}", kind.name()),
            );
        }
        let mut raw = RawClient::connect(server.port);
        let port = raw.request_test(&TestKind::TcpStream.request(100));
        let mut data = data_connection(port);
        data.write_all(&[0; 1000]).expect("the test receives");
        drop((data, raw));
        server.assert_usage_returns_to(baseline, SHORT_TIMEOUT, "a death before the results");

        assert!(bystander.is_running(), "{}", bystander.stderr());
        bystander.signal(Signal::INT);
        let bystander = bystander.finish(SHORT_TIMEOUT);
        bystander.assert_success();
        // The rate is limited to 100 transactions per second.
        assert!(
            bystander.figures().iter().any(|rate| *rate > 20.0),
            "{bystander:#?}"
        );
        assert!(server.is_running());
    });
}

/// The server receives nothing more from a client after the link is removed.
fn ends_sessions_after_lost_link() {
    let (server_host, client_host) = (Namespace::new(), Namespace::new());
    add_link(
        (&server_host, "near", "198.51.100.1/24"),
        (&client_host, "far", "198.51.100.2/24"),
    );
    let server = server_host
        .enter(|| Server::start("--control-idle 2 --data-wait 2 --data-idle 2 --drain 2"));
    let idle_usage = server_host.enter(|| server.idle_usage());
    let clients: Vec<TestProcess> = client_host.enter(|| {
        let mut silent = RawClient::connect_to(([198, 51, 100, 1], server.port).into());
        silent
            .control
            .write_all(&[0; 300])
            .expect("the server reads");
        // No test ends by its length, however slow this machine is.
        let options = |kind: TestKind| {
            format!(
                "-H 198.51.100.1 -p {} -t {} -l 1000 -P 0",
                server.port,
                kind.name()
            )
        };
        let start = |kind| {
            let mut client = TestProcess::start(&mut stock_with_args("netperf", &options(kind)));
            client.wait_for_data_phase();
            client
        };
        let clients: Vec<_> = TestKind::ALL.into_iter().map(start).collect();
        server_host.ip("link del near");
        clients
    });
    // The deadline of the data, that of the drain, and that of the control connection add up.
    server.assert_usage_returns_to(
        idle_usage,
        Duration::from_secs(2 + 2 + 2 + 3),
        "the loss of the link",
    );
    drop(clients);
    server_host.enter(|| server.assert_serves());
}

/// A client stops reading, and then its host is lost: the server's data stays in the socket.
/// Keep-alive probes of the control connection end the session. Without one, an iperf 2 server ends
/// the flow after 60 s; see `iperfs::iperf::server_releases_killed_and_stopped_clients`.
fn releases_threads_behind_closed_windows() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let profile = directory.path().join("profile.xml");
    let text = Profile::new("p")
        .group("nthreads=1")
        .single_flowop("connect remotehost=198.51.100.1 protocol=tcp")
        .transaction("duration=1000s", &["read size=64k"])
        .text();
    std::fs::write(&profile, text).expect("the directory is writable");
    let uperf = format!("uperf -m {} -P", profile.display());
    let dialects = [
        (
            "netserver -D -p",
            "netperf -H 198.51.100.1 -t TCP_MAERTS -l 1000 -p",
        ),
        ("uperf -s -P", &uperf),
        ("iperf3 -s -p", "iperf3 -c 198.51.100.1 -R -t 1000 -p"),
    ];
    testkit::run_in_parallel(dialects.map(|(server, client)| {
        move || {
            let (server_host, client_host) = (Namespace::new(), Namespace::new());
            add_link(
                (&server_host, "near", "198.51.100.1/24"),
                (&client_host, "far", "198.51.100.2/24"),
            );
            let line = |command: &str, port: u16| linerate_with_args(&format!("{command} {port}"));
            let server = server_host
                .enter(|| Server::try_start_with(|port| line(server, port)))
                .expect("the server listens");
            let idle_usage = server.settled_usage();
            let mut client =
                client_host.enter(|| TestProcess::start(&mut line(client, server.port)));
            client.wait_for_data_phase();
            client.signal(Signal::STOP);
            let has_closed_window = || server_host.enter(probes_closed_window);
            assert!(wait_until(SHORT_TIMEOUT, has_closed_window), "{client:?}");
            client_host.ip("link set far down");
            server.assert_usage_returns_to(
                idle_usage,
                Duration::from_secs(35),
                "the loss of the link",
            );
        }
    }));
}

/// Returns whether the kernel probes the closed window of any connection of this host: timer 4 in
/// /proc/net/tcp.
fn probes_closed_window() -> bool {
    let tables = ["tcp", "tcp6"].map(|table| format!("/proc/thread-self/net/{table}"));
    tables.iter().any(|table| {
        let table = std::fs::read_to_string(table).unwrap_or_default();
        let mut timers = table
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5));
        timers.any(|timer| timer.starts_with("04:"))
    })
}

fn start_client(server: &Server, kind: TestKind, options: &str) -> TestProcess {
    let options = format!(
        "-H 127.0.0.1 -p {} -t {} -P 0 {options}",
        server.port,
        kind.name()
    );
    TestProcess::start(&mut stock_with_args("netperf", &options))
}
