//! Properties of the first hop of a path.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use model::MAX_UDP_PAYLOAD;

/// Returns the payload of the largest datagram that crosses the first hop unfragmented, in bytes.
pub(super) fn largest_datagram(remote: SocketAddr) -> u32 {
    let mtu = local_address_to(remote).and_then(|local| engine::host_facts(Some(local)).mtu_bytes);
    max_payload(remote, mtu)
}

/// Returns the source address that the kernel would choose for packets to `remote`.
fn local_address_to(remote: SocketAddr) -> Option<IpAddr> {
    let wildcard: IpAddr = if remote.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    // Connecting a datagram socket sends nothing: udp(7).
    let socket = UdpSocket::bind((wildcard, 0)).ok()?;
    socket.connect(remote).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn max_payload(remote: SocketAddr, mtu: Option<u32>) -> u32 {
    let headers = if remote.is_ipv4() { 20 + 8 } else { 40 + 8 };
    mtu.unwrap_or(ETHERNET_MTU)
        .saturating_sub(headers)
        .clamp(1, MAX_UDP_PAYLOAD)
}

/// Ethernet's MTU in bytes (RFC 894), for interfaces whose MTU is unknown.
const ETHERNET_MTU: u32 = 1500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_fit_the_first_hop() {
        for (remote, mtu, bytes) in [
            ("192.0.2.1:9", Some(1500), 1472),
            ("[2001:db8::1]:9", Some(1500), 1452),
            ("192.0.2.1:9", Some(9000), 8972),
            ("127.0.0.1:9", Some(65_536), 65_507),
            ("[::1]:9", Some(65_536), 65_488),
            ("192.0.2.1:9", None, 1472),
            ("192.0.2.1:9", Some(0), 1),
        ] {
            assert_eq!(
                max_payload(remote.parse().unwrap(), mtu),
                bytes,
                "{remote} {mtu:?}"
            );
        }
    }
}
