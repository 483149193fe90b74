//! What the data socket was, and what TCP did on it.

use std::net::SocketAddr;

use model::{SocketFacts, Transport};
use sys::Address;

use super::{Figures, known};
use crate::options::{Family, Test};

impl Figures<'_> {
    pub(in crate::output) fn max_segment(&self) -> i64 {
        known(self.socket().max_segment_bytes)
    }

    /// −1 where there is no TCP or no single connection, −2 where nobody asked.
    pub(in crate::output) fn retransmits(&self) -> i64 {
        let is_countable =
            self.flow().transport.has_tcp_options() && !self.settings.direction.connection;
        let unknown = if is_countable { -2 } else { -1 };
        self.socket().retransmits.map_or(unknown, i64::from)
    }

    /// As the kernel has it; −1 where there is no such option.
    pub(in crate::output) fn priority(&self) -> i32 {
        self.socket().priority.unwrap_or(-1)
    }

    /// Likewise at the peer. A stock one tells what was asked for.
    pub(in crate::output) fn remote_priority(&self) -> i32 {
        let there = self.remote_socket().and_then(|there| there.priority);
        there.unwrap_or(self.peer().priority)
    }

    /// As the kernel has it; −1 where there is no such option.
    pub(in crate::output) fn type_of_service(&self) -> i32 {
        self.socket().type_of_service.unwrap_or(-1)
    }

    /// Likewise at the peer. A stock one tells what was asked for.
    pub(in crate::output) fn remote_type_of_service(&self) -> i32 {
        let there = self.remote_socket().and_then(|there| there.type_of_service);
        there.unwrap_or(self.peer().type_of_service)
    }

    /// As the kernel has it; what was asked for where there is no such option.
    pub(in crate::output) fn no_delay(&self) -> bool {
        let asked = self.here().socket.no_delay;
        self.socket().no_delay.unwrap_or(asked)
    }

    /// Likewise.
    pub(in crate::output) fn cork(&self) -> bool {
        self.socket().cork.unwrap_or(self.here().socket.cork)
    }

    /// At the peer. A stock one tells nothing, and stock's answer is what was asked of this end: one
    /// option is for both, though the protocol has no word for it.
    pub(in crate::output) fn remote_cork(&self) -> bool {
        let there = self.remote_socket().and_then(|there| there.cork);
        there.unwrap_or(self.here().socket.cork)
    }

    fn remote_socket(&self) -> Option<&SocketFacts> {
        Some(&self.run.outcome.there.as_ref()?.socket)
    }

    pub(in crate::output) fn congestion_control(&self) -> &str {
        match (&self.socket().congestion_control, self.flow().transport) {
            (Some(name), _) => name,
            (None, other) if !other.has_tcp_options() && self.is_connected() => "TCP Only",
            (None, _) => "",
        }
    }

    /// Whether the data socket has one peer.
    fn is_connected(&self) -> bool {
        self.flow().transport.has_connections() || self.here().socket.connect_datagrams
    }

    /// Of TCP and UDP by the test's name: an OMNI test over UDP is a "Stream" to the stock tool.
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

    /// AF_UNSPEC, AF_INET or AF_INET6 as this system numbers them: the one that was asked for.
    pub(in crate::output) fn source_family(&self) -> i32 {
        match self.settings.data.local_family {
            Family::Unspecified => 0,
            Family::V4 => 2,
            Family::V6 => 10,
            Family::Vsock => 40,
        }
    }

    /// Likewise, the one that the destination has.
    pub(in crate::output) fn dest_family(&self) -> i32 {
        match &self.run.endpoints.dest {
            Address::Inet(SocketAddr::V6(_)) => 10,
            Address::Vsock { .. } => 40,
            _ => 2,
        }
    }
}
