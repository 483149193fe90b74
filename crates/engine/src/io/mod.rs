//! How the data of a flow reaches the wire: one file per I/O method, and here their list.
//!
//! Each loop is compiled for each method, so a loop calls its method directly.

mod addressed;
mod in_turn;
mod mmsg;
mod one_to_many;
mod plain;
mod polled;
mod sendfile;
mod splice;
mod write;

use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use model::{Half, IoMethod};
use sys::call::{self, Error, Peer};
use sys::message::Moved;

pub use one_to_many::Associations;
pub(crate) use plain::Plain;
pub(crate) use sendfile::FromFile;
pub(crate) use splice::IntoNothing;

use crate::bulk::{Sink, Source};
use crate::end::{Bounds, Ran};
use crate::hooks::Hooks;
use crate::ring::Ring;

/// Datagrams in one sendmmsg(2) or recvmmsg(2), at most.
const MMSG_BATCH: usize = 64;

/// The sockets that a flow moves its data over.
#[derive(Debug)]
pub enum Flow<'a> {
    /// A connected socket, stream or datagram.
    Connected(BorrowedFd<'a>),
    /// A datagram socket and the address that it sends to.
    Addressed(BorrowedFd<'a>, Peer),
    /// The same, with the address that it sends from.
    AddressedFrom(BorrowedFd<'a>, Peer, IpAddr),
    /// Sockets and the addresses that they send to, used in turn.
    InTurn(Vec<(BorrowedFd<'a>, Peer)>),
    /// An SCTP socket with many associations: each message is answered where it came from.
    OneToMany(&'a Associations<'a>),
}

/// Work that runs over any I/O method.
pub(crate) trait Work {
    fn run(self, io: &impl Io) -> Ran;
}

/// Runs `work` over the method that fits the flow and the plan. This is the list of the methods;
/// [`FromFile`] and [`IntoNothing`], which have no buffers, replace the source or sink of any.
pub(crate) fn run(flow: Flow<'_>, half: &Half, work: impl Work) -> Ran {
    let polls = half.socket.non_blocking;
    if let (IoMethod::Mmsg, Some(mmsg)) = (half.io, mmsg::Mmsg::of(&flow)) {
        return work.run(&mmsg);
    }
    match flow {
        Flow::Connected(socket) if half.write_instead_of_send => work.run(&write::Written(socket)),
        Flow::Connected(socket) if polls => work.run(&polled::Polled::new(Plain(socket))),
        Flow::Connected(socket) => work.run(&Plain(socket)),
        Flow::Addressed(socket, to) => work.run(&addressed::Addressed { socket, to }),
        Flow::AddressedFrom(socket, to, from) => {
            work.run(&addressed::AddressedFrom::new(socket, to, from))
        }
        Flow::InTurn(sockets) if polls => work.run(&in_turn::polled(sockets)),
        Flow::InTurn(sockets) => work.run(&in_turn::addressed(sockets)),
        Flow::OneToMany(associations) if polls => work.run(&polled::Polled::new(associations)),
        Flow::OneToMany(associations) => work.run(&associations),
    }
}

/// The calls of one I/O method.
pub(crate) trait Io {
    fn socket(&self) -> BorrowedFd<'_>;

    /// Sends one message, or a part of a stream; returns the number of bytes.
    fn send(&self, data: &[u8]) -> Result<usize, Error>;

    /// As `send`, but EAGAIN instead of waiting.
    fn try_send(&self, data: &[u8]) -> Result<usize, Error>;

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

    /// Whether the kernel alone could take the data elsewhere: splice(2) is for streams.
    fn is_connected(&self) -> bool {
        true
    }

    /// Sends a stream of data from a ring: one buffer per call, unless the method has its own way.
    fn source<'a>(&'a self, ring: &'a mut Ring, _: Bounds<'a>) -> impl Source + 'a {
        FromRing { io: self, ring }
    }

    /// Receives a stream of data into a ring: one buffer per call, unless the method has its own way.
    fn sink<'a>(&'a self, ring: &'a mut Ring, _: Bounds<'a>) -> impl Sink + 'a {
        IntoRing { io: self, ring }
    }
}

/// One buffer of a ring per send call.
struct FromRing<'a, I: ?Sized> {
    io: &'a I,
    ring: &'a mut Ring,
}

impl<I: Io + ?Sized> Source for FromRing<'_, I> {
    fn size(&self) -> u32 {
        self.ring.size()
    }

    #[inline]
    fn send(&mut self, hooks: &mut impl Hooks) -> Result<Moved, Error> {
        let buffer = self.ring.advance();
        hooks.before_send(buffer);
        self.io.send(buffer).map(Moved::one)
    }
}

/// One buffer of a ring per receive call.
struct IntoRing<'a, I: ?Sized> {
    io: &'a I,
    ring: &'a mut Ring,
}

impl<I: Io + ?Sized> Sink for IntoRing<'_, I> {
    #[inline]
    fn receive(&mut self, hooks: &mut impl Hooks) -> Result<Moved, Error> {
        let buffer = self.ring.advance();
        let received = self.io.receive(buffer)?;
        hooks.after_receive(&mut buffer[..received]);
        Ok(Moved::one(received))
    }
}
