//! Waits for a test's data.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use engine::{Associations, Stop};
use sys::call::{self, Error};

use super::assignment::TestError;
use super::data::REFUSED_DATAGRAM_WAIT;
use super::test::RunContext;

/// Waits for data or a connection, also while other data arrives. A timeout returns the error number for the client.
pub(super) fn await_readable(
    socket: BorrowedFd<'_>,
    stop: &Stop,
    deadline: Instant,
) -> Result<(), TestError> {
    if Instant::now() < deadline && stop.wait_readable(socket, deadline)? {
        Ok(())
    } else {
        Err(Error::TIMEDOUT.into())
    }
}

/// Waits for another connection. Returns `false` after `timeout`, or if the client sends on the
/// control connection first.
pub(super) fn await_connection(
    listener: BorrowedFd<'_>,
    control: BorrowedFd<'_>,
    stop: &Stop,
    timeout: Duration,
) -> bool {
    let _registration = stop.register_thread();
    while !stop.is_set() {
        match call::wait_any_readable(&[listener, control], timeout) {
            Ok(ready) => return ready == Some(0),
            Err(Error::INTR) => {}
            Err(_) => return false,
        }
    }
    false
}

/// Waits for the first admitted association, and aborts others. After the first of these, it waits
/// only [`REFUSED_DATAGRAM_WAIT`].
pub(super) fn await_association(
    associations: &Associations<'_>,
    socket: BorrowedFd<'_>,
    context: &RunContext<'_>,
) -> Result<(), TestError> {
    let mut deadline = Instant::now() + context.limits.data_wait;
    let mut is_refused = false;
    loop {
        match await_readable(socket, context.stop, deadline) {
            Err(error) if is_refused && error == Error::TIMEDOUT.into() => {
                return Err(Error::ACCESS.into());
            }
            ready => ready?,
        }
        match associations.next_is_admitted() {
            Ok(true) => return Ok(()),
            Ok(false) => {
                if !is_refused {
                    deadline = deadline.min(Instant::now() + REFUSED_DATAGRAM_WAIT);
                }
                is_refused = true;
            }
            Err(Error::INTR | Error::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
