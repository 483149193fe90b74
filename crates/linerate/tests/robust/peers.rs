//! A test takes its data from its client, not from the first host that connects.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use netperf::wire::{AddressWords, Classic, Request, TestRequest};
use testkit::{
    Namespace, ProcessOutput, STOCK_NETPERF, Server, TestCase, TestProcess, add_link,
    linerate_with_args, listening_ports, stock_with_args, test_case, wait_until,
};

use super::raw::{Finally, Kind, Raw, stream_from};
use testkit::Requirement::Namespaces;

/// The server's address.
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// Where control connections come from.
const CLIENT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
/// Another address of the client.
const OTHER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 3);
/// An address that is no business of the test.
const STRANGER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 4);

/// How long a server prefers the client's address.
const PREFERENCE: Duration = Duration::from_secs(2);

/// How long a server may take for what it does at once.
const SOON: Duration = Duration::from_secs(10);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let namespaces = &[Namespaces];
    vec![
        test_case(
            "peers::the_first_is_a_stranger",
            namespaces,
            the_first_is_a_stranger,
        ),
        test_case("peers::later_connections", namespaces, later_connections),
        test_case(
            "peers::a_taken_port",
            &[STOCK_NETPERF, Namespaces],
            taken_port,
        ),
        test_case("peers::an_address_that_is_named", namespaces, named),
        test_case("peers::another_address", namespaces, another_address),
        test_case("peers::another_address_strictly", namespaces, strictly),
        test_case("peers::warnings", namespaces, warnings).allow_many(),
        test_case(
            "peers::who_connects_to_every_port",
            &[STOCK_NETPERF, Namespaces],
            connects_to_every_port,
        ),
        test_case(
            "peers::a_client_of_two_networks",
            &[STOCK_NETPERF, Namespaces],
            two_networks,
        ),
    ]
}

/// A server's host and a client's, which has several addresses on a link between them.
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

fn control(server: &Server) -> Raw {
    Raw::connect_to((SERVER, server.port).into())
}

fn connect_from(source: Ipv4Addr, port: u16) -> TcpStream {
    let socket = stream_from(source, (SERVER, port).into()).expect("the test listens");
    let patience = Some(Duration::from_secs(10));
    socket
        .set_read_timeout(patience)
        .expect("a timeout that is not zero");
    socket
}

/// Every request for a test with connections, with the bytes that the client sends first and whether the server
/// answers.
fn requests() -> Vec<(&'static str, Request, usize, bool)> {
    let stream = TestRequest {
        test_length: 10,
        ..TestRequest::classic()
    };
    let exchange = TestRequest {
        request_size: 1,
        response_size: 1,
        test_length: 10,
        ..TestRequest::classic()
    };
    let omni = |kind: Kind| Request::Omni(kind.request(10));
    vec![
        ("omni stream", omni(Kind::TcpStream), 1, false),
        ("omni maerts", omni(Kind::TcpMaerts), 0, true),
        ("omni rr", omni(Kind::TcpRr), 1, true),
        ("omni crr", omni(Kind::TcpCrr), 1, true),
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
            Request::Classic(Classic::TcpRr, exchange.clone()),
            1,
            true,
        ),
        (
            "crr",
            Request::Classic(Classic::TcpCrr, exchange.clone()),
            1,
            true,
        ),
        ("cc", Request::Classic(Classic::TcpCc, exchange), 0, false),
    ]
}

/// Asks for a test; the port of its data.
fn ask(raw: &mut Raw, request: &Request) -> u16 {
    raw.send(request);
    let frame = raw.receive().expect("a response");
    let (messages, _) = request.test().expect("a test");
    let told = messages
        .parse_response(&frame)
        .expect("the test is accepted");
    told.data_port as u16
}

/// Whether the server serves this connection, as the request has it.
fn is_served(data: &mut TcpStream, sends: usize, answers: bool) -> bool {
    if data.write_all(&[b'x'; 1][..sends]).is_err() {
        return false;
    }
    match data.read(&mut [0; 1]) {
        // Of a connection that is only opened and closed, and of one that only takes data.
        Ok(0) => !answers && sends == 0,
        Ok(_) => answers,
        Err(error) => !answers && sends > 0 && error.kind() == ErrorKind::WouldBlock,
    }
}

fn the_first_is_a_stranger() {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    hosts.client.enter(|| {
        for (name, request, sends, answers) in requests() {
            let mut raw = control(&server);
            let port = ask(&mut raw, &request);
            let mut stranger = connect_from(STRANGER, port);
            stranger.write_all(b"first").expect("a new connection");
            // The server has accepted it before it can choose.
            std::thread::sleep(Duration::from_millis(100));
            let begun = Instant::now();
            let mut own = connect_from(CLIENT, port);
            if !answers {
                own.set_read_timeout(Some(Duration::from_millis(500)))
                    .expect("a timeout that is not zero");
            }
            assert!(
                is_served(&mut own, sends, answers),
                "{name}: {}",
                server.log()
            );
            assert!(
                begun.elapsed() < PREFERENCE,
                "{name}: {:?}",
                begun.elapsed()
            );
            let end = stranger.read(&mut [0; 8]);
            assert!(
                matches!(end, Ok(0))
                    || end.is_err_and(|end| end.kind() == ErrorKind::ConnectionReset),
                "{name}: the stranger was served"
            );
        }
    });
    assert!(
        server
            .log()
            .contains("refused a data connection from 198.51.100.4:")
    );
}

/// In a connection test connections of the host of the first are preferred.
fn later_connections() {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    hosts.client.enter(|| {
        let mut raw = control(&server);
        let port = raw.ask(&Kind::TcpCrr.request(-3));
        assert!(is_served(&mut connect_from(CLIENT, port), 1, true));
        for stranger in [STRANGER, OTHER] {
            let mut stranger = connect_from(stranger, port);
            let begun = Instant::now();
            assert!(is_served(&mut connect_from(CLIENT, port), 1, true));
            assert!(begun.elapsed() < PREFERENCE, "{:?}", begun.elapsed());
            assert!(!is_served(&mut stranger, 1, true));
        }
        raw.receive().expect("the results of three transactions");
    });
    assert!(
        server.log().contains("refused 2 data connections"),
        "{}",
        server.log()
    );
}

/// A stock client that cannot have the next local port, here because its control connection has it, leaves port and
/// address to its kernel, which takes the first address. That the server waits for a better connection is once.
fn taken_port() {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    let line = format!(
        "-H {SERVER} -L {OTHER} -p {},7005 -t OMNI -l -60 -P 0 -- -c -p 7000,7020",
        server.port
    );
    let begun = Instant::now();
    let client = hosts
        .client
        .enter(|| TestProcess::start(&mut stock_with_args("netperf", &line)));
    let client = client.finish(Duration::from_secs(30));
    assert_eq!(client.code, Some(0), "{client:#?}; log: {}", server.log());
    assert!(begun.elapsed() >= PREFERENCE, "{:?}", begun.elapsed());
    // It begins anywhere in the range: the first connection can be the one.
    let said = ["accepted data connections", "comes from another address"];
    let log = server.log();
    assert!(said.iter().any(|said| log.contains(said)), "{log}");
}

fn named() {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    hosts.client.enter(|| {
        for kind in [Kind::TcpStream, Kind::TcpRr, Kind::TcpCrr] {
            let request = TestRequest {
                client_address: AddressWords::from(std::net::IpAddr::from(OTHER)),
                ..kind.request(10)
            };
            let mut raw = control(&server);
            let port = raw.ask(&request);
            let begun = Instant::now();
            let mut stranger = connect_from(STRANGER, port);
            let mut own = connect_from(OTHER, port);
            own.write_all(b"x").expect("a new connection");
            if kind == Kind::TcpStream {
                // The stranger's connection is closed when the other one is taken.
                assert_eq!(stranger.read(&mut [0; 1]).unwrap_or(0), 0);
            } else {
                own.read_exact(&mut [0; 1]).expect("an answer");
            }
            assert!(begun.elapsed() < PREFERENCE, "{}", kind.name());
        }
    });
}

/// A connection from an unexpected address waits, and the log has the consequence for the test.
fn another_address() {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    hosts.client.enter(|| {
        for kind in [Kind::TcpRr, Kind::TcpCrr] {
            let mut raw = control(&server);
            let port = raw.ask(&kind.request(-1));
            let begun = Instant::now();
            let mut own = connect_from(OTHER, port);
            assert!(is_served(&mut own, 1, true), "{}", server.log());
            let took = begun.elapsed();
            assert!(took >= PREFERENCE, "{took:?}");
            raw.receive().expect("the results");
            let log = server.log();
            let said = "the data connection comes from another address, 198.51.100.3:";
            assert!(
                log.contains(said) && log.contains("2 s of its time"),
                "{log}"
            );
        }
    });
}

fn strictly() {
    let hosts = Hosts::new();
    let server = hosts.serve("--strict-peers --data-wait 3");
    hosts.client.enter(|| {
        let mut raw = control(&server);
        let port = raw.ask(&Kind::TcpRr.request(-1));
        let mut other = connect_from(OTHER, port);
        assert!(!is_served(&mut other, 1, true));
        let mut own = connect_from(CLIENT, port);
        assert!(is_served(&mut own, 1, true), "{}", server.log());
        let mut raw = control(&server);
        let port = raw.ask(&Kind::TcpRr.request(-1));
        assert!(!is_served(&mut connect_from(OTHER, port), 1, true));
        assert!(matches!(raw.refusal(), Ok(errno) if errno > 0));
    });
    let log = server.log();
    assert!(
        log.contains("refused a data connection from 198.51.100.3:"),
        "{log}"
    );
}

/// Without `-d` a server in the foreground reports strangers, and nothing else.
fn warnings() {
    let hosts = Hosts::new();
    let port = 12_865;
    let serve = |options: &str| {
        let line = format!("netserver -D -p {port} {options}");
        hosts
            .server
            .enter(|| Server::start_at(port, linerate_with_args(&line)))
    };
    let raw = || Raw::connect_to((SERVER, port).into());
    let server = serve("-N");
    hosts.client.enter(|| {
        let mut control = raw();
        control.ask_in_vain(&Request::Omni(TestRequest {
            protocol: 999,
            ..Kind::TcpRr.request(1)
        }));
        let data = control.ask(&Kind::TcpRr.request(-1));
        assert!(is_served(&mut connect_from(CLIENT, data), 1, true));
        control.receive().expect("the results");
        assert_eq!(server.stderr(), "");
        let data = control.ask(&Kind::TcpRr.request(-1));
        assert!(is_served(&mut connect_from(OTHER, data), 1, true));
        control.receive().expect("the results");
    });
    let said = server.stderr();
    let accepted = "the data connection comes from another address, 198.51.100.3:";
    assert!(
        said.contains(accepted) && said.lines().count() == 1,
        "{said}"
    );
    drop(server);

    let server = serve("-Z secret --max-clients 2");
    hosts.client.enter(|| {
        let mut wrong = raw();
        wrong.send(&Request::Passphrase("wrong".into()));
        assert!(wrong.receive().is_err());
        let _clients = [raw(), raw(), raw()];
        for words in ["wrong or missing passphrase", "refused a client"] {
            let says = || server.stderr().contains(words);
            assert!(wait_until(SOON, says), "{words}: {}", server.stderr());
        }
    });
}

/// A stranger connects to each port that opens, before a client of either make can. From another address he never
/// gets a test's data; from the client's own address he never gets a linerate client's.
fn connects_to_every_port() {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    let all = [
        "TCP_STREAM",
        "TCP_MAERTS",
        "TCP_RR",
        "TCP_CRR",
        "TCP_CC",
        "TCP_SENDFILE",
    ];
    let single = ["TCP_STREAM", "TCP_MAERTS", "TCP_RR", "TCP_SENDFILE"];
    let ours: fn(&str) -> std::process::Command =
        |line| linerate_with_args(&format!("netperf {line}"));
    let theirs: fn(&str) -> std::process::Command = |line| stock_with_args("netperf", line);
    for (attacker, make, names) in [
        (STRANGER, theirs, &all[..]),
        (STRANGER, ours, &all[..]),
        (CLIENT, ours, &single[..]),
    ] {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| take_every_port(&hosts, server.port, attacker, &done));
            let _ends = Finally(&done);
            for name in names {
                let line = format!("-H {SERVER} -p {} -t {name} -l -1000 -P 0", server.port);
                let client = hosts.client.enter(|| TestProcess::start(&mut make(&line)));
                let client: ProcessOutput = client.finish(Duration::from_secs(30));
                assert_eq!(client.code, Some(0), "{client:#?}; log: {}", server.log());
                let rate = client.figures().last().copied().unwrap_or_default();
                assert!(rate > 1.0, "{client:#?}");
            }
        });
    }
}

fn take_every_port(hosts: &Hosts, control: u16, source: Ipv4Addr, done: &AtomicBool) {
    let mut taken = Vec::new();
    while !done.load(Relaxed) {
        let ports = hosts.server.enter(listening_ports);
        let new = ports.into_iter().filter(|port| *port != control);
        for port in new {
            hosts.client.enter(|| {
                if let Ok(mut socket) = stream_from(source, (SERVER, port).into()) {
                    let _ = socket.write_all(b"what a stranger would send");
                    taken.push(socket);
                }
            });
        }
    }
}

/// Control over one link and data over another, as with flent's `--control-host`: no request names the data's source.
/// Our client proves its connection and does not wait; the stock client waits.
fn two_networks() {
    let hosts = Hosts::new();
    add_link(
        (&hosts.server, "near2", "203.0.113.1/24"),
        (&hosts.client, "far2", "203.0.113.2/24"),
    );
    let server = hosts.serve("");
    let run = |command: &mut std::process::Command| {
        let begun = Instant::now();
        let client = hosts.client.enter(|| TestProcess::start(command));
        let client = client.finish(Duration::from_secs(30));
        assert_eq!(client.code, Some(0), "{client:#?}; log: {}", server.log());
        (begun.elapsed(), client)
    };
    let line = |test: &str, count: &str, rest: &str| {
        let at = format!("-H {SERVER} -p {}", server.port);
        format!("{at} -t {test} -l -{count} -P 0 -- -H 203.0.113.1 {rest}")
    };
    for (test, count, rest) in [
        ("TCP_STREAM", "1000000", "-m 1000"),
        ("TCP_MAERTS", "1000000", "-m ,1000"),
        ("TCP_RR", "100", ""),
        ("TCP_CRR", "100", ""),
        ("TCP_RR", "100", "-F"),
        ("TCP_RR", "100", "-T mptcp"),
    ] {
        let counted = "-k LOCAL_BYTES_SENT,REMOTE_BYTES_RECVD,LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT";
        let line = line(test, count, &format!("{rest} {counted}"));
        let (took, client) = run(&mut linerate_with_args(&format!("netperf {line}")));
        assert!(took < PREFERENCE, "{line}: {took:?}: {}", server.log());
        // The nonce is in no figure.
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
    assert!(
        !server.log().contains("another address"),
        "{}",
        server.log()
    );
    for test in ["TCP_RR", "TCP_CRR"] {
        let (took, _) = run(&mut stock_with_args("netperf", &line(test, "100", "")));
        assert!(took >= PREFERENCE, "{took:?}");
        assert!(
            server.log().contains("another address, 203.0.113.2:"),
            "{}",
            server.log()
        );
    }
}
