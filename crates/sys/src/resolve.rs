//! Name resolution with getaddrinfo(3): addresses, the canonical name, and the resolver's error
//! text.

use std::ffi::{CStr, CString};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::Address;

/// Address families to resolve to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressFamily {
    /// IPv4 and IPv6, in the resolver's order.
    #[default]
    Any,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Result of a name's resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedName {
    /// The canonical name; for a numeric address, its text.
    pub name: String,
    /// The addresses, at least one, with port 0.
    pub addresses: Vec<Address>,
}

impl ResolvedName {
    /// Returns the addresses, each with this port.
    pub fn with_port(&self, port: u16) -> Vec<Address> {
        let with_port = |address: &Address| address.with_port(port.into());
        self.addresses.iter().filter_map(with_port).collect()
    }
}

/// Failed name resolution: getaddrinfo(3)'s error number and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolveError {
    /// The error number, EAI_*; EAI_NONAME is −2.
    pub code: i32,
    /// The error's text: gai_strerror(3).
    pub text: String,
    /// The unresolved name.
    pub name: String,
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot resolve {}: {}", self.name, self.text)
    }
}

impl std::error::Error for ResolveError {}

/// Resolves a name or a numeric address, which may have a scope (`fe80::1%eth0`): getaddrinfo(3).
pub fn resolve(name: &str, family: AddressFamily) -> Result<ResolvedName, ResolveError> {
    let Ok(c_name) = CString::new(name) else {
        return Err(resolve_error(name, libc::EAI_NONAME));
    };
    // SAFETY: a zeroed addrinfo is a valid hint.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_socktype = libc::SOCK_STREAM;
    hints.ai_flags = libc::AI_CANONNAME;
    hints.ai_family = match family {
        AddressFamily::Any => libc::AF_UNSPEC,
        AddressFamily::V4 => libc::AF_INET,
        AddressFamily::V6 => libc::AF_INET6,
    };
    let mut first = std::ptr::null_mut();
    // SAFETY: the name is NUL-terminated, the hints are live, and the list is freed below.
    let code = unsafe {
        libc::getaddrinfo(
            c_name.as_ptr(),
            std::ptr::null(),
            &raw const hints,
            &raw mut first,
        )
    };
    if code != 0 {
        return Err(resolve_error(name, code));
    }
    let mut resolved = ResolvedName {
        name: name.to_owned(),
        addresses: Vec::new(),
    };
    let mut next = first;
    while !next.is_null() {
        // SAFETY: `next` is an element of the list, which lives until it is freed below.
        let entry = unsafe { &*next };
        if !entry.ai_canonname.is_null() {
            // SAFETY: the canonical name is a NUL-terminated string of the list.
            let canonical = unsafe { CStr::from_ptr(entry.ai_canonname) };
            resolved.name = canonical.to_string_lossy().into_owned();
        }
        // SAFETY: `ai_addr` points to a socket address of the family in `ai_family`.
        let address = unsafe { socket_address(entry) };
        resolved.addresses.extend(address.map(Address::from));
        next = entry.ai_next;
    }
    // SAFETY: `first` comes from getaddrinfo and is freed once.
    unsafe { libc::freeaddrinfo(first) };
    if resolved.addresses.is_empty() {
        Err(resolve_error(name, libc::EAI_NONAME))
    } else {
        Ok(resolved)
    }
}

/// Parses a port number, or looks up the port of a TCP service by its name: getservbyname(3),
/// services(5).
pub fn port(text: &str) -> Option<u16> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let name = CString::new(text).ok()?;
    // SAFETY: the name is NUL-terminated. The result of getservbyname(3) is read before another
    // call could overwrite it.
    unsafe {
        let entry = libc::getservbyname(name.as_ptr(), c"tcp".as_ptr());
        (!entry.is_null()).then(|| u16::from_be((*entry).s_port as u16))
    }
}

/// # Safety
/// `entry.ai_addr` must point to a socket address of family `entry.ai_family`.
unsafe fn socket_address(entry: &libc::addrinfo) -> Option<SocketAddr> {
    // SAFETY: the casts follow the family, which the caller guarantees.
    unsafe {
        match entry.ai_family {
            libc::AF_INET => {
                let v4 = entry.ai_addr.cast::<libc::sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, 0).into())
            }
            libc::AF_INET6 => {
                let v6 = entry.ai_addr.cast::<libc::sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                Some(SocketAddrV6::new(ip, 0, 0, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

fn resolve_error(name: &str, code: i32) -> ResolveError {
    // SAFETY: gai_strerror(3) returns a static NUL-terminated string for every number.
    let text = unsafe { CStr::from_ptr(libc::gai_strerror(code)) };
    ResolveError {
        code,
        text: text.to_string_lossy().into_owned(),
        name: name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_addresses_are_their_own_names() {
        let resolved = resolve("127.0.0.3", AddressFamily::Any).unwrap();
        assert_eq!(resolved.name, "127.0.0.3");
        let inet = |text: &str| Address::Inet(text.parse().unwrap());
        assert_eq!(resolved.addresses, [inet("127.0.0.3:0")]);
        assert_eq!(resolved.with_port(7), [inet("127.0.0.3:7")]);
        let v6 = resolve("::1", AddressFamily::V6).unwrap();
        assert_eq!(v6.addresses, [inet("[::1]:0")]);
        let scoped = resolve("fe80::1%lo", AddressFamily::Any).unwrap();
        let Address::Inet(SocketAddr::V6(scoped)) = scoped.addresses[0] else {
            panic!("not an IPv6 address");
        };
        assert_ne!(scoped.scope_id(), 0);
    }

    #[test]
    fn ports_are_numbers_or_services() {
        for (text, expected) in [
            ("12865", Some(12_865)),
            ("0", Some(0)),
            ("65536", None),
            ("no-such-service", None),
        ] {
            assert_eq!(port(text), expected, "{text}");
        }
    }

    #[test]
    fn a_wrong_family_or_name_is_an_error() {
        assert!(resolve("127.0.0.1", AddressFamily::V6).is_err());
        let error = resolve("host.invalid", AddressFamily::Any).unwrap_err();
        let expected = format!("cannot resolve host.invalid: {}", error.text);
        assert_eq!(error.to_string(), expected);
        assert!(resolve("a\0b", AddressFamily::Any).is_err());
    }
}
