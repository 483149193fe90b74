//! Datagrams come from the address that the client's go to, whichever of the server's addresses that is, and
//! those of others are no part of a test.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::Duration;

use netperf::wire::{Classic, OMNI, Request, TestRequest};
use testkit::TestCase;

use super::raw::{Kind, Raw};
use testkit::Requirement::Namespaces;
use testkit::{
    Namespace, ProcessOutput, STOCK_NETPERF, Server, TestProcess, add_link, linerate_with_args,
    stock_with_args, test_case, wait_until,
};

/// The server's addresses: the one that it sends from by itself, a second one, and one that is on no link.
const USUAL: &str = "198.51.100.1";
const SECOND: &str = "198.51.100.9";
const VIRTUAL: &str = "192.0.2.99";
const V6: [&str; 2] = ["2001:db8:5::1", "2001:db8:5::9"];
const LINK_LOCAL: &str = "fe80::5";

pub(crate) fn test_cases() -> Vec<TestCase> {
    let (namespaces, both): (&[_], &[_]) = (&[Namespaces], &[STOCK_NETPERF, Namespaces]);
    vec![
        test_case(
            "datagrams::every_address_by_ours",
            namespaces,
            every_address_by_ours,
        ),
        test_case(
            "datagrams::every_address_by_stock",
            both,
            every_address_by_stock,
        ),
        test_case(
            "datagrams::data_to_another_address",
            both,
            data_to_another_address,
        ),
        test_case("datagrams::classic_requests", namespaces, classic_requests),
        test_case("datagrams::of_others", namespaces, of_others),
        test_case(
            "datagrams::of_another_address",
            namespaces,
            of_another_address,
        ),
        test_case(
            "datagrams::that_are_refused_are_logged",
            namespaces,
            that_are_refused_are_logged,
        )
        .allow_many(),
    ]
}

struct Hosts {
    server: Namespace,
    client: Namespace,
}

impl Hosts {
    fn new() -> Self {
        let (server, client) = (Namespace::new(), Namespace::new());
        add_link(
            (&server, "near", &format!("{USUAL}/24")),
            (&client, "far", "198.51.100.2/24"),
        );
        server.ip(&format!("address add {SECOND}/24 dev near"));
        server.ip(&format!("address add {VIRTUAL}/32 dev lo"));
        client.ip("address add 198.51.100.3/24 dev far");
        client.ip(&format!("route add {VIRTUAL}/32 via {USUAL}"));
        for (namespace, name, addresses) in [
            (&server, "near", &[V6[0], V6[1], LINK_LOCAL][..]),
            (&client, "far", &["2001:db8:5::2", "fe80::6"]),
        ] {
            let file = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
            namespace.enter(|| std::fs::write(file, "0").expect("a kernel with IPv6"));
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

fn every_address_by_ours() {
    let ours = |line: &str| linerate_with_args(&format!("netperf {line}"));
    every_address(
        &ours,
        &[
            USUAL,
            SECOND,
            VIRTUAL,
            V6[0],
            V6[1],
            "::ffff:198.51.100.9",
            "fe80::5%far",
        ],
    );
}

/// It does not take the number of a link in an address.
fn every_address_by_stock() {
    let theirs = |line: &str| stock_with_args("netperf", line);
    every_address(&theirs, &[USUAL, SECOND, VIRTUAL, V6[0], V6[1]]);
}

fn every_address(make: &dyn Fn(&str) -> Command, addresses: &[&str]) {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    for address in addresses {
        for test in [
            "UDP_RR -l -200",
            // From a socket that takes nothing from another address.
            "UDP_RR -l -200 -- -n",
            "UDP_RR -l -200 -- -B",
            "UDP_STREAM -l -20000 -- -m 100 -R 1",
        ] {
            let line = format!("-H {address} -p {} -P 0 -v 0 -t {test}", server.port);
            works(&hosts.client, &mut make(&line), &server);
        }
        // The server sends, to a client that has to be bound for that.
        if address.contains(':') {
            continue;
        }
        let line = format!(
            "-H {address} -p {} -P 0 -t OMNI -l -20000 -- -T udp -d recv -n -L 198.51.100.2 -m ,100 -R 1 \
             -o THROUGHPUT",
            server.port
        );
        works(&hosts.client, &mut make(&line), &server);
    }
}

#[track_caller]
fn works(client: &Namespace, command: &mut Command, server: &Server) -> ProcessOutput {
    let finished = client.enter(|| TestProcess::start(command));
    let finished = finished.finish(Duration::from_secs(20));
    assert_eq!(
        finished.code,
        Some(0),
        "{finished:#?}; log: {}",
        server.log()
    );
    // Half a transaction a second is what is left when no answer arrives. Other figures are rates of few bytes, which
    // a busy machine takes long to move.
    let least = if finished.command.contains("_RR") {
        10.0
    } else {
        0.0
    };
    let figure = finished.figures().last().copied().unwrap_or_default();
    assert!(figure > least, "{finished:#?}; log: {}", server.log());
    finished
}

/// The control connection goes elsewhere, also by the other family, and by a name that the server has not.
fn data_to_another_address() {
    let hosts = Hosts::new();
    // Addresses of two families do not show that they are of one host.
    let server = hosts.serve("--allow-third-party");
    let ours =
        &(|line: &str| linerate_with_args(&format!("netperf {line}"))) as &dyn Fn(&str) -> Command;
    let theirs = &(|line: &str| stock_with_args("netperf", line)) as &dyn Fn(&str) -> Command;
    for (control, data, makes) in [
        (USUAL, SECOND, &[ours, theirs][..]),
        (SECOND, VIRTUAL, &[ours, theirs]),
        (VIRTUAL, USUAL, &[ours, theirs]),
        (V6[0], SECOND, &[ours]),
        (USUAL, V6[1], &[ours]),
    ] {
        for make in makes {
            let at = format!("-H {control} -p {} -P 0 -v 0", server.port);
            for test in ["UDP_RR -l -200 --", "UDP_STREAM -l -20000 -- -m 100"] {
                let line = format!("{at} -t {test} -H {data} -R 1");
                works(&hosts.client, &mut make(&line), &server);
            }
        }
    }
    // A client behind a NAT knows the server by an address that the server does not have.
    hosts.client.enter(|| {
        let mut raw = Raw::connect_to((IpAddr::from([198, 51, 100, 1]), server.port).into());
        let port = raw.ask(&TestRequest {
            server_address: IpAddr::from([203, 0, 113, 77]).into(),
            ..Kind::UdpRr.request(-20)
        });
        answers(SECOND, port, 20);
        raw.receive().expect("the results");
    });
}

/// Makes so many transactions with a server's data port, from a socket that takes nothing from elsewhere.
#[track_caller]
fn answers(address: &str, port: u16, transactions: u32) {
    let address: IpAddr = address.parse().expect("an address");
    let data = connected(Ipv4Addr::UNSPECIFIED, (address, port).into());
    for transaction in 0..transactions {
        data.send(b"x").expect("the test receives");
        let answer = data.recv(&mut [0; 2]);
        assert_eq!(answer.ok(), Some(1), "{address}: {transaction}");
    }
}

/// Their messages have no field for the server's address; the first datagram shows it.
fn classic_requests() {
    let hosts = Hosts::new();
    let server = hosts.serve("");
    hosts.client.enter(|| {
        for address in [USUAL, SECOND, VIRTUAL] {
            let mut raw = Raw::connect_to((IpAddr::from([198, 51, 100, 1]), server.port).into());
            raw.send(&Request::Classic(
                Classic::UdpRr,
                TestRequest {
                    request_size: 1,
                    response_size: 1,
                    test_length: -20,
                    ..TestRequest::classic()
                },
            ));
            let told = Classic::TcpRr
                .messages()
                .parse_response(&raw.receive().expect("a response"));
            let port = told.expect("the test is accepted").data_port as u16;
            answers(address, port, 20);
            raw.receive().expect("the results");
        }
        // One way: whether the socket is to be connected makes no difference.
        for connect in [false, true] {
            let mut raw = Raw::connect_to((IpAddr::from([198, 51, 100, 1]), server.port).into());
            raw.send(&Request::Classic(
                Classic::UdpStream,
                TestRequest {
                    receive_size: 10,
                    test_length: 5,
                    connect,
                    ..TestRequest::classic()
                },
            ));
            let told = Classic::UdpStream
                .messages()
                .parse_response(&raw.receive().expect("a response"));
            let port = told.expect("the test is accepted").data_port as u16;
            let data = connected(
                Ipv4Addr::UNSPECIFIED,
                (VIRTUAL.parse::<IpAddr>().expect("an address"), port).into(),
            );
            for _ in 0..20 {
                data.send(&[0; 10]).expect("the test receives");
                std::thread::sleep(Duration::from_millis(2));
            }
            data.send(&[0; 1]).expect("the test receives");
            let told = Classic::UdpStream
                .messages()
                .parse_results(&raw.receive().expect("the results"));
            assert_eq!(told.expect("results").calls, 20, "{connect}");
        }
    });
}

fn connected(source: Ipv4Addr, to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((source, 0)).expect("an address of this host");
    socket.connect(to).expect("a route");
    let patience = Some(Duration::from_secs(5));
    socket
        .set_read_timeout(patience)
        .expect("a timeout that is not zero");
    socket
}

/// A receiving test counts its client's datagrams only, and only its client's end mark ends it.
fn of_others() {
    let hosts = Hosts::new();
    for options in ["", "--strict-peers"] {
        let server = hosts.serve(options);
        hosts.client.enter(|| {
            let (mut raw, to) = one_way(&server, 5);
            let own = connected([198, 51, 100, 2].into(), to);
            let stranger = connected([198, 51, 100, 3].into(), to);
            // Neither the end of the data …
            stranger.send(&[]).expect("the test receives");
            own.send(&[0; 100]).expect("the test receives");
            // … nor data, once the client's has come.
            assert!(wait_until(Duration::from_secs(5), || has_peer(
                &hosts.server,
                to.port()
            )));
            for _ in 0..10 {
                // What the kernel answers is of no interest.
                let _ = stranger.send(&[0; 1000]);
                let _ = stranger.send(&[]);
            }
            own.send(&[0; 100]).expect("the test receives");
            own.send(&[]).expect("the test receives");
            let told = OMNI.parse_results(&raw.receive().expect("the results"));
            assert_eq!(told.expect("results").bytes_received, 200, "{options}");
        });
    }
}

/// Whether a datagram socket with this port takes datagrams of one peer alone.
fn has_peer(host: &Namespace, port: u16) -> bool {
    let table = host.enter(|| std::fs::read_to_string("/proc/thread-self/net/udp"));
    let is_it = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let local = words
            .get(1)
            .is_some_and(|local| local.ends_with(&format!(":{port:04X}")));
        local
            && words
                .get(2)
                .is_some_and(|remote| !remote.ends_with(":0000"))
    };
    table.unwrap_or_default().lines().any(is_it)
}

fn one_way(server: &Server, seconds: i32) -> (Raw, SocketAddr) {
    let address = IpAddr::from([198, 51, 100, 1]);
    let mut raw = Raw::connect_to((address, server.port).into());
    let port = raw.ask(&TestRequest {
        receive_size: 1000,
        ..Kind::UdpStream.request(seconds)
    });
    (raw, (address, port).into())
}

/// A client whose datagrams come from another address than its control connection is counted, unless the rule
/// is strict.
fn of_another_address() {
    let hosts = Hosts::new();
    for (options, counted) in [("", 3), ("--strict-peers", 0)] {
        let server = hosts.serve(&format!("{options} --data-wait 1"));
        hosts.client.enter(|| {
            let (mut raw, to) = one_way(&server, 5);
            let other = connected([198, 51, 100, 3].into(), to);
            for _ in 0..3 {
                other.send(&[0; 100]).expect("the test receives");
            }
            other.send(&[]).expect("the test receives");
            let answer = raw.receive().expect("an answer");
            let told = OMNI.parse_results(&answer).map(|told| told.receive_calls);
            assert_eq!(told.unwrap_or(0), counted, "{options}: {}", server.log());
        });
        let said = server.log().contains("from another address, 198.51.100.3:");
        assert_eq!(said, counted > 0, "{}", server.log());
    }
}

/// A test that gets datagrams of another address alone ends without a result; the log says which address it was, and
/// the client names both addresses as a possible cause.
fn that_are_refused_are_logged() {
    let hosts = Hosts::new();
    let server = hosts.serve("--data-wait 8");
    let line = format!(
        "netperf -H {USUAL} -p {} -t UDP_RR -l 1 -- -L 198.51.100.3",
        server.port
    );
    let ended = hosts
        .client
        .enter(|| testkit::run(linerate_with_args(&line), Duration::from_secs(30)));
    let ended = ended.expect("it ends");
    assert_ne!(ended.code, Some(0), "{ended:#?}");
    let cause = "or the server, because it comes from 198.51.100.3 and the control connection from 198.51.100.2?";
    assert!(ended.stderr.contains(cause), "{ended:#?}");
    assert!(ended.stderr.contains("Permission denied"), "{ended:#?}");
    let words = "datagrams from other addresses, the first from 198.51.100.3:";
    let said = server.log();
    assert!(said.contains(words), "{said}");
}
