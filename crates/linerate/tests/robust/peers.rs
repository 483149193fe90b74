//! A test accepts data from its client, not from the first host that connects.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use netperf::wire::{AddressWords, Classic, OMNI, Request, TestRequest};
use testkit::{
    Namespace, ProcessOutput, Receive, STOCK_NETPERF, Server, TestCase, TestProcess, add_link,
    linerate_with_args, listening_ports, stock_with_args, wait_until, with_prefix,
};

use super::raw::{RawClient, SetOnDrop, TestKind, stream_from};
use testkit::Requirement::Namespaces;

/// The server's address.
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// The source address of control connections.
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
/// Another address of the client.
const OTHER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 3);
/// An address of a host that is not part of the test.
const STRANGER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 4);

/// A part of the line that a server logs about a data connection from an unexpected address.
const UNEXPECTED: &str = "another address";

/// EACCES.
const PERMISSION_DENIED: i32 = 13;

/// Timeout of an action that needs no wait.
const SHORT_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        needing &[Namespaces];
        refuses_stranger_that_connects_first,
        prefers_first_host_for_later_connections,
        prefers_requested_address,
        accepts_another_address_after_wait,
        fails_test_if_wait_is_long,
        strict_peers_refuses_another_address,
    ];
    test_cases.extend(testkit::test_cases![
        needing &[STOCK_NETPERF, Namespaces];
        accepts_stock_client_without_its_port,
        refuses_stranger_on_every_port,
        accepts_data_over_second_network,
    ]);
    let waiting_tests = testkit::test_cases![
        needing &[Namespaces];
        foreground_server_prints_warnings,
    ];
    test_cases.extend(waiting_tests.into_iter().map(TestCase::allow_many_at_once));
    with_prefix("peers", test_cases).collect()
}

/// The hosts of a server and a client with a link between them. The client has several addresses.
struct Hosts {
    server: Namespace,
    client: Namespace,
}

impl Hosts {
    fn new() -> Self {
        let (server, client) = (
            Namespace::with_loopback_only(),
            Namespace::with_loopback_only(),
        );
        add_link(
            (&server, "near", &format!("{SERVER}/24")),
            (&client, "far", &format!("{CLIENT}/24")),
        );
        for address in [OTHER, STRANGER] {
            client.ip(&format!("address add {address}/24 dev far"));
        }
        Self { server, client }
    }

    fn serve(&self, options: &str) -> Server {
        self.server.enter(|| Server::start(options))
    }
}

fn connect_control(server: &Server) -> RawClient {
    RawClient::connect_to((SERVER, server.port).into())
}

fn connect_from(source: Ipv4Addr, port: u16) -> TcpStream {
    let socket = stream_from(source, (SERVER, port).into()).expect("the test listens");
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("the timeout is not zero");
    socket
}

/// Returns each request for a test with connections, the number of bytes that the client sends
/// first and whether the server answers.
fn connection_requests() -> Vec<(&'static str, Request, usize, bool)> {
    let stream = TestRequest {
        test_length: 10,
        ..TestRequest::classic()
    };
    let transaction = TestRequest {
        request_size: 1,
        response_size: 1,
        test_length: 10,
        ..TestRequest::classic()
    };
    let omni = |kind: TestKind| Request::Omni(kind.request(10));
    vec![
        ("omni stream", omni(TestKind::TcpStream), 1, false),
        ("omni maerts", omni(TestKind::TcpMaerts), 0, true),
        ("omni rr", omni(TestKind::TcpRr), 1, true),
        ("omni crr", omni(TestKind::TcpCrr), 1, true),
        (
            "stream",
            Request::Classic(Classic::TcpStream, stream.clone()),
            1,
            false,
        ),
        (
            "maerts",
            Request::Classic(Classic::TcpMaerts, stream),
            0,
            true,
        ),
        (
            "rr",
            Request::Classic(Classic::TcpRr, transaction.clone()),
            1,
            true,
        ),
        (
            "crr",
            Request::Classic(Classic::TcpCrr, transaction.clone()),
            1,
            true,
        ),
        (
            "cc",
            Request::Classic(Classic::TcpCc, transaction),
            0,
            false,
        ),
    ]
}

/// Requests a test and returns the port of its data socket.
fn request_data_port(raw: &mut RawClient, request: &Request) -> u16 {
    raw.send(request);
    let frame = raw.receive().expect("the server responds");
    let (messages, _) = request.test().expect("the request is for a test");
    let response = messages
        .parse_response(&frame)
        .expect("the test is accepted");
    response.data_port as u16
}

/// Returns whether the server serves this connection. The client first sends `sent_bytes` bytes.
fn is_served(data: &mut TcpStream, sent_bytes: usize, answers: bool) -> bool {
    if data.write_all(&[b'x'; 1][..sent_bytes]).is_err() {
        return false;
    }
    match data.receive(&mut [0; 1]) {
        // The server closes a connection of a TCP_CC test without data.
        Ok(0) => !answers && sent_bytes == 0,
        Ok(_) => answers,
        Err(error) => !answers && sent_bytes > 0 && error.kind() == ErrorKind::WouldBlock,
    }
}

fn refuses_stranger_that_connects_first() {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    hosts.client.enter(|| {
        for (name, request, sent_bytes, answers) in connection_requests() {
            let mut raw = connect_control(&server);
            let port = request_data_port(&mut raw, &request);
            let mut stranger = connect_from(STRANGER, port);
            stranger
                .write_all(b"first")
                .expect("the connection is open");
            let mut data = connect_from(CLIENT, port);
            if !answers {
                data.set_read_timeout(Some(Duration::from_millis(500)))
                    .expect("the timeout is not zero");
            }
            assert!(
                is_served(&mut data, sent_bytes, answers),
                "{name}: {}",
                server.log()
            );
            let result = stranger.receive(&mut [0; 8]);
            assert!(
                matches!(result, Ok(0))
                    || result.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset),
                "{name}: the server serves the stranger"
            );
        }
    });
    let log = server.log();
    let refused = "refused a data connection from 198.51.100.4:";
    assert!(log.contains(refused) && !log.contains(UNEXPECTED), "{log}");
}

/// In a connection test, the server prefers further connections from the first one's host.
fn prefers_first_host_for_later_connections() {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    hosts.client.enter(|| {
        let mut raw = connect_control(&server);
        let port = raw.request_test(&TestKind::TcpCrr.request(-3));
        assert!(is_served(&mut connect_from(CLIENT, port), 1, true));
        for source in [STRANGER, OTHER] {
            let mut stranger = connect_from(source, port);
            assert!(is_served(&mut connect_from(CLIENT, port), 1, true));
            assert!(!is_served(&mut stranger, 1, true));
        }
        raw.receive().expect("the server sends results");
    });
    assert!(
        server.log().contains("refused 2 data connections"),
        "{}",
        server.log()
    );
}

/// If the next local port is in use, here by the control connection, a stock client lets the kernel
/// choose its port and address. The kernel chooses the first address. The server waits only once
/// for a connection from the expected address.
fn accepts_stock_client_without_its_port() {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    let line = format!(
        "-H {SERVER} -L {OTHER} -p {},7005 -t OMNI -l 5 -P 0 -- -c -p 7000,7020",
        server.port
    );
    let client = hosts
        .client
        .enter(|| TestProcess::start(&mut stock_with_args("netperf", &line)));
    let client = client.finish(Duration::from_secs(30));
    assert_eq!(client.code, Some(0), "{client:#?}; log: {}", server.log());
    // The client starts at a random port, so the affected connection can also be the first one.
    let messages = ["accepted data connections", "comes from another address"];
    let log = server.log();
    assert!(
        messages.iter().any(|message| log.contains(message)),
        "{log}"
    );
}

fn prefers_requested_address() {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    hosts.client.enter(|| {
        for kind in [TestKind::TcpStream, TestKind::TcpRr, TestKind::TcpCrr] {
            let request = TestRequest {
                client_address: AddressWords::from(std::net::IpAddr::from(OTHER)),
                ..kind.request(10)
            };
            let mut raw = connect_control(&server);
            let port = raw.request_test(&request);
            let stranger = connect_from(STRANGER, port);
            let mut data = connect_from(OTHER, port);
            data.write_all(b"x").expect("the connection is open");
            if kind == TestKind::TcpStream {
                // The server closes the stranger's connection when it accepts the client's.
                assert_eq!(stranger.receive(&mut [0; 1]).unwrap_or(0), 0);
            } else {
                data.read_exact(&mut [0; 1]).expect("the server answers");
            }
        }
    });
    assert!(!server.log().contains(UNEXPECTED), "{}", server.log());
}

/// The server accepts a connection from an unexpected address after a wait, and logs the lost time.
fn accepts_another_address_after_wait() {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    hosts.client.enter(|| {
        for kind in [TestKind::TcpStream, TestKind::TcpRr, TestKind::TcpCrr] {
            let mut raw = connect_control(&server);
            let port = raw.request_test(&kind.request(5));
            let mut data = connect_from(OTHER, port);
            if kind == TestKind::TcpStream {
                data.write_all(b"x").expect("the connection is open");
            } else {
                assert!(is_served(&mut data, 1, true), "{}", server.log());
            }
            // The wait is less than 5 % of this time.
            std::thread::sleep(Duration::from_secs(4));
            drop(data);
            let frame = raw.receive().expect("the server sends results");
            let results = OMNI.parse_results(&frame);
            results.unwrap_or_else(|error| panic!("{}: {error:?}", kind.name()));
            let log = server.log();
            let message = "the data connection comes from another address, 198.51.100.3:";
            assert!(
                log.contains(message) && log.contains("ms shorter, because the server waited"),
                "{log}"
            );
        }
    });
}

/// A stock client's clock includes the server's wait for the client's address. If this is more than
/// 5 % of the test, or if the client has closed its connection, the test fails.
fn fails_test_if_wait_is_long() {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    hosts.client.enter(|| {
        for (kind, test_length) in [
            (TestKind::TcpStream, 1),
            (TestKind::TcpMaerts, 1),
            (TestKind::TcpMaerts, -1000),
            (TestKind::TcpRr, 1),
            (TestKind::TcpRr, -1),
            (TestKind::TcpCrr, -1),
        ] {
            let mut raw = connect_control(&server);
            let port = raw.request_test(&kind.request(test_length));
            let mut data = connect_from(OTHER, port);
            let _ = data.write_all(b"x");
            let _ = data.receive(&mut [0; 1]);
            let errno = raw.receive_refusal();
            assert!(
                errno == Ok(PERMISSION_DENIED),
                "{} {test_length}: {errno:?}",
                kind.name()
            );
        }
        for kind in [TestKind::TcpStream, TestKind::TcpMaerts, TestKind::TcpRr] {
            let mut raw = connect_control(&server);
            let port = raw.request_test(&kind.request(60));
            drop(connect_from(OTHER, port));
            let errno = raw.receive_refusal();
            assert!(matches!(errno, Ok(1..)), "{}: {errno:?}", kind.name());
        }
    });
    let log = server.log();
    assert!(log.contains("the wait for this address took"), "{log}");
}

fn strict_peers_refuses_another_address() {
    let hosts = Hosts::new();
    let server = hosts.serve("--strict-peers --data-wait 3");
    hosts.client.enter(|| {
        let mut raw = connect_control(&server);
        let port = raw.request_test(&TestKind::TcpRr.request(-1));
        let mut data = connect_from(OTHER, port);
        assert!(!is_served(&mut data, 1, true));
        let mut data = connect_from(CLIENT, port);
        assert!(is_served(&mut data, 1, true), "{}", server.log());
        let mut raw = connect_control(&server);
        let port = raw.request_test(&TestKind::TcpRr.request(-1));
        assert!(!is_served(&mut connect_from(OTHER, port), 1, true));
        assert!(matches!(raw.receive_refusal(), Ok(errno) if errno > 0));
    });
    let log = server.log();
    assert!(
        log.contains("refused a data connection from 198.51.100.3:"),
        "{log}"
    );
}

/// Without `-d`, a server in the foreground prints only warnings about strangers, wrong passphrases
/// and refused clients.
fn foreground_server_prints_warnings() {
    let hosts = Hosts::new();
    let port = 12_865;
    let serve = |options: &str| {
        let line = format!("netserver -D -p {port} {options}");
        hosts
            .server
            .enter(|| Server::start_at(port, linerate_with_args(&line)))
    };
    let connect = || RawClient::connect_to((SERVER, port).into());
    let server = serve("-N");
    hosts.client.enter(|| {
        let mut control = connect();
        control.expect_refusal(&Request::Omni(TestRequest {
            protocol: 999,
            ..TestKind::TcpRr.request(1)
        }));
        let data = control.request_test(&TestKind::TcpRr.request(-1));
        assert!(is_served(&mut connect_from(CLIENT, data), 1, true));
        control.receive().expect("the server sends results");
        assert_eq!(server.stderr(), "");
        let data = control.request_test(&TestKind::TcpRr.request(-1));
        assert!(is_served(&mut connect_from(OTHER, data), 1, true));
        control.receive_refusal().expect("the wait took too long");
    });
    let stderr = server.stderr();
    let expected_message = "the data connection comes from another address, 198.51.100.3:";
    assert!(
        stderr.contains(expected_message) && stderr.lines().count() == 2,
        "{stderr}"
    );
    drop(server);

    let server = serve("-Z secret --max-clients 2");
    hosts.client.enter(|| {
        let mut wrong = connect();
        wrong.send(&Request::Passphrase("wrong".into()));
        assert!(wrong.receive().is_err());
        let _clients = [connect(), connect(), connect()];
        for message in ["wrong or missing passphrase", "refused a client"] {
            let is_printed = || server.stderr().contains(message);
            assert!(
                wait_until(SHORT_TIMEOUT, is_printed),
                "{message}: {}",
                server.stderr()
            );
        }
    });
}

/// A stranger connects to each port as soon as it opens. From another address it never receives a
/// test's data. From the client's own address it never receives a linerate client's data.
fn refuses_stranger_on_every_port() {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    let all_tests = [
        "TCP_STREAM",
        "TCP_MAERTS",
        "TCP_RR",
        "TCP_CRR",
        "TCP_CC",
        "TCP_SENDFILE",
    ];
    let one_connection_tests = ["TCP_STREAM", "TCP_MAERTS", "TCP_RR", "TCP_SENDFILE"];
    let ours: fn(&str) -> std::process::Command =
        |line| linerate_with_args(&format!("netperf {line}"));
    let stock: fn(&str) -> std::process::Command = |line| stock_with_args("netperf", line);
    for (attacker, command, tests) in [
        (STRANGER, stock, &all_tests[..]),
        (STRANGER, ours, &all_tests[..]),
        (CLIENT, ours, &one_connection_tests[..]),
    ] {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| connect_to_every_port(&hosts, server.port, attacker, &done));
            let _done_setter = SetOnDrop(&done);
            for test in tests {
                let line = format!("-H {SERVER} -p {} -t {test} -l -1000 -P 0", server.port);
                let client = hosts
                    .client
                    .enter(|| TestProcess::start(&mut command(&line)));
                let client: ProcessOutput = client.finish(Duration::from_secs(30));
                assert_eq!(client.code, Some(0), "{client:#?}; log: {}", server.log());
                let rate = client.figures().last().copied().unwrap_or_default();
                assert!(rate > 1.0, "{client:#?}");
            }
        });
    }
}

fn connect_to_every_port(hosts: &Hosts, control_port: u16, source: Ipv4Addr, done: &AtomicBool) {
    let mut connections = Vec::new();
    while !done.load(Relaxed) {
        let ports = hosts.server.enter(listening_ports);
        for port in ports.into_iter().filter(|port| *port != control_port) {
            hosts.client.enter(|| {
                if let Ok(mut socket) = stream_from(source, (SERVER, port).into()) {
                    let _ = socket.write_all(b"data of a stranger");
                    connections.push(socket);
                }
            });
        }
    }
}

/// Control uses one link and data another, as with flent's `--control-host`. The request has the
/// server's address on the second link, but not the client's. So the server does not know from
/// where the data comes, and accepts it from any address.
fn accepts_data_over_second_network() {
    let hosts = Hosts::new();
    add_link(
        (&hosts.server, "near2", "203.0.113.1/24"),
        (&hosts.client, "far2", "203.0.113.2/24"),
    );
    for (host, address) in [
        (&hosts.server, "2001:db8::1/64 dev near2"),
        (&hosts.client, "2001:db8::2/64 dev far2"),
    ] {
        let device = address
            .rsplit(' ')
            .next()
            .expect("the device is the last word");
        host.enter(|| {
            let file = format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6");
            let _ = std::fs::write(file, "0");
        });
        host.ip(&format!("address add {address} nodad"));
    }
    let server = hosts.serve("");
    let run = |command: &mut std::process::Command| {
        let client = hosts.client.enter(|| TestProcess::start(command));
        client.finish(Duration::from_secs(30))
    };
    let line = |test: &str, length: &str, options: &str| {
        let target = format!("-H {SERVER} -p {}", server.port);
        format!("{target} -t {test} -l {length} -P 0 -- {options}")
    };
    for (test, count, options) in [
        ("TCP_STREAM", "-1000000", "-m 1000"),
        ("TCP_MAERTS", "-1000000", "-m ,1000"),
        ("TCP_RR", "-100", ""),
        ("TCP_CRR", "-100", ""),
        ("TCP_RR", "-100", "-F"),
        ("TCP_RR", "-100", "-T mptcp"),
    ] {
        let selectors =
            "-k LOCAL_BYTES_SENT,REMOTE_BYTES_RECVD,LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT";
        let line = line(
            test,
            count,
            &format!("-H 203.0.113.1 {options} {selectors}"),
        );
        let client = run(&mut linerate_with_args(&format!("netperf {line}")));
        assert_eq!(client.code, Some(0), "{client:#?}; log: {}", server.log());
        // The figures do not include the nonce.
        let values: Vec<&str> = client
            .stdout
            .lines()
            .filter_map(|line| Some(line.split_once('=')?.1))
            .collect();
        let [sent, received, own_received, own_sent] = values[..] else {
            panic!("{client:#?}");
        };
        assert_eq!((sent, own_received), (received, own_sent), "{client:#?}");
    }
    for target in ["203.0.113.1", "2001:db8::1,6"] {
        for test in ["TCP_STREAM", "TCP_MAERTS", "TCP_RR", "TCP_CRR"] {
            let line = line(test, "1", &format!("-H {target}"));
            let client = run(&mut stock_with_args("netperf", &line));
            assert_eq!(client.code, Some(0), "{client:#?}; log: {}", server.log());
            let rate = client.figures().last().copied().unwrap_or_default();
            assert!(rate > 1.0, "{line}: {client:#?}");
        }
    }
    assert!(!server.log().contains(UNEXPECTED), "{}", server.log());

    // Classic requests have no address of the server, so the connection waits.
    let client = run(&mut stock_with_args(
        "netperf",
        &line("TCP_CC", "5", "-H 203.0.113.1"),
    ));
    assert_eq!(client.code, Some(0), "{client:#?}; log: {}", server.log());
    assert!(server.log().contains(UNEXPECTED), "{}", server.log());

    // The server sends datagrams to the control connection's address only.
    let line = line("UDP_RR", "1", "-H 203.0.113.1");
    let client = run(&mut stock_with_args("netperf", &line));
    assert_ne!(client.code, Some(0), "{client:#?}; log: {}", server.log());
    assert!(client.stderr.contains("Permission denied"), "{client:#?}");
}
