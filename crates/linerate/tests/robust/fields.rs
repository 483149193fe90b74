//! Fields of netperf's requests, each out of its bounds. docs/src/requests.md names these cases.

use std::any::Any;
use std::io::Write;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};

use netperf::wire::Classic::{
    self, DgRr, DgStream, DlclRr, DlclStream, DlcoRr, DlcoStream, SctpRr, SctpRrMany, SctpStream,
    SctpStreamMany, StreamRr, StreamStream, TcpCc, TcpCrr, TcpMaerts, TcpRr, TcpStream, UdpRr,
    UdpStream,
};
use netperf::wire::{
    Frame, OMNI, Request, SwappedText, TestRequest, TestResponse, Text, check_error,
};
use testkit::Requirement::Namespaces;
use testkit::{Namespace, Server, TestCase, add_link, with_prefix};

use super::raw::{RawClient, TestKind, data_connection, datagram_socket};

/// errno(3).
const ENOMEM: i32 = 12;
const EACCES: i32 = 13;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;
const EPROTONOSUPPORT: i32 = 93;
const EAFNOSUPPORT: i32 = 97;
const EDQUOT: i32 = 122;

const MIB: i32 = 1 << 20;

pub(crate) fn test_cases() -> Vec<TestCase> {
    let mut test_cases = testkit::test_cases![
        refuses_too_long_tests,
        limits_sizes_of_omni_tests,
        limits_sizes_of_classic_tests,
        limits_sizes_of_unix_tests,
        limits_socket_buffers,
        refuses_protocols_of_classic_tests,
        ignores_unusable_cpus,
        ignores_paths_of_unix_tests,
    ];
    test_cases.extend(testkit::test_cases![
        needing &[Namespaces];
        limits_sizes_of_llc_tests,
        refuses_ports,
        refuses_interfaces,
    ]);
    let waiting_tests = testkit::test_cases![ends_tests_at_max_length, limits_intervals];
    test_cases.extend(waiting_tests.into_iter().map(TestCase::allow_many_at_once));
    with_prefix("fields", test_cases).collect()
}

/// Tests, a change of a valid request for each, and the error number of the answer.
type Row<T, R> = (&'static [T], fn(&mut R), i32);

/// Returns a valid request for each of these tests, changed by `change`.
fn classic_requests(tests: &[Classic], change: impl Fn(&mut TestRequest)) -> Vec<Request> {
    let request = |test: &Classic| {
        let sends_messages = matches!(test, UdpStream | DgStream | DlclStream);
        // Each test encodes only its own fields.
        let mut request = TestRequest {
            receive_size: if sends_messages { 100 } else { 0 },
            test_length: 1,
            sap: 84,
            ppa: -1,
            device: Text::new(DEVICE),
            ..TestRequest::classic()
        };
        change(&mut request);
        Request::Classic(*test, request)
    };
    tests.iter().map(request).collect()
}

/// Returns a valid omni request for each kind of test, changed by `change`.
fn omni_requests(kinds: &[TestKind], change: impl Fn(&mut TestRequest)) -> Vec<Request> {
    let request = |kind: &TestKind| {
        let mut request = kind.request(1);
        change(&mut request);
        Request::Omni(request)
    };
    kinds.iter().map(request).collect()
}

/// The interface that the LLC tests name.
const DEVICE: &str = "llc0";

const LLC: [Classic; 4] = [DlcoStream, DlcoRr, DlclStream, DlclRr];

const UNIX: [Classic; 4] = [StreamStream, StreamRr, DgStream, DgRr];

#[track_caller]
fn assert_rows_refused(server: &Server, rows: &[Row<Classic, TestRequest>]) {
    for (tests, change, errno) in rows {
        assert_refused(server, *errno, classic_requests(tests, change));
    }
}

#[track_caller]
fn assert_refused(server: &Server, errno: i32, requests: impl IntoIterator<Item = Request>) {
    for request in requests {
        let mut raw = RawClient::connect(server.port);
        raw.send(&request);
        assert_eq!(
            raw.receive_refusal(),
            Ok(errno),
            "{request:?}: {}",
            server.log()
        );
    }
}

#[track_caller]
fn assert_accepted(server: &Server, request: &Request) -> (RawClient, Frame) {
    let mut raw = RawClient::connect(server.port);
    raw.send(request);
    let response = raw.receive().expect("the server responds");
    assert_eq!(
        check_error(&response),
        Ok(()),
        "{request:?}: {}",
        server.log()
    );
    (raw, response)
}

/// `--max-length`, for requests in which the length is clearly a time.
fn refuses_too_long_tests() {
    let server = Server::start("--max-length 10");
    let timed_tests = [TcpRr, TcpCrr, TcpCc, UdpRr, UdpStream, StreamRr, DgRr];
    let requests_of_length = |length: i32| {
        let classic = classic_requests(&timed_tests, |request| request.test_length = length);
        [
            omni_requests(&TestKind::ALL, |request| request.test_length = length),
            classic,
        ]
        .concat()
    };
    assert_refused(
        &server,
        EDQUOT,
        [11, i32::MAX].into_iter().flat_map(requests_of_length),
    );
    for request in requests_of_length(10) {
        assert_accepted(&server, &request);
    }
}

/// Opens a client's data socket, which then stays silent until it is dropped. `directory` is for
/// the sockets of Unix domain tests.
fn silent_data_socket(request: &Request, response: &Frame, directory: &Path) -> Box<dyn Any> {
    let path =
        |path: SwappedText<32>| PathBuf::from(path.0.raw_str().expect("the response has a path"));
    let port = |port: u32| u16::try_from(port).expect("a valid port");
    let unix_stream =
        |path: PathBuf| Box::new(UnixStream::connect(path).expect("the test listens"));
    let unix_datagram = |path: PathBuf| {
        let socket = tempfile::Builder::new().make_in(directory, |path| UnixDatagram::bind(path));
        let socket = socket.expect("the name is new");
        let result = socket.as_file().send_to(&[0; 100], path);
        result.expect("the test receives");
        Box::new(socket)
    };
    let datagram = |port| {
        let socket = datagram_socket(port);
        socket.send(&[0; 100]).expect("the test receives");
        Box::new(socket)
    };
    match request {
        Request::Classic(test, _) => {
            let response = test
                .messages()
                .parse_response(response)
                .expect("the response is valid");
            match test {
                StreamStream | StreamRr => unix_stream(path(response.path)),
                DgStream | DgRr => unix_datagram(path(response.path)),
                UdpRr | UdpStream => datagram(port(response.data_port)),
                _ => Box::new(data_connection(port(response.data_port))),
            }
        }
        Request::Omni(request) => {
            let response = OMNI
                .parse_response(response)
                .expect("the response is valid");
            let port = port(response.data_port);
            match request.socket_type {
                TestRequest::STREAM => Box::new(data_connection(port)),
                _ => datagram(port),
            }
        }
        unexpected => panic!("{unexpected:?}"),
    }
}

/// `--max-length` ends a test that has no other end: its length may be bytes, a count or zero.
fn ends_tests_at_max_length() {
    let server = Server::start("--max-length 1 --drain 1");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut requests = Vec::new();
    for length in [i32::MAX, 0, i32::MIN] {
        let streams = [TcpStream, TcpMaerts, StreamStream, DgStream];
        requests.extend(classic_requests(&streams, |request| {
            request.test_length = length;
        }));
    }
    for length in [0, i32::MIN] {
        requests.extend(classic_requests(
            &[TcpRr, TcpCrr, TcpCc, UdpRr, DgRr],
            |request| {
                (request.test_length, request.request_size) = (length, 100);
            },
        ));
        requests.extend(classic_requests(&[UdpStream, StreamRr], |request| {
            request.test_length = length;
        }));
        requests.extend(omni_requests(&TestKind::ALL, |request| {
            request.test_length = length;
        }));
    }
    let tests: Vec<_> = requests
        .into_iter()
        .map(|request| {
            let (raw, response) = assert_accepted(&server, &request);
            let data = silent_data_socket(&request, &response, directory.path());
            (request, raw, data)
        })
        .collect();
    for (request, mut raw, _data) in tests {
        // The server sends results, or an error instead.
        let answer = raw.receive();
        assert!(answer.is_ok(), "{request:?}: {answer:?}; {}", server.log());
    }
}

/// The server ends a test despite an interval of more than an hour, an endless burst, or more bytes
/// to touch than a buffer has.
fn limits_intervals() {
    let server = Server::start("--drain 1");
    let mut tests = Vec::new();
    for (burst, interval) in [(1, u32::MAX), (u32::MAX, 1), (u32::MAX, u32::MAX)] {
        for request in omni_requests(&[TestKind::TcpMaerts, TestKind::TcpStream], |request| {
            (request.interval_burst, request.interval_us) = (burst, interval);
            request.send_dirty = i32::MAX;
            request.receive_dirty = i32::MAX;
            request.receive_clean = i32::MAX;
        }) {
            let (raw, response) = assert_accepted(&server, &request);
            let response = OMNI
                .parse_response(&response)
                .expect("the response is valid");
            let mut data =
                data_connection(u16::try_from(response.data_port).expect("a valid port"));
            data.write_all(&[0; 100])
                .expect("the socket buffer has room");
            tests.push((request, raw, data));
        }
    }
    for (request, mut raw, _data) in tests {
        let answer = raw.receive();
        assert!(answer.is_ok(), "{request:?}: {answer:?}; {}", server.log());
    }
}

/// `--max-buffer` limits every field that determines memory.
fn limits_sizes_of_omni_tests() {
    const STREAMS: &[TestKind] = &[
        TestKind::TcpStream,
        TestKind::TcpMaerts,
        TestKind::UdpStream,
    ];
    const TRANSACTIONS: &[TestKind] = &[TestKind::TcpRr, TestKind::TcpCrr, TestKind::UdpRr];
    let server = Server::start("--max-buffer 1M");
    #[rustfmt::skip]
    let rows: [Row<TestKind, TestRequest>; 13] = [
        (STREAMS, |request| (request.send_size, request.receive_size) = (2 * MIB, 2 * MIB), ENOMEM),
        (STREAMS, |request| {
            (request.send_size, request.receive_size) = (1000, 1000);
            (request.send_width, request.receive_width) = (2000, 2000);
        }, ENOMEM),
        (STREAMS, |request| (request.send_width, request.receive_width) = (u32::MAX, u32::MAX), ENOMEM),
        (STREAMS, |request| (request.send_alignment, request.receive_alignment) = (1 << 31, 1 << 31), ENOMEM),
        (STREAMS, |request| (request.send_offset, request.receive_offset) = (u32::MAX, u32::MAX), ENOMEM),
        (TRANSACTIONS, |request| request.request_size = 2 * MIB, ENOMEM),
        (TRANSACTIONS, |request| request.response_size = 2 * MIB, ENOMEM),
        (TRANSACTIONS, |request| request.send_alignment = 1 << 31, ENOMEM),
        (TRANSACTIONS, |request| request.receive_offset = u32::MAX, ENOMEM),
        (TRANSACTIONS, |request| request.request_size = 0, EINVAL),
        (TRANSACTIONS, |request| request.response_size = -1, EINVAL),
        (TRANSACTIONS, |request| request.send_alignment = 0, EINVAL),
        (TRANSACTIONS, |request| request.receive_alignment = 3, EINVAL),
    ];
    for (kinds, change, errno) in rows {
        assert_refused(&server, errno, omni_requests(kinds, change));
    }
}

#[rustfmt::skip]
fn limits_sizes_of_classic_tests() {
    const STREAMS: &[Classic] = &[TcpStream, TcpMaerts];
    const TRANSACTIONS: &[Classic] = &[TcpRr, TcpCrr, UdpRr];
    assert_rows_refused(&Server::start("--max-buffer 1M"), &[
        (STREAMS, |request| request.receive_size = 2 * MIB, ENOMEM),
        (STREAMS, |request| request.receive_alignment = 1 << 30, ENOMEM),
        (STREAMS, |request| request.receive_offset = 2 * MIB as u32, ENOMEM),
        (STREAMS, |request| request.receive_offset = u32::MAX, ENOMEM),
        (STREAMS, |request| request.receive_size = -2, EINVAL),
        (STREAMS, |request| request.receive_alignment = 3, EINVAL),
        (TRANSACTIONS, |request| request.request_size = 2 * MIB, ENOMEM),
        (TRANSACTIONS, |request| request.response_size = 2 * MIB, ENOMEM),
        (TRANSACTIONS, |request| request.receive_alignment = 1 << 30, ENOMEM),
        (TRANSACTIONS, |request| request.send_alignment = 1 << 30, ENOMEM),
        (TRANSACTIONS, |request| request.receive_offset = 2 * MIB as u32, ENOMEM),
        (TRANSACTIONS, |request| request.send_offset = u32::MAX, ENOMEM),
        (TRANSACTIONS, |request| request.request_size = 0, EINVAL),
        (TRANSACTIONS, |request| request.response_size = -1, EINVAL),
        (TRANSACTIONS, |request| request.receive_alignment = 3, EINVAL),
        (TRANSACTIONS, |request| request.send_alignment = 0, EINVAL),
        (&[UdpStream], |request| request.receive_alignment = 1 << 30, ENOMEM),
        (&[UdpStream], |request| request.receive_offset = 2 * MIB as u32, ENOMEM),
        (&[UdpStream], |request| request.receive_size = 65_536, EINVAL),
        (&[UdpStream], |request| request.receive_size = 0, EINVAL),
        (&[UdpStream], |request| request.receive_alignment = 3, EINVAL),
    ]);
}

#[rustfmt::skip]
fn limits_sizes_of_unix_tests() {
    const TRANSACTIONS: &[Classic] = &[StreamRr, DgRr];
    assert_rows_refused(&Server::start("--max-buffer 1M"), &[
        (&[StreamStream], |request| request.receive_size = 2 * MIB, ENOMEM),
        (&[DgStream], |request| request.receive_size = MIB, ENOMEM),
        (&UNIX, |request| request.receive_alignment = 1 << 30, ENOMEM),
        (&UNIX, |request| request.receive_offset = 2 * MIB as u32, ENOMEM),
        (TRANSACTIONS, |request| request.request_size = 2 * MIB, ENOMEM),
        (TRANSACTIONS, |request| request.response_size = 2 * MIB, ENOMEM),
        (TRANSACTIONS, |request| request.send_alignment = 1 << 30, ENOMEM),
        (TRANSACTIONS, |request| request.send_offset = 2 * MIB as u32, ENOMEM),
        (&[DgStream], |request| request.receive_size = MIB + 1, EINVAL),
        (&[DgStream], |request| request.receive_size = 0, EINVAL),
        (&[DgStream], |request| request.receive_offset = u32::MAX, EINVAL),
        (&[DgRr], |request| request.request_size = 0, EINVAL),
        (&[DgRr], |request| request.send_alignment = 3, EINVAL),
        (&[StreamRr], |request| request.response_size = -1, EINVAL),
        (&[StreamRr], |request| request.receive_offset = u32::MAX, EINVAL),
    ]);
}

/// Runs a test on a host with an Ethernet interface.
fn run_with_ethernet(test: impl FnOnce() + Send) {
    let (host, neighbour) = (
        Namespace::with_loopback_only(),
        Namespace::with_loopback_only(),
    );
    add_link(
        (&host, DEVICE, "198.51.100.1/24"),
        (&neighbour, "eth0", "198.51.100.2/24"),
    );
    host.enter(test);
}

/// On a kernel without LLC, the server refuses too large requests because of the missing protocol.
fn limits_sizes_of_llc_tests() {
    let too_large_error = if has_protocol("LLC") {
        ENOMEM
    } else {
        EPROTONOSUPPORT
    };
    #[rustfmt::skip]
    run_with_ethernet(|| assert_rows_refused(&Server::start("--max-buffer 1M"), &[
        (&[DlcoStream], |request| request.receive_size = 2 * MIB, too_large_error),
        (&[DlcoStream], |request| request.receive_offset = 2 * MIB as u32, too_large_error),
        (&[DlcoRr], |request| request.request_size = 2 * MIB, too_large_error),
        (&[DlcoRr], |request| request.response_size = 2 * MIB, too_large_error),
        (&[DlcoRr], |request| request.send_offset = 2 * MIB as u32, too_large_error),
        (&[DlclStream], |request| request.receive_size = MIB, too_large_error),
        (&[DlclStream], |request| request.receive_alignment = 1 << 30, too_large_error),
        (&[DlclRr], |request| request.request_size = 2 * MIB, too_large_error),
        (&[DlclRr], |request| request.send_alignment = 1 << 30, too_large_error),
        (&[DlcoStream], |request| request.receive_size = -2, EINVAL),
        (&[DlcoStream], |request| request.receive_alignment = 3, EINVAL),
        (&[DlcoRr], |request| request.request_size = 0, EINVAL),
        (&[DlcoRr], |request| request.send_offset = u32::MAX, EINVAL),
        (&[DlclStream], |request| request.receive_size = MIB + 1, EINVAL),
        (&[DlclStream], |request| request.receive_offset = u32::MAX, EINVAL),
        (&[DlclRr], |request| request.response_size = 0, EINVAL),
        (&[DlclRr], |request| request.receive_alignment = 0, EINVAL),
        (&[DlcoRr, DlclRr], |request| request.test_length = i32::MAX, EDQUOT),
    ]));
}

/// Socket buffers stay within the kernel's limits, also if root runs the server.
fn limits_socket_buffers() {
    let limit = |name: &str| -> i32 {
        let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}"));
        text.expect("/proc is mounted")
            .trim()
            .parse()
            .expect("the file contains a number")
    };
    // The kernel doubles the requested size.
    let (max_receive, max_send) = (2 * limit("rmem_max"), 2 * limit("wmem_max"));
    // By default, a test's buffers for such large socket buffers would exceed the memory limits.
    let server = Server::start("--max-buffer 4G --max-memory 16G");
    let assert_within_limits = |response: &TestResponse| {
        let sizes = (response.receive_buffer, response.send_buffer);
        assert!(sizes.0 <= max_receive && sizes.1 <= max_send, "{sizes:?}");
    };
    for request in omni_requests(&TestKind::ALL, |request| {
        (request.receive_buffer, request.send_buffer) = (i32::MAX, i32::MAX);
        (request.receive_size, request.send_size) = (1000, 1000);
        (request.receive_width, request.send_width) = (1, 1);
    }) {
        let (_, response) = assert_accepted(&server, &request);
        let response = OMNI
            .parse_response(&response)
            .expect("the response is valid");
        assert_within_limits(&response);
    }
    let classic = classic_requests(
        &[[TcpStream, UdpRr, UdpStream].as_slice(), &UNIX].concat(),
        |request| {
            (request.receive_buffer, request.send_buffer) = (i32::MAX, i32::MAX);
        },
    );
    for request in classic {
        let (_, response) = assert_accepted(&server, &request);
        assert_within_limits(&parse_response(&request, &response));
    }
}

fn parse_response(request: &Request, response: &Frame) -> TestResponse {
    let Request::Classic(test, _) = request else {
        panic!("{request:?}");
    };
    test.messages()
        .parse_response(response)
        .expect("the response is valid")
}

/// The server refuses privileged ports without `--allow-privileged-ports`, and numbers out of
/// range.
fn refuses_ports() {
    Namespace::new().enter(|| {
        let server = Server::start("");
        let tests = [TcpStream, TcpMaerts, TcpRr, UdpRr, TcpCrr, TcpCc, UdpStream];
        let requests_for = |port: i32| {
            let classic = classic_requests(&tests, |request| request.data_port = port as u32);
            let omni = omni_requests(&[TestKind::TcpRr, TestKind::UdpRr], |request| {
                request.data_port = port as u32;
            });
            [classic, omni].concat()
        };
        assert_refused(
            &server,
            EACCES,
            [1, 443, 1023].into_iter().flat_map(requests_for),
        );
        assert_refused(
            &server,
            EINVAL,
            [65_536, -1].into_iter().flat_map(requests_for),
        );
        for request in requests_for(40_443) {
            assert_accepted(&server, &request);
        }
    });
}

/// The server refuses families other than IPv4 and IPv6, and SCTP if the kernel lacks it.
fn refuses_protocols_of_classic_tests() {
    let server = Server::start("");
    for family in [0, 1, 9, 26, 40, u32::MAX] {
        let tests = [TcpStream, TcpRr, UdpRr, UdpStream];
        let requests = classic_requests(&tests, |request| request.family = family);
        assert_refused(&server, EAFNOSUPPORT, requests);
    }
    if !has_protocol("SCTP") {
        let tests = [SctpStream, SctpStreamMany, SctpRr, SctpRrMany];
        assert_refused(&server, EPROTONOSUPPORT, classic_requests(&tests, |_| ()));
        let log = server.log();
        assert!(log.contains("needs the module sctp"), "{log}");
    }
}

/// Returns whether the kernel has loaded this protocol.
fn has_protocol(name: &str) -> bool {
    let protocols = std::fs::read_to_string("/proc/net/protocols").expect("/proc is mounted");
    let mut names = protocols
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    names.any(|protocol| protocol == name)
}

/// The server ignores a CPU that does not exist or that it must not use, and logs that.
fn ignores_unusable_cpus() {
    let server = Server::start("");
    for cpu in [1023, 1024, i32::MAX as u32] {
        let mut raw = RawClient::connect(server.port);
        let frame = omni_requests(&[TestKind::TcpStream], |_| ())[0].encode(Some(cpu));
        raw.control.write_all(&frame).expect("the server reads");
        let response = raw.receive().expect("the server responds");
        assert_eq!(check_error(&response), Ok(()), "{cpu}");
        let expected_message = format!("could not bind to CPU {cpu}");
        assert!(server.log().contains(&expected_message), "{}", server.log());
    }
}

/// The server refuses interfaces other than its Ethernet ones, and reserved service access points.
fn refuses_interfaces() {
    run_with_ethernet(|| {
        let server = Server::start("");
        for device in ["no-such-one", "lo", "../../etc", "*", "%s"] {
            let requests = classic_requests(&LLC, |request| request.device = Text::new(device));
            assert_refused(&server, ENODEV, requests);
        }
        for ppa in [0, i32::MAX] {
            assert_refused(
                &server,
                ENODEV,
                classic_requests(&LLC, |request| request.ppa = ppa),
            );
        }
        for sap in [-1, 3, 256, i32::MAX] {
            assert_refused(
                &server,
                EINVAL,
                classic_requests(&LLC, |request| request.sap = sap),
            );
        }
    });
}

/// The server ignores the requested path and chooses the paths of its sockets.
fn ignores_paths_of_unix_tests() {
    let directory = tempfile::tempdir_in("/tmp").expect("/tmp is writable");
    let requested = directory.path().join("s");
    let server = Server::start("");
    let path = SwappedText(Text::new(requested.as_os_str().as_encoded_bytes()));
    for request in classic_requests(&UNIX, |request| request.path = path) {
        let (_raw, response) = assert_accepted(&server, &request);
        let path = parse_response(&request, &response).path.0.to_string();
        assert!(path.starts_with("/tmp/") && !path.starts_with(&*requested.to_string_lossy()));
        assert!(!requested.exists(), "{request:?}");
    }
}
