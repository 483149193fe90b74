//! iperf 2 servers whose client disconnects or stops in any phase of a test. The server releases
//! all resources of the test within its deadline.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

use rustix::process::Signal;
use testkit::Requirement::Program;
use testkit::{Server, TestCase, TestProcess, run_in_parallel, test_cases, wait_until};

use super::{
    CommandBuilder, SHORT_TIMEOUT, assert_serves, our_iperf2, start_idle_server, start_server,
    stock_iperf2,
};

/// The longest deadline of a flow is 70 s, so that one datagram per minute keeps it alive. All
/// waits multiply this timeout by 4.
pub(crate) const DEADLINE: Duration = Duration::from_secs(25);

/// Flags and upper flags of a header of `-t 1`: without more options, with `-R`, `--full-duplex`.
const HEADERS: [&str; 3] = ["400100780000", "440100780400", "440100780800"];

/// Options of TCP clients.
const TCP_CLIENTS: [&str; 2] = ["-n 1M", "-R -t 0.2"];

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = test_cases![
        server_releases_disconnected_clients,
        server_releases_silent_clients,
        udp_server_releases_silent_clients,
    ];
    test_cases.extend(test_cases![
        needing &[Program("iperf")];
        server_releases_killed_and_stopped_clients,
    ]);
    test_cases
        .into_iter()
        .map(TestCase::allow_many_at_once)
        .collect()
}

/// Returns a header of 60 bytes with one of [`HEADERS`].
fn header(flags: &str) -> Vec<u8> {
    let (flags, upper) = flags.split_at(8);
    let mut bytes = vec![0; 60];
    bytes[..4].copy_from_slice(&u32::from_str_radix(flags, 16).unwrap().to_be_bytes());
    bytes[7] = 1;
    bytes[20..24].copy_from_slice(&(-100_i32).to_be_bytes());
    bytes[32..34].copy_from_slice(&u16::from_str_radix(upper, 16).unwrap().to_be_bytes());
    bytes[36..40].copy_from_slice(&0x0002_0001_u32.to_be_bytes());
    bytes[40..44].copy_from_slice(&0x0008_0003_u32.to_be_bytes());
    bytes
}

/// Returns the bytes that clients send before they stop, with names.
fn partial_messages() -> Vec<(String, Vec<u8>)> {
    let mut messages = vec![("no byte".to_owned(), Vec::new())];
    for flags in HEADERS {
        let header = header(flags);
        messages.push((format!("{flags}, part of the flags"), header[..3].to_vec()));
        messages.push((
            format!("{flags}, part of the header"),
            header[..40].to_vec(),
        ));
        messages.push((
            format!("{flags}, header and data"),
            [&header[..], &[b'x'; 10_000]].concat(),
        ));
        messages.push((format!("{flags}, header"), header));
    }
    let mut request = vec![0; 100];
    request[..8].copy_from_slice(&[0, 0x80, 0, 0, 0, 0, 0, 100]);
    messages.push((
        "part of a bounceback request".to_owned(),
        request[..70].to_vec(),
    ));
    messages.push(("bounceback request".to_owned(), request));
    messages
}

/// Returns a request for a reverse test whose second buffer is due hours after the first.
fn slow_reverse_request() -> Vec<u8> {
    let mut request = header(HEADERS[1]);
    request[20..24].copy_from_slice(&(-10_000_000_i32).to_be_bytes());
    request[48..52].copy_from_slice(&8_u32.to_be_bytes());
    request
}

fn connect_and_send(port: u16, bytes: &[u8]) -> TcpStream {
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a listening server");
    client.write_all(bytes).expect("a new connection");
    client
}

fn server_releases_disconnected_clients() {
    let (server, idle_usage) = start_idle_server(our_iperf2, "-i 0.1", &TCP_CLIENTS);
    for (name, bytes) in partial_messages() {
        drop(connect_and_send(server.port, &bytes));
        server.assert_usage_returns_to(idle_usage, SHORT_TIMEOUT, &format!("a disconnect, {name}"));
    }
    let mut client = connect_and_send(server.port, &slow_reverse_request());
    // The test has a rate of one byte per second.
    client.read_exact(&mut [0; 1]).expect("the first byte");
    drop(client);
    server.assert_usage_returns_to(idle_usage, SHORT_TIMEOUT, "a disconnect between two bytes");
    assert_serves(&server, our_iperf2, &TCP_CLIENTS);
    assert!(!server.has_panicked());
}

fn server_releases_silent_clients() {
    let (server, idle_usage) = start_idle_server(our_iperf2, "", &TCP_CLIENTS);
    let clients: Vec<_> = partial_messages()
        .iter()
        .map(|(_, bytes)| connect_and_send(server.port, bytes))
        .collect();
    assert_serves(&server, our_iperf2, &TCP_CLIENTS);
    server.assert_usage_returns_to(idle_usage, DEADLINE, "silence");
    assert_serves(&server, our_iperf2, &TCP_CLIENTS);
    drop(clients);
}

fn udp_server_releases_silent_clients() {
    const UDP_CLIENTS: [&str; 1] = ["-u -n 20K"];
    let (server, idle_usage) = start_idle_server(our_iperf2, "-u", &UDP_CLIENTS);
    let mut sockets: Vec<UdpSocket> = Vec::new();
    for flags in HEADERS {
        let mut datagram = vec![0; 1470];
        datagram[3] = 1;
        datagram[16..76].copy_from_slice(&header(flags));
        datagram[16] |= 0x08;
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        for _ in 0..3 {
            client
                .send_to(&datagram, (Ipv4Addr::LOCALHOST, server.port))
                .expect("loopback");
            datagram[3] += 1;
        }
        sockets.push(client);
    }
    assert_serves(&server, our_iperf2, &UDP_CLIENTS);
    server.assert_usage_returns_to(idle_usage, DEADLINE, "silence");
    assert_serves(&server, our_iperf2, &UDP_CLIENTS);
    drop(sockets);
}

/// Options of clients.
pub(crate) const CLIENTS: [&str; 7] = [
    "-b 8M",
    "-R -b 8M",
    "--full-duplex -b 8M",
    "-P 4",
    "--bounceback",
    "-u -b 1M",
    "-u -R -b 1M",
];

/// Starts a server for a client with the options `client`.
#[track_caller]
pub(crate) fn start_server_for(
    command_with: CommandBuilder,
    client: &str,
    options: &str,
) -> Server {
    let udp = if client.contains("-u") { "-u" } else { "" };
    start_server(command_with, &format!("{udp} {options}"))
}

fn server_releases_killed_and_stopped_clients() {
    run_in_parallel(
        [&CLIENTS[..5], &CLIENTS[5..]]
            .into_iter()
            .flat_map(|clients| {
                [Signal::KILL, Signal::STOP]
                    .map(|signal| move || assert_releases_signalled_clients(clients, signal))
            }),
    );
}

/// Sends a signal to linerate's and stock's clients with these options while they run.
fn assert_releases_signalled_clients(client_options: &[&str], signal: Signal) {
    let is_udp = client_options[0].contains("-u");
    let simple_clients = [if is_udp {
        "-u -b 8M -n 100K"
    } else {
        "-n 100K"
    }];
    let (server, idle_usage) = start_idle_server(
        our_iperf2,
        if is_udp { "-u -i 1" } else { "-i 1" },
        &simple_clients,
    );
    let start = |options: &&str| {
        let line = format!("-c 127.0.0.1 -p {} -t 60 -i 0.1 {options}", server.port);
        [our_iperf2, stock_iperf2].map(|command_with| TestProcess::start(&mut command_with(&line)))
    };
    let mut clients: Vec<TestProcess> = client_options.iter().flat_map(start).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        // A stock bounceback client gives up if an answer is late. It may print nothing then.
        let is_stock = index % 2 == 1;
        let has_started = wait_until(SHORT_TIMEOUT, || {
            let has_given_up =
                !client.is_running() || client.stderr().contains("bounce-back read failed");
            client.stdout().contains("/sec") || is_stock && has_given_up
        });
        assert!(has_started, "{} {}", client.stdout(), client.stderr());
    }
    for client in &clients {
        client.signal(signal);
    }
    server.assert_usage_returns_to(idle_usage, DEADLINE, &format!("{signal:?}"));
    drop(clients);
    assert_serves(&server, our_iperf2, &simple_clients);
}
