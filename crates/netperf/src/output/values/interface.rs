//! The values of selectors about the network interfaces of both hosts.

use model::{Interface, PciIds, Side, Traffic};

use super::{ABSENT, DEPRECATED, UNKNOWN, count, int, text};

/// The available information about the interface of one host.
#[derive(Clone, Copy, Debug)]
pub(in crate::output) enum InterfaceReport<'a> {
    /// The host reported nothing. This is the case for a stock peer.
    NotReported,
    /// The host could not determine the interface, or the transport has none.
    Unknown,
    /// The reported interface.
    Facts(&'a Interface),
}

impl<'a> InterfaceReport<'a> {
    /// Creates the report of one side. A side that reports its host also looked for the interface.
    pub(in crate::output) fn for_side(side: &'a Side) -> Self {
        match &side.interface {
            Some(interface) => Self::Facts(interface),
            None if side.host.is_some() => Self::Unknown,
            None => Self::NotReported,
        }
    }
}

/// Formats a fact as text.
pub(super) fn format_fact(
    report: InterfaceReport<'_>,
    fact: fn(&Interface) -> Option<String>,
) -> Option<String> {
    match report {
        InterfaceReport::NotReported => text(DEPRECATED),
        InterfaceReport::Unknown => text(UNKNOWN),
        InterfaceReport::Facts(interface) => fact(interface).or_else(|| text(ABSENT)),
    }
}

/// Formats a PCI ID as "0x%.4x". As in the stock tool, −2 is "not requested" and −1 is "none".
pub(super) fn format_pci_id(report: InterfaceReport<'_>, id: fn(&PciIds) -> u16) -> Option<String> {
    let id = match report {
        InterfaceReport::NotReported => -2,
        InterfaceReport::Unknown => -1,
        InterfaceReport::Facts(interface) => {
            interface.pci.as_ref().map_or(-1, |ids| id(ids).into())
        }
    };
    text(&format!("{id:#06x}"))
}

/// Formats a counter; −1 if unavailable.
pub(super) fn format_counter(
    report: InterfaceReport<'_>,
    counter: fn(&Traffic) -> u64,
) -> Option<String> {
    match report {
        InterfaceReport::Facts(Interface {
            traffic: Some(traffic),
            ..
        }) => count(counter(traffic)),
        _ => int(-1),
    }
}

/// Returns the number of received and sent packets, or `None` if unavailable.
pub(in crate::output) fn count_packets(report: InterfaceReport<'_>) -> Option<u64> {
    let InterfaceReport::Facts(interface) = report else {
        return None;
    };
    let traffic = interface.traffic?;
    Some(traffic.received_packets + traffic.sent_packets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rustfmt::skip]
    #[test]
    fn facts_and_counters_are_formatted() {
        let network_card = Interface {
            name: "eth0".to_owned(),
            driver: Some("virtio_net".to_owned()),
            pci: Some(PciIds {
                vendor: 0x1af4,
                device: 0x41,
                subvendor: 0x1af4,
                subdevice: 0x1,
            }),
            traffic: Some(Traffic {
                received_packets: 3,
                sent_packets: 4,
                ..Traffic::default()
            }),
            ..Interface::default()
        };
        let loopback = Interface {
            name: "lo".to_owned(),
            ..Interface::default()
        };
        for (report, expected) in [
            (InterfaceReport::Facts(&network_card), ["eth0", "virtio_net", "None", "0x1af4", "0x0041", "4"]),
            (InterfaceReport::Facts(&loopback), ["lo", "None", "None", "0xffffffff", "0xffffffff", "-1"]),
            (InterfaceReport::Unknown, ["Unknown", "Unknown", "Unknown", "0xffffffff", "0xffffffff", "-1"]),
            (
                InterfaceReport::NotReported,
                [
                    "Deprecated",
                    "Deprecated",
                    "Deprecated",
                    "0xfffffffe",
                    "0xfffffffe",
                    "-1",
                ],
            ),
        ] {
            let formatted = [
                format_fact(report, |interface| Some(interface.name.clone())),
                format_fact(report, |interface| interface.driver.clone()),
                format_fact(report, |interface| interface.slot.clone()),
                format_pci_id(report, |ids| ids.vendor),
                format_pci_id(report, |ids| ids.device),
                format_counter(report, |traffic| traffic.sent_packets),
            ];
            assert_eq!(formatted.map(Option::unwrap_or_default), expected);
        }
        assert_eq!(count_packets(InterfaceReport::Facts(&network_card)), Some(7));
        assert_eq!(count_packets(InterfaceReport::Facts(&loopback)), None);
    }
}
