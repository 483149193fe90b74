//! Several messages per call, and control data of a message: sendmmsg(2), recvmmsg(2), cmsg(3).

use std::fmt;
use std::mem;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::call::Peer;
use model::SendInfo;

use crate::option::SO_TXTIME;
use crate::sctp;

/// As many messages as a call takes: UIO_MAXIOV of linux/uio.h.
pub const MOST: usize = 1024;

/// Bytes that [`Messages`] keeps for each.
pub const HEADER_BYTES: usize = size_of::<libc::mmsghdr>();

/// The headers of as many messages as go in one call, made once for many calls.
pub struct Messages {
    headers: Vec<libc::mmsghdr>,
}

/// What one call has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Messages.
    pub messages: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Moved {
    /// One message, or a part of a stream.
    #[inline]
    pub fn one(bytes: usize) -> Self {
        Self { messages: 1, bytes }
    }
}

/// Control data to send with a message: options of an SCTP message, or a source address. cmsg(3).
#[derive(Clone, Debug)]
#[repr(C, align(8))]
pub struct ControlMessage {
    bytes: [u8; 64],
    length: usize,
}

impl Messages {
    /// For up to so many a call, or [`MOST`].
    pub fn new(count: u64) -> Self {
        let count = usize::try_from(count).map_or(MOST, |count| count.min(MOST));
        // SAFETY: a header of zeroes is one without a name, data and control data.
        let empty: libc::mmsghdr = unsafe { mem::zeroed() };
        Self {
            headers: vec![empty; count],
        }
    }

    /// Sends `data` so often, each time as one message, as far as there are headers: one call. Without
    /// `waits` EAGAIN when there is no room for the first.
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        data: &[u8],
        to: Option<&Peer>,
        control: Option<&ControlMessage>,
        times: u64,
        waits: bool,
    ) -> Result<Moved, Errno> {
        let mut piece = libc::iovec {
            iov_base: data.as_ptr().cast_mut().cast(),
            iov_len: data.len(),
        };
        let (name, name_length) = to.map_or((std::ptr::null_mut(), 0), Peer::for_kernel);
        let (control, control_length) = match control {
            Some(control) => (control.bytes.as_ptr().cast_mut(), control.length),
            None => (std::ptr::null_mut(), 0),
        };
        let count = self.count(times);
        for header in &mut self.headers[..count] {
            let header = &mut header.msg_hdr;
            header.msg_name = name;
            header.msg_namelen = name_length;
            header.msg_iov = &raw mut piece;
            header.msg_iovlen = 1;
            header.msg_control = control.cast();
            header.msg_controllen = control_length as _;
        }
        let flags = libc::MSG_NOSIGNAL | dont_wait(waits);
        self.call(libc::SYS_sendmmsg, socket, count, flags)
    }

    /// Receives up to so many messages, as far as there are headers: one call, which waits for the first
    /// alone. Each is cut to the buffer's length and lies there until the next.
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        buffer: &mut [u8],
        times: u64,
        waits: bool,
    ) -> Result<Moved, Errno> {
        let mut piece = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let count = self.count(times);
        for header in &mut self.headers[..count] {
            let header = &mut header.msg_hdr;
            header.msg_name = std::ptr::null_mut();
            header.msg_iov = &raw mut piece;
            header.msg_iovlen = 1;
            header.msg_control = std::ptr::null_mut();
            header.msg_controllen = 0;
        }
        let flags = libc::MSG_WAITFORONE | dont_wait(waits);
        self.call(libc::SYS_recvmmsg, socket, count, flags)
    }

    /// Sends one message per piece, all to the same peer: one call.
    pub(crate) fn send_pieces(
        &mut self,
        socket: BorrowedFd<'_>,
        pieces: &mut [libc::iovec],
        to: Option<&Peer>,
        control: Option<&ControlMessage>,
    ) -> Result<Moved, Errno> {
        let (name, name_length) = to.map_or((std::ptr::null_mut(), 0), Peer::for_kernel);
        let (control, control_length) = match control {
            Some(control) => (control.bytes.as_ptr().cast_mut(), control.length),
            None => (std::ptr::null_mut(), 0),
        };
        for (header, piece) in self.headers.iter_mut().zip(&mut *pieces) {
            let header = &mut header.msg_hdr;
            header.msg_name = name;
            header.msg_namelen = name_length;
            header.msg_iov = piece;
            header.msg_iovlen = 1;
            header.msg_control = control.cast();
            header.msg_controllen = control_length as _;
        }
        let count = pieces.len().min(self.headers.len());
        self.call(libc::SYS_sendmmsg, socket, count, libc::MSG_NOSIGNAL)
    }

    /// Receives one message per piece: one call, which waits for the first alone. `taken` gets each, cut to
    /// its piece. The pieces are initialised memory that nobody else uses meanwhile.
    pub(crate) fn receive_pieces(
        &mut self,
        socket: BorrowedFd<'_>,
        pieces: &mut [libc::iovec],
        mut taken: impl FnMut(&mut [u8]),
    ) -> Result<Moved, Errno> {
        for (header, piece) in self.headers.iter_mut().zip(&mut *pieces) {
            let header = &mut header.msg_hdr;
            header.msg_name = std::ptr::null_mut();
            header.msg_iov = piece;
            header.msg_iovlen = 1;
            header.msg_control = std::ptr::null_mut();
            header.msg_controllen = 0;
        }
        let count = pieces.len().min(self.headers.len());
        let moved = self.call(libc::SYS_recvmmsg, socket, count, libc::MSG_WAITFORONE)?;
        for (header, piece) in self.headers[..moved.messages].iter().zip(pieces) {
            let length = (header.msg_len as usize).min(piece.iov_len);
            // SAFETY: the piece is `iov_len` bytes that the caller lends for this call; one is referred to at a time.
            taken(unsafe { std::slice::from_raw_parts_mut(piece.iov_base.cast(), length) });
        }
        Ok(moved)
    }

    fn count(&self, times: u64) -> usize {
        usize::try_from(times).map_or(self.headers.len(), |times| times.min(self.headers.len()))
    }

    /// The system call itself: a C library may make several of it.
    fn call(
        &mut self,
        number: libc::c_long,
        socket: BorrowedFd<'_>,
        count: usize,
        flags: i32,
    ) -> Result<Moved, Errno> {
        let no_timeout = std::ptr::null_mut::<libc::timespec>();
        // SAFETY: there are as many headers as are told of. What each points to (data, control data, a
        // name) lives in the caller, and is as long as the header says. To send, the kernel only reads
        // it, and there is no fifth argument.
        let moved = unsafe {
            libc::syscall(
                number,
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                count as libc::c_uint,
                flags,
                no_timeout,
            )
        };
        let Ok(messages) = usize::try_from(moved) else {
            let error = std::io::Error::last_os_error();
            return Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
        };
        let moved = &self.headers[..messages];
        Ok(Moved {
            messages,
            bytes: moved.iter().map(|header| header.msg_len as usize).sum(),
        })
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages")
            .field("most", &self.headers.len())
            .finish_non_exhaustive()
    }
}

impl ControlMessage {
    /// The control data of an SCTP message with these options.
    pub fn of(info: SendInfo) -> Self {
        /// Kinds of linux/sctp.h.
        const SCTP_SNDINFO: i32 = 2;
        const SCTP_PRINFO: i32 = 5;
        let mut control = Self::nothing();
        // `struct sctp_sndinfo`: stream, flags, and what stays 0.
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

    /// The source address of a datagram: IP_PKTINFO, ip(7); IPV6_PKTINFO, ipv6(7).
    pub fn source(address: IpAddr) -> Self {
        let mut control = Self::nothing();
        match address {
            IpAddr::V4(address) => {
                // `struct in_pktinfo`: any interface, the source, and what stays 0.
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&address.octets());
                control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
            }
            IpAddr::V6(address) => {
                // `struct in6_pktinfo`: the source, and any interface.
                let mut info = [0; 20];
                info[..16].copy_from_slice(&address.octets());
                control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
            }
        }
        control
    }

    /// When a datagram leaves, by its socket's launch clock: SCM_TXTIME.
    pub fn launch_time(at_ns: u64) -> Self {
        let mut control = Self::nothing();
        control.push(libc::SOL_SOCKET, SO_TXTIME, &at_ns.to_ne_bytes());
        control
    }

    fn nothing() -> Self {
        Self {
            bytes: [0; 64],
            length: 0,
        }
    }

    /// Adds a piece of control data; there is room for two.
    fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        // SAFETY: these only compute with numbers.
        let (length, space, header) = unsafe {
            let length = data.len() as libc::c_uint;
            (
                libc::CMSG_LEN(length),
                libc::CMSG_SPACE(length) as usize,
                libc::CMSG_LEN(0) as usize,
            )
        };
        // SAFETY: a header of zeroes is one.
        let mut head: libc::cmsghdr = unsafe { mem::zeroed() };
        head.cmsg_len = length as _;
        head.cmsg_level = level;
        head.cmsg_type = kind;
        let place = &mut self.bytes[self.length..self.length + space];
        place[header..header + data.len()].copy_from_slice(data);
        // SAFETY: the place is longer than a header, and may be unaligned.
        unsafe {
            place
                .as_mut_ptr()
                .cast::<libc::cmsghdr>()
                .write_unaligned(head);
        };
        self.length += space;
    }
}

/// Sends one datagram with control data, without `to` to the socket's peer: sendmsg(2). Without `waits` it fails with
/// EAGAIN instead of waiting.
pub fn send_with(
    socket: BorrowedFd<'_>,
    data: &[u8],
    to: Option<&Peer>,
    control: &ControlMessage,
    waits: bool,
) -> Result<usize, Errno> {
    let mut piece = libc::iovec {
        iov_base: data.as_ptr().cast_mut().cast(),
        iov_len: data.len(),
    };
    // SAFETY: a header of zeroes is one without a name, data and control data.
    let mut header: libc::msghdr = unsafe { mem::zeroed() };
    if let Some(to) = to {
        (header.msg_name, header.msg_namelen) = to.for_kernel();
    }
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes.as_ptr().cast_mut().cast();
    header.msg_controllen = control.length as _;
    let flags = libc::MSG_NOSIGNAL | dont_wait(waits);
    // SAFETY: what the header points to lives here or in the caller, and is as long as it says. To send, the
    // kernel only reads it.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, flags) };
    usize::try_from(sent).map_err(|_| {
        let error = std::io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::INVAL)
    })
}

fn dont_wait(waits: bool) -> i32 {
    if waits { 0 } else { libc::MSG_DONTWAIT }
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
        let mut messages = Messages::new(8);
        let sent = messages.send(near.as_fd(), b"abc", None, None, 5, true);
        let five = Moved {
            messages: 5,
            bytes: 15,
        };
        assert_eq!(sent, Ok(five));
        let mut buffer = [0; 10];
        // It does not wait for the eight that it has room for.
        let received = messages.receive(far.as_fd(), &mut buffer, 100, true);
        assert_eq!(received, Ok(five));
        assert_eq!(&buffer[..3], b"abc");
        let nothing = messages.receive(far.as_fd(), &mut buffer, 1, false);
        assert_eq!(nothing, Err(Errno::AGAIN));
    }

    #[test]
    fn datagrams_go_to_whom_they_are_for() {
        let (_, far) = pair();
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = Peer::try_from(&Address::Inet(far.local_addr().unwrap())).unwrap();
        let mut messages = Messages::new(2000);
        assert_eq!(messages.headers.len(), MOST);
        let sent = messages.send(stranger.as_fd(), b"x", Some(&to), None, 2, true);
        assert_eq!(sent.map(|sent| sent.messages), Ok(2));
        let mut buffer = [0; 1];
        assert_eq!(
            far.recv_from(&mut buffer).unwrap().1,
            stranger.local_addr().unwrap()
        );
    }

    #[test]
    fn a_datagram_leaves_from_the_address_that_is_told() {
        for (bind, from) in [
            ("0.0.0.0:0", "127.0.0.3"),
            ("[::]:0", "::1"),
            ("[::]:0", "::ffff:127.0.0.3"),
        ] {
            let from: IpAddr = from.parse().unwrap();
            let [near, far] = [(); 2].map(|()| UdpSocket::bind(bind).unwrap());
            let to = (from, far.local_addr().unwrap().port()).into();
            let to = Peer::try_from(&Address::Inet(to)).unwrap();
            let sent = send_with(
                near.as_fd(),
                b"abc",
                Some(&to),
                &ControlMessage::source(from),
                true,
            );
            assert_eq!(sent, Ok(3));
            assert_eq!(far.recv_from(&mut [0; 3]).unwrap().1.ip(), from);
        }
    }

    #[test]
    fn send_info_is_as_the_kernel_reads_it() {
        let mut info = SendInfo {
            stream: 127,
            is_unordered: true,
            reliability: None,
        };
        let control = ControlMessage::of(info);
        let length = size_of::<libc::cmsghdr>();
        assert_eq!(control.length, length + 16);
        let told = [127_u16, 1].map(u16::to_ne_bytes).concat();
        assert_eq!(control.bytes[length..length + 4], told);
        info.reliability = Some(PartialReliability {
            policy: ReliabilityPolicy::Retransmissions,
            value: 3,
        });
        let control = ControlMessage::of(info);
        assert_eq!(control.length, 2 * length + 24);
        let patience = &control.bytes[2 * length + 16..];
        assert_eq!(patience[..2], 0x20_u16.to_ne_bytes());
        assert_eq!(patience[4..8], 3_u32.to_ne_bytes());
    }
}
