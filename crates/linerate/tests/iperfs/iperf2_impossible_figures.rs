//! iperf 2 clients with servers that send impossible figures. The client prints one line and exits
//! with 1.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use iperf::wire::{DatagramHeader, LatencyReport, ServerReport, WallTime};
use testkit::{
    ProcessOutput, ReceiveFrom, Server, TestCase, TestProcess, wait_until, without_pace_warnings,
};

pub(super) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![
        rejects_streams_that_end_early,
        rejects_forged_echoes,
        rejects_impossible_datagram_numbers,
        rejects_impossible_reports,
        server_charges_buffers_before_they_exist,
    ];
    test_cases
        .into_iter()
        .map(TestCase::allow_many_at_once)
        .collect()
}

const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a client with a scripted server of one TCP connection.
fn run_tcp_client(options: &str, serve: impl FnOnce(TcpStream) + Send) -> ProcessOutput {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (connection, _) = listener.accept().expect("a client");
            serve(connection);
        });
        let line = format!("-c 127.0.0.1 -p {port} {options}");
        TestProcess::start(&mut super::our_iperf2(&line)).finish(TIMEOUT)
    })
}

/// Runs a client with a scripted UDP server, which returns its answers to each datagram.
fn run_udp_client(options: &str, answers: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send) -> ProcessOutput {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("bound").port();
    let line = format!("-u -c 127.0.0.1 -p {port} {options}");
    let client = TestProcess::start(&mut super::our_iperf2(&line));
    server.set_read_timeout(Some(TIMEOUT)).expect("not zero");
    let mut datagram = [0; 2000];
    loop {
        let (length, from) = server.receive_from(&mut datagram).expect("a datagram");
        let answers = answers(&datagram[..length]);
        for answer in &answers {
            server.send_to(answer, from).expect("the client listens");
        }
        if !answers.is_empty() {
            return client.finish(TIMEOUT);
        }
    }
}

#[track_caller]
fn assert_rejects(output: &ProcessOutput, reason: &str) {
    assert_eq!(output.code, Some(1), "{output:#?}");
    let lines = without_pace_warnings(&output.stderr).lines().count();
    assert_eq!(lines, 1, "{output:#?}");
    assert!(output.stderr.contains(reason), "{output:#?}");
}

fn rejects_streams_that_end_early() {
    for options in ["-R -t 1", "-R -t 20", "-R -n 1M", "--full-duplex -t 1"] {
        let output = run_tcp_client(options, |mut connection| {
            connection.read_exact(&mut [0; 60]).expect("a header");
            connection.write_all(&[b'0'; 1000]).expect("a reader");
            if options.starts_with("--full") {
                connection
                    .shutdown(std::net::Shutdown::Write)
                    .expect("open");
                std::io::copy(&mut connection, &mut std::io::sink()).expect("readable");
            }
        });
        assert_rejects(&output, "the peer ended its stream after");
    }
}

fn rejects_forged_echoes() {
    let output = run_tcp_client("--bounceback -t 1", |mut connection| {
        connection.write_all(&[b'x'; 1000]).expect("a reader");
        // The client may reset the connection.
        let _ = std::io::copy(&mut connection, &mut std::io::sink());
    });
    assert_rejects(&output, "echo differs from the sent message");
}

fn datagram(number: i64) -> Vec<u8> {
    let mut datagram = vec![b'0'; 1470];
    let sent = WallTime::now();
    DatagramHeader { number, sent }.write(&mut datagram, true);
    datagram
}

fn rejects_impossible_datagram_numbers() {
    let cases: [(&[i64], &str); 3] = [
        (&[-(1 << 62)], "the peer's last datagram did not arrive"),
        (&[1, -2], "the peer ended its flow after"),
        (&[1, -(1 << 32)], "the peer numbered 4294967296 datagrams"),
    ];
    for (numbers, reason) in cases {
        let answers = |_: &[u8]| numbers.iter().copied().map(datagram).collect();
        assert_rejects(&run_udp_client("-R -t 1", answers), reason);
    }
}

fn rejects_impossible_reports() {
    let report = |datagram: &[u8]| {
        let header = DatagramHeader::read(datagram, true).expect("a header");
        let latency = LatencyReport {
            count: 1,
            packets_per_second: 1,
            ..LatencyReport::default()
        };
        ServerReport {
            bytes: 1470,
            elapsed: Duration::from_secs(1),
            datagrams: header.number.unsigned_abs().min(1),
            latency: Some(latency),
            is_enhanced: true,
            ..ServerReport::default()
        }
    };
    // Minimum, maximum, sum and mean of the latency, and the duration.
    for (word, is_possible) in [
        (None, true),
        (Some(56), false),
        (Some(64), false),
        (Some(72), false),
        (Some(28), false),
    ] {
        let answers = |datagram: &[u8]| {
            if datagram[0] & 0x80 == 0 {
                return Vec::new();
            }
            let mut bytes = report(datagram).encode().to_vec();
            if let Some(word) = word {
                // 4·10^12 ms.
                bytes[word..word + 4].copy_from_slice(&4_000_000_000_u32.to_be_bytes());
            }
            vec![bytes]
        };
        let output = run_udp_client("-t 0.2", answers);
        if is_possible {
            assert_eq!(output.code, Some(0), "{output:#?}");
        } else {
            assert_rejects(&output, "the server's report contradicts the sent data");
        }
    }
}

/// One address gets 15/16 of 1 GiB. The requests of 16 MiB each have 64 bytes.
fn server_charges_buffers_before_they_exist() {
    let server = Server::start_with(|port| format!("iperf -s -p {port}"));
    let mut request = [0; 64];
    request[..8].copy_from_slice(&[0, 0x80, 0, 0, 1, 0, 0, 0]);
    let clients: Vec<TcpStream> = (0..61)
        .map(|_| {
            let mut client = TcpStream::connect(("127.0.0.1", server.port)).expect("a server");
            client.write_all(&request).expect("a reader");
            client
        })
        .collect();
    let is_refused = || server.stderr().contains("left for one address");
    assert!(wait_until(TIMEOUT, is_refused), "{}", server.stderr());
    drop(clients);
    // The buffers are free before the threads end.
    let have_ended = || server.usage().threads < 10;
    assert!(wait_until(TIMEOUT, have_ended), "{:?}", server.usage());
    let line = format!("-c 127.0.0.1 -p {} -n 20000", server.port);
    let client = TestProcess::start(&mut super::our_iperf2(&line)).finish(TIMEOUT);
    assert_eq!(client.code, Some(0), "{client:#?}");
}
