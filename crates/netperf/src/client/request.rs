//! Settings → the request: what the peer is asked to do.

use std::net::SocketAddr;

use model::{BufferPlan, BuffersUsed, Limit, SizeRule, SocketOptions, WidthRule};
use sys::Address;

use crate::options::{Settings, Special, Test};
use crate::result::Endpoints;
use crate::wire::{
    Classic, FAMILY_IPV4, FAMILY_IPV6, FAMILY_VSOCK, Flags, Request, Task, TestRequest, Text, UNSET,
};

/// What this end has settled before it asks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    /// The port of the bound data socket; 0 when the kernel is still to pick one.
    pub(super) port: u32,
    /// The buffers of this end.
    pub(super) buffers: BuffersUsed,
}

/// The request for the settings' test.
pub(super) fn request(settings: &Settings, ends: &Endpoints, own: Own) -> Request {
    match classic_test(settings.test) {
        Some(test) => Request::Classic(test, classic(test, settings, ends, own)),
        None => Request::Omni(omni(settings, ends, own)),
    }
}

/// The test as the messages have it, `None` if that is omni.
fn classic_test(test: Test) -> Option<Classic> {
    Some(match test {
        Test::TcpSendfile | Test::TcpMss => Classic::TcpStream,
        Test::TcpCc => Classic::TcpCc,
        Test::StreamStream => Classic::StreamStream,
        Test::StreamRr => Classic::StreamRr,
        Test::DgStream => Classic::DgStream,
        Test::DgRr => Classic::DgRr,
        Test::SctpStream => Classic::SctpStream,
        Test::SctpStreamMany => Classic::SctpStreamMany,
        Test::SctpRr => Classic::SctpRr,
        Test::SctpRrMany => Classic::SctpRrMany,
        Test::DlcoStream => Classic::DlcoStream,
        Test::DlcoRr => Classic::DlcoRr,
        Test::DlclStream => Classic::DlclStream,
        Test::DlclRr => Classic::DlclRr,
        _ => return None,
    })
}

fn omni(settings: &Settings, ends: &Endpoints, own: Own) -> TestRequest {
    let plan = &settings.flow;
    let there = &plan.there;
    let (socket_type, protocol) = TestRequest::words_of(plan.transport);
    let direction = settings.direction;
    let transactional = direction.transmit && direction.receive;
    let size = |buffer: &BufferPlan, of_transaction| match buffer.size {
        SizeRule::Bytes(bytes) if of_transaction == transactional => bytes as i32,
        _ => UNSET,
    };
    let mut server_direction = 0;
    if direction.transmit {
        server_direction |= TestRequest::RECEIVE;
    }
    if direction.receive {
        server_direction |= TestRequest::TRANSMIT;
    }
    let source = ends.source.ip().filter(|_| ends.source_is_given());
    TestRequest {
        send_size: size(&there.send, false),
        // The stock client tells its own widths, or for a direction that it does not use what `-W`
        // says; the server uses those of its direction.
        send_width: width(own.buffers.send_width, there.send.width),
        request_size: size(&there.receive, true),
        receive_size: size(&there.receive, false),
        receive_width: width(own.buffers.receive_width, there.receive.width),
        response_size: size(&there.send, true),
        receive_copy_avoidance: there.discard_in_kernel.into(),
        send_copy_avoidance: there.discard_in_kernel.into(),
        send_dirty: optional(there.touch.send_dirty_bytes),
        receive_dirty: optional(there.touch.receive_dirty_bytes),
        receive_clean: optional(there.touch.receive_clean_bytes),
        socket_type,
        protocol,
        direction: server_direction,
        client_port: own.port,
        interval_burst: there.pacing.map_or(0, |pacing| pacing.burst as u32),
        interval_us: there
            .pacing
            .map_or(0, |pacing| pacing.interval.as_micros() as u32),
        client_address: source.map(Into::into).unwrap_or_default(),
        // Only an address that the user named: a server behind a NAT cannot bind what we see of it.
        server_address: match (&settings.data.host, ends.dest.ip()) {
            (Some(_), Some(ip)) => ip.into(),
            _ => crate::wire::Address::default(),
        },
        priority: there.socket.priority.unwrap_or(UNSET),
        type_of_service: there.socket.type_of_service.map_or(UNSET, i32::from),
        congestion_control: there
            .socket
            .congestion_control
            .as_ref()
            .map(Text::new)
            .unwrap_or_default(),
        fill_file: there
            .fill
            .as_ref()
            .map(|path| Text::new(path.as_os_str().as_encoded_bytes()))
            .unwrap_or_default(),
        ..common(settings, ends, &TestRequest::default())
    }
}

/// Adds to a request that leaves everything to the server what the requests of all tests say alike.
fn common(settings: &Settings, ends: &Endpoints, blank: &TestRequest) -> TestRequest {
    let there = &settings.flow.there;
    TestRequest {
        send_buffer: optional(there.socket.send_buffer_bytes),
        send_alignment: there.send.alignment,
        send_offset: there.send.offset,
        receive_buffer: optional(there.socket.receive_buffer_bytes),
        receive_alignment: there.receive.alignment,
        receive_offset: there.receive.offset,
        flags: flags(
            &there.socket,
            there.measure_cpu,
            settings.direction.connection,
            settings.needs.interface,
        ),
        cpu_rate: settings.cpu_rate.remote,
        test_length: test_length(settings.flow.limit),
        data_port: ends.dest.port(),
        family: family(ends),
        ..*blank
    }
}

fn flags(socket: &SocketOptions, measure_cpu: bool, connection: bool, interface: bool) -> Flags {
    [
        (socket.no_delay, Flags::NO_DELAY),
        (connection, Flags::CONNECTION_TEST),
        (measure_cpu, Flags::MEASURE_CPU),
        (!socket.dont_route, Flags::ROUTING_ALLOWED),
        (socket.fast_open, Flags::FAST_OPEN),
        (socket.answer_from_destination, Flags::PACKET_INFO),
        (socket.defer_accept_seconds.is_some(), Flags::DEFER_ACCEPT),
        (socket.keep_alive, Flags::KEEP_ALIVE),
        (interface, Flags::INTERFACE),
    ]
    .into_iter()
    .filter(|(wanted, _)| *wanted)
    .fold(Flags::default(), |flags, (_, flag)| flags | flag)
}

/// All that a request can have; its layout leaves out what the test has no use for.
fn classic(test: Classic, settings: &Settings, ends: &Endpoints, own: Own) -> TestRequest {
    let (there, socket) = (&settings.flow.there, &settings.flow.there.socket);
    let mut asked = TestRequest {
        receive_window: socket.receive_window_frames.unwrap_or(0) as i32,
        send_window: socket.send_window_frames.unwrap_or(0) as i32,
        receive_size: match test.task() {
            Task::Datagrams => own.buffers.send_bytes.unwrap_or(0) as i32,
            _ => size(there.receive.size),
        },
        non_blocking: socket.non_blocking,
        ..common(settings, ends, &TestRequest::classic())
    };
    if !test.task().is_transactional() {
        // A byte limit goes as its positive number, as the stock client sends it.
        asked.test_length = asked.test_length.saturating_abs();
    }
    if test.task() == Task::Answer {
        asked.request_size = size(there.receive.size);
        asked.response_size = size(there.send.size);
    }
    match &settings.special {
        Special::Unix { .. } => {
            // The least that the kernel takes is 1.
            let buffer = |asked: Option<u32>| asked.map_or(0, |bytes| bytes.max(1) as i32);
            asked.receive_buffer = buffer(socket.receive_buffer_bytes);
            asked.send_buffer = buffer(socket.send_buffer_bytes);
        }
        Special::Dlpi { sap, remote, .. } => {
            asked.device = Text::new(remote.device.as_deref().unwrap_or_default());
            asked.device_len = asked.device.raw_bytes().len() as i32;
            asked.sap = i32::from(*sap);
            asked.ppa = remote.ppa.map_or(UNSET, |ppa| ppa as i32);
        }
        Special::Inet | Special::Sctp { .. } => {}
    }
    asked
}

/// In classic requests 0 is the default.
fn size(rule: SizeRule) -> i32 {
    match rule {
        SizeRule::Bytes(bytes) => bytes as i32,
        SizeRule::SocketBuffer => 0,
    }
}

fn width(own: Option<u32>, there: WidthRule) -> u32 {
    match there {
        WidthRule::Buffers(buffers) => own.unwrap_or(0).max(buffers),
        WidthRule::CoverSocketBuffer => own.unwrap_or(0),
    }
}

/// Positive seconds, or minus what is counted. The options room lets no other numbers through.
fn test_length(limit: Limit) -> i32 {
    let word = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
    match limit {
        Limit::Time(length) => word(length.as_secs()),
        Limit::Bytes(count) | Limit::Transactions(count) => -word(count),
        // How many messages the protocol has no word for; the end of the data says it.
        Limit::Unlimited | Limit::Messages(_) => 0,
    }
}

fn family(ends: &Endpoints) -> u32 {
    match ends.dest {
        Address::Vsock { .. } => FAMILY_VSOCK,
        Address::Inet(SocketAddr::V6(_)) => FAMILY_IPV6,
        _ => FAMILY_IPV4,
    }
}

fn optional(bytes: Option<u32>) -> i32 {
    bytes.map_or(UNSET, |bytes| bytes as i32)
}
