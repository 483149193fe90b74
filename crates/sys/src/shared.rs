//! Counters that a process shares with those that it forks.

use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Sixteen counters, on cache lines of their own: two, as CPUs fetch them in pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct CacheLine(pub [AtomicU64; 16]);

/// Lines in memory that a forked process has in common with its parent. All are 0 at first.
#[derive(Debug)]
pub struct SharedLines {
    first: NonNull<CacheLine>,
    count: usize,
}

// SAFETY: the memory is there as long as the owner, and what it holds are atomics.
unsafe impl Send for SharedLines {}
// SAFETY: as above.
unsafe impl Sync for SharedLines {}

impl SharedLines {
    /// So many lines.
    pub fn new(count: usize) -> io::Result<Self> {
        let (read_write, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping wherever the kernel likes touches nothing that is there.
        let at = unsafe {
            mmap_anonymous(std::ptr::null_mut(), Self::bytes(count), read_write, shared)?
        };
        let first = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { first, count })
    }

    fn bytes(count: usize) -> usize {
        count.max(1) * size_of::<CacheLine>()
    }
}

impl Deref for SharedLines {
    type Target = [CacheLine];

    fn deref(&self) -> &[CacheLine] {
        // SAFETY: the mapping has room for so many, is aligned to pages, and zeroes are lines. Other
        // processes write to it by atomics alone.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl Drop for SharedLines {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), Self::bytes(self.count)) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::process::{self, Forked};

    #[test]
    fn what_a_forked_process_counts_is_seen_here() {
        let lines = SharedLines::new(3).unwrap();
        match process::fork().unwrap() {
            Forked::Child => {
                lines[2].0[1].store(7, Relaxed);
                process::leave(3);
            }
            Forked::Parent(child) => {
                let end = process::wait_for(child).unwrap();
                assert_eq!(end.code(), Some(3));
                assert_eq!(lines[2].0[1].load(Relaxed), 7);
                assert_eq!(lines[0].0[0].load(Relaxed), 0);
            }
        }
    }
}
