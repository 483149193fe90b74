//! Several datagrams per call, using the buffers of a ring in turn: sendmmsg(2), recvmmsg(2).

use std::fmt;
use std::mem;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::buffer::BufferRing;
use crate::call::KernelAddress;
use crate::message::{ControlMessage, MessageHeaders, MessageTotals};

/// Message headers of a batch, allocated once for many calls.
pub struct DatagramBatch {
    headers: MessageHeaders,
    iovecs: Vec<libc::iovec>,
    to: Option<KernelAddress>,
    control: Option<ControlMessage>,
}

impl DatagramBatch {
    /// Creates a batch of up to `count` datagrams. `send` sends them to `to` with `control`, or to
    /// the socket's peer if `to` is `None`.
    pub fn new(count: usize, to: Option<KernelAddress>, control: Option<ControlMessage>) -> Self {
        // SAFETY: a zeroed iovec is an empty one.
        let empty: libc::iovec = unsafe { mem::zeroed() };
        Self {
            headers: MessageHeaders::new(count as u64),
            iovecs: vec![empty; count],
            to,
            control,
        }
    }

    /// Sends up to `max_count` buffers of a ring with one call, which stops at the first datagram
    /// that cannot be sent. `prepare` is called with each buffer first. If the ring has
    /// fewer buffers, the call sends some of them several times.
    #[inline]
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        ring: &mut BufferRing,
        max_count: u64,
        prepare: impl FnMut(&mut [u8]),
    ) -> Result<MessageTotals, Errno> {
        let count = self.set_iovecs(ring, max_count, prepare);
        let (to, control) = (self.to.as_ref(), self.control.as_ref());
        self.headers
            .send_iovecs(socket, &mut self.iovecs[..count], to, control)
    }

    /// Receives up to `max_count` datagrams into the ring's next buffers with one call, which waits
    /// only for the first datagram. `on_datagram` is called with each datagram, truncated to the
    /// buffer's size. In a ring with fewer buffers, later datagrams overwrite earlier ones.
    #[inline]
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        ring: &mut BufferRing,
        max_count: u64,
        on_datagram: impl FnMut(&mut [u8]),
    ) -> Result<MessageTotals, Errno> {
        let count = self.set_iovecs(ring, max_count, |_| ());
        self.headers
            .receive_iovecs(socket, &mut self.iovecs[..count], on_datagram)
    }

    /// Points the iovecs at the ring's next buffers and returns their count.
    #[inline]
    fn set_iovecs(
        &mut self,
        ring: &mut BufferRing,
        max_count: u64,
        mut prepare: impl FnMut(&mut [u8]),
    ) -> usize {
        let max_count = usize::try_from(max_count).unwrap_or(usize::MAX);
        let count = max_count.min(self.iovecs.len());
        for iovec in &mut self.iovecs[..count] {
            let buffer = ring.advance_pointer().as_ptr();
            iovec.iov_base = buffer.cast();
            iovec.iov_len = ring.size() as usize;
            // SAFETY: the buffer is initialised and belongs to the borrowed ring; no other
            // reference to it exists.
            prepare(unsafe { std::slice::from_raw_parts_mut(buffer, iovec.iov_len) });
        }
        count
    }
}

impl fmt::Debug for DatagramBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramBatch")
            .field("max_count", &self.iovecs.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn datagrams_use_the_buffers_in_turn() {
        let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        near.connect(far.local_addr().unwrap()).unwrap();
        let mut ring = BufferRing::new(5, 3, 8, 0).unwrap();
        let mut batch = DatagramBatch::new(8, None, None);
        let mut fill_byte = 0;
        let sent = batch.send(near.as_fd(), &mut ring, 4, |buffer| {
            fill_byte += 1;
            buffer.fill(fill_byte);
        });
        let totals = |messages, bytes| Ok(MessageTotals { messages, bytes });
        assert_eq!(sent, totals(4, 12));
        near.send(b"").unwrap();
        near.send(b"xy").unwrap();
        let mut seen = Vec::new();
        // The call does not wait for more datagrams.
        for (max_count, expected) in [(5, totals(5, 12)), (u64::MAX, totals(1, 2))] {
            let received = batch.receive(far.as_fd(), &mut ring, max_count, |datagram| {
                seen.push(datagram.to_vec());
            });
            assert_eq!(received, expected);
        }
        let expected: [&[u8]; 6] = [
            b"\x01\x01\x01",
            b"\x02\x02\x02",
            b"\x03\x03\x03",
            b"\x04\x04\x04",
            b"",
            b"xy",
        ];
        assert_eq!(seen, expected);

        // A ring of one buffer suffices.
        let mut ring = BufferRing::new(1, 3, 8, 0).unwrap();
        let sent = batch.send(near.as_fd(), &mut ring, u64::MAX, |buffer| buffer.fill(7));
        assert_eq!(sent, totals(8, 24));
        let received = batch.receive(far.as_fd(), &mut ring, u64::MAX, |datagram| {
            assert_eq!(datagram, [7; 3]);
        });
        assert_eq!(received, totals(8, 24));
    }
}
