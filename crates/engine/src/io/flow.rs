//! The data sockets of a flow.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use sys::call::Peer;

use super::one_to_many::Associations;

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
