//! Conversations with a netserver.

use std::net::IpAddr;

use netperf::wire::{
    AddressWords, Capability, Classic, DETAILS_REQUEST, FAMILY_IPV4, FAMILY_IPV6, FAMILY_VSOCK,
    Flags, Frame, MESSAGE_BYTES, OMNI, Request, TestRequest, Text, check_error,
};
use testkit::{Server, listener_count, short_path_dir};

use super::conversation::{Answer, Channel, Conversation, DataSocket, Message};
use super::servers::{RunningServer, without_backtraces};
use super::target::Target;
use super::third_host::{THIRD_HOST, ThirdHost};
use crate::hosts::network::{Hosts, PORT};

pub(super) fn run() {
    let hosts = Hosts::new(1);
    let third_host = ThirdHost::linked_to(&hosts.slaves[0]);
    let (files, sockets) = (short_path_dir(), short_path_dir());
    let file = files.path().join("f");
    std::fs::write(&file, b"fill").expect("the directory is writable");
    let target = Target {
        conversations: conversations(&file.display().to_string()),
        parse_data_socket,
        ..Target::default()
    };
    assert_covers_all(&target.conversations);
    let host = &hosts.slaves[0];
    let mut command = without_backtraces(&format!("netserver -D -d -p {PORT}"));
    command.args(
        "--control-idle 5 --data-wait 1 --data-idle 1 --drain 1 --max-length 1 --max-buffer 4194304"
            .split(' '),
    );
    command.arg("--allow-fill-dir").arg(files.path());
    command.arg("--unix-dir").arg(sockets.path());
    let server = Server::start_at(PORT, host.dependent_command(&command));
    target.attack(
        &hosts,
        &third_host,
        &RunningServer {
            idle_usage: host.enter(|| server.idle_usage()),
            usage: &|| server.usage(),
            assert_serves: &|| {
                assert!(!server.has_panicked(), "{}", server.log());
                host.enter(|| server.assert_serves());
                assert_eq!(
                    host.enter(listener_count),
                    1,
                    "the server has data listeners"
                );
                let entries = std::fs::read_dir(sockets.path()).expect("the directory exists");
                assert_eq!(entries.count(), 0, "the server left sockets");
            },
            processes: vec![server.pid()],
            resident_kib: &|| server.resident_kib(),
            log: &|| server.log(),
        },
    );
}

/// Returns conversations with each request after each of several opening sequences.
pub(super) fn conversations(fill_file: &str) -> Vec<Conversation> {
    let requests = all_requests(fill_file);
    let openings = [
        vec![],
        vec![sys_info_message()],
        vec![
            control_message(&Request::Passphrase(b"open sesame".to_vec())),
            control_message(&Request::DebugOn),
            control_message(&Request::CpuCalibrate),
        ],
        vec![transaction_test(0)],
        vec![transaction_test(Capability::SENDS_NONCE)],
    ];
    let mut conversations = Vec::new();
    for opening in openings {
        for request in &requests {
            let mut messages = opening.clone();
            messages.push(request.clone());
            conversations.push(Conversation {
                messages,
                protocol: "netperf",
            });
        }
    }
    conversations
}

/// Fails the test unless there is a conversation with each type of request.
pub(super) fn assert_covers_all(conversations: &[Conversation]) {
    let is_known = |kind: &i32| {
        let mut frame: Frame = [0; MESSAGE_BYTES];
        frame[..4].copy_from_slice(&kind.to_be_bytes());
        !matches!(Request::decode(&frame).request, Request::Unknown(_))
    };
    for kind in (0..2000).chain([DETAILS_REQUEST]).filter(is_known) {
        let mut messages = conversations
            .iter()
            .flat_map(|conversation| &conversation.messages);
        assert!(
            messages.any(|message| message.bytes.starts_with(&kind.to_be_bytes())),
            "no conversation has a request of type {kind}"
        );
    }
}

/// Returns the data socket that a response announces, with the connection's first bytes.
pub(super) fn parse_data_socket(answer: &[u8]) -> Option<DataSocket> {
    let frame: &Frame = answer.first_chunk()?;
    check_error(frame).ok()?;
    let port = match i32::from_be_bytes(*frame.first_chunk()?) {
        98 => OMNI.parse_response(frame).ok()?.data_port,
        14 | 20 | 35 | 301 => {
            Classic::TcpRr
                .messages()
                .parse_response(frame)
                .ok()?
                .data_port
        }
        11 | 95 => {
            Classic::TcpStream
                .messages()
                .parse_response(frame)
                .ok()?
                .data_port
        }
        17 => u32::from_be_bytes(*frame[32..].first_chunk()?),
        _ => return None,
    };
    let mut first_bytes = Capability::find(frame)
        .and_then(|capability| capability.nonce)
        .map_or_else(Vec::new, |nonce| nonce.to_vec());
    first_bytes.push(0);
    Some(DataSocket {
        port: u16::try_from(port).ok()?,
        first_bytes,
    })
}

fn control_message(request: &Request) -> Message {
    let name = match request {
        Request::Classic(test, _) => format!("{test:?}"),
        Request::Omni(_) => "Omni".to_owned(),
        Request::Passphrase(_) => "Passphrase".to_owned(),
        request => format!("{request:?}"),
    };
    let message = Message::new(name, Channel::CONTROL, request.encode(None));
    match request {
        Request::Passphrase(_) => message,
        _ => message.answered(Answer::Bytes(MESSAGE_BYTES)),
    }
}

fn with_capability(request: &Request, features: u32) -> Vec<u8> {
    let mut frame = request.encode(None);
    Capability {
        features,
        host: [7; 16],
        nonce: None,
    }
    .write_into(&mut frame);
    frame.to_vec()
}

fn sys_info_message() -> Message {
    Message {
        bytes: with_capability(&Request::SysInfo, Capability::DETAILS),
        ..control_message(&Request::SysInfo)
    }
}

/// Returns the request for a test of one transaction of one byte.
fn transaction_test(features: u32) -> Message {
    let request = Request::Omni(TestRequest {
        direction: TestRequest::TRANSMIT | TestRequest::RECEIVE,
        request_size: 1,
        response_size: 1,
        send_width: 1,
        receive_width: 1,
        test_length: -1,
        ..TestRequest::default()
    });
    Message::new(
        "Omni and a transaction",
        Channel::CONTROL,
        with_capability(&request, features),
    )
    .answered(Answer::Test(MESSAGE_BYTES))
}

fn all_requests(fill_file: &str) -> Vec<Message> {
    let mut requests: Vec<_> = [
        Request::DebugOn,
        Request::DebugOff,
        Request::NodeIdentify,
        Request::CpuCalibrate,
        Request::Passphrase(b"open sesame".to_vec()),
        Request::SysInfo,
        Request::Details,
        Request::Unknown(540),
    ]
    .iter()
    .chain(&ip_requests())
    .chain(&other_family_requests())
    .map(control_message)
    .collect();
    for (number, request) in omni_requests(fill_file).into_iter().enumerate() {
        // Features that a client may announce.
        let features = [
            0,
            Capability::SENDS_NONCE,
            Capability::SENDS_NONCE_SEPARATELY,
            u32::MAX,
        ];
        let request = Request::Omni(request);
        requests.push(Message {
            bytes: with_capability(&request, features[number % features.len()]),
            ..control_message(&request)
        });
    }
    requests
}

fn ip_requests() -> Vec<Request> {
    let stream = TestRequest {
        test_length: 1,
        ..TestRequest::classic()
    };
    let transaction = TestRequest {
        test_length: -1,
        ..TestRequest::classic()
    };
    vec![
        Request::Classic(Classic::TcpStream, stream.clone()),
        Request::Classic(Classic::TcpMaerts, stream),
        Request::Classic(Classic::TcpRr, transaction.clone()),
        Request::Classic(Classic::TcpCrr, transaction.clone()),
        Request::Classic(Classic::TcpCc, transaction.clone()),
        Request::Classic(Classic::UdpRr, transaction),
        Request::Classic(
            Classic::UdpStream,
            TestRequest {
                receive_size: 64,
                test_length: 1,
                ..TestRequest::classic()
            },
        ),
    ]
}

fn other_family_requests() -> Vec<Request> {
    let sctp = || TestRequest {
        non_blocking: true,
        ..TestRequest::classic()
    };
    let device = Text::new("left");
    vec![
        Request::Classic(
            Classic::StreamStream,
            TestRequest {
                test_length: 1,
                ..TestRequest::classic()
            },
        ),
        Request::Classic(
            Classic::StreamRr,
            TestRequest {
                test_length: -1,
                ..TestRequest::classic()
            },
        ),
        Request::Classic(
            Classic::DgStream,
            TestRequest {
                receive_size: 64,
                test_length: 1,
                ..TestRequest::classic()
            },
        ),
        Request::Classic(
            Classic::DgRr,
            TestRequest {
                test_length: -1,
                ..TestRequest::classic()
            },
        ),
        Request::Classic(Classic::SctpStream, sctp()),
        Request::Classic(Classic::SctpStreamMany, sctp()),
        Request::Classic(Classic::SctpRr, sctp()),
        Request::Classic(Classic::SctpRrMany, sctp()),
        Request::Classic(
            Classic::DlcoStream,
            TestRequest {
                sap: 4,
                ppa: -1,
                device,
                ..TestRequest::classic()
            },
        ),
        Request::Classic(
            Classic::DlcoRr,
            TestRequest {
                sap: 4,
                ppa: -1,
                device,
                ..TestRequest::classic()
            },
        ),
        Request::Classic(
            Classic::DlclStream,
            TestRequest {
                receive_size: 64,
                sap: 4,
                ppa: -1,
                device,
                ..TestRequest::classic()
            },
        ),
        Request::Classic(
            Classic::DlclRr,
            TestRequest {
                sap: 4,
                ppa: -1,
                device,
                ..TestRequest::classic()
            },
        ),
    ]
}

/// Returns requests for each protocol in each direction, with and without the third host as the
/// client's address.
fn omni_requests(fill_file: &str) -> Vec<TestRequest> {
    const BOTH: u32 = TestRequest::TRANSMIT | TestRequest::RECEIVE;
    let connections = Flags::ROUTING_ALLOWED | Flags::CONNECTION_TEST;
    let directions = [
        (TestRequest::RECEIVE, Flags::ROUTING_ALLOWED),
        (
            TestRequest::TRANSMIT,
            Flags::MEASURE_CPU | Flags::KEEP_ALIVE,
        ),
        (BOTH, Flags::NO_DELAY | Flags::PACKET_INFO),
        (BOTH, connections | Flags::DEFER_ACCEPT),
        (0, connections | Flags::INTERFACE),
    ];
    let transports = [
        (TestRequest::STREAM, TestRequest::TCP, FAMILY_IPV4),
        (TestRequest::STREAM, TestRequest::TCP, FAMILY_IPV6),
        (TestRequest::DATAGRAM, TestRequest::UDP, FAMILY_IPV4),
        (TestRequest::DATAGRAM, TestRequest::UDP, FAMILY_IPV6),
        (TestRequest::DATAGRAM, TestRequest::UDPLITE, FAMILY_IPV4),
        (TestRequest::STREAM, TestRequest::SCTP, FAMILY_IPV4),
        (TestRequest::DCCP_TYPE, TestRequest::DCCP, FAMILY_IPV4),
        (TestRequest::STREAM, 0, FAMILY_VSOCK),
    ];
    let client_addresses = [
        AddressWords::default(),
        AddressWords::from(IpAddr::from(THIRD_HOST)),
        AddressWords::from(IpAddr::from(THIRD_HOST.to_ipv6_mapped())),
    ];
    let mut requests = Vec::new();
    for (direction, flags) in directions {
        for (socket_type, protocol, family) in transports {
            for client_address in client_addresses {
                let is_transactional = direction == BOTH || direction == 0;
                requests.push(TestRequest {
                    direction,
                    flags,
                    socket_type,
                    protocol,
                    family,
                    client_address,
                    client_port: u32::from(client_address != AddressWords::default()) * 9,
                    test_length: if is_transactional { -1 } else { 1 },
                    request_size: if is_transactional { 1 } else { -1 },
                    response_size: if is_transactional { 1 } else { -1 },
                    send_size: 64,
                    receive_size: 64,
                    send_width: 1,
                    receive_width: 1,
                    interval_burst: 1,
                    interval_us: 10_000,
                    congestion_control: Text::new("reno"),
                    fill_file: Text::new(fill_file),
                    ..TestRequest::default()
                });
            }
        }
    }
    requests
}
