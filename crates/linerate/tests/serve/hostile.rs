//! Hostile bytes, which are mutated recordings, at every port during tests of honest clients.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use socket2::{Domain, Protocol, Socket, Type};
use testkit::Requirement::Namespaces;
use testkit::fuzz::{choose, damage};
use testkit::{Receive, TestCase, run_in_parallel, test_case};

use super::{
    MAX_GROWTH_KIB, PORTS, SESSION_TIMEOUT, Serving, TIMEOUT, assert_log_matches, is_honest, size,
};
use crate::udpmon::recordings;

/// Number of sending threads.
const SENDERS: u64 = 8;

pub(super) fn test_cases() -> Vec<TestCase> {
    vec![test_case(
        "survives_hostile_bytes_at_every_port",
        &[Namespaces],
        survives_hostile_bytes_at_every_port,
    )]
}

/// A port and recorded messages of its clients.
struct Target {
    port: u16,
    is_udp: bool,
    recorded: Vec<Vec<u8>>,
}

fn survives_hostile_bytes_at_every_port() {
    let (count, seconds) = size((100_000, 60), (8_000, 6));
    let serving = Serving::start("");
    serving.assert_serves();
    let targets = targets();
    attack(&targets, count);
    serving.await_idle(SESSION_TIMEOUT);
    serving.server.settled_usage();
    let (idle_usage, idle_kib) = (
        serving.server.settled_usage(),
        serving.server.resident_kib(),
    );

    let clients: Vec<_> = Serving::available_clients()
        .into_iter()
        .filter(|client| !client.name.starts_with("our"))
        .collect();
    let old_lines = serving.log().len();
    let processes: Vec<_> = clients
        .iter()
        .map(|client| (*client, serving.start_client(client, seconds)))
        .collect();
    serving.await_tests(clients.len());
    attack(&targets, count);
    let timeout = TIMEOUT + Duration::from_secs(seconds.into());
    let results: Vec<_> = processes
        .into_iter()
        .map(|(client, process)| (client, process.finish(timeout)))
        .collect();
    serving
        .server
        .assert_usage_returns_to(idle_usage, SESSION_TIMEOUT, "hostile bytes");
    serving.await_idle(SESSION_TIMEOUT);
    // A hostile client may have started a test, whose line has another address.
    let log = serving
        .log()
        .split_off(old_lines)
        .into_iter()
        .filter(is_honest)
        .collect();
    assert_log_matches(results, seconds, log);
    let final_kib = serving.server.resident_kib();
    assert!(
        final_kib <= idle_kib + MAX_GROWTH_KIB,
        "{final_kib} KiB, idle {idle_kib} KiB"
    );
    assert!(!serving.server.has_panicked(), "{}", serving.server.log());
    serving.assert_serves();
    serving.server.terminate().assert_success();
}

/// Sends `count` mutated recordings to random targets. The source addresses differ from those of
/// honest clients.
fn attack(targets: &[Target], count: u64) {
    let sent_count = AtomicU64::new(0);
    let has_failed = AtomicBool::new(false);
    let send = |sender: u64| {
        let (sent_count, has_failed) = (&sent_count, &has_failed);
        move || {
            let mut rng = SmallRng::seed_from_u64(sender);
            while sent_count.fetch_add(1, Relaxed) < count {
                let target = choose(&mut rng, targets);
                let recorded: &Vec<u8> = choose(&mut rng, &target.recorded);
                let bytes = damage(&mut rng, recorded);
                let from = Ipv4Addr::new(127, 1, rng.random(), rng.random_range(1..255));
                let result = if target.is_udp {
                    send_datagram(from, target.port, &bytes)
                } else {
                    send_stream(from, target.port, &bytes, &mut rng)
                };
                if result.is_none() {
                    has_failed.store(true, Relaxed);
                }
            }
        }
    };
    run_in_parallel((0..SENDERS).map(send));
    assert!(!has_failed.load(Relaxed), "a port is unreachable");
}

fn send_datagram(from: Ipv4Addr, port: u16, bytes: &[u8]) -> Option<()> {
    let socket = UdpSocket::bind((from, 0)).ok()?;
    // On loopback the send may return the error of an earlier datagram.
    let _ = socket.send_to(bytes, (Ipv4Addr::LOCALHOST, port));
    Some(())
}

/// Sends bytes on a new connection, and sometimes reads part of the answer. Then resets the
/// connection, so that no port stays in TIME_WAIT.
fn send_stream(from: Ipv4Addr, port: u16, bytes: &[u8], rng: &mut SmallRng) -> Option<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).ok()?;
    socket.bind(&SocketAddr::from((from, 0)).into()).ok()?;
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    socket.connect_timeout(&to.into(), TIMEOUT).ok()?;
    socket.set_linger(Some(Duration::ZERO)).ok()?;
    let mut stream = TcpStream::from(socket);
    // The server may refuse any byte.
    let _ = stream.write_all(bytes);
    if rng.random_bool(0.2) {
        let _ = stream.set_read_timeout(Some(Duration::from_millis(5)));
        let _ = stream.receive(&mut [0; 4096]);
    }
    Some(())
}

fn targets() -> Vec<Target> {
    let tcp = |port, recorded| Target {
        port,
        is_udp: false,
        recorded,
    };
    let udp = |port, recorded| Target {
        port,
        is_udp: true,
        recorded,
    };
    let netperf = parse_words(
        include_str!("../../../netperf/tests/data/transcripts.txt"),
        656,
        |line| line.strip_prefix("> "),
    );
    let uperf = parse_words(
        include_str!("../../../uperf/tests/data/transcripts.txt"),
        0,
        |line| {
            let mut words = line.strip_prefix("> ")?.splitn(3, ' ');
            words.nth(2)
        },
    );
    let iperf =
        |kind: &str| iperf_messages(include_str!("../../../iperf/tests/data/messages.txt"), kind);
    vec![
        tcp(PORTS.netperf, netperf),
        tcp(PORTS.uperf, concatenate(&uperf)),
        tcp(PORTS.iperf, iperf("stream")),
        udp(PORTS.iperf, iperf("datagram")),
        tcp(PORTS.iperf3, iperf3_parameters()),
        udp(PORTS.udpmon, udpmon_requests()),
    ]
}

/// Parses messages of hexadecimal words. `*N` stands for N zero words. The recordings omit zeros at
/// the end, so messages are padded to `min_len`.
fn parse_words<'a>(
    text: &'a str,
    min_len: usize,
    words: impl Fn(&'a str) -> Option<&'a str>,
) -> Vec<Vec<u8>> {
    let message = |line: &'a str| {
        let mut bytes = Vec::new();
        for word in words(line)?.split(' ') {
            match word.strip_prefix('*') {
                Some(count) => bytes.resize(bytes.len() + 4 * count.parse::<usize>().ok()?, 0),
                None => bytes.extend(u32::from_str_radix(word, 16).ok()?.to_be_bytes()),
            }
        }
        bytes.resize(bytes.len().max(min_len), 0);
        Some(bytes)
    };
    text.lines().filter_map(message).collect()
}

/// Concatenates each five consecutive messages, because a connection carries several.
fn concatenate(messages: &[Vec<u8>]) -> Vec<Vec<u8>> {
    messages.windows(5).map(<[Vec<u8>]>::concat).collect()
}

fn iperf_messages(text: &str, kind: &str) -> Vec<Vec<u8>> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.splitn(3, ' ');
        let (_, message_kind) = (words.next()?, words.next()?);
        let hex = words.next().filter(|_| message_kind == kind)?;
        let byte = |index| u8::from_str_radix(hex.get(index..index + 2)?, 16).ok();
        (0..hex.len()).step_by(2).map(byte).collect()
    });
    lines.collect()
}

/// Returns messages of a cookie, and parameters with their length.
fn iperf3_parameters() -> Vec<Vec<u8>> {
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

fn udpmon_requests() -> Vec<Vec<u8>> {
    let packets = recordings::transcripts()
        .iter()
        .flat_map(|run| &run.packets);
    let requests = packets.filter(|packet| packet.is_request);
    requests.map(|packet| packet.bytes.clone()).collect()
}
