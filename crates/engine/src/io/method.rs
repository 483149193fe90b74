//! The calls of an I/O method, for single messages and for streams.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use sys::buffer::BufferRing;
use sys::call::{self, Error, Peer};
use sys::message::{ControlMessage, Messages, Moved};

use crate::end::Bounds;
use crate::hooks::Hooks;

/// The calls of one I/O method. All but `socket` have a default: the plain call, to the peer of an unconnected socket.
pub(crate) trait Io {
    fn socket(&self) -> BorrowedFd<'_>;

    /// Sends one message, or a part of a stream; returns the number of bytes.
    #[inline]
    fn send(&self, data: &[u8]) -> Result<usize, Error> {
        match self.peer() {
            None => call::send(self.socket(), data),
            Some(to) => call::send_to(self.socket(), data, to),
        }
    }

    /// As `send`, but EAGAIN instead of waiting.
    #[inline]
    fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
        match self.peer() {
            None => call::send_without_waiting(self.socket(), data),
            Some(to) => call::send_to_without_waiting(self.socket(), data, to),
        }
    }

    /// Receives one message, or a part of a stream; returns the number of bytes.
    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        call::receive(self.socket(), buffer)
    }

    /// As `receive`, but EAGAIN instead of waiting.
    #[inline]
    fn try_receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        call::receive_without_waiting(self.socket(), buffer)
    }

    /// As `receive`, and of a stream the whole buffer if the method can wait for it.
    #[inline]
    fn receive_whole(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.receive(buffer)
    }

    /// The peer of an unconnected socket.
    #[inline]
    fn peer(&self) -> Option<&Peer> {
        None
    }

    /// Whether the kernel alone could take the data elsewhere: splice(2) is for streams.
    fn is_connected(&self) -> bool {
        self.peer().is_none()
    }

    /// Sends `data` as many times as one call can, each time as one message. Without `waits` EAGAIN if there is
    /// no room for the first.
    fn send_messages(
        &self,
        messages: &mut Messages,
        control: Option<&ControlMessage>,
        data: &[u8],
        times: u64,
        waits: bool,
    ) -> Result<Moved, Error> {
        messages.send(self.socket(), data, self.peer(), control, times, waits)
    }

    /// Receives messages into `buffer`, one over the other, as many as one call gives.
    fn receive_messages(
        &self,
        messages: &mut Messages,
        buffer: &mut [u8],
        times: u64,
        waits: bool,
    ) -> Result<Moved, Error> {
        messages.receive(self.socket(), buffer, times, waits)
    }

    /// Waits until there is something to receive; false after `patience`.
    fn wait_readable(&self, patience: Duration) -> Result<bool, Error> {
        call::wait_readable(self.socket(), patience)
    }

    /// Whether a send call takes at most a record of its own size.
    fn takes_records(&self) -> bool {
        false
    }

    /// Returns the call that sends a stream from a ring: the next buffer, unless the method has its own way.
    fn source<'a, H: Hooks>(
        &'a self,
        ring: &'a mut BufferRing,
        _: Bounds<'a>,
    ) -> impl FnMut(&mut H) -> Result<Moved, Error>
    where
        Self: Sized,
    {
        |hooks: &mut H| {
            let buffer = ring.advance();
            hooks.before_send(buffer);
            self.send(buffer).map(Moved::one)
        }
    }

    /// Returns the call that receives a stream into a ring: into the next buffer, unless the method has its own way.
    /// No bytes are the stream's end.
    fn sink<'a, H: Hooks>(
        &'a self,
        ring: &'a mut BufferRing,
        _: Bounds<'a>,
    ) -> impl FnMut(&mut H) -> Result<Moved, Error>
    where
        Self: Sized,
    {
        |hooks: &mut H| {
            let buffer = ring.advance();
            let received = self.receive(buffer)?;
            hooks.after_receive(&mut buffer[..received]);
            Ok(Moved::one(received))
        }
    }
}

/// The time until then; without an end it never ends.
pub(crate) fn until_then(until: Option<Instant>) -> Duration {
    until.map_or(Duration::MAX, |until| {
        until.saturating_duration_since(Instant::now())
    })
}
