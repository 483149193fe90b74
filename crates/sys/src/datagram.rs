//! A datagram's source, destination and sending process: ip(7), ipv6(7), unix(7).

use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use socket2::{SockAddr, SockAddrStorage};

use crate::option::set_int;
use crate::{Address, Socket, Type};

/// Properties of the next datagram in the receive buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextDatagram {
    /// Its source.
    pub from: Option<Address>,
    /// Its destination address on this host, if [`report_destinations`] is on. For a multicast or
    /// broadcast datagram it is the address to answer from, or `None`.
    pub to: Option<IpAddr>,
    /// The sending process, if [`report_senders`] is on.
    pub sender: Option<SenderCredentials>,
    /// Whether it is empty.
    pub is_empty: bool,
}

/// The credentials of a sending process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderCredentials {
    /// Its process id in the local PID namespace; 0 if it has none in this namespace.
    pub process: i32,
    /// Its real user id.
    pub user: u32,
}

/// Sets whether a socket reports the destinations of its datagrams: IP_PKTINFO, or IPV6_RECVPKTINFO
/// if `v6`.
pub fn report_destinations(socket: BorrowedFd<'_>, v6: bool, on: bool) -> io::Result<()> {
    let (level, name) = if v6 {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
    } else {
        (libc::IPPROTO_IP, libc::IP_PKTINFO)
    };
    set_int(socket, level, name, on.into())
}

/// Returns the source address that the kernel prefers for a destination: connect(2) of a datagram
/// socket, which sends nothing.
pub fn preferred_source(to: &Address) -> io::Result<Address> {
    let socket = Socket::new(to.domain(), Type::DGRAM, None)?;
    socket.connect(&to.to_kernel()?)?;
    Address::local(&socket)
}

/// Sets whether a Unix domain socket reports the senders of its datagrams: SO_PASSCRED.
pub fn report_senders(socket: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    set_int(socket, libc::SOL_SOCKET, libc::SO_PASSCRED, on.into())
}

/// Returns the properties of the next datagram without removing it: MSG_PEEK, recvmsg(2).
pub fn peek_next(socket: BorrowedFd<'_>) -> Result<NextDatagram, Errno> {
    let mut from = SockAddrStorage::zeroed();
    let mut control = [0_u64; 32];
    let mut byte = [0_u8; 1];
    let mut iovec = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: byte.len(),
    };
    // SAFETY: a zeroed header is valid: no name, no data, no control data.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    header.msg_name = (&raw mut from).cast();
    header.msg_namelen = from.size_of();
    header.msg_iov = &raw mut iovec;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    // SAFETY: all buffers of the header are live and have the given lengths.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_PEEK) };
    if length < 0 {
        let error = io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
    }
    // SAFETY: the kernel wrote a socket address of this length, or none.
    let from = unsafe { SockAddr::new(from, header.msg_namelen) };
    let mut next = NextDatagram {
        from: (header.msg_namelen > 0)
            .then(|| Address::try_from(&from).ok())
            .flatten(),
        to: None,
        sender: None,
        is_empty: length == 0,
    };
    // SAFETY: recvmsg(2) has set the header and its control data.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    while !message.is_null() {
        // SAFETY: `message` is a header within the control data, followed by the data of its type.
        unsafe {
            next.record_control_message(&*message, libc::CMSG_DATA(message));
            message = libc::CMSG_NXTHDR(&raw const header, message);
        }
    }
    Ok(next)
}

impl NextDatagram {
    /// Records a control message.
    ///
    /// # Safety
    /// `data` must point to the kernel's data of a message with this header.
    unsafe fn record_control_message(&mut self, header: &libc::cmsghdr, data: *const u8) {
        match (header.cmsg_level, header.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // SAFETY: a message of this type contains this struct, possibly unaligned.
                let info = unsafe { data.cast::<libc::in_pktinfo>().read_unaligned() };
                let address = Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes());
                self.to = Some(address.into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                // SAFETY: a message of this type contains this struct, possibly unaligned.
                let info = unsafe { data.cast::<libc::in6_pktinfo>().read_unaligned() };
                let address = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                self.to = Some(address.into()).filter(|_: &IpAddr| !address.is_multicast());
            }
            (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => {
                // SAFETY: a message of this type contains this struct, possibly unaligned.
                let sender = unsafe { data.cast::<libc::ucred>().read_unaligned() };
                self.sender = Some(SenderCredentials {
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
    fn a_datagram_reports_its_destination() {
        for (bind, targets) in [
            ("0.0.0.0:0", &["127.0.0.1", "127.0.0.2"][..]),
            ("[::]:0", &["::1", "::ffff:127.0.0.2"]),
        ] {
            let far = UdpSocket::bind(bind).unwrap();
            report_destinations(far.as_fd(), bind.starts_with('['), true).unwrap();
            let near = UdpSocket::bind(bind).unwrap();
            let port = far.local_addr().unwrap().port();
            for target in targets {
                let target: IpAddr = target.parse().unwrap();
                near.send_to(b"data", (target, port)).unwrap();
                let datagram = peek_next(far.as_fd()).unwrap();
                assert_eq!(datagram.to, Some(target));
                let from = datagram.from.unwrap();
                assert_eq!(from.port(), u32::from(near.local_addr().unwrap().port()));
                assert!(!datagram.is_empty);
                far.recv(&mut [0; 8]).unwrap();
            }
            near.send_to(b"", (targets[0].parse::<IpAddr>().unwrap(), port))
                .unwrap();
            assert!(peek_next(far.as_fd()).unwrap().is_empty);
        }
    }

    #[test]
    fn the_preferred_source_follows_the_route() {
        for (to, from) in [
            ("127.0.0.2:9", "127.0.0.1"),
            ("[::1]:9", "::1"),
            ("[::ffff:127.0.0.2]:9", "::ffff:127.0.0.1"),
        ] {
            let source = preferred_source(&Address::Inet(to.parse().unwrap())).unwrap();
            assert_eq!(source.ip(), Some(from.parse().unwrap()), "{to}");
        }
    }

    #[test]
    fn a_datagram_reports_its_sender() {
        let (near, far) = UnixDatagram::pair().unwrap();
        near.send(b"x").unwrap();
        assert_eq!(peek_next(far.as_fd()).unwrap().sender, None);
        far.recv(&mut [0; 1]).unwrap();
        report_senders(far.as_fd(), true).unwrap();
        near.send(b"x").unwrap();
        let sender = peek_next(far.as_fd()).unwrap().sender;
        assert_eq!(
            sender,
            Some(SenderCredentials {
                process: std::process::id() as i32,
                user: rustix::process::getuid().as_raw(),
            })
        );
    }
}
