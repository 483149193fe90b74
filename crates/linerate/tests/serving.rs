//! Options of `linerate serve`: sockets, secrets, signals and the status.

mod limits;
mod log;

use std::fs::Permissions;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::{self, RecvTimeoutError::Timeout};
use std::time::Duration;

use iperf::wire::{DatagramHeader, WallTime};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testkit::Requirement::Namespaces;
use testkit::{
    ProcessOutput, Receive, Server, TestCase, TestProcess, free_port, linerate_with_args, run,
    test_case, wait_until,
};

use crate::robust::assert_runs_as_nobody;

/// Timeout on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Two strands that write 500 bytes each.
const PROFILE: &str = r#"<profile name="p"><group nthreads="2">
<transaction iterations="1"><flowop type="connect" options="remotehost=127.0.0.1 protocol=tcp"/></transaction>
<transaction iterations="5"><flowop type="write" options="size=100"/></transaction>
<transaction iterations="1"><flowop type="disconnect"/></transaction></group></profile>"#;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        requires_secrets,
        refuses_invalid_sockets_of_systemd,
        binds_one_address,
        sigterm_ends_or_drains_tests,
        sigterm_ends_answers_to_repeated_datagrams,
        status_reports_running_tests,
        replaces_only_stale_status_socket,
    ];
    test_cases.extend(log::test_cases());
    test_cases.extend(limits::test_cases());
    // Like namespaces, `--user` needs root permissions.
    test_cases.push(test_case(
        "runs_as_another_user",
        &[Namespaces],
        runs_as_another_user,
    ));
    test_cases
}

/// A server of all dialects on free ports.
struct Serving {
    server: Server,
    ports: [u16; 4],
    directory: TempDir,
}

impl Serving {
    fn start(options: &str) -> Self {
        let directory = testkit::short_path_dir();
        let status = directory.path().join("status");
        let ports = [(); 4].map(|()| free_port());
        let [uperf, iperf, iperf3, udpmon] = ports;
        let server = Server::start_with(|netperf| {
            format!(
                "serve --log json --status {} --netperf-port {netperf} --uperf-port {uperf} --iperf-port {iperf} --iperf3-port {iperf3} --udpmon-port {udpmon} {options}",
                status.display()
            )
        });
        Self {
            server,
            ports,
            directory,
        }
    }

    /// Starts a client. `PORT` in the line stands for the port of its dialect.
    fn start_client(&self, line: &str) -> TestProcess {
        let [uperf, iperf, iperf3, udpmon] = self.ports;
        let port = match line.split(' ').next() {
            Some("uperf") => uperf,
            Some("iperf") => iperf,
            Some("iperf3") => iperf3,
            Some("udpmon_bw_mon") => udpmon,
            _ => self.server.port,
        };
        TestProcess::start(&mut linerate_with_args(
            &line.replace("PORT", &port.to_string()),
        ))
    }

    fn run_client(&self, line: &str) -> ProcessOutput {
        self.start_client(line).finish(TIMEOUT)
    }

    /// Waits until the log has `count` lines, and returns them.
    #[track_caller]
    fn log(&self, count: usize) -> Vec<Value> {
        let lines = || -> Vec<Value> {
            let lines = self.server.stdout();
            let lines = lines.lines().map(serde_json::from_str);
            lines.filter_map(Result::ok).collect()
        };
        let is_complete = wait_until(TIMEOUT, || lines().len() == count);
        assert!(is_complete, "expected {count} lines: {:#?}", lines());
        lines()
    }

    fn run_status(&self, options: &str) -> ProcessOutput {
        let path = self.directory.path().join("status");
        let line = format!("status --status {} {options}", path.display());
        run(linerate_with_args(&line), TIMEOUT).expect("the program ends")
    }

    /// Waits until `count` tests are running.
    #[track_caller]
    fn await_tests(&self, count: usize) {
        let are_running = wait_until(TIMEOUT, || self.running_tests().len() == count);
        assert!(are_running, "{}", self.server.stderr());
    }

    fn running_tests(&self) -> Vec<Value> {
        let status = self.run_status("--json").stdout;
        let document: Value = serde_json::from_str(&status).expect("a document");
        document["tests"].as_array().expect("a list").clone()
    }

    fn write_file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.directory.path().join(name);
        write_with_mode(&path, text, mode);
        path
    }
}

fn write_with_mode(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).expect("a writable directory");
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("the owner of the file");
}

/// Returns the reason for the end of a test in a log line.
fn end_reason(line: &Value) -> &str {
    line["end"].as_str().expect("a reason")
}

fn create_fifo(path: &Path) {
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).expect("a writable directory");
}

/// A server does not fall back to its default ports, or end without an error.
fn refuses_invalid_sockets_of_systemd() {
    let directory = testkit::short_path_dir();
    let start = |variables: &[(&str, &str)], socket: Option<OwnedFd>| {
        let status = directory.path().join("status");
        let mut command = linerate_with_args(&format!("serve --status {}", status.display()));
        command.envs(variables.iter().copied());
        let input = match socket {
            Some(socket) => {
                command.env("LISTEN_FDS_FIRST_FD", "0");
                socket.into()
            }
            None => Stdio::null(),
        };
        TestProcess::start_with_input(&mut command, input).finish(TIMEOUT)
    };
    let listening = || OwnedFd::from(std::net::TcpListener::bind("127.0.0.1:0").expect("a port"));
    let unbound =
        |kind| rustix::net::socket(AddressFamily::INET, kind, None).expect("the kernel has IPv4");
    let bound = || {
        let socket = unbound(SocketType::DGRAM);
        rustix::net::sockopt::set_socket_reuseport(&socket, true).expect("a new socket");
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        rustix::net::bind(&socket, &address).expect("a port");
        socket
    };
    let mut cases = vec![
        ("-1", "", None, "'-1' is not a number of sockets".to_owned()),
        (
            "2147483648",
            "",
            None,
            "is not a number of sockets".to_owned(),
        ),
        ("1x", "", None, "is not a number of sockets".to_owned()),
        (
            "1",
            "udpmon",
            Some(listening()),
            "udpmon is a TCP socket".to_owned(),
        ),
    ];
    for name in ["netperf", "uperf", "iperf", "iperf3", "udpmon"] {
        let [stream, datagrams] = [SocketType::STREAM, SocketType::DGRAM].map(unbound);
        cases.push((
            "1",
            name,
            Some(stream),
            "socket 0 does not listen".to_owned(),
        ));
        cases.push((
            "1",
            name,
            Some(datagrams),
            "socket 0 has no port".to_owned(),
        ));
        if !matches!(name, "iperf" | "udpmon") {
            cases.push(("1", name, Some(bound()), format!("{name} is a UDP socket")));
        }
    }
    for (count, name, socket, error) in cases {
        let variables = [("LISTEN_FDS", count), ("LISTEN_FDNAMES", name)];
        let server = start(&variables, socket);
        assert!(
            server.code == Some(1) && server.stderr.contains(&error),
            "{name} {error}: {server:#?}"
        );
    }
}

/// Also the sockets that iperf 2 and iperf3 open for datagrams have this address.
fn binds_one_address() {
    for (host, address, other) in [
        ("[::1]", "::1", "127.0.0.1"),
        ("::1", "::1", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1", "::1"),
    ] {
        let serving = Serving::start(&format!("--bind {host}"));
        let profile = PROFILE.replace("127.0.0.1", address);
        let profile = serving.write_file("profile.xml", &profile, 0o600);
        for client in [
            "netperf -p PORT -H HOST -t TCP_RR -l -1",
            "netperf -p PORT -H HOST -t UDP_RR -l -1",
            "iperf -c HOST -p PORT -n 1000",
            "iperf -c HOST -p PORT -n 1000 -u",
            "iperf3 -c HOST -p PORT -n 1000",
            "iperf3 -c HOST -p PORT -n 1000 -u",
            "udpmon_bw_mon -d HOST -u PORT -p 1000 -l 10 -w 100",
            &format!("uperf -m {} -P PORT", profile.display()),
        ] {
            let output = serving.run_client(&client.replace("HOST", address));
            assert_eq!(output.code, Some(0), "{host} {client}: {output:#?}");
        }
        let output = serving.run_client(&format!("iperf3 -c {other} -p PORT -n 1000"));
        assert_ne!(output.code, Some(0), "{host}: {output:#?}");
    }
}

fn requires_secrets() {
    let directory = testkit::short_path_dir();
    let file = directory.path().join("auth");
    let options = format!("--auth {}", file.display());
    write_with_mode(&file, "netperf-passphrase sesame\n", 0o640);
    let assert_refuses_to_start = |error: &str| {
        let command = linerate_with_args(&format!("serve {options}"));
        let server = run(command, TIMEOUT).expect("the server ends");
        assert!(
            server.code == Some(1) && server.stderr.contains(error),
            "{server:#?}"
        );
        server.stderr
    };
    assert_refuses_to_start("other users have access to this file");
    write_with_mode(&file, "iperf3-rsa-private-key /x\n", 0o600);
    assert_refuses_to_start("missing: iperf3-authorized-users");
    for line in [
        "netperf-passphrase\n",
        "Sesame open\n",
        "netperf-passphrase=Sesame\n",
    ] {
        write_with_mode(&file, &format!("# secrets\n{line}"), 0o600);
        let error = assert_refuses_to_start("line 2: ");
        assert!(!error.contains("Sesame"), "{error}");
    }
    for name in ["iperf-permit-key", "netperf-passphrase"] {
        let secret = "Sesame".repeat(200);
        write_with_mode(&file, &format!("{name} {secret}\n"), 0o600);
        let error = assert_refuses_to_start("");
        assert!(!error.contains("Sesame"), "{error}");
    }
    let [key, users] = ["key", "users"].map(|name| directory.path().join(name));
    write_with_mode(
        &file,
        &format!(
            "iperf3-rsa-private-key {}\niperf3-authorized-users {}\n",
            key.display(),
            users.display()
        ),
        0o600,
    );
    for (key_mode, users_mode) in [(0o644, 0o600), (0o600, 0o666)] {
        write_with_mode(&key, "secret\n", key_mode);
        write_with_mode(&users, "secret\n", users_mode);
        let error = assert_refuses_to_start("other users have access to this file");
        assert!(!error.contains("secret"), "{error}");
    }
    write_with_mode(
        &file,
        "netperf-passphrase s#esame\niperf-permit-key word\n",
        0o600,
    );
    let serving = Serving::start(&options);
    for (line, is_served) in [
        ("netperf -p PORT -H 127.0.0.1 -l -1 -Z s#esame", true),
        ("netperf -p PORT -H 127.0.0.1 -l -1 -Z s", false),
        ("iperf -c 127.0.0.1 -p PORT -n 1000", false),
        ("iperf -c 127.0.0.1 -p PORT -n 1000 -u", false),
        ("iperf -c 127.0.0.1 -p PORT -t 1 --bounceback", false),
        ("iperf -c 127.0.0.1 -p PORT -n 1000 --permit-key=word", true),
    ] {
        let complete_tests = || serving.server.stdout().matches("\"complete\"").count();
        let old_count = complete_tests();
        let client = serving.run_client(line);
        let is_logged = || complete_tests() > old_count;
        assert_eq!(
            is_served,
            is_served && wait_until(TIMEOUT, is_logged) || is_logged(),
            "{client:#?} {}",
            serving.server.stderr()
        );
    }
}

fn sigterm_ends_or_drains_tests() {
    const CLIENTS: [&str; 3] = [
        "netperf -p PORT -H 127.0.0.1 -t TCP_RR -l 3",
        "iperf3 -c 127.0.0.1 -p PORT -t 3",
        "iperf -c 127.0.0.1 -p PORT -u -t 3",
    ];
    for (options, is_drained) in [("", false), ("--drain-on-exit 20", true)] {
        let serving = Serving::start(options);
        let clients = CLIENTS.map(|line| serving.start_client(line));
        serving.await_tests(CLIENTS.len());
        let Serving { server, .. } = serving;
        server.signal(Signal::TERM);
        let output = server.wait(TIMEOUT);
        assert_eq!(output.code, Some(0));
        let log: Vec<Value> = (output.stdout.lines())
            .map(|line| serde_json::from_str(line).expect("a JSON line"))
            .collect();
        assert_eq!(log.len(), CLIENTS.len());
        let expected = if is_drained {
            "complete"
        } else {
            "the server was stopped"
        };
        for line in log {
            assert_eq!(end_reason(&line), expected, "{line:#}");
        }
        // The protocol of iperf 2 cannot report the end of the server.
        for client in clients.into_iter().take(2) {
            let client = client.finish(TIMEOUT);
            assert_eq!(client.code == Some(0), is_drained, "{client:#?}");
        }
    }
}

fn sigterm_ends_answers_to_repeated_datagrams() {
    let serving = Serving::start("");
    let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let server = ("127.0.0.1", serving.ports[1]);
    client.connect(server).expect("a local address");
    let send = |number| {
        let mut datagram = [0; 1000];
        let sent = WallTime::now();
        DatagramHeader { number, sent }.write(&mut datagram, true);
        let _ = client.send(&datagram);
    };
    [1, 2, -3].into_iter().for_each(send);
    client.receive(&mut [0; 2000]).expect("the server reports");
    let (end, ended) = mpsc::channel::<()>();
    let output = std::thread::scope(|scope| {
        let pause = Duration::from_millis(200);
        scope.spawn(move || {
            while ended.recv_timeout(pause) == Err(Timeout) {
                send(-3);
            }
        });
        serving.server.signal(Signal::TERM);
        let output = serving.server.wait(TIMEOUT);
        drop(end);
        output
    });
    assert_eq!(output.code, Some(0));
}

fn status_reports_running_tests() {
    let serving = Serving::start("");
    let idle = serving.run_status("");
    assert!(idle.stdout.ends_with(": 0 tests\n"), "{idle:#?}");
    let first = serving.start_client("netperf -p PORT -H 127.0.0.1 -l 30");
    let second = serving.start_client("iperf3 -c 127.0.0.1 -p PORT -t 30");
    serving.await_tests(2);
    let have_rates = wait_until(TIMEOUT, || {
        let tests = serving.running_tests();
        let rates = tests
            .iter()
            .filter(|test| test["bits_per_second"].as_f64() > Some(1e6));
        rates.count() == 2
    });
    assert!(have_rates, "{:#?}", serving.running_tests());
    assert!(
        serving
            .running_tests()
            .iter()
            .all(|test| test["overlapping_tests"] == 1)
    );
    let table = serving.run_status("").stdout;
    assert!(
        table.contains("TCP_STREAM") && table.contains("received"),
        "{table}"
    );
    drop((first, second));
    serving.await_tests(0);
    let other_test = &serving.log(2)[0]["overlapped_with"][0];
    let other_test = other_test.as_str().unwrap_or_default();
    assert!(other_test.contains(" 127.0.0.1:"), "{other_test}");
    let Serving {
        server, directory, ..
    } = serving;
    server.terminate().assert_success();
    assert!(!directory.path().join("status").exists());
}

/// A server replaces the status socket of an ended server, but nothing else.
fn replaces_only_stale_status_socket() {
    let start = |path: &Path| {
        let line = |port| {
            format!(
                "serve --only netperf --netperf-port {port} --status {}",
                path.display()
            )
        };
        Server::try_start_with(|port| linerate_with_args(&line(port)))
    };
    let directory = testkit::short_path_dir();
    let path = directory.path().join("status");
    let assert_refuses_to_start = |reason: &str| {
        let error = start(&path).expect_err("the server ends").to_string();
        assert!(error.contains(reason), "{error}");
    };
    let first = start(&path).expect("a server");
    let mode = std::fs::metadata(&path)
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0);
    assert_refuses_to_start("another server listens on it");
    first.signal(Signal::KILL);
    first.wait(TIMEOUT);
    assert!(path.exists());
    start(&path).expect("a server").terminate().assert_success();
    write_with_mode(&path, "a file", 0o600);
    assert_refuses_to_start("it is not a socket");
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).expect("the owner");
    assert_refuses_to_start("other users can write to its directory");
}

fn runs_as_another_user() {
    let serving = Serving::start("--user nobody");
    serving
        .run_client("iperf3 -c 127.0.0.1 -p PORT -n 1000")
        .assert_success();
    assert_runs_as_nobody(serving.server.pid());
    let [_, _, iperf3, _] = serving.ports;
    assert!(
        testkit::receives_datagrams(iperf3),
        "no UDP port for iperf3"
    );
    assert_eq!(serving.running_tests().len(), 0);
}
