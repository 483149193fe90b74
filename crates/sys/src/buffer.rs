//! Memory that starts where it is told to, in a ring.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Buffers of one size, used round robin: [`BufferRing::advance`] gives the next.
///
/// Each starts `offset` bytes past a multiple of `alignment`, zero at first, and is never moved.
/// Memory that is not touched costs none.
#[derive(Debug)]
pub struct BufferRing {
    starts: Box<[NonNull<u8>]>,
    /// Always below the number of buffers.
    next: usize,
    size: usize,
    offset: usize,
    layout: Layout,
}

// SAFETY: the ring owns its memory alone, like a `Vec<u8>`.
unsafe impl Send for BufferRing {}

impl BufferRing {
    /// Allocates `width` buffers; `None` when there are none, the alignment is not a power of two,
    /// or size and offset are 0 together or more than there are addresses.
    pub fn new(width: usize, size: usize, alignment: usize, offset: usize) -> Option<Self> {
        let layout = Layout::from_size_align(size.checked_add(offset)?, alignment).ok()?;
        if layout.size() == 0 || width == 0 {
            return None;
        }
        let starts = (0..width)
            .map(|_| {
                // SAFETY: the layout has a size.
                let Some(base) = NonNull::new(unsafe { alloc_zeroed(layout) }) else {
                    handle_alloc_error(layout);
                };
                // SAFETY: the offset lies within the allocation, which is `size + offset` long.
                unsafe { base.add(offset) }
            })
            .collect();
        Some(Self {
            starts,
            next: 0,
            size,
            offset,
            layout,
        })
    }

    /// The next buffer: the first, then from the last down to the second, and so round, which is
    /// netperf's order and needs no comparison with the width.
    #[inline]
    pub fn advance(&mut self) -> &mut [u8] {
        let at = self.next;
        self.next = if at == 0 {
            self.starts.len() - 1
        } else {
            at - 1
        };
        // SAFETY: `at` is below the number of buffers: it was 0, or the last index, or one less
        // than such an index above 0.
        let start = unsafe { *self.starts.get_unchecked(at) };
        // SAFETY: `size` bytes from `start` are ours and initialised; `self` is borrowed as long.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.size) }
    }

    /// How many buffers.
    pub fn width(&self) -> usize {
        self.starts.len()
    }

    /// Bytes of one.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for BufferRing {
    fn drop(&mut self) {
        for start in &self.starts {
            // SAFETY: the allocation began `offset` bytes before `start` and had this layout.
            unsafe { dealloc(start.as_ptr().sub(self.offset), self.layout) }
        }
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
                assert_eq!((buffer.as_ptr() as usize - offset) % alignment, 0);
                assert_eq!(buffer.len(), size);
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
            (1, 0, 8, 0),
            (1, usize::MAX, 8, 8),
        ] {
            assert!(BufferRing::new(width, size, alignment, offset).is_none());
        }
    }
}
