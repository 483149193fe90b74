//! The addresses that may receive data although nothing has proven them.
//!
//! The source of a datagram can be forged. A server that sent more than it received to such a
//! source would amplify an attack on a third party.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sys::Address;
use sys::interface::{self, InterfaceAddress};

use crate::Network;

/// The reason to send less to a client than it requested.
pub const UNPROVEN_ADDRESS: &str = "its address is not proven (--allow-third-party accepts it)";

/// The maximum number of bytes sent per byte received from an unproven address (RFC 9000, section
/// 8.1).
pub const MAX_AMPLIFICATION: u64 = 3;

/// The time after which the interfaces are read again.
const INTERFACES_TIME: Duration = Duration::from_secs(1);

/// `--allow-third-party`: addresses that the operator allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThirdParties {
    /// Whether all addresses are allowed.
    pub allows_all: bool,
    /// The allowed networks.
    pub networks: Vec<Network>,
}

/// The addresses of this host's interfaces.
#[derive(Debug, Default)]
pub(crate) struct LocalLinks(Mutex<Option<(Instant, Vec<InterfaceAddress>)>>);

impl ThirdParties {
    /// Adds the networks of an option's value, separated by commas; without a value, all addresses.
    pub fn allow(&mut self, value: &str) -> Result<(), &'static str> {
        if value.is_empty() {
            self.allows_all = true;
            return Ok(());
        }
        for network in value.split(',') {
            self.networks.push(Network::parse(network)?);
        }
        Ok(())
    }

    /// Returns whether the operator allows this address.
    pub fn contain(&self, address: &Address) -> bool {
        self.allows_all
            || address
                .ip()
                .is_some_and(|ip| self.networks.iter().any(|network| network.contains(ip)))
    }
}

impl LocalLinks {
    /// Returns whether the address belongs to this host or to a host on the same link.
    pub(crate) fn contain(&self, address: &Address) -> bool {
        let Address::Inet(address) = address else {
            return false;
        };
        if address.ip().to_canonical().is_loopback() {
            return true;
        }
        let mut addresses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = |(read, _): &(Instant, _)| read.elapsed() < INTERFACES_TIME;
        if !addresses.as_ref().is_some_and(is_current) {
            // Without the addresses, no address is exempt.
            let read = interface::addresses().unwrap_or_default();
            *addresses = Some((Instant::now(), read));
        }
        let (_, addresses) = addresses.as_ref().expect("read above");
        addresses.iter().any(|own| is_near(own, address))
    }
}

/// Returns whether an address is this address of an interface, or in its prefix on a broadcast link.
fn is_near(own: &InterfaceAddress, address: &SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    // Each interface has the same link-local prefix.
    let is_other_interface = match address {
        SocketAddr::V6(v6) => v6.scope_id() != 0 && v6.scope_id() != own.index,
        SocketAddr::V4(_) => false,
    };
    let is_in_prefix = || Network::new(own.prefix, own.prefix_bits).contains(ip);
    !is_other_interface
        && (ip == own.local || (own.is_on_broadcast_link && own.prefix_bits > 0 && is_in_prefix()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_broadcast_links_have_neighbours() {
        let own = |prefix: &str, prefix_bits, is_on_broadcast_link| InterfaceAddress {
            index: 7,
            local: "192.0.2.1".parse().unwrap(),
            prefix: prefix.parse().unwrap(),
            prefix_bits,
            is_on_broadcast_link,
        };
        for (own, address, expected) in [
            (own("192.0.2.1", 24, true), "192.0.2.9:1", true),
            (own("192.0.2.1", 24, true), "[::ffff:192.0.2.9]:1", true),
            (own("192.0.2.1", 24, true), "192.0.3.9:1", false),
            (own("192.0.2.1", 24, false), "192.0.2.1:1", true),
            // A point-to-point link, and a prefix that every address has.
            (own("192.0.2.1", 24, false), "192.0.2.9:1", false),
            (own("192.0.2.1", 0, true), "198.51.100.1:1", false),
            // The address of a peer.
            (own("198.51.100.7", 32, true), "198.51.100.7:1", true),
            (own("198.51.100.7", 32, true), "192.0.2.9:1", false),
            (own("fe80::1", 64, true), "[fe80::9%7]:1", true),
            (own("fe80::1", 64, true), "[fe80::9%8]:1", false),
        ] {
            let parsed = address.parse().unwrap();
            assert_eq!(is_near(&own, &parsed), expected, "{own:?} {address}");
        }
    }

    #[test]
    fn an_option_without_value_allows_all() {
        let address = Address::Inet("192.0.2.1:1".parse().unwrap());
        let mut allowed = ThirdParties::default();
        assert!(!allowed.contain(&address));
        allowed.allow("10.0.0.0/8,fd00::/8").unwrap();
        assert!(!allowed.contain(&address));
        assert!(allowed.allow("10/8").is_err());
        let mut all = allowed.clone();
        all.allow("").unwrap();
        allowed.allow("192.0.2.0/24").unwrap();
        assert!(all.contain(&address) && allowed.contain(&address));
    }
}
