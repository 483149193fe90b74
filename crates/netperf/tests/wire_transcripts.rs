//! Decodes every message of the recorded control connections, encodes it again, and compares it
//! byte for byte with stock's message.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "some lists of ranges have one item"
)]

mod data;

use std::collections::BTreeMap;
use std::ops::Range;

use data::Sender;
use netperf::wire::{
    CalibrateResponse, Capability, Classic, FAMILY_IPV6, Flags, Frame, MESSAGE_BYTES, OMNI,
    RemoteError, Request, SysInfo, TestRequest, TestResponse, TestResults, UNKNOWN_REQUEST,
    check_error, debug_response, error_response, finite,
};

/// Bytes of a message that the stock sender does not set. Stock sends leftover data there. linerate
/// sends the right type, and zeros elsewhere.
type Unset = &'static [Range<usize>];

const NO_BYTES: Unset = &[];
/// The dirty and the clean count of builds that dirty their buffers.
const STREAM_REQUEST: Unset = &[52..60];
/// Test length; CPU frequency and security; texts about the host and the remaining bytes.
const OMNI_RESPONSE: Unset = &[40..44, 64..72, 80..MESSAGE_BYTES];
/// Type; failed sends; service demand; PCI numbers; texts about the interface; remaining bytes.
const OMNI_RESULTS: Unset = &[0..4, 40..44, 76..80, 96..112, 116..276, 292..MESSAGE_BYTES];
/// Test length; remaining bytes.
const STREAM_RESPONSE: Unset = &[24..28, 48..MESSAGE_BYTES];
/// Type; service demand; final buffer sizes and the remaining bytes.
const STREAM_RESULTS: Unset = &[0..4, 28..32, 40..MESSAGE_BYTES];
/// Remaining bytes.
const TRANSACTION_RESPONSE: Unset = &[44..MESSAGE_BYTES];
/// Type; receive calls; service demand; remaining bytes.
const TRANSACTION_RESULTS: Unset = &[0..4, 12..16, 28..32, 40..MESSAGE_BYTES];
/// Remaining bytes.
const DATAGRAM_RESPONSE: Unset = &[40..MESSAGE_BYTES];
/// Remaining bytes. Stock sets the type.
const DATAGRAM_RESULTS: Unset = &[32..MESSAGE_BYTES];
/// Test length and port; length of the path; bytes after the path.
const STREAM_STREAM_RESPONSE: Unset = &[36..40, 44..48, 80..MESSAGE_BYTES];
/// Type; service demand; bytes after the number of CPUs.
const STREAM_STREAM_RESULTS: Unset = &[0..4, 24..28, 32..MESSAGE_BYTES];
/// Length of the path; bytes after the path.
const STREAM_RR_RESPONSE: Unset = &[36..40, 72..MESSAGE_BYTES];
/// Type; receive calls; service demand; bytes after the number of CPUs.
const UNIX_TRANSACTION_RESULTS: Unset = &[0..4, 12..16, 28..32, 36..MESSAGE_BYTES];
/// Length of the path; bytes after the path.
const DG_STREAM_RESPONSE: Unset = &[36..40, 72..MESSAGE_BYTES];
/// Bytes after the number of CPUs. Stock sets the type.
const DG_STREAM_RESULTS: Unset = &[28..MESSAGE_BYTES];
/// Length of the path; bytes after the path.
const DG_RR_RESPONSE: Unset = &[40..44, 76..MESSAGE_BYTES];
/// All bytes except the error number of a test that failed to start.
const FAILURE: Unset = &[0..4, 8..MESSAGE_BYTES];

#[test]
fn every_recorded_message_round_trips() {
    let mut seen = BTreeMap::<i32, usize>::new();
    for connection in data::connections() {
        let mut request = None;
        let mut replies = 0;
        for (number, message) in connection.messages.iter().enumerate() {
            let (ours, unset) = match (message.sender, &request) {
                (Sender::Client, _) => {
                    let received = Request::decode(&message.frame);
                    let ours = received.request.encode(received.cpu);
                    let unset = match received.request {
                        Request::Classic(Classic::TcpStream | Classic::TcpMaerts, _) => {
                            STREAM_REQUEST
                        }
                        _ => NO_BYTES,
                    };
                    *seen.entry(received.request.kind()).or_default() += 1;
                    request = Some(received.request);
                    replies = 0;
                    (ours, unset)
                }
                (Sender::Server, Some(request)) => {
                    replies += 1;
                    reencode_reply(request, replies, &message.frame)
                }
                (Sender::Server, None) => panic!("{}: a reply without a request", connection.name),
            };
            compare(
                &message.frame,
                &ours,
                unset,
                &format!("{}, message {number}", connection.name),
            );
            assert_eq!(Capability::find(&message.frame), None);
        }
    }

    // The file has every expected type, and no type is mistaken for another.
    let kinds: Vec<i32> = seen.into_keys().collect();
    let classic = [
        1, 2, 4, 5, 6, 10, 13, 16, 19, 22, 34, 37, 40, 43, 46, 55, 70, 73, 94, 97,
    ];
    let other = [300, 500, 540, 600, 9999];
    assert_eq!(kinds, [&classic[..], &other[..]].concat());
}

/// Decodes and encodes the `number`th reply to `request`. Also returns its unset bytes.
fn reencode_reply(request: &Request, number: u32, reply: &Frame) -> (Frame, Unset) {
    match check_error(reply) {
        Err(RemoteError(UNKNOWN_REQUEST)) => return (error_response(UNKNOWN_REQUEST), NO_BYTES),
        Err(RemoteError(errno)) => return (error_response(errno), FAILURE),
        Ok(()) => {}
    }
    let reencoded = match (request, number) {
        (Request::DebugOn | Request::DebugOff, 1) => Ok((debug_response(), NO_BYTES)),
        (Request::SysInfo, 1) => SysInfo::decode(reply).map(|info| (info.encode(), NO_BYTES)),
        (Request::CpuCalibrate, 1) => {
            CalibrateResponse::decode(reply).map(|response| (response.encode(), NO_BYTES))
        }
        (Request::Omni(_), 1) => OMNI
            .parse_response(reply)
            .map(|response| (OMNI.encode_response(&response), OMNI_RESPONSE)),
        (Request::Omni(_), 2) => OMNI
            .parse_results(reply)
            .map(|results| (OMNI.encode_results(&results), OMNI_RESULTS)),
        (Request::Classic(test, _), 1) => {
            let response = test.messages().parse_response(reply);
            response.map(|response| {
                (
                    test.messages().encode_response(&response),
                    unset_bytes(*test).0,
                )
            })
        }
        (Request::Classic(test, _), 2) => {
            let results = test.messages().parse_results(reply);
            results.map(|results| {
                (
                    test.messages().encode_results(&results),
                    unset_bytes(*test).1,
                )
            })
        }
        (request, number) => panic!("reply {number} to {request:?}"),
    };
    reencoded.expect("the error number is zero")
}

/// Returns the unset bytes of a response and of results.
fn unset_bytes(test: Classic) -> (Unset, Unset) {
    match test {
        Classic::TcpStream | Classic::TcpMaerts => (STREAM_RESPONSE, STREAM_RESULTS),
        Classic::TcpRr | Classic::TcpCrr | Classic::TcpCc | Classic::UdpRr => {
            (TRANSACTION_RESPONSE, TRANSACTION_RESULTS)
        }
        Classic::UdpStream => (DATAGRAM_RESPONSE, DATAGRAM_RESULTS),
        Classic::StreamStream => (STREAM_STREAM_RESPONSE, STREAM_STREAM_RESULTS),
        Classic::StreamRr => (STREAM_RR_RESPONSE, UNIX_TRANSACTION_RESULTS),
        Classic::DgStream => (DG_STREAM_RESPONSE, DG_STREAM_RESULTS),
        Classic::DgRr => (DG_RR_RESPONSE, UNIX_TRANSACTION_RESULTS),
        test => panic!("stock does not support {test:?}"),
    }
}

fn compare(stock: &Frame, ours: &Frame, unset: Unset, context: &str) {
    for at in 0..MESSAGE_BYTES {
        if !unset.iter().any(|range| range.contains(&at)) {
            assert_eq!(ours[at], stock[at], "{context}: byte {at}");
        } else if at >= 4 {
            assert_eq!(ours[at], 0, "{context}: unset byte {at}");
        }
    }
}

/// Returns the last request and all replies of a recorded connection.
fn recorded_exchange(name: &str) -> (Request, Vec<Frame>) {
    let connection = data::connections()
        .into_iter()
        .find(|connection| connection.name == name)
        .expect("a recorded connection");
    let (sent, replies): (Vec<_>, Vec<_>) = connection
        .messages
        .into_iter()
        .partition(|message| message.sender == Sender::Client);
    let request = Request::decode(&sent.last().expect("a request").frame).request;
    (
        request,
        replies.into_iter().map(|reply| reply.frame).collect(),
    )
}

fn omni_exchange(name: &str) -> (TestRequest, TestResponse, TestResults) {
    let (request, replies) = recorded_exchange(name);
    let Request::Omni(request) = request else {
        panic!("{name}: {request:?}");
    };
    let response = OMNI.parse_response(&replies[0]).expect("no error");
    let results = OMNI.parse_results(&replies[1]).expect("no error");
    (request, response, results)
}

/// Compares decoded figures with the output of the stock client.
#[test]
fn figures_match_stocks_output() {
    let (request, response, results) = omni_exchange("tcp_stream");
    assert_eq!(
        request,
        TestRequest {
            send_width: 2,
            test_length: 1,
            direction: TestRequest::RECEIVE,
            client_port: 37_803,
            ..TestRequest::default()
        }
    );
    assert_eq!(response.receive_buffer, 131_072);
    assert_eq!(response.data_port, 40_175);
    let rate = results.bytes_received as f64 * 8e-6 / f64::from(results.elapsed);
    assert!((25_400.0..25_500.0).contains(&rate), "{rate} Mbit/s");
    assert_eq!(results.congestion_control.to_string(), "bbr");
    // CPU use was not measured, so these fields contain leftover data.
    assert!(!response.flags.has_all(Flags::MEASURE_CPU));
    assert_eq!(results.cpu_method, 0);
    assert_eq!(finite(results.cpu_softirq), None);

    let (request, replies) = recorded_exchange("raw_classic_udp_stream");
    assert!(
        matches!(request, Request::Classic(Classic::UdpStream, request) if request.receive_size == 1000)
    );
    let results = Classic::UdpStream
        .messages()
        .parse_results(&replies[1])
        .expect("no error");
    assert_eq!((results.calls, results.bytes_low), (10, 10_004));

    let (request, replies) = recorded_exchange("tcp_cc_cpu");
    assert!(
        matches!(request, Request::Classic(Classic::TcpCc, request) if request.flags.has_all(Flags::MEASURE_CPU))
    );
    let results = Classic::TcpRr
        .messages()
        .parse_results(&replies[1])
        .expect("no error");
    assert_eq!(results.transactions, 9623);
    assert_eq!(format!("{:.2}", results.cpu_utilisation), "48.86");

    let (_, replies) = recorded_exchange("rem_cpu");
    let response = CalibrateResponse::decode(&replies[0]);
    assert_eq!(
        response,
        Ok(CalibrateResponse {
            rate: 100.0,
            cpus: 2
        })
    );
}

/// The servers created these paths, and the clients printed these counts.
#[test]
fn unix_messages_have_the_recorded_paths_and_counts() {
    let (request, replies) = recorded_exchange("unix_stream_stream");
    let expected = TestRequest {
        receive_buffer: 0,
        send_buffer: 0,
        test_length: 1,
        ..TestRequest::classic()
    };
    assert_eq!(request, Request::Classic(Classic::StreamStream, expected));
    let response = Classic::StreamStream
        .messages()
        .parse_response(&replies[0])
        .expect("no error");
    assert_eq!(response.path.0.to_string(), "/tmp/netpeK0S6Ip");
    assert_eq!(
        (response.receive_buffer, response.send_buffer),
        (2304, 4608)
    );
    let results = Classic::StreamStream
        .messages()
        .parse_results(&replies[1])
        .expect("no error");
    assert_eq!(results.calls, 969_336);

    let (_, replies) = recorded_exchange("unix_dg_stream");
    let response = Classic::DgStream
        .messages()
        .parse_response(&replies[0])
        .expect("no error");
    assert_eq!(response.path.0.to_string(), "/tmp/netpe6VrNG6");
    let results = Classic::DgStream
        .messages()
        .parse_results(&replies[1])
        .expect("no error");
    assert_eq!(results.calls, 90_591);
    // One less than the received bytes: stock adds the −1 of the call that its timer interrupted.
    assert_eq!(results.bytes_low, 90_591_u32.wrapping_mul(65_507) - 1);

    let (request, replies) = recorded_exchange("unix_dg_rr_cpu");
    assert!(
        matches!(request, Request::Classic(Classic::DgRr, request) if request.flags.has_all(Flags::MEASURE_CPU))
    );
    let response = Classic::DgRr
        .messages()
        .parse_response(&replies[0])
        .expect("no error");
    assert!(response.flags.has_all(Flags::MEASURE_CPU));
    assert_eq!(response.path.0.to_string(), "/tmp/netpeLm70ME");
    let results = Classic::StreamRr
        .messages()
        .parse_results(&replies[1])
        .expect("no error");
    assert_eq!(results.transactions, 72_850);
    assert_eq!(format!("{:.2}", results.cpu_utilisation), "167.70");

    let (request, replies) = recorded_exchange("unix_stream_rr");
    assert!(
        matches!(request, Request::Classic(Classic::StreamRr, request) if request.request_size == 1)
    );
    let results = Classic::StreamRr
        .messages()
        .parse_results(&replies[1])
        .expect("no error");
    assert_eq!((results.transactions, results.bytes_low), (34_050, 68_100));
}

#[test]
fn texts_and_addresses_match_the_command_line() {
    let (request, ..) = omni_exchange("ipv6_udp_rr_explicit_addresses");
    let loopback = std::net::IpAddr::from(std::net::Ipv6Addr::LOCALHOST);
    assert_eq!(request.family, FAMILY_IPV6);
    assert_eq!(request.client_address.ip(request.family), Some(loopback));
    assert_eq!(request.server_address.ip(request.family), Some(loopback));

    let (request, ..) = omni_exchange("omni_data_addresses");
    assert!(request.server_address.ip(request.family).is_some());
    let (request, ..) = omni_exchange("omni_fill_file");
    assert_eq!(request.fill_file.raw_bytes(), b"/etc/hostname");

    let (request, replies) = recorded_exchange("fail_omni_udplite");
    assert!(matches!(request, Request::Omni(request) if request.protocol == 136));
    assert_eq!(OMNI.parse_response(&replies[0]), Err(RemoteError(95)));

    let connections = data::connections();
    let passphrase = connections
        .iter()
        .find(|connection| connection.name == "passphrase_wrong")
        .map(|connection| Request::decode(&connection.messages[0].frame).request);
    assert_eq!(passphrase, Some(Request::Passphrase(b"nope".to_vec())));
}
