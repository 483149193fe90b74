//! Groups that a datagram socket receives: ip(7), ipv6(7), RFC 3678.

use std::io;
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

use socket2::SockAddr;

use crate::option::set;

/// `struct group_req` and `struct group_source_req` of linux/in.h.
#[derive(Clone, Copy)]
#[repr(C)]
struct Group {
    interface: u32,
    group: libc::sockaddr_storage,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct GroupOfSource {
    interface: u32,
    group: libc::sockaddr_storage,
    source: libc::sockaddr_storage,
}

const MCAST_JOIN_GROUP: libc::c_int = 42;
const MCAST_JOIN_SOURCE_GROUP: libc::c_int = 46;

/// Joins a group on an interface, by its index; 0 leaves it to the route. With a source the socket receives what that
/// one sends, and nothing else of the group.
pub fn join(
    socket: BorrowedFd<'_>,
    group: IpAddr,
    source: Option<IpAddr>,
    interface: u32,
) -> io::Result<()> {
    let level = if group.is_ipv6() {
        libc::IPPROTO_IPV6
    } else {
        libc::IPPROTO_IP
    };
    // SAFETY: storages and numbers of zeroes are some, and padding is not read.
    let (mut any, mut one): (Group, GroupOfSource) = unsafe { std::mem::zeroed() };
    let group = storage(group);
    let Some(source) = source else {
        (any.interface, any.group) = (interface, group);
        return set(socket, level, MCAST_JOIN_GROUP, &any);
    };
    (one.interface, one.group, one.source) = (interface, group, storage(source));
    set(socket, level, MCAST_JOIN_SOURCE_GROUP, &one)
}

fn storage(address: IpAddr) -> libc::sockaddr_storage {
    let address = SockAddr::from(SocketAddr::new(address, 0));
    // SAFETY: a storage of zeroes is one, and as long as any address, of which so many bytes are initialised.
    unsafe {
        let mut storage: libc::sockaddr_storage = std::mem::zeroed();
        let length = (address.len() as usize).min(size_of::<libc::sockaddr_storage>());
        std::ptr::copy_nonoverlapping(
            address.as_ptr().cast::<u8>(),
            (&raw mut storage).cast(),
            length,
        );
        storage
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_group_is_received_from_any_or_from_one_source() {
        let lo = crate::interface::index_of("lo").unwrap();
        let group: IpAddr = "239.255.77.1".parse().unwrap();
        for (source, comes) in [
            (None, true),
            (Some("127.0.0.1"), true),
            (Some("127.0.0.9"), false),
        ] {
            let far = UdpSocket::bind((group, 0)).unwrap();
            let source = source.map(|source| source.parse().unwrap());
            let joined = join(far.as_fd(), group, source, lo);
            assert!(joined.is_ok(), "{source:?}: {joined:?}");
            far.set_read_timeout(Some(Duration::from_millis(200)))
                .unwrap();
            let near = UdpSocket::bind("127.0.0.1:0").unwrap();
            near.send_to(b"data", (group, far.local_addr().unwrap().port()))
                .unwrap();
            assert_eq!(far.recv(&mut [0; 8]).is_ok(), comes, "{source:?}");
        }
        for source in [None, Some("::1".parse().unwrap())] {
            let far = UdpSocket::bind("[::]:0").unwrap();
            join(far.as_fd(), "ff11::77".parse().unwrap(), source, lo).unwrap();
        }
    }
}
