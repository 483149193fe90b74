//! The check that a test's data comes from its client.
//!
//! A control connection proves its peer's address. Any host can open a data connection, which
//! proves only its own address. The source of a datagram proves nothing. So a test accepts data
//! from the peer of its control connection, or from the address in its request. It sends datagrams
//! only to the peer of its control connection, unless the operator allows more.

use std::mem::discriminant;

use sys::Address;

use crate::ThirdParties;

/// The permissions set by the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerPolicy {
    /// `--allow-third-party`: datagrams may be sent to these addresses too.
    pub third_parties: ThirdParties,
    /// `--strict-peers`: connections from unexpected addresses are refused.
    pub is_strict: bool,
}

/// The expected source of a test's data.
#[derive(Clone, Debug)]
pub struct DataPeer<'a> {
    /// The other end of the control connection.
    pub control: &'a Address,
    /// The address in the request, if any.
    pub requested: Option<&'a Address>,
    /// Whether the request asks for data at another address of this host than the control
    /// connection's, or over another family. The client's address there is unknown.
    pub is_on_other_network: bool,
    /// The permissions set by the operator.
    pub policy: PeerPolicy,
}

impl<'a> DataPeer<'a> {
    /// Returns the expected source of a client that sends data from its own address, under the
    /// default policy.
    pub fn for_control_address(control: &'a Address) -> Self {
        Self {
            control,
            requested: None,
            is_on_other_network: false,
            policy: PeerPolicy::default(),
        }
    }

    /// Returns whether data from `source` is expected. Expected sources are the control
    /// connection's peer, the address in the request, and any address of this host if the control
    /// connection's peer is on it. An address of another family than the control connection's
    /// cannot be compared, so it is expected too. If the data uses another network than the control
    /// connection, every address is expected, unless the operator forbids it.
    pub fn expects(&self, source: &Address) -> bool {
        let is_comparable = discriminant(source) == discriminant(self.control);
        !is_comparable
            || (self.is_on_other_network && !self.policy.is_strict)
            || self.is_control_peer(source)
            || self
                .requested
                .is_some_and(|requested| requested.shares_host_with(source))
    }

    /// Returns whether datagrams may be sent to `target`. Only the control connection's peer is
    /// allowed, unless the operator allows more. An address in a request does not prove that its
    /// owner agrees.
    pub fn may_send_to(&self, target: &Address) -> bool {
        // A path leads only to this host, and a hardware address only to the same link. Neither can
        // be used to attack a third party elsewhere.
        let cannot_be_misused = match target {
            Address::Unix(path) => !path.as_os_str().is_empty(),
            Address::Llc(_) => true,
            _ => false,
        };
        cannot_be_misused
            || self.policy.third_parties.contain(target)
            || self.is_control_peer(target)
    }

    /// Returns whether an address is that of the control connection's peer, or both are of this host.
    pub(crate) fn is_control_peer(&self, address: &Address) -> bool {
        let is_local = |address: &Address| {
            let ip = address.ip().map(|ip| ip.to_canonical());
            ip.is_some_and(sys::facts::is_local_address)
        };
        address.shares_host_with(self.control) || (is_local(self.control) && is_local(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inet(text: &str) -> Address {
        Address::Inet(text.parse().unwrap())
    }

    #[test]
    fn datagrams_go_to_the_control_peer_alone() {
        // The peer is on another host, so all addresses of this host are treated alike.
        let control = inet("192.0.2.1:7");
        let requested = inet("192.0.2.2:7");
        let mut peer = DataPeer {
            requested: Some(&requested),
            ..DataPeer::for_control_address(&control)
        };
        assert!(peer.may_send_to(&inet("192.0.2.1:9")));
        assert!(peer.may_send_to(&inet("[::ffff:192.0.2.1]:9")));
        assert!(!peer.may_send_to(&requested));
        assert!(!peer.may_send_to(&inet("127.0.0.1:9")));
        assert!(!peer.may_send_to(&Address::Unix("".into())));
        assert!(peer.expects(&requested));
        assert!(!peer.expects(&inet("192.0.2.3:7")));
        // These cannot be compared with the control connection's address.
        for other in [
            Address::Unix("".into()),
            Address::Llc(sys::LlcAddress::default()),
            Address::Vsock {
                context: 3,
                port: 1,
            },
        ] {
            assert!(peer.expects(&other), "{other}");
        }
        // The data uses another network. That proves no target of datagrams.
        peer.is_on_other_network = true;
        assert!(peer.expects(&inet("192.0.2.3:7")) && peer.expects(&inet("[2001:db8::3]:7")));
        assert!(!peer.may_send_to(&inet("192.0.2.3:7")));
        peer.policy.is_strict = true;
        assert!(!peer.expects(&inet("192.0.2.3:7")) && peer.expects(&requested));

        peer.policy.third_parties.allow("192.0.2.2").unwrap();
        assert!(peer.may_send_to(&requested) && !peer.may_send_to(&inet("192.0.2.3:7")));
        let local = inet("127.0.0.1:7");
        assert!(DataPeer::for_control_address(&local).may_send_to(&inet("127.0.0.2:9")));
    }
}
