//! A server sends the contents of its buffers, byte for byte and in their order.

use std::io::Read;
use std::io::Write;

use netperf::wire::TestRequest;
use testkit::{Receive, Server, TestCase, with_prefix};

use super::raw::{RawClient, TestKind, data_connection, datagram_socket};

/// Fill pattern of buffers without a fill file. It continues from one buffer into the next.
const PATTERN: &[u8] = b"netperf\0";

/// Buffer size, not a multiple of the pattern's length.
const SIZE: u32 = 1001;

/// Number of buffers.
const WIDTH: u32 = 3;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let test_cases = testkit::test_cases![
        stream_repeats_buffers,
        responses_repeat_buffers,
        datagrams_repeat_buffers,
    ];
    with_prefix("content", test_cases).collect()
}

fn stream_repeats_buffers() {
    let server = Server::start("");
    let mut raw = RawClient::connect(server.port);
    let port = raw.request_test(&TestRequest {
        send_size: SIZE as i32,
        send_width: WIDTH,
        ..TestKind::TcpMaerts.request(-10_000_000)
    });
    let mut sent = Vec::new();
    data_connection(port)
        .read_to_end(&mut sent)
        .expect("the server closes the connection");
    raw.receive().expect("the server sends results");
    assert!(sent.len() >= 10_000_000, "{}", sent.len());
    assert!(sent.iter().eq(buffer_bytes().take(sent.len())));
}

fn responses_repeat_buffers() {
    let server = Server::start("");
    let mut raw = RawClient::connect(server.port);
    let mut data = data_connection(raw.request_test(&response_request(TestKind::TcpRr)));
    let mut expected = buffer_bytes();
    for _ in 0..100 {
        let mut response = [0; SIZE as usize];
        data.write_all(b"?").expect("the server reads");
        data.read_exact(&mut response).expect("the server answers");
        assert!(response.iter().eq(expected.by_ref().take(response.len())));
    }
}

fn datagrams_repeat_buffers() {
    let server = Server::start("");
    let mut raw = RawClient::connect(server.port);
    let data = datagram_socket(raw.request_test(&response_request(TestKind::UdpRr)));
    let mut expected = buffer_bytes();
    for _ in 0..100 {
        let mut response = [0; SIZE as usize + 1];
        data.send(b"?").expect("the server listens");
        let length = data.receive(&mut response).expect("the server answers");
        assert_eq!(length, SIZE as usize);
        let response = &response[..length];
        assert!(response.iter().eq(expected.by_ref().take(length)));
    }
}

fn response_request(kind: TestKind) -> TestRequest {
    TestRequest {
        response_size: SIZE as i32,
        send_width: WIDTH,
        ..kind.request(-100)
    }
}

/// Returns the bytes of all buffers, repeated without end.
fn buffer_bytes() -> impl Iterator<Item = &'static u8> {
    let filled = PATTERN.iter().cycle().take((SIZE * WIDTH) as usize);
    filled.cycle()
}
