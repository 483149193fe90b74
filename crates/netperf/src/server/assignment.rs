//! Converts a request of any test family into one checked form: the server's part of the test.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use engine::ResourceAmounts;
use model::{
    BufferPlan, EndpointPlan, Limit, SizeRule, SocketOptions, Touch, Transport, Wait, WidthRule,
    Workload,
};
use server::ClientTest;
use sys::call::Error;
use sys::{Address, LlcAddress};

use crate::dlpi_interface::DlpiInterface;
use crate::options::ServerLimits;
use crate::protocol_conventions::{DEFER_ACCEPT_SECONDS, pacing};
use crate::wire::{
    Classic, FAMILY_IPV4, FAMILY_IPV6, Flags, Request, ServerTask, TestRequest, UNSET,
};

/// The data connection or socket of a test, and the listener before it. A test of connections has a
/// copy of the listener.
const TEST_RESOURCES: ResourceAmounts = ResourceAmounts {
    threads: 0,
    streams: 1,
    descriptors: 2,
    memory_bytes: 0,
};

/// Maximum payload of a UDP datagram: the range of its length field.
const MAX_UDP_PAYLOAD_BYTES: u32 = 65_535;

/// Maximum size of a message over another transport. Most hosts limit socket buffers to less.
const MAX_MESSAGE_BYTES: u32 = 1 << 20;

/// The server's part of a test.
#[derive(Clone, Debug)]
pub(super) struct Assignment {
    pub(super) transport: Transport,
    pub(super) workload: Workload,
    pub(super) limit: Limit,
    pub(super) endpoint: EndpointPlan,
    /// The address to bind the data socket to; the wildcard and port 0 if the client does not
    /// specify them.
    pub(super) bind: Address,
    /// The address of the client's data socket, if known.
    pub(super) client_data: Option<Address>,
    /// The client's data address, if the request has one. Its port is unused.
    pub(super) named_client: Option<Address>,
    /// Whether the client asks for data at another address than the control connection's, or over
    /// another family.
    pub(super) is_on_other_network: bool,
    /// Whether the results carry the congestion control's name.
    pub(super) reports_congestion_control: bool,
    /// Whether the client requests the interface of the data and its traffic.
    pub(super) reports_interface: bool,
    /// The mark that ends the data. In the classic UDP_STREAM, it is a datagram of another size:
    /// its bytes count, the datagram does not.
    pub(super) end_mark: EndMark,
}

/// The mark that ends the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndMark {
    /// An empty datagram, or the end of a byte stream.
    Empty,
    /// A datagram of any size except this one, in bytes.
    OtherSizeThan(u32),
}

/// A refused request or a failed test, with the error number for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", sys::describe(&std::io::Error::from_raw_os_error(*.0)))]
pub(super) struct TestError(pub(super) i32);

impl TestError {
    /// Converts an error. An error without a number becomes EINVAL, because 0 would mean success.
    pub(super) fn from_io(error: &std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(Error::INVAL.raw_os_error()))
    }
}

impl From<Error> for TestError {
    fn from(error: Error) -> Self {
        Self(error.raw_os_error())
    }
}

impl Assignment {
    /// Whether data goes one way in datagrams over UDP or UDP-Lite.
    pub(super) fn has_one_way_datagrams(&self) -> bool {
        matches!(self.transport, Transport::Udp | Transport::UdpLite)
            && !self.workload.is_transactional()
    }

    /// Returns the test for the registry, with the name of a similar netperf test.
    pub(super) fn client_test(&self) -> ClientTest {
        let workload = &self.workload;
        let kind = match (workload.connects(), workload.is_transactional()) {
            (true, true) => "CRR",
            (true, false) => "CC",
            (false, true) => "RR",
            (false, false) if workload.receives() => "STREAM",
            (false, false) => "MAERTS",
        };
        ClientTest {
            name: format!("{}_{kind}", self.transport.name()),
            duration: match self.limit {
                Limit::Time(length) => Some(length),
                _ => None,
            },
            resources: ResourceAmounts {
                descriptors: TEST_RESOURCES.descriptors + u64::from(workload.connects()),
                ..TEST_RESOURCES
            },
            ..ClientTest::default()
        }
    }

    /// Returns the assignment in a request; `None` if it is not a request for a test.
    pub(super) fn from_request(
        request: &Request,
        peer: &Address,
        local: &Address,
        limits: &ServerLimits,
    ) -> Option<Result<Self, TestError>> {
        let assignment = match request {
            Request::Omni(request) => assign_omni(request, peer, local),
            Request::Classic(test, request) => assign_classic(*test, request, limits),
            _ => return None,
        };
        Some(assignment.and_then(|assignment| match assignment.limit {
            Limit::Time(length) if length > limits.max_length => Err(Error::DQUOT.into()),
            _ => Ok(Self {
                is_on_other_network: is_on_other_network(&assignment.bind, local),
                ..assignment
            }),
        }))
    }
}

/// Whether data at `bind` cannot come over the control connection's pair of addresses.
fn is_on_other_network(bind: &Address, control: &Address) -> bool {
    match (bind.ip(), control.ip()) {
        (Some(bound), Some(control)) => {
            let (bound, control) = (bound.to_canonical(), control.to_canonical());
            bound.is_ipv4() != control.is_ipv4() || !(bound.is_unspecified() || bound == control)
        }
        _ => false,
    }
}

fn assign_omni(
    request: &TestRequest,
    peer: &Address,
    local: &Address,
) -> Result<Assignment, TestError> {
    let transport = request.transport().ok_or(Error::PROTONOSUPPORT)?;
    let workload = omni_workload(request, transport)?;
    let is_transactional = workload.receives() && workload.sends();
    let family = match request.family {
        0 if peer.is_ipv6() => FAMILY_IPV6,
        0 => FAMILY_IPV4,
        family => family,
    };
    let size = |bulk, transaction| {
        if is_transactional {
            transaction_size(transaction)
        } else {
            bulk_size(bulk)
        }
    };
    let send = BufferPlan {
        size: size(request.send_size, request.response_size)?,
        width: width_rule(request.send_width),
        alignment: checked_alignment(request.send_alignment)?,
        offset: request.send_offset,
    };
    let receive = BufferPlan {
        size: size(request.receive_size, request.request_size)?,
        width: width_rule(request.receive_width),
        alignment: checked_alignment(request.receive_alignment)?,
        offset: request.receive_offset,
    };
    // Responses must come from the address that the client sends to. If the request has none, this
    // is the local address of the control connection, unless the data has another family.
    let control_address = local
        .ip()
        .filter(|local| !transport.has_connections() && local.is_ipv4() == (family == FAMILY_IPV4));
    let local_address = request.server_address.ip(family).or(control_address);
    let bind = match transport {
        Transport::Vsock => Address::Vsock {
            context: Address::ANY_CONTEXT,
            port: request.data_port,
        },
        _ => with_scope_of(
            bind_address(family, local_address, request.data_port)?,
            peer,
        ),
    };
    let limit = limit_from_word(request.test_length, workload.is_transactional());
    let mut assignment = assign_common(request, transport, workload, limit, bind, (send, receive));
    assignment.client_data = client_data_address(request, family, peer);
    assignment.named_client = request
        .client_address
        .ip(family)
        .map(|ip| SocketAddr::new(ip, 0).into());
    assignment.endpoint.discard_in_kernel =
        request.receive_copy_avoidance != 0 && transport.is_byte_stream();
    Ok(assignment)
}

fn omni_workload(request: &TestRequest, transport: Transport) -> Result<Workload, TestError> {
    let is_connection_test = request.flags.has_all(Flags::CONNECTION_TEST);
    if is_connection_test && !transport.has_connections() {
        return Err(Error::INVAL.into());
    }
    match (request.receives(), request.transmits(), is_connection_test) {
        (true, true, true) => Ok(Workload::accept_and_respond()),
        (true, true, false) => Ok(Workload::respond()),
        (false, false, true) => Ok(Workload::accept_and_close()),
        (true, false, false) => Ok(Workload::receive()),
        (false, true, false) => Ok(Workload::send()),
        _ => Err(Error::INVAL.into()),
    }
}

/// Converts the fields that the requests of all tests share. A field that a test's message lacks
/// has a neutral value.
fn assign_common(
    request: &TestRequest,
    transport: Transport,
    workload: Workload,
    limit: Limit,
    bind: Address,
    (send, receive): (BufferPlan, BufferPlan),
) -> Assignment {
    let fill = OsStr::from_bytes(request.fill_file.raw_bytes());
    Assignment {
        transport,
        workload,
        limit,
        endpoint: EndpointPlan {
            socket: socket_options(request, transport),
            send,
            receive,
            fill: (!fill.is_empty()).then(|| fill.into()),
            pacing: pacing(
                request.interval_burst.into(),
                request.interval_us,
                Wait::Sleep,
            ),
            touch: Touch {
                send_dirty_bytes: non_negative(request.send_dirty),
                receive_dirty_bytes: non_negative(request.receive_dirty),
                receive_clean_bytes: non_negative(request.receive_clean),
            },
            measure_cpu: request.flags.has_all(Flags::MEASURE_CPU),
            ..EndpointPlan::default()
        },
        bind,
        client_data: None,
        named_client: None,
        is_on_other_network: false,
        reports_congestion_control: request.flags.has_all(Flags::ROUTING_ALLOWED),
        reports_interface: request.flags.has_any(Flags::INTERFACE),
        end_mark: EndMark::Empty,
    }
}

fn socket_options(request: &TestRequest, transport: Transport) -> SocketOptions {
    let flags = request.flags;
    let congestion_control = request.congestion_control.to_string();
    let is_unix = matches!(transport, Transport::UnixStream | Transport::UnixDatagram);
    // In the Unix domain 0 keeps the kernel's default. The stock server sets 0 and gets the
    // minimum.
    let buffer = |bytes| non_negative(bytes).filter(|bytes| !is_unix || *bytes > 0);
    // Datagrams have no window.
    let window = |frames| {
        non_negative(frames).filter(|frames| transport == Transport::LlcStream && *frames > 0)
    };
    SocketOptions {
        send_buffer_bytes: buffer(request.send_buffer),
        receive_buffer_bytes: buffer(request.receive_buffer),
        receive_window_frames: window(request.receive_window),
        send_window_frames: window(request.send_window),
        no_delay: flags.has_all(Flags::NO_DELAY) && transport.has_nodelay_option(),
        keep_alive: flags.has_all(Flags::KEEP_ALIVE),
        do_not_fragment: flags.has_all(Flags::DO_NOT_FRAGMENT),
        dont_route: !flags.has_all(Flags::ROUTING_ALLOWED),
        fast_open: flags.has_all(Flags::FAST_OPEN),
        defer_accept_seconds: flags
            .has_all(Flags::DEFER_ACCEPT)
            .then_some(DEFER_ACCEPT_SECONDS),
        priority: non_negative(request.priority).map(|priority| priority as i32),
        type_of_service: non_negative(request.type_of_service)
            .and_then(|tos| u8::try_from(tos).ok()),
        congestion_control: (!congestion_control.is_empty()).then_some(congestion_control),
        connect_datagrams: request.connect,
        non_blocking: request.non_blocking,
        ..SocketOptions::default()
    }
}

/// Returns the address of the client's data socket: the one in the request, or else the control
/// connection's.
fn client_data_address(request: &TestRequest, family: u32, peer: &Address) -> Option<Address> {
    let port = u16::try_from(request.client_port)
        .ok()
        .filter(|port| *port != 0)?;
    let ip = request.client_address.ip(family);
    let ip = ip.or_else(|| peer.ip().map(|peer| peer.to_canonical()))?;
    Some(with_scope_of(SocketAddr::new(ip, port).into(), peer))
}

/// Adds the scope of the control connection to an IPv6 address. Requests have no field for the
/// scope of a link-local address.
fn with_scope_of(mut address: Address, peer: &Address) -> Address {
    if let (Address::Inet(SocketAddr::V6(address)), Address::Inet(SocketAddr::V6(peer))) =
        (&mut address, peer)
    {
        address.set_scope_id(peer.scope_id());
    }
    address
}

fn assign_classic(
    test: Classic,
    request: &TestRequest,
    limits: &ServerLimits,
) -> Result<Assignment, TestError> {
    let (transport, task) = (test.transport(), test.task());
    let end_mark = match task {
        ServerTask::Datagrams => {
            EndMark::OtherSizeThan(datagram_size(transport, request.receive_size)?)
        }
        _ => EndMark::Empty,
    };
    let buffers = classic_buffers(test, request)?;
    let limit = match limit_from_word(request.test_length, task.is_transactional()) {
        // A byte limit may arrive as a positive number, which reads as a time of up to 68 years.
        Limit::Time(length) if !task.is_transactional() && transport != Transport::Udp => {
            Limit::Time(length.min(limits.max_length))
        }
        other => other,
    };
    let workload = match task {
        ServerTask::Receive | ServerTask::Datagrams => Workload::receive(),
        ServerTask::Send => Workload::send(),
        ServerTask::Answer => Workload::respond(),
        ServerTask::AcceptAndAnswer => Workload::accept_and_respond(),
        ServerTask::AcceptAndClose => Workload::accept_and_close(),
    };
    let bind = match transport {
        // Only the server chooses the path. It never uses a client's path.
        Transport::UnixStream | Transport::UnixDatagram => Address::Unix(PathBuf::new()),
        Transport::LlcStream | Transport::LlcDatagram => dlpi_address(request)?,
        _ => bind_address(request.family, None, request.data_port)?,
    };
    Ok(Assignment {
        end_mark,
        ..assign_common(request, transport, workload, limit, bind, buffers)
    })
}

fn datagram_size(transport: Transport, bytes: i32) -> Result<u32, TestError> {
    let max = match transport {
        Transport::Udp => MAX_UDP_PAYLOAD_BYTES,
        _ => MAX_MESSAGE_BYTES,
    };
    let size = u32::try_from(bytes).ok();
    let size = size.filter(|size| (1..=max).contains(size));
    size.ok_or(Error::INVAL.into())
}

/// Returns the buffers for sending and receiving.
fn classic_buffers(
    test: Classic,
    request: &TestRequest,
) -> Result<(BufferPlan, BufferPlan), TestError> {
    let (transport, task) = (test.transport(), test.task());
    let (receive_size, send_size, width) = match task {
        ServerTask::Receive | ServerTask::Send => {
            // In classic messages 0 is the default.
            let bytes = if request.receive_size == 0 {
                UNSET
            } else {
                request.receive_size
            };
            let size = bulk_size(bytes)?;
            (size, size, WidthRule::CoverSocketBuffer)
        }
        ServerTask::Datagrams => {
            let size = transaction_size(request.receive_size)?;
            let width = match transport {
                Transport::Udp => WidthRule::CoverSocketBuffer,
                _ => WidthRule::Buffers(1),
            };
            (size, size, width)
        }
        ServerTask::Answer | ServerTask::AcceptAndAnswer => (
            transaction_size(request.request_size)?,
            transaction_size(request.response_size)?,
            WidthRule::Buffers(1),
        ),
        // Connect/close moves no data; old clients send sizes of 0.
        ServerTask::AcceptAndClose => (
            SizeRule::Bytes(1),
            SizeRule::Bytes(1),
            WidthRule::Buffers(1),
        ),
    };
    let buffer = |size, alignment_bytes, offset: u32| {
        // In TCP and UDP tests, a negative offset reads as one above the memory limit.
        if offset > i32::MAX as u32 && !transport.has_ip() {
            return Err(TestError::from(Error::INVAL));
        }
        Ok(BufferPlan {
            size,
            width,
            alignment: checked_alignment(alignment_bytes)?,
            offset,
        })
    };
    let receive = buffer(
        receive_size,
        request.receive_alignment,
        request.receive_offset,
    )?;
    let send = if task.is_transactional() {
        buffer(send_size, request.send_alignment, request.send_offset)?
    } else {
        receive
    };
    Ok((send, receive))
}

/// Returns the address of the requested interface, with its service access point.
fn dlpi_address(request: &TestRequest) -> Result<Address, TestError> {
    let sap = u8::try_from(request.sap)
        .ok()
        .filter(|sap| sap.is_multiple_of(2))
        .ok_or(Error::INVAL)?;
    let interface = DlpiInterface {
        device: Some(request.device.to_string()),
        ppa: u32::try_from(request.ppa).ok(),
    };
    let link = interface.find();
    let mac = link.ok().and_then(|link| link.mac);
    let mac = mac.ok_or(Error::NODEV)?;
    Ok(Address::Llc(LlcAddress { mac, sap }))
}

fn limit_from_word(test_length: i32, transactional: bool) -> Limit {
    match test_length {
        0 => Limit::Unlimited,
        seconds @ 1.. => Limit::Time(Duration::from_secs(seconds as u64)),
        count if transactional => Limit::Transactions(count.unsigned_abs().into()),
        count => Limit::Bytes(count.unsigned_abs().into()),
    }
}

fn bind_address(family: u32, address: Option<IpAddr>, port: u32) -> Result<Address, TestError> {
    let port = u16::try_from(port).map_err(|_| Error::INVAL)?;
    let wildcard: IpAddr = match family {
        FAMILY_IPV4 => Ipv4Addr::UNSPECIFIED.into(),
        FAMILY_IPV6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return Err(Error::AFNOSUPPORT.into()),
    };
    Ok(SocketAddr::new(address.unwrap_or(wildcard), port).into())
}

/// Returns a field's value; `None` if it is negative, which means the default.
fn non_negative(word: i32) -> Option<u32> {
    u32::try_from(word).ok()
}

/// Returns a bulk size. −1 is the default; 0 is refused because the test would never end.
fn bulk_size(bytes: i32) -> Result<SizeRule, TestError> {
    match bytes {
        -1 => Ok(SizeRule::SocketBuffer),
        1.. => Ok(SizeRule::Bytes(bytes as u32)),
        _ => Err(Error::INVAL.into()),
    }
}

/// Returns the size of a request or a response.
fn transaction_size(bytes: i32) -> Result<SizeRule, TestError> {
    match bytes {
        1.. => Ok(SizeRule::Bytes(bytes as u32)),
        _ => Err(Error::INVAL.into()),
    }
}

fn width_rule(buffers: u32) -> WidthRule {
    match buffers {
        0 => WidthRule::CoverSocketBuffer,
        buffers => WidthRule::Buffers(buffers),
    }
}

fn checked_alignment(bytes: u32) -> Result<u32, TestError> {
    if bytes.is_power_of_two() {
        Ok(bytes)
    } else {
        Err(Error::INVAL.into())
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng;
    use rand::seq::IndexedRandom;

    use super::*;

    const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4000);

    /// Returns the assignment of a request that `change` modifies: a stream to the server for 1 s.
    fn assign(change: impl FnOnce(&mut TestRequest)) -> Result<Assignment, TestError> {
        let peer = Address::from(PEER);
        let mut request = TestRequest {
            direction: TestRequest::RECEIVE,
            test_length: 1,
            ..TestRequest::default()
        };
        change(&mut request);
        Assignment::from_request(
            &Request::Omni(request),
            &peer,
            &peer,
            &ServerLimits::default(),
        )
        .unwrap()
    }

    #[test]
    fn direction_and_flags_select_the_workload() {
        for (direction, flags, sizes, expected) in [
            (TestRequest::RECEIVE, 0, -1, Workload::receive()),
            (TestRequest::TRANSMIT, 0, -1, Workload::send()),
            (6, 0, 1, Workload::respond()),
            (6, 4, 1, Workload::accept_and_respond()),
            (0, 4, -1, Workload::accept_and_close()),
        ] {
            let assigned = assign(|request| {
                (request.direction, request.flags) = (direction, Flags(flags));
                (request.request_size, request.response_size) = (sizes, sizes);
            });
            assert_eq!(assigned.unwrap().workload, expected);
        }
    }

    type Change = fn(&mut TestRequest);

    #[test]
    fn requests_that_make_a_stock_server_spin_or_die_are_refused() {
        assert!(assign(|_| ()).is_ok());
        let refused: [(Change, Error); 11] = [
            (|request| request.receive_size = 0, Error::INVAL),
            (|request| request.receive_size = -7, Error::INVAL),
            (|request| request.receive_alignment = 0, Error::INVAL),
            (|request| request.receive_alignment = 3, Error::INVAL),
            (|request| request.family = 77, Error::AFNOSUPPORT),
            (|request| request.protocol = 999, Error::PROTONOSUPPORT),
            (|request| request.socket_type = 2, Error::PROTONOSUPPORT),
            (|request| request.direction = 0, Error::INVAL),
            (|request| request.direction = 6, Error::INVAL),
            (|request| request.data_port = 70_000, Error::INVAL),
            (|request| request.test_length = i32::MAX, Error::DQUOT),
        ];
        for (index, (change, errno)) in refused.into_iter().enumerate() {
            let error = assign(change).unwrap_err();
            assert_eq!(error, TestError::from(errno), "{index}");
        }
    }

    #[test]
    fn no_delay_is_set_where_the_transport_has_it() {
        for (test, expected) in [
            (Classic::TcpStream, true),
            (Classic::TcpRr, true),
            (Classic::UdpRr, false),
            (Classic::SctpStream, true),
            (Classic::SctpRr, true),
            (Classic::SctpRrMany, true),
            (Classic::DgRr, false),
        ] {
            let request = TestRequest {
                flags: Flags::ROUTING_ALLOWED | Flags::NO_DELAY,
                ..TestRequest::classic()
            };
            let assignment = assign_classic(test, &request, &ServerLimits::default()).unwrap();
            assert_eq!(assignment.endpoint.socket.no_delay, expected, "{test:?}");
        }
    }

    #[test]
    fn a_negative_length_limits_bytes_or_transactions() {
        let bulk = assign(|request| request.test_length = i32::MIN);
        assert_eq!(bulk.unwrap().limit, Limit::Bytes(1 << 31));
        let rr = assign(|request| {
            (request.direction, request.test_length) = (6, -5);
            (request.request_size, request.response_size) = (1, 1);
        });
        assert_eq!(rr.unwrap().limit, Limit::Transactions(5));
    }

    #[test]
    fn the_client_address_is_the_requested_one_or_the_control_peer() {
        let named: IpAddr = "192.0.2.1".parse().unwrap();
        for (address, client) in [
            (crate::wire::AddressWords::default(), "127.0.0.1:9"),
            (named.into(), "192.0.2.1:9"),
        ] {
            let assigned = assign(|request| {
                request.direction = TestRequest::TRANSMIT;
                (request.protocol, request.socket_type) = (17, 2);
                (request.client_port, request.client_address) = (9, address);
            });
            let client = Address::Inet(client.parse().unwrap());
            assert_eq!(assigned.unwrap().client_data, Some(client));
        }
    }

    #[test]
    fn any_request_is_refused_or_within_the_limits() {
        const MESSAGE_TYPES: [i32; 21] = [
            97, 97, 97, 10, 13, 16, 19, 22, 25, 28, 31, 34, 37, 40, 43, 46, 94, 300, 500, 520, 98,
        ];
        let valid = [(4, 0), (2, 0), (6, 0), (6, 4), (0, 4)].map(|(direction, flags)| {
            Request::Omni(TestRequest {
                direction,
                flags: Flags(flags),
                request_size: 1,
                response_size: 1,
                test_length: 1,
                ..TestRequest::default()
            })
        });
        let classic = Classic::all()
            .filter(|test| test.transport().has_ip())
            .map(|test| Request::Classic(test, TestRequest::classic()));
        let valid: Vec<_> = valid.into_iter().chain(classic).collect();
        let limits = ServerLimits::default();
        let peers = [PEER, "[2001:db8::1]:4000".parse().unwrap()].map(Address::from);
        testkit::fuzz::run_inputs("a request", 35..=46, |rng| {
            let frame = match valid.choose(rng) {
                Some(valid) if rng.random() => crate::fuzz::change_fields(rng, valid.encode(None)),
                _ => crate::fuzz::random_frame(rng, &MESSAGE_TYPES),
            };
            let request = Request::decode(&frame).request;
            let accepted = peers.iter().filter_map(|peer| {
                let assignment = Assignment::from_request(&request, peer, peer, &limits)?.ok()?;
                if let Limit::Time(length) = assignment.limit {
                    assert!(length <= limits.max_length, "{length:?}");
                }
                Some(())
            });
            accepted.count() > 0
        });
    }
}
