//! Endpoints of data connections: local listeners, and the hosts and ports of the peers.

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use engine::script::Connection;
use engine::{
    BarrierEvent, ConnectError, Role, SocketError, StartBarrier, Stop, open_data_socket,
    open_datagram_listener,
};
use model::SocketOptions;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use server::{DataAcceptor, DataPeer};
use sys::call::{self, Error, KernelAddress};
use sys::{Address, Socket};

use super::compile::transport;
use super::datagrams::{DatagramListener, HANDSHAKE, Handshake, HandshakeRequest};
use super::{GroupSetup, Log, addresses, sctp};
use crate::profile::memory::buffer_bytes;
use crate::wire::SlaveInfo;
use crate::workorder::{DataProtocol, Flowop, FlowopFlags, FlowopKind, GroupSpec};
use control::ControlConnection;

/// Timeout of an accept, as in uperf.
pub(super) const ACCEPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of connections that wait for an accept, as in uperf. The kernel lowers it to its
/// own limit.
const BACKLOG: i32 = 10_240;

/// The hosts that the connects of a group go to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers(Vec<PeerHost>);

/// A host that connects go to.
#[derive(Clone, Debug)]
pub(crate) struct PeerHost {
    /// Name of the host in flowops.
    pub(crate) name: String,
    /// Peer address of its control connection; the port is not used.
    pub(crate) address: Address,
    /// Local address of its control connection.
    pub(crate) local_address: Option<Address>,
    /// `local_address` if sockets to this host must be bound to it, because the kernel would choose
    /// another source address; otherwise `None`.
    source_address: Option<Address>,
    /// Ports of its listeners, one entry per strand.
    pub(crate) ports: Arc<[SlaveInfo]>,
    /// It may reply from another of its addresses. A stock slave sends datagrams from the address
    /// that the route selects.
    pub(crate) replies_from_any_address: bool,
}

/// The listeners of one strand.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Vec<Listener>);

/// One listener of a strand.
#[derive(Debug)]
struct Listener {
    protocol: DataProtocol,
    port: u32,
    socket: ListenerSocket,
}

#[derive(Debug)]
enum ListenerSocket {
    /// A socket that the strands of a group may share.
    Streams(Arc<Socket>, DataAcceptor),
    /// A UDP socket, bound to one local address. It serves the peers whose control connections have
    /// the same local address.
    Datagrams(DatagramListener),
}

/// A listener that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen for {protocol} on port {port}: {}",
    sys::describe(error)
)]
pub(crate) struct ListenError {
    /// Protocol of the accept.
    pub(crate) protocol: DataProtocol,
    /// Requested port; 0 for any.
    pub(crate) port: u32,
    /// The error of the system.
    pub(crate) error: io::Error,
}

impl Peers {
    /// Returns the same host once for each of these names.
    pub(crate) fn from_host(host: &PeerHost, mut names: Vec<&str>) -> Self {
        names.sort_unstable();
        names.dedup();
        let hosts = names.into_iter().map(|name| PeerHost {
            name: name.to_owned(),
            ..host.clone()
        });
        Self(hosts.collect())
    }

    /// Adds a host. It replaces a host of the same name.
    pub(crate) fn add(&mut self, host: PeerHost) {
        self.0.retain(|other| !other.has_name(&host.name));
        self.0.push(host);
    }

    /// Returns the host of this name.
    pub(super) fn host(&self, name: &str) -> Option<&PeerHost> {
        self.0.iter().find(|host| host.has_name(name))
    }

    /// Returns the destination of a connect: the host, and the address of its listener for this
    /// strand.
    pub(super) fn target(
        &self,
        name: &str,
        strand: usize,
        protocol: DataProtocol,
    ) -> Option<(&PeerHost, Address)> {
        let host = self.host(name)?;
        let port = host.ports.get(strand)?.port(protocol)?;
        Some((
            host,
            addresses::listener_address(protocol, &host.address, port)?,
        ))
    }
}

impl PeerHost {
    /// Returns the peer of this control connection, with the ports of its listeners.
    pub(crate) fn new(name: &str, control: &ControlConnection, ports: Arc<[SlaveInfo]>) -> Self {
        let (address, local_address) = (control.peer().clone(), control.local_address());
        Self {
            name: name.to_owned(),
            source_address: local_address
                .clone()
                .filter(|local| !addresses::is_route_source(local, &address)),
            address,
            local_address,
            ports,
            replies_from_any_address: true,
        }
    }

    fn has_name(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Returns the accepts of a group, each with its protocol.
fn accept_flowops(group: &GroupSpec) -> impl Iterator<Item = (DataProtocol, &Flowop)> {
    let accepts = group
        .opening_flowops()
        .filter(|flowop| flowop.kind == FlowopKind::Accept);
    accepts.filter_map(|accept| Some((accept.endpoint.protocol?, accept)))
}

impl Listeners {
    /// Opens the listeners of a group: one per strand and protocol, or one for all strands if the
    /// profile names a port. Returns the listeners of each strand, in order.
    ///
    /// `local_address` maps a host to the local address of its control connection. Datagrams are
    /// received at and sent from this address, even if the route selects another.
    pub(crate) fn open(
        group: &GroupSpec,
        local_address: impl Fn(&str) -> Option<Address>,
    ) -> Result<Vec<Self>, ListenError> {
        let mut strands: Vec<Self> = Vec::new();
        strands.resize_with(group.strands.count as usize, Self::default);
        for (protocol, accept) in accept_flowops(group) {
            let host_address = local_address(&accept.endpoint.remote_host);
            let first = strands.first_mut();
            if first.is_none_or(|first| {
                first
                    .find_listener(protocol, host_address.as_ref())
                    .is_some()
            }) {
                continue;
            }
            let listen_error = |error| ListenError {
                protocol,
                port: accept.endpoint.port,
                error,
            };
            if protocol == DataProtocol::Udp {
                for strand in &mut strands {
                    let listener = Listener::for_datagrams(accept, host_address.as_ref(), group);
                    strand.0.push(listener.map_err(listen_error)?);
                }
                continue;
            }
            let mut shared: Option<(u32, Arc<Socket>)> = None;
            for strand in &mut strands {
                let (port, socket) = match &shared {
                    Some(shared) => shared.clone(),
                    None => listen_for_accept(accept, protocol).map_err(listen_error)?,
                };
                if accept.endpoint.port != 0 {
                    shared = Some((port, Arc::clone(&socket)));
                }
                strand.0.push(Listener {
                    protocol,
                    port,
                    socket: ListenerSocket::Streams(socket, DataAcceptor::default()),
                });
            }
        }
        Ok(strands)
    }

    /// Returns the maximum number of descriptors that the listeners hold, for all strands together.
    /// A UDP listener may also hold one closed connection: see [`Self::retire`].
    pub(crate) fn max_descriptors(group: &GroupSpec) -> u64 {
        let mut protocols: Vec<DataProtocol> = Vec::new();
        let mut count = 0;
        for (protocol, accept) in accept_flowops(group) {
            if !protocols.contains(&protocol) {
                let strands = u64::from(group.strands.count);
                count += match protocol {
                    // Each listener may also hold one retired connection.
                    DataProtocol::Udp => 2 * strands,
                    _ if accept.endpoint.port != 0 => 1,
                    _ => strands,
                };
                protocols.push(protocol);
            }
        }
        count
    }

    /// Returns the ports to report to a host whose control connection has this local address.
    pub(crate) fn ports(&self, local_address: Option<&Address>) -> SlaveInfo {
        let mut ports = SlaveInfo::default();
        // In reverse order, so that the first listener of a protocol determines the port.
        let listeners = self.0.iter().rev();
        for listener in listeners.filter(|listener| listener.serves_address(local_address)) {
            ports.set_port(listener.protocol, listener.port);
        }
        ports
    }

    /// Returns the descriptors of all listeners.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|listener| match &listener.socket {
            ListenerSocket::Streams(socket, _) => socket.as_fd(),
            ListenerSocket::Datagrams(listener) => listener.socket().as_fd(),
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find_listener(
        &mut self,
        protocol: DataProtocol,
        local_address: Option<&Address>,
    ) -> Option<&mut Listener> {
        let mut listeners = self.0.iter_mut();
        listeners.find(|listener| {
            listener.protocol == protocol && listener.serves_address(local_address)
        })
    }

    /// Moves the datagrams of an accepted UDP connection to its listener, before the connection is
    /// closed. They belong to the peer's next connection.
    pub(super) fn return_datagrams_to_listener(&self, connection: &Connection) {
        for listener in &self.0 {
            if let ListenerSocket::Datagrams(listener) = &listener.socket {
                listener.return_datagrams_to_listener(connection.socket());
            }
        }
    }

    /// Waits for a connection.
    ///
    /// A uperf data connection does not identify itself, and an additional byte would be part of
    /// the measured data. So [`server::DataPeer`] selects by source address. Only the first
    /// connection has a timeout. The master detects if a later one is missing.
    pub(super) fn accept(
        &mut self,
        request: &AcceptRequest<'_>,
        log: &mut Log,
    ) -> Result<Connection, Error> {
        let AcceptRequest { flowop, host, .. } = *request;
        let protocol = flowop.endpoint.protocol.ok_or(Error::PROTONOSUPPORT)?;
        let listener = self.find_listener(protocol, host.local_address.as_ref());
        let peer = DataPeer {
            policy: request.setup.policy.clone(),
            ..DataPeer::for_control_address(&host.address)
        };
        let accepted = match &mut listener.ok_or(Error::NOTCONN)?.socket {
            ListenerSocket::Streams(socket, acceptor) => {
                request.accept_stream(socket, acceptor, &peer, log)
            }
            ListenerSocket::Datagrams(listener) => request.accept_datagrams(listener, &peer, log),
        };
        accepted.map_err(|error| match error {
            Error::CANCELED => Error::INTR,
            other => other,
        })
    }
}

/// A request to accept one connection.
pub(super) struct AcceptRequest<'a> {
    pub(super) flowop: &'a Flowop,
    /// The expected peer.
    pub(super) host: &'a PeerHost,
    pub(super) setup: &'a GroupSetup,
    pub(super) barrier: &'a StartBarrier,
    pub(super) stop: &'a Stop,
}

impl AcceptRequest<'_> {
    fn accept_stream(
        &self,
        listener: &Socket,
        acceptor: &mut DataAcceptor,
        peer: &DataPeer<'_>,
        log: &mut Log,
    ) -> Result<Connection, Error> {
        let (is_first, is_reported) = (acceptor.is_first(), acceptor.first_refused().is_some());
        if is_first {
            self.barrier
                .record_event(BarrierEvent::SelectingFirstConnection);
        }
        let is_other_peer = |from: &Address| self.is_other_peer(from);
        let accepted = acceptor.accept(listener, peer, &is_other_peer, ACCEPT_TIMEOUT, self.stop);
        if is_first {
            self.barrier
                .record_event(BarrierEvent::SelectedFirstConnection);
        }
        if let Some(from) = acceptor.first_refused().filter(|_| !is_reported) {
            let action = "refused a data connection";
            log.warn_of_stranger(describe_stranger(action, from, peer.control));
        }
        let (socket, stranger) = accepted?;
        if let Some(from) = stranger {
            let action = "accepted a data connection";
            log.warn_of_stranger(describe_stranger(action, &from, peer.control));
        }
        Ok(Connection::Socket(socket.into()))
    }

    fn accept_datagrams(
        &self,
        listener: &DatagramListener,
        peer: &DataPeer<'_>,
        log: &mut Log,
    ) -> Result<Connection, Error> {
        let setup = self.setup;
        let handshake = listener.accept(&HandshakeRequest {
            options: &socket_options(self.flowop),
            peer,
            is_other_peer: &|from| self.is_other_peer(from),
            accepts_strangers: !setup.is_slave && !setup.policy.is_strict,
            run_budget: setup.run_budget.as_ref(),
            timeout: self.flowop.transfer.timeout,
            stop: self.stop,
        })?;
        match handshake {
            Handshake::Accepted(connection, None) => Ok(connection),
            Handshake::Accepted(connection, Some(from)) => {
                let action = "accepted a UDP handshake";
                log.warn_of_stranger(describe_stranger(action, &from, peer.control));
                Ok(connection)
            }
            Handshake::Refused(from) => {
                let text = describe_stranger("refused a UDP handshake", &from, peer.control);
                log.warn_of_stranger(format!("{text}; --allow-third-party accepts it"));
                Err(Error::TIMEDOUT)
            }
        }
    }

    /// Whether this is the address of another host of the group.
    fn is_other_peer(&self, from: &Address) -> bool {
        let hosts = self.setup.peers.0.iter();
        let mut others = hosts.filter(|other| !other.has_name(&self.host.name));
        others.any(|other| other.address.shares_host_with(from))
    }
}

fn describe_stranger(action: &str, from: &Address, control: &Address) -> String {
    let (from, control) = (host_text(from), host_text(control));
    format!("{action} from {from}: the control connection is with {control}")
}

/// Formats an address without its port.
fn host_text(address: &Address) -> String {
    match address.ip() {
        Some(ip) => ip.to_canonical().to_string(),
        None => address.with_any_port().to_string(),
    }
}

impl Listener {
    /// Opens a UDP listener for the peers whose control connections have this local address.
    fn for_datagrams(
        accept: &Flowop,
        local_address: Option<&Address>,
        group: &GroupSpec,
    ) -> io::Result<Self> {
        let bind = local_address.and_then(|address| address.with_port(accept.endpoint.port));
        let bind = bind.ok_or(Error::AFNOSUPPORT)?;
        let socket = open_datagram_listener(model::Transport::Udp, &bind, &socket_options(accept));
        let socket = socket.map_err(|error| to_io_error(&error))?;
        let listener = DatagramListener::new(socket, buffer_bytes(group) as usize)?;
        Ok(Self {
            protocol: DataProtocol::Udp,
            port: listener.address().port(),
            socket: ListenerSocket::Datagrams(listener),
        })
    }

    /// Whether the listener accepts from peers whose control connections have this local address.
    fn serves_address(&self, local_address: Option<&Address>) -> bool {
        match &self.socket {
            ListenerSocket::Streams(..) => true,
            ListenerSocket::Datagrams(listener) => {
                local_address.is_some_and(|address| listener.address().shares_host_with(address))
            }
        }
    }
}

/// Listens at the port that the flowop names, or at any port. A Unix domain socket gets a random
/// one.
fn listen_for_accept(accept: &Flowop, protocol: DataProtocol) -> io::Result<(u32, Arc<Socket>)> {
    let port = accept.endpoint.port;
    if protocol != DataProtocol::Unix || port != 0 {
        return listen(accept, protocol, port);
    }
    let mut random = SmallRng::from_os_rng();
    loop {
        match listen(accept, protocol, random.random_range(1..=u32::MAX)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            other => return other,
        }
    }
}

fn listen(accept: &Flowop, protocol: DataProtocol, port: u32) -> io::Result<(u32, Arc<Socket>)> {
    let open = |bind: &Address| open_socket(accept, bind);
    let any_address = addresses::any_address(protocol, port);
    let socket = match protocol {
        DataProtocol::Unix => open(&addresses::unix_address(port)),
        DataProtocol::Vsock => open(&any_address),
        // IPv6 sockets accept IPv4, too. A kernel without IPv6 has IPv4 only.
        _ => open(&Address::Inet((Ipv6Addr::UNSPECIFIED, port as u16).into()))
            .or_else(|_| open(&any_address)),
    }?;
    if protocol == DataProtocol::Vsock && port == 0 {
        // Unlike TCP, listen(2) on VSOCK does not bind an unbound socket.
        socket.bind(&any_address.to_kernel()?)?;
    }
    socket.listen(BACKLOG)?;
    // A socket that is bound to port 0 has its port only now.
    let port = match protocol {
        DataProtocol::Unix => port,
        _ => Address::local(&socket).map_or(0, |bound| bound.port()),
    };
    Ok((port, Arc::new(socket)))
}

/// Opens the connection of a connect.
pub(super) fn open_connection(
    flowop: &Flowop,
    target: &PeerHost,
    address: &Address,
    stop: &Stop,
) -> io::Result<Connection> {
    let protocol = flowop.endpoint.protocol.ok_or(Error::PROTONOSUPPORT)?;
    let any_address = match protocol {
        DataProtocol::Unix => addresses::any_address(protocol, 0),
        _ => address.with_any_host().with_any_port(),
    };
    let source_address = target.source_address.as_ref().map(Address::with_any_port);
    let bind = source_address
        .as_ref()
        .filter(|_| protocol == DataProtocol::Udp);
    let socket = open_socket(flowop, bind.unwrap_or(&any_address))?;
    if protocol != DataProtocol::Udp {
        let binds_to_one_address = matches!(
            protocol,
            DataProtocol::Tcp | DataProtocol::Ssl | DataProtocol::Mptcp
        );
        if let Some(from) = source_address.filter(|_| binds_to_one_address) {
            // An old kernel without this option chooses the port in bind(2), newer ones in
            // connect(2).
            let _ = sys::option::set_bind_address_no_port(socket.as_fd());
            socket.bind(&from.to_kernel()?)?;
        }
        connect(&socket, address, stop)?;
        return Ok(Connection::Socket(socket.into()));
    }
    if target.replies_from_any_address {
        let peer = KernelAddress::try_from(address)?;
        call::send_to(socket.as_fd(), HANDSHAKE, &peer)?;
        return Ok(Connection::Addressed(socket.into(), peer));
    }
    connect(&socket, address, stop)?;
    call::send(socket.as_fd(), HANDSHAKE)?;
    Ok(Connection::Socket(socket.into()))
}

/// Opens a socket with the options of a flowop. An error names the refused option.
pub(super) fn open_socket(flowop: &Flowop, bind: &Address) -> io::Result<Socket> {
    let protocol = flowop.endpoint.protocol;
    let transport = protocol.and_then(transport).ok_or(Error::PROTONOSUPPORT)?;
    let socket = open_data_socket(transport, bind, &socket_options(flowop), Role::Initiator)
        .map_err(|error| to_io_error(&error))?;
    if protocol == Some(DataProtocol::Sctp) {
        sctp::set_options(socket.as_fd(), flowop)?;
    }
    let name = &flowop.endpoint.congestion_control;
    if transport.has_tcp_options() && !name.is_empty() {
        // An algorithm that this kernel does not know is an error.
        let set = socket.set_tcp_congestion(name.as_bytes());
        with_option_name(set, || format!("cc={name}"))?;
    }
    Ok(socket)
}

fn to_io_error(error: &SocketError) -> io::Error {
    match error {
        SocketError::Missing { .. } => {
            io::Error::new(io::ErrorKind::Unsupported, error.to_string())
        }
        SocketError::Refused { .. } => io::Error::from_raw_os_error(error.errno()),
    }
}

/// Returns the socket options of a flowop: buffer sizes and the no-delay option.
fn socket_options(flowop: &Flowop) -> SocketOptions {
    let window = u32::try_from(flowop.endpoint.window).ok();
    let window = window.filter(|bytes| *bytes > 0);
    SocketOptions {
        send_buffer_bytes: window,
        receive_buffer_bytes: window,
        no_delay: flowop.flags.has(match flowop.endpoint.protocol {
            Some(DataProtocol::Sctp) => FlowopFlags::SCTP_NO_DELAY,
            _ => FlowopFlags::NO_DELAY,
        }),
        ..SocketOptions::default()
    }
}

/// Adds the name of the option to an error.
pub(super) fn with_option_name<T>(
    result: io::Result<T>,
    option: impl FnOnce() -> String,
) -> io::Result<T> {
    let text = |error: io::Error| format!("{}: {}", option(), sys::describe(&error));
    result.map_err(|error| io::Error::new(error.kind(), text(error)))
}

fn connect(socket: &Socket, target: &Address, stop: &Stop) -> Result<(), Error> {
    engine::connect(socket, target, stop).map_err(|error| match error {
        ConnectError::Stopped(_) => Error::INTR,
        ConnectError::Failed(error) => Error::from_io_error(&error).unwrap_or(Error::INVAL),
    })
}
