//! A datagram's source, destination and sending process: ip(7), ipv6(7), unix(7).

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use socket2::{SockAddr, SockAddrStorage};

use crate::option::set_int;
use crate::{Address, Socket, Type};

/// The facts of the datagram that would be received next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// Its source.
    pub from: Option<Address>,
    /// The address of this host that it was sent to, if [`tell_destinations`] is on. For a multicast or broadcast
    /// it is the address to answer from, or `None`.
    pub to: Option<IpAddr>,
    /// The process that sent it, if [`tell_senders`] is on.
    pub sender: Option<Sender>,
    /// Whether it is empty.
    pub is_empty: bool,
}

/// The credentials of a sending process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Its id in this process's PID namespace; 0 if it has none there.
    pub process: i32,
    /// Its real user id.
    pub user: u32,
}

/// Sets whether a socket reports the destinations of its datagrams: IP_PKTINFO, or IPV6_RECVPKTINFO when `v6`.
pub fn tell_destinations(socket: BorrowedFd<'_>, v6: bool, on: bool) -> io::Result<()> {
    let (level, name) = if v6 {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
    } else {
        (libc::IPPROTO_IP, libc::IP_PKTINFO)
    };
    set_int(socket, level, name, on.into())
}

/// Returns the source address that the kernel prefers for a destination: connect(2) of a datagram socket, which
/// sends nothing.
pub fn source_towards(to: &Address) -> io::Result<Address> {
    let socket = Socket::new(to.domain(), Type::DGRAM, None)?;
    socket.connect(&to.to_kernel()?)?;
    Address::of(&socket)
}

/// Sets whether a Unix domain socket reports the senders of its datagrams: SO_PASSCRED.
pub fn tell_senders(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_PASSCRED, on.into())
}

/// Looks at the next datagram without removing it: MSG_PEEK, recvmsg(2).
pub fn next(socket: BorrowedFd<'_>) -> Result<Next, Errno> {
    let mut from = SockAddrStorage::zeroed();
    let mut control = [0_u64; 32];
    let mut byte = [0_u8; 1];
    let mut piece = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: byte.len(),
    };
    // SAFETY: a header of zeroes is one without a name, data and control data.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = (&raw mut from).cast();
    header.msg_namelen = from.size_of();
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    // SAFETY: what the header points to is live, and as long as it says.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_PEEK) };
    if length < 0 {
        let error = io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
    }
    // SAFETY: the kernel has written a socket address of this length, or none.
    let from = unsafe { SockAddr::new(from, header.msg_namelen) };
    let mut next = Next {
        from: (header.msg_namelen > 0)
            .then(|| Address::try_from(&from).ok())
            .flatten(),
        to: None,
        sender: None,
        is_empty: length == 0,
    };
    // SAFETY: the header is what recvmsg(2) has left of it, with its control data.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    while !message.is_null() {
        // SAFETY: `message` is a header within the control data, followed by as much data as its kind has.
        unsafe {
            next.note(&*message, libc::CMSG_DATA(message));
            message = libc::CMSG_NXTHDR(&raw const header, message);
        }
    }
    Ok(next)
}

impl Next {
    /// Notes a control message.
    ///
    /// # Safety
    /// `data` is the kernel's data of a message with this header.
    unsafe fn note(&mut self, header: &libc::cmsghdr, data: *const u8) {
        match (header.cmsg_level, header.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // SAFETY: such a message has this, maybe unaligned.
                let info = unsafe { data.cast::<libc::in_pktinfo>().read_unaligned() };
                let address = Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes());
                self.to = Some(address.into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                // SAFETY: such a message has this, maybe unaligned.
                let info = unsafe { data.cast::<libc::in6_pktinfo>().read_unaligned() };
                let address = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                self.to = Some(address.into()).filter(|_: &IpAddr| !address.is_multicast());
            }
            (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => {
                // SAFETY: such a message has this, maybe unaligned.
                let sender = unsafe { data.cast::<libc::ucred>().read_unaligned() };
                self.sender = Some(Sender {
                    process: sender.pid,
                    user: sender.uid,
                });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn a_datagram_says_where_it_was_sent_to() {
        for (bind, targets) in [
            ("0.0.0.0:0", &["127.0.0.1", "127.0.0.2"][..]),
            ("[::]:0", &["::1", "::ffff:127.0.0.2"]),
        ] {
            let far = UdpSocket::bind(bind).unwrap();
            tell_destinations(far.as_fd(), bind.starts_with('['), true).unwrap();
            let near = UdpSocket::bind(bind).unwrap();
            let port = far.local_addr().unwrap().port();
            for target in targets {
                let target: IpAddr = target.parse().unwrap();
                near.send_to(b"data", (target, port)).unwrap();
                let found = next(far.as_fd()).unwrap();
                assert_eq!(found.to, Some(target));
                let from = found.from.unwrap();
                assert_eq!(from.port(), u32::from(near.local_addr().unwrap().port()));
                assert!(!found.is_empty);
                far.recv(&mut [0; 8]).unwrap();
            }
            near.send_to(b"", (targets[0].parse::<IpAddr>().unwrap(), port))
                .unwrap();
            assert!(next(far.as_fd()).unwrap().is_empty);
        }
    }

    #[test]
    fn a_source_is_what_the_route_says() {
        for (to, from) in [
            ("127.0.0.2:9", "127.0.0.1"),
            ("[::1]:9", "::1"),
            ("[::ffff:127.0.0.2]:9", "::ffff:127.0.0.1"),
        ] {
            let source = source_towards(&Address::Inet(to.parse().unwrap())).unwrap();
            assert_eq!(source.ip(), Some(from.parse().unwrap()), "{to}");
        }
    }

    #[test]
    fn a_datagram_says_who_sent_it() {
        let (near, far) = UnixDatagram::pair().unwrap();
        near.send(b"x").unwrap();
        assert_eq!(next(far.as_fd()).unwrap().sender, None);
        far.recv(&mut [0; 1]).unwrap();
        tell_senders(far.as_fd(), true).unwrap();
        near.send(b"x").unwrap();
        let sender = next(far.as_fd()).unwrap().sender;
        assert_eq!(
            sender,
            Some(Sender {
                process: std::process::id() as i32,
                user: rustix::process::getuid().as_raw(),
            })
        );
    }
}
