//! Counters that a process shares with its forked children.

use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Sixteen counters in two cache lines of their own. CPUs fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct CounterBlock(pub [AtomicU64; 16]);

/// Counter lines in memory that forked processes share with their parent. All counters are 0 at
/// first.
#[derive(Debug)]
pub struct SharedLines {
    first: NonNull<CounterBlock>,
    count: usize,
}

// SAFETY: the memory lives as long as its owner and contains only atomics.
unsafe impl Send for SharedLines {}
// SAFETY: as above.
unsafe impl Sync for SharedLines {}

impl SharedLines {
    /// Allocates `count` lines.
    pub fn new(count: usize) -> io::Result<Self> {
        let (read_write, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
        let mapping = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                Self::byte_length(count),
                read_write,
                shared,
            )?
        };
        let first = NonNull::new(mapping.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { first, count })
    }

    fn byte_length(count: usize) -> usize {
        count.max(1) * size_of::<CounterBlock>()
    }
}

impl Deref for SharedLines {
    type Target = [CounterBlock];

    fn deref(&self) -> &[CounterBlock] {
        // SAFETY: the mapping holds `count` lines, is page-aligned, and zeroes are valid lines.
        // Other processes access it only with atomics.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl Drop for SharedLines {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference to it remains.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), Self::byte_length(self.count)) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::process::{self, ForkResult};

    #[test]
    fn counters_of_a_forked_process_are_visible_to_its_parent() {
        let lines = SharedLines::new(3).unwrap();
        match process::fork().unwrap() {
            ForkResult::Child => {
                lines[2].0[1].store(7, Relaxed);
                process::exit_now(3);
            }
            ForkResult::Parent(child) => {
                let status = process::wait_for_child(child).unwrap();
                assert_eq!(status.code(), Some(3));
                assert_eq!(lines[2].0[1].load(Relaxed), 7);
                assert_eq!(lines[0].0[0].load(Relaxed), 0);
            }
        }
    }
}
