//! The fields of netperf's requests, out of bounds one by one: docs/src/requests.md names these cases.

use std::any::Any;
use std::io::Write;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};

use netperf::wire::{
    Classic, ClassicRequest, Frame, OmniRequest, OmniResponse, Request, SwappedText, Text, check,
};
use testkit::Need::Namespaces;
use testkit::{Namespace, Server, Trial, link, trial};

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

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("fields::lengths_that_are_refused", &[], refused_lengths),
        trial("fields::lengths_that_are_cut", &[], cut_lengths).waiting(),
        trial("fields::intervals", &[], intervals).waiting(),
        trial("fields::sizes_of_omni_tests", &[], sizes_of_omni_tests),
        trial(
            "fields::sizes_of_classic_tests",
            &[],
            sizes_of_classic_tests,
        ),
        trial("fields::sizes_of_unix_tests", &[], sizes_of_unix_tests),
        trial(
            "fields::sizes_of_llc_tests",
            &[Namespaces],
            sizes_of_llc_tests,
        ),
        trial("fields::socket_buffers", &[], socket_buffers),
        trial("fields::ports", &[Namespaces], ports),
        trial("fields::protocols_of_classic_tests", &[], protocols),
        trial("fields::processors", &[], processors),
        trial("fields::interfaces", &[Namespaces], interfaces),
        trial("fields::paths_of_unix_tests", &[], paths_of_unix_tests),
    ]
}

fn stream(change: impl FnOnce(&mut ClassicRequest)) -> ClassicRequest {
    changed(
        ClassicRequest {
            test_length: 1,
            ..ClassicRequest::default()
        },
        change,
    )
}

fn transaction(change: impl FnOnce(&mut ClassicRequest)) -> ClassicRequest {
    changed(
        ClassicRequest {
            test_length: 1,
            ..ClassicRequest::default()
        },
        change,
    )
}

fn datagrams(change: impl FnOnce(&mut ClassicRequest)) -> ClassicRequest {
    changed(
        ClassicRequest {
            receive_size: 100,
            test_length: 1,
            ..ClassicRequest::default()
        },
        change,
    )
}

fn stream_stream(change: impl FnOnce(&mut ClassicRequest)) -> Request {
    Request::Classic(
        Classic::StreamStream,
        changed(
            ClassicRequest {
                test_length: 1,
                ..ClassicRequest::default()
            },
            change,
        ),
    )
}

fn stream_rr(change: impl FnOnce(&mut ClassicRequest)) -> Request {
    Request::Classic(
        Classic::StreamRr,
        changed(
            ClassicRequest {
                test_length: 1,
                ..ClassicRequest::default()
            },
            change,
        ),
    )
}

fn dg_stream(change: impl FnOnce(&mut ClassicRequest)) -> Request {
    Request::Classic(
        Classic::DgStream,
        changed(
            ClassicRequest {
                receive_size: 100,
                test_length: 1,
                ..ClassicRequest::default()
            },
            change,
        ),
    )
}

fn dg_rr(change: impl FnOnce(&mut ClassicRequest)) -> Request {
    Request::Classic(
        Classic::DgRr,
        changed(
            ClassicRequest {
                test_length: 1,
                ..ClassicRequest::default()
            },
            change,
        ),
    )
}

/// The interface that the LLC tests name.
const DEVICE: &str = "llc0";

fn dlco_stream(change: impl FnOnce(&mut ClassicRequest)) -> Request {
    Request::Classic(
        Classic::DlcoStream,
        changed(
            ClassicRequest {
                test_length: 1,
                sap: 84,
                ppa: -1,
                device: Text::new(DEVICE),
                ..ClassicRequest::default()
            },
            change,
        ),
    )
}

fn dlco_rr(change: impl FnOnce(&mut ClassicRequest)) -> Request {
    Request::Classic(
        Classic::DlcoRr,
        changed(
            ClassicRequest {
                test_length: 1,
                sap: 84,
                ppa: -1,
                device: Text::new(DEVICE),
                ..ClassicRequest::default()
            },
            change,
        ),
    )
}

fn dlcl_stream(change: impl FnOnce(&mut ClassicRequest)) -> Request {
    Request::Classic(
        Classic::DlclStream,
        changed(
            ClassicRequest {
                receive_size: 100,
                test_length: 1,
                sap: 84,
                ppa: -1,
                device: Text::new(DEVICE),
                ..ClassicRequest::default()
            },
            change,
        ),
    )
}

fn dlcl_rr(change: impl FnOnce(&mut ClassicRequest)) -> Request {
    Request::Classic(
        Classic::DlclRr,
        changed(
            ClassicRequest {
                test_length: 1,
                sap: 84,
                ppa: -1,
                device: Text::new(DEVICE),
                ..ClassicRequest::default()
            },
            change,
        ),
    )
}

fn omni(kind: Kind, change: impl FnOnce(&mut OmniRequest)) -> Request {
    Request::Omni(changed(kind.request(1), change))
}

fn changed<T>(mut record: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut record);
    record
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
    assert_eq!(check(&response), Ok(()), "{request:?}: {}", server.log());
    (raw, response)
}

/// `--max-length`, where the request says whether its length is a time.
fn refused_lengths() {
    let server = Server::start("--max-length 10");
    let at = |length: i32| {
        let rr = transaction(|asked| asked.test_length = length);
        let mut requests: Vec<_> = Kind::ALL
            .into_iter()
            .map(|kind| omni(kind, |asked| asked.test_length = length))
            .collect();
        requests.extend([
            Request::Classic(Classic::TcpRr, rr.clone()),
            Request::Classic(Classic::TcpCrr, rr.clone()),
            Request::Classic(Classic::TcpCc, rr.clone()),
            Request::Classic(Classic::UdpRr, rr),
            Request::Classic(
                Classic::UdpStream,
                datagrams(|asked| asked.test_length = length),
            ),
            stream_rr(|asked| asked.test_length = length),
            dg_rr(|asked| asked.test_length = length),
        ]);
        requests
    };
    are_refused(&server, EDQUOT, [11, i32::MAX].into_iter().flat_map(at));
    for request in at(10) {
        is_accepted(&server, &request);
    }
}

/// A client's end that says nothing more, as long as it is held.
fn silent_end(request: &Request, response: &Frame, place: &Path) -> Box<dyn Any> {
    let path = |path: SwappedText<32>| PathBuf::from(path.0.raw_str().expect("a path"));
    let to = |port: i32| u16::try_from(port).expect("a port");
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
            let told = test.response(response).expect("it is one");
            match test {
                Classic::StreamStream | Classic::StreamRr => unix_stream(path(told.path)),
                Classic::DgStream | Classic::DgRr => unix_datagram(path(told.path)),
                Classic::UdpRr | Classic::UdpStream => datagram(to(told.data_port)),
                _ => Box::new(data_connection(to(told.data_port))),
            }
        }
        Request::Omni(asked) => {
            let port = OmniResponse::decode(response).expect("it is one").data_port;
            let port = u16::try_from(port).expect("a port");
            match asked.socket_type {
                OmniRequest::STREAM => Box::new(data_connection(port)),
                _ => datagram(port),
            }
        }
        other => panic!("{other:?}"),
    }
}

/// `--max-length` ends a test that nothing else ends: lengths that may be bytes, counts, and none at all.
fn cut_lengths() {
    let server = Server::start("--max-length 1 --drain 1");
    let place = tempfile::tempdir().expect("a directory");
    let bytes = [i32::MAX, 0, i32::MIN];
    let counts = [0, i32::MIN];
    let mut requests = Vec::new();
    for length in bytes {
        let asked = stream(|asked| asked.test_length = length);
        requests.extend([
            Request::Classic(Classic::TcpStream, asked.clone()),
            Request::Classic(Classic::TcpMaerts, asked),
            stream_stream(|asked| asked.test_length = length),
            dg_stream(|asked| asked.test_length = length),
        ]);
    }
    for length in counts {
        let rr = transaction(|asked| {
            (asked.test_length, asked.request_size) = (length, 100);
        });
        requests.extend([
            Request::Classic(Classic::TcpRr, rr.clone()),
            Request::Classic(Classic::TcpCrr, rr.clone()),
            Request::Classic(Classic::TcpCc, rr.clone()),
            Request::Classic(Classic::UdpRr, rr),
            Request::Classic(
                Classic::UdpStream,
                datagrams(|asked| asked.test_length = length),
            ),
            stream_rr(|asked| asked.test_length = length),
            dg_rr(|asked| (asked.test_length, asked.request_size) = (length, 100)),
        ]);
        requests.extend(
            Kind::ALL
                .into_iter()
                .map(|kind| omni(kind, |asked| asked.test_length = length)),
        );
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
        for kind in [Kind::TcpMaerts, Kind::TcpStream] {
            let request = omni(kind, |asked| {
                (asked.interval_burst, asked.interval_us) = (burst, interval);
                asked.send_dirty = i32::MAX;
                asked.receive_dirty = i32::MAX;
                asked.receive_clean = i32::MAX;
            });
            let (raw, response) = is_accepted(&server, &request);
            let told = OmniResponse::decode(&response).expect("it is one");
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
    let server = Server::start("--max-buffer 1M");
    let large: [fn(&mut OmniRequest); 5] = [
        |asked| (asked.send_size, asked.receive_size) = (2 * MIB, 2 * MIB),
        |asked| {
            (asked.send_size, asked.receive_size) = (1000, 1000);
            (asked.send_width, asked.receive_width) = (2000, 2000);
        },
        |asked| (asked.send_width, asked.receive_width) = (u32::MAX, u32::MAX),
        |asked| (asked.send_alignment, asked.receive_alignment) = (1 << 31, 1 << 31),
        |asked| (asked.send_offset, asked.receive_offset) = (u32::MAX, u32::MAX),
    ];
    for kind in [Kind::TcpStream, Kind::TcpMaerts, Kind::UdpStream] {
        are_refused(&server, ENOMEM, large.map(|change| omni(kind, change)));
    }
    for kind in [Kind::TcpRr, Kind::TcpCrr, Kind::UdpRr] {
        let large: [fn(&mut OmniRequest); 4] = [
            |asked| asked.request_size = 2 * MIB,
            |asked| asked.response_size = 2 * MIB,
            |asked| asked.send_alignment = 1 << 31,
            |asked| asked.receive_offset = u32::MAX,
        ];
        are_refused(&server, ENOMEM, large.map(|change| omni(kind, change)));
        let senseless: [fn(&mut OmniRequest); 4] = [
            |asked| asked.request_size = 0,
            |asked| asked.response_size = -1,
            |asked| asked.send_alignment = 0,
            |asked| asked.receive_alignment = 3,
        ];
        are_refused(&server, EINVAL, senseless.map(|change| omni(kind, change)));
    }
}

fn sizes_of_classic_tests() {
    let server = Server::start("--max-buffer 1M");
    let large: [fn(&mut ClassicRequest); 4] = [
        |asked| asked.receive_size = 2 * MIB,
        |asked| asked.receive_alignment = 1 << 30,
        |asked| asked.receive_offset = 2 * MIB,
        |asked| asked.receive_offset = -1,
    ];
    for test in [Classic::TcpStream, Classic::TcpMaerts] {
        are_refused(
            &server,
            ENOMEM,
            large.map(|change| Request::Classic(test, stream(change))),
        );
        let senseless: [fn(&mut ClassicRequest); 2] = [
            |asked| asked.receive_size = -2,
            |asked| asked.receive_alignment = 3,
        ];
        are_refused(
            &server,
            EINVAL,
            senseless.map(|change| Request::Classic(test, stream(change))),
        );
    }
    let large: [fn(&mut ClassicRequest); 6] = [
        |asked| asked.request_size = 2 * MIB,
        |asked| asked.response_size = 2 * MIB,
        |asked| asked.receive_alignment = 1 << 30,
        |asked| asked.send_alignment = 1 << 30,
        |asked| asked.receive_offset = 2 * MIB,
        |asked| asked.send_offset = -1,
    ];
    for test in [Classic::TcpRr, Classic::TcpCrr, Classic::UdpRr] {
        are_refused(
            &server,
            ENOMEM,
            large.map(|change| Request::Classic(test, transaction(change))),
        );
        let senseless: [fn(&mut ClassicRequest); 4] = [
            |asked| asked.request_size = 0,
            |asked| asked.response_size = -1,
            |asked| asked.receive_alignment = 3,
            |asked| asked.send_alignment = 0,
        ];
        are_refused(
            &server,
            EINVAL,
            senseless.map(|change| Request::Classic(test, transaction(change))),
        );
    }
    let large: [fn(&mut ClassicRequest); 2] = [
        |asked| asked.receive_alignment = 1 << 30,
        |asked| asked.receive_offset = 2 * MIB,
    ];
    are_refused(
        &server,
        ENOMEM,
        large.map(|change| Request::Classic(Classic::UdpStream, datagrams(change))),
    );
    let senseless: [fn(&mut ClassicRequest); 3] = [
        |asked| asked.receive_size = 65_536,
        |asked| asked.receive_size = 0,
        |asked| asked.receive_alignment = 3,
    ];
    are_refused(
        &server,
        EINVAL,
        senseless.map(|change| Request::Classic(Classic::UdpStream, datagrams(change))),
    );
}

fn sizes_of_unix_tests() {
    let server = Server::start("--max-buffer 1M");
    are_refused(
        &server,
        ENOMEM,
        [
            stream_stream(|asked| asked.receive_size = 2 * MIB),
            stream_stream(|asked| asked.receive_alignment = 1 << 30),
            stream_stream(|asked| asked.receive_offset = 2 * MIB),
            stream_rr(|asked| asked.request_size = 2 * MIB),
            stream_rr(|asked| asked.response_size = 2 * MIB),
            stream_rr(|asked| asked.receive_alignment = 1 << 30),
            stream_rr(|asked| asked.send_alignment = 1 << 30),
            stream_rr(|asked| asked.receive_offset = 2 * MIB),
            stream_rr(|asked| asked.send_offset = 2 * MIB),
            dg_stream(|asked| asked.receive_size = MIB),
            dg_stream(|asked| asked.receive_alignment = 1 << 30),
            dg_stream(|asked| asked.receive_offset = 2 * MIB),
            dg_rr(|asked| asked.request_size = 2 * MIB),
            dg_rr(|asked| asked.response_size = 2 * MIB),
            dg_rr(|asked| asked.receive_alignment = 1 << 30),
            dg_rr(|asked| asked.send_alignment = 1 << 30),
            dg_rr(|asked| asked.receive_offset = 2 * MIB),
            dg_rr(|asked| asked.send_offset = 2 * MIB),
        ],
    );
    are_refused(
        &server,
        EINVAL,
        [
            dg_stream(|asked| asked.receive_size = MIB + 1),
            dg_stream(|asked| asked.receive_size = 0),
            dg_stream(|asked| asked.receive_offset = -1),
            dg_rr(|asked| asked.request_size = 0),
            dg_rr(|asked| asked.send_alignment = 3),
            stream_rr(|asked| asked.response_size = -1),
            stream_rr(|asked| asked.receive_offset = -1),
        ],
    );
}

/// A host with an Ethernet, and a server there.
fn with_an_ethernet(test: impl FnOnce() + Send) {
    let (here, there) = (Namespace::bare(), Namespace::bare());
    link(
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
    with_an_ethernet(|| {
        let server = Server::start("--max-buffer 1M");
        are_refused(
            &server,
            too_large,
            [
                dlco_stream(|asked| asked.receive_size = 2 * MIB),
                dlco_stream(|asked| asked.receive_offset = 2 * MIB),
                dlco_rr(|asked| asked.request_size = 2 * MIB),
                dlco_rr(|asked| asked.response_size = 2 * MIB),
                dlco_rr(|asked| asked.send_offset = 2 * MIB),
                dlcl_stream(|asked| asked.receive_size = MIB),
                dlcl_stream(|asked| asked.receive_alignment = 1 << 30),
                dlcl_rr(|asked| asked.request_size = 2 * MIB),
                dlcl_rr(|asked| asked.send_alignment = 1 << 30),
            ],
        );
        are_refused(
            &server,
            EINVAL,
            [
                dlco_stream(|asked| asked.receive_size = -2),
                dlco_stream(|asked| asked.receive_alignment = 3),
                dlco_rr(|asked| asked.request_size = 0),
                dlco_rr(|asked| asked.send_offset = -1),
                dlcl_stream(|asked| asked.receive_size = MIB + 1),
                dlcl_stream(|asked| asked.receive_offset = -1),
                dlcl_rr(|asked| asked.response_size = 0),
                dlcl_rr(|asked| asked.receive_alignment = 0),
            ],
        );
        let long = [
            dlco_rr(|asked| asked.test_length = i32::MAX),
            dlcl_rr(|asked| asked.test_length = i32::MAX),
        ];
        are_refused(&server, EDQUOT, long);
    });
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
    for kind in Kind::ALL {
        let request = omni(kind, |asked| {
            (asked.receive_buffer, asked.send_buffer) = (i32::MAX, i32::MAX);
            (asked.receive_size, asked.send_size) = (1000, 1000);
            (asked.receive_width, asked.send_width) = (1, 1);
        });
        let (_, response) = is_accepted(&server, &request);
        let told = OmniResponse::decode(&response).expect("it is one");
        within((told.receive_buffer, told.send_buffer));
    }
    let asked = stream(|asked| (asked.receive_buffer, asked.send_buffer) = (i32::MAX, i32::MAX));
    let (_, response) = is_accepted(&server, &Request::Classic(Classic::TcpStream, asked));
    let told = Classic::TcpStream.response(&response).expect("it is one");
    within((told.receive_buffer, told.send_buffer));
    let asked =
        transaction(|asked| (asked.receive_buffer, asked.send_buffer) = (i32::MAX, i32::MAX));
    let (_, response) = is_accepted(&server, &Request::Classic(Classic::UdpRr, asked));
    let told = Classic::TcpRr.response(&response).expect("it is one");
    within((told.receive_buffer, told.send_buffer));
    let asked = datagrams(|asked| asked.receive_buffer = i32::MAX);
    let (_, response) = is_accepted(&server, &Request::Classic(Classic::UdpStream, asked));
    let told = Classic::UdpStream.response(&response).expect("it is one");
    within((told.receive_buffer, 0));
    for request in [
        stream_stream(|asked| (asked.receive_buffer, asked.send_buffer) = (i32::MAX, i32::MAX)),
        stream_rr(|asked| (asked.receive_buffer, asked.send_buffer) = (i32::MAX, i32::MAX)),
        dg_stream(|asked| asked.receive_buffer = i32::MAX),
        dg_rr(|asked| (asked.receive_buffer, asked.send_buffer) = (i32::MAX, i32::MAX)),
    ] {
        // Both sizes are the first words of each of these responses.
        let (_, response) = is_accepted(&server, &request);
        let told = Classic::StreamRr.response(&response).expect("it is one");
        within((told.receive_buffer, told.send_buffer));
    }
}

/// `--allow-privileged-ports`, and what no port is.
fn ports() {
    Namespace::new().enter(|| {
        let server = Server::start("");
        let on = |port: i32| {
            [
                Request::Classic(Classic::TcpStream, stream(|asked| asked.data_port = port)),
                Request::Classic(Classic::TcpMaerts, stream(|asked| asked.data_port = port)),
                Request::Classic(Classic::TcpRr, transaction(|asked| asked.data_port = port)),
                Request::Classic(Classic::UdpRr, transaction(|asked| asked.data_port = port)),
                Request::Classic(Classic::TcpCrr, transaction(|asked| asked.data_port = port)),
                Request::Classic(Classic::TcpCc, transaction(|asked| asked.data_port = port)),
                Request::Classic(
                    Classic::UdpStream,
                    datagrams(|asked| asked.data_port = port),
                ),
                omni(Kind::TcpRr, |asked| asked.data_port = port as u32),
                omni(Kind::UdpRr, |asked| asked.data_port = port as u32),
            ]
        };
        are_refused(&server, EACCES, [1, 443, 1023].into_iter().flat_map(on));
        are_refused(&server, EINVAL, [65_536, -1].into_iter().flat_map(on));
        for request in on(40_443) {
            is_accepted(&server, &request);
        }
    });
}

/// No family but those of IP, and SCTP only where this kernel has it.
fn protocols() {
    let server = Server::start("");
    for family in [0, 1, 9, 26, 40, u32::MAX] {
        let requests = [
            Request::Classic(Classic::TcpStream, stream(|asked| asked.family = family)),
            Request::Classic(Classic::TcpRr, transaction(|asked| asked.family = family)),
            Request::Classic(Classic::UdpRr, transaction(|asked| asked.family = family)),
            Request::Classic(Classic::UdpStream, datagrams(|asked| asked.family = family)),
        ];
        are_refused(&server, EAFNOSUPPORT, requests);
    }
    if !has_protocol("SCTP") {
        let requests = [
            Request::Classic(Classic::SctpStream, stream(|_| ())),
            Request::Classic(Classic::SctpStreamMany, stream(|_| ())),
            Request::Classic(Classic::SctpRr, transaction(|_| ())),
            Request::Classic(Classic::SctpRrMany, transaction(|_| ())),
        ];
        are_refused(&server, EPROTONOSUPPORT, requests);
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
        let frame = omni(Kind::TcpStream, |_| ()).encode(Some(cpu));
        raw.control.write_all(&frame).expect("the server reads");
        let response = raw.receive().expect("a response");
        assert_eq!(check(&response), Ok(()), "{cpu}");
        let words = format!("could not bind to CPU {cpu}");
        assert!(server.log().contains(&words), "{}", server.log());
    }
}

/// No interface but an Ethernet of this host, no access point but one of a user.
fn interfaces() {
    with_an_ethernet(|| {
        let server = Server::start("");
        for device in ["no-such-one", "lo", "../../etc", "*", "%s"] {
            let requests = [
                dlco_stream(|asked| asked.device = Text::new(device)),
                dlco_rr(|asked| asked.device = Text::new(device)),
                dlcl_stream(|asked| asked.device = Text::new(device)),
                dlcl_rr(|asked| asked.device = Text::new(device)),
            ];
            are_refused(&server, ENODEV, requests);
        }
        for ppa in [0, i32::MAX] {
            let requests = [
                dlco_stream(|asked| asked.ppa = ppa),
                dlco_rr(|asked| asked.ppa = ppa),
                dlcl_stream(|asked| asked.ppa = ppa),
                dlcl_rr(|asked| asked.ppa = ppa),
            ];
            are_refused(&server, ENODEV, requests);
        }
        for sap in [-1, 3, 256, i32::MAX] {
            let requests = [
                dlco_stream(|asked| asked.sap = sap),
                dlco_rr(|asked| asked.sap = sap),
                dlcl_stream(|asked| asked.sap = sap),
                dlcl_rr(|asked| asked.sap = sap),
            ];
            are_refused(&server, EINVAL, requests);
        }
    });
}

/// The server alone decides where its sockets are.
fn paths_of_unix_tests() {
    let place = tempfile::tempdir_in("/tmp").expect("/tmp is writable");
    let named = place.path().join("s");
    let server = Server::start("");
    let path = SwappedText(Text::new(named.as_os_str().as_encoded_bytes()));
    for request in [
        stream_stream(|asked| asked.path = path),
        stream_rr(|asked| asked.path = path),
        dg_stream(|asked| asked.path = path),
        dg_rr(|asked| asked.path = path),
    ] {
        let (_raw, response) = is_accepted(&server, &request);
        let Request::Classic(test, _) = &request else {
            panic!("{request:?}");
        };
        let told = test.response(&response).map(|told| told.path);
        let told = told.expect("it is one").0.to_string();
        assert!(told.starts_with("/tmp/") && !told.starts_with(&*named.to_string_lossy()));
        assert!(!named.exists(), "{request:?}");
    }
}
