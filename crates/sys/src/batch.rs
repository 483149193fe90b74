//! Several datagrams per call, from or into the buffers of a ring in turn: sendmmsg(2), recvmmsg(2).

use std::fmt;
use std::mem;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use crate::buffer::BufferRing;
use crate::call::Peer;
use crate::message::{ControlMessage, Messages, Moved};

/// The headers of a batch, made once for many calls.
pub struct Batch {
    messages: Messages,
    pieces: Vec<libc::iovec>,
    to: Option<Peer>,
    control: Option<ControlMessage>,
}

impl Batch {
    /// A batch of up to `count` datagrams. Those that are sent go to `to` with `control`; without `to` they go to
    /// the socket's peer.
    pub fn new(count: usize, to: Option<Peer>, control: Option<ControlMessage>) -> Self {
        // SAFETY: a piece of zeroes is an empty one.
        let empty: libc::iovec = unsafe { mem::zeroed() };
        Self {
            messages: Messages::new(count as u64),
            pieces: vec![empty; count],
            to,
            control,
        }
    }

    /// Sends the next buffers of a ring, at most `most`: one call, which returns early if a datagram cannot be
    /// sent. `prepare` gets each buffer first. A buffer of a short ring is sent several times.
    #[inline]
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        ring: &mut BufferRing,
        most: u64,
        prepare: impl FnMut(&mut [u8]),
    ) -> Result<Moved, Errno> {
        let count = self.fill(ring, most, prepare);
        let (to, control) = (self.to.as_ref(), self.control.as_ref());
        self.messages
            .send_pieces(socket, &mut self.pieces[..count], to, control)
    }

    /// Receives into the next buffers of a ring, at most `most`: one call, which waits only for the first
    /// datagram. `taken` gets each datagram, cut to the buffer's length. In a short ring a later datagram
    /// overwrites an earlier one.
    #[inline]
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        ring: &mut BufferRing,
        most: u64,
        taken: impl FnMut(&mut [u8]),
    ) -> Result<Moved, Errno> {
        let count = self.fill(ring, most, |_| ());
        self.messages
            .receive_pieces(socket, &mut self.pieces[..count], taken)
    }

    /// Points the pieces at the ring's next buffers.
    #[inline]
    fn fill(
        &mut self,
        ring: &mut BufferRing,
        most: u64,
        mut prepare: impl FnMut(&mut [u8]),
    ) -> usize {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let count = most.min(self.pieces.len());
        for piece in &mut self.pieces[..count] {
            let buffer = ring.advance_pointer().as_ptr();
            piece.iov_base = buffer.cast();
            piece.iov_len = ring.size() as usize;
            // SAFETY: the buffer is the ring's, which is borrowed, and initialised; there is no other reference
            // to it at this time.
            prepare(unsafe { std::slice::from_raw_parts_mut(buffer, piece.iov_len) });
        }
        count
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("most", &self.pieces.len())
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
        let mut batch = Batch::new(8, None, None);
        let mut next = 0;
        let sent = batch.send(near.as_fd(), &mut ring, 4, |buffer| {
            next += 1;
            buffer.fill(next);
        });
        let moved = |messages, bytes| Ok(Moved { messages, bytes });
        assert_eq!(sent, moved(4, 12));
        near.send(b"").unwrap();
        near.send(b"xy").unwrap();
        let mut seen = Vec::new();
        // No wait for more than are there.
        for (most, expected) in [(5, moved(5, 12)), (u64::MAX, moved(1, 2))] {
            let received = batch.receive(far.as_fd(), &mut ring, most, |datagram| {
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

        // One buffer will do.
        let mut ring = BufferRing::new(1, 3, 8, 0).unwrap();
        let sent = batch.send(near.as_fd(), &mut ring, u64::MAX, |buffer| buffer.fill(7));
        assert_eq!(sent, moved(8, 24));
        let received = batch.receive(far.as_fd(), &mut ring, u64::MAX, |datagram| {
            assert_eq!(datagram, [7; 3]);
        });
        assert_eq!(received, moved(8, 24));
    }
}
