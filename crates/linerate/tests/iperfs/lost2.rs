//! An iperf 2 whose peer dies, or says nothing any more, in each phase of a test: it reports that in one line within
//! its deadline, and has nothing left of the test.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

use rustix::process::Signal;
use testkit::{Server, TestCase, TestProcess, run_in_parallel, test_cases, wait_until};

use super::{
    AT_ONCE, Held, Make, ours2, server_at_rest, server_of, serves, stock2, stock2_missing,
};

/// The longest deadline of a flow is 70 s, so that a datagram a minute holds it: [`eventually`] waits four times as long
/// as this.
pub(crate) const DEADLINE: Duration = Duration::from_secs(25);

/// The header of `-t 1`, and what it asks for besides: nothing, `-R`, `--full-duplex`.
const HEADERS: [&str; 3] = ["400100780000", "440100780400", "440100780800"];

/// Clients of streams.
const STREAMS: [&str; 2] = ["-n 1M", "-R -t 0.2"];

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = test_cases![
        a_server_outlives_clients_that_die,
        a_server_outlives_clients_that_say_nothing,
        a_datagram_server_outlives_clients_that_say_nothing,
    ];
    test_cases.push(testkit::test_case_unless(
        stock2_missing(),
        "a_server_outlives_processes_that_are_killed_or_stopped",
        || {
            a_server_outlives_processes_that_are_killed_or_stopped();
            Ok(())
        },
    ));
    test_cases.into_iter().map(TestCase::allow_many).collect()
}

/// A header of 60 bytes.
fn header(kind: &str) -> Vec<u8> {
    let (flags, upper) = kind.split_at(8);
    let mut bytes = vec![0; 60];
    bytes[..4].copy_from_slice(&u32::from_str_radix(flags, 16).unwrap().to_be_bytes());
    bytes[7] = 1;
    bytes[20..24].copy_from_slice(&(-100_i32).to_be_bytes());
    bytes[32..34].copy_from_slice(&u16::from_str_radix(upper, 16).unwrap().to_be_bytes());
    bytes[36..40].copy_from_slice(&0x0002_0001_u32.to_be_bytes());
    bytes[40..44].copy_from_slice(&0x0008_0003_u32.to_be_bytes());
    bytes
}

/// What clients send before they stop, with its name.
fn parts() -> Vec<(String, Vec<u8>)> {
    let mut parts = vec![("no byte".to_owned(), Vec::new())];
    for kind in HEADERS {
        let header = header(kind);
        parts.push((format!("{kind}, within the flags"), header[..3].to_vec()));
        parts.push((format!("{kind}, within the header"), header[..40].to_vec()));
        parts.push((
            format!("{kind}, data"),
            [&header[..], &[b'x'; 10_000]].concat(),
        ));
        parts.push((format!("{kind}, the header"), header));
    }
    let mut bounce = vec![0; 100];
    bounce[..8].copy_from_slice(&[0, 0x80, 0, 0, 0, 0, 0, 100]);
    parts.push(("within a bounce".to_owned(), bounce[..70].to_vec()));
    parts.push(("a bounce".to_owned(), bounce));
    parts
}

/// Requests a reverse test whose second buffer is due hours after the first one.
fn slow_reverse() -> Vec<u8> {
    let mut slow = header(HEADERS[1]);
    slow[20..24].copy_from_slice(&(-10_000_000_i32).to_be_bytes());
    slow[48..52].copy_from_slice(&8_u32.to_be_bytes());
    slow
}

fn client(port: u16, bytes: &[u8]) -> TcpStream {
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    client.write_all(bytes).expect("a new connection");
    client
}

fn a_server_outlives_clients_that_die() {
    let (server, rest) = server_at_rest(ours2, "-i 0.1", &STREAMS);
    for (what, bytes) in parts() {
        drop(client(server.port, &bytes));
        server.assert_usage_returns_to(rest, AT_ONCE, &format!("a death, {what}"));
    }
    let mut slow = client(server.port, &slow_reverse());
    slow.read_exact(&mut [0; 1000]).expect("the first buffer");
    drop(slow);
    server.assert_usage_returns_to(rest, AT_ONCE, "a death between two buffers");
    serves(&server, ours2, &STREAMS);
    assert!(!server.has_panicked());
}

fn a_server_outlives_clients_that_say_nothing() {
    let (server, rest) = server_at_rest(ours2, "", &STREAMS);
    let clients: Vec<_> = parts()
        .iter()
        .map(|(_, bytes)| client(server.port, bytes))
        .collect();
    serves(&server, ours2, &STREAMS);
    server.assert_usage_returns_to(rest, DEADLINE, "silence");
    serves(&server, ours2, &STREAMS);
    drop(clients);
}

fn a_datagram_server_outlives_clients_that_say_nothing() {
    const DATAGRAMS: [&str; 1] = ["-u -n 20K"];
    let (server, rest) = server_at_rest(ours2, "-u", &DATAGRAMS);
    let mut held: Held = Vec::new();
    for kind in HEADERS {
        let mut datagram = vec![0; 1470];
        datagram[3] = 1;
        datagram[16..76].copy_from_slice(&header(kind));
        datagram[16] |= 0x08;
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        for _ in 0..3 {
            client
                .send_to(&datagram, (Ipv4Addr::LOCALHOST, server.port))
                .expect("loopback");
            datagram[3] += 1;
        }
        held.push(Box::new(client));
    }
    serves(&server, ours2, &DATAGRAMS);
    server.assert_usage_returns_to(rest, DEADLINE, "silence");
    serves(&server, ours2, &DATAGRAMS);
    drop(held);
}

pub(crate) const KINDS: [&str; 7] = [
    "-b 8M",
    "-R -b 8M",
    "--full-duplex -b 8M",
    "-P 4",
    "--bounceback",
    "-u -b 1M",
    "-u -R -b 1M",
];

/// A server that takes clients of this kind.
#[track_caller]
pub(crate) fn server_for(make: Make, kind: &str, options: &str) -> Server {
    let udp = if kind.contains("-u") { "-u" } else { "" };
    server_of(make, &format!("{udp} {options}"))
}

fn a_server_outlives_processes_that_are_killed_or_stopped() {
    run_in_parallel([&KINDS[..5], &KINDS[5..]].into_iter().flat_map(|kinds| {
        [Signal::KILL, Signal::STOP].map(|signal| move || a_server_outlives(kinds, signal))
    }));
}

/// Clients of these kinds, of both makes, get this signal while they run.
fn a_server_outlives(kinds: &[&str], signal: Signal) {
    let is_udp = kinds[0].contains("-u");
    let plain = [if is_udp {
        "-u -b 8M -n 100K"
    } else {
        "-n 100K"
    }];
    let (server, rest) = server_at_rest(ours2, if is_udp { "-u -i 1" } else { "-i 1" }, &plain);
    let start = |kind: &&str| {
        let line = format!("-c 127.0.0.1 -p {} -t 60 -i 0.1 {kind}", server.port);
        [ours2, stock2].map(|make| TestProcess::start(&mut make(&line)))
    };
    let mut clients: Vec<TestProcess> = kinds.iter().flat_map(start).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        // A stock bounceback client gives up where an answer is late, and may stay without a word.
        let is_stock = at % 2 == 1;
        let flows = wait_until(AT_ONCE, || {
            let has_given_up =
                !client.is_running() || client.stderr().contains("bounce-back read failed");
            client.stdout().contains("/sec") || is_stock && has_given_up
        });
        assert!(flows, "{} {}", client.stdout(), client.stderr());
    }
    for client in &clients {
        client.signal(signal);
    }
    server.assert_usage_returns_to(rest, DEADLINE, &format!("{signal:?}"));
    drop(clients);
    serves(&server, ours2, &plain);
}
