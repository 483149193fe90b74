//! Settings → the request: what the peer is asked to do, in its family's words.

use std::net::SocketAddr;

use model::{BufferPlan, Limit, SizeRule, SocketOptions, WidthRule};
use sys::Address;

use super::{Endpoints, family};
use crate::options::{Settings, Test};
use crate::wire::{
    FAMILY_IPV4, FAMILY_IPV6, FAMILY_VSOCK, Flags, OmniRequest, Request, StreamRequest, Text,
    TransactionRequest, UNSET,
};

/// What this end has settled before it asks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    /// The port of the bound data socket; 0 when the kernel is still to pick one.
    pub(super) port: u32,
    /// Bytes of a send call, 0 without one.
    pub(super) send_size: u32,
    /// Buffers in this end's send ring, 0 without one.
    pub(super) send_width: u32,
    /// Buffers in this end's receive ring, 0 without one.
    pub(super) receive_width: u32,
}

/// The request for the settings' test.
pub(super) fn request(settings: &Settings, ends: &Endpoints, own: Own) -> Request {
    if let Some(request) = family::request(settings, ends, own.send_size) {
        return request;
    }
    match settings.test {
        Test::TcpSendfile | Test::TcpMss => Request::TcpStream(stream(settings, ends)),
        Test::TcpCc => Request::TcpCc(transaction(settings, ends)),
        _ => Request::Omni(omni(settings, ends, own)),
    }
}

fn omni(settings: &Settings, ends: &Endpoints, own: Own) -> OmniRequest {
    let plan = &settings.plan;
    let there = &plan.there;
    let (socket_type, protocol) = OmniRequest::words_of(plan.transport);
    let direction = settings.direction;
    let transactional = direction.transmit && direction.receive;
    let size = |buffer: &BufferPlan, of_transaction| match buffer.size {
        SizeRule::Bytes(bytes) if of_transaction == transactional => bytes as i32,
        _ => UNSET,
    };
    let mut server_direction = 0;
    if direction.transmit {
        server_direction |= OmniRequest::RECEIVE;
    }
    if direction.receive {
        server_direction |= OmniRequest::TRANSMIT;
    }
    let source = ends.source.ip().filter(|_| ends.source_is_given());
    OmniRequest {
        send_buffer: optional(there.socket.send_buffer_bytes),
        send_size: size(&there.send, false),
        send_alignment: there.send.alignment,
        send_offset: there.send.offset,
        // The stock client tells its own widths, or for a direction that it does not use what `-W`
        // says; the server uses those of its direction.
        send_width: own.send_width.max(explicit(there.send.width)),
        request_size: size(&there.receive, true),
        receive_buffer: optional(there.socket.receive_buffer_bytes),
        receive_size: size(&there.receive, false),
        receive_alignment: there.receive.alignment,
        receive_offset: there.receive.offset,
        receive_width: own.receive_width.max(explicit(there.receive.width)),
        response_size: size(&there.send, true),
        flags: flags(
            &there.socket,
            there.measure_cpu,
            direction.connection,
            settings.needs.interface,
        ),
        cpu_rate: settings.cpu_rate.remote,
        test_length: test_length(plan.limit),
        receive_copy_avoidance: there.discard_in_kernel.into(),
        send_copy_avoidance: there.discard_in_kernel.into(),
        send_dirty: optional(there.touch.send_dirty_bytes),
        receive_dirty: optional(there.touch.receive_dirty_bytes),
        receive_clean: optional(there.touch.receive_clean_bytes),
        data_port: ends.dest.port(),
        family: family(ends),
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

pub(super) fn stream(settings: &Settings, ends: &Endpoints) -> StreamRequest {
    let there = &settings.plan.there;
    StreamRequest {
        send_buffer: optional(there.socket.send_buffer_bytes),
        receive_buffer: optional(there.socket.receive_buffer_bytes),
        // Here 0 is the default.
        size: match there.receive.size {
            SizeRule::Bytes(bytes) => bytes as i32,
            SizeRule::SocketBuffer => 0,
        },
        alignment: there.receive.alignment as i32,
        offset: there.receive.offset as i32,
        no_delay: there.socket.no_delay,
        measure_cpu: there.measure_cpu,
        cpu_rate: settings.cpu_rate.remote,
        // A byte limit goes as its positive number, as the stock client sends it.
        test_length: test_length(settings.plan.limit).saturating_abs(),
        data_port: ends.dest.port() as i32,
        family: family(ends),
        ..StreamRequest::default()
    }
}

pub(super) fn transaction(settings: &Settings, ends: &Endpoints) -> TransactionRequest {
    let there = &settings.plan.there;
    TransactionRequest {
        receive_buffer: optional(there.socket.receive_buffer_bytes),
        send_buffer: optional(there.socket.send_buffer_bytes),
        receive_alignment: there.receive.alignment as i32,
        receive_offset: there.receive.offset as i32,
        send_alignment: there.send.alignment as i32,
        send_offset: there.send.offset as i32,
        no_delay: there.socket.no_delay,
        measure_cpu: there.measure_cpu,
        cpu_rate: settings.cpu_rate.remote,
        test_length: test_length(settings.plan.limit),
        data_port: ends.dest.port() as i32,
        family: family(ends),
        ..TransactionRequest::default()
    }
}

fn explicit(width: WidthRule) -> u32 {
    match width {
        WidthRule::Buffers(buffers) => buffers,
        WidthRule::CoverSocketBuffer => 0,
    }
}

/// Positive seconds, or minus what is counted. The options room lets no other numbers through.
pub(super) fn test_length(limit: Limit) -> i32 {
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
