//! Data sockets: opens them with the plan's options, and reads the settings that the kernel
//! applied.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use model::{RefusedSetting, SocketFacts, SocketOptions, Transport};
use sys::call::Error;
use sys::option::{self, TcpOption};
use sys::{Address, Protocol, Socket, Type};

/// Role of a socket in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The end that connects, or sends first.
    Initiator,
    /// The end that listens, or receives first.
    Listener,
}

/// An error while a data socket is opened or configured.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The kernel does not support the transport.
    #[error("this kernel has no {}: it needs {}", transport.name(), transport.requirement())]
    Missing {
        /// The unsupported transport.
        transport: Transport,
        /// The system's error.
        error: io::Error,
    },
    /// The kernel refused an operation.
    #[error("cannot {action}: {}", sys::describe(error))]
    Refused {
        /// The operation: opening, binding, or setting a named option.
        action: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

impl SocketError {
    /// Returns the operation that failed.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "open the socket",
            Self::Refused { action, .. } => action,
        }
    }

    /// Returns the system's error.
    pub fn error(&self) -> &io::Error {
        match self {
            Self::Missing { error, .. } | Self::Refused { error, .. } => error,
        }
    }

    /// Returns the system's error number.
    pub fn errno(&self) -> i32 {
        self.error()
            .raw_os_error()
            .unwrap_or(Error::INVAL.raw_os_error())
    }

    fn from_open_error(transport: Transport, error: io::Error) -> Self {
        // If Multipath TCP is disabled, the error is ENOPROTOOPT.
        let unsupported = [
            Error::PROTONOSUPPORT,
            Error::SOCKTNOSUPPORT,
            Error::AFNOSUPPORT,
            Error::NOPROTOOPT,
        ];
        let errno = error.raw_os_error();
        if unsupported
            .iter()
            .any(|code| Some(code.raw_os_error()) == errno)
        {
            return Self::Missing { transport, error };
        }
        Self::Refused {
            action: "open the socket",
            error,
        }
    }
}

/// Adds the operation to an error.
fn with_action<T>(action: &'static str, result: io::Result<T>) -> Result<T, SocketError> {
    result.map_err(|error| SocketError::Refused { action, error })
}

/// A data socket with its settings at the start.
#[derive(Debug)]
pub struct DataSocket {
    /// The bound socket; with [`Role::Listener`] it does not listen yet.
    pub socket: Socket,
    /// Its transport.
    pub transport: Transport,
    /// Settings that the kernel applied.
    pub facts: SocketFacts,
    /// Options that the kernel refused and that a test does not require.
    pub refused: Vec<RefusedSetting>,
}

impl DataSocket {
    /// Opens a socket and reads its settings.
    pub fn open(
        transport: Transport,
        bind: &Address,
        options: &SocketOptions,
        role: Role,
    ) -> Result<Self, SocketError> {
        let (socket, refused) = open_with_refusals(transport, bind, options, role)?;
        Ok(Self::with_facts(socket, transport, bind.is_ipv6(), refused))
    }

    /// Wraps an accepted connection and sets its options. A listener that all tests share has not
    /// set them.
    pub fn from_accepted(
        socket: Socket,
        transport: Transport,
        options: &SocketOptions,
    ) -> Result<Self, SocketError> {
        let local = with_action("read the socket's address", Address::local(&socket))?;
        // A mapped address is an IPv4 address, for which Multipath TCP refuses IPv6 options.
        let is_ipv6 = local.ip().is_some_and(|ip| ip.to_canonical().is_ipv6());
        let refused = apply_options(&socket, transport, options, Role::Initiator, is_ipv6)?;
        Ok(Self::with_facts(socket, transport, is_ipv6, refused))
    }

    fn with_facts(
        socket: Socket,
        transport: Transport,
        is_ipv6: bool,
        refused: Vec<RefusedSetting>,
    ) -> Self {
        let (send, receive) = buffer_sizes(&socket);
        let facts = SocketFacts {
            send_buffer_bytes: send,
            receive_buffer_bytes: receive,
            no_delay: read_no_delay(&socket, transport),
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
                .then(|| option::type_of_service(socket.as_fd(), is_ipv6).ok())
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

    /// Returns the facts of the start, updated with the current ones of `connection`.
    ///
    /// Updated are the buffer sizes and dropped datagrams, and for TCP the segment size,
    /// retransmissions and congestion control. `connection` may be this socket.
    pub fn current_facts(&self, connection: &Socket) -> SocketFacts {
        let (socket, transport, mut facts) = (connection, self.transport, self.facts.clone());
        (facts.send_buffer_end_bytes, facts.receive_buffer_end_bytes) = buffer_sizes(socket);
        facts.dropped = dropped_datagrams(socket, transport);
        if !transport.has_tcp_options() {
            return facts;
        }
        if transport == Transport::Mptcp {
            facts.multipath = option::is_multipath(socket.as_fd()).ok();
        }
        facts.max_segment_bytes = option::max_segment_bytes(socket.as_fd()).ok();
        facts.retransmits = option::retransmits(socket.as_fd()).ok();
        facts.congestion_control = congestion_control(socket);
        facts
    }
}

/// Returns the congestion control of a TCP socket.
pub fn congestion_control(socket: &Socket) -> Option<String> {
    let name = socket.tcp_congestion().ok()?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Opens and binds a socket.
///
/// If a listener's port is in use, the kernel chooses another; the caller reads it from the socket.
/// A refused option is an error. A refused priority or congestion control is not:
/// [`DataSocket::refused`] lists these.
pub fn open_data_socket(
    transport: Transport,
    bind: &Address,
    options: &SocketOptions,
    role: Role,
) -> Result<Socket, SocketError> {
    open_with_refusals(transport, bind, options, role).map(|(socket, _)| socket)
}

/// Opens and binds a socket; also returns the options that the kernel refused.
fn open_with_refusals(
    transport: Transport,
    bind: &Address,
    options: &SocketOptions,
    role: Role,
) -> Result<(Socket, Vec<RefusedSetting>), SocketError> {
    let (socket, refused) = open_unbound(transport, bind, options, role)?;
    if bind.port() != 0 && transport.has_connections() {
        // Allows a port whose old connections are in TIME_WAIT. Datagram sockets have no such
        // state; with SO_REUSEADDR two of them share a port, and the later one receives the other's
        // data.
        with_action("set SO_REUSEADDR", socket.set_reuse_address(true))?;
    }
    match role {
        // connect(2) chooses the address by the route, and the port from the local port range.
        Role::Initiator
            if transport.has_connections() && bind.is_wildcard() && bind.port() == 0 => {}
        Role::Initiator => with_action("bind the socket", bind_to(&socket, bind))?,
        Role::Listener => with_action("bind the socket", bind_listener(&socket, bind))?,
    }
    Ok((socket, refused))
}

/// Opens an unconnected datagram socket. [`open_datagram_branch`] opens a connected socket for one
/// peer at the same address.
pub fn open_datagram_listener(
    transport: Transport,
    bind: &Address,
    options: &SocketOptions,
) -> Result<Socket, SocketError> {
    // `Role::Initiator` enables ICMP errors. The listener would receive those of closed branches.
    let (socket, _) = open_unbound(transport, bind, options, Role::Listener)?;
    with_action(
        "set SO_ATTACH_REUSEPORT_CBPF",
        option::set_default_receiver(socket.as_fd()),
    )?;
    with_action("bind the socket", bind_to(&socket, bind))?;
    Ok(socket)
}

/// Opens a socket at the address `bind` of an [`open_datagram_listener`] socket, connected to
/// `peer`.
///
/// It receives the later datagrams of `peer`. The earlier ones, and those of other peers, are in
/// the listener's queue.
pub fn open_datagram_branch(
    (listener, bind): (&Socket, &Address),
    transport: Transport,
    peer: &Address,
    options: &SocketOptions,
) -> Result<Socket, SocketError> {
    let (socket, _) = open_unbound(transport, bind, options, Role::Initiator)?;
    let set_shared =
        |is_shared| with_action("set SO_REUSEPORT", listener.set_reuse_port(is_shared));
    with_action("set SO_REUSEPORT", socket.set_reuse_port(true))?;
    set_shared(true)?;
    let connected = with_action("bind the socket", bind_to(&socket, bind)).and_then(|()| {
        let peer = with_action("connect the socket", peer.to_kernel())?;
        with_action("connect the socket", socket.connect(&peer))
    });
    // Clearing the option keeps other sockets from the port and speeds up the kernel's lookup.
    set_shared(false)?;
    connected.map(|()| socket)
}

/// Opens a socket and sets its options, but does not bind it.
fn open_unbound(
    transport: Transport,
    bind: &Address,
    options: &SocketOptions,
    role: Role,
) -> Result<(Socket, Vec<RefusedSetting>), SocketError> {
    let (kind, protocol) = type_and_protocol(transport);
    let socket = Socket::new(bind.domain(), kind, protocol)
        .map_err(|error| SocketError::from_open_error(transport, error))?;
    let refused = apply_options(&socket, transport, options, role, bind.is_ipv6())?;
    Ok((socket, refused))
}

/// Returns the socket's type and protocol.
fn type_and_protocol(transport: Transport) -> (Type, Option<Protocol>) {
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

/// Binds to the requested address and port.
///
/// Falls back to another port if that one is in use, and to any address if that one is not local
/// (it may be the outer address of a NAT). Fails if this process has no permission for the port.
fn bind_listener(socket: &Socket, requested: &Address) -> io::Result<()> {
    let or_bind_to = |address: Address| {
        move |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => Err(error),
            _ => bind_to(socket, &address),
        }
    };
    bind_to(socket, requested)
        .or_else(or_bind_to(requested.with_any_port()))
        .or_else(or_bind_to(requested.with_any_host()))
        .or_else(or_bind_to(requested.with_any_host().with_any_port()))
}

fn bind_to(socket: &Socket, address: &Address) -> io::Result<()> {
    socket.bind(&address.to_kernel()?)
}

/// Sets the options; returns those that were refused but are not required.
fn apply_options(
    socket: &Socket,
    transport: Transport,
    options: &SocketOptions,
    role: Role,
    is_ipv6: bool,
) -> Result<Vec<RefusedSetting>, SocketError> {
    let fd = socket.as_fd();
    let mut refused = Vec::new();
    let has_tcp_options = transport.has_tcp_options();
    let is_datagram = !transport.has_connections();
    if let Some(bytes) = options.send_buffer_bytes {
        with_action("set SO_SNDBUF", socket.set_send_buffer_size(bytes as usize))?;
    }
    if let Some(bytes) = options.receive_buffer_bytes {
        with_action("set SO_RCVBUF", socket.set_recv_buffer_size(bytes as usize))?;
    }
    if options.no_delay && has_tcp_options {
        with_action("set TCP_NODELAY", socket.set_tcp_nodelay(true))?;
    }
    if transport == Transport::SctpMany && role == Role::Listener {
        with_action("set SCTP_EVENTS", option::set_association_events(fd))?;
    }
    if transport == Transport::LlcStream {
        let _ = option::force_receive_buffer(fd, LLC_WINDOW_BYTES);
        set_llc_windows(socket, options)?;
    }
    match transport {
        Transport::Sctp | Transport::SctpMany if options.no_delay => {
            with_action("set SCTP_NODELAY", option::set_sctp_no_delay(fd))?;
        }
        Transport::Dccp => prepare_dccp(socket)?,
        _ => {}
    }
    apply_path_options(socket, transport, options)?;
    if let Some(bytes) = options.max_segment_bytes.filter(|_| has_tcp_options) {
        with_action("set TCP_MAXSEG", socket.set_tcp_mss(bytes))?;
    }
    if options.cork && has_tcp_options {
        with_action("set TCP_CORK", socket.set_tcp_cork(true))?;
    }
    if options.keep_alive {
        with_action("set SO_KEEPALIVE", socket.set_keepalive(true))?;
    }
    if options.dont_route {
        with_action("set SO_DONTROUTE", option::set_dont_route(fd))?;
    }
    if let Some(tos) = options.type_of_service.filter(|_| transport.has_ip()) {
        with_action("set IP_TOS", option::set_type_of_service(fd, is_ipv6, tos))?;
    }
    if let Some(priority) = options.priority {
        // After the type of service, which also sets the priority: ip(7).
        let result = option::set_priority(fd, priority);
        refused.extend(refused_setting("SO_PRIORITY", &priority, result));
    }
    if let Some(algorithm) = options
        .congestion_control
        .as_deref()
        .filter(|_| has_tcp_options)
    {
        let result = socket.set_tcp_congestion(algorithm.as_bytes());
        refused.extend(refused_setting("TCP_CONGESTION", &algorithm, result));
    }
    if let Some(timeout) = options
        .receive_timeout
        .filter(|_| transport.has_datagrams())
    {
        with_action("set SO_RCVTIMEO", socket.set_read_timeout(Some(timeout)))?;
    }
    if options.debug {
        with_action("set SO_DEBUG", option::set_debug(fd))?;
    }
    if let Some(ttl) = options
        .multicast_ttl
        .filter(|_| is_datagram && transport.has_ip())
    {
        with_action(
            "set IP_MULTICAST_TTL",
            option::set_multicast_ttl(fd, is_ipv6, ttl),
        )?;
    }
    if is_datagram && transport.has_ip() && role == Role::Initiator {
        // Otherwise an overflow of the interface's queue is not reported and looks like loss on the
        // path.
        let _ = option::set_receive_errors(fd, is_ipv6);
    }
    if let Some(seconds) = options
        .defer_accept_seconds
        .filter(|_| has_tcp_options && role == Role::Listener)
    {
        with_action(
            "set TCP_DEFER_ACCEPT",
            option::set_defer_accept(fd, seconds),
        )?;
    }
    if options.fast_open && has_tcp_options {
        let result = match role {
            Role::Listener => option::set_fast_open(fd, 128),
            Role::Initiator => option::set_fast_open_connect(fd),
        };
        with_action("set TCP_FASTOPEN", result)?;
    }
    Ok(refused)
}

/// Sets the device, the pacing rate, fragmentation, and numeric TCP options.
fn apply_path_options(
    socket: &Socket,
    transport: Transport,
    options: &SocketOptions,
) -> Result<(), SocketError> {
    if let Some(device) = &options.device {
        let result = socket.bind_device(Some(device.as_bytes()));
        with_action("set SO_BINDTODEVICE", result)?;
    }
    let is_sctp = matches!(transport, Transport::Sctp | Transport::SctpMany);
    if let Some(bytes) = options.max_segment_bytes.filter(|_| is_sctp) {
        let result = sys::sctp::set_max_fragment(socket.as_fd(), bytes);
        with_action("set SCTP_MAXSEG", result)?;
    }
    if let Some(rate) = options.max_pacing_bytes_per_second {
        let result = option::set_max_pacing_rate(socket.as_fd(), rate);
        with_action("set SO_MAX_PACING_RATE", result)?;
    }
    if options.do_not_fragment && transport.has_ip() {
        let result = option::set_do_not_fragment(socket.as_fd());
        with_action("set IP_MTU_DISCOVER", result)?;
    }
    for (name, requested) in [
        (TcpOption::UserTimeoutMs, options.user_timeout_ms),
        (TcpOption::WindowClampBytes, options.window_clamp_bytes),
        (
            TcpOption::UnsentLowWaterBytes,
            options.unsent_low_water_bytes,
        ),
        (TcpOption::QuickAck, options.quick_ack.then_some(1)),
    ] {
        if let Some(value) = requested.filter(|_| transport.has_tcp_options()) {
            let result = option::set_tcp(socket.as_fd(), name, value);
            with_action(name.operation(), result)?;
        }
    }
    Ok(())
}

fn refused_setting(
    setting: &str,
    requested: &impl ToString,
    result: io::Result<()>,
) -> Option<RefusedSetting> {
    let error = result.err()?;
    Some(RefusedSetting {
        setting: setting.to_owned(),
        requested: requested.to_string(),
        reason: sys::describe(&error),
    })
}

/// Sets the DCCP service code and queue. Both ends need the same service code, or the connection is
/// refused: RFC 4340, section 8.1.2.
fn prepare_dccp(socket: &Socket) -> Result<(), SocketError> {
    let service = u32::from_be_bytes(*b"linr").to_be();
    with_action("set DCCP_SOCKOPT_SERVICE", socket.set_dccp_service(service))?;
    // With a queue limit, blocking sends fail with EAGAIN; without one, the send buffer limits the
    // queue.
    with_action(
        "set DCCP_SOCKOPT_QPOLICY_TXQLEN",
        socket.set_dccp_qpolicy_txqlen(0),
    )
}

fn read_no_delay(socket: &Socket, transport: Transport) -> Option<bool> {
    let is_enabled = match transport {
        Transport::Sctp | Transport::SctpMany => option::sctp_no_delay(socket.as_fd()),
        _ if transport.has_tcp_options() => socket.tcp_nodelay(),
        _ => return None,
    };
    Some(is_enabled.unwrap_or(false))
}

/// Sets the options that an accepted LLC connection does not inherit from its listener.
///
/// These are the windows, and a receive buffer for a full window: Linux acknowledges frames that it
/// then drops because the buffer is full.
pub fn prepare_accepted_llc(
    socket: &Socket,
    transport: Transport,
    options: &SocketOptions,
) -> Result<(), SocketError> {
    if transport != Transport::LlcStream {
        return Ok(());
    }
    // Exceeding the user limit requires a privilege, which LLC sockets require anyway.
    let _ = option::force_receive_buffer(socket.as_fd(), LLC_WINDOW_BYTES);
    set_llc_windows(socket, options)
}

/// Receive buffer for 127 frames of 9000 bytes, including the kernel's overhead.
const LLC_WINDOW_BYTES: u32 = 4 << 20;

fn set_llc_windows(socket: &Socket, options: &SocketOptions) -> Result<(), SocketError> {
    if let Some(frames) = options.send_window_frames {
        with_action(
            "set LLC_OPT_TX_WIN",
            option::set_llc_send_window(socket.as_fd(), frames),
        )?;
    }
    if let Some(frames) = options.receive_window_frames {
        with_action(
            "set LLC_OPT_RX_WIN",
            option::set_llc_receive_window(socket.as_fd(), frames),
        )?;
    }
    Ok(())
}

/// Returns SO_SNDBUF and SO_RCVBUF.
fn buffer_sizes(socket: &Socket) -> (Option<u32>, Option<u32>) {
    (
        socket.send_buffer_size().ok().map(|bytes| bytes as u32),
        socket.recv_buffer_size().ok().map(|bytes| bytes as u32),
    )
}

/// Sets the priority of an accepted connection, which does not inherit it: Linux sets it to 0.
pub fn set_accepted_priority(connection: BorrowedFd<'_>, options: &SocketOptions) {
    if let Some(priority) = options.priority {
        let _ = option::set_priority(connection, priority);
    }
}

/// Returns the number of datagrams that the socket dropped; `None` if the transport has none.
pub fn dropped_datagrams(socket: &Socket, transport: Transport) -> Option<u64> {
    let dropped = || option::dropped_packets(socket.as_fd()).ok().map(u64::from);
    transport.has_datagrams().then(dropped)?
}

/// Returns the settings of a connection that closes before the end of its test.
pub(crate) fn connected_facts(socket: &Socket) -> SocketFacts {
    let (send, receive) = buffer_sizes(socket);
    SocketFacts {
        send_buffer_end_bytes: send,
        receive_buffer_end_bytes: receive,
        max_segment_bytes: option::max_segment_bytes(socket.as_fd()).ok(),
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
        Address::local(&socket.socket).unwrap().port() as u16
    }

    #[test]
    fn path_options_are_set_as_requested() {
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
                open_with_refusals(Transport::Tcp, &bind, &options, Role::Initiator).unwrap();
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
        let result = DataSocket::open(Transport::Tcp, &bind, &options, Role::Initiator);
        assert_eq!(result.unwrap_err().action(), "set SO_BINDTODEVICE");
    }

    #[test]
    fn a_datagram_port_is_exclusive_until_it_is_closed() {
        // A client requests the port of its first iteration again in the next one.
        let first_port = port(&open(0));
        let reopened = open(first_port);
        assert_eq!(port(&reopened), first_port);
        let other = open(first_port);
        assert_ne!(port(&other), first_port);
    }
}
