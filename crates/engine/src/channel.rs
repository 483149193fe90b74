//! How a loop's calls reach the wire: one type a way, so that each loop is compiled for each way and
//! nothing is decided inside.

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use stats::Histogram;
use sys::call::{self, Drain, Error, Peer};
use sys::clock::monotonic_ns;
use sys::message::{self, Beside};

use crate::hooks::Hooks;
use crate::ring::{Ring, SendFile};

/// A connection's two calls.
pub(crate) trait Channel {
    fn socket(&self) -> BorrowedFd<'_>;
    fn send(&self, data: &[u8]) -> Result<usize, Error>;
    /// As `send`, but EAGAIN instead of waiting.
    fn try_send(&self, data: &[u8]) -> Result<usize, Error>;

    /// As `receive`, but EAGAIN instead of waiting.
    #[inline]
    fn try_receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        call::receive_without_waiting(self.socket(), buffer)
    }

    /// Whether the kernel alone could take the data elsewhere: splice(2) is for streams.
    fn is_connected(&self) -> bool {
        true
    }

    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        call::receive(self.socket(), buffer)
    }
}

/// A connected socket, by send(2).
pub(crate) struct Connected<'a>(pub(crate) BorrowedFd<'a>);

impl Channel for Connected<'_> {
    #[inline]
    fn socket(&self) -> BorrowedFd<'_> {
        self.0
    }

    #[inline]
    fn send(&self, data: &[u8]) -> Result<usize, Error> {
        call::send(self.0, data)
    }

    #[inline]
    fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
        call::send_without_waiting(self.0, data)
    }
}

/// A connected socket, by write(2).
pub(crate) struct Written<'a>(pub(crate) BorrowedFd<'a>);

impl Channel for Written<'_> {
    #[inline]
    fn socket(&self) -> BorrowedFd<'_> {
        self.0
    }

    #[inline]
    fn send(&self, data: &[u8]) -> Result<usize, Error> {
        call::write(self.0, data)
    }

    #[inline]
    fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
        call::send_without_waiting(self.0, data)
    }
}

/// A datagram socket without a peer of its own.
pub(crate) struct Addressed<'a> {
    pub(crate) socket: BorrowedFd<'a>,
    pub(crate) to: Peer,
}

impl Channel for Addressed<'_> {
    fn is_connected(&self) -> bool {
        false
    }

    #[inline]
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket
    }

    #[inline]
    fn send(&self, data: &[u8]) -> Result<usize, Error> {
        call::send_to(self.socket, data, &self.to)
    }

    #[inline]
    fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
        call::send_to_without_waiting(self.socket, data, &self.to)
    }
}

/// An unconnected datagram socket that sends each datagram from a given address of this host.
pub(crate) struct AddressedFrom<'a> {
    pub(crate) socket: BorrowedFd<'a>,
    pub(crate) to: Peer,
    pub(crate) from: Beside,
}

impl Channel for AddressedFrom<'_> {
    fn is_connected(&self) -> bool {
        false
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket
    }

    fn send(&self, data: &[u8]) -> Result<usize, Error> {
        message::send_with(self.socket, data, &self.to, &self.from, true)
    }

    fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
        message::send_with(self.socket, data, &self.to, &self.from, false)
    }
}

/// A way whose calls never wait: poll(2) does, as long as the calls would.
pub(crate) struct Polled<C> {
    channel: C,
    receive_patience: Duration,
    send_patience: Duration,
}

impl<C: Channel> Polled<C> {
    /// The socket must have its timeouts.
    pub(crate) fn new(channel: C) -> Self {
        let (receive_patience, send_patience) = sys::option::timeouts(channel.socket());
        Self {
            channel,
            receive_patience,
            send_patience,
        }
    }
}

impl<C: Channel> Channel for Polled<C> {
    #[inline]
    fn socket(&self) -> BorrowedFd<'_> {
        self.channel.socket()
    }

    #[inline]
    fn send(&self, data: &[u8]) -> Result<usize, Error> {
        loop {
            match self.channel.try_send(data) {
                Err(Error::AGAIN) if call::wait_writable(self.socket(), self.send_patience)? => {}
                other => return other,
            }
        }
    }

    #[inline]
    fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
        self.channel.try_send(data)
    }

    fn is_connected(&self) -> bool {
        self.channel.is_connected()
    }

    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        loop {
            match self.channel.try_receive(buffer) {
                Err(Error::AGAIN) if call::wait_readable(self.socket(), self.receive_patience)? => {
                }
                other => return other,
            }
        }
    }

    #[inline]
    fn try_receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.channel.try_receive(buffer)
    }
}

/// Connections that are used in turn; an answer is awaited where the last request went.
pub(crate) struct InTurn<C> {
    channels: Vec<C>,
    last: Cell<usize>,
}

impl<C> InTurn<C> {
    /// Of at least one.
    pub(crate) fn new(channels: Vec<C>) -> Self {
        Self {
            last: Cell::new(channels.len().saturating_sub(1)),
            channels,
        }
    }
}

impl<C: Channel> Channel for InTurn<C> {
    #[inline]
    fn socket(&self) -> BorrowedFd<'_> {
        self.channels[self.last.get()].socket()
    }

    #[inline]
    fn send(&self, data: &[u8]) -> Result<usize, Error> {
        let next = self.last.get() + 1;
        let next = if next == self.channels.len() { 0 } else { next };
        self.last.set(next);
        self.channels[next].send(data)
    }

    #[inline]
    fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
        self.channels[self.last.get()].try_send(data)
    }

    fn is_connected(&self) -> bool {
        false
    }

    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.channels[self.last.get()].receive(buffer)
    }
}

/// Where a bulk transfer's data comes from.
pub(crate) trait Source {
    /// Bytes a call, when it takes all.
    fn size(&self) -> u32;
    fn send(&mut self, hooks: &mut impl Hooks) -> Result<usize, Error>;
}

/// A ring of buffers.
pub(crate) struct FromRing<'a, C> {
    pub(crate) channel: &'a C,
    pub(crate) ring: &'a mut Ring,
}

impl<C: Channel> Source for FromRing<'_, C> {
    fn size(&self) -> u32 {
        self.ring.size()
    }

    #[inline]
    fn send(&mut self, hooks: &mut impl Hooks) -> Result<usize, Error> {
        let buffer = self.ring.advance();
        hooks.before_send(buffer);
        self.channel.send(buffer)
    }
}

/// A file, sent by the kernel: its data is in no buffer of ours.
pub(crate) struct FromFile<'a> {
    pub(crate) socket: BorrowedFd<'a>,
    pub(crate) file: &'a mut SendFile,
}

impl Source for FromFile<'_> {
    fn size(&self) -> u32 {
        self.file.size()
    }

    #[inline]
    fn send(&mut self, _: &mut impl Hooks) -> Result<usize, Error> {
        let (file, mut offset, count) = self.file.advance();
        call::send_file(self.socket, file, &mut offset, count)
    }
}

/// Where a bulk transfer's data goes.
pub(crate) trait Sink {
    fn receive(&mut self, hooks: &mut impl Hooks) -> Result<usize, Error>;
}

/// A ring of buffers.
pub(crate) struct IntoRing<'a, C> {
    pub(crate) channel: &'a C,
    pub(crate) ring: &'a mut Ring,
}

impl<C: Channel> Sink for IntoRing<'_, C> {
    #[inline]
    fn receive(&mut self, hooks: &mut impl Hooks) -> Result<usize, Error> {
        let buffer = self.ring.advance();
        let received = self.channel.receive(buffer)?;
        hooks.after_receive(&mut buffer[..received]);
        Ok(received)
    }
}

/// The null device, inside the kernel.
pub(crate) struct IntoNothing<'a> {
    pub(crate) socket: BorrowedFd<'a>,
    pub(crate) pipe: Drain,
    pub(crate) size: usize,
}

impl Sink for IntoNothing<'_> {
    #[inline]
    fn receive(&mut self, _: &mut impl Hooks) -> Result<usize, Error> {
        self.pipe.receive(self.socket, self.size)
    }
}

/// Times that a loop keeps, or not: `()` is nothing, and costs nothing.
pub(crate) trait Timer {
    /// A time begins, before the first pass or after one that does not count.
    fn start(&mut self);
    /// It ends, and the next one begins: a loop's next pass starts where the last one ended, so that
    /// one clock read does for both.
    fn lap(&mut self);
}

impl Timer for () {
    #[inline]
    fn start(&mut self) {}
    #[inline]
    fn lap(&mut self) {}
}

/// One clock read a time, into a histogram.
pub(crate) struct Clocked {
    pub(crate) times: Histogram,
    started_ns: u64,
}

impl Clocked {
    pub(crate) fn new() -> Self {
        Self {
            times: Histogram::default(),
            started_ns: 0,
        }
    }
}

impl Timer for Clocked {
    #[inline]
    fn start(&mut self) {
        self.started_ns = monotonic_ns();
    }

    #[inline]
    fn lap(&mut self) {
        let now_ns = monotonic_ns();
        self.times.record(now_ns - self.started_ns);
        self.started_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    /// Whose calls would wait at first, and must not be left to.
    struct Busy<'a> {
        socket: BorrowedFd<'a>,
        refusals: Cell<u32>,
    }

    impl Busy<'_> {
        fn refuses(&self) -> bool {
            let left = self.refusals.get();
            self.refusals.set(left.saturating_sub(1));
            left > 0
        }
    }

    impl Channel for Busy<'_> {
        fn socket(&self) -> BorrowedFd<'_> {
            self.socket
        }

        fn send(&self, _: &[u8]) -> Result<usize, Error> {
            panic!("a send that may wait");
        }

        fn receive(&self, _: &mut [u8]) -> Result<usize, Error> {
            panic!("a receive that may wait");
        }

        fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
            if self.refuses() {
                return Err(Error::AGAIN);
            }
            Ok(data.len())
        }

        fn try_receive(&self, buffer: &mut [u8]) -> Result<usize, Error> {
            if self.refuses() {
                return Err(Error::AGAIN);
            }
            Ok(buffer.len())
        }
    }

    #[test]
    fn what_is_polled_waits_in_no_other_call() {
        let (near, far) = UnixDatagram::pair().unwrap();
        far.send(b"x").unwrap();
        let polled = Polled::new(Busy {
            socket: near.as_fd(),
            refusals: Cell::new(3),
        });
        assert_eq!(polled.send(b"xx"), Ok(2));
        polled.channel.refusals.set(3);
        assert_eq!(polled.receive(&mut [0; 5]), Ok(5));
    }

    #[test]
    fn what_is_polled_waits_no_longer_than_its_socket_would() {
        let (near, _far) = UnixDatagram::pair().unwrap();
        let short = Some(Duration::from_millis(5));
        near.set_read_timeout(short).unwrap();
        near.set_write_timeout(short).unwrap();
        let polled = Polled::new(Connected(near.as_fd()));
        assert_eq!(polled.receive(&mut [0; 1]), Err(Error::AGAIN));
        let full = (0..1 << 16).find_map(|_| polled.send(b"x").err());
        assert_eq!(full, Some(Error::AGAIN));
    }
}
