//! The calls of an I/O method, for single messages and for streams.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use sys::buffer::BufferRing;
use sys::call::{self, Error, KernelAddress};
use sys::message::{ControlMessage, MessageHeaders, MessageTotals};

use crate::counters::CounterWriter;
use crate::end::Budget;
use crate::hooks::Hooks;

/// The calls of one I/O method.
///
/// All but `socket` have a default: send(2) and recv(2), or sendto(2) if there is a peer.
pub(crate) trait Io {
    /// Returns the socket.
    fn socket(&self) -> BorrowedFd<'_>;

    /// Sends one message, or part of a stream; returns the number of bytes.
    #[inline]
    fn send(&self, data: &[u8]) -> Result<usize, Error> {
        match self.peer() {
            None => call::send(self.socket(), data),
            Some(to) => call::send_to(self.socket(), data, to),
        }
    }

    /// Sends like `send`, but fails with EAGAIN instead of blocking.
    #[inline]
    fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
        match self.peer() {
            None => call::send_without_waiting(self.socket(), data),
            Some(to) => call::send_to_without_waiting(self.socket(), data, to),
        }
    }

    /// Receives one message, or part of a stream; returns the number of bytes.
    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        call::receive(self.socket(), buffer)
    }

    /// Receives like `receive`, but fails with EAGAIN instead of blocking.
    #[inline]
    fn try_receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        call::receive_without_waiting(self.socket(), buffer)
    }

    /// Receives like `receive`, but fills the buffer from a stream if the method supports
    /// MSG_WAITALL.
    #[inline]
    fn receive_wait_all(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.receive(buffer)
    }

    /// Returns the peer of an unconnected socket.
    #[inline]
    fn peer(&self) -> Option<&KernelAddress> {
        None
    }

    /// Returns whether the socket is connected. splice(2) needs a connected stream.
    fn is_connected(&self) -> bool {
        self.peer().is_none()
    }

    /// Sends up to `count` messages, each with the same `data`, in one call.
    ///
    /// Unless `is_blocking`, fails with EAGAIN if the socket cannot take the first message.
    fn send_messages(
        &self,
        messages: &mut MessageHeaders,
        control: Option<&ControlMessage>,
        data: &[u8],
        count: u64,
        is_blocking: bool,
    ) -> Result<MessageTotals, Error> {
        messages.send(
            self.socket(),
            data,
            self.peer(),
            control,
            count,
            is_blocking,
        )
    }

    /// Receives up to `count` messages in one call; each overwrites `buffer`.
    fn receive_messages(
        &self,
        messages: &mut MessageHeaders,
        buffer: &mut [u8],
        count: u64,
        is_blocking: bool,
    ) -> Result<MessageTotals, Error> {
        messages.receive(self.socket(), buffer, count, is_blocking)
    }

    /// Waits until data can be received; returns false after `timeout`.
    fn wait_readable(&self, timeout: Duration) -> Result<bool, Error> {
        call::wait_readable(self.socket(), timeout)
    }

    /// Returns whether the method splits data into records; a send call takes at most one.
    fn splits_sends_into_records(&self) -> bool {
        false
    }

    /// Returns the call that sends from a ring within a budget: by default one buffer per call.
    fn send_call<'a, H: Hooks>(
        &'a self,
        ring: &'a mut BufferRing,
        _: CounterWriter<'a>,
    ) -> impl FnMut(&mut H, Budget) -> Result<MessageTotals, Error>
    where
        Self: Sized,
    {
        |hooks: &mut H, _| {
            let buffer = ring.advance();
            hooks.before_send(buffer);
            self.send(buffer).map(MessageTotals::single)
        }
    }

    /// Returns the call that receives into a ring within a budget: by default into one buffer per
    /// call.
    ///
    /// A result of 0 bytes is the end of the stream.
    fn receive_call<'a, H: Hooks>(
        &'a self,
        ring: &'a mut BufferRing,
        _: CounterWriter<'a>,
    ) -> impl FnMut(&mut H, Budget) -> Result<MessageTotals, Error>
    where
        Self: Sized,
    {
        |hooks: &mut H, _| {
            let buffer = ring.advance();
            let received = self.receive(buffer)?;
            hooks.after_receive(&mut buffer[..received]);
            Ok(MessageTotals::single(received))
        }
    }
}

/// Returns the time until the deadline; without a deadline, [`Duration::MAX`].
pub(crate) fn time_until(deadline: Option<Instant>) -> Duration {
    deadline.map_or(Duration::MAX, |deadline| {
        deadline.saturating_duration_since(Instant::now())
    })
}
