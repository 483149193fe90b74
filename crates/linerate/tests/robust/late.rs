//! Data that arrives after a test's time or beyond its count. A server counts a stream to its end.
//! It counts late datagrams separately, in classic and in omni tests.

use std::io::{Read, Write};
use std::net::{Shutdown, UdpSocket};
use std::time::Duration;

use netperf::wire::{Classic, DetailsResponse, OMNI, Request, TestRequest};
use serde_json::Value;
use testkit::{Server, TestCase, with_prefix};

use super::raw::{RawClient, TestKind, data_connection, datagram_socket};

/// Payload of a datagram in bytes.
const SIZE: usize = 100;

/// Number of datagrams within the test's time of one second.
const IN_TIME: u64 = 5;

/// Pause before the late datagrams, long enough for a slow machine.
const PAUSE: Duration = Duration::from_secs(3);

/// Number of late datagrams.
const LATE: u64 = 3;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![
        counts_late_datagrams_of_classic_test,
        counts_late_datagrams_of_omni_test,
        counts_stream_beyond_requested_bytes,
    ];
    with_prefix("late", test_cases).collect()
}

fn counts_late_datagrams_of_classic_test() {
    let server = Server::start("");
    let mut raw = RawClient::connect(server.port);
    raw.send(&Request::Classic(
        Classic::UdpStream,
        TestRequest {
            receive_size: SIZE as i32,
            test_length: 1,
            ..TestRequest::classic()
        },
    ));
    let response = Classic::UdpStream
        .messages()
        .parse_response(&raw.receive().expect("the server responds"));
    let port = response.expect("the test is accepted").data_port;
    let port = u16::try_from(port).expect("a valid port");
    // The end mark of a classic test is a datagram of another size. The server counts its bytes.
    let end_mark = [0; 1];
    send_datagrams(&datagram_socket(port), &end_mark);
    let results = Classic::UdpStream
        .messages()
        .parse_results(&raw.receive().expect("the server sends results"));
    let results = results.expect("the test succeeds");
    assert_eq!(u64::from(results.calls), IN_TIME, "{results:?}");
    assert_eq!(u64::from(results.bytes_low), IN_TIME * SIZE as u64);
    assert_late_counts(&mut raw, LATE * SIZE as u64 + end_mark.len() as u64);
}

fn counts_late_datagrams_of_omni_test() {
    let server = Server::start("");
    let mut raw = RawClient::connect(server.port);
    let port = raw.request_test(&TestKind::UdpStream.request(1));
    send_datagrams(&datagram_socket(port), &[]);
    let results = OMNI.parse_results(&raw.receive().expect("the server sends results"));
    let results = results.expect("the test succeeds");
    assert_eq!(u64::from(results.receive_calls), IN_TIME, "{results:?}");
    assert_eq!(results.bytes_received, IN_TIME * SIZE as u64);
    assert_late_counts(&mut raw, LATE * SIZE as u64);
}

/// A client's last send may exceed the requested number of bytes and arrive in two parts.
fn counts_stream_beyond_requested_bytes() {
    let server = Server::start("");
    let mut raw = RawClient::connect(server.port);
    let mut data = data_connection(raw.request_test(&TestKind::TcpStream.request(-1000)));
    data.write_all(&[0; 1000]).expect("the test receives");
    std::thread::sleep(Duration::from_millis(300));
    data.write_all(&[0; 500]).expect("the test receives");
    data.shutdown(Shutdown::Write)
        .expect("the connection is open");
    let results = OMNI.parse_results(&raw.receive().expect("the server sends results"));
    assert_eq!(results.expect("the test succeeds").bytes_received, 1500);
}

fn send_datagrams(data: &UdpSocket, end_mark: &[u8]) {
    let send = |bytes: &[u8]| {
        data.send(bytes).expect("the test receives");
    };
    (0..IN_TIME).for_each(|_| send(&[0; SIZE]));
    // The datagrams after the pause are late.
    std::thread::sleep(PAUSE);
    (0..LATE).for_each(|_| send(&[0; SIZE]));
    send(end_mark);
}

/// Fails the test unless the server's details have the late counts, which the results lack.
#[track_caller]
fn assert_late_counts(raw: &mut RawClient, late_bytes: u64) {
    raw.send(&Request::Details);
    let answer = DetailsResponse::decode(&raw.receive().expect("the server responds"));
    let mut document = vec![0; answer.expect("the server has details").len as usize];
    raw.control
        .read_exact(&mut document)
        .expect("the server sends the document");
    let details: Value = serde_json::from_slice(&document).expect("the document is JSON");
    let counts = &details["side"]["counts"];
    assert_eq!(counts["receive_calls"], IN_TIME, "{counts}");
    assert_eq!(counts["receive_calls_late"], LATE, "{counts}");
    assert_eq!(counts["received_late_bytes"], late_bytes, "{counts}");
}
