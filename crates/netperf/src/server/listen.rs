//! Where the server takes its control connections from.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use sys::call::{self, Error};
use sys::{Address, Socket, Type};

use crate::options::Family;

/// Control connections that wait for accept(2).
const BACKLOG: i32 = 1024;

/// The sockets for a host (or the wildcard), a family and a port. The IPv6 wildcard takes IPv4 too,
/// so that the second bind may find the port taken.
pub(super) fn bind(host: Option<&str>, family: Family, port: u16) -> io::Result<Vec<Socket>> {
    let mut listeners: Vec<Socket> = Vec::new();
    let mut refused = None;
    for address in addresses(host, family, port)? {
        // A port that the kernel picked is the same for both families.
        let picked = listeners.first().and_then(|first| Address::of(first).ok());
        let address = picked
            .and_then(|picked| address.with_port(picked.port()))
            .unwrap_or(address);
        match listener(&address, family == Family::V6) {
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

fn addresses(host: Option<&str>, family: Family, port: u16) -> io::Result<Vec<Address>> {
    if family == Family::Vsock {
        let context = match host.map(str::parse) {
            None => Address::ANY_CONTEXT,
            Some(Ok(context)) => context,
            Some(Err(_)) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let port = port.into();
        return Ok(vec![Address::Vsock { context, port }]);
    }
    let addresses: Vec<SocketAddr> = match host {
        Some(host) => (host, port).to_socket_addrs()?.collect(),
        None => vec![
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port),
            SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port),
        ],
    };
    let addresses = addresses.into_iter().map(Address::from);
    Ok(addresses.filter(|address| family.admits(address)).collect())
}

fn listener(address: &Address, only_v6: bool) -> io::Result<Socket> {
    let socket = Socket::new(address.domain(), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.to_kernel()?)?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Waits at most `patience` for a connection on any of the listeners.
pub(super) fn accept(listeners: &[Socket], patience: Duration) -> Result<Option<OwnedFd>, Error> {
    let fds: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
    match call::wait_any_readable(&fds, patience)? {
        Some(ready) => call::accept(fds[ready]).map(Some),
        None => Ok(None),
    }
}
