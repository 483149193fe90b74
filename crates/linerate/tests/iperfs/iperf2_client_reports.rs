//! iperf 2 clients whose server disconnects or stops in any phase of a test. The client reports
//! that in one line within its deadline, and fails.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::Requirement::Program;
use testkit::{
    ProcessOutput, ReceiveFrom, TestCase, TestProcess, free_port, run_in_parallel, test_cases,
    wait_until, without_pace_warnings,
};

use super::iperf2_lost_clients::{CLIENTS, DEADLINE, start_server_for};
use super::{CommandBuilder, SHORT_TIMEOUT, our_iperf2, stock_iperf2};

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = test_cases![
        client_reports_server_that_disconnects,
        client_reports_silent_server,
        client_reports_reset_of_reverse_connection,
        udp_client_reports_silent_server,
        udp_client_ends_without_final_datagram,
    ];
    test_cases.extend(test_cases![
        needing &[Program("iperf")];
        client_reports_killed_and_stopped_servers,
    ]);
    test_cases
        .into_iter()
        .map(TestCase::allow_many_at_once)
        .collect()
}

/// Fails the test unless the client reports one error. `context` contains its options.
#[track_caller]
fn assert_reports_error(client: &ProcessOutput, context: &str) {
    assert_eq!(client.code, Some(1), "{context}: {client:#?}");
    // Both directions of a connection may report an error.
    let is_full_duplex = context.contains("--full-duplex");
    let max_lines = if is_full_duplex { 2 } else { 1 };
    let lines = without_pace_warnings(&client.stderr).lines().count();
    assert!((1..=max_lines).contains(&lines), "{context}: {client:#?}");
}

/// Runs a client of a scripted server that reads `read_bytes` of a connection and sends `reply`.
/// The server then closes the connection if `disconnects`, or keeps it until the client ends.
fn run_client(options: &str, read_bytes: usize, reply: &[u8], disconnects: bool) -> ProcessOutput {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("the socket is bound").port();
    let time = if disconnects { 30 } else { 1 };
    let line = format!("-c 127.0.0.1 -p {port} -t {time} {options}");
    let client = TestProcess::start(&mut our_iperf2(&line));
    let (mut connection, _) = listener.accept().expect("a client");
    connection
        .read_exact(&mut vec![0; read_bytes])
        .expect("data of the client");
    connection.write_all(reply).expect("an open connection");
    if disconnects {
        drop((connection, listener));
        return client.finish(SHORT_TIMEOUT);
    }
    let client = client.finish(DEADLINE);
    drop((connection, listener));
    client
}

/// Options of clients, the number of bytes to read from them, and the reply.
const TESTS: [(&str, usize, &[u8]); 8] = [
    ("", 0, &[]),
    ("", 60, &[]),
    ("", 500_000, &[]),
    ("-X", 60, &[]),
    ("-X", 60, &[0, 0, 0, 2, 0, 0]),
    ("--full-duplex", 60, b"0123456789"),
    ("--bounceback", 0, &[]),
    ("--bounceback", 100, &[]),
];

fn client_reports_server_that_disconnects() {
    for (options, read_bytes, reply) in TESTS {
        let client = run_client(options, read_bytes, reply, true);
        assert_reports_error(&client, &format!("{options}, {read_bytes}"));
    }
    // In a reverse test, a closed connection is an error only if no data came before.
    assert_reports_error(&run_client("-R", 60, &[], true), "reverse");
}

fn client_reports_silent_server() {
    let tests = TESTS.into_iter().chain([("-R", 60, &[][..])]);
    run_in_parallel(tests.map(|(options, read_bytes, reply)| {
        move || {
            let client = run_client(options, read_bytes, reply, false);
            assert_reports_error(&client, &format!("{options}, {read_bytes}"));
        }
    }));
}

/// A connection of the server that is reset at once is not a flow.
fn client_reports_reset_of_reverse_connection() {
    for options in ["-d", "-r"] {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = server.local_addr().expect("the socket is bound").port();
        let back = free_port();
        let line = format!("-c 127.0.0.1 -p {port} -L {back} -t 0.5 {options}");
        let client = TestProcess::start(&mut our_iperf2(&line));
        let (mut forward, _) = server.accept().expect("the client connects");
        let connect_back = thread::spawn(move || {
            let connected = || std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, back)).ok();
            let mut reverse = None;
            wait_until(SHORT_TIMEOUT, || {
                reverse = connected();
                reverse.is_some()
            });
            let reverse = socket2::SockRef::from(&reverse.expect("the client listens"))
                .set_linger(Some(Duration::ZERO));
            reverse.expect("a connection");
        });
        let _ = std::io::copy(&mut forward, &mut std::io::sink());
        drop(forward);
        connect_back.join().expect("the client listens");
        let client = client.finish(SHORT_TIMEOUT);
        assert_eq!(client.code, Some(1), "{options}: {client:#?}");
        // The reset arrives before the client asks for the peer's address, or later.
        let errors = ["reverse connect failed: ", "recv failed: "];
        let is_reported = errors.iter().any(|error| client.stderr.starts_with(error));
        assert!(is_reported, "{options}: {client:#?}");
    }
}

fn udp_client_reports_silent_server() {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let silent_port = silent.local_addr().expect("the socket is bound").port();
    for (options, error) in [
        ("-t 0.3", "did not receive ack of last datagram"),
        ("-n 5K", "did not receive ack of last datagram"),
        ("-R -t 0.3", "the server sent nothing"),
    ] {
        for port in [silent_port, free_port()] {
            let line = format!("-c 127.0.0.1 -p {port} -u {options}");
            let client = testkit::run(our_iperf2(&line), SHORT_TIMEOUT).expect("the client ends");
            assert_reports_error(&client, options);
            let has_error =
                client.stderr.contains(error) || client.stderr.contains("Connection refused");
            assert!(has_error, "{client:#?}");
            // What the client sent is known.
            let is_sender = !options.contains("-R") && port == silent_port;
            assert!(
                !is_sender || client.stdout.contains("bits/sec"),
                "{client:#?}"
            );
        }
    }
}

/// Runs a reverse client of a scripted server that sends one datagram per 10 ms for `time`. The
/// server does not send the final datagram.
fn run_udp_client(options: &str, time: Duration) -> ProcessOutput {
    let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = server.local_addr().expect("the socket is bound").port();
    let mut client = TestProcess::start(&mut our_iperf2(&format!(
        "-c 127.0.0.1 -p {port} -u -l 100 -b 80k -R {options}"
    )));
    let (_, address) = server.receive_from(&mut [0; 100]).expect("a request");
    let start = Instant::now();
    let mut datagram = [0; 100];
    for number in 1_u32.. {
        datagram[..4].copy_from_slice(&number.to_be_bytes());
        // The client may have ended.
        let _ = server.send_to(&datagram, address);
        if start.elapsed() >= time || !client.is_running() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    client.finish(SHORT_TIMEOUT)
}

fn udp_client_ends_without_final_datagram() {
    let seconds = Duration::from_secs;
    let complete = run_udp_client("-t 2", seconds(2));
    assert_eq!(complete.code, Some(0), "{complete:#?}");
    let interval = "0.0000-2.0000 sec";
    assert!(complete.stdout.contains(interval), "{complete:#?}");
    let strict = run_udp_client("-t 2 --strict", seconds(2));
    assert_eq!(strict.code, Some(3), "{strict:#?}");
    let warning = "iperf: the peer did not report the number of datagrams that it sent: its last one did not arrive";
    assert!(strict.stderr.contains(warning), "{strict:#?}");
    // A server that stops too early, and one that does not stop.
    for time in [Duration::from_millis(800), seconds(60)] {
        assert_reports_error(&run_udp_client("-t 2", time), "-R");
    }
}

fn client_reports_killed_and_stopped_servers() {
    let programs: [CommandBuilder; 2] = [our_iperf2, stock_iperf2];
    let pairs = programs
        .into_iter()
        .flat_map(|command_with| CLIENTS.map(|options| (command_with, options)));
    run_in_parallel(pairs.flat_map(|(command_with, options)| {
        [Signal::KILL, Signal::STOP].map(|signal| {
            move || assert_client_reports_signalled_server(command_with, options, signal)
        })
    }));
}

fn assert_client_reports_signalled_server(
    command_with: CommandBuilder,
    options: &str,
    signal: Signal,
) {
    let server = start_server_for(command_with, options, "");
    // A UDP receiver detects a lost server only by a timeout.
    let has_disconnected = signal == Signal::KILL && !options.contains("-u");
    let (time, timeout) = if has_disconnected {
        (30, SHORT_TIMEOUT)
    } else {
        (3, DEADLINE)
    };
    let line = format!(
        "-c 127.0.0.1 -p {} -t {time} -i 0.1 -l 1000 {options}",
        server.port
    );
    let client = TestProcess::start(&mut our_iperf2(&line));
    assert!(wait_until(SHORT_TIMEOUT, || client
        .stdout()
        .contains("/sec")));
    server.signal(signal);
    let client = client.finish(timeout);
    let context = format!("{signal:?}, {options}: {client:#?}");
    assert_eq!(client.code, Some(1), "{context}");
    assert!(!client.stderr.is_empty(), "{context}");
}
