//! Where the server takes its control connections from.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use sys::call::{self, Error};
use sys::{Domain, Protocol, Socket, Type};

use crate::options::Family;

/// Control connections that wait for accept(2).
const BACKLOG: i32 = 1024;

/// The sockets for a host (or the wildcard), a family and a port. The IPv6 wildcard takes IPv4 too,
/// so that the second bind may find the port taken.
pub(super) fn bind(host: Option<&str>, family: Family, port: u16) -> io::Result<Vec<TcpListener>> {
    let addresses: Vec<SocketAddr> = match host {
        Some(host) => (host, port)
            .to_socket_addrs()?
            .filter(|address| family.admits(*address))
            .collect(),
        None => [
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
            SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port),
        ]
        .into_iter()
        .filter(|address| family.admits(*address))
        .collect(),
    };
    let mut listeners: Vec<TcpListener> = Vec::new();
    let mut refused = None;
    for address in addresses {
        // A port that the kernel picked is the same for both families.
        let port = listeners
            .first()
            .and_then(|first| first.local_addr().ok())
            .map(|first| first.port());
        let address = SocketAddr::new(address.ip(), port.unwrap_or(address.port()));
        match listener(address, family == Family::V6) {
            Ok(listener) => listeners.push(listener),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) if listeners.is_empty() => Err(error),
        None if listeners.is_empty() => Err(io::ErrorKind::AddrNotAvailable.into()),
        _ => Ok(listeners),
    }
}

fn listener(address: SocketAddr, only_v6: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Waits at most `patience` for a connection on any of the listeners.
pub(super) fn accept(
    listeners: &[TcpListener],
    patience: Duration,
) -> Result<Option<OwnedFd>, Error> {
    let fds: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
    match call::wait_any_readable(&fds, patience)? {
        Some(ready) => call::accept(fds[ready]).map(Some),
        None => Ok(None),
    }
}
