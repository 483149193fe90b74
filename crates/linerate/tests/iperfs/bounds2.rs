//! What a header of iperf 2 can make a server do: each of its words says the most and the least, and the server serves
//! the next client, without the memory that was asked for.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

use iperf::wire::flags::{self, upper};
use iperf::wire::{
    BounceMessage, BurstParameters, Extension, Hello, HelloTransport, SendAmount, TestStart,
    WallTime,
};
use testkit::{Server, TestCase, TestProcess};

pub(super) fn test_cases() -> Vec<TestCase> {
    testkit::test_cases![
        headers_of_streams,
        messages_of_bounceback,
        headers_of_datagrams
    ]
}

const PATIENCE: Duration = Duration::from_secs(20);

/// A server needs less, whatever it is asked for.
const MOST_KIB: u64 = 200 << 10;

/// Each kind of test with the least and the most of everything else.
fn headers(most_time: SendAmount) -> Vec<Hello> {
    let kinds = [
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
    for (flags, upper) in kinds {
        for (word, amount) in [
            (0, SendAmount::Bytes(0)),
            (1, SendAmount::Bytes(1)),
            (u32::MAX, most_time),
        ] {
            let at = WallTime::after_epoch(Duration::from_secs(word.into()));
            headers.push(Hello {
                flags: flags | flags::EXTEND,
                flows: word,
                port: 0,
                length: word,
                window: word,
                amount,
                extension: Some(Extension {
                    upper,
                    type_of_service: word as u8,
                    rate: word.into(),
                    prefetch: word,
                    ..Extension::default()
                }),
                start: Some(TestStart {
                    at,
                    fq_rate: u64::MAX * u64::from(word.min(1)),
                }),
                bursts: Some(BurstParameters {
                    rate: [word; 2],
                    mean: [word; 2],
                    variance: [word; 2],
                    gap: [word; 2],
                }),
                key: None,
            });
        }
    }
    headers
}

const LONG: SendAmount = SendAmount::Time(Duration::from_secs(20_000_000));

fn headers_of_streams() {
    let server = Server::start_with(|port| format!("iperf -s -p {port}"));
    for header in headers(LONG) {
        ask(&server, &header.encode(HelloTransport::Stream));
    }
    serves(server.port, "");
    let used = server.resident_kib();
    assert!(
        used < MOST_KIB && !server.has_panicked(),
        "{used} KiB: {}",
        server.log()
    );
}

fn messages_of_bounceback() {
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
            }
            .write(&mut message);
            ask(&server, &message);
        }
    }
    serves(server.port, "");
    let used = server.resident_kib();
    assert!(
        used < MOST_KIB && !server.has_panicked(),
        "{used} KiB: {}",
        server.log()
    );
}

/// Says this, reads a little of what comes, and goes away.
fn ask(server: &Server, bytes: &[u8]) {
    let mut client = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
    let soon = Some(Duration::from_millis(30));
    client.set_read_timeout(soon).expect("it is more than 0");
    let _ = client.write_all(bytes);
    let _ = client.read(&mut [0; 4096]);
}

fn headers_of_datagrams() {
    let server = super::server_of(super::ours2, "-u");
    for header in headers(LONG) {
        let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
        client
            .connect(("127.0.0.1", server.port))
            .expect("an address");
        let soon = Some(Duration::from_millis(30));
        client.set_read_timeout(soon).expect("it is more than 0");
        let numbered = Hello {
            flags: header.flags | flags::UDP_TESTS | flags::WIDE_NUMBERS,
            ..header
        };
        let mut datagram = vec![0; 16];
        datagram[3] = 1;
        datagram.extend(numbered.encode(HelloTransport::Datagram));
        let _ = client.send(&datagram);
        let _ = client.recv(&mut [0; 4096]);
    }
    serves(server.port, "-u");
    assert!(!server.has_panicked(), "{}", server.stderr());
}

#[track_caller]
fn serves(port: u16, options: &str) {
    let line = format!("-c 127.0.0.1 -p {port} {options} -n 20000");
    let client = TestProcess::start(&mut super::ours2(&line)).finish(PATIENCE);
    assert_eq!(client.code, Some(0), "{client:#?}");
}
