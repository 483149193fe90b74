//! Peers that mean harm: the server stays alive, within its memory, and serves the next test.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

use netperf::wire::{
    AddressWords, Classic, MESSAGE_BYTES, Request, TestRequest, Text, check_error,
};
use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, STOCK_NETPERF, Server, TestCase, TestProcess, add_link, short_directory,
    stock_with_args, test_case, wait_until,
};

use super::raw::{Kind, Raw, data_connection};

/// errno(3).
const EACCES: i32 = 13;

/// Above its memory at rest, what hostile requests may make a server take.
const GROWTH_KIB: u64 = 32 * 1024;

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("hostile::files", &[], files),
        test_case(
            "hostile::files_asked_by_stock",
            &[STOCK_NETPERF, Namespaces],
            files_asked_by_stock,
        ),
        test_case("hostile::third_parties", &[Namespaces], third_parties),
        test_case("hostile::senseless_sizes", &[], senseless_sizes),
        test_case("hostile::odd_transports", &[], odd_transports),
        test_case("hostile::half_messages", &[], half_messages),
        test_case(
            "hostile::two_thousand_connections",
            &[],
            two_thousand_connections,
        ),
    ]
}

fn files() {
    let allowed = short_directory();
    std::fs::write(allowed.path().join("f"), b"what may be seen").expect("a new directory");
    std::os::unix::fs::symlink("/etc/passwd", allowed.path().join("p")).expect("a new directory");
    let open = allowed.path().display();

    let strict = Server::start("");
    let lenient = Server::start(&format!("--allow-fill-dir {open}"));
    let up = format!("{open}/../../etc/passwd");
    for (server, path) in [
        (&strict, "/etc/passwd"),
        (&strict, &format!("{open}/f")),
        (&lenient, "/etc/passwd"),
        (&lenient, &up),
        (&lenient, &format!("{open}/p")),
        (&lenient, &format!("{open}/missing")),
        (&lenient, "/dev/zero"),
    ] {
        let errno = Raw::connect(server.port).ask_in_vain(&filled_from(path));
        assert_eq!(errno, EACCES, "{path}");
    }
    let mut raw = Raw::connect(lenient.port);
    let Request::Omni(request) = filled_from(&format!("{open}/f")) else {
        unreachable!("it is an omni request")
    };
    let mut data = data_connection(raw.ask(&request));
    let mut seen = [0; 16];
    data.read_exact(&mut seen).expect("the server sends");
    assert_eq!(&seen, b"what may be seen");
}

fn filled_from(path: &str) -> Request {
    let fill_file = Text::new(path);
    Request::Omni(TestRequest {
        fill_file,
        ..Kind::TcpMaerts.request(1)
    })
}

fn files_asked_by_stock() {
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

/// A client asks the server to send datagrams to somebody else.
fn third_parties() {
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
    let target = victim.enter(|| UdpSocket::bind("203.0.113.2:0").expect("the address is there"));
    target
        .set_nonblocking(true)
        .expect("a socket can be made non-blocking");
    let port = target.local_addr().expect("it is bound").port();
    let request = |protocol| {
        Request::Omni(TestRequest {
            direction: TestRequest::TRANSMIT,
            send_size: 100,
            client_address: AddressWords::from(std::net::IpAddr::from([203, 0, 113, 2])),
            client_port: port.into(),
            protocol,
            ..Kind::UdpStream.request(1)
        })
    };
    let arrives = || target.recv(&mut [0; 200]).is_ok();

    let strict = server_side.enter(|| Server::start(""));
    for protocol in [TestRequest::UDP, TestRequest::UDPLITE] {
        let (errno, over) = client.enter(|| {
            let mut raw = Raw::connect_to(([198, 51, 100, 1], strict.port).into());
            raw.send(&request(protocol));
            // Refused at once, or in place of the results.
            let errno = raw.refusal().or_else(|_| raw.refusal());
            (errno, raw.time_to_end(Duration::from_secs(1)))
        });
        assert_eq!(errno, Ok(EACCES));
        assert!(!arrives(), "the third party was sent something ({over:?})");
    }

    let lenient = server_side.enter(|| Server::start("--allow-third-party"));
    client.enter(|| {
        let mut raw = Raw::connect_to(([198, 51, 100, 1], lenient.port).into());
        raw.send(&request(TestRequest::UDP));
        let results = raw.receive().and_then(|_| raw.receive()).expect("results");
        assert_eq!(check_error(&results), Ok(()));
    });
    assert!(arrives(), "what the operator allowed does not arrive");
}

fn senseless_sizes() {
    let server = Server::start("--data-wait 1");
    let rest = server.idle_usage();
    let resident = server.resident_kib();
    let numbers = [i32::MIN, -2, -1, 0, 1, 65_507, 1 << 24, i32::MAX];
    let mut requests = Vec::new();
    for number in numbers {
        for kind in Kind::ALL {
            let plain = kind.request(1);
            requests.extend([
                TestRequest {
                    send_size: number,
                    receive_size: number,
                    ..plain.clone()
                },
                TestRequest {
                    request_size: number,
                    response_size: number,
                    ..plain.clone()
                },
                TestRequest {
                    send_width: number as u32,
                    receive_width: number as u32,
                    ..plain.clone()
                },
                TestRequest {
                    send_alignment: number as u32,
                    receive_alignment: number as u32,
                    ..plain.clone()
                },
                TestRequest {
                    send_offset: number as u32,
                    receive_offset: number as u32,
                    ..plain.clone()
                },
                TestRequest {
                    send_buffer: number,
                    receive_buffer: number,
                    ..plain.clone()
                },
                TestRequest {
                    test_length: number,
                    interval_burst: number as u32,
                    ..plain.clone()
                },
                TestRequest {
                    data_port: number as u32,
                    client_port: number as u32,
                    ..plain.clone()
                },
            ]);
        }
    }
    for request in requests
        .iter()
        .cloned()
        .map(Request::Omni)
        .chain(numbers.into_iter().flat_map(classic))
    {
        let mut raw = Raw::connect(server.port);
        raw.send(&request);
        // Accepted or refused, but answered; what it would take is not waited for.
        raw.receive()
            .unwrap_or_else(|error| panic!("{request:?}: {error}; log: {}", server.log()));
    }
    assert_survived(server, rest, resident);
}

fn classic(number: i32) -> [Request; 5] {
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

fn half_messages() {
    let server = Server::start("");
    let rest = server.idle_usage();
    let resident = server.resident_kib();
    for length in (0..MESSAGE_BYTES).step_by(5) {
        let mut raw = Raw::connect(server.port);
        raw.control
            .write_all(&Request::SysInfo.encode(None)[..length])
            .expect("the server reads");
    }
    // And what is more than a message.
    let mut raw = Raw::connect(server.port);
    let _ = raw.control.write_all(&vec![0xff; 1 << 20]);
    drop(raw);
    assert_survived(server, rest, resident);
}

fn two_thousand_connections() {
    /// One address gets 15/16 of them.
    const CLIENTS: usize = 50;
    const ALLOWED: usize = CLIENTS - CLIENTS / 16;
    let server = Server::start(&format!("--max-clients {CLIENTS} --control-idle 5"));
    let rest = server.idle_usage();
    let resident = server.resident_kib();
    let connect = |_| TcpStream::connect((Ipv4Addr::LOCALHOST, server.port));
    let connections: Vec<_> = (0..2000).map(connect).collect();
    assert!(
        connections.iter().all(Result::is_ok),
        "the kernel refuses connections"
    );
    let mut most = 0;
    // All that is not served has been told so when every other connection is closed.
    let turned_away = wait_until(Duration::from_secs(4), || {
        most = most.max(server.usage().threads);
        connections
            .iter()
            .flatten()
            .filter(|connection| is_over(connection))
            .count()
            == 2000 - ALLOWED
    });
    assert!(
        most <= rest.threads + ALLOWED,
        "{most} threads for {ALLOWED} clients"
    );
    assert!(
        turned_away,
        "{most} threads; those that have no place are left waiting"
    );
    drop(connections);
    assert_survived(server, rest, resident);
}

fn is_over(connection: &TcpStream) -> bool {
    let _ = connection.set_nonblocking(true);
    match connection.peek(&mut [0; 1]) {
        Ok(length) => length == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// Every pairing of socket type, protocol and family, sensible or not, is answered at once; so are the
/// tests over interfaces that nothing on Linux provides.
fn odd_transports() {
    let server = Server::start("--data-wait 1");
    let rest = server.idle_usage();
    let resident = server.resident_kib();
    let protocols = [0, 1, 6, 17, 33, 132, 136, 255, 262, u32::MAX];
    let families = [0, 1, 4, 6, 7, 10, 26, 40, u32::MAX];
    for socket_type in [-1, 0, 1, 2, 3, 4, 5, 6, i32::MAX] {
        for protocol in protocols {
            for family in families {
                let mut raw = Raw::connect(server.port);
                let request = Request::Omni(TestRequest {
                    socket_type,
                    protocol,
                    family,
                    ..Kind::UdpStream.request(1)
                });
                raw.send(&request);
                // Accepted or refused; what it would take is not waited for.
                raw.receive()
                    .unwrap_or_else(|error| panic!("{request:?}: {error}"));
            }
        }
    }
    let mut raw = Raw::connect(server.port);
    for kind in (55..=67).chain(540..=552) {
        raw.send(&Request::Unknown(kind));
        assert_eq!(raw.refusal(), Ok(netperf::wire::UNKNOWN_REQUEST), "{kind}");
    }
    drop(raw);
    assert_survived(server, rest, resident);
}

#[track_caller]
fn assert_survived(mut server: Server, rest: testkit::ProcessUsage, resident_kib: u64) {
    assert!(
        server.is_running(),
        "the server is gone; log: {}",
        server.log()
    );
    assert!(!server.has_panicked(), "{}", server.log());
    server.assert_usage_returns_to(rest, Duration::from_secs(10), "all that");
    server.assert_serves();
    let grown = server.resident_kib().saturating_sub(resident_kib);
    assert!(grown <= GROWTH_KIB, "the server keeps {grown} KiB");
}
