//! System calls of the hot loops. They do not allocate. They return EINTR to the caller, because a
//! signal wakes the loops ([`crate::wake`]).

use std::io::IoSlice;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrAny};
use rustix::pipe::SpliceFlags;
use socket2::{SockAddr, SockAddrStorage};

use crate::Address;

/// Error number of a system call.
pub use rustix::io::Errno as Error;

/// A peer's address in the kernel's form, converted once for many calls.
#[derive(Clone, Debug)]
pub struct KernelAddress(SocketAddrAny);

impl TryFrom<&Address> for KernelAddress {
    type Error = std::io::Error;

    /// Fails if a path is too long for the kernel.
    fn try_from(address: &Address) -> std::io::Result<Self> {
        let kernel = address.to_kernel()?;
        // SAFETY: the address is valid and has this length.
        Ok(Self(unsafe {
            SocketAddrAny::read(kernel.as_ptr().cast(), kernel.len())
        }))
    }
}

impl KernelAddress {
    /// Returns the address; `None` if its family is not supported.
    pub fn address(&self) -> Option<Address> {
        Address::try_from(&to_sock_addr(&self.0)).ok()
    }

    /// Returns whether both addresses have the same family and the same host part.
    #[inline]
    pub fn shares_host_with(&self, other: &Self) -> bool {
        self.0.address_family() == other.0.address_family() && self.host() == other.host()
    }

    /// Returns the bytes of the host part; empty in a family without one.
    #[inline]
    fn host(&self) -> &[u8] {
        let (offset, length) = match self.0.address_family() {
            AddressFamily::INET => (offset_of!(libc::sockaddr_in, sin_addr), 4),
            AddressFamily::INET6 => (offset_of!(libc::sockaddr_in6, sin6_addr), 16),
            AddressFamily::VSOCK => (offset_of!(libc::sockaddr_vm, svm_cid), 4),
            _ => return &[],
        };
        if offset + length > self.0.addr_len() as usize {
            return &[];
        }
        // SAFETY: the address is initialised for its length, which these bytes lie within.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast::<u8>().add(offset), length) }
    }

    /// Returns pointer and length for a message header. They are valid for as long as `self` lives.
    pub(crate) fn as_raw_parts(&self) -> (*mut libc::c_void, libc::socklen_t) {
        (self.0.as_ptr().cast_mut().cast(), self.0.addr_len())
    }
}

/// Sends some or all of `data`: send(2). If the peer has closed, it fails with EPIPE and raises no
/// signal.
#[inline]
pub fn send(socket: BorrowedFd<'_>, data: &[u8]) -> Result<usize, Errno> {
    rustix::net::send(socket, data, SendFlags::NOSIGNAL)
}

/// Sends like [`send`], but the data may wait for the next send: MSG_MORE.
pub fn send_before_more(socket: BorrowedFd<'_>, data: &[u8]) -> Result<usize, Errno> {
    rustix::net::send(socket, data, SendFlags::NOSIGNAL | SendFlags::MORE)
}

/// Sends like [`send`], from several buffers: sendmsg(2).
pub fn send_parts(socket: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
    rustix::net::sendmsg(
        socket,
        parts,
        &mut SendAncillaryBuffer::default(),
        SendFlags::NOSIGNAL,
    )
}

/// Sends like [`send`], with write(2). SIGPIPE must be ignored, as it is in Rust programs.
#[inline]
pub fn write(socket: BorrowedFd<'_>, data: &[u8]) -> Result<usize, Errno> {
    rustix::io::write(socket, data)
}

/// Sends one datagram: sendto(2).
#[inline]
pub fn send_to(socket: BorrowedFd<'_>, data: &[u8], to: &KernelAddress) -> Result<usize, Errno> {
    rustix::net::sendto(socket, data, SendFlags::NOSIGNAL, &to.0)
}

/// Opens the connection and sends `data` with its first segment: MSG_FASTOPEN, tcp(7).
pub fn send_fast_open(
    socket: BorrowedFd<'_>,
    data: &[u8],
    to: &KernelAddress,
) -> Result<usize, Errno> {
    const MSG_FASTOPEN: u32 = libc::MSG_FASTOPEN as u32;
    let flags = SendFlags::from_bits_retain(MSG_FASTOPEN) | SendFlags::NOSIGNAL;
    rustix::net::sendto(socket, data, flags, &to.0)
}

/// Connects like [`send_fast_open`], without data: the segment carries only the cookie.
pub fn connect_fast_open(socket: BorrowedFd<'_>, to: &KernelAddress) -> Result<(), Errno> {
    send_fast_open(socket, &[], to)?;
    // After such a send, the kernel delays the last acknowledgement of the handshake by 200 ms to
    // combine it with data. Until it arrives, the peer cannot accept the connection.
    rustix::net::sockopt::set_tcp_quickack(socket, true)
}

/// Receives into `buffer`: recv(2). Returns 0 at the end of a stream and for an empty datagram.
#[inline]
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::net::recv(socket, buffer, RecvFlags::empty()).map(|(received, _)| received)
}

/// Receives like [`receive`]; on a stream it waits until the buffer is full: MSG_WAITALL. It
/// returns less only at the stream's end or after a signal.
#[inline]
pub fn receive_all(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::net::recv(socket, buffer, RecvFlags::WAITALL).map(|(received, _)| received)
}

/// Receives like [`receive`], but discards a stream's data without copying it. Of a datagram it
/// copies the beginning and returns the full length: MSG_TRUNC, tcp(7), recv(2).
#[inline]
pub fn receive_truncated(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::net::recv(socket, buffer, RecvFlags::TRUNC).map(|(_, length)| length)
}

/// Sends up to `count` bytes of `file` from `*offset` on, and advances the offset: sendfile(2).
#[inline]
pub fn send_file(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: &mut u64,
    count: usize,
) -> Result<usize, Errno> {
    rustix::fs::sendfile(socket, file, Some(offset), count)
}

/// A pipe to the null device, which discards received data without a copy to user space. Each piece
/// takes two splice(2) calls.
#[derive(Debug)]
pub struct Drain {
    read: OwnedFd,
    write: OwnedFd,
    null: OwnedFd,
}

impl Drain {
    /// Opens the pipe and /dev/null.
    pub fn open() -> std::io::Result<Self> {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let null = rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { read, write, null })
    }

    /// Discards up to `count` bytes from the socket. Returns 0 at the end of the stream.
    pub fn receive(&self, socket: BorrowedFd<'_>, count: usize) -> Result<usize, Errno> {
        let flags = SpliceFlags::MOVE;
        let received = rustix::pipe::splice(socket, None, self.write.as_fd(), None, count, flags)?;
        let mut remaining = received;
        while remaining > 0 {
            match rustix::pipe::splice(
                self.read.as_fd(),
                None,
                self.null.as_fd(),
                None,
                remaining,
                flags,
            ) {
                Ok(moved) => remaining -= moved,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(received)
    }
}

/// Opens the file at a path without access to its contents: O_PATH, open(2). Does not follow a link
/// in the last component.
pub fn open_path(path: &std::path::Path) -> std::io::Result<std::fs::File> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Accepts the next connection: accept4(2). The socket is close-on-exec.
#[inline]
pub fn accept(listener: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    rustix::net::accept_with(listener, rustix::net::SocketFlags::CLOEXEC)
}

/// Accepts like [`accept`], and also returns the peer's address if it has one.
#[inline]
pub fn accept_from(listener: BorrowedFd<'_>) -> Result<(OwnedFd, Option<KernelAddress>), Errno> {
    let flags = rustix::net::SocketFlags::CLOEXEC;
    let (connection, from) = rustix::net::acceptfrom_with(listener, flags)?;
    Ok((connection, from.map(KernelAddress)))
}

/// Connects: connect(2). Makes one attempt and returns EINTR.
#[inline]
pub fn connect(socket: BorrowedFd<'_>, to: &KernelAddress) -> Result<(), Errno> {
    rustix::net::connect(socket, &to.0)
}

/// Ends the local direction of a connection: shutdown(2).
pub fn shutdown_write(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::net::shutdown(socket, rustix::net::Shutdown::Write)
}

/// Ends both directions of a connection. Threads that block on the socket return.
pub fn shutdown(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::net::shutdown(socket, rustix::net::Shutdown::Both)
}

/// Waits until the socket is readable, has ended, or the timeout expires: poll(2). Returns whether
/// it is ready. Returns EINTR.
pub fn wait_readable(socket: BorrowedFd<'_>, timeout: std::time::Duration) -> Result<bool, Errno> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut set = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
    poll(&mut set, Some(&timespec(timeout))).map(|ready| ready > 0)
}

/// Opens a file without a name, which vanishes when it is closed. It is in the working directory
/// (O_TMPFILE, open(2)), or else in memory (memfd_create(2)). sendfile(2) takes many pages of a
/// disk file at a time, but only single pages of shared memory.
pub fn unnamed_file() -> std::io::Result<std::fs::File> {
    use rustix::fs::{MemfdFlags, Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    rustix::fs::open(".", flags, Mode::RUSR | Mode::WUSR)
        .or_else(|_| rustix::fs::memfd_create("linerate", MemfdFlags::CLOEXEC))
        .map(std::fs::File::from)
        .map_err(std::io::Error::from)
}

/// Sends as much as possible without waiting; fails with EAGAIN if not even one byte can be sent:
/// MSG_DONTWAIT, send(2).
#[inline]
pub fn send_without_waiting(socket: BorrowedFd<'_>, data: &[u8]) -> Result<usize, Errno> {
    rustix::net::send(socket, data, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

/// Sends one datagram to an address, like [`send_without_waiting`].
#[inline]
pub fn send_to_without_waiting(
    socket: BorrowedFd<'_>,
    data: &[u8],
    to: &KernelAddress,
) -> Result<usize, Errno> {
    rustix::net::sendto(
        socket,
        data,
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        &to.0,
    )
}

/// Waits until the socket is readable or writable, or the timeout expires: poll(2). Returns EINTR.
pub fn wait_readable_or_writable(
    socket: BorrowedFd<'_>,
    timeout: std::time::Duration,
) -> Result<bool, Errno> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut set = [PollFd::from_borrowed_fd(
        socket,
        PollFlags::IN | PollFlags::OUT,
    )];
    poll(&mut set, Some(&timespec(timeout))).map(|ready| ready > 0)
}

/// Waits until the socket is writable or the timeout expires: poll(2). A connecting socket is
/// writable once it has connected or failed. Returns EINTR.
pub fn wait_writable(socket: BorrowedFd<'_>, timeout: std::time::Duration) -> Result<bool, Errno> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut set = [PollFd::from_borrowed_fd(socket, PollFlags::OUT)];
    poll(&mut set, Some(&timespec(timeout))).map(|ready| ready > 0)
}

/// Receives without waiting; fails with EAGAIN if nothing has arrived: MSG_DONTWAIT, recv(2).
#[inline]
pub fn receive_without_waiting(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT).map(|(received, _)| received)
}

/// Discards the ICMP errors in the queue of a socket with IP_RECVERR: MSG_ERRQUEUE, recv(2).
///
/// A receive or send call returns and clears the last error, but leaves the queue as it is. As long
/// as it is not empty, [`wait_readable`] returns at once, although [`receive_without_waiting`] then
/// fails with EAGAIN.
pub fn discard_errors(socket: BorrowedFd<'_>) {
    // A Unix domain socket ignores the flag and would return a datagram.
    let family = rustix::net::sockopt::socket_domain(socket);
    if !matches!(family, Ok(AddressFamily::INET | AddressFamily::INET6)) {
        return;
    }
    let flags = RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT;
    while rustix::net::recv(socket, &mut [0_u8; 1], flags).is_ok() {}
}

/// Returns whether a connection has unread data, or neither the end of the stream nor an error has
/// arrived: MSG_PEEK, recv(2).
pub fn is_open(socket: BorrowedFd<'_>) -> bool {
    let mut byte = [0; 1];
    match rustix::net::recv(socket, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((received, _)) => received > 0,
        Err(error) => error == Errno::AGAIN,
    }
}

/// Receives one datagram with its sender, like [`receive_without_waiting`]: recvfrom(2).
pub fn receive_from_without_waiting(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> Result<(usize, Option<Address>), Errno> {
    let (received, _, from) = rustix::net::recvfrom(socket, buffer, RecvFlags::DONTWAIT)?;
    let from = from.and_then(|from| Address::try_from(&to_sock_addr(&from)).ok());
    Ok((received, from))
}

/// Copies received data without removing it and without waiting: MSG_PEEK, recv(2).
pub fn peek(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Error> {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    rustix::net::recv(socket, buffer, flags).map(|(length, _)| length)
}

/// Returns the source of the next datagram without removing it: MSG_PEEK, recvfrom(2).
pub fn next_source(socket: BorrowedFd<'_>) -> Result<Option<Address>, Errno> {
    let (_, _, from) = rustix::net::recvfrom(socket, &mut [0_u8; 1], RecvFlags::PEEK)?;
    Ok(from.and_then(|from| Address::try_from(&to_sock_addr(&from)).ok()))
}

fn to_sock_addr(address: &SocketAddrAny) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    let length = address.addr_len() as usize;
    // SAFETY: both are as large as any socket address, and the source is initialised for its
    // length.
    unsafe {
        std::ptr::copy_nonoverlapping(
            address.as_ptr().cast::<u8>(),
            (&raw mut storage).cast(),
            length,
        );
        SockAddr::new(storage, length as libc::socklen_t)
    }
}

/// Result of one receive call on an SCTP socket.
#[derive(Debug)]
pub struct SctpReceived {
    /// Received bytes.
    pub length: usize,
    /// Source address.
    pub from: Option<KernelAddress>,
    /// Whether the bytes are a notification of an association, not data: MSG_NOTIFICATION.
    pub is_notification: bool,
    /// Whether the message is complete: MSG_EOR.
    pub is_complete: bool,
}

/// Receives a message, part of a message, or a notification of an association: recvmsg(2), sctp(7).
#[inline]
pub fn receive_sctp(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<SctpReceived, Errno> {
    receive_sctp_with(socket, buffer, RecvFlags::empty())
}

/// Receives like [`receive_sctp`], but fails with EAGAIN if nothing has arrived: MSG_DONTWAIT.
#[inline]
pub fn receive_sctp_without_waiting(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> Result<SctpReceived, Errno> {
    receive_sctp_with(socket, buffer, RecvFlags::DONTWAIT)
}

#[inline]
fn receive_sctp_with(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> Result<SctpReceived, Errno> {
    use rustix::net::{RecvAncillaryBuffer, ReturnFlags, recvmsg};
    /// From linux/sctp.h.
    const MSG_NOTIFICATION: u32 = 0x8000;
    let received = recvmsg(
        socket,
        &mut [std::io::IoSliceMut::new(buffer)],
        &mut RecvAncillaryBuffer::default(),
        flags,
    )?;
    Ok(SctpReceived {
        length: received.bytes,
        from: received.address.map(KernelAddress),
        is_notification: received.flags.bits() & MSG_NOTIFICATION != 0,
        is_complete: received
            .flags
            .contains(ReturnFlags::from_bits_retain(libc::MSG_EOR as u32)),
    })
}

/// Waits until one of the sockets is readable and returns its index; `None` if the timeout expires:
/// poll(2). Returns EINTR.
pub fn wait_any_readable(
    sockets: &[BorrowedFd<'_>],
    timeout: std::time::Duration,
) -> Result<Option<usize>, Errno> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut set: Vec<_> = sockets
        .iter()
        .map(|socket| PollFd::from_borrowed_fd(*socket, PollFlags::IN))
        .collect();
    poll(&mut set, Some(&timespec(timeout)))?;
    Ok(set.iter().position(|socket| !socket.revents().is_empty()))
}

fn timespec(timeout: std::time::Duration) -> rustix::event::Timespec {
    rustix::event::Timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX / 2),
        tv_nsec: timeout.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queued_error_makes_a_socket_ready_until_it_is_discarded() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(closed.local_addr().unwrap()).unwrap();
        drop(closed);
        let fd = socket.as_fd();
        crate::option::set_receive_errors(fd, false).unwrap();
        socket.send(b"x").unwrap();
        let (timeout, mut buffer) = (std::time::Duration::from_secs(20), [0; 1]);
        assert_eq!(wait_readable(fd, timeout), Ok(true));
        let mut receive = || receive_without_waiting(fd, &mut buffer);
        assert_eq!(receive(), Err(Errno::CONNREFUSED));
        assert_eq!(receive(), Err(Errno::AGAIN));
        assert_eq!(wait_readable(fd, timeout), Ok(true));
        discard_errors(fd);
        assert_eq!(wait_readable(fd, std::time::Duration::ZERO), Ok(false));
    }

    #[test]
    fn kernel_addresses_share_a_host_regardless_of_port() {
        let peer =
            |text: &str| KernelAddress::try_from(&Address::Inet(text.parse().unwrap())).unwrap();
        let vsock =
            |context, port| KernelAddress::try_from(&Address::Vsock { context, port }).unwrap();
        let unix = |path: &str| KernelAddress::try_from(&Address::Unix(path.into())).unwrap();
        for (first, second, is_same) in [
            (peer("192.0.2.1:1"), peer("192.0.2.1:2"), true),
            (peer("192.0.2.1:1"), peer("192.0.2.2:1"), false),
            (peer("[2001:db8::1]:1"), peer("[2001:db8::1]:2"), true),
            (peer("[2001:db8::1]:1"), peer("[2001:db8::2]:1"), false),
            (peer("[::ffff:192.0.2.1]:1"), peer("192.0.2.1:1"), false),
            (vsock(3, 1), vsock(3, 2), true),
            (vsock(3, 1), vsock(4, 1), false),
            (unix("/a"), unix("/b"), true),
        ] {
            assert_eq!(
                first.shares_host_with(&second),
                is_same,
                "{first:?} {second:?}"
            );
        }
    }
}
