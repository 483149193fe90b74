use std::os::fd::BorrowedFd;
use std::time::Duration;

use sys::call::{self, Error};

use crate::run::Path;
use crate::stop::Stop;

/// How a flow says that it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// End this end's stream and wait for the peer's end of stream: the peer has then read all.
    HalfClose,
    /// Wait for the peer's end of stream and throw away what comes before it.
    AwaitClose,
    /// Send this many empty datagrams; one would do, were none lost.
    EmptyDatagrams(u32),
}

impl Finish {
    /// Says so, and waits for the peer until `stop`; whether the peer's end was seen.
    pub fn say(self, path: &Path<'_>, stop: &Stop) -> bool {
        match (self, path) {
            (Self::HalfClose, Path::Connected(socket)) => {
                match call::shutdown_write(*socket) {
                    Ok(()) => await_end(*socket, stop),
                    // The logical link control knows no half, and its end overtakes what is queued.
                    Err(Error::INVAL) => {
                        await_sent(*socket, stop)
                            && call::shutdown(*socket).is_ok()
                            && await_end(*socket, stop)
                    }
                    Err(_) => false,
                }
            }
            (Self::AwaitClose, Path::Connected(socket)) => await_end(*socket, stop),
            (Self::EmptyDatagrams(count), path) => {
                // One that a full queue or an old error refuses does not keep the others.
                (0..count).fold(false, |any, _| send_empty(path) || any)
            }
            _ => true,
        }
    }
}

fn send_empty(path: &Path<'_>) -> bool {
    (0..10).any(|_| match path {
        Path::Connected(socket) => call::send(*socket, &[]).is_ok(),
        Path::Addressed(socket, to) => call::send_to(*socket, &[], to).is_ok(),
        _ => false,
    })
}

/// Waits until nothing is queued any more or waits for an acknowledgement. The kernel has no event for it.
fn await_sent(socket: BorrowedFd<'_>, stop: &Stop) -> bool {
    let _attending = stop.attend();
    while !stop.is_set() {
        match sys::option::queued_to_send(socket) {
            Ok(0) => return true,
            Ok(_) => std::thread::sleep(Duration::from_millis(1)),
            Err(_) => return false,
        }
    }
    false
}

fn await_end(socket: BorrowedFd<'_>, stop: &Stop) -> bool {
    let _attending = stop.attend();
    let mut scrap = [0; 16 * 1024];
    while !stop.is_set() {
        match call::receive(socket, &mut scrap) {
            Ok(0) | Err(Error::CONNRESET) => return true,
            Ok(_) | Err(Error::INTR) => {}
            Err(_) => return false,
        }
    }
    false
}
