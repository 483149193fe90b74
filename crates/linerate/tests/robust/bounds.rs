//! Limits: one client leaves resources for others, and no request uses resources without a limit.

use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::{Duration, Instant};

use netperf::wire::{Classic, Request, TestRequest};
use testkit::TestCase;

use super::raw::{RawClient, TestKind};
use testkit::{
    Receive, Server, TestProcess, free_port, linerate_with_args, wait_until, with_prefix,
};

/// Timeout of an action that needs no wait.
const SHORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of an action that takes about 1 s on an idle machine.
const LONG_TIMEOUT: Duration = Duration::from_secs(60);

/// errno(3).
const ENOMEM: i32 = 12;

/// Addresses of two clients. The loopback interface has all of 127.0.0.0/8.
const FIRST: Ipv4Addr = Ipv4Addr::LOCALHOST;
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![
        limits_sessions_per_address,
        refuses_clients_of_other_networks,
        limits_memory_per_address,
        serves_200_flows_of_one_address,
        delays_wrong_passphrases,
        reads_passphrase_from_file,
        limits_spinning,
        limits_log_lines,
        limits_errors_of_other_servers,
        writes_log_line_in_one_call,
    ];
    with_prefix("bounds", test_cases).collect()
}

fn connect_control_from(source: Ipv4Addr, port: u16) -> RawClient {
    RawClient::connect_from(source, (FIRST, port).into())
}

fn is_served(raw: &mut RawClient) -> bool {
    let is_sent = raw.control.write_all(&Request::SysInfo.encode(None));
    is_sent.is_ok() && raw.is_answered()
}

/// `--max-clients`: one address gets 15/16 of the sessions.
fn limits_sessions_per_address() {
    let server = Server::start("--max-clients 32");
    let mut first: Vec<RawClient> = (0..30)
        .map(|_| connect_control_from(FIRST, server.port))
        .collect();
    assert!(first.iter_mut().all(is_served));
    assert!(!is_served(&mut connect_control_from(FIRST, server.port)));
    // The connection may close before the server writes its log.
    let is_logged = || {
        let log = server.log();
        log.contains("127.0.0.1") && log.contains("its share of the maximum of 32")
    };
    assert!(wait_until(LONG_TIMEOUT, is_logged), "{}", server.log());

    let line = format!(
        "netperf -H 127.0.0.1 -p {} -L 127.0.0.2 -t TCP_RR -l -10",
        server.port
    );
    TestProcess::start(&mut linerate_with_args(&line))
        .finish(SHORT_TIMEOUT)
        .assert_success();
    // The server may not have released the session of the ended client yet.
    let mut second = Vec::new();
    let has_two = wait_until(SHORT_TIMEOUT, || {
        let mut raw = connect_control_from(SECOND, server.port);
        if is_served(&mut raw) {
            second.push(raw);
        }
        second.len() == 2
    });
    assert!(has_two, "{}", server.log());
    assert!(
        !is_served(&mut connect_control_from(SECOND, server.port)),
        "the server serves a 33rd client"
    );
    drop(first);
    let is_released = wait_until(SHORT_TIMEOUT, || {
        is_served(&mut connect_control_from(FIRST, server.port))
    });
    assert!(
        is_released,
        "the server does not release sessions: {}",
        server.log()
    );
}

/// `--allow-peers`: the server closes connections from other networks.
fn refuses_clients_of_other_networks() {
    let server = Server::start("--allow-peers 127.0.0.2/32 --allow-peers 192.0.2.0/24");
    assert!(!is_served(&mut connect_control_from(FIRST, server.port)));
    let refusal = "refused a client: its address is not in a network of --allow-peers";
    let is_logged = wait_until(SHORT_TIMEOUT, || server.log().contains(refusal));
    assert!(is_logged, "{}", server.log());
    assert!(is_served(&mut connect_control_from(SECOND, server.port)));
}

/// `--max-memory`: one address gets 15/16 of the memory for buffers. Classic datagram tests count
/// too.
fn limits_memory_per_address() {
    let server = Server::start("--max-buffer 16M --max-memory 16M");
    let request = |megabytes: u32| {
        Request::Omni(TestRequest {
            receive_size: 1 << 20,
            receive_width: megabytes,
            ..TestKind::TcpStream.request(10)
        })
    };
    let mut first = connect_control_from(FIRST, server.port);
    // Each buffer also has some bytes for its alignment.
    first.send(&request(14));
    assert!(first.receive_refusal().is_err(), "{}", server.log());
    assert_eq!(
        connect_control_from(FIRST, server.port).expect_refusal(&request(1)),
        ENOMEM
    );
    let is_logged = || server.log().contains("left for one address");
    assert!(wait_until(LONG_TIMEOUT, is_logged), "{}", server.log());
    let mut second = connect_control_from(SECOND, server.port);
    second.send(&request(1));
    assert!(second.receive_refusal().is_err(), "{}", server.log());

    let server = Server::start("--max-memory 64K");
    let datagrams = Request::Classic(
        Classic::UdpStream,
        TestRequest {
            receive_size: 65_000,
            test_length: 1,
            ..TestRequest::classic()
        },
    );
    assert_eq!(
        RawClient::connect(server.port).expect_refusal(&datagrams),
        ENOMEM
    );
}

/// The limits per address leave room for a large test of one user.
fn serves_200_flows_of_one_address() {
    let server = Server::start("");
    let line = format!(
        "super_netperf 200 -H 127.0.0.1 -p {} -t TCP_RR -l 1",
        server.port
    );
    let client = TestProcess::start(&mut linerate_with_args(&line)).finish(Duration::from_secs(60));
    client.assert_success();
    assert!(client.figures()[0] > 200.0, "{client:#?}");
}

/// Each wrong passphrase increases the delay of its address. Delays use a limited number of threads
/// and do not affect other addresses.
fn delays_wrong_passphrases() {
    let server = Server::start("-Z secret");
    let idle_usage = server.usage();
    let wrong = Request::Passphrase(b"guessed".to_vec());
    let start = Instant::now();
    for _ in 0..4 {
        let mut raw = connect_control_from(FIRST, server.port);
        raw.send(&wrong);
        raw.time_until_closed(LONG_TIMEOUT)
            .expect("the server closes the connection");
    }
    // The first three delays are 0.25, 0.5 and 1 s.
    assert!(
        start.elapsed() > Duration::from_millis(1700),
        "{:?}",
        start.elapsed()
    );

    let mut guesses: Vec<RawClient> = (0..500)
        .map(|_| connect_control_from(FIRST, server.port))
        .collect();
    for guess in &mut guesses {
        let _ = guess.control.write_all(&wrong.encode(None));
    }
    let refusal = "too many wrong passphrases from this address";
    let is_refused = wait_until(SHORT_TIMEOUT, || server.stderr().contains(refusal));
    assert!(is_refused, "{}", server.stderr());
    let has_few_threads = wait_until(SHORT_TIMEOUT, || {
        server.usage().threads <= idle_usage.threads + 40
    });
    assert!(has_few_threads, "{:?} from {idle_usage:?}", server.usage());
    // The server would refuse this client if both addresses shared one limit.
    let mut second_client = connect_control_from(SECOND, server.port);
    second_client.send(&Request::Passphrase(b"secret".to_vec()));
    assert!(is_served(&mut second_client), "{}", server.log());
}

/// A passphrase in a file does not appear in the command lines that ps(1) prints.
fn reads_passphrase_from_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let [right, wrong] = ["right", "wrong"].map(|name| directory.path().join(name));
    std::fs::write(&right, "sesame\n").expect("the directory is writable");
    std::fs::write(&wrong, "barley\n").expect("the directory is writable");
    let set_mode = |file, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(file, mode).expect("a file of this user");
    };
    set_mode(&wrong, 0o600);
    set_mode(&right, 0o640);
    let in_file = |file: &std::path::Path| format!("@{}", file.display());
    let line = format!("netserver -D -p 0 -Z {}", in_file(&right));
    let refused = TestProcess::start(&mut linerate_with_args(&line)).finish(SHORT_TIMEOUT);
    assert!(
        refused.code == Some(1) && refused.stderr.contains("other users"),
        "{refused:#?}"
    );
    set_mode(&right, 0o600);
    let server = Server::start(&format!("-Z {}", in_file(&right)));
    for (passphrase, code) in [
        (in_file(&right), 0),
        ("sesame".to_owned(), 0),
        (in_file(&wrong), 1),
    ] {
        let line = format!(
            "netperf -H 127.0.0.1 -p {} -Z {passphrase} -t TCP_RR -l -10",
            server.port
        );
        let client = TestProcess::start(&mut linerate_with_args(&line)).finish(SHORT_TIMEOUT);
        assert_eq!(client.code, Some(code), "{client:#?}");
    }
}

/// If a client requests spinning, the server still sleeps for half of a short interval and for most
/// of a long one.
fn limits_spinning() {
    for (options, interval, max_ticks) in [
        ("", "1m", 100),
        ("", "1000s", 100),
        ("--allow-spin", "1m", 220),
        ("--allow-spin", "1000s", 100),
    ] {
        let server = Server::start(options);
        let line = format!(
            "netperf -H 127.0.0.1 -p {} -t TCP_MAERTS -b ,1 -w ,{interval} --spin=remote -l 3 -- -m 100",
            server.port
        );
        let before = cpu_ticks(server.pid());
        TestProcess::start(&mut linerate_with_args(&line))
            .finish(SHORT_TIMEOUT * 4)
            .assert_success();
        let used = cpu_ticks(server.pid()) - before;
        assert!(
            used < max_ticks,
            "{options} {interval}: {used} of 300 ticks"
        );
    }
}

/// Returns the CPU time of a process in clock ticks of 10 ms.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process runs");
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let fields = fields.split_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// With `-d`, which [`Server::start`] sets, the server logs each refusal, at most 1,000 lines per
/// 10 s.
fn limits_log_lines() {
    let server = Server::start("");
    let invalid_request = Request::Omni(TestRequest {
        protocol: 999,
        ..TestKind::TcpRr.request(1)
    });
    let mut raw = RawClient::connect(server.port);
    let start = Instant::now();
    for _ in 0..3000 {
        raw.expect_refusal(&invalid_request);
    }
    let periods = start.elapsed().as_secs() as usize / 10 + 2;
    let lines = server.stderr().lines().count();
    // Other lines report the server's start and the number of omitted lines.
    let max_lines = periods * 1000 + 100;
    assert!(
        (1000..=max_lines).contains(&lines),
        "{lines} of {max_lines} lines"
    );
}

/// Invalid clients of `iperf -s` and `iperf3 -s` cause at most 100 lines of errors per 10 s.
fn limits_errors_of_other_servers() {
    for program in ["iperf", "iperf3"] {
        let server = Server::start_with(|port| format!("{program} -s -p {port}"));
        let start = Instant::now();
        for _ in 0..1000 {
            let mut client = TcpStream::connect((FIRST, server.port)).expect("the server listens");
            client.write_all(b"\x80\0\0\0").expect("loopback");
        }
        let line_count = || server.stderr().lines().count();
        let has_lines = || line_count() >= 100;
        assert!(wait_until(LONG_TIMEOUT, has_lines), "{}", server.stderr());
        let has_ended = || server.usage().threads < 10;
        assert!(wait_until(LONG_TIMEOUT, has_ended), "{:?}", server.usage());
        // Other lines report the number of omitted lines.
        let periods = start.elapsed().as_secs() as usize / 10 + 2;
        assert!(line_count() <= periods * 101, "{program}: {}", line_count());
    }
}

/// The server writes a log line with one call. A datagram socket preserves the boundaries of calls.
fn writes_log_line_in_one_call() {
    let (receiver, log) = UnixDatagram::pair().expect("a socket pair");
    receiver
        .set_read_timeout(Some(LONG_TIMEOUT))
        .expect("the timeout is not zero");
    let port = free_port();
    let line = format!("netserver -D -p {port} --allow-peers 192.0.2.0/24");
    let mut server = linerate_with_args(&line)
        .stdout(Stdio::null())
        .stderr(OwnedFd::from(log))
        .spawn()
        .expect("the server starts");
    let is_connected = wait_until(SHORT_TIMEOUT, || TcpStream::connect((FIRST, port)).is_ok());
    let mut written = [0; 1024];
    let length = receiver.receive(&mut written).unwrap_or_default();
    server.kill().expect("the server is a child process");
    server.wait().expect("the server is a child process");
    let written = String::from_utf8_lossy(&written[..length]);
    assert!(
        is_connected && written.ends_with("of --allow-peers\n"),
        "{written:?}"
    );
}
