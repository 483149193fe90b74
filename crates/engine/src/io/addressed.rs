//! sendto(2) and sendmsg(2): datagrams from an unconnected socket.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use sys::call::{Error, Peer};
use sys::message::{self, ControlMessage};

use super::method::Io;

/// A datagram socket without a peer of its own.
pub(super) struct Addressed<'a> {
    pub(super) socket: BorrowedFd<'a>,
    pub(super) to: &'a Peer,
}

impl Io for Addressed<'_> {
    #[inline]
    fn peer(&self) -> Option<&Peer> {
        Some(self.to)
    }

    #[inline]
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket
    }
}

/// An unconnected datagram socket that sends each datagram from a given address of this host.
pub(super) struct AddressedFrom<'a> {
    socket: BorrowedFd<'a>,
    to: &'a Peer,
    from: ControlMessage,
}

impl<'a> AddressedFrom<'a> {
    pub(super) fn new(socket: BorrowedFd<'a>, to: &'a Peer, from: IpAddr) -> Self {
        let from = ControlMessage::source(from);
        Self { socket, to, from }
    }
}

impl Io for AddressedFrom<'_> {
    fn peer(&self) -> Option<&Peer> {
        Some(self.to)
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket
    }

    fn send(&self, data: &[u8]) -> Result<usize, Error> {
        message::send_with(self.socket, data, Some(self.to), &self.from, true)
    }

    fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
        message::send_with(self.socket, data, Some(self.to), &self.from, false)
    }
}
