//! The sockets on which a server accepts control connections.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use model::Transport;
use sys::call::{self, Error};
use sys::{Address, Protocol, Socket, Type};

/// The maximum number of control connections that wait for accept(2).
const BACKLOG: i32 = 1024;

/// The maximum wait for a connection. A stop interrupts the wait.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Listens at each of the addresses. If the kernel chooses the port, all addresses use the same
/// one. Fails only if all addresses fail, and returns the first error. Unless `only_v6` is set, the
/// IPv6 wildcard also accepts IPv4, so binding the IPv4 wildcard may then fail.
pub fn listen(
    transport: Transport,
    addresses: &[Address],
    only_v6: bool,
) -> io::Result<Vec<Socket>> {
    let mut listeners: Vec<Socket> = Vec::new();
    let mut first_error = None;
    for address in addresses {
        let bound = listeners
            .first()
            .and_then(|first| Address::local(first).ok());
        let same_port = bound.and_then(|picked| address.with_port(picked.port()));
        match open_listener(transport, same_port.as_ref().unwrap_or(address), only_v6) {
            Ok(listener) => listeners.push(listener),
            Err(error) => {
                let message = format!("{address}: {}", sys::describe(&error));
                first_error = first_error.or(Some(io::Error::new(error.kind(), message)));
            }
        }
    }
    match first_error {
        Some(error) if listeners.is_empty() => Err(error),
        None if listeners.is_empty() => Err(io::ErrorKind::AddrNotAvailable.into()),
        _ => Ok(listeners),
    }
}

fn open_listener(transport: Transport, address: &Address, only_v6: bool) -> io::Result<Socket> {
    let protocol = match transport {
        Transport::Sctp => Some(Protocol::SCTP),
        Transport::Mptcp => Some(Protocol::MPTCP),
        _ => None,
    };
    let socket = Socket::new(address.domain(), Type::STREAM, protocol)?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.to_kernel()?)?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Returns the listening sockets that systemd passes to a service: LISTEN_FDS, sd_listen_fds(3).
pub fn inherited_listeners() -> io::Result<Vec<Socket>> {
    let mut inherited = listenfd::ListenFd::from_env();
    (0..inherited.len())
        .filter_map(|index| inherited.take_tcp_listener(index).transpose())
        .map(|listener| listener.map(Socket::from))
        .collect()
}

/// Returns the TCP and UDP sockets that systemd passes to a service, each with its name:
/// LISTEN_FDNAMES. UDP sockets are configured like those of [`engine::open_datagram_listener`].
/// They need SO_REUSEPORT before they are bound.
pub fn inherited_sockets() -> io::Result<Vec<(String, Socket)>> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut inherited = listenfd::ListenFd::from_env();
    let mut names = names.split(':').map(str::to_owned);
    let mut sockets = Vec::new();
    for index in 0..inherited.len() {
        let socket = match inherited.take_udp_socket(index) {
            Ok(Some(socket)) => {
                set_default_receiver(socket.as_fd())?;
                Some(socket.into())
            }
            _ => inherited.take_tcp_listener(index)?.map(Socket::from),
        };
        let name = names.next().unwrap_or_default();
        sockets.extend(socket.map(|socket| (name, socket)));
    }
    Ok(sockets)
}

fn set_default_receiver(socket: BorrowedFd<'_>) -> io::Result<()> {
    sys::option::set_default_receiver(socket).map_err(|error| {
        let reason = sys::describe(&error);
        io::Error::other(format!("a UDP socket without ReusePort=yes: {reason}"))
    })
}

/// Waits for a connection on any of the listeners and accepts it; `None` if none arrived.
pub(crate) fn accept(listeners: &[Socket]) -> Result<Option<Socket>, Error> {
    let fds: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
    match call::wait_any_readable(&fds, MAX_WAIT)? {
        Some(ready) => call::accept(fds[ready]).map(|socket| Some(socket.into())),
        None => Ok(None),
    }
}
