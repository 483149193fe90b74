//! An iperf 2 whose peer dies, or says nothing any more, in each phase of a test: it reports that in one line within
//! its deadline, and has nothing left of the test.

use std::any::Any;
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use testkit::{Process, Server, Trial, Usage, eventually, free_port, trials};

use super::{datagram_server, ours2, stock2, stock2_missing};

/// What needs no deadline: a connection has ended.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(5);

/// The longest deadline of a flow is 70 s, so that a datagram a minute holds it: [`eventually`] waits four times as long
/// as this.
pub(crate) const DEADLINE: Duration = Duration::from_secs(25);

/// The header of `-t 1`, and what it asks for besides: nothing, `-R`, `--full-duplex`.
const HEADERS: [&str; 3] = ["400100780000", "440100780400", "440100780800"];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = trials![
        a_server_outlives_clients_that_die,
        a_server_outlives_clients_that_say_nothing,
        a_datagram_server_outlives_clients_that_say_nothing,
    ];
    trials.push(testkit::unless(
        stock2_missing(),
        "a_server_outlives_processes_that_are_killed_or_stopped",
        || {
            a_server_outlives_processes_that_are_killed_or_stopped();
            Ok(())
        },
    ));
    trials.into_iter().map(Trial::waiting).collect()
}

type Held = Vec<Box<dyn Any + Send>>;

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

fn client(port: u16, bytes: &[u8]) -> TcpStream {
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    client.write_all(bytes).expect("a new connection");
    client
}

fn server(options: &str) -> (Server, Usage) {
    let server = Server::with(|port| format!("iperf -s -p {port} {options}"));
    serves(&server);
    let rest = server.settled_usage();
    (server, rest)
}

#[track_caller]
fn serves(server: &Server) {
    for kind in ["-n 1M", "-R -t 0.2"] {
        let line = format!("-c 127.0.0.1 -p {} {kind}", server.port);
        let client = testkit::run(ours2(&line), AT_ONCE).expect("it ends");
        assert_eq!(client.code, Some(0), "{client:#?}; {}", server.log());
    }
}

fn a_server_outlives_clients_that_die() {
    let (server, rest) = server("-i 0.1");
    for (what, bytes) in parts() {
        drop(client(server.port, &bytes));
        server.is_back_at(rest, AT_ONCE, &format!("a death, {what}"));
    }
    serves(&server);
    assert!(!server.panicked());
}

fn a_server_outlives_clients_that_say_nothing() {
    let (server, rest) = server("");
    let clients: Vec<_> = parts()
        .iter()
        .map(|(_, bytes)| client(server.port, bytes))
        .collect();
    serves(&server);
    server.is_back_at(rest, DEADLINE, "silence");
    serves(&server);
    drop(clients);
}

fn a_datagram_server_outlives_clients_that_say_nothing() {
    let (server, port) = datagram_server(ours2, "-u");
    let is_alive = || {
        let line = format!("-c 127.0.0.1 -p {port} -u -n 20K");
        let client = testkit::run(ours2(&line), AT_ONCE).expect("it ends");
        assert_eq!(client.code, Some(0), "{client:#?}");
    };
    is_alive();
    let rest = settled(server.pid());
    let mut held: Held = Vec::new();
    for kind in HEADERS {
        let mut datagram = vec![0; 1470];
        datagram[3] = 1;
        datagram[16..76].copy_from_slice(&header(kind));
        datagram[16] |= 0x08;
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        for _ in 0..3 {
            client
                .send_to(&datagram, (Ipv4Addr::LOCALHOST, port))
                .expect("loopback");
            datagram[3] += 1;
        }
        held.push(Box::new(client));
    }
    is_alive();
    let back = eventually(DEADLINE, || usage(server.pid()).is_within(rest));
    assert!(back, "{:?}, at rest {rest:?}", usage(server.pid()));
    is_alive();
    drop(held);
}

/// What a server has once that stays the same: it answers a client's last datagram for a while.
fn settled(pid: u32) -> Usage {
    let mut last = usage(pid);
    eventually(AT_ONCE, || {
        std::thread::sleep(Duration::from_millis(400));
        std::mem::replace(&mut last, usage(pid)) == last
    });
    last
}

fn usage(pid: u32) -> Usage {
    let count = |what| {
        let entries = std::fs::read_dir(format!("/proc/{pid}/{what}"));
        entries.map_or(0, Iterator::count)
    };
    Usage {
        descriptors: count("fd"),
        threads: count("task"),
    }
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

/// Starts a server that takes clients of this kind.
pub(crate) fn start_server(make: fn(&str) -> Command, kind: &str, options: &str) -> (Process, u16) {
    if kind.contains("-u") {
        return datagram_server(make, &format!("-u {options}"));
    }
    let port = free_port();
    let server = Process::start(&mut make(&format!("-s -p {port} {options}")));
    assert!(eventually(AT_ONCE, || testkit::is_listening(port)));
    (server, port)
}

fn a_server_outlives_processes_that_are_killed_or_stopped() {
    std::thread::scope(|scope| {
        for kinds in [&KINDS[..5], &KINDS[5..]] {
            for signal in [Signal::KILL, Signal::STOP] {
                scope.spawn(move || a_server_outlives(kinds, signal));
            }
        }
    });
}

/// Clients of these kinds, of both makes, get this signal while they run.
fn a_server_outlives(kinds: &[&str], signal: Signal) {
    let (server, port) = start_server(ours2, kinds[0], "-i 1");
    let is_alive = || {
        let udp = if kinds[0].contains("-u") {
            "-u -b 8M"
        } else {
            ""
        };
        let line = format!("-c 127.0.0.1 -p {port} -n 100K {udp}");
        let client = testkit::run(ours2(&line), AT_ONCE).expect("it ends");
        assert_eq!(client.code, Some(0), "{client:#?}");
    };
    is_alive();
    let rest = settled(server.pid());
    let start = |kind: &&str| {
        let line = format!("-c 127.0.0.1 -p {port} -t 60 -i 0.1 {kind}");
        [ours2, stock2].map(|make| Process::start(&mut make(&line)))
    };
    let mut clients: Vec<Process> = kinds.iter().flat_map(start).collect();
    for (at, client) in clients.iter_mut().enumerate() {
        // A stock bounceback client gives up where an answer is late.
        let is_stock = at % 2 == 1;
        let flows = eventually(AT_ONCE, || {
            client.stdout().contains("/sec") || is_stock && !client.is_running()
        });
        assert!(flows, "{} {}", client.stdout(), client.stderr());
    }
    for client in &clients {
        client.signal(signal);
    }
    let back = eventually(DEADLINE, || usage(server.pid()).is_within(rest));
    let now = usage(server.pid());
    assert!(
        back,
        "{signal:?}: {now:?}, at rest {rest:?}; {}",
        server.stderr()
    );
    drop(clients);
    is_alive();
}
