//! Arrival and departure timestamps of datagrams: SO_TIMESTAMPING, recvmmsg(2),
//! Documentation/networking/timestamping.rst.

use std::fmt;
use std::io;
use std::mem;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use rustix::io::Errno;

use crate::option::set_int;

/// Enables arrival stamps by the kernel and the NIC for a socket's datagrams.
///
/// The only cost of a stamp is the datagram's control data. A NIC stamps only if its driver is
/// configured to do so.
pub fn enable_arrival_stamps(socket: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_RX_HARDWARE
        | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
    set_stamping(socket, flags)?;
    // If this fails, as without a loopback interface, the first datagrams may have no stamp.
    let _ = wait_for_stamping();
    Ok(())
}

/// Waits until the kernel stamps datagrams, which begins some time after the first socket of the
/// host has requested it. The probe socket sends datagrams to itself until one has a stamp.
fn wait_for_stamping() -> io::Result<()> {
    const MAX_PROBES: u32 = 200;
    const PROBE_INTERVAL: Duration = Duration::from_millis(1);
    let probe = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    probe.connect(probe.local_addr()?)?;
    probe.set_read_timeout(Some(PROBE_INTERVAL))?;
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    set_stamping(probe.as_fd(), flags)?;
    let mut batch = StampedBatch::new(1, 1).ok_or(io::ErrorKind::OutOfMemory)?;
    for _ in 0..MAX_PROBES {
        probe.send(&[0])?;
        if batch.receive(probe.as_fd()).is_ok() && batch.stamps(0).kernel_ns != 0 {
            break;
        }
        std::thread::sleep(PROBE_INTERVAL);
    }
    Ok(())
}

/// Enables departure reports in a socket's error queue, which [`StampedBatch::receive_departures`]
/// receives. The datagram index starts at 0 with this call.
pub fn enable_departure_reports(socket: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_ID
        | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    // Without this reset, the index of a socket with enabled reports would not restart at 0.
    set_stamping(socket, 0)?;
    set_stamping(socket, flags)
}

/// Disables the stamps of [`enable_arrival_stamps`] and [`enable_departure_reports`].
pub fn disable_stamps(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_stamping(socket, 0)
}

fn set_stamping(socket: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
    let (level, name) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
    set_int(socket, level, name, flags as i32)
}

/// Arrival stamps of a datagram; 0 if a stamp is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArrivalStamps {
    /// Time at which the driver passed it to the kernel, in nanoseconds of CLOCK_REALTIME.
    pub kernel_ns: u64,
    /// Time of arrival at the NIC, in nanoseconds of the NIC's clock.
    pub nic_ns: u64,
}

/// Report on a sent datagram from the error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The kernel passed it to the driver.
    Sent {
        /// Index among the datagrams since [`enable_departure_reports`].
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
    iovecs: Vec<libc::iovec>,
    control_buffers: Vec<ControlBuffer>,
    data: Vec<u8>,
    max_bytes: usize,
    stride: usize,
    /// Number of headers that the next call must set up: all in a new batch, later those that the
    /// kernel modified in the last call.
    used_headers: usize,
}

/// Control data: the stamps take 64 bytes. The rest is for other control messages that are enabled
/// on the socket.
type ControlBuffer = [u64; 24];

/// Extra distance between two datagrams' buffers, in bytes. It is not a multiple of a page:
/// otherwise all first bytes would fall into the same CPU cache lines.
const STRIDE_PADDING: usize = 17 * 64;

impl StampedBatch {
    /// Allocates buffers for `count` datagrams of at most `max_bytes`; longer ones are truncated.
    /// Returns `None` if there is not enough memory.
    pub fn new(count: usize, max_bytes: usize) -> Option<Self> {
        let count = count.clamp(1, crate::message::MAX_MESSAGES);
        let stride = stride(max_bytes)?;
        let mut data = Vec::new();
        data.try_reserve_exact(stride.checked_mul(count)?).ok()?;
        data.resize(stride * count, 0);
        // SAFETY: a zeroed header has no name, data or control data, and a zeroed iovec is empty.
        let (header, iovec) = unsafe { mem::zeroed() };
        Some(Self {
            headers: vec![header; count],
            iovecs: vec![iovec; count],
            control_buffers: vec![[0; _]; count],
            data,
            max_bytes,
            stride,
            used_headers: count,
        })
    }

    /// Returns the memory that a batch needs, in bytes; `None` on overflow.
    pub fn footprint(count: usize, max_bytes: usize) -> Option<usize> {
        let bytes_per_datagram =
            stride(max_bytes)? + size_of::<(libc::mmsghdr, libc::iovec, ControlBuffer)>();
        bytes_per_datagram.checked_mul(count)
    }

    /// Receives the datagrams that have arrived, at most one per buffer, and returns their count.
    /// It waits only for the first one. It fails with EAGAIN when the socket's timeout
    /// (SO_RCVTIMEO) expires.
    #[inline]
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        self.call(socket, libc::MSG_WAITFORONE | libc::MSG_TRUNC)
    }

    /// Receives the messages in the error queue without waiting, at most one per buffer, and
    /// returns their count.
    pub fn receive_departures(&mut self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        match self.call(socket, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) {
            Err(Errno::AGAIN) => Ok(0),
            result => result,
        }
    }

    #[inline]
    fn call(&mut self, socket: BorrowedFd<'_>, flags: i32) -> Result<usize, Errno> {
        let data = self.data.as_mut_ptr();
        for index in 0..self.used_headers {
            let (header, iovec) = (&mut self.headers[index].msg_hdr, &mut self.iovecs[index]);
            // SAFETY: there are as many strides of data as there are headers.
            iovec.iov_base = unsafe { data.add(index * self.stride) }.cast();
            iovec.iov_len = self.max_bytes;
            header.msg_iov = iovec;
            header.msg_iovlen = 1;
            header.msg_control = self.control_buffers[index].as_mut_ptr().cast();
            header.msg_controllen = size_of::<ControlBuffer>() as _;
        }
        self.used_headers = 0;
        // SAFETY: the call passes the number of headers. Each header points to an iovec and to
        // control data of this batch with their true lengths. Nothing else refers to them during
        // the call.
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
        self.used_headers = usize::try_from(received).map_err(|_| {
            let error = io::Error::last_os_error();
            Errno::from_io_error(&error).unwrap_or(Errno::INVAL)
        })?;
        Ok(self.used_headers)
    }

    /// Returns a datagram of the last call, without its truncated part.
    #[inline]
    pub fn datagram(&mut self, index: usize) -> &mut [u8] {
        let begin = index * self.stride;
        let length = self.length(index).min(self.max_bytes);
        &mut self.data[begin..begin + length]
    }

    /// Returns the full length of a datagram of the last call, including the truncated part.
    #[inline]
    pub fn length(&self, index: usize) -> usize {
        self.headers[index].msg_len as usize
    }

    /// Returns the arrival stamps of a datagram of the last call.
    #[inline]
    pub fn stamps(&self, index: usize) -> ArrivalStamps {
        let mut stamps = ArrivalStamps::default();
        self.for_each_control_message(index, |level, kind, data| {
            if (level, kind) == (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) {
                // SAFETY: the message contains struct scm_timestamping of linux/errqueue.h,
                // possibly unaligned.
                let times = unsafe { data.cast::<[libc::timespec; 3]>().read_unaligned() };
                stamps = ArrivalStamps {
                    kernel_ns: nanos(times[0]),
                    nic_ns: nanos(times[2]),
                };
            }
        });
        stamps
    }

    /// Parses a message of the last [`Self::receive_departures`]; `None` if it is not a departure
    /// report.
    pub fn parse_departure(&self, index: usize) -> Option<Departure> {
        let mut error = None;
        self.for_each_control_message(index, |level, kind, data| {
            let kinds = [
                (libc::IPPROTO_IP, libc::IP_RECVERR),
                (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
            ];
            if kinds.contains(&(level, kind)) {
                // SAFETY: the message begins with struct sock_extended_err of linux/errqueue.h,
                // possibly unaligned.
                error = Some(unsafe { data.cast::<libc::sock_extended_err>().read_unaligned() });
            }
        });
        let error = error?;
        match error.ee_origin {
            libc::SO_EE_ORIGIN_TIMESTAMPING => Some(Departure::Sent {
                index: error.ee_data,
                kernel_ns: self.stamps(index).kernel_ns,
            }),
            SO_EE_ORIGIN_TXTIME => Some(Departure::Missed),
            _ => None,
        }
    }

    /// Passes each control message of a datagram to `on_message`: level, type, and the start of its
    /// data.
    #[inline]
    fn for_each_control_message(
        &self,
        index: usize,
        mut on_message: impl FnMut(i32, i32, *const u8),
    ) {
        let header = &self.headers[index].msg_hdr;
        // SAFETY: recvmmsg(2) has set the header, including the length of its control data.
        let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
        while !message.is_null() {
            // SAFETY: `message` is a header within the control data.
            unsafe {
                let (level, kind) = ((*message).cmsg_level, (*message).cmsg_type);
                on_message(level, kind, libc::CMSG_DATA(message));
                message = libc::CMSG_NXTHDR(header, message);
            }
        }
    }
}

/// From linux/errqueue.h.
const SO_EE_ORIGIN_TXTIME: u8 = 6;

fn stride(max_bytes: usize) -> Option<usize> {
    max_bytes
        .checked_next_multiple_of(64)?
        .checked_add(STRIDE_PADDING)
}

fn nanos(time: libc::timespec) -> u64 {
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

impl fmt::Debug for StampedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StampedBatch")
            .field("max_count", &self.headers.len())
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::wall_ns;

    #[test]
    fn datagrams_have_arrival_stamps() {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        enable_arrival_stamps(far.as_fd()).unwrap();
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
    fn departures_are_reported_with_their_index() {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        let mut batch = StampedBatch::new(8, 1).unwrap();
        for _ in 0..2 {
            enable_departure_reports(near.as_fd()).unwrap();
            assert_eq!(batch.receive_departures(near.as_fd()), Ok(0));
            let before_ns = wall_ns();
            for _ in 0..3 {
                near.send(b"abc").unwrap();
            }
            // The loopback device stamps during the call.
            assert_eq!(batch.receive_departures(near.as_fd()), Ok(3));
            let mut last_ns = before_ns;
            for at in 0..3 {
                let Some(Departure::Sent { index, kernel_ns }) = batch.parse_departure(at) else {
                    panic!("{:?}", batch.parse_departure(at));
                };
                assert_eq!(index, at as u32);
                assert!((last_ns..=wall_ns()).contains(&kernel_ns));
                last_ns = kernel_ns;
            }
        }
        disable_stamps(near.as_fd()).unwrap();
        near.send(b"abc").unwrap();
        assert_eq!(batch.receive_departures(near.as_fd()), Ok(0));
    }

    #[test]
    fn without_the_option_there_are_no_stamps() {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.send_to(b"a", far.local_addr().unwrap()).unwrap();
        let mut batch = StampedBatch::new(1, 4).unwrap();
        assert_eq!(batch.receive(far.as_fd()), Ok(1));
        assert_eq!(batch.stamps(0), ArrivalStamps::default());
        assert!(StampedBatch::new(2, usize::MAX).is_none());
        assert!(StampedBatch::footprint(2, 1 << 16).unwrap() > 2 << 16);
    }
}
