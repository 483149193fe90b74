//! Where connections come from and go to: listeners of this end, ports of the others.

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use engine::script::Connection;
use engine::{
    BarrierEvent, ConnectError, Role, SocketError, StartBarrier, Stop, data_socket,
    datagram_listener,
};
use model::SocketOptions;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use server::{DataPeer, Door};
use sys::call::{self, Error, Peer};
use sys::{Address, Socket};

use super::compile::transport;
use super::datagrams::{Call, DatagramListener, HANDSHAKE, Handshake};
use super::{GroupSetup, Log, reach, sctp};
use crate::profile::memory::buffer_bytes;
use crate::wire::SlaveInfo;
use crate::workorder::{Flags, Flowop, Group, Kind, Protocol};
use control::ControlConnection;

/// How long an accept waits for its connection; uperf's.
pub(super) const ACCEPT_PATIENCE: Duration = Duration::from_secs(10);

/// Connections that may wait for their accept; uperf's number, which the kernel lowers to its own.
const BACKLOG: i32 = 10_240;

/// The ends that connects of a group go to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers(Vec<PeerHost>);

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct PeerHost {
    /// As flowops name it.
    pub(crate) name: String,
    /// The other end of its control connection; the port is not looked at.
    pub(crate) address: Address,
    /// Where it reaches this end: this end of its control connection.
    pub(crate) here: Option<Address>,
    /// The same, if what goes there leaves from another address of this end.
    from: Option<Address>,
    /// What it listens at, a strand each.
    pub(crate) ports: Arc<[SlaveInfo]>,
    /// Its datagrams may come from another of its addresses than that which it is reached at: a stock
    /// slave sends them from whichever the route says.
    pub(crate) answers_from_anywhere: bool,
}

/// What one strand's accepts listen with.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Vec<Listener>);

/// One of them.
#[derive(Debug)]
struct Listener {
    protocol: Protocol,
    port: u32,
    ear: Ear,
}

#[derive(Debug)]
enum Ear {
    /// The strands may share it.
    Streams(Arc<Socket>, Door),
    /// For those who reach this end at its address.
    Datagrams(DatagramListener),
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

impl Peers {
    /// The one host, under each of these names.
    pub(crate) fn of_one(host: &PeerHost, mut names: Vec<&str>) -> Self {
        names.sort_unstable();
        names.dedup();
        let hosts = names.into_iter().map(|name| PeerHost {
            name: name.to_owned(),
            ..host.clone()
        });
        Self(hosts.collect())
    }

    /// Adds one; a later one of the same name replaces it.
    pub(crate) fn add(&mut self, host: PeerHost) {
        self.0.retain(|other| !other.is(&host.name));
        self.0.push(host);
    }

    /// The one of this name.
    pub(super) fn host(&self, name: &str) -> Option<&PeerHost> {
        self.0.iter().find(|host| host.is(name))
    }

    /// Where a strand's connect goes: the host, and its listener.
    pub(super) fn target(
        &self,
        name: &str,
        strand: usize,
        protocol: Protocol,
    ) -> Option<(&PeerHost, Address)> {
        let host = self.host(name)?;
        let port = host.ports.get(strand)?.port(protocol)?;
        Some((host, reach::place(protocol, &host.address, port)?))
    }
}

impl PeerHost {
    /// The other end of this control connection, which listens at these ports.
    pub(crate) fn new(name: &str, control: &ControlConnection, ports: Arc<[SlaveInfo]>) -> Self {
        let (address, here) = (control.peer().clone(), control.here());
        Self {
            name: name.to_owned(),
            from: here
                .clone()
                .filter(|here| !reach::leaves_from(here, &address)),
            address,
            here,
            ports,
            answers_from_anywhere: true,
        }
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// The accepts of a group, each with its protocol.
fn accepts(group: &Group) -> impl Iterator<Item = (Protocol, &Flowop)> {
    let accepts = group
        .openings()
        .filter(|flowop| flowop.kind == Kind::Accept);
    accepts.filter_map(|accept| Some((accept.endpoint.protocol?, accept)))
}

impl Listeners {
    /// Opens what the accepts of a group need: a listener per strand and protocol, or one for all strands if the
    /// profile names a port. Returns the listeners of each strand, in their order.
    ///
    /// `here` says where a host reaches this end. Datagrams are received there and leave from there, and not from
    /// whichever address the route says.
    pub(crate) fn open(
        group: &Group,
        here: impl Fn(&str) -> Option<Address>,
    ) -> Result<Vec<Self>, ListenError> {
        let mut all: Vec<Self> = Vec::new();
        all.resize_with(group.strands.count as usize, Self::default);
        for (protocol, accept) in accepts(group) {
            let here = here(&accept.endpoint.remote_host);
            let first = all.first_mut();
            if first.is_none_or(|first| first.of(protocol, here.as_ref()).is_some()) {
                continue;
            }
            let refused = |error| ListenError {
                protocol,
                port: accept.endpoint.port,
                error,
            };
            if protocol == Protocol::Udp {
                for strand in &mut all {
                    let listener = Listener::of_datagrams(accept, here.as_ref(), group);
                    strand.0.push(listener.map_err(refused)?);
                }
                continue;
            }
            let mut shared: Option<(u32, Arc<Socket>)> = None;
            for strand in &mut all {
                let (port, socket) = match &shared {
                    Some(shared) => shared.clone(),
                    None => listen_at_any(accept, protocol).map_err(refused)?,
                };
                if accept.endpoint.port != 0 {
                    shared = Some((port, Arc::clone(&socket)));
                }
                strand.0.push(Listener {
                    protocol,
                    port,
                    ear: Ear::Streams(socket, Door::default()),
                });
            }
        }
        Ok(all)
    }

    /// How many sockets there are of [`Self::open`], all strands' together.
    pub(crate) fn count(group: &Group) -> u64 {
        let mut protocols: Vec<Protocol> = Vec::new();
        let mut count = 0;
        for (protocol, accept) in accepts(group) {
            if !protocols.contains(&protocol) {
                let strands = u64::from(group.strands.count);
                count += match protocol {
                    // Beside a listener there is the connection that it has taken back.
                    Protocol::Udp => 2 * strands,
                    _ if accept.endpoint.port != 0 => 1,
                    _ => strands,
                };
                protocols.push(protocol);
            }
        }
        count
    }

    /// What the end is told that reaches this one here.
    pub(crate) fn ports(&self, here: Option<&Address>) -> SlaveInfo {
        let mut ports = SlaveInfo::default();
        // The first of a protocol is in force.
        let listeners = self.0.iter().rev();
        for listener in listeners.filter(|listener| listener.is_at(here)) {
            ports.set_port(listener.protocol, listener.port);
        }
        ports
    }

    /// The sockets.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|listener| match &listener.ear {
            Ear::Streams(socket, _) => socket.as_fd(),
            Ear::Datagrams(listener) => listener.socket().as_fd(),
        })
    }

    /// Whether it listens for nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of(&mut self, protocol: Protocol, here: Option<&Address>) -> Option<&mut Listener> {
        let mut listeners = self.0.iter_mut();
        listeners.find(|listener| listener.protocol == protocol && listener.is_at(here))
    }

    /// Before a connection is closed: if it was accepted here, its peer's next one may have begun on it.
    pub(super) fn take_back(&self, connection: &Connection) {
        for listener in &self.0 {
            if let Ear::Datagrams(listener) = &listener.ear {
                listener.take_back(connection.socket());
            }
        }
    }

    /// Waits for a connection.
    ///
    /// uperf's protocol has no word that a connection could begin with to prove whose it is, and a byte more would
    /// be part of what is measured. So its address decides: [`server::DataPeer`]. The first one must come in time;
    /// whether the others do, who leads the run sees.
    pub(super) fn accept(
        &mut self,
        call: &Acceptance<'_>,
        log: &mut Log,
    ) -> Result<Connection, Error> {
        let Acceptance { flowop, host, .. } = *call;
        let protocol = flowop.endpoint.protocol.ok_or(Error::PROTONOSUPPORT)?;
        let listener = self.of(protocol, host.here.as_ref());
        let peer = DataPeer {
            policy: call.setup.policy,
            ..DataPeer::of(&host.address)
        };
        let accepted = match &mut listener.ok_or(Error::NOTCONN)?.ear {
            Ear::Streams(socket, door) => call.stream(socket, door, &peer, log),
            Ear::Datagrams(listener) => call.datagrams(listener, &peer, log),
        };
        accepted.map_err(|error| match error {
            Error::CANCELED => Error::INTR,
            other => other,
        })
    }
}

/// What a strand is to accept.
pub(super) struct Acceptance<'a> {
    pub(super) flowop: &'a Flowop,
    /// Whose connection it is to be.
    pub(super) host: &'a PeerHost,
    pub(super) setup: &'a GroupSetup,
    pub(super) barrier: &'a StartBarrier,
    pub(super) stop: &'a Stop,
}

impl Acceptance<'_> {
    fn stream(
        &self,
        listener: &Socket,
        door: &mut Door,
        peer: &DataPeer<'_>,
        log: &mut Log,
    ) -> Result<Connection, Error> {
        let (is_first, known) = (door.is_first(), door.refused().is_some());
        if is_first {
            self.barrier.report(BarrierEvent::Selecting);
        }
        let others = |from: &Address| self.is_of_another(from);
        let accepted = door.accept(listener, peer, &others, ACCEPT_PATIENCE, self.stop);
        if is_first {
            self.barrier.report(BarrierEvent::Selected);
        }
        if let Some(from) = door.refused().filter(|_| !known) {
            let what = "refused a data connection";
            log.stranger(of_stranger(what, from, peer.control));
        }
        let (socket, stranger) = accepted?;
        if let Some(from) = stranger {
            let what = "accepted a data connection";
            log.stranger(of_stranger(what, &from, peer.control));
        }
        Ok(Connection::Socket(socket.into()))
    }

    fn datagrams(
        &self,
        listener: &DatagramListener,
        peer: &DataPeer<'_>,
        log: &mut Log,
    ) -> Result<Connection, Error> {
        let setup = self.setup;
        let handshake = listener.accept(&Call {
            options: &options(self.flowop),
            peer,
            others: &|from| self.is_of_another(from),
            takes_strangers: !setup.follows && !setup.policy.strict,
            account: setup.account.as_ref(),
            patience: self.flowop.transfer.patience,
            stop: self.stop,
        })?;
        match handshake {
            Handshake::Accepted(connection, None) => Ok(connection),
            Handshake::Accepted(connection, Some(from)) => {
                let what = "accepted a UDP handshake";
                log.stranger(of_stranger(what, &from, peer.control));
                Ok(connection)
            }
            Handshake::Refused(from) => {
                let what = of_stranger("refused a UDP handshake", &from, peer.control);
                log.stranger(format!("{what} (--allow-third-party)"));
                Err(Error::TIMEDOUT)
            }
        }
    }

    /// Whether this is where another host of the group comes from.
    fn is_of_another(&self, from: &Address) -> bool {
        let hosts = self.setup.peers.0.iter();
        let mut others = hosts.filter(|other| !other.is(&self.host.name));
        others.any(|other| other.address.shares_host_with(from))
    }
}

fn of_stranger(what: &str, from: &Address, control: &Address) -> String {
    let (from, control) = (host(from), host(control));
    format!("{what} from {from}: the control connection is with {control}")
}

/// An address without its port.
fn host(address: &Address) -> String {
    match address.ip() {
        Some(ip) => ip.to_canonical().to_string(),
        None => address.with_any_port().to_string(),
    }
}

impl Listener {
    /// A listener for datagrams of who reaches this end here.
    fn of_datagrams(accept: &Flowop, here: Option<&Address>, group: &Group) -> io::Result<Self> {
        let bind = here.and_then(|here| here.with_port(accept.endpoint.port));
        let bind = bind.ok_or(Error::AFNOSUPPORT)?;
        let socket = datagram_listener(model::Transport::Udp, &bind, &options(accept));
        let socket = socket.map_err(|error| of_kernel(&error))?;
        let listener = DatagramListener::new(socket, buffer_bytes(group) as usize)?;
        Ok(Self {
            protocol: Protocol::Udp,
            port: listener.address().port(),
            ear: Ear::Datagrams(listener),
        })
    }

    /// Whether it is for who reaches this end here.
    fn is_at(&self, here: Option<&Address>) -> bool {
        match &self.ear {
            Ear::Streams(..) => true,
            Ear::Datagrams(listener) => {
                here.is_some_and(|here| listener.address().shares_host_with(here))
            }
        }
    }
}

/// Listens at the port that the flowop names, or at any: of Unix domain sockets chance has to find one.
fn listen_at_any(accept: &Flowop, protocol: Protocol) -> io::Result<(u32, Arc<Socket>)> {
    let port = accept.endpoint.port;
    if protocol != Protocol::Unix || port != 0 {
        return listen(accept, protocol, port);
    }
    let mut random = SmallRng::from_os_rng();
    loop {
        match listen(accept, protocol, random.random_range(1..=u32::MAX)) {
            Err(taken) if taken.kind() == io::ErrorKind::AddrInUse => {}
            other => return other,
        }
    }
}

fn listen(accept: &Flowop, protocol: Protocol, port: u32) -> io::Result<(u32, Arc<Socket>)> {
    let open = |bind: &Address| unconnected(accept, bind);
    let anywhere = reach::anywhere(protocol, port);
    let socket = match protocol {
        Protocol::Unix => open(&reach::unix_place(port)),
        Protocol::Vsock => open(&anywhere),
        // Both families; a kernel without IPv6 has the one.
        _ => open(&Address::Inet((Ipv6Addr::UNSPECIFIED, port as u16).into()))
            .or_else(|_| open(&anywhere)),
    }?;
    if protocol == Protocol::Vsock && port == 0 {
        // It has no port by itself when it listens, as those of the Internet have.
        socket.bind(&anywhere.to_kernel()?)?;
    }
    socket.listen(BACKLOG)?;
    // What is bound to any port has one only now.
    let port = match protocol {
        Protocol::Unix => port,
        _ => Address::of(&socket).map_or(0, |bound| bound.port()),
    };
    Ok((port, Arc::new(socket)))
}

/// Opens the connection that a connect asks for.
pub(super) fn open(
    flowop: &Flowop,
    target: &PeerHost,
    address: &Address,
    stop: &Stop,
) -> io::Result<Connection> {
    let protocol = flowop.endpoint.protocol.ok_or(Error::PROTONOSUPPORT)?;
    let anywhere = match protocol {
        Protocol::Unix => reach::anywhere(protocol, 0),
        _ => address.anywhere().with_any_port(),
    };
    let from = target.from.as_ref().map(Address::with_any_port);
    let bind = from.as_ref().filter(|_| protocol == Protocol::Udp);
    let socket = unconnected(flowop, bind.unwrap_or(&anywhere))?;
    if protocol != Protocol::Udp {
        let has_one_address = matches!(protocol, Protocol::Tcp | Protocol::Ssl | Protocol::Mptcp);
        if let Some(from) = from.filter(|_| has_one_address) {
            // An old kernel chooses the port at once, others when it connects.
            let _ = sys::option::set_late_port(socket.as_fd());
            socket.bind(&from.to_kernel()?)?;
        }
        connect(&socket, address, stop)?;
        return Ok(Connection::Socket(socket.into()));
    }
    if target.answers_from_anywhere {
        let peer = Peer::try_from(address)?;
        call::send_to(socket.as_fd(), HANDSHAKE, &peer)?;
        return Ok(Connection::Addressed(socket.into(), peer));
    }
    connect(&socket, address, stop)?;
    call::send(socket.as_fd(), HANDSHAKE)?;
    Ok(Connection::Socket(socket.into()))
}

/// A socket as a flowop asks for it. Of an option that is refused the error says which.
pub(super) fn unconnected(flowop: &Flowop, bind: &Address) -> io::Result<Socket> {
    let protocol = flowop.endpoint.protocol;
    let transport = protocol.and_then(transport).ok_or(Error::PROTONOSUPPORT)?;
    let socket = data_socket(transport, bind, &options(flowop), Role::Initiator)
        .map_err(|error| of_kernel(&error))?;
    if protocol == Some(Protocol::Sctp) {
        sctp::prepare(socket.as_fd(), flowop)?;
    }
    let name = &flowop.endpoint.congestion_control;
    if transport.has_tcp_options() && !name.is_empty() {
        // A name that this kernel does not know is an error.
        let set = socket.set_tcp_congestion(name.as_bytes());
        named(set, || format!("cc={name}"))?;
    }
    Ok(socket)
}

fn of_kernel(error: &SocketError) -> io::Error {
    match error {
        SocketError::Missing { .. } => {
            io::Error::new(io::ErrorKind::Unsupported, error.to_string())
        }
        SocketError::Refused { .. } => io::Error::from_raw_os_error(error.errno()),
    }
}

/// SO_SNDBUF, SO_RCVBUF and the rest, as a flowop asks.
fn options(flowop: &Flowop) -> SocketOptions {
    let window = u32::try_from(flowop.endpoint.window).ok();
    let window = window.filter(|bytes| *bytes > 0);
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

/// Has an error say which option it is of.
pub(super) fn named<T>(result: io::Result<T>, what: impl FnOnce() -> String) -> io::Result<T> {
    let of = |error: io::Error| format!("{}: {}", what(), sys::describe(&error));
    result.map_err(|error| io::Error::new(error.kind(), of(error)))
}

fn connect(socket: &Socket, target: &Address, stop: &Stop) -> Result<(), Error> {
    engine::connect(socket, target, stop).map_err(|error| match error {
        ConnectError::Stopped(_) => Error::INTR,
        ConnectError::Failed(error) => Error::from_io_error(&error).unwrap_or(Error::INVAL),
    })
}
