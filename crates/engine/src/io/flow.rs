//! The data sockets of a flow.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use sys::call::KernelAddress;

use super::one_to_many::Associations;

/// The sockets that a flow moves its data over.
#[derive(Debug)]
pub enum FlowSockets<'a> {
    /// A connected socket, stream or datagram.
    Connected(BorrowedFd<'a>),
    /// A datagram socket and the address that it sends to.
    Addressed(BorrowedFd<'a>, KernelAddress),
    /// A datagram socket, the address that it sends to, and the address that it sends from.
    AddressedFrom(BorrowedFd<'a>, KernelAddress, IpAddr),
    /// Sockets and the addresses that they send to, used in turn.
    RoundRobin(Vec<(BorrowedFd<'a>, KernelAddress)>),
    /// An SCTP socket with many associations; it sends to the source of the last message.
    OneToMany(&'a Associations<'a>),
}
