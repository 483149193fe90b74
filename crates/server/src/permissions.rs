//! The changes that a request may make to this host. Without limits, a server that runs as root
//! could load kernel modules or open ports of the host's services for any client.

use model::Transport;
use sys::Address;
use sys::facts;

/// The permissions set by the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// `--allow-modules`: requests may cause the kernel to load modules.
    pub allows_modules: bool,
    /// `--allow-privileged-ports`: requests may use privileged ports.
    pub allows_privileged_ports: bool,
}

/// The first unprivileged VSOCK port: vsock(7).
const FIRST_UNPRIVILEGED_VSOCK_PORT: u32 = 1024;

impl Permissions {
    /// The reason to refuse `--user` and `--allow-privileged-ports` together.
    pub const NOT_WITH_USER: &str = "--allow-privileged-ports contradicts --user, which drops \
        the privilege to bind such ports";

    /// Returns whether a socket of this transport may be opened for an address of this family.
    /// Without the permission, the kernel must already have the protocol.
    pub fn allows_transport(self, transport: Transport, address: &Address) -> bool {
        if self.allows_modules {
            return true;
        }
        match protocol_name(transport, address.is_ipv6()) {
            // The protocol is available, because a control connection exists.
            None => true,
            Some(name) => facts::has_protocol(name),
        }
    }

    /// Returns whether this congestion control may be set. Without the permission, the kernel must
    /// already have it.
    pub fn allows_congestion_control(self, name: &str) -> bool {
        self.allows_modules || facts::has_congestion_control(name)
    }

    /// Returns whether a socket may be bound to the port of this address.
    pub fn allows_port(self, address: &Address) -> bool {
        let first_unprivileged = match address {
            Address::Inet(_) => facts::first_unprivileged_port(),
            Address::Vsock { .. } => FIRST_UNPRIVILEGED_VSOCK_PORT,
            Address::Unix(_) | Address::Llc(_) => return true,
        };
        self.allows_privileged_ports || address.port() == 0 || address.port() >= first_unprivileged
    }
}

/// Returns the transport's name in /proc/net/protocols; `None` if it is always available.
fn protocol_name(transport: Transport, is_ipv6: bool) -> Option<&'static str> {
    Some(match (transport, is_ipv6) {
        (Transport::Tcp | Transport::Udp, false) => return None,
        (Transport::Tcp, true) => "TCPv6",
        (Transport::Udp, true) => "UDPv6",
        (Transport::Mptcp, false) => "MPTCP",
        (Transport::Mptcp, true) => "MPTCPv6",
        (Transport::UdpLite, false) => "UDP-Lite",
        (Transport::UdpLite, true) => "UDPLITEv6",
        (Transport::Sctp | Transport::SctpMany, false) => "SCTP",
        (Transport::Sctp | Transport::SctpMany, true) => "SCTPv6",
        (Transport::Dccp, false) => "DCCP",
        (Transport::Dccp, true) => "DCCPv6",
        (Transport::UnixStream | Transport::UnixDatagram, _) => "UNIX",
        (Transport::Vsock, _) => "AF_VSOCK",
        (Transport::LlcStream | Transport::LlcDatagram, _) => "LLC",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Permissions = Permissions {
        allows_modules: false,
        allows_privileged_ports: false,
    };
    const ALL: Permissions = Permissions {
        allows_modules: true,
        allows_privileged_ports: true,
    };

    fn inet(text: &str) -> Address {
        Address::Inet(text.parse().unwrap())
    }

    #[test]
    fn privileged_ports_need_a_permission() {
        let first = facts::first_unprivileged_port();
        let vsock = |port| Address::Vsock { context: 3, port };
        for (address, allowed) in [
            (inet("0.0.0.0:0"), true),
            (inet("0.0.0.0:1"), first <= 1),
            (inet("[::]:443"), first <= 443),
            (inet("0.0.0.0:65535"), true),
            (vsock(0), true),
            (vsock(1023), false),
            (vsock(1024), true),
            (Address::Unix("/x".into()), true),
            (Address::Llc(sys::LlcAddress::default()), true),
        ] {
            assert_eq!(NONE.allows_port(&address), allowed, "{address}");
            assert!(ALL.allows_port(&address), "{address}");
        }
    }

    #[test]
    fn only_available_protocols_are_allowed() {
        let (v4, v6) = (inet("0.0.0.0:0"), inet("[::]:0"));
        for transport in [Transport::Tcp, Transport::Udp] {
            assert!(NONE.allows_transport(transport, &v4));
            assert!(NONE.allows_transport(transport, &v6));
        }
        assert!(NONE.allows_transport(Transport::UnixDatagram, &Address::Unix("".into())));
        for transport in [Transport::Sctp, Transport::Dccp] {
            let is_available = facts::has_protocol(protocol_name(transport, false).unwrap());
            assert_eq!(NONE.allows_transport(transport, &v4), is_available);
            assert!(ALL.allows_transport(transport, &v4));
        }
        let current = facts::congestion_control().unwrap();
        assert!(NONE.allows_congestion_control(&current));
        for name in ["", "no-such-one", "cubic reno", "../cubic"] {
            assert!(!NONE.allows_congestion_control(name), "{name}");
            assert!(ALL.allows_congestion_control(name));
        }
    }
}
