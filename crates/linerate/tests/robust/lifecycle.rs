//! Start and end of a netserver, and signals to a netperf.

use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, ProcessOutput, STOCK_NETPERF, Server, TestCase, TestProcess, connection_count,
    free_port, is_listening, linerate_path, linerate_with_args, wait_until, with_prefix,
};

use super::raw::TestKind;

/// Timeout of an action that needs no wait.
const SHORT_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        needing &[Namespaces];
        interrupted_client_prints_result_with_ours,
        keeps_process_names,
    ];
    test_cases.extend(testkit::test_cases![
        needing &[STOCK_NETPERF, Namespaces];
        interrupted_client_prints_result_with_stock,
    ]);
    test_cases.extend(testkit::test_cases![
        prints_tcp_info_on_request,
        runs_as_daemon,
        reports_port_in_use,
        serves_under_inetd,
        serves_on_activated_socket,
    ]);
    with_prefix("lifecycle", test_cases).collect()
}

fn interrupted_client_prints_result_with_ours() {
    Namespace::new().enter(|| {
        let server = Server::start("");
        let idle_usage = server.idle_usage();
        interrupted_client_prints_result(&server);
        server.assert_usage_returns_to(idle_usage, SHORT_TIMEOUT, "interrupted tests");
    });
}

fn interrupted_client_prints_result_with_stock() {
    Namespace::new().enter(|| interrupted_client_prints_result(&Server::start_stock()));
}

/// SIGINT and SIGALRM end each test early, as a user or a script does.
fn interrupted_client_prints_result(server: &Server) {
    const CLASSIC: [&str; 2] = ["TCP_SENDFILE", "TCP_CC"];
    for name in TestKind::ALL.map(TestKind::name).into_iter().chain(CLASSIC) {
        for signals in [&[Signal::INT][..], &[Signal::ALARM], &[Signal::ALARM; 2]] {
            let options = format!(
                "netperf -H 127.0.0.1 -p {} -t {name} -P 0 -l 30 -D 10",
                server.port
            );
            let mut client = TestProcess::start(&mut linerate_with_args(&options));
            client.wait_for_data_phase();
            for signal in signals {
                client.signal(*signal);
            }
            let client: ProcessOutput = client.finish(SHORT_TIMEOUT);
            client.assert_success();
            let rate = client.figures().last().copied().unwrap_or_default();
            assert!(rate > 0.0, "{name}: {client:#?}");
            // As in stock, the data up to the signal is one interim result, except in classic
            // tests.
            let interim_results = client.stdout.matches("Interim result: ").count();
            let expected = usize::from(!CLASSIC.contains(&name));
            assert_eq!(interim_results, expected, "{name}: {client:#?}");
        }
    }
}

fn runs_as_daemon() {
    let port = free_port();
    let start = Instant::now();
    TestProcess::start(&mut linerate_with_args(&format!("netserver -p {port}")))
        .finish(SHORT_TIMEOUT)
        .assert_success();
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "the command took {:?} to return",
        start.elapsed()
    );
    let daemon = Daemon::find(&["netserver", "-p", &port.to_string()]);
    assert!(
        is_listening(port),
        "the daemon does not listen when the command returns"
    );
    assert_serves(port);
    drop(daemon);
    assert!(
        wait_until(SHORT_TIMEOUT, || !is_listening(port)),
        "SIGTERM does not end the daemon"
    );
}

/// With `DUMP_TCP_INFO`, the server prints `TCP_INFO` after each omni test over one connection.
fn prints_tcp_info_on_request() {
    let server = Server::try_start_with(|port| {
        let mut netserver = linerate_with_args(&format!("netserver -D -p {port}"));
        netserver.env("DUMP_TCP_INFO", "1");
        netserver
    });
    let server = server.expect("the server listens");
    let port = server.port;
    for name in ["TCP_RR", "TCP_CC", "UDP_RR", "TCP_MAERTS"] {
        let options = format!("netperf -H 127.0.0.1 -p {port} -t {name} -l -10 -P 0");
        let client =
            TestProcess::start(&mut linerate_with_args(&options)).finish(Duration::from_secs(20));
        client.assert_success();
        assert_eq!(client.stderr, "", "only the server has DUMP_TCP_INFO");
    }
    let printed = |text: &str| server.stderr().matches(text).count();
    assert!(
        wait_until(SHORT_TIMEOUT, || printed("tcpi_total_retrans") == 2),
        "{}",
        server.stderr()
    );
    assert_eq!((printed("tcpi_rtt "), printed("tpci_snd_cwnd ")), (2, 2));
}

fn reports_port_in_use() {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("there is a free port");
    let port = listener.local_addr().expect("the socket is bound").port();
    let server = TestProcess::start(&mut linerate_with_args(&format!("netserver -4 -p {port}")))
        .finish(SHORT_TIMEOUT);
    assert_ne!(server.code, Some(0), "{server:#?}");
    assert!(
        server.stderr.contains("Unable to start netserver"),
        "{server:#?}"
    );
}

/// The server's standard input is its only control connection.
fn serves_under_inetd() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let port = listener.local_addr().expect("the socket is bound").port();
    let client = TestProcess::start(&mut linerate_with_args(&test_line(port)));
    let (control, _) = listener.accept().expect("the client connects");
    let control = Stdio::from(OwnedFd::from(control));
    let server = TestProcess::start_with_input(&mut linerate_with_args("netserver"), control);
    client.finish(Duration::from_secs(20)).assert_success();
    let server = server.finish(SHORT_TIMEOUT);
    server.assert_success();
    // Under a real inetd, standard output is also the connection, so output would corrupt messages.
    assert_eq!(server.stdout, "", "{server:#?}");
}

/// The listening socket is descriptor 3, as in sd_listen_fds(3).
fn serves_on_activated_socket() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let port = listener.local_addr().expect("the socket is bound").port();
    let script = "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" netserver -D 3<&0 </dev/null";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(linerate_path());
    let server = TestProcess::start_with_input(&mut command, Stdio::from(OwnedFd::from(listener)));
    assert_serves(port);
    assert_serves(port);
    server.signal(Signal::TERM);
    server.finish(SHORT_TIMEOUT).assert_success();
}

/// The process has the name of its command, so that `ps`, `ss -p` and `pidof` find it. It opens its
/// sockets itself, not in a child.
fn keeps_process_names() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let link = |name: &str| {
        let path = directory.path().join(name);
        std::os::unix::fs::symlink(linerate_path(), &path).expect("the directory is writable");
        Command::new(path)
    };
    let (mut netserver, mut netperf) = (link("netserver"), link("netperf"));
    Namespace::new().enter(|| {
        let port = free_port();
        netserver.args(["-D", "-p", &port.to_string()]);
        let server = Server::start_at(port, netserver);
        assert_eq!(process_name(server.pid()), "netserver");
        let options = format!("-H 127.0.0.1 -p {port} -t TCP_STREAM -l 10");
        let mut client = TestProcess::start(netperf.args(options.split_whitespace()));
        client.wait_for_data_phase();
        assert_eq!(process_name(client.pid()), "netperf");
        assert_eq!(
            connection_count(client.pid()),
            2,
            "expected a control and a data connection"
        );
        assert_eq!(
            connection_count(server.pid()),
            2,
            "expected a control and a data connection"
        );
    });
}

fn process_name(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

fn test_line(port: u16) -> String {
    format!("netperf -H 127.0.0.1 -p {port} -t TCP_RR -l 1 -P 0")
}

fn assert_serves(port: u16) {
    TestProcess::start(&mut linerate_with_args(&test_line(port)))
        .finish(Duration::from_secs(20))
        .assert_success();
}

/// A process that is not a child of the test. It is terminated on drop.
pub(crate) struct Daemon(Pid);

impl Daemon {
    /// Finds the process that has these consecutive arguments in its command line.
    pub(crate) fn find(arguments: &[&str]) -> Self {
        let processes = std::fs::read_dir("/proc").expect("/proc is mounted");
        let pids = processes
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let matches = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line: Vec<_> = line.split(|byte| *byte == 0).collect();
            line.windows(arguments.len()).any(|window| {
                window
                    .iter()
                    .zip(arguments)
                    .all(|(found, expected)| *found == expected.as_bytes())
            })
        };
        let found = pids.filter(matches).find_map(Pid::from_raw);
        Self(found.expect("the daemon runs"))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.as_raw_nonzero().get().unsigned_abs()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::TERM);
    }
}
