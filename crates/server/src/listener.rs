//! The sockets on which a server accepts control connections.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use model::Transport;
use sys::call::{self, Error};
use sys::{Address, Protocol, Socket, Type};

/// The maximum number of control connections that wait for accept(2).
const BACKLOG: i32 = 4096;

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
    let mut inherited = inherited_descriptors()?;
    (0..inherited.len())
        .filter_map(|index| take_listener(&mut inherited, index).transpose())
        .collect()
}

/// Returns the TCP and UDP sockets that systemd passes to a service, each with its name:
/// LISTEN_FDNAMES. UDP sockets are configured like those of [`engine::open_datagram_listener`].
/// They need SO_REUSEPORT before they are bound.
pub fn inherited_sockets() -> io::Result<Vec<(String, Socket)>> {
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut inherited = inherited_descriptors()?;
    let mut names = names.split(':').map(str::to_owned);
    let mut sockets = Vec::new();
    for index in 0..inherited.len() {
        let socket = match inherited.take_udp_socket(index) {
            Ok(Some(socket)) => {
                if socket.local_addr()?.port() == 0 {
                    return Err(invalid(format!("socket {index} has no port")));
                }
                set_default_receiver(socket.as_fd())?;
                Some(socket.into())
            }
            _ => take_listener(&mut inherited, index)?,
        };
        let name = names.next().unwrap_or_default();
        sockets.extend(socket.map(|socket| (name, socket)));
    }
    Ok(sockets)
}

/// Returns systemd's descriptors. Fails if their number is invalid, because the server would
/// otherwise listen at its default ports.
fn inherited_descriptors() -> io::Result<listenfd::ListenFd> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let (count, process) = (variable("LISTEN_FDS"), variable("LISTEN_PID"));
    let is_for_this_process = process.is_empty() || process == std::process::id().to_string();
    if is_for_this_process && !count.is_empty() && count.parse::<u16>().is_err() {
        return Err(invalid(format!("'{count}' is not a number of sockets")));
    }
    Ok(listenfd::ListenFd::from_env())
}

/// Takes a TCP socket, which must listen.
fn take_listener(inherited: &mut listenfd::ListenFd, index: usize) -> io::Result<Option<Socket>> {
    let socket = inherited.take_tcp_listener(index)?.map(Socket::from);
    match socket {
        Some(socket) if !socket.is_listener()? => {
            Err(invalid(format!("socket {index} does not listen")))
        }
        socket => Ok(socket),
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn set_default_receiver(socket: BorrowedFd<'_>) -> io::Result<()> {
    sys::option::set_default_receiver(socket).map_err(|error| {
        let reason = sys::describe(&error);
        io::Error::other(format!("a UDP socket without ReusePort=yes: {reason}"))
    })
}

/// Waits for a connection on any of the listeners and accepts it; `None` if none arrived. The search
/// begins at the listener with the number `first`, so that a caller can let all have their turn.
pub(crate) fn accept(
    listeners: &[Socket],
    first: usize,
    timeout: Duration,
) -> Result<Option<Socket>, Error> {
    let mut fds: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
    fds.rotate_left(first % listeners.len().max(1));
    match call::wait_any_readable(&fds, timeout)? {
        Some(ready) => call::accept(fds[ready]).map(|socket| Some(socket.into())),
        None => Ok(None),
    }
}
