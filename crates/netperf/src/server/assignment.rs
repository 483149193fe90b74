//! A request of any family, brought into one form and checked: what this end is to do.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use model::{
    BufferPlan, Half, Limit, SizeRule, SocketOptions, Touch, Transport, Wait, WidthRule, Workload,
};
use server::Test;
use sys::call::Error;
use sys::{Address, Llc};

use crate::attachment::Attachment;
use crate::conventions::{DEFER_ACCEPT_SECONDS, pacing};
use crate::options::Limits;
use crate::wire::{Classic, FAMILY_IPV4, FAMILY_IPV6, Flags, Request, Task, TestRequest, UNSET};

/// No UDP datagram has more payload than its length word can say.
const LARGEST_DATAGRAM: u32 = 65_535;

/// No other message that a test may ask for is longer: a host's largest socket buffer is mostly less.
const LARGEST_MESSAGE: u32 = 1 << 20;

/// What this end is to do.
#[derive(Clone, Debug)]
pub(super) struct Assignment {
    pub(super) transport: Transport,
    pub(super) workload: Workload,
    pub(super) limit: Limit,
    pub(super) half: Half,
    /// Where the data socket is bound; the wildcard and port 0 when the client leaves it open.
    pub(super) bind: Address,
    /// Where the client's data socket is, as far as it said.
    pub(super) client: Option<Address>,
    /// The client's data address, if the request names one; the port is not used.
    pub(super) named: Option<Address>,
    /// Whether the results carry the congestion control's name.
    pub(super) tells_congestion: bool,
    /// Whether the client wants to know which interface the data goes by, and what that carries.
    pub(super) tells_interface: bool,
    /// A datagram of another size than this ends the data (the classic UDP_STREAM); its bytes
    /// count, the datagram does not.
    pub(super) end_mark: EndMark,
}

/// What ends the data of a stream of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndMark {
    /// An empty datagram, or the end of a byte stream.
    Empty,
    /// A datagram of any other size than this many bytes.
    OtherSizeThan(u32),
}

/// A request that is not served, with the error number that says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", sys::describe(&std::io::Error::from_raw_os_error(*.0)))]
pub(super) struct Refusal(pub(super) i32);

impl Refusal {
    /// An error without a number must not look like none.
    pub(super) fn from_io(error: &std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(Error::INVAL.raw_os_error()))
    }
}

impl From<Error> for Refusal {
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

    /// The test as the registry has it, named as netperf names the like.
    pub(super) fn test(&self) -> Test {
        let workload = &self.workload;
        let kind = match (workload.connects(), workload.is_transactional()) {
            (true, true) => "CRR",
            (true, false) => "CC",
            (false, true) => "RR",
            (false, false) if workload.receives() => "STREAM",
            (false, false) => "MAERTS",
        };
        Test {
            name: format!("{}_{kind}", self.transport.name()),
            length: match self.limit {
                Limit::Time(length) => Some(length),
                _ => None,
            },
        }
    }

    /// The assignment in a request, `None` if it is no request for a test.
    pub(super) fn of(
        request: &Request,
        peer: &Address,
        local: &Address,
        limits: &Limits,
    ) -> Option<Result<Self, Refusal>> {
        let assignment = match request {
            Request::Omni(request) => omni(request, peer, local),
            Request::Classic(test, request) => classic(*test, request, limits),
            _ => return None,
        };
        Some(assignment.and_then(|assignment| match assignment.limit {
            Limit::Time(length) if length > limits.max_length => Err(Error::DQUOT.into()),
            _ => Ok(assignment),
        }))
    }
}

fn omni(asked: &TestRequest, peer: &Address, local: &Address) -> Result<Assignment, Refusal> {
    let transport = asked.transport().ok_or(Error::PROTONOSUPPORT)?;
    let workload = omni_workload(asked, transport)?;
    let transactional = workload.receives() && workload.sends();
    let family = match asked.family {
        0 if peer.is_ipv6() => FAMILY_IPV6,
        0 => FAMILY_IPV4,
        family => family,
    };
    let size = |bulk, whole| {
        if transactional {
            exactly(whole)
        } else {
            at_most(bulk)
        }
    };
    let send = BufferPlan {
        size: size(asked.send_size, asked.response_size)?,
        width: width(asked.send_width),
        alignment: alignment(asked.send_alignment)?,
        offset: asked.send_offset,
    };
    let receive = BufferPlan {
        size: size(asked.receive_size, asked.request_size)?,
        width: width(asked.receive_width),
        alignment: alignment(asked.receive_alignment)?,
        offset: asked.receive_offset,
    };
    // Answers must leave from the address that the client sends to. If the request names none, that is the local
    // address of the control connection, unless the data has another family.
    let own_address = local
        .ip()
        .filter(|local| !transport.has_connections() && local.is_ipv4() == (family == FAMILY_IPV4));
    let own_address = asked.server_address.ip(family).or(own_address);
    let bind = match transport {
        Transport::Vsock => Address::Vsock {
            context: Address::ANY_CONTEXT,
            port: asked.data_port,
        },
        _ => with_link(bind(family, own_address, asked.data_port)?, peer),
    };
    let limit = limit(asked.test_length, workload.is_transactional());
    let mut assignment = assignment(asked, transport, workload, limit, bind, (send, receive));
    assignment.client = client(asked, family, peer);
    assignment.named = asked
        .client_address
        .ip(family)
        .map(|ip| SocketAddr::new(ip, 0).into());
    assignment.half.discard_in_kernel = asked.receive_copy_avoidance != 0 && transport.has_bytes();
    Ok(assignment)
}

fn omni_workload(request: &TestRequest, transport: Transport) -> Result<Workload, Refusal> {
    let connection = request.flags.has(Flags::CONNECTION_TEST);
    if connection && !transport.has_connections() {
        return Err(Error::INVAL.into());
    }
    match (request.receives(), request.transmits(), connection) {
        (true, true, true) => Ok(Workload::accept_and_answer()),
        (true, true, false) => Ok(Workload::answer()),
        (false, false, true) => Ok(Workload::accept_and_close()),
        (true, false, false) => Ok(Workload::receive()),
        (false, true, false) => Ok(Workload::send()),
        _ => Err(Error::INVAL.into()),
    }
}

/// What the requests of all tests choose alike. A field that a test's message does not have leaves things as they are.
fn assignment(
    asked: &TestRequest,
    transport: Transport,
    workload: Workload,
    limit: Limit,
    bind: Address,
    (send, receive): (BufferPlan, BufferPlan),
) -> Assignment {
    let fill = OsStr::from_bytes(asked.fill_file.raw_bytes());
    Assignment {
        transport,
        workload,
        limit,
        half: Half {
            socket: socket(asked, transport),
            send,
            receive,
            fill: (!fill.is_empty()).then(|| fill.into()),
            pacing: pacing(asked.interval_burst.into(), asked.interval_us, Wait::Sleep),
            touch: Touch {
                send_dirty_bytes: optional(asked.send_dirty),
                receive_dirty_bytes: optional(asked.receive_dirty),
                receive_clean_bytes: optional(asked.receive_clean),
            },
            measure_cpu: asked.flags.has(Flags::MEASURE_CPU),
            ..Half::default()
        },
        bind,
        client: None,
        named: None,
        tells_congestion: asked.flags.has(Flags::ROUTING_ALLOWED),
        tells_interface: asked.flags.has_any(Flags::INTERFACE),
        end_mark: EndMark::Empty,
    }
}

fn socket(asked: &TestRequest, transport: Transport) -> SocketOptions {
    let flags = asked.flags;
    let named = asked.congestion_control.to_string();
    let is_unix = matches!(transport, Transport::UnixStream | Transport::UnixDatagram);
    // There 0 leaves the kernel's. The stock server sets 0, and has the least that there is.
    let buffer = |bytes| optional(bytes).filter(|bytes| !is_unix || *bytes > 0);
    // Frames of datagrams have no window.
    let window =
        |frames| optional(frames).filter(|frames| transport == Transport::LlcStream && *frames > 0);
    SocketOptions {
        send_buffer_bytes: buffer(asked.send_buffer),
        receive_buffer_bytes: buffer(asked.receive_buffer),
        receive_window_frames: window(asked.receive_window),
        send_window_frames: window(asked.send_window),
        no_delay: flags.has(Flags::NO_DELAY) && transport.has_no_delay(),
        keep_alive: flags.has(Flags::KEEP_ALIVE),
        dont_route: !flags.has(Flags::ROUTING_ALLOWED),
        fast_open: flags.has(Flags::FAST_OPEN),
        defer_accept_seconds: flags
            .has(Flags::DEFER_ACCEPT)
            .then_some(DEFER_ACCEPT_SECONDS),
        priority: optional(asked.priority).map(|priority| priority as i32),
        type_of_service: optional(asked.type_of_service).and_then(|tos| u8::try_from(tos).ok()),
        congestion_control: (!named.is_empty()).then_some(named),
        connect_datagrams: asked.connect,
        non_blocking: asked.non_blocking,
        ..SocketOptions::default()
    }
}

/// Where the client's data socket is: the address that it named, or else the one it comes from.
fn client(request: &TestRequest, family: u32, peer: &Address) -> Option<Address> {
    let port = u16::try_from(request.client_port)
        .ok()
        .filter(|port| *port != 0)?;
    let ip = request.client_address.ip(family);
    let ip = ip.or_else(|| peer.ip().map(|peer| peer.to_canonical()))?;
    Some(with_link(SocketAddr::new(ip, port).into(), peer))
}

/// Adds the control connection's link to an IPv6 address: a request has no field for the scope of a link-local one.
fn with_link(mut address: Address, peer: &Address) -> Address {
    if let (Address::Inet(SocketAddr::V6(address)), Address::Inet(SocketAddr::V6(peer))) =
        (&mut address, peer)
    {
        address.set_scope_id(peer.scope_id());
    }
    address
}

fn classic(test: Classic, asked: &TestRequest, limits: &Limits) -> Result<Assignment, Refusal> {
    let (transport, task) = (test.transport(), test.task());
    let end_mark = match task {
        Task::Datagrams => EndMark::OtherSizeThan(datagram_size(transport, asked.receive_size)?),
        _ => EndMark::Empty,
    };
    let buffers = classic_buffers(test, asked)?;
    let limit = match limit(asked.test_length, task.is_transactional()) {
        // A byte limit comes as a positive number too, and may read as centuries.
        Limit::Time(length) if !task.is_transactional() && transport != Transport::Udp => {
            Limit::Time(length.min(limits.max_length))
        }
        other => other,
    };
    let workload = match task {
        Task::Receive | Task::Datagrams => Workload::receive(),
        Task::Send => Workload::send(),
        Task::Answer => Workload::answer(),
        Task::AcceptAndAnswer => Workload::accept_and_answer(),
        Task::AcceptAndClose => Workload::accept_and_close(),
    };
    let bind = match transport {
        // Where that is the server alone decides: no path of a client's is ever used.
        Transport::UnixStream | Transport::UnixDatagram => Address::Unix(PathBuf::new()),
        Transport::LlcStream | Transport::LlcDatagram => attached(asked)?,
        _ => bind(asked.family, None, asked.data_port)?,
    };
    Ok(Assignment {
        end_mark,
        ..assignment(asked, transport, workload, limit, bind, buffers)
    })
}

fn datagram_size(transport: Transport, bytes: i32) -> Result<u32, Refusal> {
    let largest = match transport {
        Transport::Udp => LARGEST_DATAGRAM,
        _ => LARGEST_MESSAGE,
    };
    let size = u32::try_from(bytes).ok();
    let size = size.filter(|size| (1..=largest).contains(size));
    size.ok_or(Error::INVAL.into())
}

/// The buffers to send from and to receive into.
fn classic_buffers(
    test: Classic,
    request: &TestRequest,
) -> Result<(BufferPlan, BufferPlan), Refusal> {
    let (transport, task) = (test.transport(), test.task());
    let (of_receive, of_send, width) = match task {
        Task::Receive | Task::Send => {
            // In classic messages 0 is the default.
            let bytes = if request.receive_size == 0 {
                UNSET
            } else {
                request.receive_size
            };
            let size = at_most(bytes)?;
            (size, size, WidthRule::CoverSocketBuffer)
        }
        Task::Datagrams => {
            let size = exactly(request.receive_size)?;
            let width = match transport {
                Transport::Udp => WidthRule::CoverSocketBuffer,
                _ => WidthRule::Buffers(1),
            };
            (size, size, width)
        }
        Task::Answer | Task::AcceptAndAnswer => (
            exactly(request.request_size)?,
            exactly(request.response_size)?,
            WidthRule::Buffers(1),
        ),
        // Connect/close moves no data; old clients send sizes of 0 with it.
        Task::AcceptAndClose => (
            SizeRule::Bytes(1),
            SizeRule::Bytes(1),
            WidthRule::Buffers(1),
        ),
    };
    let plan = |size, alignment_bytes, offset: u32| {
        // Of TCP and UDP a negative one is a huge one, which no memory has room for.
        if offset > i32::MAX as u32 && !transport.has_ip() {
            return Err(Refusal::from(Error::INVAL));
        }
        Ok(BufferPlan {
            size,
            width,
            alignment: alignment(alignment_bytes)?,
            offset,
        })
    };
    let receive = plan(
        of_receive,
        request.receive_alignment,
        request.receive_offset,
    )?;
    let send = if task.is_transactional() {
        plan(of_send, request.send_alignment, request.send_offset)?
    } else {
        receive
    };
    Ok((send, receive))
}

/// The address of the interface that a request names, at its service access point.
fn attached(request: &TestRequest) -> Result<Address, Refusal> {
    let sap = u8::try_from(request.sap)
        .ok()
        .filter(|sap| sap.is_multiple_of(2))
        .ok_or(Error::INVAL)?;
    let attachment = Attachment {
        device: Some(request.device.to_string()),
        ppa: u32::try_from(request.ppa).ok(),
    };
    let interface = attachment.find();
    let mac = interface.ok().and_then(|link| link.mac);
    let mac = mac.ok_or(Error::NODEV)?;
    Ok(Address::Llc(Llc { mac, sap }))
}

fn limit(test_length: i32, transactional: bool) -> Limit {
    match test_length {
        0 => Limit::Unlimited,
        seconds @ 1.. => Limit::Time(Duration::from_secs(seconds as u64)),
        count if transactional => Limit::Transactions(count.unsigned_abs().into()),
        count => Limit::Bytes(count.unsigned_abs().into()),
    }
}

fn bind(family: u32, address: Option<IpAddr>, port: u32) -> Result<Address, Refusal> {
    let port = u16::try_from(port).map_err(|_| Error::INVAL)?;
    let wildcard: IpAddr = match family {
        FAMILY_IPV4 => Ipv4Addr::UNSPECIFIED.into(),
        FAMILY_IPV6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return Err(Error::AFNOSUPPORT.into()),
    };
    Ok(SocketAddr::new(address.unwrap_or(wildcard), port).into())
}

/// A word whose negative values mean "leave it".
fn optional(word: i32) -> Option<u32> {
    u32::try_from(word).ok()
}

/// A bulk size: −1 is the default, 0 would never end.
fn at_most(bytes: i32) -> Result<SizeRule, Refusal> {
    match bytes {
        -1 => Ok(SizeRule::SocketBuffer),
        1.. => Ok(SizeRule::Bytes(bytes as u32)),
        _ => Err(Error::INVAL.into()),
    }
}

/// The size of a request or a response.
fn exactly(bytes: i32) -> Result<SizeRule, Refusal> {
    match bytes {
        1.. => Ok(SizeRule::Bytes(bytes as u32)),
        _ => Err(Error::INVAL.into()),
    }
}

fn width(buffers: u32) -> WidthRule {
    match buffers {
        0 => WidthRule::CoverSocketBuffer,
        buffers => WidthRule::Buffers(buffers),
    }
}

fn alignment(bytes: u32) -> Result<u32, Refusal> {
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

    /// What comes of a request for a stream to the server for a second, changed.
    fn assign(change: impl FnOnce(&mut TestRequest)) -> Result<Assignment, Refusal> {
        let peer = Address::from(PEER);
        let mut request = TestRequest {
            direction: TestRequest::RECEIVE,
            test_length: 1,
            ..TestRequest::default()
        };
        change(&mut request);
        Assignment::of(&Request::Omni(request), &peer, &peer, &Limits::default()).unwrap()
    }

    #[test]
    fn direction_words_are_the_servers() {
        for (direction, flags, sizes, expected) in [
            (TestRequest::RECEIVE, 0, -1, Workload::receive()),
            (TestRequest::TRANSMIT, 0, -1, Workload::send()),
            (6, 0, 1, Workload::answer()),
            (6, 4, 1, Workload::accept_and_answer()),
            (0, 4, -1, Workload::accept_and_close()),
        ] {
            let assigned = assign(|asked| {
                (asked.direction, asked.flags) = (direction, Flags(flags));
                (asked.request_size, asked.response_size) = (sizes, sizes);
            });
            assert_eq!(assigned.unwrap().workload, expected);
        }
    }

    type Change = fn(&mut TestRequest);

    #[test]
    fn what_makes_a_stock_server_spin_or_die_is_refused() {
        assert!(assign(|_| ()).is_ok());
        let bad: [(Change, Error); 11] = [
            (|asked| asked.receive_size = 0, Error::INVAL),
            (|asked| asked.receive_size = -7, Error::INVAL),
            (|asked| asked.receive_alignment = 0, Error::INVAL),
            (|asked| asked.receive_alignment = 3, Error::INVAL),
            (|asked| asked.family = 77, Error::AFNOSUPPORT),
            (|asked| asked.protocol = 999, Error::PROTONOSUPPORT),
            (|asked| asked.socket_type = 2, Error::PROTONOSUPPORT),
            (|asked| asked.direction = 0, Error::INVAL),
            (|asked| asked.direction = 6, Error::INVAL),
            (|asked| asked.data_port = 70_000, Error::INVAL),
            (|asked| asked.test_length = i32::MAX, Error::DQUOT),
        ];
        for (number, (change, errno)) in bad.into_iter().enumerate() {
            let refused = assign(change).unwrap_err();
            assert_eq!(refused, Refusal::from(errno), "{number}");
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
            let assignment = classic(test, &request, &Limits::default()).unwrap();
            assert_eq!(assignment.half.socket.no_delay, expected, "{test:?}");
        }
    }

    #[test]
    fn a_negative_length_counts_what_the_test_counts() {
        let bulk = assign(|asked| asked.test_length = i32::MIN);
        assert_eq!(bulk.unwrap().limit, Limit::Bytes(1 << 31));
        let rr = assign(|asked| {
            (asked.direction, asked.test_length) = (6, -5);
            (asked.request_size, asked.response_size) = (1, 1);
        });
        assert_eq!(rr.unwrap().limit, Limit::Transactions(5));
    }

    #[test]
    fn the_client_is_where_it_says_or_where_it_comes_from() {
        let named: IpAddr = "192.0.2.1".parse().unwrap();
        for (address, client) in [
            (crate::wire::Address::default(), "127.0.0.1:9"),
            (named.into(), "192.0.2.1:9"),
        ] {
            let assigned = assign(|asked| {
                asked.direction = TestRequest::TRANSMIT;
                (asked.protocol, asked.socket_type) = (17, 2);
                (asked.client_port, asked.client_address) = (9, address);
            });
            let client = Address::Inet(client.parse().unwrap());
            assert_eq!(assigned.unwrap().client, Some(client));
        }
    }

    #[test]
    fn whatever_a_client_asks_is_work_within_limits_or_refused() {
        const KINDS: [i32; 21] = [
            97, 97, 97, 10, 13, 16, 19, 22, 25, 28, 31, 34, 37, 40, 43, 46, 94, 300, 500, 520, 98,
        ];
        let good = [(4, 0), (2, 0), (6, 0), (6, 4), (0, 4)].map(|(direction, flags)| {
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
        let good: Vec<_> = good.into_iter().chain(classic).collect();
        let limits = Limits::default();
        let peers = [PEER, "[2001:db8::1]:4000".parse().unwrap()].map(Address::from);
        testkit::fuzz::each("a request", 35..=46, |rng| {
            let frame = match good.choose(rng) {
                Some(good) if rng.random() => crate::fuzz::disturbed(rng, good.encode(None)),
                _ => crate::fuzz::frame(rng, &KINDS),
            };
            let request = Request::decode(&frame).request;
            let taken = peers.iter().filter_map(|peer| {
                let work = Assignment::of(&request, peer, peer, &limits)?.ok()?;
                if let Limit::Time(length) = work.limit {
                    assert!(length <= limits.max_length, "{length:?}");
                }
                Some(())
            });
            taken.count() > 0
        });
    }
}
