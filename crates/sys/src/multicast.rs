//! Multicast group membership of datagram sockets: ip(7), ipv6(7), RFC 3678.

use std::io;
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

use socket2::SockAddr;

use crate::option::set;

/// `struct group_req` of linux/in.h.
#[derive(Clone, Copy)]
#[repr(C)]
struct GroupRequest {
    interface: u32,
    group: libc::sockaddr_storage,
}

/// `struct group_source_req` of linux/in.h.
#[derive(Clone, Copy)]
#[repr(C)]
struct SourceGroupRequest {
    interface: u32,
    group: libc::sockaddr_storage,
    source: libc::sockaddr_storage,
}

const MCAST_JOIN_GROUP: libc::c_int = 42;
const MCAST_JOIN_SOURCE_GROUP: libc::c_int = 46;

/// Joins a group on the interface with this index; with 0 the route selects the interface. With a
/// source, the socket receives only that source's datagrams to the group.
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
    // SAFETY: zeroed numbers and storages are valid, and the kernel does not read padding.
    let (mut request, mut source_request): (GroupRequest, SourceGroupRequest) =
        unsafe { std::mem::zeroed() };
    let group = to_storage(group);
    let Some(source) = source else {
        (request.interface, request.group) = (interface, group);
        return set(socket, level, MCAST_JOIN_GROUP, &request);
    };
    (
        source_request.interface,
        source_request.group,
        source_request.source,
    ) = (interface, group, to_storage(source));
    set(socket, level, MCAST_JOIN_SOURCE_GROUP, &source_request)
}

fn to_storage(address: IpAddr) -> libc::sockaddr_storage {
    let address = SockAddr::from(SocketAddr::new(address, 0));
    // SAFETY: a zeroed storage is valid and at least as long as any address, whose `length` bytes
    // are initialised.
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
        let lo = crate::interface::index_by_name("lo").unwrap();
        let group: IpAddr = "239.255.77.1".parse().unwrap();
        for (source, is_received) in [
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
            assert_eq!(far.recv(&mut [0; 8]).is_ok(), is_received, "{source:?}");
        }
        for source in [None, Some("::1".parse().unwrap())] {
            let far = UdpSocket::bind("[::]:0").unwrap();
            join(far.as_fd(), "ff11::77".parse().unwrap(), source, lo).unwrap();
        }
    }
}
