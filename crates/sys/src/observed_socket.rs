//! A socket whose state other threads may read while its owner uses it.

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A place for a socket, from which other threads may read its state.
#[derive(Debug, Default)]
pub struct ObservedSocket(Mutex<Option<RawFd>>);

impl ObservedSocket {
    /// Makes the socket available until `run` returns.
    pub fn expose_while<T>(&self, socket: BorrowedFd<'_>, run: impl FnOnce() -> T) -> T {
        let _exposed = Exposed::new(self, socket);
        run()
    }

    /// Reads the state of the socket; `None` if none is available. The socket stays open meanwhile.
    pub fn read<T>(&self, read: impl FnOnce(BorrowedFd<'_>) -> T) -> Option<T> {
        let socket = self.lock();
        // SAFETY: the owner's borrow of the descriptor lasts until `Exposed` is dropped, which waits
        // for this lock.
        socket.map(|socket| read(unsafe { BorrowedFd::borrow_raw(socket) }))
    }

    fn lock(&self) -> MutexGuard<'_, Option<RawFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Withdraws the socket when it is dropped.
struct Exposed<'a>(&'a ObservedSocket);

impl<'a> Exposed<'a> {
    fn new(observed: &'a ObservedSocket, socket: BorrowedFd<'_>) -> Self {
        *observed.lock() = Some(socket.as_raw_fd());
        Self(observed)
    }
}

impl Drop for Exposed<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}
