//! The fields of netperf's requests, out of bounds one by one: docs/src/requests.md names these cases.

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

use super::raw::{Kind, Raw, data_connection, datagram_socket};

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
        lengths_that_are_refused,
        sizes_of_omni_tests,
        sizes_of_classic_tests,
        sizes_of_unix_tests,
        socket_buffers,
        protocols_of_classic_tests,
        processors,
        paths_of_unix_tests,
    ];
    test_cases
        .extend(testkit::test_cases![needing &[Namespaces]; sizes_of_llc_tests, ports, interfaces]);
    let waiting = testkit::test_cases![lengths_that_are_cut, intervals];
    test_cases.extend(waiting.into_iter().map(TestCase::allow_many));
    with_prefix("fields", test_cases).collect()
}

/// Tests, what is changed in a good request for each, and the error number of the answer.
type Row<T, R> = (&'static [T], fn(&mut R), i32);

/// A good request for each of these tests, changed.
fn classic(tests: &[Classic], change: impl Fn(&mut TestRequest)) -> Vec<Request> {
    let request = |test: &Classic| {
        let sends_messages = matches!(test, UdpStream | DgStream | DlclStream);
        // A test has no other fields of these than its own.
        let mut asked = TestRequest {
            receive_size: if sends_messages { 100 } else { 0 },
            test_length: 1,
            sap: 84,
            ppa: -1,
            device: Text::new(DEVICE),
            ..TestRequest::classic()
        };
        change(&mut asked);
        Request::Classic(*test, asked)
    };
    tests.iter().map(request).collect()
}

/// The same of omni tests.
fn omni(kinds: &[Kind], change: impl Fn(&mut TestRequest)) -> Vec<Request> {
    let request = |kind: &Kind| {
        let mut asked = kind.request(1);
        change(&mut asked);
        Request::Omni(asked)
    };
    kinds.iter().map(request).collect()
}

/// The interface that the LLC tests name.
const DEVICE: &str = "llc0";

const LLC: [Classic; 4] = [DlcoStream, DlcoRr, DlclStream, DlclRr];

const UNIX: [Classic; 4] = [StreamStream, StreamRr, DgStream, DgRr];

#[track_caller]
fn rows_are_refused(server: &Server, rows: &[Row<Classic, TestRequest>]) {
    for (tests, change, errno) in rows {
        are_refused(server, *errno, classic(tests, change));
    }
}

#[track_caller]
fn are_refused(server: &Server, errno: i32, requests: impl IntoIterator<Item = Request>) {
    for request in requests {
        let mut raw = Raw::connect(server.port);
        raw.send(&request);
        let log = || server.log();
        assert_eq!(raw.refusal(), Ok(errno), "{request:?}: {}", log());
    }
}

#[track_caller]
fn is_accepted(server: &Server, request: &Request) -> (Raw, Frame) {
    let mut raw = Raw::connect(server.port);
    raw.send(request);
    let response = raw.receive().expect("a response");
    assert_eq!(
        check_error(&response),
        Ok(()),
        "{request:?}: {}",
        server.log()
    );
    (raw, response)
}

/// `--max-length`, where the request says whether its length is a time.
fn lengths_that_are_refused() {
    let server = Server::start("--max-length 10");
    let timed = [TcpRr, TcpCrr, TcpCc, UdpRr, UdpStream, StreamRr, DgRr];
    let at = |length: i32| {
        let classic = classic(&timed, |asked| asked.test_length = length);
        [
            omni(&Kind::ALL, |asked| asked.test_length = length),
            classic,
        ]
        .concat()
    };
    are_refused(&server, EDQUOT, [11, i32::MAX].into_iter().flat_map(at));
    for request in at(10) {
        is_accepted(&server, &request);
    }
}

/// A client's end that says nothing more, as long as it is held.
fn silent_end(request: &Request, response: &Frame, place: &Path) -> Box<dyn Any> {
    let path = |path: SwappedText<32>| PathBuf::from(path.0.raw_str().expect("a path"));
    let to = |port: u32| u16::try_from(port).expect("a port");
    let unix_stream = |path: PathBuf| Box::new(UnixStream::connect(path).expect("it listens"));
    let unix_datagram = |there: PathBuf| {
        let here = tempfile::Builder::new().make_in(place, |path| UnixDatagram::bind(path));
        let here = here.expect("a new name");
        let sent = here.as_file().send_to(&[0; 100], there);
        sent.expect("it receives");
        Box::new(here)
    };
    let datagram = |port| {
        let socket = datagram_socket(port);
        socket.send(&[0; 100]).expect("it receives");
        Box::new(socket)
    };
    match request {
        Request::Classic(test, _) => {
            let told = test.messages().parse_response(response).expect("it is one");
            match test {
                StreamStream | StreamRr => unix_stream(path(told.path)),
                DgStream | DgRr => unix_datagram(path(told.path)),
                UdpRr | UdpStream => datagram(to(told.data_port)),
                _ => Box::new(data_connection(to(told.data_port))),
            }
        }
        Request::Omni(asked) => {
            let port = to(OMNI.parse_response(response).expect("it is one").data_port);
            match asked.socket_type {
                TestRequest::STREAM => Box::new(data_connection(port)),
                _ => datagram(port),
            }
        }
        other => panic!("{other:?}"),
    }
}

/// `--max-length` ends a test that nothing else ends: lengths that may be bytes, counts, and none at all.
fn lengths_that_are_cut() {
    let server = Server::start("--max-length 1 --drain 1");
    let place = tempfile::tempdir().expect("a directory");
    let mut requests = Vec::new();
    for length in [i32::MAX, 0, i32::MIN] {
        let streams = [TcpStream, TcpMaerts, StreamStream, DgStream];
        requests.extend(classic(&streams, |asked| asked.test_length = length));
    }
    for length in [0, i32::MIN] {
        requests.extend(classic(&[TcpRr, TcpCrr, TcpCc, UdpRr, DgRr], |asked| {
            (asked.test_length, asked.request_size) = (length, 100);
        }));
        requests.extend(classic(&[UdpStream, StreamRr], |asked| {
            asked.test_length = length;
        }));
        requests.extend(omni(&Kind::ALL, |asked| asked.test_length = length));
    }
    let tests: Vec<_> = requests
        .into_iter()
        .map(|request| {
            let (raw, response) = is_accepted(&server, &request);
            let end = silent_end(&request, &response, place.path());
            (request, raw, end)
        })
        .collect();
    for (request, mut raw, _end) in tests {
        // Results, or an error in their place.
        let ended = raw.receive();
        assert!(ended.is_ok(), "{request:?}: {ended:?}; {}", server.log());
    }
}

/// An interval of more than an hour holds nothing up, nor does a burst that never ends, nor more bytes to touch
/// than a buffer has.
fn intervals() {
    let server = Server::start("--drain 1");
    let mut tests = Vec::new();
    for (burst, interval) in [(1, u32::MAX), (u32::MAX, 1), (u32::MAX, u32::MAX)] {
        for request in omni(&[Kind::TcpMaerts, Kind::TcpStream], |asked| {
            (asked.interval_burst, asked.interval_us) = (burst, interval);
            asked.send_dirty = i32::MAX;
            asked.receive_dirty = i32::MAX;
            asked.receive_clean = i32::MAX;
        }) {
            let (raw, response) = is_accepted(&server, &request);
            let told = OMNI.parse_response(&response).expect("it is one");
            let mut data = data_connection(u16::try_from(told.data_port).expect("a port"));
            data.write_all(&[0; 100]).expect("there is room");
            tests.push((request, raw, data));
        }
    }
    for (request, mut raw, _data) in tests {
        let ended = raw.receive();
        assert!(ended.is_ok(), "{request:?}: {ended:?}; {}", server.log());
    }
}

/// `--max-buffer` bounds whatever takes memory.
fn sizes_of_omni_tests() {
    const STREAMS: &[Kind] = &[Kind::TcpStream, Kind::TcpMaerts, Kind::UdpStream];
    const EXCHANGES: &[Kind] = &[Kind::TcpRr, Kind::TcpCrr, Kind::UdpRr];
    let server = Server::start("--max-buffer 1M");
    #[rustfmt::skip]
    let rows: [Row<Kind, TestRequest>; 13] = [
        (STREAMS, |asked| (asked.send_size, asked.receive_size) = (2 * MIB, 2 * MIB), ENOMEM),
        (STREAMS, |asked| {
            (asked.send_size, asked.receive_size) = (1000, 1000);
            (asked.send_width, asked.receive_width) = (2000, 2000);
        }, ENOMEM),
        (STREAMS, |asked| (asked.send_width, asked.receive_width) = (u32::MAX, u32::MAX), ENOMEM),
        (STREAMS, |asked| (asked.send_alignment, asked.receive_alignment) = (1 << 31, 1 << 31), ENOMEM),
        (STREAMS, |asked| (asked.send_offset, asked.receive_offset) = (u32::MAX, u32::MAX), ENOMEM),
        (EXCHANGES, |asked| asked.request_size = 2 * MIB, ENOMEM),
        (EXCHANGES, |asked| asked.response_size = 2 * MIB, ENOMEM),
        (EXCHANGES, |asked| asked.send_alignment = 1 << 31, ENOMEM),
        (EXCHANGES, |asked| asked.receive_offset = u32::MAX, ENOMEM),
        (EXCHANGES, |asked| asked.request_size = 0, EINVAL),
        (EXCHANGES, |asked| asked.response_size = -1, EINVAL),
        (EXCHANGES, |asked| asked.send_alignment = 0, EINVAL),
        (EXCHANGES, |asked| asked.receive_alignment = 3, EINVAL),
    ];
    for (kinds, change, errno) in rows {
        are_refused(&server, errno, omni(kinds, change));
    }
}

#[rustfmt::skip]
fn sizes_of_classic_tests() {
    const STREAMS: &[Classic] = &[TcpStream, TcpMaerts];
    const EXCHANGES: &[Classic] = &[TcpRr, TcpCrr, UdpRr];
    rows_are_refused(&Server::start("--max-buffer 1M"), &[
        (STREAMS, |asked| asked.receive_size = 2 * MIB, ENOMEM),
        (STREAMS, |asked| asked.receive_alignment = 1 << 30, ENOMEM),
        (STREAMS, |asked| asked.receive_offset = 2 * MIB as u32, ENOMEM),
        (STREAMS, |asked| asked.receive_offset = u32::MAX, ENOMEM),
        (STREAMS, |asked| asked.receive_size = -2, EINVAL),
        (STREAMS, |asked| asked.receive_alignment = 3, EINVAL),
        (EXCHANGES, |asked| asked.request_size = 2 * MIB, ENOMEM),
        (EXCHANGES, |asked| asked.response_size = 2 * MIB, ENOMEM),
        (EXCHANGES, |asked| asked.receive_alignment = 1 << 30, ENOMEM),
        (EXCHANGES, |asked| asked.send_alignment = 1 << 30, ENOMEM),
        (EXCHANGES, |asked| asked.receive_offset = 2 * MIB as u32, ENOMEM),
        (EXCHANGES, |asked| asked.send_offset = u32::MAX, ENOMEM),
        (EXCHANGES, |asked| asked.request_size = 0, EINVAL),
        (EXCHANGES, |asked| asked.response_size = -1, EINVAL),
        (EXCHANGES, |asked| asked.receive_alignment = 3, EINVAL),
        (EXCHANGES, |asked| asked.send_alignment = 0, EINVAL),
        (&[UdpStream], |asked| asked.receive_alignment = 1 << 30, ENOMEM),
        (&[UdpStream], |asked| asked.receive_offset = 2 * MIB as u32, ENOMEM),
        (&[UdpStream], |asked| asked.receive_size = 65_536, EINVAL),
        (&[UdpStream], |asked| asked.receive_size = 0, EINVAL),
        (&[UdpStream], |asked| asked.receive_alignment = 3, EINVAL),
    ]);
}

#[rustfmt::skip]
fn sizes_of_unix_tests() {
    const EXCHANGES: &[Classic] = &[StreamRr, DgRr];
    rows_are_refused(&Server::start("--max-buffer 1M"), &[
        (&[StreamStream], |asked| asked.receive_size = 2 * MIB, ENOMEM),
        (&[DgStream], |asked| asked.receive_size = MIB, ENOMEM),
        (&UNIX, |asked| asked.receive_alignment = 1 << 30, ENOMEM),
        (&UNIX, |asked| asked.receive_offset = 2 * MIB as u32, ENOMEM),
        (EXCHANGES, |asked| asked.request_size = 2 * MIB, ENOMEM),
        (EXCHANGES, |asked| asked.response_size = 2 * MIB, ENOMEM),
        (EXCHANGES, |asked| asked.send_alignment = 1 << 30, ENOMEM),
        (EXCHANGES, |asked| asked.send_offset = 2 * MIB as u32, ENOMEM),
        (&[DgStream], |asked| asked.receive_size = MIB + 1, EINVAL),
        (&[DgStream], |asked| asked.receive_size = 0, EINVAL),
        (&[DgStream], |asked| asked.receive_offset = u32::MAX, EINVAL),
        (&[DgRr], |asked| asked.request_size = 0, EINVAL),
        (&[DgRr], |asked| asked.send_alignment = 3, EINVAL),
        (&[StreamRr], |asked| asked.response_size = -1, EINVAL),
        (&[StreamRr], |asked| asked.receive_offset = u32::MAX, EINVAL),
    ]);
}

/// A host with an Ethernet, and a server there.
fn with_an_ethernet(test: impl FnOnce() + Send) {
    let (here, there) = (
        Namespace::with_loopback_only(),
        Namespace::with_loopback_only(),
    );
    add_link(
        (&here, DEVICE, "198.51.100.1/24"),
        (&there, "eth0", "198.51.100.2/24"),
    );
    here.enter(test);
}

/// Where this kernel has no LLC, what would be refused for its memory is refused for that.
fn sizes_of_llc_tests() {
    let too_large = if has_protocol("LLC") {
        ENOMEM
    } else {
        EPROTONOSUPPORT
    };
    #[rustfmt::skip]
    with_an_ethernet(|| rows_are_refused(&Server::start("--max-buffer 1M"), &[
        (&[DlcoStream], |asked| asked.receive_size = 2 * MIB, too_large),
        (&[DlcoStream], |asked| asked.receive_offset = 2 * MIB as u32, too_large),
        (&[DlcoRr], |asked| asked.request_size = 2 * MIB, too_large),
        (&[DlcoRr], |asked| asked.response_size = 2 * MIB, too_large),
        (&[DlcoRr], |asked| asked.send_offset = 2 * MIB as u32, too_large),
        (&[DlclStream], |asked| asked.receive_size = MIB, too_large),
        (&[DlclStream], |asked| asked.receive_alignment = 1 << 30, too_large),
        (&[DlclRr], |asked| asked.request_size = 2 * MIB, too_large),
        (&[DlclRr], |asked| asked.send_alignment = 1 << 30, too_large),
        (&[DlcoStream], |asked| asked.receive_size = -2, EINVAL),
        (&[DlcoStream], |asked| asked.receive_alignment = 3, EINVAL),
        (&[DlcoRr], |asked| asked.request_size = 0, EINVAL),
        (&[DlcoRr], |asked| asked.send_offset = u32::MAX, EINVAL),
        (&[DlclStream], |asked| asked.receive_size = MIB + 1, EINVAL),
        (&[DlclStream], |asked| asked.receive_offset = u32::MAX, EINVAL),
        (&[DlclRr], |asked| asked.response_size = 0, EINVAL),
        (&[DlclRr], |asked| asked.receive_alignment = 0, EINVAL),
        (&[DlcoRr, DlclRr], |asked| asked.test_length = i32::MAX, EDQUOT),
    ]));
}

/// The kernel's limits hold: no request goes beyond them, also if root serves it.
fn socket_buffers() {
    let limit = |name: &str| -> i32 {
        let text = std::fs::read_to_string(format!("/proc/sys/net/core/{name}"));
        text.expect("/proc is there")
            .trim()
            .parse()
            .expect("a number")
    };
    // The kernel doubles what it is given.
    let (receive, send) = (2 * limit("rmem_max"), 2 * limit("wmem_max"));
    // Rings that cover such a buffer are larger than a server allows.
    let server = Server::start("--max-buffer 4G --max-memory 16G");
    let within = |told: (i32, i32)| assert!(told.0 <= receive && told.1 <= send, "{told:?}");
    for request in omni(&Kind::ALL, |asked| {
        (asked.receive_buffer, asked.send_buffer) = (i32::MAX, i32::MAX);
        (asked.receive_size, asked.send_size) = (1000, 1000);
        (asked.receive_width, asked.send_width) = (1, 1);
    }) {
        let (_, response) = is_accepted(&server, &request);
        let told = OMNI.parse_response(&response).expect("it is one");
        within((told.receive_buffer, told.send_buffer));
    }
    let classic = classic(
        &[[TcpStream, UdpRr, UdpStream].as_slice(), &UNIX].concat(),
        |asked| {
            (asked.receive_buffer, asked.send_buffer) = (i32::MAX, i32::MAX);
        },
    );
    for request in classic {
        let (_, response) = is_accepted(&server, &request);
        let told = response_to(&request, &response);
        within((told.receive_buffer, told.send_buffer));
    }
}

fn response_to(request: &Request, response: &Frame) -> TestResponse {
    let Request::Classic(test, _) = request else {
        panic!("{request:?}");
    };
    test.messages().parse_response(response).expect("it is one")
}

/// `--allow-privileged-ports`, and what no port is.
fn ports() {
    Namespace::new().enter(|| {
        let server = Server::start("");
        let tests = [TcpStream, TcpMaerts, TcpRr, UdpRr, TcpCrr, TcpCc, UdpStream];
        let on = |port: i32| {
            let classic = classic(&tests, |asked| asked.data_port = port as u32);
            let omni = omni(&[Kind::TcpRr, Kind::UdpRr], |asked| {
                asked.data_port = port as u32;
            });
            [classic, omni].concat()
        };
        are_refused(&server, EACCES, [1, 443, 1023].into_iter().flat_map(on));
        are_refused(&server, EINVAL, [65_536, -1].into_iter().flat_map(on));
        for request in on(40_443) {
            is_accepted(&server, &request);
        }
    });
}

/// No family but those of IP, and SCTP only where this kernel has it.
fn protocols_of_classic_tests() {
    let server = Server::start("");
    for family in [0, 1, 9, 26, 40, u32::MAX] {
        let tests = [TcpStream, TcpRr, UdpRr, UdpStream];
        let requests = classic(&tests, |asked| asked.family = family);
        are_refused(&server, EAFNOSUPPORT, requests);
    }
    if !has_protocol("SCTP") {
        let tests = [SctpStream, SctpStreamMany, SctpRr, SctpRrMany];
        are_refused(&server, EPROTONOSUPPORT, classic(&tests, |_| ()));
        let log = server.log();
        assert!(log.contains("needs the module sctp"), "{log}");
    }
}

/// Whether the kernel has this protocol at the moment.
fn has_protocol(name: &str) -> bool {
    let known = std::fs::read_to_string("/proc/net/protocols").expect("/proc is there");
    let mut names = known
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    names.any(|known| known == name)
}

/// A CPU that there is not, or that the server may not use, is left alone, and the log says so.
fn processors() {
    let server = Server::start("");
    for cpu in [1023, 1024, i32::MAX as u32] {
        let mut raw = Raw::connect(server.port);
        let frame = omni(&[Kind::TcpStream], |_| ())[0].encode(Some(cpu));
        raw.control.write_all(&frame).expect("the server reads");
        let response = raw.receive().expect("a response");
        assert_eq!(check_error(&response), Ok(()), "{cpu}");
        let words = format!("could not bind to CPU {cpu}");
        assert!(server.log().contains(&words), "{}", server.log());
    }
}

/// No interface but an Ethernet of this host, no access point but one of a user.
fn interfaces() {
    with_an_ethernet(|| {
        let server = Server::start("");
        for device in ["no-such-one", "lo", "../../etc", "*", "%s"] {
            let requests = classic(&LLC, |asked| asked.device = Text::new(device));
            are_refused(&server, ENODEV, requests);
        }
        for ppa in [0, i32::MAX] {
            are_refused(&server, ENODEV, classic(&LLC, |asked| asked.ppa = ppa));
        }
        for sap in [-1, 3, 256, i32::MAX] {
            are_refused(&server, EINVAL, classic(&LLC, |asked| asked.sap = sap));
        }
    });
}

/// The server alone decides where its sockets are.
fn paths_of_unix_tests() {
    let place = tempfile::tempdir_in("/tmp").expect("/tmp is writable");
    let named = place.path().join("s");
    let server = Server::start("");
    let path = SwappedText(Text::new(named.as_os_str().as_encoded_bytes()));
    for request in classic(&UNIX, |asked| asked.path = path) {
        let (_raw, response) = is_accepted(&server, &request);
        let told = response_to(&request, &response).path.0.to_string();
        assert!(told.starts_with("/tmp/") && !told.starts_with(&*named.to_string_lossy()));
        assert!(!named.exists(), "{request:?}");
    }
}
