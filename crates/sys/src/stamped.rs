//! Datagrams with their arrival and departure times: SO_TIMESTAMPING, recvmmsg(2),
//! Documentation/networking/timestamping.rst.

use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::io::Errno;

use crate::option::set_int;

/// Enables the kernel's and the NIC's arrival stamps of a socket's datagrams.
///
/// Each stamp costs a datagram only its control data. A NIC stamps only if its driver is configured to do so.
pub fn tell_arrivals(socket: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_RX_HARDWARE
        | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
    set_stamping(socket, flags)
}

/// Enables departure reports in a socket's error queue, which [`StampedBatch::receive_departures`] receives. The
/// datagram index starts at 0 with this call.
pub fn tell_departures(socket: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_ID
        | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    // Without this reset, a socket that counts already would not restart at 0.
    set_stamping(socket, 0)?;
    set_stamping(socket, flags)
}

/// Disables the stamps that [`tell_arrivals`] or [`tell_departures`] enabled.
pub fn tell_nothing(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_stamping(socket, 0)
}

fn set_stamping(socket: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
    let (level, name) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
    set_int(socket, level, name, flags as i32)
}

/// Arrival stamps of a datagram; 0 if a stamp is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// Time at which the driver passed it to the kernel, in nanoseconds of CLOCK_REALTIME.
    pub kernel_ns: u64,
    /// Time of arrival at the NIC, in nanoseconds of the NIC's clock.
    pub nic_ns: u64,
}

/// Error queue's report on a sent datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The driver took it.
    Left {
        /// Index among the datagrams since [`tell_departures`].
        index: u32,
        /// Time, in nanoseconds of CLOCK_REALTIME.
        kernel_ns: u64,
    },
    /// The queueing discipline dropped it because its launch time had passed or was invalid.
    Missed,
}

/// Buffers for several datagrams and their control data; one call fills as many as have arrived.
pub struct StampedBatch {
    headers: Vec<libc::mmsghdr>,
    pieces: Vec<libc::iovec>,
    controls: Vec<Control>,
    data: Vec<u8>,
    longest: usize,
    stride: usize,
    /// Datagrams received since the headers were last set up; the kernel has modified these headers.
    used: usize,
}

/// Control data: the stamps take 64 bytes. The rest is for other control messages that are enabled on the socket.
type Control = [u64; 24];

/// Extra distance between two datagrams' buffers, in bytes. It is not a multiple of a page: otherwise all first bytes
/// would fall into the same CPU cache lines.
const APART: usize = 17 * 64;

impl StampedBatch {
    /// Allocates buffers for `count` datagrams of at most `longest` bytes; longer ones are truncated. Returns `None` if
    /// there is not enough memory.
    pub fn new(count: usize, longest: usize) -> Option<Self> {
        let count = count.clamp(1, crate::message::MOST);
        let stride = stride(longest)?;
        let mut data = Vec::new();
        data.try_reserve_exact(stride.checked_mul(count)?).ok()?;
        data.resize(stride * count, 0);
        // SAFETY: a header of zeroes is one without a name, data and control data; a piece of zeroes is an empty one.
        let (header, piece) = unsafe { mem::zeroed() };
        Some(Self {
            headers: vec![header; count],
            pieces: vec![piece; count],
            controls: vec![[0; _]; count],
            data,
            longest,
            stride,
            used: count,
        })
    }

    /// Returns the memory that a batch needs, in bytes; `None` on overflow.
    pub fn footprint(count: usize, longest: usize) -> Option<usize> {
        let each = stride(longest)? + size_of::<(libc::mmsghdr, libc::iovec, Control)>();
        each.checked_mul(count)
    }

    /// Receives all datagrams that have arrived and returns their count. It waits only for the first one. It fails with
    /// EAGAIN when the socket's timeout (SO_RCVTIMEO) expires.
    #[inline]
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        self.call(socket, libc::MSG_WAITFORONE | libc::MSG_TRUNC)
    }

    /// Receives all messages in the error queue without waiting, and returns their count.
    pub fn receive_departures(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        match self.call(socket, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) {
            Err(Errno::AGAIN) => Ok(0),
            result => result,
        }
    }

    #[inline]
    fn call(&mut self, socket: BorrowedFd<'_>, flags: i32) -> Result<usize, Errno> {
        let data = self.data.as_mut_ptr();
        for at in 0..self.used {
            let (header, piece) = (&mut self.headers[at].msg_hdr, &mut self.pieces[at]);
            // SAFETY: there are as many strides of data as there are headers.
            piece.iov_base = unsafe { data.add(at * self.stride) }.cast();
            piece.iov_len = self.longest;
            header.msg_iov = piece;
            header.msg_iovlen = 1;
            header.msg_control = self.controls[at].as_mut_ptr().cast();
            header.msg_controllen = size_of::<Control>() as _;
        }
        self.used = 0;
        // SAFETY: the call passes the number of headers. Each header points to a piece and to control data of this
        // batch with their true lengths. Nothing else refers to them during the call.
        let received = unsafe {
            libc::syscall(
                libc::SYS_recvmmsg,
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                flags,
                ptr::null_mut::<libc::timespec>(),
            )
        };
        self.used = usize::try_from(received).map_err(|_| {
            let error = io::Error::last_os_error();
            Errno::from_io_error(&error).unwrap_or(Errno::INVAL)
        })?;
        Ok(self.used)
    }

    /// Returns a datagram of the last call, without its truncated part.
    #[inline]
    pub fn datagram(&mut self, at: usize) -> &mut [u8] {
        let begin = at * self.stride;
        let length = self.length(at).min(self.longest);
        &mut self.data[begin..begin + length]
    }

    /// Returns its full length, including the truncated part.
    #[inline]
    pub fn length(&self, at: usize) -> usize {
        self.headers[at].msg_len as usize
    }

    /// Returns its arrival stamps.
    #[inline]
    pub fn stamps(&self, at: usize) -> Stamps {
        let mut stamps = Stamps::default();
        self.control(at, |level, kind, data| {
            if (level, kind) == (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) {
                // SAFETY: the message contains struct scm_timestamping of linux/errqueue.h, possibly unaligned.
                let times = unsafe { data.cast::<[libc::timespec; 3]>().read_unaligned() };
                stamps = Stamps {
                    kernel_ns: nanos(times[0]),
                    nic_ns: nanos(times[2]),
                };
            }
        });
        stamps
    }

    /// Parses a message of the last [`Self::receive_departures`]; `None` if it is not a departure report.
    pub fn departure(&self, at: usize) -> Option<Departure> {
        let mut error = None;
        self.control(at, |level, kind, data| {
            let kinds = [
                (libc::IPPROTO_IP, libc::IP_RECVERR),
                (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
            ];
            if kinds.contains(&(level, kind)) {
                // SAFETY: the message begins with struct sock_extended_err of linux/errqueue.h, possibly unaligned.
                error = Some(unsafe { data.cast::<libc::sock_extended_err>().read_unaligned() });
            }
        });
        let error = error?;
        match error.ee_origin {
            libc::SO_EE_ORIGIN_TIMESTAMPING => Some(Departure::Left {
                index: error.ee_data,
                kernel_ns: self.stamps(at).kernel_ns,
            }),
            SO_EE_ORIGIN_TXTIME => Some(Departure::Missed),
            _ => None,
        }
    }

    /// Passes each control message of a datagram to `see`: level, kind, and the start of its data.
    #[inline]
    fn control(&self, at: usize, mut see: impl FnMut(i32, i32, *const u8)) {
        let header = &self.headers[at].msg_hdr;
        // SAFETY: recvmmsg(2) has set the header, including the length of its control data.
        let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
        while !message.is_null() {
            // SAFETY: `message` is a header within the control data.
            unsafe {
                let (level, kind) = ((*message).cmsg_level, (*message).cmsg_type);
                see(level, kind, libc::CMSG_DATA(message));
                message = libc::CMSG_NXTHDR(header, message);
            }
        }
    }
}

/// From linux/errqueue.h.
const SO_EE_ORIGIN_TXTIME: u8 = 6;

fn stride(longest: usize) -> Option<usize> {
    longest.checked_next_multiple_of(64)?.checked_add(APART)
}

fn nanos(time: libc::timespec) -> u64 {
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

impl fmt::Debug for StampedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StampedBatch")
            .field("most", &self.headers.len())
            .field("longest", &self.longest)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::*;
    use crate::clock::wall_ns;

    #[test]
    fn datagrams_come_with_their_times() {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        tell_arrivals(far.as_fd()).unwrap();
        let mut batch = StampedBatch::new(3, 4).unwrap();
        // The kernel starts stamping shortly after the first socket enables it.
        let before_ns = loop {
            let before_ns = wall_ns();
            near.send(b"a").unwrap();
            assert_eq!(batch.receive(far.as_fd()), Ok(1));
            if batch.stamps(0).kernel_ns > 0 {
                break before_ns;
            }
        };
        for data in [&b""[..], b"abcd", b"abcdef", b"x"] {
            near.send(data).unwrap();
        }
        let after_ns = wall_ns();
        let mut last_ns = before_ns;
        for (expected, count) in [
            (&[(&b""[..], 0), (b"abcd", 4), (b"abcd", 6)][..], 3),
            (&[(b"x", 1)], 1),
        ] {
            assert_eq!(batch.receive(far.as_fd()), Ok(count));
            for (at, (data, length)) in expected.iter().enumerate() {
                assert_eq!(batch.datagram(at), *data);
                assert_eq!(batch.length(at), *length);
                let stamps = batch.stamps(at);
                assert!(
                    (last_ns..=after_ns).contains(&stamps.kernel_ns),
                    "{stamps:?}"
                );
                assert_eq!(stamps.nic_ns, 0);
                last_ns = stamps.kernel_ns;
            }
        }
        far.set_read_timeout(Some(Duration::from_millis(1)))
            .unwrap();
        assert_eq!(batch.receive(far.as_fd()), Err(Errno::AGAIN));
    }

    #[test]
    fn departures_are_told_by_their_index() {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        let mut batch = StampedBatch::new(8, 1).unwrap();
        for _ in 0..2 {
            tell_departures(near.as_fd()).unwrap();
            assert_eq!(batch.receive_departures(near.as_fd()), Ok(0));
            let before_ns = wall_ns();
            for _ in 0..3 {
                near.send(b"abc").unwrap();
            }
            // The loopback device stamps during the call.
            assert_eq!(batch.receive_departures(near.as_fd()), Ok(3));
            let mut last_ns = before_ns;
            for at in 0..3 {
                let Some(Departure::Left { index, kernel_ns }) = batch.departure(at) else {
                    panic!("{:?}", batch.departure(at));
                };
                assert_eq!(index, at as u32);
                assert!((last_ns..=wall_ns()).contains(&kernel_ns));
                last_ns = kernel_ns;
            }
        }
        tell_nothing(near.as_fd()).unwrap();
        near.send(b"abc").unwrap();
        assert_eq!(batch.receive_departures(near.as_fd()), Ok(0));
    }

    #[test]
    fn without_the_option_there_are_no_times() {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.send_to(b"a", far.local_addr().unwrap()).unwrap();
        let mut batch = StampedBatch::new(1, 4).unwrap();
        assert_eq!(batch.receive(far.as_fd()), Ok(1));
        assert_eq!(batch.stamps(0), Stamps::default());
        assert!(StampedBatch::new(2, usize::MAX).is_none());
        assert!(StampedBatch::footprint(2, 1 << 16).unwrap() > 2 << 16);
    }
}
