//! Options of `linerate serve`: the log, limits, secrets, signals and the status.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::{self, RecvTimeoutError::Timeout};
use std::time::Duration;

use iperf::wire::flags::{self, upper};
use iperf::wire::{BounceMessage, DatagramHeader, Extension, Hello, HelloTransport, WallTime};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testkit::Requirement::Namespaces;
use testkit::{
    ProcessOutput, Server, TestCase, TestProcess, free_port, linerate_with_args, run, test_case,
    wait_until,
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
        logs_each_test,
        enforces_limits_per_address,
        address_in_excess_gets_no_new_test,
        limits_apply_until_the_last_direction_ends,
        log_has_the_time_of_all_directions,
        log_has_the_end_of_bounceback,
        sighup_reloads_limits,
        requires_secrets,
        log_has_a_rate,
        refuses_invalid_sockets_of_systemd,
        binds_one_address,
        sigterm_ends_or_drains_tests,
        sigterm_ends_answers_to_repeated_datagrams,
        status_reports_running_tests,
        replaces_only_stale_status_socket,
    ];
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

fn enforces_limits_per_address() {
    let serving = Serving::start("--max-tests 1 --max-seconds 60 --max-rate 100mbit");
    for (line, error) in [
        ("netperf -p PORT -H 127.0.0.1 -l 61", "quota"),
        (
            "iperf3 -c 127.0.0.1 -p PORT -t 61",
            "exceeds the server's maximum",
        ),
    ] {
        let refused = serving.run_client(line);
        assert!(refused.code != Some(0), "{refused:#?}");
        let output = refused.stderr + &refused.stdout;
        assert!(output.contains(error), "{output}");
    }
    let first = serving.start_client("iperf3 -c 127.0.0.1 -p PORT -b 20M -t 3");
    serving.await_tests(1);
    let second = serving.run_client("iperf3 -c 127.0.0.1 -p PORT -t 1");
    assert!(second.stderr.contains("server is busy"), "{second:#?}");
    first.finish(TIMEOUT).assert_success();
    let fast = serving.run_client("iperf3 -c 127.0.0.1 -p PORT -t 10");
    assert!(fast.code != Some(0), "{fast:#?}");
    let log = serving.log(2);
    assert_eq!(end_reason(&log[0]), "complete");
    assert_eq!(end_reason(&log[1]), "limit of 100000000 bit/s per address");
}

/// A client that has sent all its data can still request data of the server for long.
fn limits_apply_until_the_last_direction_ends() {
    let serving = Serving::start("--max-tests 1");
    let hello = Hello {
        flags: flags::VERSION2 | flags::EXTEND,
        extension: Some(Extension {
            upper: upper::FULL_DUPLEX,
            rate: 800_000,
            ..Extension::default()
        }),
        ..Hello::default()
    };
    let mut client = TcpStream::connect(("127.0.0.1", serving.ports[1])).expect("it listens");
    let hello = hello.encode(HelloTransport::Stream);
    client.write_all(&hello).expect("the server reads");
    client.shutdown(Shutdown::Write).expect("it is connected");
    // The server has seen the end of the client's data when it has sent for half a second.
    client
        .read_exact(&mut vec![0; 50_000])
        .expect("the server sends");
    assert_eq!(serving.running_tests().len(), 1);
    let refused = serving.run_client("iperf3 -c 127.0.0.1 -p PORT -n 1K");
    assert!(refused.stderr.contains("server is busy"), "{refused:#?}");
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

/// Short tests cannot exceed the limit together, in any dialect.
fn address_in_excess_gets_no_new_test() {
    let serving = Serving::start("--max-rate 10kbit");
    let profile = serving.write_file("p.xml", PROFILE, 0o600);
    let uperf = format!("uperf -P PORT -m {}", profile.display());
    // Even if the server ends this test early, it uses up the rate for more than 10 minutes.
    let first = serving.run_client("iperf3 -c 127.0.0.1 -p PORT -n 10M");
    let log = serving.log(1);
    assert!(
        log[0]["received_bytes"].as_u64() > Some(1_000_000),
        "{first:#?}"
    );
    for line in [
        "netperf -p PORT -H 127.0.0.1 -l -1000 -P 0",
        &uperf,
        "iperf -c 127.0.0.1 -p PORT -n 2000",
        "iperf -c 127.0.0.1 -p PORT -u -n 2000 -l 1000",
        "iperf -c 127.0.0.1 -p PORT --bounceback -t 1",
        "iperf3 -c 127.0.0.1 -p PORT -n 3000",
        "udpmon_bw_mon -d 127.0.0.1 -u PORT -p 1000 -l 10 -w 100",
    ] {
        let refusals = || serving.server.stderr().matches("; try again in ").count();
        let old_count = refusals();
        let client = serving.start_client(line);
        // uperf's slave sends the reason to its master only. UDPmon's requester retries for long.
        let is_refused = || client.stderr().contains("; try again in ") || refusals() > old_count;
        assert!(
            wait_until(TIMEOUT, is_refused),
            "{line}: {} {}",
            client.stderr(),
            serving.server.stderr()
        );
    }
    assert_eq!(serving.log(1).len(), 1);
}

fn sighup_reloads_limits() {
    let directory = testkit::short_path_dir();
    let file = directory.path().join("limits");
    write_with_mode(&file, "max-seconds 1\n", 0o644);
    let serving = Serving::start(&format!("--limits-file {}", file.display()));
    let client = "netperf -p PORT -H 127.0.0.1 -l 2";
    assert!(serving.run_client(client).code != Some(0));
    let reload = |text: &str, message: &str| {
        write_with_mode(&file, text, 0o644);
        serving.server.signal(Signal::HUP);
        let is_reported = wait_until(TIMEOUT, || serving.server.stderr().contains(message));
        assert!(is_reported, "{}", serving.server.stderr());
    };
    reload("max-second 9\n", "line 1: unknown option");
    reload("# rates\nmax-rate 10mbps\n", "line 2: max-rate: not a rate");
    reload("max-seconds 9x\n", "line 1: max-seconds: not a duration");
    std::fs::remove_file(&file).expect("a file");
    create_fifo(&file);
    serving.server.signal(Signal::HUP);
    let message = "it is not a regular file";
    let is_reported = wait_until(TIMEOUT, || serving.server.stderr().contains(message));
    assert!(is_reported, "{}", serving.server.stderr());
    std::fs::remove_file(&file).expect("a FIFO");
    assert!(serving.run_client(client).code != Some(0));
    reload("allow-peers 127.0.0.0/8\n", "limits were read again");
    serving.run_client(client).assert_success();
}

fn create_fifo(path: &Path) {
    let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).expect("a writable directory");
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
    client.recv(&mut [0; 2000]).expect("the server reports");
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
