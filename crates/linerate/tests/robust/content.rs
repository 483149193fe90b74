//! What a server sends is what its buffers hold, from the first byte to the last, in their order.

use std::io::Read;
use std::io::Write;

use netperf::wire::TestRequest;
use testkit::{Server, TestCase, with_prefix};

use super::raw::{Kind, Raw, data_connection, datagram_socket};

/// What buffers are filled with, on from one into the next, where no file is named.
const PATTERN: &[u8] = b"netperf\0";

/// A size that the pattern does not divide, and buffers that are used in turn.
const SIZE: u32 = 1001;
const WIDTH: u32 = 3;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![of_a_stream, of_responses, of_datagrams,];
    with_prefix("content", test_cases).collect()
}

fn of_a_stream() {
    let server = Server::start("");
    let mut raw = Raw::connect(server.port);
    let port = raw.ask(&TestRequest {
        send_size: SIZE as i32,
        send_width: WIDTH,
        ..Kind::TcpMaerts.request(-10_000_000)
    });
    let mut sent = Vec::new();
    data_connection(port)
        .read_to_end(&mut sent)
        .expect("the server ends it");
    raw.receive().expect("results");
    assert!(sent.len() >= 10_000_000, "{}", sent.len());
    assert!(sent.iter().eq(ring().take(sent.len())));
}

fn of_responses() {
    let server = Server::start("");
    let mut raw = Raw::connect(server.port);
    let mut data = data_connection(raw.ask(&responses(Kind::TcpRr)));
    let mut expected = ring();
    for _ in 0..100 {
        let mut response = [0; SIZE as usize];
        data.write_all(b"?").expect("the server reads");
        data.read_exact(&mut response).expect("it answers");
        assert!(response.iter().eq(expected.by_ref().take(response.len())));
    }
}

fn of_datagrams() {
    let server = Server::start("");
    let mut raw = Raw::connect(server.port);
    let data = datagram_socket(raw.ask(&responses(Kind::UdpRr)));
    let mut expected = ring();
    for _ in 0..100 {
        let mut response = [0; SIZE as usize + 1];
        data.send(b"?").expect("the server listens");
        let length = data.recv(&mut response).expect("it answers");
        assert_eq!(length, SIZE as usize);
        let response = &response[..length];
        assert!(response.iter().eq(expected.by_ref().take(length)));
    }
}

fn responses(kind: Kind) -> TestRequest {
    TestRequest {
        response_size: SIZE as i32,
        send_width: WIDTH,
        ..kind.request(-100)
    }
}

/// All buffers, over and over.
fn ring() -> impl Iterator<Item = &'static u8> {
    let filled = PATTERN.iter().cycle().take((SIZE * WIDTH) as usize);
    filled.cycle()
}
