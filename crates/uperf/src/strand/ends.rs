//! Where connections come from and go to: listeners of this end, ports of the others.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::script::Line;
use engine::{Role, SocketError, Stop, data_socket};
use model::SocketOptions;
use socket2::{SockRef, Type};
use sys::call::{self, Error, Peer};
use sys::{Address, Socket};

use super::compile::transport;
use super::{reach, sctp};
use crate::wire::SlaveInfo;
use crate::workorder::{Endpoint, Flags, Flowop, Group, Kind, Protocol};

/// How long an accept waits for its connection; uperf's.
const ACCEPT_PATIENCE: Duration = Duration::from_secs(10);

/// The first datagram of a UDP "connection".
const UDP_HANDSHAKE: &[u8] = b"uperf udp handshake";

/// Connections that may wait for their accept; uperf's number, which the kernel lowers to its own.
const BACKLOG: i32 = 10_240;

/// Ports of one strand's listeners, by protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ports(Vec<(Protocol, u32)>);

/// The ends that connects of a group go to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers(Vec<PeerHost>);

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct PeerHost {
    /// As flowops name it.
    pub(crate) name: String,
    /// Where it is; the port is not looked at.
    pub(crate) address: Address,
    /// What it listens at, a strand each.
    pub(crate) ports: Vec<Ports>,
    /// Its datagrams may come from another of its addresses than that which it is reached at: a stock
    /// slave sends them from whichever the route says.
    pub(crate) answers_from_anywhere: bool,
}

/// Where a connect goes.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) address: Address,
    answers_from_anywhere: bool,
}

/// What one strand's accepts listen with.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Vec<Listener>);

/// One of them.
#[derive(Clone, Debug)]
struct Listener {
    protocol: Protocol,
    port: u32,
    socket: Arc<Socket>,
}

/// A listener that could not be had.
#[derive(Debug, thiserror::Error)]
#[error(
    "could not listen for {protocol} at port {port}: {}",
    sys::describe(error)
)]
pub(crate) struct ListenError {
    /// What was to be accepted.
    pub(crate) protocol: Protocol,
    /// 0 for any port.
    pub(crate) port: u32,
    /// Why not.
    pub(crate) error: io::Error,
}

impl Ports {
    /// Adds a protocol's port; the first of a protocol is in force.
    pub(crate) fn add(&mut self, protocol: Protocol, port: u32) {
        if self.of(protocol).is_none() {
            self.0.push((protocol, port));
        }
    }

    /// The port of a protocol.
    pub(crate) fn of(&self, protocol: Protocol) -> Option<u32> {
        let found = self.0.iter().find(|(other, _)| *other == protocol);
        found.map(|(_, port)| *port)
    }
}

impl Ports {
    /// What the other end has told of one of its strands.
    pub(crate) fn of_info(info: &SlaveInfo) -> Self {
        let mut ports = Self::default();
        for protocol in Protocol::ALL {
            if let Some(port) = info.port(protocol) {
                ports.add(protocol, port);
            }
        }
        ports
    }

    /// What the other end is told.
    pub(crate) fn info(&self) -> SlaveInfo {
        let mut info = SlaveInfo::default();
        for (protocol, port) in &self.0 {
            info.set_port(*protocol, *port);
        }
        info
    }
}

impl Peers {
    /// Adds one; a later one of the same name replaces it.
    pub(crate) fn add(&mut self, host: PeerHost) {
        self.0.retain(|other| !other.is(&host.name));
        self.0.push(host);
    }

    /// Where a strand's connect goes.
    pub(super) fn target(&self, name: &str, strand: usize, protocol: Protocol) -> Option<Target> {
        let host = self.0.iter().find(|host| host.is(name))?;
        let port = host.ports.get(strand)?.of(protocol)?;
        Some(Target {
            address: reach::place(protocol, &host.address, port)?,
            answers_from_anywhere: host.answers_from_anywhere,
        })
    }
}

impl PeerHost {
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

impl Listeners {
    /// Opens what the accepts of a group need: a listener a strand and protocol, or, where the profile
    /// names a port, one for all strands. The strands' listeners, in their order.
    ///
    /// `here` is where the other end reaches this one, if there is one such address: datagrams leave
    /// from it then, and not from whichever the route says.
    pub(crate) fn open(group: &Group, here: Option<&Address>) -> Result<Vec<Self>, ListenError> {
        let mut all: Vec<Self> = Vec::new();
        all.resize_with(group.strands.count as usize, Self::default);
        let accepts = group.transactions.iter().flat_map(|txn| &txn.flowops);
        for accept in accepts.filter(|flowop| flowop.kind == Kind::Accept) {
            let Some(protocol) = accept.endpoint.protocol else {
                continue;
            };
            if all.first().is_none_or(|first| first.of(protocol).is_some()) {
                continue;
            }
            let mut shared: Option<Listener> = None;
            for strand in &mut all {
                let listener = match &shared {
                    Some(listener) => listener.clone(),
                    None => Listener::open_at_any(accept, protocol, here)?,
                };
                if accept.endpoint.port != 0 && protocol != Protocol::Udp {
                    shared = Some(listener.clone());
                }
                strand.0.push(listener);
            }
        }
        Ok(all)
    }

    /// What the other end is told.
    pub(crate) fn ports(&self) -> Ports {
        let mut ports = Ports::default();
        for listener in &self.0 {
            ports.add(listener.protocol, listener.port);
        }
        ports
    }

    /// The sockets.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|listener| listener.socket.as_fd())
    }

    /// Whether it listens for nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, protocol: Protocol) -> bool {
        self.of(protocol).is_some()
    }

    fn of(&self, protocol: Protocol) -> Option<&Listener> {
        self.0.iter().find(|listener| listener.protocol == protocol)
    }

    /// Waits for a connection. Of UDP it is the listener itself, from then on its sender's alone.
    ///
    /// The first one must come in time. Whether the others do, who leads the run sees.
    pub(super) fn accept(
        &self,
        flowop: &Flowop,
        is_first: bool,
        stop: &Stop,
    ) -> Result<Socket, Error> {
        let protocol = flowop.endpoint.protocol.ok_or(Error::PROTONOSUPPORT)?;
        let listener = self.of(protocol).ok_or(Error::NOTCONN)?;
        let patience = match protocol {
            Protocol::Udp => flowop.timeout.unwrap_or(Duration::MAX),
            _ => ACCEPT_PATIENCE,
        };
        let socket = &listener.socket;
        if is_first || protocol == Protocol::Udp {
            readable(socket, patience, stop)?;
        }
        if protocol != Protocol::Udp {
            return accept_until(socket, stop);
        }
        let mut greeting = [0; UDP_HANDSHAKE.len() + 1];
        let sender = call::next_source(socket.as_fd())?;
        let length = call::receive(socket.as_fd(), &mut greeting)?;
        if &greeting[..length] != UDP_HANDSHAKE {
            return Err(Error::PROTO);
        }
        let sender = sender.ok_or(Error::DESTADDRREQ)?;
        let own = socket.try_clone().map_err(|error| errno(&error))?;
        connect(&own, &sender, stop)?;
        Ok(own)
    }
}

fn accept_until(socket: &Socket, stop: &Stop) -> Result<Socket, Error> {
    loop {
        match call::accept(socket.as_fd()) {
            Err(Error::INTR) if !stop.is_set() => {}
            accepted => return accepted.map(Socket::from),
        }
    }
}

impl Listener {
    /// At the port that the flowop names, or at any: of Unix domain sockets chance has to find one.
    fn open_at_any(
        accept: &Flowop,
        protocol: Protocol,
        here: Option<&Address>,
    ) -> Result<Self, ListenError> {
        let port = accept.endpoint.port;
        if protocol != Protocol::Unix || port != 0 {
            return Self::open(accept, protocol, port, here);
        }
        loop {
            let port = rand::random_range(1..=u32::MAX);
            match Self::open(accept, protocol, port, here) {
                Err(taken) if taken.error.kind() == io::ErrorKind::AddrInUse => {}
                other => return other,
            }
        }
    }

    fn open(
        accept: &Flowop,
        protocol: Protocol,
        port: u32,
        here: Option<&Address>,
    ) -> Result<Self, ListenError> {
        let refused = |error| ListenError {
            protocol,
            port,
            error,
        };
        let open = |bind: &Address| unconnected(accept, bind);
        let anywhere = |ip: IpAddr| Address::Inet(SocketAddr::new(ip, port as u16));
        let here = here.filter(|_| protocol == Protocol::Udp);
        let socket = match protocol {
            Protocol::Udp if here.is_some() => {
                let here = here.and_then(|here| here.with_port(port));
                open(&here.ok_or_else(|| refused(Error::AFNOSUPPORT.into()))?)
            }
            Protocol::Unix => open(&reach::unix_place(port)),
            Protocol::Vsock => open(&Address::Vsock {
                context: Address::ANY_CONTEXT,
                port,
            }),
            // Both families; a kernel without IPv6 has the one.
            _ => open(&anywhere(Ipv6Addr::UNSPECIFIED.into()))
                .or_else(|_| open(&anywhere(Ipv4Addr::UNSPECIFIED.into()))),
        };
        let socket = socket.map_err(refused)?;
        if protocol == Protocol::Vsock && port == 0 {
            reach::bind_to_any_port(&socket).map_err(refused)?;
        }
        if protocol != Protocol::Udp {
            socket.listen(BACKLOG).map_err(refused)?;
        }
        // What is bound to any port has one only now.
        let port = match protocol {
            Protocol::Unix => port,
            _ => Address::of(&socket).map_or(0, |bound| bound.port()),
        };
        Ok(Self {
            protocol,
            port,
            socket: Arc::new(socket),
        })
    }
}

/// Opens the connection that a connect asks for.
pub(super) fn open(flowop: &Flowop, target: &Target, stop: &Stop) -> Result<Line, Error> {
    let protocol = flowop.endpoint.protocol.ok_or(Error::PROTONOSUPPORT)?;
    let address = &target.address;
    let anywhere = match protocol {
        Protocol::Unix => Address::Unix(PathBuf::new()),
        _ => address.anywhere().with_any_port(),
    };
    let socket = unconnected(flowop, &anywhere).map_err(|error| errno(&error))?;
    if protocol != Protocol::Udp {
        connect(&socket, address, stop)?;
        return Ok(Line::Socket(socket.into()));
    }
    if target.answers_from_anywhere {
        let peer = Peer::try_from(address).map_err(|error| errno(&error))?;
        call::send_to(socket.as_fd(), UDP_HANDSHAKE, &peer)?;
        return Ok(Line::Addressed(socket.into(), peer));
    }
    connect(&socket, address, stop)?;
    call::send(socket.as_fd(), UDP_HANDSHAKE)?;
    Ok(Line::Socket(socket.into()))
}

/// A datagram socket that is nobody's again takes the next one's greeting.
pub(super) fn let_go(socket: &impl AsFd) {
    let kind = SockRef::from(socket).r#type();
    if kind.is_ok_and(|kind| kind == Type::DGRAM) {
        let _ = call::disconnect_datagrams(socket.as_fd());
    }
}

/// A socket as a flowop asks for it. Of an option that is refused the error says which.
pub(super) fn unconnected(flowop: &Flowop, bind: &Address) -> io::Result<Socket> {
    let protocol = flowop.endpoint.protocol;
    let transport = protocol.and_then(transport).ok_or(Error::PROTONOSUPPORT)?;
    let socket = data_socket(transport, bind, &options(flowop), Role::Initiator).map_err(
        |error| match error {
            SocketError::Missing { .. } => {
                io::Error::new(io::ErrorKind::Unsupported, error.to_string())
            }
            SocketError::Refused { .. } => io::Error::from_raw_os_error(error.errno()),
        },
    )?;
    if protocol == Some(Protocol::Sctp) {
        sctp::prepare(socket.as_fd(), flowop)?;
    }
    choose_congestion_control(&socket, flowop)?;
    Ok(socket)
}

/// SO_SNDBUF, SO_RCVBUF and the rest, as a flowop asks.
fn options(flowop: &Flowop) -> SocketOptions {
    let window = u32::try_from(flowop.endpoint.window)
        .ok()
        .filter(|bytes| *bytes > 0);
    SocketOptions {
        send_buffer_bytes: window,
        receive_buffer_bytes: window,
        no_delay: flowop.flags.has(match flowop.endpoint.protocol {
            Some(Protocol::Sctp) => Flags::SCTP_NO_DELAY,
            _ => Flags::NO_DELAY,
        }),
        ..SocketOptions::default()
    }
}

/// `cc=`, of TCP; a name that this kernel does not know is an error.
fn choose_congestion_control(socket: &Socket, flowop: &Flowop) -> io::Result<()> {
    let Endpoint {
        congestion_control: name,
        protocol,
        ..
    } = &flowop.endpoint;
    let is_tcp = protocol
        .and_then(transport)
        .is_some_and(model::Transport::has_tcp_options);
    if name.is_empty() || !is_tcp {
        return Ok(());
    }
    let set = socket.set_tcp_congestion(name.as_bytes());
    set.map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("cc={name}: {}", sys::describe(&error)),
        )
    })
}

fn connect(socket: &Socket, target: &Address, stop: &Stop) -> Result<(), Error> {
    match engine::connect(socket, target, stop) {
        None => Ok(()),
        Some(ran) => Err(ran
            .failure
            .map_or(Error::INTR, |(_, errno)| Error::from_raw_os_error(errno))),
    }
}

fn readable(socket: &Socket, patience: Duration, stop: &Stop) -> Result<(), Error> {
    let until = std::time::Instant::now().checked_add(patience);
    loop {
        let left = until.map_or(Duration::MAX, |until| {
            until.saturating_duration_since(std::time::Instant::now())
        });
        match call::wait_readable(socket.as_fd(), left) {
            Ok(true) => return Ok(()),
            Ok(false) => return Err(Error::TIMEDOUT),
            Err(Error::INTR) if !stop.is_set() => {}
            Err(error) => return Err(error),
        }
    }
}

fn errno(error: &io::Error) -> Error {
    Error::from_io_error(error).unwrap_or(Error::INVAL)
}
