//! UDP_SEGMENT: one send call per buffer of datagrams, which the kernel or the device splits.

use std::os::fd::BorrowedFd;

use sys::buffer::BufferRing;
use sys::call::{self, Error};
use sys::message::MessageTotals;

use super::method::Io;
use crate::counters::{Counter, CounterWriter};
use crate::end::Budget;
use crate::hooks::Hooks;

/// Maximum datagrams per call: UDP_MAX_SEGMENTS of linux/udp.h before Linux 6.9.
const MAX_SEGMENTS: usize = 64;

/// Maximum bytes per call: the IPv6 payload, less space for an extension header.
const MAX_CALL_BYTES: usize = 65_400;

/// A connected datagram socket that sends with UDP_SEGMENT.
pub(super) struct Gso<'a>(pub(super) BorrowedFd<'a>);

impl Io for Gso<'_> {
    fn socket(&self) -> BorrowedFd<'_> {
        self.0
    }

    fn send_call<'a, H: Hooks>(
        &'a self,
        ring: &'a mut BufferRing,
        counters: CounterWriter<'a>,
    ) -> impl FnMut(&mut H, Budget) -> Result<MessageTotals, Error> {
        let size = ring.size() as usize;
        let max_count = (MAX_CALL_BYTES / size.max(1)).clamp(1, MAX_SEGMENTS);
        let is_enabled = u16::try_from(size)
            .is_ok_and(|size| sys::option::set_udp_segment(self.0, size).is_ok());
        // Without UDP_SEGMENT, one call sends one datagram.
        let count = if is_enabled { max_count } else { 1 };
        let mut sender = SegmentSender {
            socket: self.0,
            size,
            data: (0..count).flat_map(|_| ring.advance().to_vec()).collect(),
            counters,
        };
        move |hooks: &mut H, budget| sender.send(hooks, budget)
    }
}

/// Sends one buffer per call, up to the end of the budget and of a paced sender's burst.
struct SegmentSender<'a> {
    socket: BorrowedFd<'a>,
    size: usize,
    data: Vec<u8>,
    counters: CounterWriter<'a>,
}

impl SegmentSender<'_> {
    #[inline]
    fn send(&mut self, hooks: &mut impl Hooks, budget: Budget) -> Result<MessageTotals, Error> {
        let left = budget.messages(self.size as u32);
        let left = usize::try_from(hooks.passes_due().min(left)).unwrap_or(usize::MAX);
        let length = left.saturating_mul(self.size).min(self.data.len());
        let data = &mut self.data[..length];
        for datagram in data.chunks_exact_mut(self.size) {
            hooks.before_send(datagram);
        }
        let bytes = call::send(self.socket, data)?;
        self.counters.add(Counter::SendBatches, 1);
        Ok(MessageTotals {
            messages: bytes / self.size,
            bytes,
        })
    }
}
