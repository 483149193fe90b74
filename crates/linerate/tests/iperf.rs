//! iperf 2's client and server: the matrix with stock programs, and what it does not cover.

mod ends;
mod matrix;
mod pairs;

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use iperf::wire::{DatagramHeader, ServerReport, WallTime};
use testkit::{
    Receive, ReceiveFrom, Release, StockPeer, TestCase, TestProcess, free_port, is_listening,
    linerate_with_args, wait_until,
};

/// The time that a program may take beyond its test.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The versions of stock iperf 2.
pub(crate) const STOCK_VERSIONS: [StockPeer; 2] = [
    StockPeer {
        program: "iperf",
        release: Release::Debian12,
        version: "2.1.8",
    },
    StockPeer {
        program: "iperf",
        release: Release::Debian13,
        version: "2.2.1",
    },
];

const NEWEST: StockPeer = STOCK_VERSIONS[1];

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = matrix::test_cases();
    test_cases.extend(ends::test_cases());
    test_cases.extend(pairs::test_cases());
    test_cases.extend(testkit::test_cases![
        fails_if_the_connection_is_refused,
        retries_connect_calls,
        selects_stock_versions,
        sends_exactly_the_requested_bytes,
        fails_if_the_server_is_silent,
        fails_if_the_server_dies,
        server_generates_a_key_and_ends_without_a_client,
        refuses_tests_without_a_field_for_the_key,
        server_uses_loaded_congestion_controls_only,
        server_limits_the_wait_for_a_header,
        server_prints_dates_in_utc,
        server_uses_the_numbers_of_clients,
        prints_a_json_document,
        serves_an_old_tcp_client_without_an_answer,
        runs_the_reverse_test_of_an_old_tcp_client,
        sends_old_udp_clients_reports_in_their_format,
        reads_the_report_of_an_old_udp_server,
        ends_a_reverse_udp_test_if_the_port_is_closed,
        reports_a_flow_from_its_first_datagram,
        increments_addresses_and_ports_per_flow,
        reports_flow_without_a_port,
        server_runs_in_real_time,
    ]);
    test_cases
}

fn ours(arguments: &str) -> Command {
    linerate_with_args(&format!("iperf {arguments}"))
}

/// Returns whether a datagram socket has this port.
pub(crate) fn is_bound_to_udp(port: u16) -> bool {
    let wanted = format!(":{port:04X} ");
    let has = |table: &str| fs::read_to_string(table).is_ok_and(|table| table.contains(&wanted));
    has("/proc/thread-self/net/udp") || has("/proc/thread-self/net/udp6")
}

fn fails_if_the_connection_is_refused() {
    let port = free_port();
    let client = ours(&format!("-c 127.0.0.1 -p {port} -t 1"));
    let done = testkit::run(client, TIMEOUT).unwrap();
    assert_eq!(done.code, Some(1), "{done:#?}");
    let reason =
        format!("[  1] tcp connect to 127.0.0.1 port {port} failed (Connection refused) on ");
    assert!(done.stderr.starts_with(&reason), "{done:#?}");
}

/// The server begins to listen after the first attempt.
fn retries_connect_calls() {
    let port = free_port();
    let line = format!("-c 127.0.0.1 -p {port} -n 1000 -l 1000 --connect-retry-time");
    let refused = |output: &str| output.matches("failed (Connection refused) on ").count();
    let client = TestProcess::start(&mut ours(&format!("{line} 30 --connect-retry-timer 0.1")));
    assert!(wait_until(TIMEOUT, || refused(&client.stderr()) >= 2));
    let _server_process = TestProcess::start(&mut ours(&format!("-s -p {port}")));
    client.finish(TIMEOUT).assert_success();
    let unused = free_port();
    let line = line.replace(&port.to_string(), &unused.to_string());
    let done = testkit::run(ours(&format!("{line} 1")), TIMEOUT).unwrap();
    assert_eq!(done.code, Some(1), "{done:#?}");
    let first = "WARN: companion option of --connect-retry-timer not set - setting to default value of one second\n";
    assert!(done.stderr.starts_with(first), "{done:#?}");
    assert!(refused(&done.stderr) >= 2, "{done:#?}");
    let expired = "[  1] tcp connect attempt timer expired on ";
    assert!(done.stderr.contains(expired), "{done:#?}");
}

fn selects_stock_versions() {
    let version_of = |line: &str, variable: &str| {
        let mut command = ours(line);
        command.env("LINERATE_STOCK_VERSION", variable);
        let done = testkit::run(command, TIMEOUT).unwrap();
        done.stdout + &done.stderr
    };
    let (older, newest) = ("iperf version 2.1.8 ", "iperf version 2.2.1 ");
    for (line, variable, expected) in [
        ("-v", "", newest),
        ("--stock-version 2.1.8 -v", "", older),
        ("-v", "iperf=2.1.8,iperf3=3.12", older),
        ("--stock-version=2.2.1 -v", "iperf=2.1.8", newest),
        (
            "--stock-version 2.3",
            "",
            "iperf: --stock-version 2.3: '2.3' is not a known version of iperf; known are 2.1.8, 2.2.1\n",
        ),
    ] {
        let printed = version_of(line, variable);
        assert!(
            printed.starts_with(expected),
            "{line} {variable}: {printed}"
        );
    }
}

/// Stock never stops if the count is less than its header.
fn sends_exactly_the_requested_bytes() {
    let port = free_port();
    let _server = TestProcess::start(&mut ours(&format!("-s -p {port}")));
    assert!(wait_until(TIMEOUT, || is_listening(port)));
    for (options, bytes) in [
        ("-n 100K", "102400"),
        ("-n 100K -l 8K", "102400"),
        ("-n 256K -P 2", "262144"),
        ("-n 100K -R", "102400"),
        ("-n 10", "60"),
    ] {
        let line = format!("-c 127.0.0.1 -p {port} -y C {options}");
        let done = testkit::run(ours(&line), TIMEOUT).unwrap();
        let moved = done
            .stdout
            .lines()
            .next()
            .and_then(|line| line.split(',').nth(7));
        assert_eq!(moved, Some(bytes), "{options}: {done:#?}");
    }
}

fn fails_if_the_server_is_silent() {
    let silent_server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent_server.local_addr().unwrap().port();
    let client = ours(&format!("-c 127.0.0.1 -p {port} -t 1 -X"));
    let done = testkit::run(client, TIMEOUT).unwrap();
    assert_eq!(done.code, Some(1), "{done:#?}");
    assert!(
        done.stderr.contains("no acknowledgement within 4 s"),
        "{done:#?}"
    );
}

fn fails_if_the_server_dies() {
    let port = free_port();
    let server_process = TestProcess::start(&mut ours(&format!("-s -p {port}")));
    assert!(wait_until(TIMEOUT, || is_listening(port)));
    let line = format!("-c 127.0.0.1 -p {port} -t 30 -b 8m -l 10000 -i 0.1");
    let client = TestProcess::start(&mut ours(&line));
    assert!(wait_until(TIMEOUT, || client.stdout().contains("/sec")));
    drop(server_process);
    let done = client.finish(TIMEOUT);
    assert_eq!(done.code, Some(1), "{done:#?}");
    assert!(done.stderr.contains("write failed: "), "{done:#?}");
    assert!(done.stdout.contains("[  1] 0.0000-"), "{done:#?}");
}

fn server_generates_a_key_and_ends_without_a_client() {
    let port = free_port();
    let line = format!("-s -p {port} --permit-key --permit-key-timeout 0.3");
    let done = testkit::run(ours(&line), TIMEOUT).unwrap();
    done.assert_success();
    let keys = done
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("Permit key is '"));
    let keys: Vec<_> = keys.filter_map(|rest| rest.split('\'').next()).collect();
    assert!(matches!(keys[..], [key] if key.len() > 20), "{done:#?}");
}

/// The messages of bounceback tests, streams without a header and empty connections have no field
/// for a key. The server refuses them, and does not print its key as theirs.
fn refuses_tests_without_a_field_for_the_key() {
    let (server_process, port) = start_server("--permit-key=abcd");
    let refusals = || server_process.stdout().matches("(permit key fail)").count();
    for options in ["--bounceback", "--bounceback --permit-key=abcd", "-C"] {
        let count_before = refusals();
        let line = format!("-c 127.0.0.1 -p {port} -t 1 {options}");
        let client = testkit::run(ours(&line), TIMEOUT).unwrap();
        assert_eq!(client.code, Some(1), "{client:#?}");
        let is_refused = || refusals() == count_before + 1;
        assert!(
            wait_until(TIMEOUT, is_refused),
            "{}",
            server_process.stdout()
        );
    }
    drop(TcpStream::connect(("127.0.0.1", port)).unwrap());
    let is_reported = || server_process.stdout().contains("(null)");
    assert!(
        wait_until(TIMEOUT, is_reported),
        "{}",
        server_process.stdout()
    );
    assert!(
        !server_process.stdout().contains("[abcd("),
        "{}",
        server_process.stdout()
    );
}

/// A client's request must not load a module of the kernel.
fn server_uses_loaded_congestion_controls_only() {
    let (server_process, port) = start_server("-e");
    let run_client = |name: &str| {
        let line = format!("-c 127.0.0.1 -p {port} -n 1000 -l 1000 -Z {name}");
        testkit::run(ours(&line), TIMEOUT).unwrap().assert_success();
    };
    run_client("reno");
    let is_used = || server_process.stdout().contains("(reno)");
    assert!(wait_until(TIMEOUT, is_used), "{}", server_process.stdout());
    run_client("nonesuch");
    let is_refused = || {
        let stderr = server_process.stderr();
        stderr.contains("does not have the client's congestion control 'nonesuch'")
    };
    assert!(
        wait_until(TIMEOUT, is_refused),
        "{}",
        server_process.stderr()
    );
    assert!(!server_process.stdout().contains("(nonesuch)"));
}

/// The default is longer than the timeout of this test.
fn server_limits_the_wait_for_a_header() {
    let (_server_process, port) = start_server("--test-exchange-timeout 0.3");
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(client.read(&mut [0; 10]).unwrap_or(0), 0);
}

/// The second client's flow is number 2 of the server.
fn server_uses_the_numbers_of_clients() {
    let (server_process, port) = start_server("");
    for _ in 0..2 {
        let line = format!("-c 127.0.0.1 -p {port} -n 1000 -l 1000 --sync-transfer-id");
        testkit::run(ours(&line), TIMEOUT).unwrap().assert_success();
    }
    let has_remapped = || {
        let output = server_process.stdout();
        let reported = output.split_once("[  2] Transfer ID 2 remapped to 1\n");
        reported.is_some_and(|(_, rest)| rest.contains("[  1] 0.0000-"))
    };
    assert!(
        wait_until(TIMEOUT, has_remapped),
        "{}",
        server_process.stdout()
    );
}

fn server_prints_dates_in_utc() {
    let (server_process, port) = start_server("-e --utc");
    let line = format!("-c 127.0.0.1 -p {port} -n 1000 -l 1000");
    testkit::run(ours(&line), TIMEOUT).unwrap().assert_success();
    let has_zone = || server_process.stdout().contains(" (GMT)\n");
    assert!(wait_until(TIMEOUT, has_zone), "{}", server_process.stdout());
}

fn prints_a_json_document() {
    let port = free_port();
    let server_process = TestProcess::start(&mut ours(&format!("-s -p {port}")));
    assert!(wait_until(TIMEOUT, || is_listening(port)));
    let line = format!("-c 127.0.0.1 -p {port} -n 100K --json");
    let done = TestProcess::start(&mut ours(&line)).finish(TIMEOUT);
    done.assert_success();
    let document: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert!(document["tests"].is_array(), "{document}");
    drop(server_process);
}

/// Returns the header of iperf 2.0.5 and older: flags, flows, port, length, window, and time in
/// hundredths of a second.
fn old_header(flags: u32, port: u16) -> Vec<u8> {
    let words = [flags, 1, port.into(), 0, 0, (-30_i32).cast_unsigned()];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Returns a datagram of iperf 1.7 and 2.0.5. Its number has 32 bits, and the header follows the
/// time stamp directly.
fn old_datagram(number: i32, header: &[u8]) -> Vec<u8> {
    let mut datagram = number.to_be_bytes().to_vec();
    datagram.extend([0; 8]);
    datagram.extend(header);
    datagram.resize(300, b'7');
    datagram
}

/// Starts a server of ours, and waits until it listens.
fn start_server(options: &str) -> (TestProcess, u16) {
    let port = free_port();
    let server_process = TestProcess::start(&mut ours(&format!("-s -p {port} {options}")));
    let listens = || is_listening(port) || is_bound_to_udp(port);
    assert!(wait_until(TIMEOUT, listens), "{}", server_process.stderr());
    (server_process, port)
}

fn serves_an_old_tcp_client_without_an_answer() {
    let (server_process, port) = start_server("");
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    client.write_all(&old_header(0, port)).unwrap();
    client.write_all(&[b'5'; 1000]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"");
    let reported = || server_process.stdout().contains("sec  1.00 KBytes");
    assert!(wait_until(TIMEOUT, reported), "{}", server_process.stdout());
}

fn runs_the_reverse_test_of_an_old_tcp_client() {
    let (_server_process, port) = start_server("");
    let back = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let header = old_header(0x8000_0001, back.local_addr().unwrap().port());
    client.write_all(&header).unwrap();
    let (mut data, _) = back.accept().unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    data.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut received = Vec::new();
    data.read_to_end(&mut received).unwrap();
    assert!(received.starts_with(b"0123456789"));
    drop(data);
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"");
}

/// Clients of iperf 2 number datagrams from 1, and those of 1.7 from 0.
fn sends_old_udp_clients_reports_in_their_format() {
    let (_server_process, port) = start_server("-u");
    for first in [0, 1] {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(("127.0.0.1", port)).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        let header = old_header(0, port);
        for number in first..10 {
            client.send(&old_datagram(number, &header)).unwrap();
        }
        client.send(&old_datagram(-10, &header)).unwrap();
        let mut answer = [0; 400];
        let length = client.receive(&mut answer).unwrap();
        let word = |at: usize| u32::from_be_bytes(answer[at..at + 4].try_into().unwrap());
        let count = u32::try_from(11 - first).unwrap();
        assert_eq!((length, word(12)), (300, 0x8000_0000));
        // Bytes; lost, out of order, total.
        assert_eq!(
            (word(20), [word(32), word(36), word(40)]),
            (count * 300, [0, 0, count])
        );
    }
}

fn reads_the_report_of_an_old_udp_server() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(TIMEOUT)).unwrap();
    let port = server.local_addr().unwrap().port();
    let line = format!("-c 127.0.0.1 -p {port} -u -n 3000 -l 300 -b 1m");
    let client = TestProcess::start(&mut ours(&line));
    let mut datagram = [0; 400];
    let mut bytes = 0_u32;
    let from = loop {
        let (length, from) = server.receive_from(&mut datagram).unwrap();
        bytes += u32::try_from(length).unwrap();
        if datagram[0] & 0x80 != 0 {
            break from;
        }
    };
    let words = [0x8000_0000, 0, bytes, 1, 500_000, 0, 0, 11, 0, 9000];
    for (word, place) in words.iter().zip(datagram[12..].chunks_mut(4)) {
        place.copy_from_slice(&u32::to_be_bytes(*word));
    }
    server.send_to(&datagram[..300], from).unwrap();
    let done = client.finish(TIMEOUT);
    let tail = done
        .stdout
        .split("Server Report:")
        .nth(1)
        .unwrap_or_default();
    assert!(tail.contains("0.0000-1.5000 sec  3.22 KBytes"), "{done:#?}");
    assert!(tail.contains("9.000 ms 0/11 (0%)"), "{done:#?}");
}

/// The source address of a datagram can be forged. So the test that it requests ends when its host
/// reports that the port is closed.
fn ends_a_reverse_udp_test_if_the_port_is_closed() {
    let (server_process, port) = start_server("-u");
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(("127.0.0.1", port)).unwrap();
    client.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut request = vec![0; 16];
    request[3] = 1;
    // -R for an hour: the ordinary header with its extension.
    let words = [
        0x6c01_0098,
        1,
        port.into(),
        0,
        0,
        (-360_000_i32).cast_unsigned(),
        0,
        0,
        0x0400_0000,
        0x0002_0001,
        0x0008_0003,
        0,
        1_000_000,
        0,
        0,
    ];
    request.extend(words.iter().flat_map(|word: &u32| word.to_be_bytes()));
    request.resize(1470, 0);
    // A flow begins with its second datagram.
    for _ in 0..2 {
        client.send(&request).unwrap();
    }
    assert!(client.receive(&mut [0; 2000]).unwrap() > 0);
    drop(client);
    let ended = || server_process.stdout().contains("/sec");
    assert!(wait_until(TIMEOUT, ended), "{}", server_process.stdout());
    assert!(
        server_process.stderr().contains("Connection refused"),
        "{}",
        server_process.stderr()
    );
}

/// The numbers before the first one are lost, and the time begins with the first datagram, not with
/// the second one, which begins the flow.
fn reports_a_flow_from_its_first_datagram() {
    let (_server_process, port) = start_server("-u");
    let report = || {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(("127.0.0.1", port)).unwrap();
        client.set_read_timeout(Some(TIMEOUT)).unwrap();
        for number in [4000, 4001, -4002] {
            let mut datagram = [b'0'; 1000];
            let sent = WallTime::now();
            DatagramHeader { number, sent }.write(&mut datagram, false);
            client.send(&datagram).unwrap();
            if number == 4000 {
                std::thread::sleep(Duration::from_millis(300));
            }
        }
        let mut answer = [0; 2000];
        let length = client.receive(&mut answer).unwrap();
        ServerReport::decode(&answer[..length]).unwrap()
    };
    // On a busy host, the server may read the first datagram late.
    let has_whole_time = || {
        let report = report();
        assert_eq!((report.lost, report.datagrams), (3999, 4002), "{report:?}");
        report.elapsed > Duration::from_millis(200)
    };
    assert!(wait_until(TIMEOUT, has_whole_time));
}

/// Returns a free port whose successor is free, too.
fn free_port_pair() -> u16 {
    let mut ports = std::iter::repeat_with(free_port);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", port + 1)).is_ok();
    ports.find(is_free).unwrap()
}

fn increments_addresses_and_ports_per_flow() {
    let (port, local) = (free_port_pair(), free_port_pair());
    let serve = format!("-s -p {port}-{}", port + 1);
    let _server_process = TestProcess::start(&mut ours(&serve));
    assert!(wait_until(TIMEOUT, || is_listening(port) && is_listening(port + 1)));
    for (options, first_flow, second_flow) in [
        (
            "--incr-dstip --incr-srcip -B 127.0.0.5".to_owned(),
            [
                "local 127.0.0.5 ".to_owned(),
                format!("with 127.0.0.1 port {port}"),
            ],
            [
                "local 127.0.0.6 ".to_owned(),
                format!("with 127.0.0.2 port {port}"),
            ],
        ),
        (
            format!("--incr-dstport --incr-srcport -B 127.0.0.1:{local}"),
            [
                format!("port {local} "),
                format!("with 127.0.0.1 port {port}"),
            ],
            [
                format!("port {} ", local + 1),
                format!("with 127.0.0.1 port {}", port + 1),
            ],
        ),
    ] {
        let line = format!("-c 127.0.0.1 -p {port} -P 2 -n 20000 -l 1000 {options}");
        let done = testkit::run(ours(&line), TIMEOUT).unwrap();
        done.assert_success();
        for parts in [first_flow, second_flow] {
            let has_all = |line: &str| parts.iter().all(|part| line.contains(part.as_str()));
            assert!(done.stdout.lines().any(has_all), "{parts:?} {done:#?}");
        }
    }
}

/// The flow without a port is reported. The other one runs.
fn reports_flow_without_a_port() {
    let server = TestProcess::start(&mut ours("-s -p 65535"));
    assert!(wait_until(TIMEOUT, || is_listening(u16::MAX)));
    let line = "-c 127.0.0.1 -p 65535 -P 2 --incr-dstport -n 1000 -l 1000";
    let done = testkit::run(ours(line), TIMEOUT).unwrap();
    assert_eq!(done.code, Some(1), "{done:#?}");
    assert_eq!(done.stderr, "65536 is not a port\n", "{done:#?}");
    assert!(done.stdout.contains("1000 Bytes"), "{done:#?}");
    drop(server);
}

/// The 41st field of proc_pid_stat(5) is the policy; 2 is SCHED_RR.
fn server_runs_in_real_time() {
    let (server_process, _) = start_server("-z");
    let stat = fs::read_to_string(format!("/proc/{}/stat", server_process.pid())).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    assert_eq!(fields.split(' ').nth(38), Some("2"), "{stat}");
}
