//! Waiting for a test's data, and knowing whose it is.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine::{Associations, Stop};
use server::DataPeer;
use sys::call::{self, Error};
use sys::{Address, Socket};

use super::assignment::Refusal;
use crate::options::Limits;

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
    peer: &DataPeer<'_>,
    stop: &Stop,
    limits: &Limits,
) -> Result<Address, Refusal> {
    let until = Instant::now() + limits.data_wait;
    while Instant::now() < until {
        let left = until.saturating_duration_since(Instant::now());
        readable(socket.as_fd(), stop, left)?;
        match call::next_source(socket.as_fd()) {
            Ok(Some(source)) if peer.may_send_to(&source) => return Ok(source),
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
