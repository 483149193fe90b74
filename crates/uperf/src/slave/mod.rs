//! The slave: does the other half of what its masters' profiles say.

mod files;
mod permit;
mod room;
mod session;

pub use files::Shelf;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Holder, Reason, Role, Stop, data_socket, keeper};
use model::{SocketOptions, Transport};
use server::{Permissions, Policy};
use sys::call::{self, Error};
use sys::{Address, Socket};

use crate::options::Network;
use crate::strand::bind_to_any_port;
use crate::tls::Security;
use crate::{Protocol, WorkLimits};
use control::ControlConnection;

use room::Room;

/// What a session's own calls need.
const STACK: usize = 256 * 1024;

/// How many control connections may wait to be accepted.
const BACKLOG: i32 = 128;

/// How long the listener waits before it looks at its stop again, should a wake-up be lost.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// What a slave lets be done.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Bounds of each workorder; strands and memory are those of all masters together.
    pub limits: WorkLimits,
    /// The longest silence of a master before its run begins.
    pub control_idle: Option<Duration>,
    /// Where masters may come from; empty is everywhere.
    pub peers: Vec<Network>,
    /// What a master may have sent to it; nothing by default.
    pub shelf: Arc<Shelf>,
    /// What a workorder may change on this host.
    pub permissions: Permissions,
    /// Control connections at a time; 0 for as many as come.
    pub masters: usize,
    /// Connections, listeners and files of one master at a time.
    pub connections: u64,
    /// Whose data a run takes, and where its datagrams go.
    pub policy: Policy,
    /// `--drain-on-exit`: how long runs may go on when the slave is stopped.
    pub drain: Duration,
    /// Ends them before that.
    pub end: Stop,
    /// Says on stdout what happens.
    pub verbose: bool,
    /// What its TLS connections are made with.
    pub tls: Arc<Security>,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            limits: WorkLimits::default(),
            control_idle: None,
            peers: Vec::new(),
            shelf: Arc::default(),
            masters: 0,
            connections: 32_768,
            permissions: Permissions::default(),
            policy: Policy::default(),
            drain: Duration::ZERO,
            end: Stop::new(),
            verbose: false,
            tls: Arc::default(),
        }
    }
}

/// A slave that listens.
#[derive(Debug)]
pub struct Slave {
    listener: Socket,
    terms: Arc<Terms>,
    stop: Stop,
    room: Arc<Room>,
}

impl Slave {
    /// Listens at a control port, 0 for any, until `stop` is pulled.
    pub fn listen(control: Protocol, port: u32, terms: Terms, stop: Stop) -> io::Result<Self> {
        // Before the first session: threads inherit what they are bound to.
        let _ = keeper();
        sys::process::keep_little_freed_memory();
        let listener = match control {
            Protocol::Vsock => open(
                Transport::Vsock,
                &Address::Vsock {
                    context: Address::ANY_CONTEXT,
                    port,
                },
            )?,
            Protocol::Tcp => anywhere(Transport::Tcp, port)?,
            Protocol::Sctp => anywhere(Transport::Sctp, port)?,
            _ => return Err(Error::PROTONOSUPPORT.into()),
        };
        if control == Protocol::Vsock && port == 0 {
            bind_to_any_port(&listener)?;
        }
        listener.listen(BACKLOG)?;
        Ok(Self {
            listener,
            room: Arc::new(Room::new(&terms)),
            terms: Arc::new(terms),
            stop,
        })
    }

    /// Where it listens.
    pub fn port(&self) -> io::Result<u32> {
        Ok(Address::of(&self.listener)?.port())
    }

    /// Serves masters, each on a thread of its own, until the stop is pulled. Runs may then go on for as long as the
    /// terms say.
    pub fn serve(&self) -> io::Result<()> {
        let _attending = self.stop.attend();
        let mut sessions = Vec::new();
        while !self.stop.is_set() {
            match call::wait_readable(self.listener.as_fd(), LOOK_AGAIN) {
                Ok(true) => {}
                Ok(false) | Err(Error::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            match call::accept(self.listener.as_fd()) {
                Ok(connection) => sessions.extend(self.begin(connection.into())),
                Err(Error::MFILE | Error::NFILE | Error::NOBUFS | Error::NOMEM) => {
                    // It stays in the queue; without a pause this loop would take a CPU.
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(_) => {}
            }
            sessions.retain(|session: &std::thread::JoinHandle<()>| !session.is_finished());
        }
        // Whoever comes now is refused.
        let _ = call::shutdown(self.listener.as_fd());
        if self.terms.drain.is_zero() {
            self.terms.end.pull(Reason::Cancelled);
        }
        let _deadline = keeper().at(Instant::now() + self.terms.drain, &self.terms.end);
        for session in sessions {
            let _ = session.join();
        }
        Ok(())
    }

    /// Begins a session; without room for it the connection is closed.
    fn begin(&self, connection: Socket) -> Option<std::thread::JoinHandle<()>> {
        let stop = self.terms.end.follower();
        let control = ControlConnection::new(connection, stop.clone()).ok()?;
        if !self.terms.admits(control.peer()) {
            return None;
        }
        let (place, account) = self.room.admit(Holder::of(control.peer()))?;
        let (terms, room) = (Arc::clone(&self.terms), Arc::clone(&self.room));
        std::thread::Builder::new()
            .stack_size(STACK)
            .spawn(move || {
                session::serve(&control, &terms, &room, account, &stop);
                drop(place);
            })
            .ok()
    }
}

impl Terms {
    /// Whether a master may come from there.
    fn admits(&self, peer: &Address) -> bool {
        let here = |address: std::net::IpAddr| {
            let address = address.to_canonical();
            self.peers.iter().any(|network| network.contains(address))
        };
        self.peers.is_empty() || peer.ip().is_some_and(here)
    }
}

fn anywhere(transport: Transport, port: u32) -> io::Result<Socket> {
    let port = u16::try_from(port).map_err(|_| Error::INVAL)?;
    let bind = |address: SocketAddr| open(transport, &Address::Inet(address));
    match bind((Ipv6Addr::UNSPECIFIED, port).into()) {
        Err(error) if error.raw_os_error() == Some(Error::AFNOSUPPORT.raw_os_error()) => {
            bind((Ipv4Addr::UNSPECIFIED, port).into())
        }
        other => other,
    }
}

fn open(transport: Transport, address: &Address) -> io::Result<Socket> {
    data_socket(
        transport,
        address,
        &SocketOptions::default(),
        Role::Initiator,
    )
    .map_err(|error| io::Error::from_raw_os_error(error.errno()))
}
