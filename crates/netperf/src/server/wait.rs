//! Waiting for a test's data, and knowing whose it is.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine::{Associations, Stop};
use sys::call::{self, Error};
use sys::{Address, Socket};

use super::assignment::Refusal;
use crate::options::Limits;

/// The next connection, when it comes within the limits.
pub(super) fn connection(
    listener: &Socket,
    stop: &Stop,
    limits: &Limits,
) -> Result<Socket, Refusal> {
    let _attending = stop.attend();
    let until = Instant::now() + limits.data_wait;
    // An association that is aborted after the wait leaves nothing to accept.
    let _ = listener.set_read_timeout(Some(limits.data_wait));
    loop {
        let left = until.saturating_duration_since(Instant::now());
        readable(listener.as_fd(), stop, left)?;
        match call::accept(listener.as_fd()) {
            Ok(connection) => {
                // It has the listener's, which would have the kernel set a timer in each call that waits.
                let connection = Socket::from(connection);
                let _ = connection.set_read_timeout(None);
                return Ok(connection);
            }
            Err(Error::INTR | Error::AGAIN | Error::CONNABORTED) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits for data, or a connection; the error number to tell the client when none comes.
pub(super) fn readable(
    socket: BorrowedFd<'_>,
    stop: &Stop,
    patience: Duration,
) -> Result<(), Refusal> {
    let _attending = stop.attend();
    let until = Instant::now() + patience;
    while !stop.is_set() {
        match call::wait_readable(socket, until.saturating_duration_since(Instant::now())) {
            Ok(true) => return Ok(()),
            Ok(false) => return Err(Error::TIMEDOUT.into()),
            Err(Error::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::CANCELED.into())
}

/// Whether another connection comes within `patience`, before the client says anything on the control
/// connection.
pub(super) fn connects_again(
    listener: BorrowedFd<'_>,
    control: BorrowedFd<'_>,
    stop: &Stop,
    patience: Duration,
) -> bool {
    let _attending = stop.attend();
    while !stop.is_set() {
        match call::wait_any_readable(&[listener, control], patience) {
            Ok(first) => return first == Some(0),
            Err(Error::INTR) => {}
            Err(_) => return false,
        }
    }
    false
}

/// Takes datagrams until one comes from a host that may be answered, and says which.
pub(super) fn own_client(
    socket: &Socket,
    peer: &Address,
    stop: &Stop,
    limits: &Limits,
) -> Result<Address, Refusal> {
    let until = Instant::now() + limits.data_wait;
    while Instant::now() < until {
        let left = until.saturating_duration_since(Instant::now());
        readable(socket.as_fd(), stop, left)?;
        match call::next_source(socket.as_fd()) {
            Ok(Some(source)) if may_send_to(&source, peer, limits) => return Ok(source),
            Ok(_) => drop(call::receive(socket.as_fd(), &mut [0; 1])),
            Err(Error::INTR | Error::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::TIMEDOUT.into())
}

/// Waits for the first association that is admitted; others are sent away.
pub(super) fn association(
    associations: &Associations<'_>,
    socket: BorrowedFd<'_>,
    stop: &Stop,
    limits: &Limits,
) -> Result<(), Refusal> {
    let until = Instant::now() + limits.data_wait;
    while Instant::now() < until {
        readable(
            socket,
            stop,
            until.saturating_duration_since(Instant::now()),
        )?;
        match associations.next_is_admitted() {
            Ok(true) => return Ok(()),
            Ok(false) | Err(Error::INTR | Error::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::TIMEDOUT.into())
}

/// Whether a client at `peer` may have traffic sent to `target`: to itself only, or between the
/// addresses of this very host, unless the operator allows more.
pub(super) fn may_send_to(target: &Address, peer: &Address, limits: &Limits) -> bool {
    let is_own = |address: &Address| {
        let ip = address.ip().map(|ip| ip.to_canonical());
        ip.is_some_and(sys::facts::is_own)
    };
    // A path, or a hardware address on the same link, is none that a third party could be aimed at: the
    // kernel says that the datagram came from there.
    let is_local = match target {
        Address::Unix(path) => !path.as_os_str().is_empty(),
        Address::Llc(_) => true,
        _ => false,
    };
    is_local
        || limits.third_party
        || target.shares_host_with(peer)
        || (is_own(peer) && is_own(target))
}

/// Connects to the socket that is at this very path. A path with a link in it is none that a datagram
/// came from: somebody has put the link there since, and this process may be allowed more than he is.
pub(super) fn connect_to_path(socket: &Socket, path: &Path) -> io::Result<()> {
    // Nothing that happens to the path from here on changes what this stands for.
    let there = call::at_path(path)?;
    let through = PathBuf::from(format!("/proc/thread-self/fd/{}", there.as_raw_fd()));
    if !there.metadata()?.file_type().is_socket() || std::fs::read_link(&through)? != path {
        return Err(io::Error::from_raw_os_error(Error::ACCESS.raw_os_error()));
    }
    socket.connect(&Address::Unix(through).to_kernel()?)
}
