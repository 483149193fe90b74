//! sendto(2) and sendmsg(2): datagrams from an unconnected socket.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use sys::call::{Error, KernelAddress};
use sys::message::{self, ControlMessage};

use super::method::Io;

/// An unconnected datagram socket.
pub(super) struct Addressed<'a> {
    pub(super) socket: BorrowedFd<'a>,
    pub(super) to: &'a KernelAddress,
}

impl Io for Addressed<'_> {
    #[inline]
    fn peer(&self) -> Option<&KernelAddress> {
        Some(self.to)
    }

    #[inline]
    fn socket(&self) -> BorrowedFd<'_> {
        self.socket
    }
}

/// An unconnected datagram socket that sends each datagram from a given local address.
pub(super) struct AddressedFrom<'a> {
    socket: BorrowedFd<'a>,
    to: &'a KernelAddress,
    source_control: ControlMessage,
}

impl<'a> AddressedFrom<'a> {
    pub(super) fn new(socket: BorrowedFd<'a>, to: &'a KernelAddress, from: IpAddr) -> Self {
        Self {
            socket,
            to,
            source_control: ControlMessage::for_source(from),
        }
    }
}

impl Io for AddressedFrom<'_> {
    fn peer(&self) -> Option<&KernelAddress> {
        Some(self.to)
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket
    }

    fn send(&self, data: &[u8]) -> Result<usize, Error> {
        message::send_with_control(self.socket, data, Some(self.to), &self.source_control, true)
    }

    fn try_send(&self, data: &[u8]) -> Result<usize, Error> {
        message::send_with_control(
            self.socket,
            data,
            Some(self.to),
            &self.source_control,
            false,
        )
    }
}
