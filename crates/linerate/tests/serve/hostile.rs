//! Hostile bytes at every port, mutated from recordings, while honest clients measure.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use socket2::{Domain, Protocol, Socket, Type};
use testkit::Requirement::Namespaces;
use testkit::fuzz::{choose, damage};
use testkit::{TestCase, run_in_parallel, test_case};

use super::{IDLE, PATIENCE, PORTS, SLACK_KIB, Serving, all_are_right, is_honest, size};
use crate::udpmon::recordings;

/// Threads that send.
const SENDERS: u64 = 8;

pub(super) fn test_cases() -> Vec<TestCase> {
    vec![test_case(
        "hostile_bytes_at_every_port",
        &[Namespaces],
        hostile_bytes,
    )]
}

/// A port and what its clients send first, in one or more pieces.
struct Door {
    port: u16,
    is_udp: bool,
    recorded: Vec<Vec<u8>>,
}

fn hostile_bytes() {
    let (count, seconds) = size((100_000, 60), (8_000, 6));
    let serving = Serving::start("");
    serving.serves();
    let doors = doors();
    attack(&doors, count);
    serving.await_rest(IDLE);
    serving.server.settled_usage();
    let (rest, resident) = (
        serving.server.settled_usage(),
        serving.server.resident_kib(),
    );

    let clients: Vec<_> = Serving::clients()
        .into_iter()
        .filter(|client| !client.name.starts_with("our"))
        .collect();
    let before = serving.log().len();
    let running: Vec<_> = clients
        .iter()
        .map(|client| (*client, serving.begin(client, seconds)))
        .collect();
    serving.await_tests(clients.len());
    attack(&doors, count);
    let patience = PATIENCE + Duration::from_secs(seconds.into());
    let ended: Vec<_> = running
        .into_iter()
        .map(|(client, process)| (client, process.finish(patience)))
        .collect();
    serving
        .server
        .assert_usage_returns_to(rest, IDLE, "hostile bytes");
    serving.await_rest(IDLE);
    // A hostile client may have begun a test, which has a line too, and another address.
    let log = serving
        .log()
        .split_off(before)
        .into_iter()
        .filter(is_honest)
        .collect();
    all_are_right(ended, seconds, log);
    let now = serving.server.resident_kib();
    assert!(
        now <= resident + SLACK_KIB,
        "{now} KiB, before {resident} KiB"
    );
    assert!(!serving.server.has_panicked(), "{}", serving.server.log());
    serving.serves();
    let end = serving.server.terminate();
    assert_eq!(end.code, Some(0), "{end:#?}");
}

/// Sends `count` mutated recordings to all doors, from other addresses than the honest clients'.
fn attack(doors: &[Door], count: u64) {
    let next = AtomicU64::new(0);
    let failed = AtomicBool::new(false);
    let send = |sender: u64| {
        let (next, failed) = (&next, &failed);
        move || {
            let mut rng = SmallRng::seed_from_u64(sender);
            while next.fetch_add(1, Relaxed) < count {
                let door = choose(&mut rng, doors);
                let recorded: &Vec<u8> = choose(&mut rng, &door.recorded);
                let bytes = damage(&mut rng, recorded);
                let from = Ipv4Addr::new(127, 1, rng.random(), rng.random_range(1..255));
                let sent = if door.is_udp {
                    send_datagram(from, door.port, &bytes)
                } else {
                    send_stream(from, door.port, &bytes, &mut rng)
                };
                if sent.is_none() {
                    failed.store(true, Relaxed);
                }
            }
        }
    };
    run_in_parallel((0..SENDERS).map(send));
    assert!(!failed.load(Relaxed), "a door does not open any more");
}

fn send_datagram(from: Ipv4Addr, port: u16, bytes: &[u8]) -> Option<()> {
    let socket = UdpSocket::bind((from, 0)).ok()?;
    // What comes from a socket of loopback may be refused, which is told to the next one.
    let _ = socket.send_to(bytes, (Ipv4Addr::LOCALHOST, port));
    Some(())
}

/// The bytes, and sometimes a look at the answer; then a reset, so that no port stays in TIME_WAIT.
fn send_stream(from: Ipv4Addr, port: u16, bytes: &[u8], rng: &mut SmallRng) -> Option<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).ok()?;
    socket.bind(&SocketAddr::from((from, 0)).into()).ok()?;
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    socket.connect_timeout(&to.into(), PATIENCE).ok()?;
    socket.set_linger(Some(Duration::ZERO)).ok()?;
    let mut stream = TcpStream::from(socket);
    // It may refuse at any byte.
    let _ = stream.write_all(bytes);
    if rng.random_bool(0.2) {
        let _ = stream.set_read_timeout(Some(Duration::from_millis(5)));
        let _ = stream.read(&mut [0; 4096]);
    }
    Some(())
}

fn doors() -> Vec<Door> {
    let tcp = |port, recorded| Door {
        port,
        is_udp: false,
        recorded,
    };
    let udp = |port, recorded| Door {
        port,
        is_udp: true,
        recorded,
    };
    let netperf = words(
        include_str!("../../../netperf/tests/data/transcripts.txt"),
        656,
        |line| line.strip_prefix("> "),
    );
    let uperf = words(
        include_str!("../../../uperf/tests/data/transcripts.txt"),
        0,
        |line| {
            let mut words = line.strip_prefix("> ")?.splitn(3, ' ');
            words.nth(2)
        },
    );
    let of_iperf =
        |kind: &str| hexadecimal(include_str!("../../../iperf/tests/data/messages.txt"), kind);
    vec![
        tcp(PORTS.netperf, netperf),
        tcp(PORTS.uperf, joined(&uperf)),
        tcp(PORTS.iperf, of_iperf("stream")),
        udp(PORTS.iperf, of_iperf("datagram")),
        tcp(PORTS.iperf3, parameters()),
        udp(PORTS.udpmon, requests()),
    ]
}

/// Messages of hexadecimal words, where `*N` stands for N words of zero; zeros at the end are left out.
fn words<'a>(
    text: &'a str,
    length: usize,
    rest: impl Fn(&'a str) -> Option<&'a str>,
) -> Vec<Vec<u8>> {
    let message = |line: &'a str| {
        let mut bytes = Vec::new();
        for word in rest(line)?.split(' ') {
            match word.strip_prefix('*') {
                Some(count) => bytes.resize(bytes.len() + 4 * count.parse::<usize>().ok()?, 0),
                None => bytes.extend(u32::from_str_radix(word, 16).ok()?.to_be_bytes()),
            }
        }
        bytes.resize(bytes.len().max(length), 0);
        Some(bytes)
    };
    text.lines().filter_map(message).collect()
}

/// A few neighbours together: the messages of one connection follow one another.
fn joined(messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    messages.windows(5).map(<[Vec<u8>]>::concat).collect()
}

fn hexadecimal(text: &str, kind: &str) -> Vec<Vec<u8>> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.splitn(3, ' ');
        let (_, found) = (words.next()?, words.next()?);
        let hex = words.next().filter(|_| found == kind)?;
        let byte = |at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
        (0..hex.len()).step_by(2).map(byte).collect()
    });
    lines.collect()
}

/// A cookie, and the parameters behind their length.
fn parameters() -> Vec<Vec<u8>> {
    let text = include_str!("../../../iperf3/src/wire/fixtures.txt");
    let lines = text.lines().filter_map(|line| {
        let mut words = line.splitn(3, ' ');
        let (_, kind) = (words.next()?, words.next()?);
        let json = words.next().filter(|_| kind == "parameters")?;
        let mut bytes = b"abcdefghijklmnopqrstuvwxyz0123456789\0".to_vec();
        bytes.extend((json.len() as u32).to_be_bytes());
        bytes.extend(json.bytes());
        Some(bytes)
    });
    lines.collect()
}

fn requests() -> Vec<Vec<u8>> {
    let packets = recordings::all().iter().flat_map(|run| &run.packets);
    let requests = packets.filter(|packet| packet.is_request);
    requests.map(|packet| packet.bytes.clone()).collect()
}
