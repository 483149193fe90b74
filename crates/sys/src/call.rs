//! The calls of the hot loops. None allocates; EINTR is the caller's to see, because that is how a
//! loop is woken ([`crate::wake`]).

use std::io::IoSlice;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrAny};
use rustix::pipe::SpliceFlags;
use socket2::{SockAddr, SockAddrStorage};

use crate::Address;

/// A system call's error number.
pub use rustix::io::Errno as Error;

/// A peer's address in the form that the kernel takes, made once for many calls.
#[derive(Clone, Debug)]
pub struct Peer(SocketAddrAny);

impl TryFrom<&Address> for Peer {
    type Error = std::io::Error;

    /// A path may be too long for the kernel.
    fn try_from(address: &Address) -> std::io::Result<Self> {
        let kernel = address.to_kernel()?;
        // SAFETY: the address is valid and as long as it says.
        Ok(Self(unsafe {
            SocketAddrAny::read(kernel.as_ptr().cast(), kernel.len())
        }))
    }
}

impl Peer {
    /// The address; `None` if it is of no family that is known here.
    pub fn address(&self) -> Option<Address> {
        Address::try_from(&own(&self.0)).ok()
    }

    /// Whether both addresses have the same host part. Addresses of different families never do.
    #[inline]
    pub fn shares_host_with(&self, other: &Self) -> bool {
        self.0.address_family() == other.0.address_family() && self.host() == other.host()
    }

    /// The bytes of the host part; none in a family without one.
    #[inline]
    fn host(&self) -> &[u8] {
        let (at, length) = match self.0.address_family() {
            AddressFamily::INET => (offset_of!(libc::sockaddr_in, sin_addr), 4),
            AddressFamily::INET6 => (offset_of!(libc::sockaddr_in6, sin6_addr), 16),
            AddressFamily::VSOCK => (offset_of!(libc::sockaddr_vm, svm_cid), 4),
            _ => return &[],
        };
        if at + length > self.0.addr_len() as usize {
            return &[];
        }
        // SAFETY: the address is initialised for its length, which these bytes lie within.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast::<u8>().add(at), length) }
    }

    /// As a message's header has it, for as long as this lives.
    pub(crate) fn for_kernel(&self) -> (*mut libc::c_void, libc::socklen_t) {
        (self.0.as_ptr().cast_mut().cast(), self.0.addr_len())
    }
}

/// Sends some or all of `data`: send(2). A closed peer is EPIPE, never a signal.
#[inline]
pub fn send(socket: BorrowedFd<'_>, data: &[u8]) -> Result<usize, Errno> {
    rustix::net::send(socket, data, SendFlags::NOSIGNAL)
}

/// As [`send`], for data that may wait for the next send: MSG_MORE.
pub fn send_before_more(socket: BorrowedFd<'_>, data: &[u8]) -> Result<usize, Errno> {
    rustix::net::send(socket, data, SendFlags::NOSIGNAL | SendFlags::MORE)
}

/// As [`send`], of bytes that lie in several places: sendmsg(2).
pub fn send_parts(socket: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
    rustix::net::sendmsg(
        socket,
        parts,
        &mut SendAncillaryBuffer::default(),
        SendFlags::NOSIGNAL,
    )
}

/// As [`send`], by write(2); SIGPIPE must be ignored, as Rust's start-up does.
#[inline]
pub fn write(socket: BorrowedFd<'_>, data: &[u8]) -> Result<usize, Errno> {
    rustix::io::write(socket, data)
}

/// Sends one datagram: sendto(2).
#[inline]
pub fn send_to(socket: BorrowedFd<'_>, data: &[u8], to: &Peer) -> Result<usize, Errno> {
    rustix::net::sendto(socket, data, SendFlags::NOSIGNAL, &to.0)
}

/// Opens the connection and sends `data` with its first segment: MSG_FASTOPEN, tcp(7).
pub fn send_fast_open(socket: BorrowedFd<'_>, data: &[u8], to: &Peer) -> Result<usize, Errno> {
    const MSG_FASTOPEN: u32 = libc::MSG_FASTOPEN as u32;
    let flags = SendFlags::from_bits_retain(MSG_FASTOPEN) | SendFlags::NOSIGNAL;
    rustix::net::sendto(socket, data, flags, &to.0)
}

/// As [`send_fast_open`] without data: the segment carries the cookie alone.
pub fn connect_fast_open(socket: BorrowedFd<'_>, to: &Peer) -> Result<(), Errno> {
    send_fast_open(socket, &[], to)?;
    // Having "sent", the kernel holds its last acknowledgement back for data, 200 ms, and the peer
    // cannot accept without it.
    rustix::net::sockopt::set_tcp_quickack(socket, true)
}

/// Receives into `buffer`: recv(2). 0 is the end of a stream or an empty datagram.
#[inline]
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::net::recv(socket, buffer, RecvFlags::empty()).map(|(taken, _)| taken)
}

/// As [`receive`], but waits until the whole buffer is full, where the socket is a stream: MSG_WAITALL. Fewer
/// only at the stream's end, or when a signal comes.
#[inline]
pub fn receive_all(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::net::recv(socket, buffer, RecvFlags::WAITALL).map(|(taken, _)| taken)
}

/// As [`receive`], without a copy of a stream's data; of a datagram the beginning is copied, and the length is that
/// of the whole: MSG_TRUNC, tcp(7), recv(2).
#[inline]
pub fn receive_truncated(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::net::recv(socket, buffer, RecvFlags::TRUNC).map(|(_, length)| length)
}

/// Sends `count` bytes of `file` from `*offset` on, which advances: sendfile(2).
#[inline]
pub fn send_file(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: &mut u64,
    count: usize,
) -> Result<usize, Errno> {
    rustix::fs::sendfile(socket, file, Some(offset), count)
}

/// A pipe to the null device, through which received data is thrown away without a copy to user
/// space: splice(2), twice a piece.
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

    /// Throws away up to `count` bytes from the socket; 0 is the end of the stream.
    pub fn receive(&self, socket: BorrowedFd<'_>, count: usize) -> Result<usize, Errno> {
        let flags = SpliceFlags::MOVE;
        let taken = rustix::pipe::splice(socket, None, self.write.as_fd(), None, count, flags)?;
        let mut left = taken;
        while left > 0 {
            match rustix::pipe::splice(
                self.read.as_fd(),
                None,
                self.null.as_fd(),
                None,
                left,
                flags,
            ) {
                Ok(moved) => left -= moved,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }
}

/// What is at a path, without a right to its contents; no link in its place: O_PATH, open(2).
pub fn at_path(path: &std::path::Path) -> std::io::Result<std::fs::File> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Takes the next connection: accept4(2), close-on-exec.
#[inline]
pub fn accept(listener: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    rustix::net::accept_with(listener, rustix::net::SocketFlags::CLOEXEC)
}

/// As [`accept`]; also returns the peer's address, if it has one.
#[inline]
pub fn accept_from(listener: BorrowedFd<'_>) -> Result<(OwnedFd, Option<Peer>), Errno> {
    let flags = rustix::net::SocketFlags::CLOEXEC;
    let (connection, from) = rustix::net::acceptfrom_with(listener, flags)?;
    Ok((connection, from.map(Peer)))
}

/// Opens a connection; one attempt, EINTR included: connect(2).
#[inline]
pub fn connect(socket: BorrowedFd<'_>, to: &Peer) -> Result<(), Errno> {
    rustix::net::connect(socket, &to.0)
}

/// Ends this end's sending: shutdown(2).
pub fn shutdown_write(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::net::shutdown(socket, rustix::net::Shutdown::Write)
}

/// Ends both directions, which wakes whoever blocks on them.
pub fn shutdown(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::net::shutdown(socket, rustix::net::Shutdown::Both)
}

/// Waits until the socket is readable (or ended) or the time is up: poll(2). EINTR is returned.
pub fn wait_readable(socket: BorrowedFd<'_>, timeout: std::time::Duration) -> Result<bool, Errno> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut set = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
    poll(&mut set, Some(&timespec(timeout))).map(|ready| ready > 0)
}

/// A file that has no name and vanishes when it is closed: below the working directory (O_TMPFILE of
/// open(2)), or where that cannot hold one, in memory (memfd_create(2)). sendfile(2) takes a disk's
/// pages many at a time and shared memory's singly.
pub fn unnamed_file() -> std::io::Result<std::fs::File> {
    use rustix::fs::{MemfdFlags, Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    rustix::fs::open(".", flags, Mode::RUSR | Mode::WUSR)
        .or_else(|_| rustix::fs::memfd_create("linerate", MemfdFlags::CLOEXEC))
        .map(std::fs::File::from)
        .map_err(std::io::Error::from)
}

/// Sends what can be sent without waiting; EAGAIN when that is nothing: MSG_DONTWAIT, send(2).
#[inline]
pub fn send_without_waiting(socket: BorrowedFd<'_>, data: &[u8]) -> Result<usize, Errno> {
    rustix::net::send(socket, data, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

/// As [`send_without_waiting`], one datagram to an address.
#[inline]
pub fn send_to_without_waiting(
    socket: BorrowedFd<'_>,
    data: &[u8],
    to: &Peer,
) -> Result<usize, Errno> {
    rustix::net::sendto(
        socket,
        data,
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        &to.0,
    )
}

/// Waits until the socket can be read from or written to, or the time is up: poll(2). EINTR is
/// returned.
pub fn wait_either(socket: BorrowedFd<'_>, timeout: std::time::Duration) -> Result<bool, Errno> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut set = [PollFd::from_borrowed_fd(
        socket,
        PollFlags::IN | PollFlags::OUT,
    )];
    poll(&mut set, Some(&timespec(timeout))).map(|ready| ready > 0)
}

/// Waits until the socket can be written to, or the time is up; a connection that is being opened,
/// until it is open or has failed: poll(2). EINTR is returned.
pub fn wait_writable(socket: BorrowedFd<'_>, timeout: std::time::Duration) -> Result<bool, Errno> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut set = [PollFd::from_borrowed_fd(socket, PollFlags::OUT)];
    poll(&mut set, Some(&timespec(timeout))).map(|ready| ready > 0)
}

/// Receives what is there; EAGAIN when that is nothing: MSG_DONTWAIT, recv(2).
#[inline]
pub fn receive_without_waiting(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT).map(|(taken, _)| taken)
}

/// Whether the other end of a connection still has it open, as far as is known here: MSG_PEEK, recv(2).
pub fn is_open(socket: BorrowedFd<'_>) -> bool {
    let mut one = [0; 1];
    match rustix::net::recv(socket, &mut one, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((taken, _)) => taken > 0,
        Err(error) => error == Errno::AGAIN,
    }
}

/// As [`receive_without_waiting`], one datagram and its sender: recvfrom(2).
pub fn receive_from_without_waiting(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> Result<(usize, Option<Address>), Errno> {
    let (taken, _, from) = rustix::net::recvfrom(socket, buffer, RecvFlags::DONTWAIT)?;
    Ok((
        taken,
        from.and_then(|from| Address::try_from(&own(&from)).ok()),
    ))
}

/// Receives what is there without removing it, and without waiting: MSG_PEEK, recv(2).
pub fn peek(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Error> {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    rustix::net::recv(socket, buffer, flags).map(|(length, _)| length)
}

/// Who sent the datagram that would be received next, which stays: MSG_PEEK, recvfrom(2).
pub fn next_source(socket: BorrowedFd<'_>) -> Result<Option<Address>, Errno> {
    let (_, _, from) = rustix::net::recvfrom(socket, &mut [0_u8; 1], RecvFlags::PEEK)?;
    Ok(from.and_then(|from| Address::try_from(&own(&from)).ok()))
}

fn own(address: &SocketAddrAny) -> SockAddr {
    let mut storage = SockAddrStorage::zeroed();
    let length = address.addr_len() as usize;
    // SAFETY: both are as large as any socket address, and the source is initialised for its length.
    unsafe {
        std::ptr::copy_nonoverlapping(
            address.as_ptr().cast::<u8>(),
            (&raw mut storage).cast(),
            length,
        );
        SockAddr::new(storage, length as libc::socklen_t)
    }
}

/// What one receive call on an SCTP socket gave.
#[derive(Debug)]
pub struct SctpReceived {
    /// How many bytes.
    pub length: usize,
    /// Who sent them.
    pub from: Option<Peer>,
    /// Whether they are not data, but tell of an association: MSG_NOTIFICATION.
    pub is_notification: bool,
    /// Whether the message is complete: MSG_EOR.
    pub is_end: bool,
}

/// Receives a message, or a part of one, or what happened to an association: recvmsg(2), sctp(7).
#[inline]
pub fn receive_sctp(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<SctpReceived, Errno> {
    receive_sctp_with(socket, buffer, RecvFlags::empty())
}

/// As [`receive_sctp`]; EAGAIN when nothing is there: MSG_DONTWAIT.
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
    /// Of linux/sctp.h.
    const MSG_NOTIFICATION: u32 = 0x8000;
    let received = recvmsg(
        socket,
        &mut [std::io::IoSliceMut::new(buffer)],
        &mut RecvAncillaryBuffer::default(),
        flags,
    )?;
    Ok(SctpReceived {
        length: received.bytes,
        from: received.address.map(Peer),
        is_notification: received.flags.bits() & MSG_NOTIFICATION != 0,
        is_end: received
            .flags
            .contains(ReturnFlags::from_bits_retain(libc::MSG_EOR as u32)),
    })
}

/// Waits until one of the sockets is readable, and says which: poll(2). EINTR is returned.
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

fn timespec(time: std::time::Duration) -> rustix::event::Timespec {
    rustix::event::Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX / 2),
        tv_nsec: time.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_by_its_addresses() {
        let peer = |text: &str| Peer::try_from(&Address::Inet(text.parse().unwrap())).unwrap();
        let vsock = |context, port| Peer::try_from(&Address::Vsock { context, port }).unwrap();
        let unix = |path: &str| Peer::try_from(&Address::Unix(path.into())).unwrap();
        for (one, other, same) in [
            (peer("192.0.2.1:1"), peer("192.0.2.1:2"), true),
            (peer("192.0.2.1:1"), peer("192.0.2.2:1"), false),
            (peer("[2001:db8::1]:1"), peer("[2001:db8::1]:2"), true),
            (peer("[2001:db8::1]:1"), peer("[2001:db8::2]:1"), false),
            (peer("[::ffff:192.0.2.1]:1"), peer("192.0.2.1:1"), false),
            (vsock(3, 1), vsock(3, 2), true),
            (vsock(3, 1), vsock(4, 1), false),
            (unix("/a"), unix("/b"), true),
        ] {
            assert_eq!(one.shares_host_with(&other), same, "{one:?} {other:?}");
        }
    }
}
