//! Converts settings into the request.

use std::net::SocketAddr;

use model::{BufferPlan, BufferSizes, Limit, SizeRule, SocketOptions, WidthRule};
use sys::Address;

use crate::options::{FamilySettings, Settings, Test};
use crate::result::Endpoints;
use crate::wire::{
    Classic, FAMILY_IPV4, FAMILY_IPV6, FAMILY_VSOCK, Flags, Request, ServerTask, TestRequest, Text,
    UNSET,
};

/// The local setup that a request contains.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LocalSetup {
    /// The port of the bound data socket; 0 if the kernel has yet to choose one.
    pub(super) port: u32,
    /// The local buffers.
    pub(super) buffers: BufferSizes,
}

/// Returns the request for the settings' test.
pub(super) fn build_request(settings: &Settings, ends: &Endpoints, local: LocalSetup) -> Request {
    match classic_test(settings.test) {
        Some(test) => Request::Classic(test, classic_request(test, settings, ends, local)),
        None => Request::Omni(omni_request(settings, ends, local)),
    }
}

/// Returns the classic message type of the test; `None` for omni.
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

fn omni_request(settings: &Settings, ends: &Endpoints, local: LocalSetup) -> TestRequest {
    let plan = &settings.flow;
    let remote = &plan.remote;
    let (socket_type, protocol) = TestRequest::socket_words(plan.transport);
    let direction = settings.direction;
    let is_transactional = direction.transmit && direction.receive;
    let size = |buffer: &BufferPlan, is_transaction_size| match buffer.size {
        SizeRule::Bytes(bytes) if is_transaction_size == is_transactional => bytes as i32,
        _ => UNSET,
    };
    let mut server_direction = 0;
    if direction.transmit {
        server_direction |= TestRequest::RECEIVE;
    }
    if direction.receive {
        server_direction |= TestRequest::TRANSMIT;
    }
    let source = ends.source.ip().filter(|_| ends.has_source_address());
    TestRequest {
        send_size: size(&remote.send, false),
        // The stock client sends its local widths. For an unused direction it sends the width of
        // `-W`; the server uses the widths of its direction.
        send_width: width_word(local.buffers.send_width, remote.send.width),
        request_size: size(&remote.receive, true),
        receive_size: size(&remote.receive, false),
        receive_width: width_word(local.buffers.receive_width, remote.receive.width),
        response_size: size(&remote.send, true),
        receive_copy_avoidance: remote.discard_in_kernel.into(),
        send_copy_avoidance: remote.discard_in_kernel.into(),
        send_dirty: optional_word(remote.touch.send_dirty_bytes),
        receive_dirty: optional_word(remote.touch.receive_dirty_bytes),
        receive_clean: optional_word(remote.touch.receive_clean_bytes),
        socket_type,
        protocol,
        direction: server_direction,
        client_port: local.port,
        interval_burst: remote.pacing.map_or(0, |pacing| pacing.burst as u32),
        interval_us: remote
            .pacing
            .map_or(0, |pacing| pacing.interval.as_micros() as u32),
        client_address: source.map(Into::into).unwrap_or_default(),
        // Only the address of an option: a server behind NAT cannot bind the address that this
        // client sees.
        server_address: match (&settings.data.host, ends.dest.ip()) {
            (Some(_), Some(ip)) => ip.into(),
            _ => crate::wire::AddressWords::default(),
        },
        priority: remote.socket.priority.unwrap_or(UNSET),
        type_of_service: remote.socket.type_of_service.map_or(UNSET, i32::from),
        congestion_control: remote
            .socket
            .congestion_control
            .as_ref()
            .map(Text::new)
            .unwrap_or_default(),
        fill_file: remote
            .fill
            .as_ref()
            .map(|path| Text::new(path.as_os_str().as_encoded_bytes()))
            .unwrap_or_default(),
        ..common_fields(settings, ends, &TestRequest::default())
    }
}

/// Adds the fields that the requests of all tests share to a request with default values.
fn common_fields(settings: &Settings, ends: &Endpoints, defaults: &TestRequest) -> TestRequest {
    let remote = &settings.flow.remote;
    TestRequest {
        send_buffer: optional_word(remote.socket.send_buffer_bytes),
        send_alignment: remote.send.alignment,
        send_offset: remote.send.offset,
        receive_buffer: optional_word(remote.socket.receive_buffer_bytes),
        receive_alignment: remote.receive.alignment,
        receive_offset: remote.receive.offset,
        flags: flags_word(
            &remote.socket,
            remote.measure_cpu,
            settings.direction.connection,
            settings.needs.interface,
        ),
        cpu_rate: settings.cpu_rate.remote,
        test_length: test_length(settings.flow.limit),
        data_port: ends.dest.port(),
        family: family_code(ends),
        ..*defaults
    }
}

fn flags_word(
    socket: &SocketOptions,
    measure_cpu: bool,
    is_connection_test: bool,
    needs_interface: bool,
) -> Flags {
    [
        (socket.no_delay, Flags::NO_DELAY),
        (is_connection_test, Flags::CONNECTION_TEST),
        (measure_cpu, Flags::MEASURE_CPU),
        (!socket.dont_route, Flags::ROUTING_ALLOWED),
        (socket.fast_open, Flags::FAST_OPEN),
        (socket.reply_from_destination, Flags::PACKET_INFO),
        (socket.defer_accept_seconds.is_some(), Flags::DEFER_ACCEPT),
        (socket.do_not_fragment, Flags::DO_NOT_FRAGMENT),
        (socket.keep_alive, Flags::KEEP_ALIVE),
        (needs_interface, Flags::INTERFACE),
    ]
    .into_iter()
    .filter(|(is_set, _)| *is_set)
    .fold(Flags::default(), |flags, (_, flag)| flags | flag)
}

/// Returns a request with all fields; the layout of the test omits unused ones.
fn classic_request(
    test: Classic,
    settings: &Settings,
    ends: &Endpoints,
    local: LocalSetup,
) -> TestRequest {
    let (remote, socket) = (&settings.flow.remote, &settings.flow.remote.socket);
    let mut request = TestRequest {
        receive_window: socket.receive_window_frames.unwrap_or(0) as i32,
        send_window: socket.send_window_frames.unwrap_or(0) as i32,
        receive_size: match test.task() {
            ServerTask::Datagrams => local.buffers.send_bytes.unwrap_or(0) as i32,
            _ => size_word(remote.receive.size),
        },
        non_blocking: socket.non_blocking,
        ..common_fields(settings, ends, &TestRequest::classic())
    };
    if !test.task().is_transactional() {
        // The stock client sends a byte limit as a positive number.
        request.test_length = request.test_length.saturating_abs();
    }
    if test.task() == ServerTask::Answer {
        request.request_size = size_word(remote.receive.size);
        request.response_size = size_word(remote.send.size);
    }
    match &settings.family_settings {
        FamilySettings::Unix { .. } => {
            // In this request 0 is the default, so 1 requests the kernel's minimum.
            let buffer = |bytes: Option<u32>| bytes.map_or(0, |bytes| bytes.max(1) as i32);
            request.receive_buffer = buffer(socket.receive_buffer_bytes);
            request.send_buffer = buffer(socket.send_buffer_bytes);
        }
        FamilySettings::Dlpi { sap, remote, .. } => {
            request.device = Text::new(remote.device.as_deref().unwrap_or_default());
            request.device_len = request.device.raw_bytes().len() as i32;
            request.sap = i32::from(*sap);
            request.ppa = remote.ppa.map_or(UNSET, |ppa| ppa as i32);
        }
        FamilySettings::Inet | FamilySettings::Sctp { .. } => {}
    }
    request
}

/// Returns the size for classic requests, where 0 is the default.
fn size_word(rule: SizeRule) -> i32 {
    match rule {
        SizeRule::Bytes(bytes) => bytes as i32,
        SizeRule::SocketBuffer => 0,
    }
}

fn width_word(local: Option<u32>, rule: WidthRule) -> u32 {
    match rule {
        WidthRule::Buffers(buffers) => local.unwrap_or(0).max(buffers),
        WidthRule::CoverSocketBuffer => local.unwrap_or(0),
    }
}

/// Returns positive seconds or a negative count. `options` rejects numbers out of range.
fn test_length(limit: Limit) -> i32 {
    let word = |number: u64| i32::try_from(number).unwrap_or(i32::MAX);
    match limit {
        Limit::Time(length) => word(length.as_secs()),
        Limit::Bytes(count) | Limit::Transactions(count) => -word(count),
        // The protocol has no field for a number of messages; the end of the data ends the test.
        Limit::Unlimited | Limit::Messages(_) => 0,
    }
}

fn family_code(ends: &Endpoints) -> u32 {
    match ends.dest {
        Address::Vsock { .. } => FAMILY_VSOCK,
        Address::Inet(SocketAddr::V6(_)) => FAMILY_IPV6,
        _ => FAMILY_IPV4,
    }
}

fn optional_word(bytes: Option<u32>) -> i32 {
    bytes.map_or(UNSET, |bytes| bytes as i32)
}
