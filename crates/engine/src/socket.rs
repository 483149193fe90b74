//! Data sockets: opened with what the plan asks for and no more, and asked what the kernel gave.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use model::{Refused, SocketFacts, SocketOptions, Transport};
use sys::call::Error;
use sys::option::{self, TcpOption};
use sys::{Address, Protocol, Socket, Type};

/// Which end of a connection a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It connects, or sends first.
    Initiator,
    /// It listens, or receives first.
    Listener,
}

/// A data socket that could not be had as it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The kernel knows no such sockets.
    #[error("this kernel has no {}: it needs {}", transport.name(), transport.needs())]
    Missing {
        /// What it lacks.
        transport: Transport,
        /// Its words for that.
        error: io::Error,
    },
    /// Something was refused.
    #[error("could not {what}: {}", sys::describe(error))]
    Refused {
        /// What it was: opening, binding, or an option by its name.
        what: &'static str,
        /// Why, by the system.
        error: io::Error,
    },
}

impl SocketError {
    /// What was done.
    pub fn what(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "open it",
            Self::Refused { what, .. } => what,
        }
    }

    /// The system's word for it.
    pub fn error(&self) -> &io::Error {
        match self {
            Self::Missing { error, .. } | Self::Refused { error, .. } => error,
        }
    }

    /// The system's error number.
    pub fn errno(&self) -> i32 {
        self.error()
            .raw_os_error()
            .unwrap_or(Error::INVAL.raw_os_error())
    }

    fn of_open(transport: Transport, error: io::Error) -> Self {
        // Multipath TCP that is turned off is "protocol not available".
        let missing = [
            Error::PROTONOSUPPORT,
            Error::SOCKTNOSUPPORT,
            Error::AFNOSUPPORT,
            Error::NOPROTOOPT,
        ];
        let errno = error.raw_os_error();
        if missing
            .iter()
            .any(|code| Some(code.raw_os_error()) == errno)
        {
            return Self::Missing { transport, error };
        }
        Self::Refused {
            what: "open it",
            error,
        }
    }
}

fn named<T>(what: &'static str, result: io::Result<T>) -> Result<T, SocketError> {
    result.map_err(|error| SocketError::Refused { what, error })
}

/// A data socket with the facts of its start.
#[derive(Debug)]
pub struct DataSocket {
    /// The socket, bound; a [`Role::Listener`]'s does not listen yet.
    pub socket: Socket,
    /// Over what it moves data.
    pub transport: Transport,
    /// What the kernel gave it.
    pub facts: SocketFacts,
    /// Options that the kernel refused and that a test can do without.
    pub refused: Vec<Refused>,
}

impl DataSocket {
    /// Opens a socket and reads back what it got.
    pub fn open(
        transport: Transport,
        bind: &Address,
        options: &SocketOptions,
        role: Role,
    ) -> Result<Self, SocketError> {
        let (socket, refused) = socket_and_refusals(transport, bind, options, role)?;
        Ok(Self::with_facts(socket, transport, bind.is_ipv6(), refused))
    }

    /// Takes a connection that was accepted without any options, as one listener has those of all tests: sets them now.
    pub fn of_accepted(
        socket: Socket,
        transport: Transport,
        options: &SocketOptions,
    ) -> Result<Self, SocketError> {
        let local = named("read the address of it", Address::of(&socket))?;
        // A mapped address is one of IPv4; Multipath TCP refuses options of IPv6.
        let v6 = local.ip().is_some_and(|ip| ip.to_canonical().is_ipv6());
        let refused = apply(&socket, transport, options, Role::Initiator, v6)?;
        Ok(Self::with_facts(socket, transport, v6, refused))
    }

    fn with_facts(socket: Socket, transport: Transport, v6: bool, refused: Vec<Refused>) -> Self {
        let (send, receive) = buffer_sizes(&socket);
        let facts = SocketFacts {
            send_buffer_bytes: send,
            receive_buffer_bytes: receive,
            no_delay: no_delay(&socket, transport),
            send_window_frames: option::llc_send_window(socket.as_fd())
                .ok()
                .filter(|_| transport == Transport::LlcStream),
            receive_window_frames: option::llc_receive_window(socket.as_fd())
                .ok()
                .filter(|_| transport == Transport::LlcStream),
            cork: transport
                .has_tcp_options()
                .then(|| socket.tcp_cork().unwrap_or(false)),
            priority: option::priority(socket.as_fd()).ok(),
            type_of_service: transport
                .has_ip()
                .then(|| option::type_of_service(socket.as_fd(), v6).ok())
                .flatten(),
            ..SocketFacts::default()
        };
        Self {
            socket,
            transport,
            facts,
            refused,
        }
    }

    /// Adds to the first facts those of `connection`, or of the one socket, at the end of a run: buffers as they have
    /// grown, dropped datagrams, and for TCP its segment size, retransmissions and congestion control.
    pub fn facts_at_end(&self, connection: &Socket) -> SocketFacts {
        let (socket, transport, mut facts) = (connection, self.transport, self.facts.clone());
        (facts.send_buffer_end_bytes, facts.receive_buffer_end_bytes) = buffer_sizes(socket);
        facts.dropped = dropped(socket, transport);
        if !transport.has_tcp_options() {
            return facts;
        }
        if transport == Transport::Mptcp {
            facts.multipath = option::is_multipath(socket.as_fd()).ok();
        }
        facts.max_segment_bytes = option::max_segment(socket.as_fd()).ok();
        facts.retransmits = option::retransmits(socket.as_fd()).ok();
        facts.congestion_control = socket.tcp_congestion().ok().map(|name| {
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(name).into_owned()
        });
        facts
    }
}

/// Opens and binds a socket. A listener's port that is taken is replaced by one that the kernel picks;
/// the caller sees which. An option that the kernel refuses is an error, but for the priority and the
/// congestion control: [`DataSocket`] has their refusals.
pub fn data_socket(
    transport: Transport,
    bind: &Address,
    options: &SocketOptions,
    role: Role,
) -> Result<Socket, SocketError> {
    socket_and_refusals(transport, bind, options, role).map(|(socket, _)| socket)
}

fn socket_and_refusals(
    transport: Transport,
    bind: &Address,
    options: &SocketOptions,
    role: Role,
) -> Result<(Socket, Vec<Refused>), SocketError> {
    let (socket, refused) = unbound(transport, bind, options, role)?;
    if bind.port() != 0 && transport.has_connections() {
        // A port may be asked for again at once, while old connections linger. Datagram sockets leave
        // nothing behind, and two that are marked share a port: the later one gets the other's data.
        named("set SO_REUSEADDR", socket.set_reuse_address(true))?;
    }
    match role {
        // The kernel binds it to what the route and the port range say when it connects.
        Role::Initiator
            if transport.has_connections() && bind.is_wildcard() && bind.port() == 0 => {}
        Role::Initiator => named("bind it", bind_to(&socket, bind))?,
        Role::Listener => named("bind it", bind_listener(&socket, bind))?,
    }
    Ok((socket, refused))
}

/// Opens a datagram socket that has no peer, for as long as it is open. A peer gets a socket of its own at the
/// same address by [`datagram_branch`].
pub fn datagram_listener(
    transport: Transport,
    bind: &Address,
    options: &SocketOptions,
) -> Result<Socket, SocketError> {
    // An error of what a branch has sent would be reported to it, once the branch is closed.
    let (socket, _) = unbound(transport, bind, options, Role::Listener)?;
    named(
        "set SO_ATTACH_REUSEPORT_CBPF",
        option::set_first_of_address(socket.as_fd()),
    )?;
    named("bind it", bind_to(&socket, bind))?;
    Ok(socket)
}

/// Opens a socket at the address and port `bind` of a [`datagram_listener`], connected to `peer`. From then on
/// `peer`'s datagrams come here; those that came before are in the listener's queue, and so is everybody else's.
pub fn datagram_branch(
    (listener, bind): (&Socket, &Address),
    transport: Transport,
    peer: &Address,
    options: &SocketOptions,
) -> Result<Socket, SocketError> {
    let (socket, _) = unbound(transport, bind, options, Role::Initiator)?;
    let share = |is_shared| named("set SO_REUSEPORT", listener.set_reuse_port(is_shared));
    named("set SO_REUSEPORT", socket.set_reuse_port(true))?;
    share(true)?;
    let connected = named("bind it", bind_to(&socket, bind)).and_then(|()| {
        let peer = named("connect it", peer.to_kernel())?;
        named("connect it", socket.connect(&peer))
    });
    // Without this, nobody else gets the port, and the kernel finds the connected socket faster.
    share(false)?;
    connected.map(|()| socket)
}

fn unbound(
    transport: Transport,
    bind: &Address,
    options: &SocketOptions,
    role: Role,
) -> Result<(Socket, Vec<Refused>), SocketError> {
    let (kind, protocol) = kind(transport);
    let socket = Socket::new(bind.domain(), kind, protocol)
        .map_err(|error| SocketError::of_open(transport, error))?;
    let refused = apply(&socket, transport, options, role, bind.is_ipv6())?;
    Ok((socket, refused))
}

/// The socket's type and protocol.
fn kind(transport: Transport) -> (Type, Option<Protocol>) {
    match transport {
        Transport::Tcp => (Type::STREAM, Some(Protocol::TCP)),
        Transport::Mptcp => (Type::STREAM, Some(Protocol::MPTCP)),
        Transport::Udp => (Type::DGRAM, Some(Protocol::UDP)),
        Transport::UdpLite => (Type::DGRAM, Some(Protocol::UDPLITE)),
        Transport::Sctp => (Type::STREAM, Some(Protocol::SCTP)),
        Transport::SctpMany => (Type::SEQPACKET, Some(Protocol::SCTP)),
        Transport::Dccp => (Type::DCCP, Some(Protocol::DCCP)),
        Transport::UnixStream | Transport::Vsock | Transport::LlcStream => (Type::STREAM, None),
        Transport::UnixDatagram | Transport::LlcDatagram => (Type::DGRAM, None),
    }
}

/// Binds to the address and port that were asked for. Falls back to another port if that one is taken, and to any
/// address if that one is not this host's (it may be what a NAT shows of it). Fails if this process may not have the
/// port.
fn bind_listener(socket: &Socket, asked: &Address) -> io::Result<()> {
    let elsewhere = |address: Address| {
        move |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => Err(error),
            _ => bind_to(socket, &address),
        }
    };
    bind_to(socket, asked)
        .or_else(elsewhere(asked.with_any_port()))
        .or_else(elsewhere(asked.anywhere()))
        .or_else(elsewhere(asked.anywhere().with_any_port()))
}

fn bind_to(socket: &Socket, address: &Address) -> io::Result<()> {
    socket.bind(&address.to_kernel()?)
}

fn apply(
    socket: &Socket,
    transport: Transport,
    options: &SocketOptions,
    role: Role,
    v6: bool,
) -> Result<Vec<Refused>, SocketError> {
    let mut refused = Vec::new();
    let tcp = transport.has_tcp_options();
    let datagrams = !transport.has_connections();
    if let Some(bytes) = options.send_buffer_bytes {
        named("set SO_SNDBUF", socket.set_send_buffer_size(bytes as usize))?;
    }
    if let Some(bytes) = options.receive_buffer_bytes {
        named("set SO_RCVBUF", socket.set_recv_buffer_size(bytes as usize))?;
    }
    if options.no_delay && tcp {
        named("set TCP_NODELAY", socket.set_tcp_nodelay(true))?;
    }
    if transport == Transport::SctpMany && role == Role::Listener {
        named(
            "set SCTP_EVENTS",
            option::set_association_events(socket.as_fd()),
        )?;
    }
    if transport == Transport::LlcStream {
        let _ = option::force_receive_buffer(socket.as_fd(), WINDOW_BYTES);
        set_windows(socket, options)?;
    }
    match transport {
        Transport::Sctp | Transport::SctpMany if options.no_delay => {
            named(
                "set SCTP_NODELAY",
                option::set_sctp_no_delay(socket.as_fd()),
            )?;
        }
        Transport::Dccp => prepare_dccp(socket)?,
        _ => {}
    }
    apply_path(socket, transport, options, v6)?;
    if let Some(bytes) = options.max_segment_bytes.filter(|_| tcp) {
        named("set TCP_MAXSEG", socket.set_tcp_mss(bytes))?;
    }
    if options.cork && tcp {
        named("set TCP_CORK", socket.set_tcp_cork(true))?;
    }
    if options.keep_alive {
        named("set SO_KEEPALIVE", socket.set_keepalive(true))?;
    }
    if options.dont_route {
        named("set SO_DONTROUTE", option::set_dont_route(socket.as_fd()))?;
    }
    if let Some(tos) = options.type_of_service.filter(|_| transport.has_ip()) {
        named(
            "set IP_TOS",
            option::set_type_of_service(socket.as_fd(), v6, tos),
        )?;
    }
    if let Some(priority) = options.priority {
        // After the type of service, which sets a priority of its own: ip(7).
        let set = option::set_priority(socket.as_fd(), priority);
        refused.extend(refusal("SO_PRIORITY", &priority, set));
    }
    if let Some(algorithm) = options.congestion_control.as_deref().filter(|_| tcp) {
        let set = socket.set_tcp_congestion(algorithm.as_bytes());
        refused.extend(refusal("TCP_CONGESTION", &algorithm, set));
    }
    if let Some(timeout) = options
        .receive_timeout
        .filter(|_| transport.has_datagrams())
    {
        named("set SO_RCVTIMEO", socket.set_read_timeout(Some(timeout)))?;
    }
    if options.debug {
        named("set SO_DEBUG", option::set_debug(socket.as_fd()))?;
    }
    if let Some(ttl) = options
        .multicast_ttl
        .filter(|_| datagrams && transport.has_ip())
    {
        named(
            "set IP_MULTICAST_TTL",
            option::set_multicast_ttl(socket.as_fd(), v6, ttl),
        )?;
    }
    if datagrams && transport.has_ip() && role == Role::Initiator {
        // Else an overflow of the interface's queue is silent, and loss would look like the path's.
        let _ = option::set_receive_errors(socket.as_fd(), v6);
    }
    if let Some(seconds) = options
        .defer_accept_seconds
        .filter(|_| tcp && role == Role::Listener)
    {
        named(
            "set TCP_DEFER_ACCEPT",
            option::set_defer_accept(socket.as_fd(), seconds),
        )?;
    }
    if options.fast_open && tcp {
        let set = match role {
            Role::Listener => option::set_fast_open(socket.as_fd(), 128),
            Role::Initiator => option::set_fast_open_connect(socket.as_fd()),
        };
        named("set TCP_FASTOPEN", set)?;
    }
    Ok(refused)
}

/// Sets a device, a pace and fragmentation, and TCP's numbers.
fn apply_path(
    socket: &Socket,
    transport: Transport,
    options: &SocketOptions,
    v6: bool,
) -> Result<(), SocketError> {
    if let Some(device) = &options.device {
        let set = socket.bind_device(Some(device.as_bytes()));
        named("set SO_BINDTODEVICE", set)?;
    }
    let is_sctp = matches!(transport, Transport::Sctp | Transport::SctpMany);
    if let Some(bytes) = options.max_segment_bytes.filter(|_| is_sctp) {
        let set = sys::sctp::set_max_fragment(socket.as_fd(), bytes);
        named("set SCTP_MAXSEG", set)?;
    }
    if let Some(rate) = options.max_pacing_bytes_per_second {
        let set = option::set_max_pacing_rate(socket.as_fd(), rate);
        named("set SO_MAX_PACING_RATE", set)?;
    }
    if options.do_not_fragment && transport.has_ip() {
        let set = option::set_do_not_fragment(socket.as_fd(), v6);
        named("set IP_MTU_DISCOVER", set)?;
    }
    for (name, asked) in [
        (TcpOption::UserTimeoutMs, options.user_timeout_ms),
        (TcpOption::WindowClampBytes, options.window_clamp_bytes),
        (
            TcpOption::UnsentLowWaterBytes,
            options.unsent_low_water_bytes,
        ),
        (TcpOption::QuickAck, options.quick_ack.then_some(1)),
    ] {
        if let Some(value) = asked.filter(|_| transport.has_tcp_options()) {
            let set = option::set_tcp(socket.as_fd(), name, value);
            named(name.call(), set)?;
        }
    }
    Ok(())
}

fn refusal(setting: &str, asked: &impl ToString, set: io::Result<()>) -> Option<Refused> {
    let error = set.err()?;
    Some(Refused {
        setting: setting.to_owned(),
        asked: asked.to_string(),
        why: sys::describe(&error),
    })
}

/// Both ends name the same service, or the connection is refused: RFC 4340, section 8.1.2.
fn prepare_dccp(socket: &Socket) -> Result<(), SocketError> {
    let service = u32::from_be_bytes(*b"linr").to_be();
    named("set DCCP_SOCKOPT_SERVICE", socket.set_dccp_service(service))?;
    // With a queue of its own length a blocking send is EAGAIN; without, the socket's buffer bounds it.
    named(
        "set DCCP_SOCKOPT_QPOLICY_TXQLEN",
        socket.set_dccp_qpolicy_txqlen(0),
    )
}

fn no_delay(socket: &Socket, transport: Transport) -> Option<bool> {
    let on = match transport {
        Transport::Sctp | Transport::SctpMany => option::sctp_no_delay(socket.as_fd()),
        _ if transport.has_tcp_options() => socket.tcp_nodelay(),
        _ => return None,
    };
    Some(on.unwrap_or(false))
}

/// What an accepted connection of the logical link control has not from its listener: the windows, and
/// room for a whole window, as Linux acknowledges what then finds no room.
pub fn prepare_accepted(
    socket: &Socket,
    transport: Transport,
    options: &SocketOptions,
) -> Result<(), SocketError> {
    if transport != Transport::LlcStream {
        return Ok(());
    }
    // More than the limit that users have needs a privilege, and so does such a socket.
    let _ = option::force_receive_buffer(socket.as_fd(), WINDOW_BYTES);
    set_windows(socket, options)
}

/// 127 frames of 9000 bytes, as the kernel accounts for them.
const WINDOW_BYTES: u32 = 4 << 20;

fn set_windows(socket: &Socket, options: &SocketOptions) -> Result<(), SocketError> {
    if let Some(frames) = options.send_window_frames {
        named(
            "set LLC_OPT_TX_WIN",
            option::set_llc_send_window(socket.as_fd(), frames),
        )?;
    }
    if let Some(frames) = options.receive_window_frames {
        named(
            "set LLC_OPT_RX_WIN",
            option::set_llc_receive_window(socket.as_fd(), frames),
        )?;
    }
    Ok(())
}

/// SO_SNDBUF and SO_RCVBUF as the kernel has them.
fn buffer_sizes(socket: &Socket) -> (Option<u32>, Option<u32>) {
    (
        socket.send_buffer_size().ok().map(|bytes| bytes as u32),
        socket.recv_buffer_size().ok().map(|bytes| bytes as u32),
    )
}

/// Sets on an accepted connection what it has not got from its listener: Linux begins a new socket's
/// priority at 0.
pub fn complete_accepted(connection: BorrowedFd<'_>, options: &SocketOptions) {
    if let Some(priority) = options.priority {
        let _ = option::set_priority(connection, priority);
    }
}

/// Datagrams that came for a socket and that it dropped.
pub fn dropped(socket: &Socket, transport: Transport) -> Option<u64> {
    let dropped = || option::dropped(socket.as_fd()).ok().map(u64::from);
    transport.has_datagrams().then(dropped)?
}

/// What is known of a connection that will be gone by the end of its test.
pub(crate) fn connected_facts(socket: &Socket) -> SocketFacts {
    let (send, receive) = buffer_sizes(socket);
    SocketFacts {
        send_buffer_end_bytes: send,
        receive_buffer_end_bytes: receive,
        max_segment_bytes: option::max_segment(socket.as_fd()).ok(),
        ..SocketFacts::default()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;

    fn open(port: u16) -> DataSocket {
        let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into();
        let options = SocketOptions::default();
        DataSocket::open(Transport::Udp, &bind, &options, Role::Listener).unwrap()
    }

    fn port(socket: &DataSocket) -> u16 {
        Address::of(&socket.socket).unwrap().port() as u16
    }

    #[test]
    fn a_path_is_set_as_it_was_asked_for() {
        let options = SocketOptions {
            device: Some("lo".to_owned()),
            max_pacing_bytes_per_second: Some(10 << 30),
            do_not_fragment: true,
            user_timeout_ms: Some(1234),
            window_clamp_bytes: Some(100_000),
            unsent_low_water_bytes: Some(5678),
            quick_ack: true,
            ..SocketOptions::default()
        };
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let bind = Address::Inet(host.parse().unwrap());
            let (socket, _) =
                socket_and_refusals(Transport::Tcp, &bind, &options, Role::Initiator).unwrap();
            let timeout = socket.tcp_user_timeout().unwrap();
            assert_eq!(timeout, Some(std::time::Duration::from_millis(1234)));
            assert_eq!(socket.device().unwrap().unwrap()[..2], *b"lo");
            DataSocket::open(Transport::Udp, &bind, &options, Role::Initiator).unwrap();
        }
        let options = SocketOptions {
            device: Some("no-such-device".to_owned()),
            ..SocketOptions::default()
        };
        let bind = Address::Inet("127.0.0.1:0".parse().unwrap());
        let error = DataSocket::open(Transport::Tcp, &bind, &options, Role::Initiator);
        assert_eq!(error.unwrap_err().what(), "set SO_BINDTODEVICE");
    }

    #[test]
    fn a_datagram_port_is_nobody_elses_until_it_is_closed() {
        // The port that a first client was given, and asks for in its next iteration.
        let first = port(&open(0));
        let again = open(first);
        assert_eq!(port(&again), first);
        let other = open(first);
        assert_ne!(port(&other), first);
    }
}
