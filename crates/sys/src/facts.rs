//! Properties of this host that affect measurements. Unavailable properties are `None`.

mod cpu;
mod limits;
mod security;

use std::net::IpAddr;

use crate::kernel_file::{read_line, read_text};
use crate::{Domain, Protocol, Socket, Type};

pub use cpu::{cpu_mhz, cpu_model, is_virtual_guest};
pub use limits::{ProcessLimits, process_limits};
pub use security::{SecurityFacts, security};

use crate::interface;

/// The running system, as reported by uname(2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uname {
    /// "Linux".
    pub sysname: String,
    /// The host's name.
    pub nodename: String,
    /// The kernel's release.
    pub release: String,
    /// The kernel's build.
    pub version: String,
    /// The machine's architecture.
    pub machine: String,
}

/// Returns the system name, host name, kernel and architecture.
pub fn uname() -> Uname {
    let uname = rustix::system::uname();
    let text = |word: &std::ffi::CStr| word.to_string_lossy().into_owned();
    Uname {
        sysname: text(uname.sysname()),
        nodename: text(uname.nodename()),
        release: text(uname.release()),
        version: text(uname.version()),
        machine: text(uname.machine()),
    }
}

/// Returns the id of this boot, 16 bytes. Network namespaces of a host share it.
pub fn boot_id() -> Option<[u8; 16]> {
    parse_boot_id(&read_line("/proc/sys/kernel/random/boot_id")?)
}

fn parse_boot_id(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let mut id = [0; 16];
    for (byte, offset) in id.iter_mut().zip((0..32).step_by(2)) {
        *byte = u8::from_str_radix(digits.get(offset..offset + 2)?, 16).ok()?;
    }
    // Hosts whose files are masked by zeros are not one host.
    (id != [0; 16]).then_some(id)
}

/// Returns the machine's model from DMI (x86 and servers) or from the device tree (boards).
pub fn system_model() -> Option<String> {
    let files = ["/sys/class/dmi/id/product_name", "/proc/device-tree/model"];
    // A name has a letter; a masked file may have only zeros.
    let is_name = |text: &String| text.contains(char::is_alphabetic);
    files
        .iter()
        .find_map(|file| read_line(file).filter(is_name))
}

/// Returns the default congestion control of this network namespace.
pub fn congestion_control() -> Option<String> {
    read_line("/proc/sys/net/ipv4/tcp_congestion_control").filter(|name| is_kernel_name(name))
}

/// Returns whether a text can be a name in the kernel, and not a number or a message.
fn is_kernel_name(text: &str) -> bool {
    text.starts_with(|char: char| char.is_ascii_alphabetic()) && !text.contains(char::is_whitespace)
}

/// Returns whether this kernel has a congestion control without loading a module.
pub fn has_congestion_control(name: &str) -> bool {
    let available = read_line("/proc/sys/net/ipv4/tcp_available_congestion_control");
    available.is_some_and(|available| available.split(' ').any(|known| known == name))
}

/// Returns whether this kernel has a protocol without loading a module. `name` is its name in
/// /proc/net/protocols (`TCP`, `SCTPv6`).
pub fn has_protocol(name: &str) -> bool {
    let protocols = read_text("/proc/thread-self/net/protocols").unwrap_or_default();
    let mut names = protocols.lines().skip(1).map(|line| line.split(' ').next());
    names.any(|known| known == Some(name))
}

/// Returns the first IP port that needs no privilege: `net.ipv4.ip_unprivileged_port_start`, ip(7).
pub fn first_unprivileged_port() -> u32 {
    let text = read_line("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    // If the file is unusable, the kernel's default is the safe value.
    text.and_then(|text| text.parse().ok()).unwrap_or(1024)
}

/// Returns the MTU in bytes of the interface with this address.
pub fn mtu_bytes(address: IpAddr) -> Option<u32> {
    let interface = interface_name_by_address(address)?;
    let index = interface::index_by_name(&interface).ok()?;
    Some(interface::link(index).ok()?.mtu_bytes)
}

/// Returns whether Multipath TCP sockets can be opened: the kernel supports them and
/// `net.mptcp.enabled` is 1.
pub fn has_mptcp() -> bool {
    Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP)).is_ok()
}

/// Returns whether an address belongs to this host.
pub fn is_local_address(address: IpAddr) -> bool {
    address.is_loopback() || interface_name_by_address(address).is_some()
}

fn interface_name_by_address(address: IpAddr) -> Option<String> {
    let mut first = std::ptr::null_mut();
    // SAFETY: getifaddrs(3) writes one pointer to a list that freeifaddrs frees below.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return None;
    }
    let mut interface_name = None;
    let mut next = first;
    while !next.is_null() {
        // SAFETY: `next` is an element of the list, which lives until it is freed.
        let entry = unsafe { &*next };
        // SAFETY: `ifa_addr` is null or points to a socket address with its family's length.
        if unsafe { ip_address(entry.ifa_addr) } == Some(address) {
            // SAFETY: `ifa_name` is a NUL-terminated string in the list.
            let name = unsafe { std::ffi::CStr::from_ptr(entry.ifa_name) };
            interface_name = name.to_str().ok().map(str::to_owned);
            break;
        }
        next = entry.ifa_next;
    }
    // SAFETY: `first` comes from getifaddrs and is freed once.
    unsafe { libc::freeifaddrs(first) };
    interface_name
}

/// Returns the IP address in a socket address.
///
/// # Safety
/// `address` must be null or point to a socket address with its family's length.
unsafe fn ip_address(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: every socket address begins with its family; the casts follow it.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(IpAddr::from(v4.sin_addr.s_addr.to_ne_bytes()))
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(IpAddr::from(v6.sin6_addr.s6_addr))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    #[test]
    fn loopback_has_an_mtu() {
        assert!(super::mtu_bytes(Ipv4Addr::LOCALHOST.into()).is_some_and(|mtu| mtu >= 1280));
        assert_eq!(super::mtu_bytes(Ipv4Addr::new(192, 0, 2, 77).into()), None);
    }

    #[test]
    fn this_host_has_a_boot_id() {
        assert!(super::boot_id().is_some());
        let id = "01234567-89ab-cdef-0123-456789abcdef";
        let parsed = super::parse_boot_id(id).unwrap();
        assert_eq!(parsed[..4], [0x01, 0x23, 0x45, 0x67]);
        for unusable in ["0", "01234567", "00000000-0000-0000-0000-000000000000"] {
            assert_eq!(super::parse_boot_id(unusable), None, "{unusable}");
        }
    }

    #[test]
    fn names_of_the_kernel_are_words() {
        for (text, is_name) in [
            ("cubic", true),
            ("bbr2", true),
            ("0", false),
            ("not here", false),
            ("", false),
        ] {
            assert_eq!(super::is_kernel_name(text), is_name, "{text}");
        }
        assert!(super::congestion_control().is_some());
    }
}
