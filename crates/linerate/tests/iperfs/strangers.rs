//! What is not asked for is not done: a reverse UDP test of iperf3 sends to no other address, and a client of iperf 2
//! shows no report that cannot be.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use iperf::wire::{DatagramHeader, ServerReport};
use iperf3::wire::{ControlState, GREETING, add_length_prefix};
use testkit::{Server, TestCase, TestProcess, test_cases};

use super::{ours2, script};

/// How long anything may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = test_cases![
        a_reverse_test_sends_to_the_client_alone,
        no_false_report_is_shown,
    ];
    test_cases.into_iter().map(TestCase::allow_many).collect()
}

/// The hello of a stranger, at another address, comes first.
fn a_reverse_test_sends_to_the_client_alone() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    for direction in ["reverse", "bidirectional"] {
        let mut client = script::Client::connect(server.port);
        client.introduce();
        let rate = r#""len":1000,"bandwidth":1000000,"parallel":1,"time":1"#;
        client.ask(&format!(r#"{{"udp":true,"{direction}":true,{rate}}}"#));
        let stranger = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).expect("loopback");
        let to = (Ipv4Addr::LOCALHOST, server.port);
        stranger.send_to(&GREETING, to).expect("loopback");
        let streams = if direction == "reverse" { 1 } else { 2 };
        let streams: Vec<UdpSocket> = (0..streams).map(|_| client.datagrams()).collect();
        client.await_running();
        // The last one is the server's.
        let receiver = streams.last().expect("one");
        let mut datagram = [0; 2000];
        for _ in 0..50 {
            assert_eq!(receiver.recv(&mut datagram).expect("data"), 1000);
        }
        stranger.set_nonblocking(true).expect("a socket");
        let got = stranger.recv(&mut datagram);
        assert!(got.is_err(), "a stranger was sent {got:?}");
        client.control.state(ControlState::TestEnd);
        client.control.await_state(ControlState::ExchangeResults);
        client.control.say(&add_length_prefix(script::RESULTS));
        drop(client);
    }
    assert!(!server.has_panicked(), "{}", server.log());
    server.terminate();
}

/// More bytes, more datagrams, more losses than there can be.
fn no_false_report_is_shown() {
    let possible = ServerReport {
        bytes: 1000,
        elapsed: Duration::from_millis(1),
        datagrams: 2,
        ..ServerReport::default()
    };
    for report in [
        ServerReport {
            bytes: u64::MAX,
            ..possible
        },
        ServerReport {
            datagrams: u64::MAX,
            ..possible
        },
        ServerReport {
            lost: 1000,
            ..possible
        },
    ] {
        let server = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        server.set_read_timeout(Some(LIMIT)).expect("not zero");
        let port = server.local_addr().expect("it is bound").port();
        let line = format!("-c 127.0.0.1 -p {port} -u -n 5K -b 100m");
        let client = TestProcess::start(&mut ours2(&line));
        let mut datagram = [0; 2048];
        loop {
            let (count, from) = server.recv_from(&mut datagram).expect("a datagram");
            let header = DatagramHeader::read(&datagram[..count], true).expect("a header");
            if header.number < 0 {
                server.send_to(&report.encode(), from).expect("loopback");
                break;
            }
        }
        let client = client.finish(Duration::from_secs(10));
        let is_line = client.stderr.lines().count() == 1;
        assert!(client.code == Some(1) && is_line, "{report:?}: {client:#?}");
        assert!(!client.stdout.contains("Server Report"), "{client:#?}");
    }
}
