//! A server answers datagrams from the address that the client sends to. It ignores datagrams of
//! other hosts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use netperf::wire::{Classic, OMNI, Request, TestRequest};
use testkit::TestCase;

use super::raw::{RawClient, TestKind};
use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, ProcessOutput, Receive, STOCK_NETPERF, Server, TestProcess, add_link,
    linerate_with_args, stock_with_args, wait_until, with_prefix,
};

/// The server's default source address.
const PRIMARY: &str = "198.51.100.1";

/// A second address of the server on the same link.
const SECOND: &str = "198.51.100.9";

/// An address of the server on its loopback interface.
const LOOPBACK: &str = "192.0.2.99";

const V6: [&str; 2] = ["2001:db8:5::1", "2001:db8:5::9"];
const LINK_LOCAL: &str = "fe80::5";

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        needing &[Namespaces];
        serves_ours_at_each_address,
        serves_classic_requests_at_each_address,
        ignores_datagrams_of_other_hosts,
        accepts_another_client_address_unless_strict,
    ];
    test_cases.extend(testkit::test_cases![
        needing &[STOCK_NETPERF, Namespaces];
        serves_stock_at_each_address,
        accepts_data_at_another_address,
    ]);
    let waiting_tests = testkit::test_cases![needing &[Namespaces]; logs_refused_datagrams];
    test_cases.extend(waiting_tests.into_iter().map(TestCase::allow_many_at_once));
    with_prefix("datagrams", test_cases).collect()
}

struct Hosts {
    server: Namespace,
    client: Namespace,
}

impl Hosts {
    fn new() -> Self {
        let (server, client) = (Namespace::new(), Namespace::new());
        add_link(
            (&server, "near", &format!("{PRIMARY}/24")),
            (&client, "far", "198.51.100.2/24"),
        );
        server.ip(&format!("address add {SECOND}/24 dev near"));
        server.ip(&format!("address add {LOOPBACK}/32 dev lo"));
        client.ip("address add 198.51.100.3/24 dev far");
        client.ip(&format!("route add {LOOPBACK}/32 via {PRIMARY}"));
        for (namespace, name, addresses) in [
            (&server, "near", &[V6[0], V6[1], LINK_LOCAL][..]),
            (&client, "far", &["2001:db8:5::2", "fe80::6"]),
        ] {
            let file = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
            namespace.enter(|| std::fs::write(file, "0").expect("the kernel has IPv6"));
            for address in addresses {
                namespace.ip(&format!("address add {address}/64 dev {name} nodad"));
            }
        }
        Self { server, client }
    }

    fn serve(&self, options: &str) -> Server {
        self.server.enter(|| Server::start(options))
    }
}

fn serves_ours_at_each_address() {
    let ours = |line: &str| linerate_with_args(&format!("netperf {line}"));
    run_clients_at_each_address(
        &ours,
        &[
            PRIMARY,
            SECOND,
            LOOPBACK,
            V6[0],
            V6[1],
            "::ffff:198.51.100.9",
            "fe80::5%far",
        ],
    );
}

/// Stock does not parse an address with a zone.
fn serves_stock_at_each_address() {
    let stock = |line: &str| stock_with_args("netperf", line);
    run_clients_at_each_address(&stock, &[PRIMARY, SECOND, LOOPBACK, V6[0], V6[1]]);
}

fn run_clients_at_each_address(command: &dyn Fn(&str) -> Command, addresses: &[&str]) {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    for address in addresses {
        for test in [
            "UDP_RR -l -200",
            // The client's socket receives nothing from another address.
            "UDP_RR -l -200 -- -n",
            "UDP_RR -l -200 -- -B",
            "UDP_STREAM -l -20000 -- -m 100 -R 1",
        ] {
            let line = format!("-H {address} -p {} -P 0 -v 0 -t {test}", server.port);
            run_client(&hosts.client, &mut command(&line), &server);
        }
        // The server sends. This requires a client that is bound to an address.
        if address.contains(':') {
            continue;
        }
        let line = format!(
            "-H {address} -p {} -P 0 -t OMNI -l -20000 -- -T udp -d recv -n -L 198.51.100.2 -m ,100 -R 1 \
             -o THROUGHPUT",
            server.port
        );
        run_client(&hosts.client, &mut command(&line), &server);
    }
}

#[track_caller]
fn run_client(client: &Namespace, command: &mut Command, server: &Server) -> ProcessOutput {
    let client = client.enter(|| TestProcess::start(command));
    let output = client.finish(Duration::from_secs(20));
    assert_eq!(output.code, Some(0), "{output:#?}; log: {}", server.log());
    // A client without answers reports half a transaction per second. Other figures are rates of
    // few bytes, which may be low on a busy machine.
    let min_figure = if output.command.contains("_RR") {
        10.0
    } else {
        0.0
    };
    let figure = output.figures().last().copied().unwrap_or_default();
    assert!(figure > min_figure, "{output:#?}; log: {}", server.log());
    output
}

/// The control connection uses another address than the data, also one of another family or one
/// that the server does not have.
fn accepts_data_at_another_address() {
    let hosts = Hosts::new();
    // The server cannot determine that addresses of two families belong to one host.
    let server = hosts.serve("--allow-third-party");
    let ours =
        &(|line: &str| linerate_with_args(&format!("netperf {line}"))) as &dyn Fn(&str) -> Command;
    let stock = &(|line: &str| stock_with_args("netperf", line)) as &dyn Fn(&str) -> Command;
    for (control, data, commands) in [
        (PRIMARY, SECOND, &[ours, stock][..]),
        (SECOND, LOOPBACK, &[ours, stock]),
        (LOOPBACK, PRIMARY, &[ours, stock]),
        (V6[0], SECOND, &[ours]),
        (PRIMARY, V6[1], &[ours]),
    ] {
        for command in commands {
            let target = format!("-H {control} -p {} -P 0 -v 0", server.port);
            for test in ["UDP_RR -l -200 --", "UDP_STREAM -l -20000 -- -m 100"] {
                let line = format!("{target} -t {test} -H {data} -R 1");
                run_client(&hosts.client, &mut command(&line), &server);
            }
        }
    }
    // A client behind a NAT knows the server by an address that the server does not have.
    hosts.client.enter(|| {
        let mut raw = RawClient::connect_to((IpAddr::from([198, 51, 100, 1]), server.port).into());
        let port = raw.request_test(&TestRequest {
            server_address: IpAddr::from([203, 0, 113, 77]).into(),
            ..TestKind::UdpRr.request(-20)
        });
        run_transactions(SECOND, port, 20);
        raw.receive().expect("the server sends results");
    });
}

/// Runs transactions with a server's data port, from a socket that receives from that address only.
#[track_caller]
fn run_transactions(address: &str, port: u16, transactions: u32) {
    let address: IpAddr = address.parse().expect("a valid address");
    let data = connected_socket(Ipv4Addr::UNSPECIFIED, (address, port).into());
    for transaction in 0..transactions {
        data.send(b"x").expect("the test receives");
        let answer = data.receive(&mut [0; 2]);
        assert_eq!(answer.ok(), Some(1), "{address}: {transaction}");
    }
}

/// Classic requests have no field for the server's address. The server learns it from the first
/// datagram.
fn serves_classic_requests_at_each_address() {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    hosts.client.enter(|| {
        for address in [PRIMARY, SECOND, LOOPBACK] {
            let mut raw =
                RawClient::connect_to((IpAddr::from([198, 51, 100, 1]), server.port).into());
            raw.send(&Request::Classic(
                Classic::UdpRr,
                TestRequest {
                    request_size: 1,
                    response_size: 1,
                    test_length: -20,
                    ..TestRequest::classic()
                },
            ));
            let response = Classic::TcpRr
                .messages()
                .parse_response(&raw.receive().expect("the server responds"));
            let port = response.expect("the test is accepted").data_port as u16;
            run_transactions(address, port, 20);
            raw.receive().expect("the server sends results");
        }
        // In a one-way test, the requested `connect` does not matter.
        for connect in [false, true] {
            let mut raw =
                RawClient::connect_to((IpAddr::from([198, 51, 100, 1]), server.port).into());
            raw.send(&Request::Classic(
                Classic::UdpStream,
                TestRequest {
                    receive_size: 10,
                    test_length: 5,
                    connect,
                    ..TestRequest::classic()
                },
            ));
            let response = Classic::UdpStream
                .messages()
                .parse_response(&raw.receive().expect("the server responds"));
            let port = response.expect("the test is accepted").data_port as u16;
            let data = connected_socket(
                Ipv4Addr::UNSPECIFIED,
                (LOOPBACK.parse::<IpAddr>().expect("a valid address"), port).into(),
            );
            for _ in 0..20 {
                data.send(&[0; 10]).expect("the test receives");
                std::thread::sleep(Duration::from_millis(2));
            }
            data.send(&[0; 1]).expect("the test receives");
            let results = Classic::UdpStream
                .messages()
                .parse_results(&raw.receive().expect("the server sends results"));
            assert_eq!(results.expect("the test succeeds").calls, 20, "{connect}");
        }
    });
}

fn connected_socket(source: Ipv4Addr, peer: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((source, 0)).expect("this host has the address");
    socket.connect(peer).expect("the host has a route");
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("the timeout is not zero");
    socket
}

/// A receiving test counts only its client's datagrams, and only its client's end mark ends it.
fn ignores_datagrams_of_other_hosts() {
    let hosts = Hosts::new();
    for options in ["", "--strict-peers"] {
        let server = hosts.serve(options);
        hosts.client.enter(|| {
            let (mut raw, data_address) = start_stream(&server, 5);
            let client_socket = connected_socket([198, 51, 100, 2].into(), data_address);
            let stranger_socket = connected_socket([198, 51, 100, 3].into(), data_address);
            // The stranger's end mark comes before the client's data …
            stranger_socket.send(&[]).expect("the test receives");
            client_socket.send(&[0; 100]).expect("the test receives");
            // … and its data comes after the client's.
            assert!(wait_until(Duration::from_secs(5), || has_peer(
                &hosts.server,
                data_address.port()
            )));
            for _ in 0..10 {
                // The kernel may report an error for a previous datagram.
                let _ = stranger_socket.send(&[0; 1000]);
                let _ = stranger_socket.send(&[]);
            }
            client_socket.send(&[0; 100]).expect("the test receives");
            client_socket.send(&[]).expect("the test receives");
            let results = OMNI.parse_results(&raw.receive().expect("the server sends results"));
            assert_eq!(
                results.expect("the test succeeds").bytes_received,
                200,
                "{options}"
            );
        });
    }
}

/// Returns whether a datagram socket with this port is connected to a peer.
fn has_peer(host: &Namespace, port: u16) -> bool {
    let table = host.enter(|| std::fs::read_to_string("/proc/thread-self/net/udp"));
    let is_connected = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let has_port = fields
            .get(1)
            .is_some_and(|local| local.ends_with(&format!(":{port:04X}")));
        has_port
            && fields
                .get(2)
                .is_some_and(|remote| !remote.ends_with(":0000"))
    };
    table.unwrap_or_default().lines().any(is_connected)
}

/// Starts a test in which the client sends. Returns the address of its data socket, too.
fn start_stream(server: &Server, seconds: i32) -> (RawClient, SocketAddr) {
    let address = IpAddr::from([198, 51, 100, 1]);
    let mut raw = RawClient::connect_to((address, server.port).into());
    let port = raw.request_test(&TestRequest {
        receive_size: 1000,
        ..TestKind::UdpStream.request(seconds)
    });
    (raw, (address, port).into())
}

/// The server counts datagrams from another address than the control connection's. With
/// `--strict-peers` it does not.
fn accepts_another_client_address_unless_strict() {
    let hosts = Hosts::new();
    for (options, expected_calls) in [("", 3), ("--strict-peers", 0)] {
        let server = hosts.serve(&format!("{options} --data-wait 1"));
        hosts.client.enter(|| {
            let (mut raw, data_address) = start_stream(&server, 5);
            let data = connected_socket([198, 51, 100, 3].into(), data_address);
            for _ in 0..3 {
                data.send(&[0; 100]).expect("the test receives");
            }
            data.send(&[]).expect("the test receives");
            let answer = raw.receive().expect("the server responds");
            let calls = OMNI
                .parse_results(&answer)
                .map(|results| results.receive_calls);
            assert_eq!(
                calls.unwrap_or(0),
                expected_calls,
                "{options}: {}",
                server.log()
            );
        });
        let is_logged = server.log().contains("from another address, 198.51.100.3:");
        assert_eq!(is_logged, expected_calls > 0, "{}", server.log());
    }
}

/// A test that receives only datagrams of another address ends without a result. The server logs
/// that address.
fn logs_refused_datagrams() {
    let hosts = Hosts::new();
    let server = hosts.serve("--data-wait 8");
    let line = format!(
        "netperf -H {PRIMARY} -p {} -t UDP_RR -l 1 -- -L 198.51.100.3",
        server.port
    );
    let output = hosts
        .client
        .enter(|| testkit::run(linerate_with_args(&line), Duration::from_secs(30)));
    let output = output.expect("the process ends");
    assert_ne!(output.code, Some(0), "{output:#?}");
    assert!(output.stderr.contains("Permission denied"), "{output:#?}");
    let expected_message = "datagrams from other addresses, the first from 198.51.100.3:";
    let log = server.log();
    assert!(log.contains(expected_message), "{log}");
}
