//! UDP_SEGMENT: one send call takes a buffer of several datagrams, and the kernel or the device cuts it.

use std::os::fd::BorrowedFd;

use sys::buffer::BufferRing;
use sys::call::{self, Error};
use sys::message::Moved;

use super::method::Io;
use crate::counters::Counter;
use crate::end::Bounds;
use crate::hooks::Hooks;

/// Datagrams per call: UDP_MAX_SEGMENTS of linux/udp.h, before Linux 6.9.
const SEGMENTS: usize = 64;

/// The most that IPv6 has in one packet, with room for an extension header.
const MOST_BYTES: usize = 65_400;

/// A connected datagram socket.
pub(super) struct Gso<'a>(pub(super) BorrowedFd<'a>);

impl Io for Gso<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.0
    }

    fn source<'a, H: Hooks>(
        &'a self,
        ring: &'a mut BufferRing,
        bounds: Bounds<'a>,
    ) -> impl FnMut(&mut H) -> Result<Moved, Error> {
        let size = ring.size() as usize;
        let fit = (MOST_BYTES / size.max(1)).clamp(1, SEGMENTS);
        let is_cut = u16::try_from(size)
            .is_ok_and(|size| sys::option::set_udp_segment(self.0, size).is_ok());
        // A kernel that cannot do it takes one datagram per call.
        let count = if is_cut { fit } else { 1 };
        let mut segments = Segments {
            socket: self.0,
            size,
            data: (0..count).flat_map(|_| ring.advance().to_vec()).collect(),
            bounds,
        };
        move |hooks: &mut H| segments.send(hooks)
    }
}

/// One call per buffer: at most the rest of the limit, and of a paced sender the rest of the interval's burst.
struct Segments<'a> {
    socket: BorrowedFd<'a>,
    size: usize,
    data: Vec<u8>,
    bounds: Bounds<'a>,
}

impl Segments<'_> {
    #[inline]
    fn send(&mut self, hooks: &mut impl Hooks) -> Result<Moved, Error> {
        let left = self.bounds.budget.messages(self.size as u32);
        let left = usize::try_from(hooks.turns_left().min(left)).unwrap_or(usize::MAX);
        let length = left.saturating_mul(self.size).min(self.data.len());
        let data = &mut self.data[..length];
        for datagram in data.chunks_exact_mut(self.size) {
            hooks.before_send(datagram);
        }
        let bytes = call::send(self.socket, data)?;
        self.bounds.budget.spend(bytes as u64);
        self.bounds.counters.add(Counter::SendBatches, 1);
        Ok(Moved {
            messages: bytes / self.size,
            bytes,
        })
    }
}
