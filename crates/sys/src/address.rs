//! Addresses of data sockets of all supported families.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket};

/// Address of a socket. Port 0 stands for any port, in families with ports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// IPv4 or IPv6: ip(7), ipv6(7).
    Inet(SocketAddr),
    /// A path in the file system, or a zero byte and an abstract name, which vanishes with its
    /// socket. Empty for a socket without a name. unix(7).
    Unix(PathBuf),
    /// A context and a port: vsock(7).
    Vsock {
        /// Number of the machine; [`Address::ANY_CONTEXT`] stands for any number of this machine.
        context: u32,
        /// The port.
        port: u32,
    },
    /// A hardware address and a service access point of IEEE 802.2.
    Llc(LlcAddress),
}

/// Address of IEEE 802.2 logical link control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LlcAddress {
    /// The interface's hardware address; zero is any.
    pub mac: [u8; 6],
    /// The service access point, even; 0 is any.
    pub sap: u8,
}

impl Address {
    /// VMADDR_CID_ANY: vsock(7).
    pub const ANY_CONTEXT: u32 = libc::VMADDR_CID_ANY;

    /// VMADDR_CID_LOCAL: the machine itself, vsock(7).
    pub const LOCAL_CONTEXT: u32 = libc::VMADDR_CID_LOCAL;

    /// Returns the IPv6 wildcard, which also accepts IPv4 where possible, and the IPv4 wildcard.
    pub fn wildcards(port: u16) -> [Self; 2] {
        let v6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        [v6, (Ipv4Addr::UNSPECIFIED, port).into()].map(Self::Inet)
    }

    /// Returns the address that a socket is bound to.
    pub fn local(socket: &Socket) -> io::Result<Self> {
        Self::try_from(&socket.local_addr()?)
    }

    /// Returns the address that a socket is connected to.
    pub fn peer(socket: &Socket) -> io::Result<Self> {
        Self::try_from(&socket.peer_addr()?)
    }

    /// Returns the address family.
    pub fn domain(&self) -> Domain {
        match self {
            Self::Inet(address) => Domain::for_address(*address),
            Self::Unix(_) => Domain::UNIX,
            Self::Vsock { .. } => Domain::VSOCK,
            Self::Llc(_) => Domain::from(libc::AF_LLC),
        }
    }

    /// Returns the IP address of an IPv4 or IPv6 address.
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Inet(address) => Some(address.ip()),
            _ => None,
        }
    }

    /// Returns whether IPv6 socket options apply.
    pub fn is_ipv6(&self) -> bool {
        matches!(self, Self::Inet(SocketAddr::V6(_)))
    }

    /// Returns whether the host part is a wildcard.
    pub fn is_wildcard(&self) -> bool {
        match self {
            Self::Inet(address) => address.ip().is_unspecified(),
            Self::Unix(path) => path.as_os_str().is_empty(),
            Self::Vsock { context, .. } => *context == Self::ANY_CONTEXT,
            Self::Llc(address) => address.mac == [0; 6],
        }
    }

    /// Returns the port or the service access point. 0 means any, or that the family has no ports.
    pub fn port(&self) -> u32 {
        match self {
            Self::Inet(address) => address.port().into(),
            Self::Unix(_) => 0,
            Self::Vsock { port, .. } => *port,
            Self::Llc(address) => address.sap.into(),
        }
    }

    /// Returns this address with another port; `None` if the port is out of the family's range. An
    /// address without ports is returned unchanged.
    #[must_use]
    pub fn with_port(&self, port: u32) -> Option<Self> {
        let mut changed = self.clone();
        match &mut changed {
            Self::Inet(address) => address.set_port(port.try_into().ok()?),
            Self::Unix(_) => {}
            Self::Vsock { port: current, .. } => *current = port,
            Self::Llc(address) => address.sap = port.try_into().ok()?,
        }
        Some(changed)
    }

    /// Returns this address with port 0.
    #[must_use]
    pub fn with_any_port(&self) -> Self {
        self.with_port(0).unwrap_or_else(|| self.clone())
    }

    /// Returns the wildcard address with the same port. A path is returned unchanged.
    #[must_use]
    pub fn with_any_host(&self) -> Self {
        match self {
            Self::Inet(SocketAddr::V4(address)) => {
                Self::Inet((Ipv4Addr::UNSPECIFIED, address.port()).into())
            }
            Self::Inet(SocketAddr::V6(address)) => {
                Self::Inet((Ipv6Addr::UNSPECIFIED, address.port()).into())
            }
            Self::Unix(path) => Self::Unix(path.clone()),
            Self::Vsock { port, .. } => Self::Vsock {
                context: Self::ANY_CONTEXT,
                port: *port,
            },
            Self::Llc(address) => Self::Llc(LlcAddress {
                mac: [0; 6],
                ..*address
            }),
        }
    }

    /// Returns whether both addresses belong to the same host. Ports do not matter.
    pub fn shares_host_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Inet(a), Self::Inet(b)) => {
                a.ip() == b.ip() || a.ip().to_canonical() == b.ip().to_canonical()
            }
            (Self::Unix(_), Self::Unix(_)) => true,
            (Self::Vsock { context: a, .. }, Self::Vsock { context: b, .. }) => a == b,
            (Self::Llc(a), Self::Llc(b)) => a.mac == b.mac,
            _ => false,
        }
    }

    /// Converts to the kernel's form. Fails if a path is too long for it.
    pub fn to_kernel(&self) -> io::Result<SockAddr> {
        match self {
            Self::Inet(address) => Ok(SockAddr::from(*address)),
            Self::Unix(path) => SockAddr::unix(path),
            Self::Vsock { context, port } => {
                let port = if *port == 0 {
                    libc::VMADDR_PORT_ANY
                } else {
                    *port
                };
                Ok(SockAddr::vsock(*context, port))
            }
            Self::Llc(address) => Ok(address.to_kernel()),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Inet(address)
    }
}

impl TryFrom<&SockAddr> for Address {
    type Error = io::Error;

    /// Fails if the family is not supported.
    fn try_from(address: &SockAddr) -> io::Result<Self> {
        if let Some(inet) = address.as_socket() {
            return Ok(Self::Inet(inet));
        }
        if let Some((context, port)) = address.as_vsock_address() {
            let port = if port == libc::VMADDR_PORT_ANY {
                0
            } else {
                port
            };
            return Ok(Self::Vsock { context, port });
        }
        if address.is_unix() {
            let path = address.as_pathname().unwrap_or(Path::new(""));
            return Ok(Self::Unix(match address.as_abstract_namespace() {
                Some(name) => OsStr::from_bytes(&[&[0], name].concat()).into(),
                None => path.to_owned(),
            }));
        }
        LlcAddress::from_kernel(address)
            .map(Self::Llc)
            .ok_or_else(|| io::ErrorKind::Unsupported.into())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => match address.ip().to_canonical() {
                // A socket for both families shows an IPv4 peer as a mapped address.
                IpAddr::V4(ip) => SocketAddr::from((ip, address.port())).fmt(f),
                IpAddr::V6(_) => address.fmt(f),
            },
            // Abstract names are shown like in ss(8). A peer may have chosen the name.
            Self::Unix(path) => match path.as_os_str().as_bytes() {
                [0, name @ ..] => write!(f, "@{}", codec::escaped(name)),
                path => codec::escaped(path).fmt(f),
            },
            Self::Vsock { context, port } => write!(f, "vsock {context}:{port}"),
            Self::Llc(address) => address.fmt(f),
        }
    }
}

/// `struct sockaddr_llc` of linux/llc.h, part of the kernel's interface.
#[repr(C)]
#[derive(Clone, Copy)]
struct SockaddrLlc {
    family: libc::sa_family_t,
    hardware: libc::sa_family_t,
    test: u8,
    xid: u8,
    unnumbered: u8,
    sap: u8,
    mac: [u8; 6],
    pad: [u8; 2],
}

impl LlcAddress {
    fn to_kernel(self) -> SockAddr {
        let raw = SockaddrLlc {
            family: libc::AF_LLC as libc::sa_family_t,
            hardware: libc::ARPHRD_ETHER,
            test: 0,
            xid: 0,
            unnumbered: 0,
            sap: self.sap,
            mac: self.mac,
            pad: [0; 2],
        };
        let mut storage = socket2::SockAddrStorage::zeroed();
        // SAFETY: the storage is larger than any socket address. All bytes are valid in a
        // `SockaddrLlc`.
        unsafe { *storage.view_as::<SockaddrLlc>() = raw };
        // SAFETY: the storage begins with a socket address of this length.
        unsafe { SockAddr::new(storage, size_of::<SockaddrLlc>() as libc::socklen_t) }
    }

    fn from_kernel(address: &SockAddr) -> Option<Self> {
        let is_llc = i32::from(address.family()) == libc::AF_LLC;
        if !is_llc || (address.len() as usize) < size_of::<SockaddrLlc>() {
            return None;
        }
        // SAFETY: the address has at least this length. All bytes are valid in a `SockaddrLlc`.
        let raw = unsafe { address.as_ptr().cast::<SockaddrLlc>().read_unaligned() };
        Some(Self {
            mac: raw.mac,
            sap: raw.sap,
        })
    }
}

impl fmt::Display for LlcAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.mac.iter().enumerate() {
            let separator = if position == 0 { "" } else { ":" };
            write!(f, "{separator}{byte:02x}")?;
        }
        write!(f, " sap {:#04x}", self.sap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernel_form() {
        for address in [
            Address::Inet("192.0.2.1:7".parse().unwrap()),
            Address::Inet("[2001:db8::1]:0".parse().unwrap()),
            Address::Unix("/tmp/x".into()),
            Address::Unix(PathBuf::new()),
            Address::Unix("\0x".into()),
            Address::Vsock {
                context: 3,
                port: 0,
            },
            Address::Vsock {
                context: Address::ANY_CONTEXT,
                port: 70_000,
            },
            Address::Llc(LlcAddress {
                mac: [2, 0, 0, 0, 0, 1],
                sap: 0x40,
            }),
        ] {
            let kernel = address.to_kernel().unwrap();
            assert_eq!(Address::try_from(&kernel).unwrap(), address);
            assert_eq!(kernel.domain(), address.domain(), "{address}");
        }
        assert!(Address::Unix("x".repeat(200).into()).to_kernel().is_err());
        assert_eq!(Address::Unix("\0x".into()).to_string(), "@x");
        let escaped = Address::Unix("\0\u{1b}[2J".into()).to_string();
        assert_eq!(escaped, r"@\x1b[2J");
    }

    #[test]
    fn port_ranges_depend_on_the_family() {
        let inet = Address::Inet("192.0.2.1:7".parse().unwrap());
        assert_eq!(inet.with_port(70_000), None);
        assert_eq!(inet.with_port(9).unwrap().port(), 9);
        assert_eq!(inet.with_any_host().to_string(), "0.0.0.0:7");
        let vsock = Address::Vsock {
            context: 3,
            port: 1,
        };
        assert_eq!(vsock.with_port(70_000).unwrap().port(), 70_000);
        assert!(vsock.with_any_host().is_wildcard());
        let llc = Address::Llc(LlcAddress::default());
        assert_eq!(llc.with_port(256), None);
        assert_eq!(Address::Unix("/x".into()).with_port(5).unwrap().port(), 0);
    }

    #[test]
    fn addresses_share_a_host_regardless_of_port() {
        let mapped = Address::Inet("[::ffff:192.0.2.1]:7".parse().unwrap());
        let plain = Address::Inet("192.0.2.1:8".parse().unwrap());
        let other_host = Address::Inet("192.0.2.2:8".parse().unwrap());
        assert_eq!(mapped.to_string(), "192.0.2.1:7");
        assert!(mapped.shares_host_with(&plain) && !plain.shares_host_with(&other_host));
        assert!(!plain.shares_host_with(&Address::Unix("/x".into())));
    }
}
