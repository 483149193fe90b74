//! Several messages per call, and control data of a message: sendmmsg(2), recvmmsg(2), cmsg(3).

use std::fmt;
use std::mem;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::call::KernelAddress;
use model::SendInfo;

use crate::option::SO_TXTIME;
use crate::sctp;

/// Maximum number of messages per call: UIO_MAXIOV of linux/uio.h.
pub const MAX_MESSAGES: usize = 1024;

/// Memory per message in [`MessageHeaders`], in bytes.
pub const HEADER_BYTES: usize = size_of::<libc::mmsghdr>();

/// Message headers for one call, allocated once for many calls.
pub struct MessageHeaders {
    headers: Vec<libc::mmsghdr>,
}

/// Messages and bytes that one call sent or received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageTotals {
    /// Messages.
    pub messages: usize,
    /// Sum of their lengths.
    pub bytes: usize,
}

impl MessageTotals {
    /// Returns the totals of one message, or of one part of a stream.
    #[inline]
    pub fn single(bytes: usize) -> Self {
        Self { messages: 1, bytes }
    }
}

/// Control data of an outgoing message: SCTP options, a source address, or a launch time. cmsg(3).
#[derive(Clone, Debug)]
#[repr(C, align(8))]
pub struct ControlMessage {
    bytes: [u8; 64],
    length: usize,
}

impl MessageHeaders {
    /// Creates headers for up to `count` messages per call, at most [`MAX_MESSAGES`].
    pub fn new(count: u64) -> Self {
        let count = usize::try_from(count).map_or(MAX_MESSAGES, |count| count.min(MAX_MESSAGES));
        // SAFETY: a zeroed header is valid: no name, no data, no control data.
        let empty: libc::mmsghdr = unsafe { mem::zeroed() };
        Self {
            headers: vec![empty; count],
        }
    }

    /// Sends `data` as `count` messages with one call, or fewer if there are fewer headers. Without
    /// `is_blocking`, it fails with EAGAIN if there is no space for the first message.
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        data: &[u8],
        to: Option<&KernelAddress>,
        control: Option<&ControlMessage>,
        count: u64,
        is_blocking: bool,
    ) -> Result<MessageTotals, Errno> {
        let mut iovec = libc::iovec {
            iov_base: data.as_ptr().cast_mut().cast(),
            iov_len: data.len(),
        };
        let (name, name_length) = to.map_or((std::ptr::null_mut(), 0), KernelAddress::as_raw_parts);
        let (control, control_length) = match control {
            Some(control) => (control.bytes.as_ptr().cast_mut(), control.length),
            None => (std::ptr::null_mut(), 0),
        };
        let header_count = self.header_count(count);
        for header in &mut self.headers[..header_count] {
            let header = &mut header.msg_hdr;
            header.msg_name = name;
            header.msg_namelen = name_length;
            header.msg_iov = &raw mut iovec;
            header.msg_iovlen = 1;
            header.msg_control = control.cast();
            header.msg_controllen = control_length as _;
        }
        let flags = libc::MSG_NOSIGNAL | wait_flag(is_blocking);
        self.call(libc::SYS_sendmmsg, socket, header_count, flags)
    }

    /// Receives up to `max_count` messages with one call, or fewer if there are fewer headers. It
    /// waits only for the first message. All messages are written to the same `buffer` in turn,
    /// truncated to its length.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
        max_count: u64,
        is_blocking: bool,
    ) -> Result<MessageTotals, Errno> {
        let mut iovec = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let header_count = self.header_count(max_count);
        for header in &mut self.headers[..header_count] {
            let header = &mut header.msg_hdr;
            header.msg_name = std::ptr::null_mut();
            header.msg_iov = &raw mut iovec;
            header.msg_iovlen = 1;
            header.msg_control = std::ptr::null_mut();
            header.msg_controllen = 0;
        }
        let flags = libc::MSG_WAITFORONE | wait_flag(is_blocking);
        self.call(libc::SYS_recvmmsg, socket, header_count, flags)
    }

    /// Sends one message per iovec to the same peer with one call.
    pub(crate) fn send_iovecs(
        &mut self,
        socket: BorrowedFd<'_>,
        iovecs: &mut [libc::iovec],
        to: Option<&KernelAddress>,
        control: Option<&ControlMessage>,
    ) -> Result<MessageTotals, Errno> {
        let (name, name_length) = to.map_or((std::ptr::null_mut(), 0), KernelAddress::as_raw_parts);
        let (control, control_length) = match control {
            Some(control) => (control.bytes.as_ptr().cast_mut(), control.length),
            None => (std::ptr::null_mut(), 0),
        };
        for (header, iovec) in self.headers.iter_mut().zip(&mut *iovecs) {
            let header = &mut header.msg_hdr;
            header.msg_name = name;
            header.msg_namelen = name_length;
            header.msg_iov = iovec;
            header.msg_iovlen = 1;
            header.msg_control = control.cast();
            header.msg_controllen = control_length as _;
        }
        let count = iovecs.len().min(self.headers.len());
        self.call(libc::SYS_sendmmsg, socket, count, libc::MSG_NOSIGNAL)
    }

    /// Receives one message per iovec with one call, which waits only for the first message.
    /// `on_message` is called with each message, truncated to its iovec. The iovecs must point to
    /// initialised memory without other users during the call.
    pub(crate) fn receive_iovecs(
        &mut self,
        socket: BorrowedFd<'_>,
        iovecs: &mut [libc::iovec],
        mut on_message: impl FnMut(&mut [u8]),
    ) -> Result<MessageTotals, Errno> {
        for (header, iovec) in self.headers.iter_mut().zip(&mut *iovecs) {
            let header = &mut header.msg_hdr;
            header.msg_name = std::ptr::null_mut();
            header.msg_iov = iovec;
            header.msg_iovlen = 1;
            header.msg_control = std::ptr::null_mut();
            header.msg_controllen = 0;
        }
        let count = iovecs.len().min(self.headers.len());
        let totals = self.call(libc::SYS_recvmmsg, socket, count, libc::MSG_WAITFORONE)?;
        for (header, iovec) in self.headers[..totals.messages].iter().zip(iovecs) {
            let length = (header.msg_len as usize).min(iovec.iov_len);
            // SAFETY: the caller lends the `iov_len` bytes of each iovec for this call. Only one
            // reference exists at a time.
            on_message(unsafe { std::slice::from_raw_parts_mut(iovec.iov_base.cast(), length) });
        }
        Ok(totals)
    }

    fn header_count(&self, requested: u64) -> usize {
        usize::try_from(requested).map_or(self.headers.len(), |count| count.min(self.headers.len()))
    }

    /// Makes the system call directly; a C library may split it into several.
    fn call(
        &mut self,
        number: libc::c_long,
        socket: BorrowedFd<'_>,
        count: usize,
        flags: i32,
    ) -> Result<MessageTotals, Errno> {
        let no_timeout = std::ptr::null_mut::<libc::timespec>();
        // SAFETY: `count` is at most the number of headers. All buffers that a header points to
        // live in the caller and have the given lengths. sendmmsg(2) only reads them and ignores
        // the fifth argument.
        let result = unsafe {
            libc::syscall(
                number,
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as libc::c_uint,
                flags,
                no_timeout,
            )
        };
        let Ok(messages) = usize::try_from(result) else {
            let error = std::io::Error::last_os_error();
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
        };
        let headers = &self.headers[..messages];
        Ok(MessageTotals {
            messages,
            bytes: headers.iter().map(|header| header.msg_len as usize).sum(),
        })
    }
}

impl fmt::Debug for MessageHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageHeaders")
            .field("max_count", &self.headers.len())
            .finish_non_exhaustive()
    }
}

impl ControlMessage {
    /// Returns the control data of an SCTP message with these options.
    pub fn for_sctp(info: SendInfo) -> Self {
        /// Control message types of linux/sctp.h.
        const SCTP_SNDINFO: i32 = 2;
        const SCTP_PRINFO: i32 = 5;
        let mut control = Self::empty();
        // `struct sctp_sndinfo`: stream, flags, and fields that stay 0.
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&info.stream.to_ne_bytes());
        bytes[2..4].copy_from_slice(&sctp::send_flags(info).to_ne_bytes());
        control.push(libc::IPPROTO_SCTP, SCTP_SNDINFO, &bytes);
        if let Some(reliability) = info.reliability {
            // `struct sctp_prinfo`.
            let mut bytes = [0; 8];
            bytes[..2].copy_from_slice(&sctp::policy_number(reliability.policy).to_ne_bytes());
            bytes[4..].copy_from_slice(&reliability.value.to_ne_bytes());
            control.push(libc::IPPROTO_SCTP, SCTP_PRINFO, &bytes);
        }
        control
    }

    /// Returns control data that sets the source address of a datagram: IP_PKTINFO, ip(7);
    /// IPV6_PKTINFO, ipv6(7).
    pub fn for_source(address: IpAddr) -> Self {
        let mut control = Self::empty();
        match address {
            IpAddr::V4(address) => {
                // `struct in_pktinfo`: any interface (0), the source, and a field that stays 0.
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&address.octets());
                control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            IpAddr::V6(address) => {
                // `struct in6_pktinfo`: the source, and any interface (0).
                let mut info = [0; 20];
                info[..16].copy_from_slice(&address.octets());
                control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
        }
        control
    }

    /// Returns control data with the launch time of a datagram, by its socket's launch clock:
    /// SCM_TXTIME.
    pub fn for_launch_time(at_ns: u64) -> Self {
        let mut control = Self::empty();
        control.push(libc::SOL_SOCKET, SO_TXTIME, &at_ns.to_ne_bytes());
        control
    }

    fn empty() -> Self {
        Self {
            bytes: [0; 64],
            length: 0,
        }
    }

    /// Adds a control message. There is space for two.
    fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        // SAFETY: these macros only compute with numbers.
        let (length, padded_length, header_length) = unsafe {
            let length = data.len() as libc::c_uint;
            (
                libc::CMSG_LEN(length),
                libc::CMSG_SPACE(length) as usize,
                libc::CMSG_LEN(0) as usize,
            )
        };
        // SAFETY: a zeroed header is valid.
        let mut header: libc::cmsghdr = unsafe { mem::zeroed() };
        header.cmsg_len = length as _;
        header.cmsg_level = level;
        header.cmsg_type = kind;
        let slot = &mut self.bytes[self.length..self.length + padded_length];
        slot[header_length..header_length + data.len()].copy_from_slice(data);
        // SAFETY: the slot is longer than a header; the write may be unaligned.
        unsafe {
            slot.as_mut_ptr()
                .cast::<libc::cmsghdr>()
                .write_unaligned(header);
        };
        self.length += padded_length;
    }
}

/// Sends one datagram with control data to `to`, or to the socket's peer: sendmsg(2). Without
/// `is_blocking` it fails with EAGAIN instead of waiting.
pub fn send_with_control(
    socket: BorrowedFd<'_>,
    data: &[u8],
    to: Option<&KernelAddress>,
    control: &ControlMessage,
    is_blocking: bool,
) -> Result<usize, Errno> {
    let mut iovec = libc::iovec {
        iov_base: data.as_ptr().cast_mut().cast(),
        iov_len: data.len(),
    };
    // SAFETY: a zeroed header is valid: no name, no data, no control data.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    if let Some(to) = to {
        (header.msg_name, header.msg_namelen) = to.as_raw_parts();
    }
    header.msg_iov = &raw mut iovec;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes.as_ptr().cast_mut().cast();
    header.msg_controllen = control.length as _;
    let flags = libc::MSG_NOSIGNAL | wait_flag(is_blocking);
    // SAFETY: all buffers that the header points to are live and have the given lengths. The kernel
    // only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) };
    usize::try_from(sent).map_err(|_| {
        let error = std::io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::INVAL)
    })
}

fn wait_flag(is_blocking: bool) -> i32 {
    if is_blocking { 0 } else { libc::MSG_DONTWAIT }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;
    use crate::Address;
    use model::{PartialReliability, ReliabilityPolicy};

    fn pair() -> (UdpSocket, UdpSocket) {
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let [near, far] = sockets;
        near.connect(far.local_addr().unwrap()).unwrap();
        (near, far)
    }

    #[test]
    fn datagrams_go_several_at_a_time() {
        let (near, far) = pair();
        let mut messages = MessageHeaders::new(8);
        let sent = messages.send(near.as_fd(), b"abc", None, None, 5, true);
        let totals = MessageTotals {
            messages: 5,
            bytes: 15,
        };
        assert_eq!(sent, Ok(totals));
        let mut buffer = [0; 10];
        // The call does not wait until all eight headers are used.
        let received = messages.receive(far.as_fd(), &mut buffer, 100, true);
        assert_eq!(received, Ok(totals));
        assert_eq!(&buffer[..3], b"abc");
        let nothing = messages.receive(far.as_fd(), &mut buffer, 1, false);
        assert_eq!(nothing, Err(Errno::AGAIN));
    }

    #[test]
    fn datagrams_reach_the_given_address() {
        let (_, far) = pair();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = KernelAddress::try_from(&Address::Inet(far.local_addr().unwrap())).unwrap();
        let mut messages = MessageHeaders::new(2000);
        assert_eq!(messages.headers.len(), MAX_MESSAGES);
        let sent = messages.send(sender.as_fd(), b"x", Some(&to), None, 2, true);
        assert_eq!(sent.map(|sent| sent.messages), Ok(2));
        let mut buffer = [0; 1];
        assert_eq!(
            far.recv_from(&mut buffer).unwrap().1,
            sender.local_addr().unwrap()
        );
    }

    #[test]
    fn a_datagram_has_the_requested_source_address() {
        for (bind, from) in [
            ("0.0.0.0:0", "127.0.0.3"),
            ("[::]:0", "::1"),
            ("[::]:0", "::ffff:127.0.0.3"),
        ] {
            let from: IpAddr = from.parse().unwrap();
            let [near, far] = [(); 2].map(|()| UdpSocket::bind(bind).unwrap());
            let to = (from, far.local_addr().unwrap().port()).into();
            let to = KernelAddress::try_from(&Address::Inet(to)).unwrap();
            let sent = send_with_control(
                near.as_fd(),
                b"abc",
                Some(&to),
                &ControlMessage::for_source(from),
                true,
            );
            assert_eq!(sent, Ok(3));
            assert_eq!(far.recv_from(&mut [0; 3]).unwrap().1.ip(), from);
        }
    }

    #[test]
    fn send_info_has_the_kernels_layout() {
        let mut info = SendInfo {
            stream: 127,
            is_unordered: true,
            reliability: None,
        };
        let control = ControlMessage::for_sctp(info);
        let length = size_of::<libc::cmsghdr>();
        assert_eq!(control.length, length + 16);
        let send_info = [127_u16, 1].map(u16::to_ne_bytes).concat();
        assert_eq!(control.bytes[length..length + 4], send_info);
        info.reliability = Some(PartialReliability {
            policy: ReliabilityPolicy::Retransmissions,
            value: 3,
        });
        let control = ControlMessage::for_sctp(info);
        assert_eq!(control.length, 2 * length + 24);
        let reliability = &control.bytes[2 * length + 16..];
        assert_eq!(reliability[..2], 0x20_u16.to_ne_bytes());
        assert_eq!(reliability[4..8], 3_u32.to_ne_bytes());
    }
}
