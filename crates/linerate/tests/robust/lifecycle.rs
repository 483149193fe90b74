//! How a netserver is started and ended, and what a signal does to a netperf.

use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, ProcessOutput, STOCK_NETPERF, Server, TestCase, TestProcess, connection_count,
    free_port, is_listening, linerate_with_args, program, test_case, wait_until,
};

use super::raw::Kind;

/// What needs no waiting for.
const AT_ONCE: Duration = Duration::from_secs(3);

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case(
            "lifecycle::early_end_reports_from_ours",
            &[Namespaces],
            early_end_reports_from_ours,
        ),
        test_case(
            "lifecycle::early_end_reports_from_stock",
            &[STOCK_NETPERF, Namespaces],
            early_end_reports_from_stock,
        ),
        test_case("lifecycle::tcp_info_on_request", &[], tcp_info_on_request),
        test_case("lifecycle::a_daemon", &[], a_daemon),
        test_case("lifecycle::a_taken_port", &[], a_taken_port),
        test_case("lifecycle::under_inetd", &[], under_inetd),
        test_case("lifecycle::activated_by_socket", &[], activated_by_socket),
        test_case("lifecycle::names", &[Namespaces], names),
    ]
}

fn early_end_reports_from_ours() {
    Namespace::new().enter(|| {
        let server = Server::start("");
        let rest = server.idle_usage();
        early_end_reports(&server);
        server.assert_usage_returns_to(rest, AT_ONCE, "interrupted tests");
    });
}

fn early_end_reports_from_stock() {
    Namespace::new().enter(|| early_end_reports(&Server::start_stock()));
}

/// Every test with data, ended by an impatient user, and by a script that says that the time is up.
fn early_end_reports(server: &Server) {
    const CLASSIC: [&str; 2] = ["TCP_SENDFILE", "TCP_CC"];
    for name in Kind::ALL.map(Kind::name).into_iter().chain(CLASSIC) {
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
            let client: ProcessOutput = client.finish(AT_ONCE);
            client.assert_success();
            let rate = client.figures().last().copied().unwrap_or_default();
            assert!(rate > 0.0, "{name}: {client:#?}");
            // What was done has an interim result of its own where stock prints one.
            let interim = client.stdout.matches("Interim result: ").count();
            let expected = usize::from(!CLASSIC.contains(&name));
            assert_eq!(interim, expected, "{name}: {client:#?}");
        }
    }
}

fn a_daemon() {
    let port = free_port();
    let start = Instant::now();
    TestProcess::start(&mut linerate_with_args(&format!("netserver -p {port}")))
        .finish(AT_ONCE)
        .assert_success();
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "it took {:?} to go",
        start.elapsed()
    );
    let daemon = Daemon::find(&["netserver", "-p", &port.to_string()]);
    assert!(
        is_listening(port),
        "the port is not open when the command returns"
    );
    tests_well(port);
    drop(daemon);
    assert!(
        wait_until(AT_ONCE, || !is_listening(port)),
        "SIGTERM does not end the daemon"
    );
}

/// `DUMP_TCP_INFO`: after each omni test over one connection the server says what TCP says.
fn tcp_info_on_request() {
    let server = Server::try_start_with(|port| {
        let mut netserver = linerate_with_args(&format!("netserver -D -p {port}"));
        netserver.env("DUMP_TCP_INFO", "1");
        netserver
    });
    let server = server.expect("it listens");
    let port = server.port;
    for name in ["TCP_RR", "TCP_CC", "UDP_RR", "TCP_MAERTS"] {
        let options = format!("netperf -H 127.0.0.1 -p {port} -t {name} -l -10 -P 0");
        let client =
            TestProcess::start(&mut linerate_with_args(&options)).finish(Duration::from_secs(20));
        client.assert_success();
        assert_eq!(client.stderr, "", "only the server was asked");
    }
    let said = |text: &str| server.stderr().matches(text).count();
    assert!(
        wait_until(AT_ONCE, || said("tcpi_total_retrans") == 2),
        "{}",
        server.stderr()
    );
    assert_eq!((said("tcpi_rtt "), said("tpci_snd_cwnd ")), (2, 2));
}

fn a_taken_port() {
    let taken = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("there is a free port");
    let port = taken.local_addr().expect("it is bound").port();
    let server = TestProcess::start(&mut linerate_with_args(&format!("netserver -4 -p {port}")))
        .finish(AT_ONCE);
    assert_ne!(server.code, Some(0), "{server:#?}");
    assert!(
        server.stderr.contains("Unable to start netserver"),
        "{server:#?}"
    );
}

/// A connection is the server's standard input, and its only client.
fn under_inetd() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let client = TestProcess::start(&mut linerate_with_args(&test_of(port)));
    let (control, _) = listener.accept().expect("the client connects");
    let control = Stdio::from(OwnedFd::from(control));
    let server = TestProcess::start_with_input(&mut linerate_with_args("netserver"), control);
    client.finish(Duration::from_secs(20)).assert_success();
    let server = server.finish(AT_ONCE);
    server.assert_success();
    // Its standard output is the connection in earnest: whatever it printed would break the messages.
    assert_eq!(server.stdout, "", "{server:#?}");
}

/// The listening socket is descriptor 3, sd_listen_fds(3).
fn activated_by_socket() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let script = "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" netserver -D 3<&0 </dev/null";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(program());
    let server = TestProcess::start_with_input(&mut command, Stdio::from(OwnedFd::from(listener)));
    tests_well(port);
    tests_well(port);
    server.signal(Signal::TERM);
    server.finish(AT_ONCE).assert_success();
}

/// `ps`, `ss -p` and `pidof` see the name that a program was started under, and its sockets are
/// those of the process that was started.
fn names() {
    let directory = tempfile::tempdir().expect("the directory for temporary files is writable");
    let link = |name: &str| {
        let path = directory.path().join(name);
        std::os::unix::fs::symlink(program(), &path).expect("a new directory");
        Command::new(path)
    };
    let (mut netserver, mut netperf) = (link("netserver"), link("netperf"));
    Namespace::new().enter(|| {
        let port = free_port();
        netserver.args(["-D", "-p", &port.to_string()]);
        let server = Server::start_at(port, netserver);
        assert_eq!(name_of(server.pid()), "netserver");
        let options = format!("-H 127.0.0.1 -p {port} -t TCP_STREAM -l 10");
        let mut client = TestProcess::start(netperf.args(options.split_whitespace()));
        client.wait_for_data_phase();
        assert_eq!(name_of(client.pid()), "netperf");
        assert_eq!(
            connection_count(client.pid()),
            2,
            "control and data connection"
        );
        assert_eq!(
            connection_count(server.pid()),
            2,
            "control and data connection"
        );
    });
}

fn name_of(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

fn test_of(port: u16) -> String {
    format!("netperf -H 127.0.0.1 -p {port} -t TCP_RR -l 1 -P 0")
}

fn tests_well(port: u16) {
    TestProcess::start(&mut linerate_with_args(&test_of(port)))
        .finish(Duration::from_secs(20))
        .assert_success();
}

/// A process that is nobody's child, ended with its owner.
pub(crate) struct Daemon(Pid);

impl Daemon {
    /// The one with these words in its command line.
    pub(crate) fn find(words: &[&str]) -> Self {
        let processes = std::fs::read_dir("/proc").expect("/proc is there");
        let numbers = processes
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_it = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line: Vec<_> = line.split(|byte| *byte == 0).collect();
            line.windows(words.len()).any(|window| {
                window
                    .iter()
                    .zip(words)
                    .all(|(is, word)| *is == word.as_bytes())
            })
        };
        let found = numbers.filter(is_it).find_map(Pid::from_raw);
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
