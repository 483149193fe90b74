//! Memory that starts where it is told to, in a ring.

use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Buffers do not share a cache line.
const CACHE_LINE: usize = 64;

/// Buffers of one size, used round robin: [`BufferRing::advance`] gives the next.
///
/// Each starts `offset` bytes past a multiple of `alignment`, zero at first, and is never moved. They
/// are one mapping of their own: memory that is not touched costs none, and what was touched goes
/// back to the system with the ring.
#[derive(Debug)]
pub struct BufferRing {
    /// The first byte of the first buffer.
    first: NonNull<u8>,
    /// From one buffer to the next, in bytes.
    stride: usize,
    /// Always below the number of buffers.
    next: usize,
    width: usize,
    size: usize,
    mapping: NonNull<u8>,
    mapped: usize,
}

// SAFETY: the ring owns its memory alone, like a `Vec<u8>`.
unsafe impl Send for BufferRing {}

impl BufferRing {
    /// The memory that a ring takes when all of it is touched, in bytes; `None` when it cannot be
    /// had: the alignment is not a power of two, there are no buffers, or more than there are
    /// addresses.
    pub fn footprint(width: u32, size: u32, alignment: u32, offset: u32) -> Option<usize> {
        if width == 0 || !alignment.is_power_of_two() {
            return None;
        }
        (size as usize)
            .checked_add(offset as usize)?
            .max(1)
            .checked_next_multiple_of(CACHE_LINE.max(alignment as usize))?
            .checked_mul(width as usize)?
            .checked_add(alignment as usize)
    }

    /// Maps `width` buffers; `None` as for [`BufferRing::footprint`], or when the system has not got
    /// the memory.
    pub fn new(width: u32, size: u32, alignment: u32, offset: u32) -> Option<Self> {
        let mapped = Self::footprint(width, size, alignment, offset)?;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let mapping = unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, access, flags) };
        let mapping = NonNull::new(mapping.ok()?.cast::<u8>())?;
        let to_alignment = mapping.as_ptr().align_offset(alignment as usize);
        // SAFETY: `footprint` has room for getting to the alignment, and the offset is part of the
        // first stride.
        let first = unsafe { mapping.add(to_alignment + offset as usize) };
        Some(Self {
            first,
            stride: (mapped - alignment as usize) / width as usize,
            next: 0,
            width: width as usize,
            size: size as usize,
            mapping,
            mapped,
        })
    }

    /// The next buffer: the first, then from the last down to the second, and so round, which is
    /// netperf's order and needs no comparison with the width.
    #[inline]
    pub fn advance(&mut self) -> &mut [u8] {
        // SAFETY: the `size` bytes lie in the mapping, are ours and initialised; `self` is borrowed as long.
        unsafe { std::slice::from_raw_parts_mut(self.advance_pointer().as_ptr(), self.size) }
    }

    /// The buffer that [`BufferRing::advance`] gave last.
    #[inline]
    pub fn current(&self) -> &[u8] {
        let at = if self.next + 1 == self.width {
            0
        } else {
            self.next + 1
        };
        // SAFETY: `at` is below the number of buffers, and the `size` bytes there are ours and initialised.
        unsafe { std::slice::from_raw_parts(self.first.add(at * self.stride).as_ptr(), self.size) }
    }

    /// As [`BufferRing::advance`], for a call that takes several buffers, or one of them several times.
    #[inline]
    pub(crate) fn advance_pointer(&mut self) -> NonNull<u8> {
        let at = self.next;
        self.next = if at == 0 { self.width - 1 } else { at - 1 };
        // SAFETY: `at` is below the number of buffers (it was 0, or the last index, or one less than
        // such an index above 0), so this is in the mapping.
        unsafe { self.first.add(at * self.stride) }
    }

    /// Bytes of one.
    pub fn size(&self) -> u32 {
        self.size as u32
    }
}

impl Drop for BufferRing {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and nothing is borrowed of it any more.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapped) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_start_where_they_are_told_to() {
        for (width, size, alignment, offset) in [
            (1, 1, 1, 0),
            (3, 5, 4096, 3),
            (2, 0, 8, 1),
            (2, 100_000, 8, 0),
        ] {
            let mut ring = BufferRing::new(width, size, alignment, offset).unwrap();
            for _ in 0..=width {
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
    fn the_order_is_netperfs() {
        let mut ring = BufferRing::new(4, 1, 1, 0).unwrap();
        for mark in [0, 3, 2, 1] {
            ring.advance()[0] = mark;
        }
        let seen: Vec<u8> = (0..8).map(|_| ring.advance()[0]).collect();
        assert_eq!(seen, [0, 3, 2, 1, 0, 3, 2, 1]);
    }

    #[test]
    fn what_cannot_be_allocated_is_refused() {
        for (width, size, alignment, offset) in [
            (0, 1, 8, 0),
            (1, 1, 3, 0),
            (1, 1, 0, 0),
            (u32::MAX, u32::MAX, 8, 8),
        ] {
            assert!(BufferRing::new(width, size, alignment, offset).is_none());
        }
    }
}
