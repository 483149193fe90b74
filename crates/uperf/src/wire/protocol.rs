//! The numbers of data protocols.

use crate::Protocol;

/// How a flowop names it.
///
/// 2 was meant for uDAPL, which no build ever had: Multipath TCP has it here. Unix domain sockets
/// have the first number beyond uperf's.
pub fn protocol_number(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::Tcp => 1,
        Protocol::Mptcp => OWN,
        Protocol::Udp => 3,
        Protocol::Rds => 4,
        Protocol::Ssl => 5,
        Protocol::Sctp => 6,
        Protocol::Vsock => 7,
        Protocol::Unix => 8,
    }
}

/// The protocol of this number; 0 is that of a flowop without one.
pub fn protocol_numbered(number: u32) -> Option<Protocol> {
    [
        Protocol::Tcp,
        Protocol::Mptcp,
        Protocol::Udp,
        Protocol::Rds,
        Protocol::Ssl,
        Protocol::Sctp,
        Protocol::Vsock,
        Protocol::Unix,
    ]
    .into_iter()
    .find(|protocol| protocol_number(*protocol) == number)
}

/// The name that a refusal has for this number.
pub(super) fn refused_name(number: u32) -> &'static str {
    match protocol_numbered(number) {
        Some(Protocol::Tcp) => "TCP",
        Some(Protocol::Mptcp) => "MPTCP",
        Some(Protocol::Udp) => "UDP",
        Some(Protocol::Rds) => "RDS",
        Some(Protocol::Ssl) => "SSL",
        Some(Protocol::Sctp) => "SCTP",
        Some(Protocol::Vsock) => "VSOCK",
        Some(Protocol::Unix) => "UNIX",
        None => "Unknown",
    }
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
        Protocol::Unix | Protocol::Mptcp => OWN as usize,
        other => protocol_number(other) as usize,
    }
}

/// All that may be meant by what a [`Header`](super::Header) announces there.
pub(super) fn announcing(index: usize) -> impl Iterator<Item = Protocol> {
    let all = (1..=8).filter_map(protocol_numbered);
    all.filter(move |protocol| announced(*protocol) == index)
}

const OWN: u32 = 2;

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
