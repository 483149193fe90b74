//! Network interfaces of this namespace, by netlink and ioctl. /sys/class/net shows the namespace
//! in which /sys was mounted, which may be another one.

mod traffic;

use std::ffi::{CStr, c_char};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::{fs, ptr};

use socket2::{Domain, Protocol, Socket, Type};

use crate::kernel_file::{read_line, read_text};

pub use traffic::{HardwareErrors, Traffic};

/// An interface as reported by rtnetlink(7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index. An interface that is created again with the same name has another one.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its MTU in bytes.
    pub mtu_bytes: u32,
    /// Its hardware address, if it is an Ethernet address.
    pub mac: Option<[u8; 6]>,
    /// Its traffic counters; `None` if the kernel does not report them.
    pub traffic: Option<Traffic>,
    /// The errors that its hardware counts, likewise.
    pub hardware_errors: Option<HardwareErrors>,
}

/// Returns the name and the traffic of each interface of this network namespace.
///
/// It reads /proc/net/dev, because netlink waits for all changes of interfaces on this host. If the
/// file is masked, netlink has the same counters. On error, they are unavailable.
pub fn all_traffic() -> io::Result<Vec<(String, Traffic)>> {
    let table = read_text("/proc/thread-self/net/dev").unwrap_or_default();
    let traffic = traffic::parse_table(&table);
    if traffic.iter().any(|(_, traffic)| traffic.has_packets()) {
        return Ok(traffic);
    }
    let traffic = links()?.into_iter();
    let traffic: Vec<_> = traffic
        .filter_map(|link| Some((link.name, link.traffic?)))
        .collect();
    if traffic.is_empty() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(traffic)
}

/// An interface's driver and device, as reported by the driver; unavailable fields are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// The driver's name.
    pub name: String,
    /// The driver's version; the kernel's version if the driver has none.
    pub version: String,
    /// The device's firmware.
    pub firmware: String,
    /// The device's bus address; for PCI `domain:bus:device.function`.
    pub bus: String,
}

/// The PCI IDs of a device: pci.ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of pci.ids")]
pub struct PciIds {
    pub vendor: u16,
    pub device: u16,
    pub subvendor: u16,
    pub subdevice: u16,
}

/// Returns the index of the interface that the route to this address uses.
pub fn index_for_remote(remote: SocketAddr) -> io::Result<u32> {
    if let SocketAddr::V6(address) = remote
        && address.scope_id() != 0
    {
        return Ok(address.scope_id());
    }
    let ip = remote.ip().to_canonical();
    let (family, octets) = match &ip {
        IpAddr::V4(ip) => (libc::AF_INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (libc::AF_INET6, ip.octets().to_vec()),
    };
    let mut request = vec![0; ROUTE_HEADER];
    request[0] = family as u8;
    request[1] = (octets.len() * 8) as u8;
    push_attribute(&mut request, libc::RTA_DST, &octets);
    let answer = request_one(libc::RTM_GETROUTE, libc::RTM_NEWROUTE, &request)?;
    find_attribute(&answer, ROUTE_HEADER, libc::RTA_OIF)
        .and_then(|value| Some(u32::from_ne_bytes(value.get(..4)?.try_into().ok()?)))
        .ok_or_else(|| io::ErrorKind::NetworkUnreachable.into())
}

/// Returns the index of the interface with this name. It uses netlink because the ioctl
/// (`SIOCGIFINDEX`, netdevice(7)) makes the kernel search for a module if the name is unknown.
pub fn index_by_name(name: &str) -> io::Result<u32> {
    let mut request = vec![0; LINK_HEADER];
    push_attribute(
        &mut request,
        libc::IFLA_IFNAME,
        &[name.as_bytes(), &[0]].concat(),
    );
    let answer = request_one(libc::RTM_GETLINK, libc::RTM_NEWLINK, &request)?;
    // Bytes 4 to 7 of struct ifinfomsg (linux/rtnetlink.h) are the index.
    word(&answer, 4).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns the interface with this index.
pub fn link(index: u32) -> io::Result<Link> {
    let mut request = vec![0; LINK_HEADER];
    request[4..8].copy_from_slice(&index.to_ne_bytes());
    let answer = request_one(libc::RTM_GETLINK, libc::RTM_NEWLINK, &request)?;
    parse_link(&answer).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns all interfaces, in the order of their indexes.
pub fn links() -> io::Result<Vec<Link>> {
    let mut links = Vec::new();
    request_dump(libc::RTM_GETLINK, &[0; LINK_HEADER], |answer| {
        links.extend(parse_link(answer));
    })?;
    links.sort_by_key(|link| link.index);
    Ok(links)
}

fn parse_link(answer: &[u8]) -> Option<Link> {
    let find = |kind: u16| find_attribute(answer, LINK_HEADER, kind);
    let name = CStr::from_bytes_until_nul(find(libc::IFLA_IFNAME)?).ok()?;
    let mtu = find(libc::IFLA_MTU)?.get(..4)?.try_into().ok()?;
    // struct ifinfomsg (linux/rtnetlink.h): bytes 2 and 3 are the hardware type, 4 to 7 the index.
    let hardware = u16::from_ne_bytes([*answer.get(2)?, *answer.get(3)?]);
    let mac = find(libc::IFLA_ADDRESS)
        .filter(|_| hardware == libc::ARPHRD_ETHER)
        .and_then(|mac| mac.try_into().ok());
    Some(Link {
        index: word(answer, 4)?,
        name: name.to_string_lossy().into_owned(),
        mtu_bytes: u32::from_ne_bytes(mtu),
        mac,
        traffic: find(libc::IFLA_STATS64).and_then(Traffic::from_netlink),
        hardware_errors: find(libc::IFLA_STATS64).and_then(HardwareErrors::from_netlink),
    })
}

/// An address of an interface, as reported by rtnetlink(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The index of the interface.
    pub index: u32,
    /// The address of this host.
    pub local: IpAddr,
    /// An address in the prefix: of the peer if the address names one, else of this host.
    pub prefix: IpAddr,
    /// The length of the prefix in bits.
    pub prefix_bits: u8,
    /// Whether the interface is up and reaches several hosts directly: it has the flag BROADCAST,
    /// and not POINTOPOINT.
    pub is_on_broadcast_link: bool,
}

/// Returns the addresses of all interfaces.
pub fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut broadcast_links = Vec::new();
    request_dump(libc::RTM_GETLINK, &[0; LINK_HEADER], |answer| {
        // struct ifinfomsg (linux/rtnetlink.h): bytes 4 to 7 are the index, 8 to 11 the flags.
        let (Some(index), Some(flags)) = (word(answer, 4), word(answer, 8)) else {
            return;
        };
        let relevant = libc::IFF_UP | libc::IFF_BROADCAST | libc::IFF_POINTOPOINT;
        if flags & relevant as u32 == (libc::IFF_UP | libc::IFF_BROADCAST) as u32 {
            broadcast_links.push(index);
        }
    })?;
    let mut addresses = Vec::new();
    request_dump(libc::RTM_GETADDR, &[0; ADDRESS_HEADER], |answer| {
        addresses.extend(parse_address(answer, &broadcast_links));
    })?;
    Ok(addresses)
}

fn parse_address(answer: &[u8], broadcast_links: &[u32]) -> Option<InterfaceAddress> {
    // struct ifaddrmsg (linux/if_addr.h): byte 1 is the prefix length, 4 to 7 are the index.
    let (prefix_bits, index) = (*answer.get(1)?, word(answer, 4)?);
    let find = |kind: u16| {
        let octets = find_attribute(answer, ADDRESS_HEADER, kind)?;
        let v4 = || <[u8; 4]>::try_from(octets).map(IpAddr::from);
        let v6 = || <[u8; 16]>::try_from(octets).map(IpAddr::from);
        v4().or_else(|_| v6()).ok()
    };
    let prefix = find(libc::IFA_ADDRESS)?;
    Some(InterfaceAddress {
        index,
        // The attribute is absent if both are equal, as for most IPv6 addresses.
        local: find(libc::IFA_LOCAL).unwrap_or(prefix),
        prefix,
        prefix_bits,
        is_on_broadcast_link: broadcast_links.contains(&index),
    })
}

/// A queueing discipline of an interface: tc(8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// Its name.
    pub kind: String,
    /// Whether all outgoing traffic of the interface passes it; other disciplines get part of the
    /// traffic.
    pub is_root: bool,
    /// The clock of its launch times (`libc::CLOCK_*`), if it supports them: fq and etf.
    pub launch_clock: Option<i32>,
}

/// Returns the queueing disciplines of the interface with this index; empty if the interface has no
/// queue.
pub fn qdiscs(index: u32) -> io::Result<Vec<Qdisc>> {
    let mut request = vec![0; QDISC_HEADER];
    request[4..8].copy_from_slice(&index.to_ne_bytes());
    let mut qdiscs = Vec::new();
    request_dump(libc::RTM_GETQDISC, &request, |answer| {
        // struct tcmsg (linux/rtnetlink.h): bytes 4 to 7 are the interface, 12 to 15 the parent.
        if answer.get(4..8) == Some(&index.to_ne_bytes()) {
            qdiscs.extend(parse_qdisc(answer));
        }
    })?;
    Ok(qdiscs)
}

fn parse_qdisc(answer: &[u8]) -> Option<Qdisc> {
    /// TCA_ETF_PARMS of linux/pkt_sched.h: a struct whose second word is the clock.
    const ETF_PARAMETERS: u16 = 1;
    let kind = find_attribute(answer, QDISC_HEADER, libc::TCA_KIND)?;
    let kind = CStr::from_bytes_until_nul(kind).ok()?.to_string_lossy();
    let parent = answer.get(12..16)?.try_into().ok()?;
    let launch_clock = match &*kind {
        "fq" => Some(libc::CLOCK_MONOTONIC),
        "etf" => {
            let options = find_attribute(answer, QDISC_HEADER, libc::TCA_OPTIONS)?;
            let clock = find_attribute(options, 0, ETF_PARAMETERS)?.get(4..8)?;
            Some(i32::from_ne_bytes(clock.try_into().ok()?))
        }
        _ => None,
    };
    Some(Qdisc {
        kind: kind.into_owned(),
        is_root: u32::from_ne_bytes(parent) == TC_H_ROOT,
        launch_clock,
    })
}

/// Returns the driver of the interface with this name. It fails for an interface without a driver,
/// such as `lo`. netdevice(7), `SIOCETHTOOL`.
pub fn driver(name: &str) -> io::Result<Driver> {
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    const ETHTOOL_GDRVINFO: u32 = 3;
    /// `struct ethtool_drvinfo` of linux/ethtool.h.
    #[repr(C)]
    struct DriverInfo {
        command: u32,
        driver: [c_char; 32],
        version: [c_char; 32],
        firmware: [c_char; 32],
        bus: [c_char; 32],
        unused: [u32; 16],
    }
    let mut info = DriverInfo {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        version: [0; 32],
        firmware: [0; 32],
        bus: [0; 32],
        unused: [0; 16],
    };
    // SAFETY: a zeroed ifreq is valid: integers, and a pointer that is set below.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays NUL; interface names are shorter than IFNAMSIZ.
    for (to, from) in request.ifr_name[..libc::IFNAMSIZ - 1]
        .iter_mut()
        .zip(name.bytes())
    {
        *to = from as c_char;
    }
    request.ifr_ifru.ifru_data = ptr::from_mut(&mut info).cast();
    let socket = Socket::new(Domain::UNIX, Type::DGRAM, None)?;
    // SAFETY: the request is an ifreq with a NUL-terminated name and a pointer to a live struct.
    // The struct has the layout and the length of `struct ethtool_drvinfo`.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let text = |field: &[c_char]| {
        let bytes: Vec<u8> = field.iter().map(|byte| *byte as u8).collect();
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).trim().to_owned()
    };
    Ok(Driver {
        name: text(&info.driver),
        version: text(&info.version),
        firmware: text(&info.firmware),
        bus: text(&info.bus),
    })
}

/// Returns the PCI IDs of the device at this bus address; `None` if it is not a PCI address.
pub fn pci_ids(bus: &str) -> Option<PciIds> {
    let id = |file: &str| {
        let text = read_line(format!("{}/{file}", pci_device(bus)?))?;
        u16::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    };
    Some(PciIds {
        vendor: id("vendor")?,
        device: id("device")?,
        subvendor: id("subsystem_vendor")?,
        subdevice: id("subsystem_device")?,
    })
}

/// Returns the slot name of the PCI device at this bus address, if it has one.
pub fn pci_slot(bus: &str) -> Option<String> {
    pci_device(bus)?;
    let slot_address = bus.split('.').next()?;
    fs::read_dir("/sys/bus/pci/slots").ok()?.find_map(|slot| {
        let slot = slot.ok()?;
        let address = read_line(slot.path().join("address"))?;
        (address == slot_address).then(|| slot.file_name().to_string_lossy().into_owned())
    })
}

/// Returns the device's directory, if this is a PCI address. Devices, unlike interfaces, are the
/// same in every namespace.
fn pci_device(bus: &str) -> Option<String> {
    let is_pci_address = bus.starts_with(|first: char| first.is_ascii_hexdigit())
        && bus
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'));
    is_pci_address.then(|| format!("/sys/bus/pci/devices/{bus}"))
}

/// Sends a netlink request and returns the body of the answer: a header of fixed length, then
/// attributes.
fn request_one(request: u16, answer: u16, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut socket = send_request(request, libc::NLM_F_REQUEST, body)?;
    // The answer is one message, and the kernel queues it before the request's send call returns.
    let mut received = vec![0; 64 << 10];
    let length = socket.read(&mut received)?;
    let message = &received[..length];
    match message_kind(message) {
        Some(kind) if kind == answer => Ok(message[MESSAGE_HEADER..].to_vec()),
        Some(kind) if i32::from(kind) == libc::NLMSG_ERROR => Err(message_error(message)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Sends a netlink dump request and passes the body of each answer to `on_answer`.
fn request_dump(request: u16, body: &[u8], mut on_answer: impl FnMut(&[u8])) -> io::Result<()> {
    let mut socket = send_request(request, libc::NLM_F_REQUEST | libc::NLM_F_DUMP, body)?;
    let mut received = vec![0; 64 << 10];
    loop {
        let length = socket.read(&mut received)?;
        let mut unread = &received[..length];
        while let Some(kind) = message_kind(unread) {
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(()),
                libc::NLMSG_ERROR => return Err(message_error(unread)),
                _ => {}
            }
            let length = word(unread, 0).map_or(0, |length| length as usize);
            let body = unread.get(MESSAGE_HEADER..length);
            on_answer(body.ok_or(io::ErrorKind::InvalidData)?);
            unread = unread.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        if length == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Opens a netlink socket and sends a request on it.
fn send_request(request: u16, flags: i32, body: &[u8]) -> io::Result<Socket> {
    let protocol = Protocol::from(libc::NETLINK_ROUTE);
    let domain = Domain::from(libc::AF_NETLINK);
    let mut socket = Socket::new(domain, Type::RAW, Some(protocol))?;
    let mut message = Vec::with_capacity(MESSAGE_HEADER + body.len());
    message.extend(((MESSAGE_HEADER + body.len()) as u32).to_ne_bytes());
    message.extend(request.to_ne_bytes());
    message.extend((flags as u16).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    socket.write_all(&message)?;
    Ok(socket)
}

/// Returns the type of a message; `None` if the message is too short.
fn message_kind(message: &[u8]) -> Option<u16> {
    let kind = message.get(4..6)?.try_into().ok()?;
    Some(u16::from_ne_bytes(kind))
}

/// Returns the error in an error message.
fn message_error(message: &[u8]) -> io::Error {
    let number = word(message, MESSAGE_HEADER).map_or(libc::EPROTO, u32::cast_signed);
    io::Error::from_raw_os_error(number.wrapping_neg().max(libc::EPERM))
}

fn word(message: &[u8], offset: usize) -> Option<u32> {
    let bytes = message.get(offset..offset + 4)?.try_into().ok()?;
    Some(u32::from_ne_bytes(bytes))
}

/// Appends an attribute: length, kind and value, zero-padded to a multiple of 4 bytes.
fn push_attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend(((ATTRIBUTE_HEADER + value.len()) as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Returns the value of the first attribute of a kind after a header.
fn find_attribute(message: &[u8], header: usize, kind: u16) -> Option<&[u8]> {
    let mut attributes = message.get(header..)?;
    while let [a, b, c, d, ..] = *attributes {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let value = attributes.get(ATTRIBUTE_HEADER..length)?;
        if u16::from_ne_bytes([c, d]) == kind {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

/// Length of `struct nlmsghdr`.
const MESSAGE_HEADER: usize = 16;

/// Length of `struct rtmsg`.
const ROUTE_HEADER: usize = 12;

/// Length of `struct ifinfomsg`.
const LINK_HEADER: usize = 16;

/// Length of `struct ifaddrmsg`.
const ADDRESS_HEADER: usize = 8;

/// From linux/pkt_sched.h.
const TC_H_ROOT: u32 = u32::MAX;

/// Length of `struct tcmsg`.
const QDISC_HEADER: usize = 20;

/// Length of `struct rtattr`.
const ATTRIBUTE_HEADER: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_not_on_a_broadcast_link() {
        let lo = index_by_name("lo").unwrap();
        let addresses = addresses().unwrap();
        let address = addresses.iter().find(|address| address.local.is_loopback());
        let address = *address.unwrap();
        assert_eq!(address.index, lo);
        assert_eq!(
            address.prefix_bits,
            if address.local.is_ipv4() { 8 } else { 128 }
        );
        assert!(!address.is_on_broadcast_link);
    }

    #[test]
    fn loopback_is_reached_by_lo() {
        let lo = index_by_name("lo").unwrap();
        for remote in ["127.0.0.1:9", "127.1.2.3:0", "[::ffff:127.0.0.1]:9"] {
            assert_eq!(
                index_for_remote(remote.parse().unwrap()).unwrap(),
                lo,
                "{remote}"
            );
        }
        let scoped = "[fe80::1%7]:9".parse().unwrap();
        assert_eq!(index_for_remote(scoped).unwrap(), 7);
        let link = link(lo).unwrap();
        assert_eq!(link.name, "lo");
        assert!(link.mtu_bytes >= 1280, "{link:?}");
        assert_eq!(link.mac, None);
        assert_eq!(
            driver("lo").unwrap_err().raw_os_error(),
            Some(libc::EOPNOTSUPP)
        );
    }

    #[test]
    fn missing_interfaces_and_devices_are_not_found() {
        assert!(link(u32::MAX >> 1).is_err());
        for name in [
            "nosuchinterface",
            "",
            "a name that is longer than any interface's",
        ] {
            assert!(index_by_name(name).is_err(), "{name}");
        }
        assert!(driver("a name that is longer than any interface's").is_err());
        for bus in ["", "virtio0", "../../../etc", "0000:ff:1f.7", "N/A"] {
            assert_eq!((pci_ids(bus), pci_slot(bus)), (None, None), "{bus}");
        }
    }

    #[test]
    fn counters_move_with_the_traffic() {
        let lo = index_by_name("lo").unwrap();
        let before = link(lo).unwrap().traffic.unwrap();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        for _ in 0..10 {
            socket.send_to(&[0; 100], to).unwrap();
        }
        let after = link(lo).unwrap().traffic.unwrap();
        let traffic = after.since(&before).unwrap();
        assert!(traffic.sent_packets >= 10, "{before:?} {after:?}");
        assert!(traffic.received_bytes >= 1280, "{before:?} {after:?}");
        assert_eq!(before.since(&after), None, "it runs backwards");
        let all = all_traffic().unwrap();
        let (_, latest) = all.iter().find(|(name, _)| name == "lo").unwrap();
        assert!(latest.since(&after).is_some(), "{after:?} {latest:?}");
        let links = links().unwrap();
        assert!(links.iter().any(|link| link.index == lo));
    }

    #[test]
    fn qdiscs_belong_to_their_interface() {
        // In a new network namespace `lo` has no queue. On a host, `lo` may have one.
        for qdisc in qdiscs(index_by_name("lo").unwrap()).unwrap() {
            assert!(!qdisc.kind.is_empty());
            assert!(qdisc.launch_clock.is_none() || ["fq", "etf"].contains(&&*qdisc.kind));
        }
        assert_eq!(qdiscs(u32::MAX >> 1).unwrap(), []);
    }

    #[test]
    fn qdiscs_are_parsed() {
        let parse_answer = |kind: &[u8], parent: u32, options: &[u8]| {
            let mut answer = vec![0; QDISC_HEADER];
            answer[12..16].copy_from_slice(&parent.to_ne_bytes());
            push_attribute(&mut answer, libc::TCA_KIND, kind);
            push_attribute(&mut answer, libc::TCA_OPTIONS, options);
            parse_qdisc(&answer)
        };
        let clock = [
            &200_000_i32.to_ne_bytes()[..],
            &11_i32.to_ne_bytes(),
            &[0; 4],
        ]
        .concat();
        let mut options = Vec::new();
        push_attribute(&mut options, 1, &clock);
        for (kind, parent, options, is_root, launch_clock) in [
            (
                &b"etf\0"[..],
                u32::MAX,
                &options[..],
                true,
                Some(libc::CLOCK_TAI),
            ),
            (
                b"fq\0",
                0x0001_0001,
                &[],
                false,
                Some(libc::CLOCK_MONOTONIC),
            ),
            (b"noqueue\0", u32::MAX, &[], true, None),
        ] {
            let found = parse_answer(kind, parent, options).unwrap();
            assert_eq!(found.kind.len(), kind.len() - 1);
            assert_eq!((found.is_root, found.launch_clock), (is_root, launch_clock));
        }
        assert_eq!(parse_answer(b"etf\0", 1, &[]), None);
        assert_eq!(parse_qdisc(&[0; 8]), None);
    }

    #[test]
    fn attributes_end_where_the_message_does() {
        let mut message = vec![9; 4];
        push_attribute(&mut message, 5, b"abcde");
        push_attribute(&mut message, 7, b"xy");
        let body = &message[4..];
        assert_eq!(find_attribute(&message, 4, 5), Some(&b"abcde"[..]));
        assert_eq!(find_attribute(&message, 4, 7), Some(&b"xy"[..]));
        assert_eq!(find_attribute(&message, 4, 8), None);
        for length in 0..body.len() {
            let _ = find_attribute(&body[..length], 0, 7);
        }
        assert_eq!(find_attribute(&[0, 0, 0, 0, 1, 1], 0, 5), None);
        assert_eq!(find_attribute(&[255, 255, 5, 0, 1], 0, 5), None);
    }
}
