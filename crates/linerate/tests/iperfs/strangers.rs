//! Datagrams from strangers and impossible reports. A reverse UDP test of iperf3 sends only to the
//! client. An iperf 2 client rejects impossible server reports.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use iperf::wire::{DatagramHeader, ServerReport};
use iperf3::wire::{ControlState, GREETING, add_length_prefix};
use testkit::{
    Receive, ReceiveFrom, Server, TestCase, TestProcess, test_cases, wait_until,
    without_pace_warnings,
};

use super::{iperf3_script, our_iperf2};

/// Timeout of a read on a busy machine.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = test_cases![
        reverse_test_sends_only_to_client,
        rejects_impossible_server_reports,
        silent_flows_yield_to_others,
    ];
    test_cases
        .into_iter()
        .map(TestCase::allow_many_at_once)
        .collect()
}

/// Flows of two datagrams take three of the four slots of a server. A flow that sends on takes the
/// last one. All of them yield to a client that sends.
fn silent_flows_yield_to_others() {
    let server = Server::start_with(|port| format!("iperf -s -u --max-clients 4 -p {port}"));
    // The number of an old client, and its send time.
    let datagram: Vec<u8> = [[0, 0, 0, 1], [0, 0, 0, 7], [0, 0, 0, 8]].concat();
    let strangers: Vec<UdpSocket> = [2, 2, 2, 2, 3]
        .map(|host| UdpSocket::bind((Ipv4Addr::new(127, 0, 0, host), 0)).expect("loopback"))
        .into();
    let send = |from: &UdpSocket| {
        let sent = from.send_to(&datagram, (Ipv4Addr::LOCALHOST, server.port));
        sent.expect("loopback");
    };
    for stranger in &strangers {
        send(stranger);
        send(stranger);
    }
    let flows = || server.stdout().matches("connected with").count();
    assert!(
        wait_until(READ_TIMEOUT, || flows() == 3),
        "{}",
        server.log()
    );
    let have_all_slots = || {
        send(&strangers[4]);
        flows() == 4
    };
    assert!(
        wait_until(READ_TIMEOUT, have_all_slots),
        "{}",
        server.stdout()
    );
    let line = format!("-c 127.0.0.1 -p {} -u -b 1M -t 2", server.port);
    let is_served = || {
        let output = TestProcess::start(&mut our_iperf2(&line)).finish(READ_TIMEOUT);
        output.stdout.contains("Server Report")
    };
    assert!(wait_until(READ_TIMEOUT, is_served), "{}", server.log());
    server.terminate();
}

/// The server receives the greeting of a stranger first, from another address.
fn reverse_test_sends_only_to_client() {
    let server = Server::start_with(|port| format!("iperf3 -s -p {port}"));
    for direction in ["reverse", "bidirectional"] {
        let mut client = iperf3_script::Client::connect(server.port);
        client.send_cookie();
        let rate = r#""len":1000,"bandwidth":1000000,"parallel":1,"time":1"#;
        client.send_parameters(&format!(r#"{{"udp":true,"{direction}":true,{rate}}}"#));
        let stranger = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).expect("loopback");
        let address = (Ipv4Addr::LOCALHOST, server.port);
        stranger.send_to(&GREETING, address).expect("loopback");
        let stream_count = if direction == "reverse" { 1 } else { 2 };
        let streams: Vec<UdpSocket> = (0..stream_count)
            .map(|_| client.open_udp_stream())
            .collect();
        client.await_running();
        // The server sends on the last stream.
        let receiver = streams.last().expect("a stream");
        let mut datagram = [0; 2000];
        for _ in 0..50 {
            assert_eq!(receiver.receive(&mut datagram).expect("data"), 1000);
        }
        stranger.set_nonblocking(true).expect("a valid socket");
        let result = stranger.receive(&mut datagram);
        assert!(result.is_err(), "the stranger received {result:?}");
        client.control.send_state(ControlState::TestEnd);
        client.control.await_state(ControlState::ExchangeResults);
        client
            .control
            .send(&add_length_prefix(iperf3_script::RESULTS));
        drop(client);
    }
    assert!(!server.has_panicked(), "{}", server.log());
    server.terminate();
}

/// The reports contain too many bytes, datagrams or losses.
fn rejects_impossible_server_reports() {
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
        server
            .set_read_timeout(Some(READ_TIMEOUT))
            .expect("not zero");
        let port = server.local_addr().expect("the socket is bound").port();
        let line = format!("-c 127.0.0.1 -p {port} -u -n 5K -b 100m");
        let client = TestProcess::start(&mut our_iperf2(&line));
        let mut datagram = [0; 2048];
        loop {
            let (count, from) = server.receive_from(&mut datagram).expect("a datagram");
            let header = DatagramHeader::read(&datagram[..count], true).expect("a header");
            if header.number < 0 {
                server.send_to(&report.encode(), from).expect("loopback");
                break;
            }
        }
        let client = client.finish(Duration::from_secs(10));
        let has_one_line = without_pace_warnings(&client.stderr).lines().count() == 1;
        assert!(
            client.code == Some(1) && has_one_line,
            "{report:?}: {client:#?}"
        );
        assert!(!client.stdout.contains("Server Report"), "{client:#?}");
    }
}
