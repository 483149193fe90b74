//! Numbers of data protocols on the control connection.

use crate::DataProtocol;

/// Returns the number of the protocol in a flowop.
pub fn protocol_number(protocol: DataProtocol) -> u32 {
    protocol as u32
}

/// Returns the protocol with this number; `None` for 0, which means no protocol.
pub fn protocol_from_number(number: u32) -> Option<DataProtocol> {
    let mut all = DataProtocol::ALL.into_iter();
    all.find(|protocol| protocol_number(*protocol) == number)
}

/// Returns the name of this number in a refusal.
pub(super) fn name_in_refusal(number: u32) -> String {
    protocol_from_number(number).map_or_else(
        || "Unknown".to_owned(),
        |protocol| protocol.name().to_ascii_uppercase(),
    )
}

/// Returns the index of the protocol in [`SlaveInfo`](super::SlaveInfo): its number, or 0 for Unix
/// domain sockets. No other protocol uses 0.
pub(super) fn slave_info_index(protocol: DataProtocol) -> usize {
    match protocol {
        DataProtocol::Unix => 0,
        other => protocol_number(other) as usize,
    }
}

/// Returns the index of the protocol in a [`Header`](super::Header). Protocols that only linerate
/// supports have the index of uDAPL, which every stock slave refuses in phase 1.
pub(super) fn header_index(protocol: DataProtocol) -> usize {
    match protocol {
        DataProtocol::Unix | DataProtocol::Mptcp => DataProtocol::Mptcp as usize,
        other => protocol_number(other) as usize,
    }
}

/// Returns the protocols with this index in a [`Header`](super::Header).
pub(super) fn protocols_at_index(index: usize) -> impl Iterator<Item = DataProtocol> {
    let all = DataProtocol::ALL.into_iter();
    all.filter(move |protocol| header_index(*protocol) == index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_have_uperfs_numbers() {
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
            let named = DataProtocol::from_name(name).expect("a protocol");
            assert_eq!(protocol_number(named), expected, "{name}");
            assert_eq!(protocol_from_number(expected), Some(named));
            assert_eq!(name_in_refusal(expected).to_lowercase(), name);
            assert!(slave_info_index(named) < 8 && header_index(named) < 8);
            assert!(protocols_at_index(header_index(named)).any(|protocol| protocol == named));
        }
        assert_eq!(
            (protocol_from_number(0), protocol_from_number(9)),
            (None, None)
        );
        assert_eq!(name_in_refusal(0), "Unknown");
    }
}
