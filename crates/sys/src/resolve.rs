//! Names to addresses, with the resolver's canonical name and its own word for a failure.

use std::ffi::{CStr, CString};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::Address;

/// Which addresses are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// IPv4 and IPv6, in the resolver's order.
    #[default]
    Any,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The canonical name; of a numeric address the text itself.
    pub name: String,
    /// The addresses, at least one, with port 0.
    pub addresses: Vec<Address>,
}

impl Resolved {
    /// Returns the addresses, each with this port.
    pub fn at(&self, port: u16) -> Vec<Address> {
        let at = |address: &Address| address.with_port(port.into());
        self.addresses.iter().filter_map(at).collect()
    }
}

/// Why a name stands for nothing: getaddrinfo(3)'s number and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// EAI_NONAME is −2.
    pub code: i32,
    /// gai_strerror(3).
    pub text: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot resolve {}: {}", self.name, self.text)
    }
}

impl std::error::Error for Unresolved {}

/// Looks a name or a numeric address (with a scope: `fe80::1%eth0`) up: getaddrinfo(3).
pub fn resolve(name: &str, wanted: Wanted) -> Result<Resolved, Unresolved> {
    let Ok(c_name) = CString::new(name) else {
        return Err(unresolved(name, libc::EAI_NONAME));
    };
    // SAFETY: a zeroed addrinfo is a valid hint.
    let mut hints: libc::addrinfo = unsafe { std::mem::zeroed() };
    hints.ai_socktype = libc::SOCK_STREAM;
    hints.ai_flags = libc::AI_CANONNAME;
    hints.ai_family = match wanted {
        Wanted::Any => libc::AF_UNSPEC,
        Wanted::V4 => libc::AF_INET,
        Wanted::V6 => libc::AF_INET6,
    };
    let mut first = std::ptr::null_mut();
    // SAFETY: the name is NUL-terminated, the hints live, and the list goes where we free it.
    let code = unsafe {
        libc::getaddrinfo(
            c_name.as_ptr(),
            std::ptr::null(),
            &raw const hints,
            &raw mut first,
        )
    };
    if code != 0 {
        return Err(unresolved(name, code));
    }
    let mut resolved = Resolved {
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
        // SAFETY: `ai_addr` is a socket address of the family that `ai_family` names.
        let address = unsafe { address(entry) };
        resolved.addresses.extend(address.map(Address::from));
        next = entry.ai_next;
    }
    // SAFETY: `first` is what getaddrinfo gave, freed once.
    unsafe { libc::freeaddrinfo(first) };
    if resolved.addresses.is_empty() {
        Err(unresolved(name, libc::EAI_NONAME))
    } else {
        Ok(resolved)
    }
}

/// The number of a TCP port, or of a service by its name: getservbyname(3), services(5).
pub fn port(text: &str) -> Option<u16> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let name = CString::new(text).ok()?;
    // SAFETY: the name is NUL-terminated; what getservbyname(3) gives is read before any other call
    // could overwrite it.
    unsafe {
        let entry = libc::getservbyname(name.as_ptr(), c"tcp".as_ptr());
        (!entry.is_null()).then(|| u16::from_be((*entry).s_port as u16))
    }
}

/// # Safety
/// `entry.ai_addr` points to a socket address of `entry.ai_family`.
unsafe fn address(entry: &libc::addrinfo) -> Option<SocketAddr> {
    // SAFETY: the casts follow the family, which is the caller's promise.
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

fn unresolved(name: &str, code: i32) -> Unresolved {
    // SAFETY: gai_strerror(3) gives a static NUL-terminated string for every number.
    let text = unsafe { CStr::from_ptr(libc::gai_strerror(code)) };
    Unresolved {
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
        let resolved = resolve("127.0.0.3", Wanted::Any).unwrap();
        assert_eq!(resolved.name, "127.0.0.3");
        let inet = |text: &str| Address::Inet(text.parse().unwrap());
        assert_eq!(resolved.addresses, [inet("127.0.0.3:0")]);
        assert_eq!(resolved.at(7), [inet("127.0.0.3:7")]);
        let v6 = resolve("::1", Wanted::V6).unwrap();
        assert_eq!(v6.addresses, [inet("[::1]:0")]);
        let scoped = resolve("fe80::1%lo", Wanted::Any).unwrap();
        let Address::Inet(SocketAddr::V6(scoped)) = scoped.addresses[0] else {
            panic!("an IPv6 address");
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
    fn a_wrong_family_or_name_says_why() {
        assert!(resolve("127.0.0.1", Wanted::V6).is_err());
        let nowhere = resolve("host.invalid", Wanted::Any).unwrap_err();
        let expected = format!("cannot resolve host.invalid: {}", nowhere.text);
        assert_eq!(nowhere.to_string(), expected);
        assert!(resolve("a\0b", Wanted::Any).is_err());
    }
}
