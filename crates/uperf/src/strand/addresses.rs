//! Addresses of data connections, which depend on the control connection between the two ends.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use sys::Address;
use sys::datagram::preferred_source;
use sys::facts::is_local_address;

use crate::DataProtocol;
use control::ControlConnection;

/// Returns the reason if a data connection of this protocol is impossible between the two ends of
/// the control connection.
pub(crate) fn unreachable_reason(
    protocol: DataProtocol,
    control: &ControlConnection,
) -> Option<String> {
    let is_vsock = |address: &Address| matches!(address, Address::Vsock { .. });
    match (protocol, is_vsock(control.peer())) {
        (DataProtocol::Unix, _) if !is_this_machine(control.peer()) => Some(format!(
            "protocol=unix needs both ends on one machine; {} is another machine",
            ipv6_mapped_text(control.peer())
        )),
        (DataProtocol::Vsock, false) => {
            let text = "protocol=vsock needs a control connection over VSOCK (-S vsock)";
            Some(text.to_owned())
        }
        (DataProtocol::Unix | DataProtocol::Vsock, _) | (_, false) => None,
        (_, true) => Some(format!(
            "protocol={protocol} cannot reach the peer of a VSOCK control connection"
        )),
    }
}

/// Formats the address of a machine as uperf does: IPv4 addresses as IPv4-mapped IPv6 addresses.
pub(crate) fn ipv6_mapped_text(address: &Address) -> String {
    match address {
        Address::Inet(address) => match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_string(),
            IpAddr::V6(ip) => ip.to_string(),
        },
        Address::Vsock { context, .. } => context.to_string(),
        other => other.to_string(),
    }
}

/// Returns the address of a listener, given the address of its machine and the port.
pub(super) fn listener_address(
    protocol: DataProtocol,
    machine: &Address,
    port: u32,
) -> Option<Address> {
    match protocol {
        DataProtocol::Unix => Some(unix_address(port)),
        _ => machine.with_port(port),
    }
}

/// Whether the kernel would choose `local_address` as source address for packets to this address.
pub(super) fn is_route_source(local_address: &Address, to: &Address) -> bool {
    let source = to.ip().map(|_| preferred_source(to));
    source.is_none_or(|chosen| chosen.is_ok_and(|chosen| chosen.ip() == local_address.ip()))
}

/// Returns the name of a Unix domain socket, which replaces a port number. It is in the abstract
/// namespace (unix(7)), so no file is left behind.
pub(super) fn unix_address(port: u32) -> Address {
    Address::Unix(PathBuf::from(format!("\0uperf-{port}")))
}

/// Returns the wildcard address with this port. For a Unix domain socket the address is empty.
pub(crate) fn any_address(protocol: DataProtocol, port: u32) -> Address {
    match protocol {
        DataProtocol::Vsock => Address::Vsock {
            context: Address::ANY_CONTEXT,
            port,
        },
        DataProtocol::Unix => Address::Unix(PathBuf::new()),
        _ => Address::Inet((Ipv4Addr::UNSPECIFIED, port as u16).into()),
    }
}

/// Whether the address belongs to this machine and network namespace. Abstract socket names are
/// local to a network namespace, too.
fn is_this_machine(address: &Address) -> bool {
    match address {
        Address::Inet(address) => is_local_address(address.ip().to_canonical()),
        Address::Vsock { context, .. } => *context == Address::LOCAL_CONTEXT,
        Address::Unix(_) => true,
        Address::Llc(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known_by_its_addresses() {
        for (address, expected) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("192.0.2.1:1", false),
            ("[2001:db8::1]:1", false),
        ] {
            let address = Address::Inet(address.parse().unwrap());
            assert_eq!(is_this_machine(&address), expected, "{address}");
        }
        for context in [Address::LOCAL_CONTEXT, 3] {
            let is_local = is_this_machine(&Address::Vsock { context, port: 1 });
            assert_eq!(is_local, context == Address::LOCAL_CONTEXT);
        }
    }

    #[test]
    fn ipv4_addresses_print_as_ipv6() {
        let machine = Address::Inet("127.0.0.1:9".parse().unwrap());
        assert_eq!(ipv6_mapped_text(&machine), "::ffff:127.0.0.1");
    }

    #[test]
    fn a_unix_socket_has_a_name_for_its_port() {
        let machine = Address::Inet("127.0.0.1:9".parse().unwrap());
        let unix = listener_address(DataProtocol::Unix, &machine, 70_000).unwrap();
        assert_eq!(unix.to_string(), "@uperf-70000");
        let tcp = listener_address(DataProtocol::Tcp, &machine, 7).unwrap();
        assert_eq!(tcp.to_string(), "127.0.0.1:7");
        assert_eq!(listener_address(DataProtocol::Tcp, &machine, 70_000), None);
    }
}
