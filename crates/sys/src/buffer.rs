//! Rings of data buffers with a chosen alignment and offset.

use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Minimum alignment of a buffer in bytes, so that buffers do not share a cache line.
const CACHE_LINE: usize = 64;

/// Buffers of one size, used round robin; [`BufferRing::advance`] returns the next one.
///
/// Each buffer starts `offset` bytes past a multiple of `alignment`, is zero at first, and never
/// moves. All are in one memory mapping. Untouched memory costs nothing. Dropping the ring returns
/// all memory to the system.
#[derive(Debug)]
pub struct BufferRing {
    /// The first byte of the first buffer.
    first: NonNull<u8>,
    /// Distance between buffers, in bytes.
    stride: usize,
    /// Index of the next buffer; always below `count`.
    next: usize,
    count: usize,
    size: usize,
    mapping: NonNull<u8>,
    mapped_bytes: usize,
}

// SAFETY: the ring owns its memory alone, like a `Vec<u8>`.
unsafe impl Send for BufferRing {}

impl BufferRing {
    /// Returns the memory of a ring in bytes when all of it is touched. Returns `None` if the
    /// alignment is not a power of two, the count is 0, or the size overflows.
    pub fn footprint(count: u32, size: u32, alignment: u32, offset: u32) -> Option<usize> {
        if count == 0 || !alignment.is_power_of_two() {
            return None;
        }
        (size as usize)
            .checked_add(offset as usize)?
            .max(1)
            .checked_next_multiple_of(CACHE_LINE.max(alignment as usize))?
            .checked_mul(count as usize)?
            .checked_add(alignment as usize)
    }

    /// Maps `count` buffers. Returns `None` if [`BufferRing::footprint`] does, or if the memory is
    /// unavailable.
    pub fn new(count: u32, size: u32, alignment: u32, offset: u32) -> Option<Self> {
        let mapped_bytes = Self::footprint(count, size, alignment, offset)?;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
        let mapping = unsafe { mmap_anonymous(std::ptr::null_mut(), mapped_bytes, access, flags) };
        let mapping = NonNull::new(mapping.ok()?.cast::<u8>())?;
        let padding = mapping.as_ptr().align_offset(alignment as usize);
        // SAFETY: `footprint` includes the padding, and the first stride includes the offset.
        let first = unsafe { mapping.add(padding + offset as usize) };
        Some(Self {
            first,
            stride: (mapped_bytes - alignment as usize) / count as usize,
            next: 0,
            count: count as usize,
            size: size as usize,
            mapping,
            mapped_bytes,
        })
    }

    /// Returns the next buffer: the first, then from the last down to the second, and again. This
    /// is netperf's order; it needs no comparison with the count.
    #[inline]
    pub fn advance(&mut self) -> &mut [u8] {
        // SAFETY: the `size` bytes are initialised and belong to this mapping; `self` stays
        // borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.advance_pointer().as_ptr(), self.size) }
    }

    /// Returns the last result of [`BufferRing::advance`].
    #[inline]
    pub fn current(&self) -> &[u8] {
        let index = if self.next + 1 == self.count {
            0
        } else {
            self.next + 1
        };
        // SAFETY: `index` is below the number of buffers; its `size` bytes are initialised and
        // ours.
        unsafe {
            std::slice::from_raw_parts(self.first.add(index * self.stride).as_ptr(), self.size)
        }
    }

    /// Advances like [`BufferRing::advance`], for a call that uses several buffers, or one of them
    /// several times.
    #[inline]
    pub(crate) fn advance_pointer(&mut self) -> NonNull<u8> {
        let index = self.next;
        self.next = if index == 0 {
            self.count - 1
        } else {
            index - 1
        };
        // SAFETY: `index` is below the number of buffers, so the result is in the mapping: `next`
        // starts at 0, and then goes from the last index down to 0.
        unsafe { self.first.add(index * self.stride) }
    }

    /// Returns the size of one buffer in bytes.
    pub fn size(&self) -> u32 {
        self.size as u32
    }
}

impl Drop for BufferRing {
    fn drop(&mut self) {
        // SAFETY: this is exactly the mapping, and no borrow of it remains.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapped_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_start_at_the_requested_offset() {
        for (count, size, alignment, offset) in [
            (1, 1, 1, 0),
            (3, 5, 4096, 3),
            (2, 0, 8, 1),
            (2, 100_000, 8, 0),
        ] {
            let mut ring = BufferRing::new(count, size, alignment, offset).unwrap();
            for _ in 0..=count {
                let buffer = ring.advance();
                assert_eq!(
                    (buffer.as_ptr() as usize - offset as usize) % alignment as usize,
                    0
                );
                assert_eq!(buffer.len(), size as usize);
                buffer.fill(7);
            }
        }
    }

    #[test]
    fn buffers_are_used_in_netperfs_order() {
        let mut ring = BufferRing::new(4, 1, 1, 0).unwrap();
        for mark in [0, 3, 2, 1] {
            ring.advance()[0] = mark;
        }
        let seen: Vec<u8> = (0..8).map(|_| ring.advance()[0]).collect();
        assert_eq!(seen, [0, 3, 2, 1, 0, 3, 2, 1]);
    }

    #[test]
    fn impossible_rings_are_refused() {
        for (count, size, alignment, offset) in [
            (0, 1, 8, 0),
            (1, 1, 3, 0),
            (1, 1, 0, 0),
            (u32::MAX, u32::MAX, 8, 8),
        ] {
            assert!(BufferRing::new(count, size, alignment, offset).is_none());
        }
    }
}
