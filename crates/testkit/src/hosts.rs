//! Two hosts, as tests between machines need them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::namespace::{Namespace, link};

/// A client's and a server's host, joined by two links. On each link each host has two addresses of
/// each family.
#[derive(Debug)]
pub struct TwoHosts {
    /// Where clients run.
    pub client: Namespace,
    /// Where servers run.
    pub server: Namespace,
}

/// One of the addresses of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The link, 0 or 1: by its default route a host reaches nothing, so both are equal.
    pub link: u8,
    /// 0 for the address that the kernel chooses by itself, 1 for the secondary one.
    pub address: u8,
    /// Whether it is of IPv6.
    pub is_v6: bool,
}

const LINKS: [u8; 2] = [0, 1];
const CLIENT: u8 = 1;
const SERVER: u8 = 2;

impl TwoHosts {
    /// # Panics
    ///
    /// As [`Namespace::new`].
    #[expect(
        clippy::new_without_default,
        reason = "a system's resource is no default"
    )]
    pub fn new() -> Self {
        let (client, server) = (Namespace::bare(), Namespace::bare());
        let address = |host, link, address, is_v6| {
            let prefix = if is_v6 { 64 } else { 24 };
            let place = Place {
                link,
                address,
                is_v6,
            };
            format!("{}/{prefix}", place.of(host))
        };
        for number in LINKS {
            let name = format!("eth{number}");
            link(
                (&client, &name, &address(CLIENT, number, 0, false)),
                (&server, &name, &address(SERVER, number, 0, false)),
            );
            for (namespace, host) in [(&client, CLIENT), (&server, SERVER)] {
                namespace.enter(|| {
                    // A kernel without IPv6 has no such file.
                    let file = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
                    let _ = std::fs::write(file, "0");
                });
                let second = address(host, number, 1, false);
                namespace.ip(&format!("address add {second} dev {name}"));
                for which in [0, 1] {
                    let v6 = address(host, number, which, true);
                    // Without a moment in which an address may not be used yet.
                    let _ = namespace.run(&format!("ip address add {v6} dev {name} nodad"));
                }
            }
        }
        Self { client, server }
    }
}

impl Place {
    /// The client's address there.
    pub fn client(self) -> IpAddr {
        self.of(CLIENT)
    }

    /// The server's address there.
    pub fn server(self) -> IpAddr {
        self.of(SERVER)
    }

    fn of(self, host: u8) -> IpAddr {
        let host = host + 10 * self.address;
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
    fn addresses() {
        let place = |link, address, is_v6| Place {
            link,
            address,
            is_v6,
        };
        for (place, client, server) in [
            (place(0, 0, false), "198.18.0.1", "198.18.0.2"),
            (place(1, 1, false), "198.18.1.11", "198.18.1.12"),
            (place(0, 1, true), "fd00::b", "fd00::c"),
            (place(1, 0, true), "fd00:0:0:1::1", "fd00:0:0:1::2"),
        ] {
            let expected: [IpAddr; 2] =
                [client, server].map(|text| text.parse().expect("an address"));
            assert_eq!([place.client(), place.server()], expected);
        }
    }
}
