//! The numbers of data protocols.

use crate::Protocol;

/// How a flowop names it.
pub fn protocol_number(protocol: Protocol) -> u32 {
    protocol as u32
}

/// The protocol of this number; 0 is that of a flowop without one.
pub fn protocol_numbered(number: u32) -> Option<Protocol> {
    let mut all = Protocol::ALL.into_iter();
    all.find(|protocol| protocol_number(*protocol) == number)
}

/// The name that a refusal has for this number.
pub(super) fn refused_name(number: u32) -> String {
    protocol_numbered(number).map_or_else(
        || "Unknown".to_owned(),
        |protocol| protocol.name().to_ascii_uppercase(),
    )
}

/// Where ports of the protocol stand in a [`SlaveInfo`](super::SlaveInfo): the place of the number,
/// and of Unix domain sockets that of 0, which nothing else uses.
pub(super) fn slot(protocol: Protocol) -> usize {
    match protocol {
        Protocol::Unix => 0,
        other => protocol_number(other) as usize,
    }
}

/// Where a [`Header`](super::Header) announces the protocol. Whatever is linerate's own is announced
/// as uDAPL, so that every other slave refuses it at once.
pub(super) fn announced(protocol: Protocol) -> usize {
    match protocol {
        Protocol::Unix | Protocol::Mptcp => Protocol::Mptcp as usize,
        other => protocol_number(other) as usize,
    }
}

/// All that may be meant by what a [`Header`](super::Header) announces there.
pub(super) fn announcing(index: usize) -> impl Iterator<Item = Protocol> {
    let all = Protocol::ALL.into_iter();
    all.filter(move |protocol| announced(*protocol) == index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_uperfs() {
        for (name, expected) in [
            ("tcp", 1),
            ("mptcp", 2),
            ("udp", 3),
            ("rds", 4),
            ("ssl", 5),
            ("sctp", 6),
            ("vsock", 7),
            ("unix", 8),
        ] {
            let named = Protocol::named(name).expect("a protocol");
            assert_eq!(protocol_number(named), expected, "{name}");
            assert_eq!(protocol_numbered(expected), Some(named));
            assert_eq!(refused_name(expected).to_lowercase(), name);
            assert!(slot(named) < 8 && announced(named) < 8);
            assert!(announcing(announced(named)).any(|protocol| protocol == named));
        }
        assert_eq!((protocol_numbered(0), protocol_numbered(9)), (None, None));
        assert_eq!(refused_name(0), "Unknown");
    }
}
