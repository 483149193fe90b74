//! Hostile requests: the server keeps running within its memory limit and serves the next test.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

use netperf::wire::{
    AddressWords, Classic, MESSAGE_BYTES, Request, TestRequest, Text, check_error,
};
use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, Receive, STOCK_NETPERF, Server, TestCase, TestProcess, add_link, short_path_dir,
    stock_with_args, wait_until, with_prefix,
};

use super::raw::{RawClient, TestKind, data_connection};

/// errno(3).
const EACCES: i32 = 13;

/// Maximum growth of a server's memory by hostile requests.
const GROWTH_KIB: u64 = 32 * 1024;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        refuses_unpermitted_fill_files,
        survives_extreme_sizes,
        survives_all_transports,
        survives_malformed_messages,
        survives_two_thousand_connections,
    ];
    test_cases.extend(testkit::test_cases![
        needing &[STOCK_NETPERF, Namespaces];
        refuses_fill_file_of_stock_client,
    ]);
    test_cases.extend(testkit::test_cases![
        needing &[Namespaces];
        refuses_third_party_destination,
    ]);
    with_prefix("hostile", test_cases).collect()
}

fn refuses_unpermitted_fill_files() {
    let allowed = short_path_dir();
    std::fs::write(allowed.path().join("f"), b"allowed contents")
        .expect("the directory is writable");
    std::os::unix::fs::symlink("/etc/passwd", allowed.path().join("p"))
        .expect("the directory is writable");
    let allowed_path = allowed.path().display();

    let strict = Server::start("");
    let lenient = Server::start(&format!("--allow-fill-dir {allowed_path}"));
    let parent = format!("{allowed_path}/../../etc/passwd");
    for (server, path) in [
        (&strict, "/etc/passwd"),
        (&strict, &format!("{allowed_path}/f")),
        (&lenient, "/etc/passwd"),
        (&lenient, &parent),
        (&lenient, &format!("{allowed_path}/p")),
        (&lenient, &format!("{allowed_path}/missing")),
        (&lenient, "/dev/zero"),
    ] {
        let errno = RawClient::connect(server.port).expect_refusal(&fill_file_request(path));
        assert_eq!(errno, EACCES, "{path}");
    }
    let mut raw = RawClient::connect(lenient.port);
    let Request::Omni(request) = fill_file_request(&format!("{allowed_path}/f")) else {
        unreachable!("the request is an omni request")
    };
    let mut data = data_connection(raw.request_test(&request));
    let mut seen = [0; 16];
    data.read_exact(&mut seen).expect("the server sends");
    assert_eq!(&seen, b"allowed contents");
}

fn fill_file_request(path: &str) -> Request {
    let fill_file = Text::new(path);
    Request::Omni(TestRequest {
        fill_file,
        ..TestKind::TcpMaerts.request(1)
    })
}

fn refuses_fill_file_of_stock_client() {
    Namespace::new().enter(|| {
        let server = Server::start("");
        let options = format!(
            "-H 127.0.0.1 -p {} -t TCP_MAERTS -l 1 -F ,/etc/passwd",
            server.port
        );
        let client = TestProcess::start(&mut stock_with_args("netperf", &options))
            .finish(Duration::from_secs(10));
        assert_ne!(client.code, Some(0), "{client:#?}");
    });
}

/// A client requests that the server send datagrams to a third host.
fn refuses_third_party_destination() {
    let (client, server_side, victim) = (
        Namespace::with_loopback_only(),
        Namespace::with_loopback_only(),
        Namespace::with_loopback_only(),
    );
    add_link(
        (&server_side, "left", "198.51.100.1/24"),
        (&client, "eth0", "198.51.100.2/24"),
    );
    add_link(
        (&server_side, "right", "203.0.113.1/24"),
        (&victim, "eth0", "203.0.113.2/24"),
    );
    let target =
        victim.enter(|| UdpSocket::bind("203.0.113.2:0").expect("the interface has the address"));
    target
        .set_nonblocking(true)
        .expect("the socket becomes non-blocking");
    let port = target.local_addr().expect("the socket is bound").port();
    let request = |protocol| {
        Request::Omni(TestRequest {
            direction: TestRequest::TRANSMIT,
            send_size: 100,
            client_address: AddressWords::from(std::net::IpAddr::from([203, 0, 113, 2])),
            client_port: port.into(),
            protocol,
            ..TestKind::UdpStream.request(1)
        })
    };
    let arrives = || target.receive(&mut [0; 200]).is_ok();

    let strict = server_side.enter(|| Server::start(""));
    for protocol in [TestRequest::UDP, TestRequest::UDPLITE] {
        let (errno, closed) = client.enter(|| {
            let mut raw = RawClient::connect_to(([198, 51, 100, 1], strict.port).into());
            raw.send(&request(protocol));
            // The server refuses the request immediately, or sends an error instead of results.
            let errno = raw.receive_refusal().or_else(|_| raw.receive_refusal());
            (errno, raw.time_until_closed(Duration::from_secs(1)))
        });
        assert_eq!(errno, Ok(EACCES));
        assert!(
            !arrives(),
            "the server sent data to the third party ({closed:?})"
        );
    }

    let lenient = server_side.enter(|| Server::start("--allow-third-party"));
    client.enter(|| {
        let mut raw = RawClient::connect_to(([198, 51, 100, 1], lenient.port).into());
        raw.send(&request(TestRequest::UDP));
        let results = raw
            .receive()
            .and_then(|_| raw.receive())
            .expect("the server sends results");
        assert_eq!(check_error(&results), Ok(()));
    });
    assert!(arrives(), "permitted datagrams do not arrive");
}

fn survives_extreme_sizes() {
    let server = Server::start("--data-wait 1");
    let idle_usage = server.idle_usage();
    let resident_kib = server.resident_kib();
    let numbers = [i32::MIN, -2, -1, 0, 1, 65_507, 1 << 24, i32::MAX];
    let mut requests = Vec::new();
    for number in numbers {
        for kind in TestKind::ALL {
            let base = kind.request(1);
            requests.extend([
                TestRequest {
                    send_size: number,
                    receive_size: number,
                    ..base.clone()
                },
                TestRequest {
                    request_size: number,
                    response_size: number,
                    ..base.clone()
                },
                TestRequest {
                    send_width: number as u32,
                    receive_width: number as u32,
                    ..base.clone()
                },
                TestRequest {
                    send_alignment: number as u32,
                    receive_alignment: number as u32,
                    ..base.clone()
                },
                TestRequest {
                    send_offset: number as u32,
                    receive_offset: number as u32,
                    ..base.clone()
                },
                TestRequest {
                    send_buffer: number,
                    receive_buffer: number,
                    ..base.clone()
                },
                TestRequest {
                    test_length: number,
                    interval_burst: number as u32,
                    ..base.clone()
                },
                TestRequest {
                    data_port: number as u32,
                    client_port: number as u32,
                    ..base.clone()
                },
            ]);
        }
    }
    for request in requests
        .iter()
        .cloned()
        .map(Request::Omni)
        .chain(numbers.into_iter().flat_map(classic_requests))
    {
        let mut raw = RawClient::connect(server.port);
        raw.send(&request);
        // The server answers each request. The test does not wait for the end of an accepted one.
        raw.receive()
            .unwrap_or_else(|error| panic!("{request:?}: {error}; log: {}", server.log()));
    }
    assert_survived(server, idle_usage, resident_kib);
}

fn classic_requests(number: i32) -> [Request; 5] {
    let stream = TestRequest {
        receive_size: number,
        receive_alignment: number as u32,
        receive_offset: number as u32,
        ..TestRequest::classic()
    };
    let transaction = TestRequest {
        request_size: number,
        response_size: number,
        ..TestRequest::classic()
    };
    [
        Request::Classic(Classic::TcpStream, stream.clone()),
        Request::Classic(Classic::TcpMaerts, stream),
        Request::Classic(Classic::TcpRr, transaction.clone()),
        Request::Classic(Classic::UdpRr, transaction),
        Request::Classic(
            Classic::UdpStream,
            TestRequest {
                receive_size: number,
                ..TestRequest::classic()
            },
        ),
    ]
}

fn survives_malformed_messages() {
    let server = Server::start("");
    let idle_usage = server.idle_usage();
    let resident_kib = server.resident_kib();
    for length in (0..MESSAGE_BYTES).step_by(5) {
        let mut raw = RawClient::connect(server.port);
        raw.control
            .write_all(&Request::SysInfo.encode(None)[..length])
            .expect("the server reads");
    }
    // More bytes than a message has.
    let mut raw = RawClient::connect(server.port);
    let _ = raw.control.write_all(&vec![0xff; 1 << 20]);
    drop(raw);
    assert_survived(server, idle_usage, resident_kib);
}

fn survives_two_thousand_connections() {
    const CLIENTS: usize = 50;
    /// One address gets 15/16 of the connections.
    const ALLOWED: usize = CLIENTS - CLIENTS / 16;
    let server = Server::start(&format!("--max-clients {CLIENTS} --control-idle 5"));
    let idle_usage = server.idle_usage();
    let resident_kib = server.resident_kib();
    let connect = |_| TcpStream::connect((Ipv4Addr::LOCALHOST, server.port));
    let connections: Vec<_> = (0..2000).map(connect).collect();
    assert!(
        connections.iter().all(Result::is_ok),
        "the kernel refuses connections"
    );
    let mut max_threads = 0;
    // The server closes each connection that it does not serve.
    let all_refused = wait_until(Duration::from_secs(4), || {
        max_threads = max_threads.max(server.usage().threads);
        connections
            .iter()
            .flatten()
            .filter(|connection| is_closed(connection))
            .count()
            == 2000 - ALLOWED
    });
    assert!(
        max_threads <= idle_usage.threads + ALLOWED,
        "{max_threads} threads for {ALLOWED} clients"
    );
    assert!(
        all_refused,
        "{max_threads} threads; the server leaves refused connections open"
    );
    drop(connections);
    assert_survived(server, idle_usage, resident_kib);
}

fn is_closed(connection: &TcpStream) -> bool {
    let _ = connection.set_nonblocking(true);
    let mut connection = connection;
    // The server may send an error response first.
    match std::io::copy(&mut connection, &mut std::io::sink()) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// The server answers each combination of socket type, protocol and family, sensible or not. It
/// also answers tests over interfaces that Linux does not provide.
fn survives_all_transports() {
    let server = Server::start("--data-wait 1");
    let idle_usage = server.idle_usage();
    let resident_kib = server.resident_kib();
    let protocols = [0, 1, 6, 17, 33, 132, 136, 255, 262, u32::MAX];
    let families = [0, 1, 4, 6, 7, 10, 26, 40, u32::MAX];
    for socket_type in [-1, 0, 1, 2, 3, 4, 5, 6, i32::MAX] {
        for protocol in protocols {
            for family in families {
                let mut raw = RawClient::connect(server.port);
                let request = Request::Omni(TestRequest {
                    socket_type,
                    protocol,
                    family,
                    ..TestKind::UdpStream.request(1)
                });
                raw.send(&request);
                // The test does not wait for the end of an accepted request.
                raw.receive()
                    .unwrap_or_else(|error| panic!("{request:?}: {error}"));
            }
        }
    }
    let mut raw = RawClient::connect(server.port);
    for kind in (55..=67).chain(540..=552) {
        raw.send(&Request::Unknown(kind));
        assert_eq!(
            raw.receive_refusal(),
            Ok(netperf::wire::UNKNOWN_REQUEST),
            "{kind}"
        );
    }
    drop(raw);
    assert_survived(server, idle_usage, resident_kib);
}

#[track_caller]
fn assert_survived(mut server: Server, idle_usage: testkit::ProcessUsage, resident_kib: u64) {
    assert!(
        server.is_running(),
        "the server has ended; log: {}",
        server.log()
    );
    assert!(!server.has_panicked(), "{}", server.log());
    server.assert_usage_returns_to(idle_usage, Duration::from_secs(10), "hostile requests");
    server.assert_serves();
    let growth_kib = server.resident_kib().saturating_sub(resident_kib);
    assert!(
        growth_kib <= GROWTH_KIB,
        "the server's memory grew by {growth_kib} KiB"
    );
}
