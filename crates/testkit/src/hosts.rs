//! Two hosts in network namespaces, for tests between machines.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::namespace::{Namespace, add_link};

/// Range from which the kernel of the client host chooses ports. A connection test of stock netperf
/// binds to hundreds of consecutive ports from 5000 on, beginning at a random one. If one of them
/// belongs to an earlier control connection, stock connects from the first address instead of the
/// requested one.
const CLIENT_PORTS: &str = "1024 4999";

/// A client host and a server host, joined by two links. On each link, each host has two IPv4 and
/// two IPv6 addresses.
#[derive(Debug)]
pub struct TwoHosts {
    /// Host of the clients.
    pub client: Namespace,
    /// Host of the servers.
    pub server: Namespace,
}

/// One of the addresses of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddress {
    /// The link, 0 or 1. The hosts have no default route, so neither link is preferred.
    pub link: u8,
    /// 0 for the source address that the kernel chooses, 1 for the secondary address.
    pub index: u8,
    /// Whether the address is an IPv6 address.
    pub is_v6: bool,
}

const LINKS: [u8; 2] = [0, 1];
const CLIENT_HOST: u8 = 1;
const SERVER_HOST: u8 = 2;

impl TwoHosts {
    /// Creates the hosts and their links.
    ///
    /// # Panics
    ///
    /// If this machine cannot create network namespaces.
    #[expect(
        clippy::new_without_default,
        reason = "a system resource is not a default value"
    )]
    pub fn new() -> Self {
        let (client, server) = (
            Namespace::with_loopback_only(),
            Namespace::with_loopback_only(),
        );
        let address = |host, link, index, is_v6| {
            let prefix_length = if is_v6 { 64 } else { 24 };
            let link_address = LinkAddress { link, index, is_v6 };
            format!("{}/{prefix_length}", link_address.on_host(host))
        };
        for link in LINKS {
            let name = format!("eth{link}");
            add_link(
                (&client, &name, &address(CLIENT_HOST, link, 0, false)),
                (&server, &name, &address(SERVER_HOST, link, 0, false)),
            );
            for (namespace, host) in [(&client, CLIENT_HOST), (&server, SERVER_HOST)] {
                namespace.enter(|| {
                    // A kernel without IPv6 has no such file.
                    let file = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
                    let _ = std::fs::write(file, "0");
                });
                let secondary = address(host, link, 1, false);
                namespace.ip(&format!("address add {secondary} dev {name}"));
                for index in [0, 1] {
                    let v6 = address(host, link, index, true);
                    // nodad makes the address usable immediately.
                    let _ = namespace.run(&format!("ip address add {v6} dev {name} nodad"));
                }
            }
        }
        client.enter(|| {
            let file = "/proc/sys/net/ipv4/ip_local_port_range";
            std::fs::write(file, CLIENT_PORTS).expect("root can set the ports of a namespace");
        });
        Self { client, server }
    }
}

impl LinkAddress {
    /// Returns this address of the client host.
    pub fn client(self) -> IpAddr {
        self.on_host(CLIENT_HOST)
    }

    /// Returns this address of the server host.
    pub fn server(self) -> IpAddr {
        self.on_host(SERVER_HOST)
    }

    fn on_host(self, host: u8) -> IpAddr {
        let host = host + 10 * self.index;
        if self.is_v6 {
            let segments = [0xfd00, 0, 0, self.link.into(), 0, 0, 0, host.into()];
            return Ipv6Addr::from(segments).into();
        }
        Ipv4Addr::new(198, 18, self.link, host).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_differ_by_host_link_and_index() {
        let link_address = |link, index, is_v6| LinkAddress { link, index, is_v6 };
        for (link_address, client, server) in [
            (link_address(0, 0, false), "198.18.0.1", "198.18.0.2"),
            (link_address(1, 1, false), "198.18.1.11", "198.18.1.12"),
            (link_address(0, 1, true), "fd00::b", "fd00::c"),
            (link_address(1, 0, true), "fd00:0:0:1::1", "fd00:0:0:1::2"),
        ] {
            let expected: [IpAddr; 2] =
                [client, server].map(|text| text.parse().expect("an address"));
            assert_eq!([link_address.client(), link_address.server()], expected);
        }
    }
}
