//! How a loop's calls reach the wire: one type a way, so that each loop is compiled for each way and
//! nothing is decided inside.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use stats::Histogram;
use sys::call::{self, Address, Drain, Error};

use crate::ring::{Ring, SendFile};

/// A connection's two calls.
pub(crate) trait Channel {
    fn socket(&self) -> BorrowedFd<'_>;
    fn send(&self, data: &[u8]) -> Result<usize, Error>;
    /// As `send`, but EAGAIN instead of waiting.
    fn try_send(&self, data: &[u8]) -> Result<usize, Error>;

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
    pub(crate) to: Address,
}

impl Channel for Addressed<'_> {
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

/// Where a bulk transfer's data comes from.
pub(crate) trait Source {
    fn send(&mut self) -> Result<usize, Error>;
}

/// A ring of buffers.
pub(crate) struct FromRing<'a, C>(pub(crate) &'a C, pub(crate) &'a mut Ring);

impl<C: Channel> Source for FromRing<'_, C> {
    #[inline]
    fn send(&mut self) -> Result<usize, Error> {
        self.0.send(self.1.advance())
    }
}

/// A file, sent by the kernel.
pub(crate) struct FromFile<'a>(pub(crate) BorrowedFd<'a>, pub(crate) &'a mut SendFile);

impl Source for FromFile<'_> {
    #[inline]
    fn send(&mut self) -> Result<usize, Error> {
        let (file, mut offset, count) = self.1.advance();
        call::send_file(self.0, file, &mut offset, count)
    }
}

/// Where a bulk transfer's data goes.
pub(crate) trait Sink {
    fn receive(&mut self) -> Result<usize, Error>;
}

/// A ring of buffers.
pub(crate) struct IntoRing<'a, C>(pub(crate) &'a C, pub(crate) &'a mut Ring);

impl<C: Channel> Sink for IntoRing<'_, C> {
    #[inline]
    fn receive(&mut self) -> Result<usize, Error> {
        self.0.receive(self.1.advance())
    }
}

/// The null device, inside the kernel.
pub(crate) struct IntoNothing<'a> {
    pub(crate) socket: BorrowedFd<'a>,
    pub(crate) drain: Drain,
    pub(crate) size: usize,
}

impl Sink for IntoNothing<'_> {
    #[inline]
    fn receive(&mut self) -> Result<usize, Error> {
        self.drain.receive(self.socket, self.size)
    }
}

/// Times that a loop keeps, or not: `()` is nothing, and costs nothing.
pub(crate) trait Timer {
    fn start(&mut self);
    fn stop(&mut self);
}

impl Timer for () {
    #[inline]
    fn start(&mut self) {}
    #[inline]
    fn stop(&mut self) {}
}

/// Two clock reads a time, into a histogram.
pub(crate) struct Clocked {
    pub(crate) times: Histogram,
    started: Instant,
}

impl Clocked {
    pub(crate) fn new() -> Self {
        Self {
            times: Histogram::default(),
            started: Instant::now(),
        }
    }
}

impl Timer for Clocked {
    #[inline]
    fn start(&mut self) {
        self.started = Instant::now();
    }

    #[inline]
    fn stop(&mut self) {
        self.times.record(self.started.elapsed().as_nanos() as u64);
    }
}
