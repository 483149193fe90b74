//! The words and numbers of the interfaces of both ends.

use model::{Interface, PciIds, Side, Traffic};

use super::{DEPRECATED, NONE_THERE, UNKNOWN, count, int, text};

/// What is known of an end's interface.
#[derive(Clone, Copy, Debug)]
pub(in crate::output) enum Known<'a> {
    /// A stock peer tells nothing.
    NotTold,
    /// The end could not find out, or has none for this transport.
    Unknown,
    /// What it told.
    Facts(&'a Interface),
}

impl<'a> Known<'a> {
    /// A side that has looked at its host has looked for the interface, too.
    pub(in crate::output) fn of(side: &'a Side) -> Self {
        match &side.interface {
            Some(interface) => Self::Facts(interface),
            None if side.host.is_some() => Self::Unknown,
            None => Self::NotTold,
        }
    }
}

/// A fact in words.
pub(super) fn fact(end: Known<'_>, fact: fn(&Interface) -> Option<String>) -> Option<String> {
    match end {
        Known::NotTold => text(DEPRECATED),
        Known::Unknown => text(UNKNOWN),
        Known::Facts(interface) => fact(interface).or_else(|| text(NONE_THERE)),
    }
}

/// "0x%.4x", in which the stock tool's −2 is "nobody asked" and −1 is "there is none".
pub(super) fn pci_id(end: Known<'_>, id: fn(&PciIds) -> u16) -> Option<String> {
    let id = match end {
        Known::NotTold => -2,
        Known::Unknown => -1,
        Known::Facts(interface) => interface.pci.as_ref().map_or(-1, |ids| id(ids).into()),
    };
    text(&format!("{id:#06x}"))
}

/// A counter; −1 where nobody counted.
pub(super) fn traffic(end: Known<'_>, counter: fn(&Traffic) -> u64) -> Option<String> {
    match end {
        Known::Facts(Interface {
            traffic: Some(traffic),
            ..
        }) => count(counter(traffic)),
        _ => int(-1),
    }
}

/// All packets, in and out; `None` where nobody counted.
pub(in crate::output) fn packets(end: Known<'_>) -> Option<u64> {
    let Known::Facts(interface) = end else {
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
    fn words_and_numbers() {
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
        let virtual_one = Interface {
            name: "lo".to_owned(),
            ..Interface::default()
        };
        for (end, words) in [
            (Known::Facts(&network_card), ["eth0", "virtio_net", "None", "0x1af4", "0x0041", "4"]),
            (Known::Facts(&virtual_one), ["lo", "None", "None", "0xffffffff", "0xffffffff", "-1"]),
            (Known::Unknown, ["Unknown", "Unknown", "Unknown", "0xffffffff", "0xffffffff", "-1"]),
            (
                Known::NotTold,
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
            let told = [
                fact(end, |interface| Some(interface.name.clone())),
                fact(end, |interface| interface.driver.clone()),
                fact(end, |interface| interface.slot.clone()),
                pci_id(end, |ids| ids.vendor),
                pci_id(end, |ids| ids.device),
                traffic(end, |traffic| traffic.sent_packets),
            ];
            assert_eq!(told.map(Option::unwrap_or_default), words);
        }
        assert_eq!(packets(Known::Facts(&network_card)), Some(7));
        assert_eq!(packets(Known::Facts(&virtual_one)), None);
    }
}
