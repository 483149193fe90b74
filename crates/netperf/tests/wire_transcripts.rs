//! Every message of the recorded control connections is decoded, encoded again and compared with
//! what the stock programs sent, byte for byte.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "these are lists of ranges, some of them short"
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

/// Message bytes that the stock sender does not set. It has whatever was there before, we have
/// zeros, or in place of a type the right one.
type Unset = &'static [Range<usize>];

const NOTHING: Unset = &[];
/// The dirty and the clean count of builds that dirty their buffers.
const STREAM_REQUEST: Unset = &[52..60];
/// Test length; CPU frequency and security; texts about the host, and what lies behind.
const OMNI_RESPONSE: Unset = &[40..44, 64..72, 80..MESSAGE_BYTES];
/// Type; failed sends; service demand; PCI numbers; texts about the interface; what lies behind.
const OMNI_RESULTS: Unset = &[0..4, 40..44, 76..80, 96..112, 116..276, 292..MESSAGE_BYTES];
/// Test length; what lies behind.
const STREAM_RESPONSE: Unset = &[24..28, 48..MESSAGE_BYTES];
/// Type; service demand; final buffer sizes, and what lies behind.
const STREAM_RESULTS: Unset = &[0..4, 28..32, 40..MESSAGE_BYTES];
/// What lies behind.
const TRANSACTION_RESPONSE: Unset = &[44..MESSAGE_BYTES];
/// Type; receive calls; service demand; what lies behind.
const TRANSACTION_RESULTS: Unset = &[0..4, 12..16, 28..32, 40..MESSAGE_BYTES];
/// What lies behind.
const DATAGRAM_RESPONSE: Unset = &[40..MESSAGE_BYTES];
/// What lies behind; the type is set here alone.
const DATAGRAM_RESULTS: Unset = &[32..MESSAGE_BYTES];
/// Test length and port; length of the path; what lies behind it.
const STREAM_STREAM_RESPONSE: Unset = &[36..40, 44..48, 80..MESSAGE_BYTES];
/// Type; service demand; what lies behind the CPUs.
const STREAM_STREAM_RESULTS: Unset = &[0..4, 24..28, 32..MESSAGE_BYTES];
/// Length of the path; what lies behind it.
const STREAM_RR_RESPONSE: Unset = &[36..40, 72..MESSAGE_BYTES];
/// Type; receive calls; service demand; what lies behind the CPUs.
const UNIX_TRANSACTION_RESULTS: Unset = &[0..4, 12..16, 28..32, 36..MESSAGE_BYTES];
/// Length of the path; what lies behind it.
const DG_STREAM_RESPONSE: Unset = &[36..40, 72..MESSAGE_BYTES];
/// What lies behind the CPUs; the type is set here.
const DG_STREAM_RESULTS: Unset = &[28..MESSAGE_BYTES];
/// Length of the path; what lies behind it.
const DG_RR_RESPONSE: Unset = &[40..44, 76..MESSAGE_BYTES];
/// All but the error number of a test that could not be set up.
const FAILURE: Unset = &[0..4, 8..MESSAGE_BYTES];

#[test]
fn every_message_comes_back_as_it_was_sent() {
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
                        _ => NOTHING,
                    };
                    *seen.entry(received.request.kind()).or_default() += 1;
                    request = Some(received.request);
                    replies = 0;
                    (ours, unset)
                }
                (Sender::Server, Some(request)) => {
                    replies += 1;
                    again(request, replies, &message.frame)
                }
                (Sender::Server, None) => panic!("{}: a reply to nothing", connection.name),
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

    // That the file has every type that it should have, and none is taken for another.
    let kinds: Vec<i32> = seen.into_keys().collect();
    let known = [
        1, 2, 4, 5, 6, 10, 13, 16, 19, 22, 34, 37, 40, 43, 46, 55, 70, 73, 94, 97,
    ];
    let high = [300, 500, 540, 600, 9999];
    assert_eq!(kinds, [&known[..], &high[..]].concat());
}

/// The `number`th reply to `request`, decoded and encoded again.
fn again(request: &Request, number: u32, reply: &Frame) -> (Frame, Unset) {
    match check_error(reply) {
        Err(RemoteError(UNKNOWN_REQUEST)) => return (error_response(UNKNOWN_REQUEST), NOTHING),
        Err(RemoteError(errno)) => return (error_response(errno), FAILURE),
        Ok(()) => {}
    }
    let again = match (request, number) {
        (Request::DebugOn | Request::DebugOff, 1) => Ok((debug_response(), NOTHING)),
        (Request::SysInfo, 1) => SysInfo::decode(reply).map(|info| (info.encode(), NOTHING)),
        (Request::CpuCalibrate, 1) => {
            CalibrateResponse::decode(reply).map(|response| (response.encode(), NOTHING))
        }
        (Request::Omni(_), 1) => OMNI
            .parse_response(reply)
            .map(|response| (OMNI.encode_response(&response), OMNI_RESPONSE)),
        (Request::Omni(_), 2) => OMNI
            .parse_results(reply)
            .map(|results| (OMNI.encode_results(&results), OMNI_RESULTS)),
        (Request::Classic(test, _), 1) => {
            let again = test.messages().parse_response(reply);
            again.map(|response| (test.messages().encode_response(&response), unset(*test).0))
        }
        (Request::Classic(test, _), 2) => {
            let again = test.messages().parse_results(reply);
            again.map(|results| (test.messages().encode_results(&results), unset(*test).1))
        }
        (request, number) => panic!("reply {number} to {request:?}"),
    };
    again.expect("checked above")
}

/// What is unset in a response, and in results.
fn unset(test: Classic) -> (Unset, Unset) {
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
        test => panic!("no stock peer has {test:?}"),
    }
}

fn compare(stock: &Frame, ours: &Frame, unset: Unset, what: &str) {
    for at in 0..MESSAGE_BYTES {
        if !unset.iter().any(|range| range.contains(&at)) {
            assert_eq!(ours[at], stock[at], "{what}: byte {at}");
        } else if at >= 4 {
            assert_eq!(ours[at], 0, "{what}: byte {at} has no meaning");
        }
    }
}

/// Replies of the recorded connection `name`, and its last request.
fn recorded(name: &str) -> (Request, Vec<Frame>) {
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

fn omni(name: &str) -> (TestRequest, TestResponse, TestResults) {
    let (request, replies) = recorded(name);
    let Request::Omni(request) = request else {
        panic!("{name}: {request:?}");
    };
    let response = OMNI.parse_response(&replies[0]).expect("no error");
    let results = OMNI.parse_results(&replies[1]).expect("no error");
    (request, response, results)
}

/// The figures that the stock client printed for these connections.
#[test]
fn figures_are_those_that_stock_printed() {
    let (request, response, results) = omni("tcp_stream");
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
    // CPU was not measured: what stands there is left over.
    assert!(!response.flags.has_all(Flags::MEASURE_CPU));
    assert_eq!(results.cpu_method, 0);
    assert_eq!(finite(results.cpu_softirq), None);

    let (request, replies) = recorded("raw_classic_udp_stream");
    assert!(
        matches!(request, Request::Classic(Classic::UdpStream, request) if request.receive_size == 1000)
    );
    let results = Classic::UdpStream
        .messages()
        .parse_results(&replies[1])
        .expect("no error");
    assert_eq!((results.calls, results.bytes_low), (10, 10_004));

    let (request, replies) = recorded("tcp_cc_cpu");
    assert!(
        matches!(request, Request::Classic(Classic::TcpCc, request) if request.flags.has_all(Flags::MEASURE_CPU))
    );
    let results = Classic::TcpRr
        .messages()
        .parse_results(&replies[1])
        .expect("no error");
    assert_eq!(results.transactions, 9623);
    assert_eq!(format!("{:.2}", results.cpu_utilisation), "48.86");

    let (_, replies) = recorded("rem_cpu");
    let response = CalibrateResponse::decode(&replies[0]);
    assert_eq!(
        response,
        Ok(CalibrateResponse {
            rate: 100.0,
            cpus: 2
        })
    );
}

/// The paths are those of the servers, and the counts those that were printed.
#[test]
fn unix_messages_say_what_the_transcripts_show() {
    let (request, replies) = recorded("unix_stream_stream");
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

    let (_, replies) = recorded("unix_dg_stream");
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
    // One less than was received: stock adds the −1 of the call that its timer interrupted.
    assert_eq!(results.bytes_low, 90_591_u32.wrapping_mul(65_507) - 1);

    let (request, replies) = recorded("unix_dg_rr_cpu");
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

    let (request, replies) = recorded("unix_stream_rr");
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
fn texts_and_addresses_are_those_of_the_command_line() {
    let (request, ..) = omni("ipv6_udp_rr_explicit_addresses");
    let loopback = std::net::IpAddr::from(std::net::Ipv6Addr::LOCALHOST);
    assert_eq!(request.family, FAMILY_IPV6);
    assert_eq!(request.client_address.ip(request.family), Some(loopback));
    assert_eq!(request.server_address.ip(request.family), Some(loopback));

    let (request, ..) = omni("omni_data_addresses");
    assert!(request.server_address.ip(request.family).is_some());
    let (request, ..) = omni("omni_fill_file");
    assert_eq!(request.fill_file.raw_bytes(), b"/etc/hostname");

    let (request, replies) = recorded("fail_omni_udplite");
    assert!(matches!(request, Request::Omni(request) if request.protocol == 136));
    assert_eq!(OMNI.parse_response(&replies[0]), Err(RemoteError(95)));

    let connections = data::connections();
    let passphrase = connections
        .iter()
        .find(|connection| connection.name == "passphrase_wrong")
        .map(|connection| Request::decode(&connection.messages[0].frame).request);
    assert_eq!(passphrase, Some(Request::Passphrase(b"nope".to_vec())));
}
