//! Traffic and hardware facts of the network interface that a flow uses.

use model::{Interface, PciIds, Traffic};
use sys::{Address, interface};

/// Measures the traffic of the interface that a flow uses, from [`Self::start`] to
/// [`Self::finish`].
#[derive(Debug)]
pub struct InterfaceMeter {
    index: u32,
    name: String,
    before: interface::Traffic,
}

impl InterfaceMeter {
    /// Starts with the interface that packets to `remote` leave by. Returns `None` if there is no
    /// route, or if the route has no interface.
    pub fn start(remote: &Address) -> Option<Self> {
        let Address::Inet(remote) = remote else {
            return None;
        };
        let index = interface::index_for_remote(*remote).ok()?;
        let link = interface::link(index).ok()?;
        Some(Self {
            index,
            name: link.name,
            before: link.traffic,
        })
    }

    /// Returns the interface's facts and its traffic since the start. The traffic includes that of
    /// other programs.
    pub fn finish(self) -> Interface {
        let after = interface::link(self.index).map(|link| link.traffic);
        let before = self.before;
        let driver = interface::driver(&self.name).unwrap_or_default();
        let non_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Interface {
            driver: non_empty(&driver.name),
            driver_version: non_empty(&driver.version),
            firmware: non_empty(&driver.firmware),
            bus: non_empty(&driver.bus),
            slot: interface::pci_slot(&driver.bus),
            pci: interface::pci_ids(&driver.bus).map(|ids| PciIds {
                vendor: ids.vendor,
                device: ids.device,
                subvendor: ids.subvendor,
                subdevice: ids.subdevice,
            }),
            traffic: after.ok().map(|after| Traffic {
                received_packets: after.received_packets.wrapping_sub(before.received_packets),
                received_bytes: after.received_bytes.wrapping_sub(before.received_bytes),
                sent_packets: after.sent_packets.wrapping_sub(before.sent_packets),
                sent_bytes: after.sent_bytes.wrapping_sub(before.sent_bytes),
            }),
            name: self.name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_traffic_is_counted() {
        let remote = Address::Inet("127.0.0.1:9".parse().unwrap());
        let meter = InterfaceMeter::start(&remote).unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .send_to(&[0; 100], socket.local_addr().unwrap())
            .unwrap();
        let lo = meter.finish();
        assert_eq!((lo.name.as_str(), &lo.driver, lo.pci), ("lo", &None, None));
        assert!(lo.traffic.is_some_and(|traffic| traffic.sent_bytes >= 128));
    }
}
