//! Extreme headers of iperf 2. All fields have their minimum or maximum. The server still serves
//! the next client, and does not allocate the requested memory.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

use iperf::wire::flags::{self, upper};
use iperf::wire::{
    BounceMessage, BurstParameters, Extension, Hello, HelloTransport, SendAmount, TestStart,
    WallTime,
};
use testkit::{Receive, Server, TestCase, TestProcess};

pub(super) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        survives_extreme_tcp_headers,
        survives_extreme_bounceback_messages,
        survives_extreme_udp_headers,
        returns_memory_of_large_buffers,
    ]
}

/// Timeout of a client on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Upper bound of a server's resident memory.
const MAX_RESIDENT_KIB: u64 = 200 << 10;

/// Returns headers of each kind of test, with minimum and maximum values of all other fields.
fn headers() -> Vec<Hello> {
    let kind_flags = [
        (0, 0),
        (flags::VERSION2, upper::REVERSE),
        (flags::VERSION2, upper::FULL_DUPLEX),
        (
            flags::VERSION2,
            upper::REVERSE | upper::ISOCHRONOUS | upper::SETTINGS,
        ),
        (
            flags::VERSION2,
            upper::REVERSE | upper::BURSTS | upper::TRIP_TIMES,
        ),
        (
            flags::VERSION2,
            upper::REVERSE | upper::PREFETCH | upper::FQ_RATE,
        ),
        (0, upper::EPOCH_START | upper::TRIP_TIMES),
        (0, u16::MAX),
    ];
    let mut headers = Vec::new();
    for (flags, upper) in kind_flags {
        for (value, amount) in [
            (0, SendAmount::Bytes(0)),
            (1, SendAmount::Bytes(1)),
            (u32::MAX, LONGEST_TEST),
        ] {
            let at = WallTime::after_epoch(Duration::from_secs(value.into()));
            headers.push(Hello {
                flags: flags | flags::EXTEND,
                flows: value & 0x7fff_ffff,
                transfer_id: Some(value).filter(|id| *id == 1),
                port: 0,
                length: value,
                window: value,
                amount,
                extension: Some(Extension {
                    upper,
                    type_of_service: value as u8,
                    rate: value.into(),
                    prefetch: value,
                    ..Extension::default()
                }),
                start: Some(TestStart {
                    at,
                    fq_rate: u64::MAX * u64::from(value.min(1)),
                }),
                bursts: Some(BurstParameters {
                    rate: [value; 2],
                    mean: [value; 2],
                    variance: [value; 2],
                    gap: [value; 2],
                }),
                congestion_control: (value == 1).then(|| "x".repeat(15)),
                key: None,
            });
        }
    }
    headers
}

const LONGEST_TEST: SendAmount = SendAmount::Time(Duration::from_secs(20_000_000));

fn survives_extreme_tcp_headers() {
    let server = Server::start_with(|port| format!("iperf -s -p {port}"));
    for header in headers() {
        send_and_disconnect(&server, &header.encode(HelloTransport::Stream));
    }
    assert_serves(server.port, "");
    let resident_kib = server.resident_kib();
    assert!(
        resident_kib < MAX_RESIDENT_KIB && !server.has_panicked(),
        "{resident_kib} KiB: {}",
        server.log()
    );
}

/// Clients request data in buffers of 16 MiB and disconnect.
fn returns_memory_of_large_buffers() {
    const CLIENTS: usize = 16;
    const MAX_GROWTH_KIB: u64 = 10 << 10;
    let server = Server::start_with(|port| format!("iperf -s -p {port}"));
    assert_serves(server.port, "");
    let idle_kib = server.resident_kib();
    let header = Hello {
        flags: flags::VERSION2 | flags::EXTEND,
        flows: 1,
        length: 16 << 20,
        amount: LONGEST_TEST,
        extension: Some(Extension {
            upper: upper::REVERSE,
            ..Extension::default()
        }),
        ..Hello::default()
    };
    let header = header.encode(HelloTransport::Stream);
    for _ in 0..2 {
        let clients = [(); CLIENTS].map(|()| {
            let mut client = TcpStream::connect(("127.0.0.1", server.port)).expect("a server");
            client.write_all(&header).expect("a server");
            client
        });
        for mut client in clients {
            let data = client.read_exact(&mut [0]);
            assert!(data.is_ok(), "{data:?}: {}", server.log());
        }
    }
    let is_returned = || server.resident_kib() <= idle_kib + MAX_GROWTH_KIB;
    assert!(
        testkit::wait_until(TIMEOUT, is_returned),
        "{idle_kib} KiB before, {} KiB after",
        server.resident_kib()
    );
}

fn survives_extreme_bounceback_messages() {
    let server = Server::start_with(|port| format!("iperf -s -p {port}"));
    for size in [0, 1, 63, 64, u32::MAX] {
        for hold in [Duration::ZERO, Duration::from_secs(4000)] {
            let mut message = vec![0; 100];
            BounceMessage {
                size,
                number: 1,
                quick_ack: true,
                synchronised: false,
                type_of_service: Some(255),
                stop: false,
                sent: WallTime::default(),
                served: None,
                hold,
                reply_bytes: (!hold.is_zero()).then_some(size),
            }
            .write(&mut message);
            send_and_disconnect(&server, &message);
        }
    }
    assert_serves(server.port, "");
    let resident_kib = server.resident_kib();
    assert!(
        resident_kib < MAX_RESIDENT_KIB && !server.has_panicked(),
        "{resident_kib} KiB: {}",
        server.log()
    );
}

/// Sends bytes, reads part of the reply, and disconnects.
fn send_and_disconnect(server: &Server, bytes: &[u8]) {
    let mut client = TcpStream::connect(("127.0.0.1", server.port)).expect("a listening server");
    let timeout = Some(Duration::from_millis(30));
    client.set_read_timeout(timeout).expect("not zero");
    let _ = client.write_all(bytes);
    let _ = client.receive(&mut [0; 4096]);
}

fn survives_extreme_udp_headers() {
    let server = super::start_server(super::our_iperf2, "-u");
    for header in headers() {
        let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
        client
            .connect(("127.0.0.1", server.port))
            .expect("an address");
        let timeout = Some(Duration::from_millis(30));
        client.set_read_timeout(timeout).expect("not zero");
        let numbered = Hello {
            flags: header.flags | flags::UDP_TESTS | flags::WIDE_NUMBERS,
            ..header
        };
        let mut datagram = vec![0; 16];
        datagram[3] = 1;
        datagram.extend(numbered.encode(HelloTransport::Datagram));
        let _ = client.send(&datagram);
        let _ = client.receive(&mut [0; 4096]);
    }
    assert_serves(server.port, "-u");
    assert!(!server.has_panicked(), "{}", server.stderr());
}

/// Fails the test unless the server serves a client.
#[track_caller]
fn assert_serves(port: u16, options: &str) {
    let line = format!("-c 127.0.0.1 -p {port} {options} -n 20000");
    let client = TestProcess::start(&mut super::our_iperf2(&line)).finish(TIMEOUT);
    assert_eq!(client.code, Some(0), "{client:#?}");
}
