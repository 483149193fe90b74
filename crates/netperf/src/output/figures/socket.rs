//! Properties of the data socket, and the retransmissions on it.

use std::net::SocketAddr;

use model::{SocketFacts, Transport};
use sys::Address;

use super::{Figures, or_minus_one};
use crate::options::{Family, Test};

impl Figures<'_> {
    pub(in crate::output) fn max_segment(&self) -> i64 {
        or_minus_one(self.socket().max_segment_bytes)
    }

    /// Returns the retransmissions; −1 without TCP or in connection tests, −2 if not requested.
    pub(in crate::output) fn retransmits(&self) -> i64 {
        let is_countable =
            self.flow().transport.has_tcp_options() && !self.settings.direction.connection;
        let unknown = if is_countable { -2 } else { -1 };
        self.socket().retransmits.map_or(unknown, i64::from)
    }

    /// Returns the priority reported by the kernel; −1 if the socket lacks the option.
    pub(in crate::output) fn priority(&self) -> i32 {
        self.socket().priority.unwrap_or(-1)
    }

    /// Returns the priority at the peer. A stock peer reports the requested one.
    pub(in crate::output) fn remote_priority(&self) -> i32 {
        let remote = self.remote_socket().and_then(|socket| socket.priority);
        remote.unwrap_or(self.peer_response().priority)
    }

    /// Returns the type of service reported by the kernel; −1 if the socket lacks the option.
    pub(in crate::output) fn type_of_service(&self) -> i32 {
        self.socket().type_of_service.unwrap_or(-1)
    }

    /// Returns the type of service at the peer. A stock peer reports the requested one.
    pub(in crate::output) fn remote_type_of_service(&self) -> i32 {
        let remote = self
            .remote_socket()
            .and_then(|socket| socket.type_of_service);
        remote.unwrap_or(self.peer_response().type_of_service)
    }

    /// Returns TCP_NODELAY reported by the kernel; the requested value if the socket lacks it.
    pub(in crate::output) fn no_delay(&self) -> bool {
        let requested = self.local_plan().socket.no_delay;
        self.socket().no_delay.unwrap_or(requested)
    }

    /// Returns TCP_CORK reported by the kernel; the requested value if the socket lacks it.
    pub(in crate::output) fn cork(&self) -> bool {
        self.socket().cork.unwrap_or(self.local_plan().socket.cork)
    }

    /// Returns TCP_CORK at the peer. A stock peer does not report it. As in stock, the local value
    /// then stands for both ends: the protocol cannot transmit the remote one.
    pub(in crate::output) fn remote_cork(&self) -> bool {
        let remote = self.remote_socket().and_then(|socket| socket.cork);
        remote.unwrap_or(self.local_plan().socket.cork)
    }

    fn remote_socket(&self) -> Option<&SocketFacts> {
        Some(&self.run.outcome.remote.as_ref()?.socket)
    }

    pub(in crate::output) fn congestion_control(&self) -> &str {
        match (&self.socket().congestion_control, self.flow().transport) {
            (Some(name), _) => name,
            (None, transport) if !transport.has_tcp_options() && self.is_connected() => "TCP Only",
            (None, _) => "",
        }
    }

    /// Whether the data socket is connected to one peer.
    fn is_connected(&self) -> bool {
        self.flow().transport.has_connections() || self.local_plan().socket.connect_datagrams
    }

    /// Returns the name of the socket type. For TCP and UDP, it depends on the test: the stock tool
    /// prints "Stream" for an OMNI test over UDP.
    pub(in crate::output) fn socket_type(&self) -> &'static str {
        match (self.flow().transport, self.settings.test) {
            (Transport::Dccp, _) => "DCCP",
            (Transport::UdpLite, _) | (_, Test::UdpStream | Test::UdpRr) => "Datagram",
            _ => "Stream",
        }
    }

    pub(in crate::output) fn protocol(&self) -> &'static str {
        self.flow().transport.name()
    }

    /// Returns the requested address family, as the number of AF_UNSPEC, AF_INET, AF_INET6 or
    /// AF_VSOCK on Linux.
    pub(in crate::output) fn source_family(&self) -> i32 {
        match self.settings.data.local_family {
            Family::Unspecified => 0,
            Family::V4 => 2,
            Family::V6 => 10,
            Family::Vsock => 40,
        }
    }

    /// Returns the address family of the destination, as its number on Linux.
    pub(in crate::output) fn dest_family(&self) -> i32 {
        match &self.run.endpoints.dest {
            Address::Inet(SocketAddr::V6(_)) => 10,
            Address::Vsock { .. } => 40,
            _ => 2,
        }
    }
}
