//! Traffic and hardware facts of the network interface that a flow uses.

use model::{Interface, PciIds};
use sys::{Address, interface};

/// Measures the traffic of the interface that a flow uses, from [`Self::start`] to
/// [`Self::finish`].
#[derive(Debug)]
pub struct InterfaceMeter {
    index: u32,
    name: String,
    before: Option<interface::Traffic>,
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
    /// other programs. It is unavailable if the counters ran backwards, or did not move although the
    /// flow has moved data (`has_moved_data`).
    pub fn finish(self, has_moved_data: bool) -> Interface {
        let after = interface::link(self.index).ok();
        let after = after.and_then(|link| link.traffic);
        let traffic = self.before.zip(after);
        let traffic = traffic.and_then(|(before, after)| after.since(&before));
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
            traffic: traffic
                .filter(|traffic| traffic.has_packets() || !has_moved_data)
                .map(Into::into),
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
        let lo = meter.finish(true);
        assert_eq!((lo.name.as_str(), &lo.driver, lo.pci), ("lo", &None, None));
        assert!(lo.traffic.is_some_and(|traffic| traffic.sent_bytes >= 128));
    }

    #[test]
    fn counters_that_run_backwards_are_unavailable() {
        let remote = Address::Inet("127.0.0.1:9".parse().unwrap());
        let mut meter = InterfaceMeter::start(&remote).unwrap();
        meter.before.as_mut().unwrap().sent_packets = u64::MAX;
        assert_eq!(meter.finish(false).traffic, None);
    }
}
