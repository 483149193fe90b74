//! Data that comes after a test's time or beyond its count: a stream's is counted to its end; datagrams are counted
//! apart, in the classic tests as in the others.

use std::io::{Read, Write};
use std::net::{Shutdown, UdpSocket};
use std::time::Duration;

use netperf::wire::{Classic, DetailsResponse, OMNI, Request, TestRequest};
use serde_json::Value;
use testkit::{Server, TestCase, test_case};

use super::raw::{Kind, Raw, data_connection, datagram_socket};

/// What one datagram carries.
const SIZE: usize = 100;

/// Datagrams in the test's one second, and so long after the first of them that no machine is late by it,
/// others.
const IN_TIME: u64 = 5;
const PAUSE: Duration = Duration::from_secs(3);
const LATE: u64 = 3;

pub(crate) fn test_cases() -> Vec<TestCase> {
    vec![
        test_case("late::in_a_classic_test", &[], in_a_classic_test),
        test_case("late::in_an_omni_test", &[], in_an_omni_test),
        test_case("late::beyond_a_count_of_bytes", &[], beyond_a_count),
    ]
}

fn in_a_classic_test() {
    let server = Server::start("");
    let mut raw = Raw::connect(server.port);
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
        .parse_response(&raw.receive().expect("a response"));
    let port = response.expect("the test is accepted").data_port;
    let port = u16::try_from(port).expect("a port");
    // Its mark is a datagram of another size, whose bytes count where it comes.
    let mark = [0; 1];
    send_some_late(&datagram_socket(port), &mark);
    let results = Classic::UdpStream
        .messages()
        .parse_results(&raw.receive().expect("results"));
    let results = results.expect("the test succeeds");
    assert_eq!(u64::from(results.calls), IN_TIME, "{results:?}");
    assert_eq!(u64::from(results.bytes_low), IN_TIME * SIZE as u64);
    told_apart(&mut raw, LATE * SIZE as u64 + mark.len() as u64);
}

fn in_an_omni_test() {
    let server = Server::start("");
    let mut raw = Raw::connect(server.port);
    let port = raw.ask(&Kind::UdpStream.request(1));
    send_some_late(&datagram_socket(port), &[]);
    let results = OMNI.parse_results(&raw.receive().expect("results"));
    let results = results.expect("the test succeeds");
    assert_eq!(u64::from(results.receive_calls), IN_TIME, "{results:?}");
    assert_eq!(results.bytes_received, IN_TIME * SIZE as u64);
    told_apart(&mut raw, LATE * SIZE as u64);
}

/// A client's last send goes beyond the number of bytes that it asks for, and may arrive in two parts.
fn beyond_a_count() {
    let server = Server::start("");
    let mut raw = Raw::connect(server.port);
    let mut data = data_connection(raw.ask(&Kind::TcpStream.request(-1000)));
    data.write_all(&[0; 1000]).expect("the test receives");
    std::thread::sleep(Duration::from_millis(300));
    data.write_all(&[0; 500]).expect("the test receives");
    data.shutdown(Shutdown::Write).expect("it is open");
    let results = OMNI.parse_results(&raw.receive().expect("results"));
    assert_eq!(results.expect("the test succeeds").bytes_received, 1500);
}

fn send_some_late(data: &UdpSocket, mark: &[u8]) {
    let send = |bytes: &[u8]| {
        data.send(bytes).expect("the test receives");
    };
    (0..IN_TIME).for_each(|_| send(&[0; SIZE]));
    // It is the time that makes them late.
    std::thread::sleep(PAUSE);
    (0..LATE).for_each(|_| send(&[0; SIZE]));
    send(mark);
}

/// The details have what the results have no word for.
#[track_caller]
fn told_apart(raw: &mut Raw, late_bytes: u64) {
    raw.send(&Request::Details);
    let answer = DetailsResponse::decode(&raw.receive().expect("an answer"));
    let mut document = vec![0; answer.expect("details").len as usize];
    raw.control
        .read_exact(&mut document)
        .expect("a whole document");
    let details: Value = serde_json::from_slice(&document).expect("it is JSON");
    let counts = &details["side"]["counts"];
    assert_eq!(counts["receive_calls"], IN_TIME, "{counts}");
    assert_eq!(counts["receive_calls_late"], LATE, "{counts}");
    assert_eq!(counts["received_late_bytes"], late_bytes, "{counts}");
}
