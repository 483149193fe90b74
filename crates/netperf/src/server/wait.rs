//! Waiting for a test's data, and knowing whose it is.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use engine::{Associations, Stop};
use sys::call::{self, Error};

use super::assignment::Refusal;
use super::test::RunContext;

/// Waits for data, or a connection; the error number to tell the client when none comes.
pub(super) fn readable(socket: BorrowedFd<'_>, stop: &Stop, until: Instant) -> Result<(), Refusal> {
    if stop.wait_readable(socket, until)? {
        Ok(())
    } else {
        Err(Error::TIMEDOUT.into())
    }
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

/// Waits for the first association that is admitted; others are sent away.
pub(super) fn association(
    associations: &Associations<'_>,
    socket: BorrowedFd<'_>,
    context: &RunContext<'_>,
) -> Result<(), Refusal> {
    let until = Instant::now() + context.limits.data_wait;
    while Instant::now() < until {
        readable(socket, context.stop, until)?;
        match associations.next_is_admitted() {
            Ok(true) => return Ok(()),
            Ok(false) | Err(Error::INTR | Error::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::TIMEDOUT.into())
}
