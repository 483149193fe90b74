//! What leads from one end to the other: that is known only when the control connection is there.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use sys::Address;
use sys::datagram::source_towards;
use sys::facts::is_own;

use crate::Protocol;
use control::ControlConnection;

/// Why no connection of this protocol can be had between the ends of this control connection, if so.
pub(crate) fn obstacle(protocol: Protocol, control: &ControlConnection) -> Option<String> {
    let is_vsock = |address: &Address| matches!(address, Address::Vsock { .. });
    match (protocol, is_vsock(control.peer())) {
        (Protocol::Unix, _) if !is_here(control.peer()) => Some(format!(
            "protocol=unix is for two ends on one machine, and {} is another",
            machine_text(control.peer())
        )),
        (Protocol::Vsock, false) => {
            let words = "protocol=vsock needs its control connection over VSOCK, too (-S vsock)";
            Some(words.to_owned())
        }
        (Protocol::Unix | Protocol::Vsock, _) | (_, false) => None,
        (_, true) => Some(format!(
            "protocol={protocol} does not lead to where a control connection over VSOCK comes from"
        )),
    }
}

/// Formats the address of a machine as uperf does: an IPv4 address in IPv6 notation, as of a dual-stack socket.
pub(crate) fn machine_text(address: &Address) -> String {
    match address {
        Address::Inet(address) => match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_string(),
            IpAddr::V6(ip) => ip.to_string(),
        },
        Address::Vsock { context, .. } => context.to_string(),
        other => other.to_string(),
    }
}

/// Where what listens at a port is to be found, given where its machine is.
pub(super) fn place(protocol: Protocol, machine: &Address, port: u32) -> Option<Address> {
    match protocol {
        Protocol::Unix => Some(unix_place(port)),
        _ => machine.with_port(port),
    }
}

/// Whether what goes to this address leaves from `here`, as the system chooses.
pub(super) fn leaves_from(here: &Address, to: &Address) -> bool {
    let chosen = to.ip().map(|_| source_towards(to));
    chosen.is_none_or(|chosen| chosen.is_ok_and(|chosen| chosen.ip() == here.ip()))
}

/// The name that a Unix domain socket has in the place of a port. It is no path: nothing is left behind
/// (unix(7), "abstract").
pub(super) fn unix_place(port: u32) -> Address {
    Address::Unix(PathBuf::from(format!("\0uperf-{port}")))
}

/// Any place of this end with this port; a Unix domain socket has none.
pub(crate) fn anywhere(protocol: Protocol, port: u32) -> Address {
    match protocol {
        Protocol::Vsock => Address::Vsock {
            context: Address::ANY_CONTEXT,
            port,
        },
        Protocol::Unix => Address::Unix(PathBuf::new()),
        _ => Address::Inet((Ipv4Addr::UNSPECIFIED, port as u16).into()),
    }
}

/// Whether it is this machine, and this network namespace, to which such names belong as well.
fn is_here(address: &Address) -> bool {
    match address {
        Address::Inet(address) => is_own(address.ip().to_canonical()),
        Address::Vsock { context, .. } => *context == Address::OWN_CONTEXT,
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
            assert_eq!(is_here(&address), expected, "{address}");
        }
        for context in [Address::OWN_CONTEXT, 3] {
            let here = is_here(&Address::Vsock { context, port: 1 });
            assert_eq!(here, context == Address::OWN_CONTEXT);
        }
    }

    #[test]
    fn addresses_are_those_of_a_dual_stack_socket() {
        let machine = Address::Inet("127.0.0.1:9".parse().unwrap());
        assert_eq!(machine_text(&machine), "::ffff:127.0.0.1");
    }

    #[test]
    fn a_unix_socket_has_a_name_for_its_port() {
        let machine = Address::Inet("127.0.0.1:9".parse().unwrap());
        let unix = place(Protocol::Unix, &machine, 70_000).unwrap();
        assert_eq!(unix.to_string(), "@uperf-70000");
        let tcp = place(Protocol::Tcp, &machine, 7).unwrap();
        assert_eq!(tcp.to_string(), "127.0.0.1:7");
        assert_eq!(place(Protocol::Tcp, &machine, 70_000), None);
    }
}
