//! Networks that clients may connect from.

use std::fmt;
use std::net::IpAddr;

/// A set of addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// One address of the network. An IPv4 address is never in IPv6 notation.
    address: IpAddr,
    /// The length of the common prefix in bits.
    bits: u8,
}

impl Network {
    /// Parses `10.0.0.0/8`, `fd00::/8`, or a single address. The error is the reason.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        Self::parse_prefix(text).ok_or("not an address or a network (10.0.0.0/8, fd00::/8)")
    }

    fn parse_prefix(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        // An IPv4 address in IPv6 notation would need another prefix length.
        if address != address.to_canonical() {
            return None;
        }
        let max_bits = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) if bits.bytes().all(|c| c.is_ascii_digit()) => bits.parse().ok()?,
            Some(_) => return None,
            None => max_bits,
        };
        (bits <= max_bits).then_some(Self { address, bits })
    }

    /// Returns the network of the addresses whose first `bits` bits equal those of `address`.
    pub(crate) fn new(address: IpAddr, bits: u8) -> Self {
        Self { address, bits }
    }

    /// Returns whether the network contains this address, in either notation.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => has_common_prefix(
                u32::from(ours).into(),
                u32::from(theirs).into(),
                32,
                self.bits,
            ),
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                has_common_prefix(ours.into(), theirs.into(), 128, self.bits)
            }
            _ => false,
        }
    }
}

/// Returns whether the first `bits` bits of two addresses of `width` bits are equal.
fn has_common_prefix(first: u128, second: u128, width: u8, bits: u8) -> bool {
    let differ = (first ^ second).checked_shr(u32::from(width - bits));
    differ.unwrap_or(0) == 0
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_its_network() {
        for (network, address, inside) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.3/8", "10.9.9.9", true),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
            ("10.0.0.0/8", "::a00:1", false),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.6", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "fe80::1", true),
            ("::/0", "127.0.0.1", false),
            ("::1", "::1", true),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fc00::1", false),
            ("2001:db8::/33", "2001:db8:7fff::", true),
            ("2001:db8::/33", "2001:db8:8000::", false),
        ] {
            let network = Network::parse(network).unwrap();
            let address = address.parse().unwrap();
            assert_eq!(network.contains(address), inside, "{network} {address}");
        }
    }

    #[test]
    fn invalid_networks_are_rejected() {
        for text in [
            "",
            "/",
            "10.0.0.0/",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10/8",
            "host",
            "10.0.0.0/8/8",
            "::ffff:10.0.0.0/104",
            "10.0.0.0/256",
            "fe80::1%lo/64",
        ] {
            assert!(Network::parse(text).is_err(), "{text}");
        }
    }
}
